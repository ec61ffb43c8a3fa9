"""Charts: unconstrained coordinates of families, in which any optimiser may move.

    phi = to(q),   q = of(phi, like)

A chart's coordinates are a pytree of arrays; any values of them stand for a member of the family.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from vijax import tree
from vijax.families import Beta, Dirichlet, Family, Gamma, InverseGamma, MultivariateNormal, Normal


@dataclasses.dataclass(frozen=True)
class Chart:
    """Coordinates of a family, and back.

    Attributes:
      to: q -> its coordinates.
      of: (coordinates, a member of the family) -> q.
    """

    to: Callable[[Any], PyTree]
    of: Callable[[PyTree, Any], Any]


def _normal(phi: PyTree, like: Normal) -> Normal:
    mean, log_sd = phi
    precision = jnp.exp(-2.0 * log_sd)
    return like.with_naturals([precision * mean, -0.5 * precision])


def _triangle(q: MultivariateNormal) -> PyTree:
    """Mean, and the lower factor of the covariance with the logarithm of its diagonal."""
    factor = jnp.linalg.cholesky(q.cov)
    size = factor.shape[-1]
    log_diagonal = jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1))
    return q.mean(), jnp.tril(factor, -1) + log_diagonal[..., None] * jnp.eye(size, dtype=factor.dtype)


def _multivariate_normal(phi: PyTree, like: MultivariateNormal) -> MultivariateNormal:
    mean, free = phi
    size = free.shape[-1]
    eye = jnp.eye(size, dtype=free.dtype)
    factor = jnp.tril(free, -1) + jnp.exp(jnp.diagonal(free, axis1=-2, axis2=-1))[..., None] * eye
    inverse = jax.scipy.linalg.solve_triangular(factor, jnp.broadcast_to(eye, factor.shape), lower=True)
    precision = jnp.swapaxes(inverse, -1, -2) @ inverse
    return like.with_naturals([jnp.einsum("...ij,...j->...i", precision, mean), -0.5 * precision])


def _signed(*signs: int) -> Chart:
    """Logarithms of natural parameters of known sign."""
    to = lambda q: tuple(jnp.log(sign * x) for sign, x in zip(signs, jax.tree.leaves(q), strict=True))
    of = lambda phi, like: like.with_naturals([sign * jnp.exp(x) for sign, x in zip(signs, phi, strict=True)])
    return Chart(to, of)


natural = Chart(tree.parameters, lambda phi, like: like.with_naturals(phi))
"""The natural parameters themselves, whose steps may leave the domain and are then retracted."""

CHARTS: dict[type[Family], Chart] = {
    Normal: Chart(lambda q: (q.mean(), 0.5 * jnp.log(q.variance())), _normal),
    MultivariateNormal: Chart(_triangle, _multivariate_normal),
    Gamma: _signed(1, -1),
    InverseGamma: _signed(-1, -1),
    Beta: _signed(1, 1),
    Dirichlet: _signed(1),
}
"""The registry: mean and log standard deviation of a normal, mean and triangle of a multivariate one, logarithms of
shapes, rates and concentrations."""


def chart_of(q: Family) -> Chart:
    """The chart of a family; for a family without one, its natural parameters.

    >>> q = Normal.from_mean_variance(2.0, 9.0)
    >>> mean, log_sd = chart_of(q).to(q)
    >>> float(mean), round(float(jnp.exp(log_sd)), 4)
    (2.0, 3.0)
    """
    return CHARTS.get(type(q), natural)
