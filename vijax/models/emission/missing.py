"""Missing cells of a row: densities of the cells that are there, and expectations of the others.

Let a component have mean mu and precision L, known or with a law q, and let o and m be the
observed and the missing cells of a row y. The best law of the missing cells is normal,

    log q(y_m) = E_q[log p(y_o, y_m | mu, L)] + constant,
    precision E[L]_mm,   mean y_m = E[L]_mm^-1 (E[L mu]_m - E[L]_mo y_o),

and the bound of the row is log int exp E_q[log p(y_o, y_m | mu, L)] dy_m. At a point it is
log p(y_o | mu, L), the exact marginal density. Its gradient in the statistics of (mu, L) is the
expectation of the natural parameters that the whole row would have, so EM and variational
inference need no other rule. A row without any cell says nothing: its bound is 0.

Where columns are independent given the component, the missing cells of a row are left out: that is
exact with a law q too."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.scipy.special import gammaln
from jaxtyping import Array, Bool, Float, PyTree

from vijax.checks import require
from vijax.families import NormalWishart
from vijax.models.emission.base import Emission
from vijax.xla.by_value import cache_by_value

LOG_2PI = math.log(2 * math.pi)


@cache_by_value
def incomplete(emission: Emission) -> Emission:
    """The emission for rows in which cells may be missing (NaN).

    A row has the marginal density of its observed cells, and adds the expectations of the others
    to the statistics of its component: no cell is filled in by a guess. A row without any cell has
    the prior probabilities of the components. This assumes that cells are missing at random: that
    it does not depend on the number in a cell whether it is missing.

    `em` has no maximum if no row of a component has a cell in some column, and independent columns:
    take `map` or `cavi`, whose priors tell of such a column.

    Args:
      emission: one of the Gaussian emissions of `vijax.models.emission`, `bernoulli` or `poisson`;
        `blurred` or `around` of one.

    Raises:
      ValueError: an emission of bags of words, which have no missing cells.

    >>> from vijax.models.emission import diagonal_gaussian
    >>> e, s = diagonal_gaussian(1, dim=2), diagonal_gaussian(1, dim=2).prior.expected_stats()
    >>> print(incomplete(e).log_likelihood(s, jnp.array([jnp.nan, jnp.nan])))
    [0.]
    """
    is_plain = not emission.has_labels
    require(is_plain, "emission", "with_labels(incomplete(emission))", "its reverse")
    if emission.takes_missing:
        return emission
    has_law = emission.marginal is not None
    expected = "a Gaussian emission, bernoulli or poisson"
    require(has_law, "emission", expected, "one without a law for missing cells")
    marginal: Any = emission.marginal
    return dataclasses.replace(
        emission,
        log_likelihood=lambda s, y: marginal.log_likelihood(s, y, 0.0),
        predictive=marginal.predictive,
        check=dataclasses.replace(emission.check, missing=True),  # type: ignore[type-var]
        scored_as=emission.scored_as and incomplete(emission.scored_as),
        takes_missing=True,
        is_linear=marginal.is_linear,
    )


def require_cells(data: PyTree) -> None:
    """Raises ValueError if a column of the rows has no cell: nothing would be learnt of it."""
    is_empty = np.isnan(np.asarray(data)).all(axis=0)
    if is_empty.any():
        columns = ", ".join(map(str, np.flatnonzero(is_empty)[:5]))
        raise ValueError(
            "data: expected a number in every column, got none in "
            f"{int(is_empty.sum())} of {len(is_empty)} (column {columns}, counted from 0). "
            "Leave these columns out."
        )


def mask_cells(y: Float[Array, "*N D"]) -> tuple[Float[Array, "*N D"], Bool[Array, "*N D"]]:
    """The cells, zero where one is missing, and the mask of those that are there.

    >>> y, is_there = mask_cells(jnp.array([3.0, jnp.nan]))
    >>> print(y, is_there)
    [3. 0.] [ True False]
    """
    is_there = ~jnp.isnan(y)
    return jnp.where(is_there, y, 0.0), is_there


# --- cells that depend on each other --------------------------------------------------------------
class RowLaw(NamedTuple):
    """A row with a law of its missing cells for each component.

    Attributes:
      mean: the row, with the conditional means of the missing cells, (K, D).
      covariance: the conditional covariance of the missing cells, zero elsewhere, (K, D, D), or (D,
          D) for components that share a precision.
      entropy: the entropy of the missing cells, (K,), or a number for a shared precision.
    """

    mean: Float[Array, "K D"]
    covariance: Float[Array, "*K D D"]
    entropy: Float[Array, "*K"]


def complete(
    precision: Float[Array, "*K D D"],
    precision_times_mean: Float[Array, "K D"],
    y: Float[Array, " D"],
) -> RowLaw:
    """The laws of the missing cells of one row, given its other cells.

    Args:
      precision: E[L] of each component, (K, D, D), or (D, D) for one that they share.
      precision_times_mean: E[L mu] of each component.
      y: the row; NaN where a cell is missing.

    >>> precision = jnp.linalg.inv(jnp.array([[[1.0, 0.8], [0.8, 1.0]]]))
    >>> row = complete(precision, jnp.zeros((1, 2)), jnp.array([2.0, jnp.nan]))
    >>> print([f"{x:.2f}" for x in (*row.mean[0], row.covariance[0, 1, 1])])
    ['2.00', '1.60', '0.36']
    """
    y, is_there = mask_cells(y)
    is_missing = (~is_there).astype(y.dtype)
    both_missing = is_missing[:, None] * is_missing
    factor = jnp.linalg.cholesky(both_missing * precision + jnp.diag(1.0 - is_missing))
    identity = jnp.broadcast_to(jnp.eye(len(y), dtype=factor.dtype), factor.shape)
    covariance = both_missing * cho_solve((factor, True), identity)
    slope = is_missing * (precision_times_mean - y @ precision)
    mean = y + (slope[:, None, :] @ covariance)[:, 0]
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
    entropy = 0.5 * (jnp.sum(is_missing) * (1.0 + LOG_2PI) - log_det)
    return RowLaw(mean, covariance, entropy)


def dependent_cells(s: Any, y: Float[Array, " D"], noise: float = 0.0) -> Float[Array, " K"]:
    """log p(observed cells | component k), by the statistics of a normal-Wishart for each
    component, or of one of several means."""
    row = jax.lax.stop_gradient(complete(s.precision, s.precision_times_mean, y))
    spread = jnp.sum((row.mean[:, None, :] @ s.precision)[:, 0] * row.mean, -1)
    blur = row.covariance + noise * jnp.eye(len(y), dtype=row.covariance.dtype)
    squares = spread + jnp.sum(blur * s.precision, (-2, -1)) + s.quadratic - s.log_det
    linear = jnp.sum(s.precision_times_mean * row.mean, -1)
    density = linear - 0.5 * (squares + len(y) * LOG_2PI) + row.entropy
    return jnp.where(jnp.isnan(y).all(), 0.0, density)


def log_student(q: NormalWishart, y: Float[Array, " D"]) -> Float[Array, " K"]:
    """log E_q[p(observed cells | component k)]: the margins of a multivariate Student's t with n -
    D + 1 degrees of freedom."""
    y, is_there = mask_cells(y)
    weights = is_there.astype(y.dtype)
    freedom = q.degrees - len(y) + 1.0
    inverse_scale = -2.0 * q.precision_law().negative_rate
    spread = ((q.strength + 1.0) / (q.strength * freedom))[:, None, None] * inverse_scale
    factor = jnp.linalg.cholesky(weights[:, None] * weights * spread + jnp.diag(1.0 - weights))
    residual = weights * (y - q.location)
    scaled = solve_triangular(factor, residual[..., None], lower=True)[..., 0]
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
    number = jnp.sum(weights)
    constant = gammaln(0.5 * (freedom + number)) - gammaln(0.5 * freedom)
    tails = (freedom + number) * jnp.log1p(jnp.sum(scaled**2, -1) / freedom)
    return constant - 0.5 * (number * jnp.log(freedom * math.pi) + log_det + tails)


# --- cells that are independent given the component -----------------------------------------------
def cells_of_unit(s: Any, y: Float[Array, " D"], noise: float = 0.0) -> Float[Array, " K"]:
    """log p(observed cells | component k), by the statistics of normal means."""
    y, is_there = mask_cells(y)
    squares = (s.square + LOG_2PI + noise) @ is_there.astype(y.dtype)
    return s.value @ y - 0.5 * (squares + y @ y)


def cells_of_diagonal(s: Any, y: Float[Array, " D"], noise: float = 0.0) -> Float[Array, " K"]:
    """log p(observed cells | component k), by the statistics of normal-gammas."""
    y, is_there = mask_cells(y)
    constant = s.precision_times_square - s.log_precision + LOG_2PI + noise * s.precision
    squares = constant @ is_there.astype(y.dtype) + s.precision @ y**2
    return s.precision_times_mean @ y - 0.5 * squares


def cells_of_spherical(s: Any, y: Float[Array, " D"], noise: float = 0.0) -> Float[Array, " K"]:
    """log p(observed cells | component k), by the statistics of D means with one gamma."""
    y, is_there = mask_cells(y)
    precision = s.precision[:, 0, 0]
    constant = s.quadratic + (LOG_2PI + noise * precision - s.log_det)[:, None]
    squares = constant @ is_there.astype(y.dtype) + precision * (y @ y)
    return s.precision_times_mean[..., 0] @ y - 0.5 * squares


def cells_of_bernoulli(s: Any, y: Float[Array, " D"], noise: float = 0.0) -> Float[Array, " K"]:
    """log p(observed cells | component k), by the statistics of betas."""
    y, is_there = mask_cells(y)
    return s.log @ y + s.log1m @ jnp.where(is_there, 1 - y, 0.0)


def cells_of_poisson(s: Any, y: Float[Array, " D"], noise: float = 0.0) -> Float[Array, " K"]:
    """log p(observed cells | component k), by the statistics of gammas."""
    y, is_there = mask_cells(y)
    return s.log @ y - s.value @ is_there.astype(y.dtype) - jnp.sum(gammaln(y + 1))
