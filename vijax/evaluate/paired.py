"""Differences of scores on the same documents or rows: the variation between documents cancels."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Float

from vijax.data.reading.checks import fail
from vijax.evaluate.score import ratio_estimate


class HasParts(Protocol):
    """A score with its parts."""

    @property
    def parts(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """The log probability of each document (row, sequence), and its number of words (rows, steps)."""
        ...


class Difference(NamedTuple):
    """The advantage of a first score over a second one.

    Attributes:
      mean: mean difference, in nats per word (row, step).
      standard_error: standard error of `mean`, over the documents (rows, sequences) that both share.
    """

    mean: float
    standard_error: float


def paired_difference(first: HasParts, second: HasParts) -> Difference:
    """The difference of two scores of the same documents or rows, with its standard error.

    The error comes from the differences document by document; it is much smaller than the errors of the scores where
    both find the same documents hard.

    Raises:
      ValueError: the scores are not of the same documents or rows.

    >>> from vijax.evaluate import HeldOut
    >>> one, two = (HeldOut.of(np.array(x)) for x in ([-1.0, -5.0, -9.0], [-1.1, -5.2, -9.3]))
    >>> [f"{x:.3f}" for x in (one.standard_error, *paired_difference(one, two))]
    ['2.309', '0.200', '0.058']
    """
    (totals, sizes), (others, other_sizes) = first.parts, second.parts
    if not np.array_equal(sizes, other_sizes):
        got = f"{len(sizes):,} of {np.sum(sizes):,.0f} in all and {len(other_sizes):,} of {np.sum(other_sizes):,.0f}"
        raise fail("scores", "two of the same documents or rows", got, "score both on the same data")
    return Difference(*ratio_estimate(totals - others, sizes))
