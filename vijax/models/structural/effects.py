"""Effects of covariates on the shares of topics, as draws: pooled regressions of drawn shares."""

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
from vijax.xla.content_keys import distinct_row_keys

DRAWS_PER_SHARES = 10
"""Draws of the coefficients for each draw of the shares."""
ROUNDING = 1e-6
"""Distance of a share from [0, 1] that counts as rounding."""


class Shares(NamedTuple):
    """Expected shares of the topics at rows of covariates, or differences of them, (K, rows) each.

    Attributes:
      mean: means.
      sd: standard deviations.
      low: lower ends of the intervals.
      high: upper ends.
      notes: further remarks on these rows, as on splines beyond the values of training.
    """

    mean: Float[np.ndarray, "K rows"]
    sd: Float[np.ndarray, "K rows"]
    low: Float[np.ndarray, "K rows"]
    high: Float[np.ndarray, "K rows"]
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class Effects:
    """Coefficients of each topic on the columns of a formula.

    Attributes:
      labels: names of the columns.
      draws: draws of the coefficients, (S, K, P).
      level: probability of the intervals.
      design: the formula as read, for other rows.
      notes: warnings on intervals that may be too narrow; the printed table ends with them.
      of_shares: True for coefficients of shares, False of log proportions (`Stm.coefficients`).
    """

    labels: tuple[str, ...]
    draws: Float[np.ndarray, "S K P"]
    level: float
    design: Design
    notes: tuple[str, ...] = ()
    of_shares: bool = True

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
        """Expected shares at rows of a table, with intervals; a line along a covariate if the rows
        vary it.

        A regression line may leave [0, 1], beyond the data or between them. Each draw is then
        replaced by the nearest shares from 0 to 1 that sum to one (`nearest_shares`), so that means
        and intervals are shares too."""
        return self._summary(self._row_shares(table))._replace(
            notes=self.design.read_rows(table).notes
        )

    def difference(self, table: Any, other: Any) -> Shares:
        """Expected shares at rows of a table less those at the rows of another, both as by `at`."""
        return self._summary(self._row_shares(table) - self._row_shares(other))

    def outside(self, table: Any) -> float:
        """The share of draws at rows of a table that `at` replaces, because a share is outside
        [0, 1]."""
        return float(np.mean(self._leaves_range(self._line(table))))

    def _row_shares(self, table: Any) -> Float[np.ndarray, "S K rows"]:
        line = self._line(table)
        return np.where(self._leaves_range(line), nearest_shares(line, axis=1), line)

    def _line(self, table: Any) -> Float[np.ndarray, "S K rows"]:
        return self.draws @ self.design.read_rows(table).x.T

    def _leaves_range(self, line: Float[np.ndarray, "S K rows"]) -> np.ndarray:
        """True for draws with a share outside [0, 1], (S, 1, rows)."""
        beyond = (line < -ROUNDING) | (line > 1 + ROUNDING)
        return np.any(beyond, axis=1, keepdims=True) & self.of_shares

    def _summary(self, lines: Float[np.ndarray, "S K rows"]) -> Shares:
        ends = np.quantile(lines, [0.5 - 0.5 * self.level, 0.5 + 0.5 * self.level], axis=0)
        return Shares(lines.mean(0), lines.std(0, ddof=1), *ends)

    def __str__(self) -> str:
        head = [
            "topic",
            "",
            "mean",
            "sd",
            f"{50 - 50 * self.level:g} %",
            f"{50 + 50 * self.level:g} %",
        ]
        columns = (self.mean, self.sd, self.low, self.high)
        lines = [
            [f"{k}" if j == 0 else "", label, *(f"{x[k, j]:.4f}" for x in columns)]
            for k in range(self.draws.shape[1])
            for j, label in enumerate(self.labels)
        ]
        widths = [max(map(len, column)) for column in zip(head, *lines, strict=True)]
        place = lambda row: "  ".join(
            cell.ljust(w) if i == 1 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        return printable("\n".join([*map(place, [head, *lines]), *self.notes]))


def nearest_shares(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """The nearest numbers (in squares) that are 0 or more and sum to one along an axis (Duchi et
    al. 2008, figure 1).

    >>> nearest_shares(np.array([0.7, 0.4, -0.1])).round(2).tolist(), nearest_shares(np.array([0.2, 0.8])).tolist()
    ([0.65, 0.35, 0.0], [0.2, 0.8])
    """
    x = np.moveaxis(np.asarray(x, float), axis, -1)
    falling = -np.sort(-x, axis=-1)
    above = np.cumsum(falling, axis=-1) - 1.0
    number = np.arange(1, x.shape[-1] + 1)
    last = np.sum(falling * number > above, axis=-1, keepdims=True) - 1
    level = np.take_along_axis(above, last, axis=-1) / (last + 1)
    return np.moveaxis(np.maximum(x - level, 0.0), -1, axis)


def draw_shares(
    logits: Any, local: Any, key: PRNGKeyArray, number: int
) -> Float[Array, "docs S K"]:
    """An even number of draws of softmax(z_d) from q(z_d) of each document. The noise of a document
    depends on its q(z_d), so that errors are independent in averages over documents."""
    key = distinct_row_keys(key, local.mean)
    cov = inverse(jnp.linalg.cholesky(logits.precision[None] + local.site))
    return jax.nn.softmax(gaussian_draws(key, local.mean, jnp.linalg.cholesky(cov), number))


def compose(
    shares: Float[np.ndarray, "docs S K"],
    x: Float[np.ndarray, "docs P"],
    design: Design,
    key: PRNGKeyArray,
    level: float,
) -> Effects:
    """Effects by the method of composition: for each draw of the shares, least squares and draws of
    the coefficients of all topics from N(b, S x (X'X)^-1), where S is the covariance of the
    residuals."""
    require(0 < level < 1, "level", "a probability between 0 and 1", level)
    num_docs, num_draws, num_topics = shares.shape
    width = x.shape[1]
    root, rank = np.linalg.qr(x)[1], np.linalg.matrix_rank(x)
    expected = "columns of which none follows from the others"
    require(rank == width, "formula", expected, f"{width} of rank {rank}")
    require(num_docs > width, "formula", f"fewer columns than the {num_docs} documents", width)
    y = np.asarray(shares, float).reshape(num_docs, -1)
    fitted = np.linalg.lstsq(x, y, rcond=None)[0]
    residuals = (y - x @ fitted).reshape(num_docs, num_draws, num_topics)
    squares = np.einsum("dsk,dsl->skl", residuals, residuals, optimize=True)
    values, vectors = np.linalg.eigh(squares / (num_docs - width))
    # Shares sum to one, so that an eigenvalue is 0.
    spread = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
    noise = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    scaled_noise = np.linalg.solve(
        root, noise.normal(size=(DRAWS_PER_SHARES, num_draws, width, num_topics))
    )
    means = fitted.reshape(width, num_draws, num_topics).swapaxes(0, 1)
    coefficients = means + scaled_noise @ spread.swapaxes(1, 2)
    draws = coefficients.swapaxes(2, 3).reshape(-1, num_topics, width)
    return Effects(design.labels, draws, level, design)


def to_units(draws: Float[np.ndarray, "S P K"], covariates: Covariates, level: float) -> Effects:
    """Coefficients on the original columns, from draws of coefficients on standardised columns."""
    require(0 < level < 1, "level", "a probability between 0 and 1", level)
    design = covariates.design
    coefficients = draws / covariates.scale[:, None]
    if "Intercept" in design.labels:
        coefficients[:, design.labels.index("Intercept")] -= np.einsum(
            "j,sjk->sk", covariates.centre, coefficients
        )
    return Effects(design.labels, np.swapaxes(coefficients, 1, 2), level, design, of_shares=False)
