"""Results of evaluations: a mean per word with its standard error, and the documents it came from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class Score(NamedTuple):
    """Log probability per word of held-out documents, in nats.

    Attributes:
      mean: total log probability over total tokens.
      standard_error: standard error over documents as drawn at random (ratio estimator); inf for a single document.
      log_probs: log probability of each document that was scored, nats.
      num_tokens: tokens of each of them that were scored.
      rows: the row of each of them in the corpus.
      num_skipped: documents too short to be scored.

    >>> print(Score.of([-8.0, -30.0], [2, 8], num_skipped=1))
    -3.800 ± 0.080 nats per word (2 documents, 10 words; 1 too short)
    """

    mean: float
    standard_error: float
    log_probs: Float[np.ndarray, " docs"]
    num_tokens: Int[np.ndarray, " docs"]
    rows: Int[np.ndarray, " docs"]
    num_skipped: int

    @classmethod
    def of(cls, log_probs, num_tokens, rows=None, num_skipped: int = 0) -> Score:
        """The score of documents from the log probability and the number of scored tokens of each."""
        log_probs, num_tokens = np.asarray(log_probs, np.float64), np.asarray(num_tokens, np.int64)
        rows = np.arange(len(log_probs)) if rows is None else np.asarray(rows)
        mean, standard_error = ratio_estimate(log_probs, num_tokens)
        return cls(mean, standard_error, log_probs, num_tokens, rows, num_skipped)

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """The log probability of each document, and its scored tokens."""
        return self.log_probs, self.num_tokens

    @property
    def perplexity(self) -> float:
        """exp(-mean): the size of a die as unpredictable as a word."""
        return float(np.exp(-self.mean))

    def __str__(self) -> str:
        skipped = f"; {self.num_skipped:,} too short" if self.num_skipped else ""
        counts = f"{len(self.rows):,} documents, {self.num_tokens.sum():,} words"
        return f"{self.mean:.3f} ± {self.standard_error:.3f} nats per word ({counts}{skipped})"


class Coherence(NamedTuple):
    """Coherence of topics.

    Attributes:
      mean: mean over topics.
      standard_error: standard error of `mean`, over topics; inf for a single topic.
      per_topic: coherence of each topic.
    """

    mean: float
    standard_error: float
    per_topic: Float[np.ndarray, " topics"]

    @classmethod
    def of(cls, per_topic) -> Coherence:
        """The mean of values per topic, with its standard error."""
        per_topic = np.asarray(per_topic, np.float64)
        return cls(*ratio_estimate(per_topic, np.ones(len(per_topic))), per_topic)

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.standard_error:.3f} ({len(self.per_topic)} topics)"


def ratio_estimate(totals: Float[np.ndarray, " n"], sizes: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """sum(totals) / sum(sizes) and its standard error when the pairs are independent draws (linearised ratio)."""
    mean = totals.sum() / sizes.sum()
    if len(totals) < 2:
        return float(mean), float("inf")
    n = len(totals)
    variance = n / (n - 1) * np.square(totals - mean * sizes).sum() / sizes.sum() ** 2
    return float(mean), float(np.sqrt(variance))
