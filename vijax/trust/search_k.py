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


class TopicScores(NamedTuple):
    """Scores of a fit with K topics.

    Attributes:
      num_topics: K.
      score: held-out document completion, nats per word.
      error: its standard error.
      coherence: semantic coherence of the leading words (`vijax.evaluate.semantic_coherence`), 0 at
          best.
      exclusivity: exclusivity of the leading words (`vijax.evaluate.exclusivity`), 1 at best.
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

    found: tuple[TopicScores, ...]

    def __str__(self) -> str:
        lines = ["topics  held-out score     coherence  exclusivity"]
        for row in self.found:
            score = f"{row.score:8.4f} ± {row.error:.4f}"
            lines.append(
                f"{row.num_topics:6d}  {score}  {row.coherence:9.3f}  {row.exclusivity:11.3f}"
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

    More topics score better until they learn peculiarities of the training data; they are more
    exclusive and less coherent.

    Args:
      make: (K, training documents) -> model; with a table (K, documents, their rows of the table)
          -> `vijax.stm`.
      numbers: the numbers K.
      corpus: a `vijax.data.Corpus`.
      table: a table of pandas with a row for each document.
      key: random key; the same documents are held out for each K.
      held_out: share or number of documents for the score.
      algorithm: model -> algorithm.
      **how: for `vijax.fit`, such as `num_steps`.

    >>> from vijax.data import synthetic
    >>> import jax, vijax as vi
    >>> corpus, _ = synthetic.lda_corpus(num_documents=60, num_topics=2, vocab_size=20, seed=0)
    >>> make = lambda k, documents: vi.models.lda(k, 20)
    >>> fits = search_k(make, [2], corpus, key=jax.random.key(0), num_steps=5)
    >>> print(str(fits).split()[:3])
    ['topics', 'held-out', 'score']
    """
    check_key(key)
    require(len(numbers) > 0, "numbers", "one number of topics or more", "none")
    train_ids, test_ids = split_ids(corpus.num_documents, held_out, 0)
    train = corpus[train_ids]
    test = corpus[test_ids]
    train_table = () if table is None else (_select_rows(table, train_ids),)
    test_table = () if table is None else (_select_rows(table, test_ids),)
    rows = []
    for number in numbers:
        model = make(number, train, *train_table)
        is_described = isinstance(model, Stm)
        fit = vijax_fit(algorithm(model), model.data if is_described else train, key=key, **how)
        test_data = model.described(test, *test_table) if is_described else test
        score = fit.score(test_data, key=key)
        topics = np.asarray(smoothed_topics(fit.estimates))
        num_words = min(10, topics.shape[1])
        rows.append(
            TopicScores(
                num_topics=int(number),
                score=score.mean,
                error=score.standard_error,
                coherence=semantic_coherence(topics, train, num_words=num_words).mean,
                exclusivity=exclusivity(topics, num_words=num_words).mean,
                fit=fit,
            )
        )
    return Searched(tuple(rows))


def _select_rows(table: Any, rows: np.ndarray) -> Any:
    if hasattr(table, "iloc"):
        return table.iloc[rows]
    return {name: np.asarray(values)[rows] for name, values in dict(table).items()}
