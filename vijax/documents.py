"""What a model of documents says beside what every model does."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.families import Dirichlet, Family


class OfDocuments(NamedTuple):
    """Its data are bags of words, which any text reader of `vijax.data` supplies.

    Attributes:
      vocab_size: V; the ids of words are below it.
      shares: (stats, locals of one length bucket, key) -> expected topic shares of its documents; None where there are
        none.
      by_word: globals that are Dirichlets of batch shape (K,) over the words, of whose columns a batch reads those of
        its own words alone; and, of each, the hyperparameter that is its prior's concentration, a scalar or (V,). The
        model's prior of it is `word_prior`, and its bound reads statistics of any number of words, as `stats[name].log`
        (K, words) or `stats[name].by_word` (words, K). Needed for `vijax.topics.by_words`.
      choose: (hyper, columns of the concentrations of topics by word, their totals, `Documents`, L, share that may be
        left out) -> the topics that each document is likely to use (`vijax.models.active_topics.Chosen`); None of
        models whose bound does not read documents held to them (`vijax.models.active_topics.Held`). The statistics of
        the one global by word are then those of pairs (`vijax.families.by_pair`).
    """

    vocab_size: int
    shares: Callable[[PyTree, PyTree, PRNGKeyArray], Float[Array, "docs K"]] | None = None
    by_word: Mapping[str, str] = types.MappingProxyType({})
    choose: Callable[..., Any] | None = None


def word_prior(eta: Any, num_topics: int, vocab_size: int) -> Any:
    """The prior of K topics over V words; over as many as `eta` has, where that is one of each. What a batch sees of
    the prior is that itself.

    >>> word_prior(jnp.asarray(0.5), 2, 3).concentration.shape
    (2, 3)
    """
    if isinstance(eta, Family):
        return eta
    return Dirichlet(jnp.broadcast_to(eta, (num_topics, vocab_size if jnp.ndim(eta) == 0 else jnp.size(eta))))
