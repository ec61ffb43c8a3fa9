"""The number of topics: held-out score, coherence and exclusivity of fits of several numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.algorithms import cavi
from vijax.checks import check_key, require
from vijax.data.corpora.corpus import split_ids
from vijax.evaluate import exclusivity, semantic_coherence
from vijax.fitting.fit import fit as vijax_fit
from vijax.models.documents.lda import smoothed_topics
from vijax.models.structural.stm import Stm
from vijax.terminal import printable


class OfNumber(NamedTuple):
    """Scores of a fit with some number of topics.

    Attributes:
      num_topics: K.
      score: held-out document completion, nats per word.
      error: its standard error.
      coherence: semantic coherence of the leading words (`vijax.evaluate.semantic_coherence`), 0 at
          best.
      exclusivity: their exclusivity (`vijax.evaluate.exclusivity`), 1 at best.
      fit: the fit.
    """

    num_topics: int
    score: float
    error: float
    coherence: float
    exclusivity: float
    fit: Any


@dataclasses.dataclass(frozen=True)
class Searched:
    """Fits of several numbers of topics; printed as a table."""

    found: tuple[OfNumber, ...]

    def __str__(self) -> str:
        lines = ["topics  held-out score     coherence  exclusivity"]
        for one in self.found:
            score = f"{one.score:8.4f} ± {one.error:.4f}"
            lines.append(
                f"{one.num_topics:6d}  {score}  {one.coherence:9.3f}  {one.exclusivity:11.3f}"
            )
        return printable("\n".join(lines))


def search_k(
    make: Callable[..., Any],
    numbers: Sequence[int],
    corpus: Any,
    table: Any = None,
    *,
    key: PRNGKeyArray,
    held_out: float | int = 0.1,
    algorithm: Callable[[Any], Any] = cavi,
    **how: Any,
) -> Searched:
    """Fits of topic models of several numbers of topics, to choose one (`searchK` of R's stm).

    More topics score better until they learn what is of the training data alone; they are more
    exclusive and less coherent.

    Args:
      make: (K, training documents) -> model; with a table (K, documents, their rows of it) ->
          `vijax.stm`.
      numbers: the numbers K.
      corpus: a `vijax.data.Corpus`.
      table: a table of pandas, a row for each document.
      key: random key; the same documents are held out for each K.
      held_out: share or number of documents for the score.
      algorithm: model -> algorithm.
      **how: for `vijax.fit`, such as `num_steps`.

    >>> from vijax.data import synthetic
    >>> import jax, vijax as vi
    >>> corpus, _ = synthetic.lda_corpus(num_documents=60, num_topics=2, vocab_size=20, seed=0)
    >>> make = lambda k, documents: vi.models.lda(k, 20)
    >>> found = search_k(make, [2], corpus, key=jax.random.key(0), num_steps=5)
    >>> print(str(found).split()[:3])
    ['topics', 'held-out', 'score']
    """
    check_key(key)
    require(len(numbers) > 0, "numbers", "one number of topics or more", "none")
    rows = split_ids(corpus.num_documents, held_out, 0)
    train, test = (corpus[part] for part in rows)
    tables: list[tuple] = [(), ()] if table is None else [(_rows_of(table, part),) for part in rows]
    found = []
    for number in numbers:
        model = make(number, train, *tables[0])
        is_described = isinstance(model, Stm)
        fit = vijax_fit(algorithm(model), model.data if is_described else train, key=key, **how)
        score = fit.score(model.described(test, *tables[1]) if is_described else test, key=key)
        topics = np.asarray(smoothed_topics(fit.estimates))
        words = {"num_words": min(10, topics.shape[1])}
        scores = semantic_coherence(topics, train, **words).mean, exclusivity(topics, **words).mean
        found.append(OfNumber(int(number), score.mean, score.standard_error, *scores, fit))
    return Searched(tuple(found))


def _rows_of(table: Any, rows: np.ndarray) -> Any:
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    return {name: np.asarray(values)[rows] for name, values in dict(table).items()}
