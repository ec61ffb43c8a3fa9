"""Effects of covariates on the shares of topics, as draws: regressions of drawn shares, pooled."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.vector.matrices import inverse
from vijax.inference.expectation.vector import gaussian_draws
from vijax.models.formulas.formula import Design
from vijax.models.structural.covariates import Covariates
from vijax.terminal import printable

EACH = 10
"""Draws of the coefficients for each draw of the shares."""


class Shares(NamedTuple):
    """Expected shares of the topics at rows of covariates, or differences of them, (K, rows) each.

    Attributes:
      mean: means.
      sd: standard deviations.
      low: lower ends of the intervals.
      high: upper ends.
    """

    mean: Float[np.ndarray, "K rows"]
    sd: Float[np.ndarray, "K rows"]
    low: Float[np.ndarray, "K rows"]
    high: Float[np.ndarray, "K rows"]


@dataclasses.dataclass(frozen=True, eq=False)
class Effects:
    """Coefficients of each topic on the columns of a formula.

    Attributes:
      labels: names of the columns.
      draws: draws of the coefficients, (S, K, P).
      level: probability of the intervals.
      design: the formula as read, for other rows.
      notes: sentences on intervals that may be too narrow; the printed table ends with them.
    """

    labels: tuple[str, ...]
    draws: Float[np.ndarray, "S K P"]
    level: float
    design: Design
    notes: tuple[str, ...] = ()

    @property
    def mean(self) -> Float[np.ndarray, "K P"]:
        """Means of the coefficients."""
        return self.draws.mean(0)

    @property
    def sd(self) -> Float[np.ndarray, "K P"]:
        """Standard deviations."""
        return self.draws.std(0, ddof=1)

    @property
    def low(self) -> Float[np.ndarray, "K P"]:
        """Lower ends of the intervals."""
        return np.quantile(self.draws, 0.5 - 0.5 * self.level, axis=0)

    @property
    def high(self) -> Float[np.ndarray, "K P"]:
        """Upper ends of the intervals."""
        return np.quantile(self.draws, 0.5 + 0.5 * self.level, axis=0)

    def at(self, table: Any) -> Shares:
        """Expected shares at rows of a table, with intervals: a line along a covariate where the rows walk along it."""
        return self._summed(self.design.rows_of(table).x)

    def difference(self, table: Any, other: Any) -> Shares:
        """Expected shares at rows of a table less those at the rows of another."""
        return self._summed(self.design.rows_of(table).x - self.design.rows_of(other).x)

    def _summed(self, x: Float[np.ndarray, "rows P"]) -> Shares:
        found = self.draws @ x.T
        ends = np.quantile(found, [0.5 - 0.5 * self.level, 0.5 + 0.5 * self.level], axis=0)
        return Shares(found.mean(0), found.std(0, ddof=1), *ends)

    def __str__(self) -> str:
        head = ["topic", "", "mean", "sd", f"{50 - 50 * self.level:g} %", f"{50 + 50 * self.level:g} %"]
        each = (self.mean, self.sd, self.low, self.high)
        lines = [
            [f"{k}" if j == 0 else "", label, *(f"{x[k, j]:.4f}" for x in each)]
            for k in range(self.draws.shape[1])
            for j, label in enumerate(self.labels)
        ]
        widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
        place = lambda row: "  ".join(
            cell.ljust(w) if i == 1 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        return printable("\n".join([*map(place, [head, *lines]), *self.notes]))


def drawn_shares(logits: Any, local: Any, key: PRNGKeyArray, number: int) -> Float[Array, "docs S K"]:
    """Draws of softmax(z_d) from q(z_d) of each document; an even number of them."""
    cov = inverse(jnp.linalg.cholesky(logits.precision[None] + local.site))
    return jax.nn.softmax(gaussian_draws(key, local.mean, jnp.linalg.cholesky(cov), number))


def composed(
    shares: Float[np.ndarray, "docs S K"],
    x: Float[np.ndarray, "docs P"],
    design: Design,
    key: PRNGKeyArray,
    level: float,
) -> Effects:
    """Effects by the method of composition: for each draw of the shares least squares, and draws of the coefficients of
    all topics together from N(b, S x (X'X)^-1), S being the covariance of the residuals."""
    require(0 < level < 1, "level", "a probability between 0 and 1", level)
    num_docs, num_draws, num_topics = shares.shape
    width = x.shape[1]
    root, rank = np.linalg.qr(x)[1], np.linalg.matrix_rank(x)
    require(rank == width, "formula", "columns of which none follows from the others", f"{width} of rank {rank}")
    require(num_docs > width, "formula", f"fewer columns than the {num_docs} documents", width)
    y = np.asarray(shares, float).reshape(num_docs, -1)
    fitted = np.linalg.lstsq(x, y, rcond=None)[0]
    left = (y - x @ fitted).reshape(num_docs, num_draws, num_topics)
    values, vectors = np.linalg.eigh(np.einsum("dsk,dsl->skl", left, left, optimize=True) / (num_docs - width))
    spread = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]  # the shares sum to one: a value is 0
    noise = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    drawn = np.linalg.solve(root, noise.normal(size=(EACH, num_draws, width, num_topics)))
    found = fitted.reshape(width, num_draws, num_topics).swapaxes(0, 1) + drawn @ spread.swapaxes(1, 2)
    return Effects(design.labels, found.swapaxes(2, 3).reshape(-1, num_topics, width), level, design)


def in_units(drawn: Float[np.ndarray, "S P K"], covariates: Covariates, level: float) -> Effects:
    """Coefficients on the columns as they are, from draws of those on standardised columns."""
    require(0 < level < 1, "level", "a probability between 0 and 1", level)
    design, found = covariates.design, drawn / covariates.scale[:, None]
    if "Intercept" in design.labels:
        found[:, design.labels.index("Intercept")] -= np.einsum("j,sjk->sk", covariates.centre, found)
    return Effects(design.labels, np.swapaxes(found, 1, 2), level, design)
