"""Steps by words or on all words: decided once, before step 1, from the data. `vijax.fit` and the
command line both ask `choose_steps`."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax

from vijax import tree
from vijax.families.by_row import StoredByRow
from vijax.inference.compose import Algorithm
from vijax.inference.wrappers.wrapper import Wrapper, find_wrapper, wrap
from vijax.topics.own_words import ByWords, OwnWordsLoader, by_words, word_tables

ROWS = ("svi", "ssvi_a")
"""Rows that are taken by words where nothing is said: the steps are the same, or the same in
law."""
USUAL_PENALTY_EVERY = 10
"""Steps of these rows between evaluations of the penalty, where nothing is said; by words it is
about once a pass."""
WORTH = 2**16
"""Numbers of the topics that a step must be spared: it saves about a millisecond then."""


@dataclasses.dataclass(frozen=True)
class AllWords(Wrapper):
    """The wrapper of `all_words`."""

    name: ClassVar[str] = "all_words"


def all_words(alg: Algorithm) -> Algorithm:
    """An algorithm whose steps move the topics of all words, also where steps by words would cost
    less; short: `lazy=False`. It changes nothing but what `vijax.fit` decides."""
    return wrap(alg, AllWords())


def choose_steps(alg: Algorithm, loader: Any, state: Any = None) -> Algorithm:
    """The algorithm that a fit to these data takes: `vijax.topics.by_words(alg)` where that pays,
    else `alg`.

    Steps by words pay where batches hold less than half of the vocabulary, and a step is spared at
    least `WORTH` numbers. They are taken of `vijax.svi` and `vijax.ssvi_a` on minibatches, unless
    `lazy` says otherwise or a wrapper or a choice does not go with them (`vijax.topics.by_words`
    says which).

    Args:
      alg: an algorithm.
      loader: the batches of the data.
      state: the state from which the fit goes on, whose form decides and not the data; None at a
          start.
    """
    if alg.spec.name not in ROWS or any(
        find_wrapper(alg, kind) is not None for kind in (AllWords, ByWords)
    ):
        return alg
    every = alg.spec.penalty_every
    try:
        lazy = by_words(alg, penalty_every=None if every == USUAL_PENALTY_EVERY else every)
    except ValueError:  # it says why not, which matters to those who ask for it
        return alg
    if state is not None:
        kept = getattr(
            getattr(state, "states", state), "posterior", {}
        )  # of runs side by side they are in `states`
        return lazy if any(isinstance(q, StoredByRow) for q in kept.values()) else alg
    return lazy if loader.steps_per_epoch > 1 and pays(alg, loader) else alg


def is_by_words(alg: Algorithm) -> bool:
    """True of an algorithm whose steps are by words."""
    return find_wrapper(alg, ByWords) is not None


def pays(alg: Algorithm, loader: Any) -> bool:
    """True where batches hold few of the words, and a step is spared many numbers."""
    model = alg.spec.model
    prior = jax.eval_shape(model.prior, dict(model.hyper))
    num_words = model.form.documents.vocab_size  # type: ignore[union-attr]
    num_topics = (
        max(tree.parameters(prior[name])[0].size for name in word_tables(model)) // num_words
    )
    if num_topics * num_words < WORTH:
        return False
    most = max(OwnWordsLoader(loader, num_words).words_of_batches())
    return 2 * most < num_words and num_topics * (num_words - most) >= WORTH
