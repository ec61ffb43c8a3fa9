"""The decision between steps by words and steps on all words, made once, from the data, before step
1. `vijax.fit` and the command line both call `choose_steps`."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax

from vijax import tree
from vijax.families.by_row import StoredByRow
from vijax.inference.compose import Algorithm
from vijax.inference.wrappers.wrapper import Wrapper, check_algorithm, find_wrapper, wrap
from vijax.topics.own_words import ByWords, OwnWordsLoader, by_words, word_tables

ROWS = ("svi", "ssvi_a")
"""Named algorithms whose steps are by words by default: the steps are the same, or the same in
law."""
WORTH = 2**16
"""Numbers of the topics that steps by words must spare: then a step saves about a millisecond."""


@dataclasses.dataclass(frozen=True)
class AllWords(Wrapper):
    """The wrapper of `all_words`."""

    name: ClassVar[str] = "all_words"


def all_words(alg: Algorithm) -> Algorithm:
    """An algorithm whose steps move the topics of all words, even if steps by words would cost
    less. It changes only the decision of `vijax.fit`; for a model without tables over words it is
    the algorithm itself."""
    check_algorithm(alg)
    if not word_tables(alg.spec.model):
        return alg
    return wrap(alg, AllWords())


def choose_steps(alg: Algorithm, loader: Any, state: Any = None) -> Algorithm:
    """The algorithm for a fit to these data: `vijax.topics.by_words(alg)` if that pays, else `alg`.

    Steps by words pay if batches hold less than half of the vocabulary, and a step is spared
    `WORTH` numbers at least. `vijax.svi` and `vijax.ssvi_a` take them on minibatches, unless
    `vijax.topics.all_words` says otherwise, or a wrapper or a choice does not go with them (see
    `vijax.topics.by_words`).

    Args:
      alg: an algorithm.
      loader: the batches of the data.
      state: the state that the fit resumes: its form decides, not the data; None at a start.
    """
    has_decided = any(find_wrapper(alg, kind) is not None for kind in (AllWords, ByWords))
    if alg.spec.name not in ROWS or has_decided:
        return alg
    try:
        lazy = by_words(alg)
    except ValueError:  # the reason matters only to users who ask for steps by words
        return alg
    if state is not None:
        return lazy if _is_stored_by_row(state) else alg
    return lazy if loader.steps_per_epoch > 1 and pays(alg, loader) else alg


def _is_stored_by_row(state: Any) -> bool:
    """True for a state, or several runs stacked in `states`, of steps by words."""
    posterior = getattr(getattr(state, "states", state), "posterior", {})
    return any(isinstance(q, StoredByRow) for q in posterior.values())


def is_by_words(alg: Algorithm) -> bool:
    """True for an algorithm whose steps are by words."""
    return find_wrapper(alg, ByWords) is not None


def pays(alg: Algorithm, loader: Any) -> bool:
    """True if batches hold few of the words, and a step is spared many numbers."""
    model = alg.spec.model
    prior = jax.eval_shape(model.prior, dict(model.hyper))
    num_words = model.form.documents.vocab_size  # type: ignore[union-attr]
    table_size = max(tree.parameters(prior[name])[0].size for name in word_tables(model))
    num_topics = table_size // num_words
    if num_topics * num_words < WORTH:
        return False
    batch_words = max(OwnWordsLoader(loader, num_words).count_words())
    return 2 * batch_words < num_words and num_topics * (num_words - batch_words) >= WORTH
