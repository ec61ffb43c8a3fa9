"""Gaussian emissions: unit variances, diagonal and full covariances."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.arguments import Positive, Positives, Size, checked
from vijax.families import Normal, NormalGamma, NormalWishart
from vijax.families.base import as_float
from vijax.models.emission.base import REAL, Emission, checker, full
from vijax.xla.by_value import by_value


@by_value
@checked
def unit_gaussian(num_components: Size, dim: Size, location: Any = 0.0, variance: Positives = 100.0) -> Emission:
    """Normal with unit variances (Blei, Kucukelbir and McAuliffe 2017, sections 2 and 3): means are N(location,
    variance).

    Args:
      num_components: K, how many components.
      dim: D, how many columns.
      location: prior mean of the means.
      variance: prior variance of the means.
    """
    sizes = num_components, dim
    prior = Normal.from_mean_variance(full("location", location, sizes), full("variance", variance, sizes))

    def log_likelihood(s: Any, y: Array) -> Float[Array, " K"]:
        return s.value @ y - 0.5 * (jnp.sum(s.square, -1) + y @ y + dim * math.log(2 * math.pi))

    draw = lambda means, k, y, key: means[k] + jax.random.normal(key, y.shape, y.dtype)
    return Emission(prior, log_likelihood, np.zeros(dim), checker(dim, **REAL), sample=draw)


@by_value
@checked
def diagonal_gaussian(
    num_components: Size,
    dim: Size,
    location: Any = 0.0,
    strength: Positives = 0.01,
    shape: Positives = 1.0,
    rate: Positives = 1.0,
) -> Emission:
    """Normal with diagonal covariance (Blei, Kucukelbir and McAuliffe 2017, appendix B): mean and precision of each
    dimension are NormalGamma(location, strength, shape, rate), the precision's prior mean shape / rate.

    Args:
      num_components: K, how many components.
      dim: D, how many columns.
      location: prior mean of the means.
      strength: how many observations the prior mean is worth.
      shape: shape of the gamma prior of the precisions.
      rate: rate of the same prior.
    """
    sizes = num_components, dim
    given = {"location": location, "strength": strength, "shape": shape, "rate": rate}
    prior = NormalGamma.from_parameters(**{name: full(name, value, sizes) for name, value in given.items()})

    def log_likelihood(s: Any, y: Array) -> Float[Array, " K"]:
        squares = jnp.sum(s.precision_times_square - s.log_precision, -1) + s.precision @ y**2
        return s.precision_times_mean @ y - 0.5 * (squares + dim * math.log(2 * math.pi))

    def draw(p: Any, k: Array, y: Array, key: PRNGKeyArray) -> Float[Array, " D"]:
        return p.mean[k] + jax.random.normal(key, y.shape, y.dtype) / jnp.sqrt(p.precision[k])

    return Emission(prior, log_likelihood, np.zeros(dim), checker(dim, **REAL), sample=draw)


@by_value
@checked
def full_gaussian(
    num_components: Size,
    dim: Size,
    location: Any = 0.0,
    strength: Positives = 0.01,
    degrees: Positive | None = None,
    scale: Any = None,
) -> Emission:
    """Normal with full covariance (Pei 2019): mean and precision matrix are NormalWishart.

    Args:
      num_components: K, how many components.
      dim: D, how many columns.
      location: prior mean of the means. A scalar or (D,).
      strength: how many observations the prior mean is worth.
      degrees: degrees of freedom of the Wishart prior, above D - 1; unset: D + 2.
      scale: scale of the Wishart, (D, D); by default the prior mean of the precision is the identity.
    """
    sizes = num_components, dim
    degrees = dim + 2.0 if degrees is None else degrees
    scale = np.eye(dim) / degrees if scale is None else as_float(scale, "scale")
    prior = NormalWishart.from_parameters(
        location=full("location", location, sizes),
        strength=full("strength", strength, sizes[:1]),
        degrees=full("degrees", degrees, sizes[:1]),
        scale=full("scale", scale, (num_components, dim, dim)),
    )

    draw = lambda p, k, y, key: normal_draw(key, p.mean[k], jnp.linalg.cholesky(p.precision)[k])
    return Emission(prior, log_likelihood_of_full, np.zeros(dim), checker(dim, **REAL), sample=draw)


def normal_draw(key: PRNGKeyArray, mean: Float[Array, " D"], factor: Float[Array, "D D"]) -> Float[Array, " D"]:
    """A draw from the normal with this lower factor of its precision."""
    noise = jax.random.normal(key, mean.shape, mean.dtype)
    return mean + solve_triangular(factor.T, noise, lower=False)


def log_likelihood_of_full(s: Any, y: Array) -> Float[Array, " K"]:
    """log p(y) by statistics of a normal-Wishart for each component."""
    spread = (y @ s.precision) @ y  # in this order an observation costs K D floats, not D^2, and none is transposed
    constant = y.shape[-1] * math.log(2 * math.pi)
    return s.precision_times_mean @ y - 0.5 * (spread + s.quadratic - s.log_det + constant)
