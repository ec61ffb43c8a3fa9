"""What a model says of its data: `DataForm`, and of bags of words `OfDocuments`."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from vijax.families import Dirichlet, Family


class OfDocuments(NamedTuple):
    """The data of a model are bags of words, which any text reader of `vijax.data` supplies.

    Attributes:
      vocab_size: V; the ids of words are below it.
      by_word: globals that are Dirichlets of batch shape (K,) over the words, of whose columns a batch reads those of
        its own words alone; and, of each, the hyperparameter that is its prior's concentration, a scalar or (V,). The
        model's prior of it is `word_prior`, and its bound reads statistics of any number of words, as `stats[name].log`
        (K, words) or `stats[name].by_word` (words, K). Needed for `vijax.topics.by_words`.
      choose: (hyper, columns of the concentrations of topics by word, their totals, `Documents`, L, share that may be
        left out) -> the topics that each document is likely to use (`vijax.topics.active_topics.Chosen`); None of
        models whose bound does not read documents held to them (`vijax.topics.active_topics.Held`). The statistics of
        the one global by word are then those of pairs (`vijax.families.discrete.by_pair`).
    """

    vocab_size: int
    by_word: Mapping[str, str] = types.MappingProxyType({})
    choose: Callable[..., Any] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class DataForm:
    """What data a model reads, and how.

    Attributes:
      check: raises ValueError on arrays of data that cannot be, naming row and column; `vijax.fit` calls it, once.
        None: every number must be finite. One of your own may let NaN stand for missing values.
      kinds: what each array of data is, in the structure of the data or of their upper part: "number", "index" or
        "mask" (`vijax.contract.intake`). None: found by tracing the bound with floats in the place of integers.
      documents: of bags of words, what these need; else None.
      one_group: the data, whatever they are, are one group.
      given: all the data, of models made for given data; None of those that fit data of any size.
    """

    check: Callable[[PyTree], None] | None = None
    kinds: PyTree = None
    documents: OfDocuments | None = None
    one_group: bool = False
    given: PyTree = None

    @property
    def num_groups(self) -> int | None:
        """N, of models made for given data."""
        return None if self.given is None else int(np.shape(jax.tree.leaves(self.given)[0])[0])


ANY_FORM = DataForm()
"""Arrays of any kind, with one leading axis of groups."""


def word_prior(eta: Any, num_topics: int, vocab_size: int) -> Any:
    """The prior of K topics over V words; over as many as `eta` has, where that is one of each. What a batch sees of
    the prior is that itself.

    >>> word_prior(jnp.asarray(0.5), 2, 3).concentration.shape
    (2, 3)
    """
    if isinstance(eta, Family):
        return eta
    return Dirichlet(jnp.broadcast_to(eta, (num_topics, vocab_size if jnp.ndim(eta) == 0 else jnp.size(eta))))
