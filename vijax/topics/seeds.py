"""Seed words: a prior under which words that the user names belong to topics (Lu, Ott, Cardie and Tsou 2011, section 3;
Jagarlamudi, Daume and Udupa 2012)."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from vijax.arguments import Positive, Positives, Size, checked
from vijax.checks import require

SEED_WEIGHT = 50.0
"""The weight of a seed word where nothing is said."""


@checked
def seeded(
    seeds: Sequence[Sequence[str]],
    vocabulary: Sequence[str],
    num_topics: Size,
    eta: Positives = 0.1,
    weight: Positive = SEED_WEIGHT,
) -> Float[np.ndarray, "K V"]:
    """The concentrations of topics, (K, V), under which the first topics hold the words that are named for them: the
    argument `eta` of `vijax.models.lda` and `vijax.models.ctm`. Topics without such words are found as ever.

    Args:
      seeds: the words of topic 0, of topic 1, ...; empty for a topic without any.
      vocabulary: the words by id, as `corpus.vocabulary`.
      num_topics: K, how many topics.
      eta: prior concentration of all other words; a scalar or shape (V,).
      weight: how often a seed word is taken to have been seen in its topic before the data.

    Raises:
      ValueError: more lists than topics, a word that is not in the vocabulary.

    >>> seeded([["sun"], [], ["sea"]], ["sun", "rain", "sea"], 3, eta=0.5, weight=10).tolist()
    [[10.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0.5, 0.5, 10.5]]
    """
    places = {word: v for v, word in enumerate(vocabulary)}
    named = [word for words in seeds for word in words]
    unknown = [word for word in named if word not in places]
    nearest = {word: difflib.get_close_matches(word, places, n=1, cutoff=0.6) for word in unknown[:5]}
    said = ", ".join(f"{word!r}" + "".join(f" (there is {near!r})" for near in nearest[word]) for word in nearest)
    remedy = "Write them as the vocabulary has them: what is rare or a stop word is left out of it."
    require(not unknown, "seeds", "words of the vocabulary", f"{len(unknown)} others: {said}", remedy)
    require(len(seeds) <= num_topics, "seeds", f"at most {num_topics} lists, one a topic", len(seeds))
    found = np.array(np.broadcast_to(np.asarray(eta, float), (num_topics, len(places))))
    for k, words in enumerate(seeds):
        found[k, [places[word] for word in words]] += weight
    return found
