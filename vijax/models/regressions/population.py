"""The population of the coefficients of groups: b_j ~ N(mu, L^-1), and the conjugate prior of mu and L."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.arguments import Positive, Positives, Size, checked
from vijax.checks import require
from vijax.families import Family, MultivariateNormalStats, NormalGamma, NormalWishart
from vijax.families.base import as_float
from vijax.families.construction import on_host
from vijax.xla.by_value import by_value


class Population(NamedTuple):
    """The law of the groups' coefficients.

    Attributes:
      prior: prior of mu and the precision.
      log_density: (its statistics, those of b) -> log N(b; mu, L^-1), linear in both.
    """

    prior: Family
    log_density: Callable[[Any, MultivariateNormalStats], Float[Array, ""]]


@by_value
@checked
def population(
    dim: Size,
    covariance: Literal["full", "diagonal"],
    location: Any = 0.0,
    strength: Positive = 0.01,
    degrees: Positive | None = None,
    spread: Positives = 1.0,
) -> Population:
    """The law of the groups' coefficients.

    Args:
      dim: D, coefficients of a group.
      covariance: covariance of the population: full (mu and L normal-Wishart) or diagonal (each mu_d and L_dd
        normal-gamma).
      location: prior mean of mu, scalar or (D,).
      strength: how many groups the prior mean of the population is worth.
      degrees: degrees of freedom of the Wishart, above D - 1; for "diagonal" of each gamma (twice its shape), above 0.
        By default D + 2, or 3.
      spread: prior standard deviation of the groups' coefficients about mu. A scalar or (D,): the prior mean of L is
        spread^-2.

    Raises:
      ValueError: an argument out of its range.

    >>> population(2, "full").prior.mean().precision.round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    location, spread = _vector("location", location, dim), _vector("spread", spread, dim)
    if covariance == "full":
        degrees = dim + 2.0 if degrees is None else degrees
        xp, spread = on_host(spread)
        scale = xp.diag(1 / (degrees * spread**2))
        return Population(NormalWishart.from_parameters(location, strength, degrees, scale), _full)
    shape = 1.5 if degrees is None else 0.5 * degrees
    return Population(NormalGamma.from_parameters(location, strength, shape, shape * spread**2), _diagonal)


def _full(s: Any, b: MultivariateNormalStats) -> Float[Array, ""]:
    squares = jnp.vdot(s.precision, b.outer) - 2 * b.value @ s.precision_times_mean + s.quadratic
    return 0.5 * (s.log_det - squares - b.value.size * math.log(2 * math.pi))


def _diagonal(s: Any, b: MultivariateNormalStats) -> Float[Array, ""]:
    squares = s.precision @ jnp.diagonal(b.outer) - 2 * b.value @ s.precision_times_mean
    rest = jnp.sum(s.log_precision - s.precision_times_square)
    return 0.5 * (rest - squares - b.value.size * math.log(2 * math.pi))


def _vector(name: str, value: Any, dim: int) -> Float[Array, " D"]:
    value = as_float(value, name)
    require(value.shape in ((), (dim,)), name, f"a scalar or shape ({dim},)", value.shape)
    xp, value = on_host(value)
    return xp.broadcast_to(value, (dim,))
