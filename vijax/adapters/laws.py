"""Mean, and standard deviation or factor of the covariance, of the free coordinates of a variable,
by distribution.

The free coordinate of a positive variable is its logarithm, of a variable in (0, 1) its log
odds."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, polygamma

from vijax.contract.variables import Law

EULER = float(np.euler_gamma)
LOG_HALF_NORMAL = -0.5 * (EULER + float(np.log(2))), float(np.pi / np.sqrt(8))
"""Mean and standard deviation of the logarithm of |z|, z normal."""
HEAVY = 2.0
"""The standard deviation assumed for a law of scale 1 that has none."""


# --- real -----------------------------------------------------------------------------------------
def normal(loc: Any, scale: Any) -> Law:
    """A normal; or the logarithm of a log normal."""
    return Law(loc, scale)


def student(df: Any, loc: Any, scale: Any) -> Law:
    """Student's t; `scale` may be a factor of a matrix."""
    return Law(loc, jnp.asarray(scale) * _student_sd(df))


def _student_sd(df: Any) -> Any:
    df = jnp.asarray(df)
    has_sd = df > 2.5
    return jnp.where(has_sd, jnp.sqrt(df / jnp.where(has_sd, df - 2, 1.0)), HEAVY)


def laplace(loc: Any, scale: Any) -> Law:
    """Laplace's law."""
    return Law(loc, np.sqrt(2) * scale)


def logistic(loc: Any, scale: Any) -> Law:
    """The logistic law."""
    return Law(loc, np.pi / np.sqrt(3) * scale)


def cauchy(loc: Any, scale: Any) -> Law:
    """Cauchy's law."""
    return Law(loc, HEAVY * scale)


def gumbel(loc: Any, scale: Any) -> Law:
    """Gumbel's law, for maxima."""
    return Law(loc + EULER * scale, np.pi / np.sqrt(6) * scale)


# --- positive: laws of the logarithm --------------------------------------------------------------
def half_normal(scale: Any) -> Law:
    """The absolute value of a normal."""
    return Law(jnp.log(scale) + LOG_HALF_NORMAL[0], LOG_HALF_NORMAL[1])


def half_cauchy(scale: Any) -> Law:
    """The absolute value of a Cauchy variable."""
    return Law(jnp.log(scale), np.pi / 2)


def half_student(df: Any, scale: Any) -> Law:
    """The absolute value of Student's t: a half normal over the root of a gamma variable."""
    df = jnp.asarray(df)
    loc = jnp.log(scale) + LOG_HALF_NORMAL[0] + 0.5 * (jnp.log(df / 2) - digamma(df / 2))
    return Law(loc, jnp.sqrt(LOG_HALF_NORMAL[1] ** 2 + 0.25 * polygamma(1, df / 2)))


def exponential(mean: Any) -> Law:
    """The exponential law."""
    return Law(jnp.log(mean) - EULER, np.pi / np.sqrt(6))


def gamma(concentration: Any, scale: Any) -> Law:
    """The gamma law of mean concentration * scale."""
    return Law(digamma(concentration) + jnp.log(scale), jnp.sqrt(polygamma(1, concentration)))


def inverse_gamma(concentration: Any, scale: Any) -> Law:
    """The reciprocal of a gamma variable, of mean scale / (concentration - 1)."""
    return Law(jnp.log(scale) - digamma(concentration), jnp.sqrt(polygamma(1, concentration)))


def weibull(concentration: Any, scale: Any) -> Law:
    """Weibull's law."""
    return Law(jnp.log(scale) - EULER / concentration, np.pi / (np.sqrt(6) * concentration))


# --- between 0 and 1: laws of the log odds --------------------------------------------------------
def beta(a: Any, b: Any) -> Law:
    """The beta law of mean a / (a + b)."""
    return Law(digamma(a) - digamma(b), jnp.sqrt(polygamma(1, a) + polygamma(1, b)))


# --- vectors --------------------------------------------------------------------------------------
def multivariate_student(df: Any, loc: Any, factor: Any) -> Law:
    """Student's t of vectors, with a lower factor of its scale matrix."""
    return Law(loc, jnp.asarray(factor) * _student_sd(df)[..., None, None])


def sums(steps: Law) -> Law:
    """A walk: sums over the last axis of independent steps, whose means and standard deviations
    have one shape."""
    count = jnp.shape(steps.scale)[-1]
    loc = jnp.cumsum(steps.loc, -1)
    return Law(loc, jnp.tril(jnp.ones((count, count))) * steps.scale[..., None, :])


def autoregression(weights: Any, noise: Law) -> Law:
    """An autoregression, x[t] = weights[0] x[t - 1] + weights[1] x[t - 2] + ... + noise[t].

    Args:
      weights: one for each lag, along the last axis. The first values, one for each lag, have noise
          alone.
      noise: means and standard deviations, of one shape.
    """
    count = jnp.shape(noise.scale)[-1]
    lags = jnp.shape(weights)[-1]
    has_past = jnp.arange(count)[:, None] >= lags
    regression = jnp.zeros((count, count))
    for lag in range(lags):
        lag_matrix = jnp.where(has_past, jnp.eye(count, k=-1 - lag), 0.0)
        regression = regression + lag_matrix * weights[..., lag, None, None]
    matrix = jnp.broadcast_to(jnp.eye(count) - regression, (*jnp.shape(noise.scale), count))
    solve = lambda right: jax.scipy.linalg.solve_triangular(
        matrix, right, lower=True, unit_diagonal=True
    )
    loc = solve(noise.loc[..., None])[..., 0]
    return Law(loc, solve(jnp.eye(count) * noise.scale[..., None, :]))


def field(loc: Any, adjacency: Any, correlation: Any, precision: Any) -> Law:
    """A conditional autoregression on a map."""
    adjacency = jnp.asarray(adjacency, jnp.result_type(float))
    weights = jnp.diag(adjacency.sum(-1)) - jnp.asarray(correlation)[..., None, None] * adjacency
    return Law(loc, _factor_of_inverse(jnp.asarray(precision)[..., None, None] * weights))


def intrinsic_field(adjacency: Any, scale: Any, sd_of_mean: Any) -> Law:
    """An intrinsic conditional autoregression, whose mean over the map is near zero."""
    adjacency = jnp.asarray(adjacency, jnp.result_type(float))
    differences = jnp.diag(adjacency.sum(-1)) - adjacency
    count = adjacency.shape[-1]
    mean = jnp.ones((count, count)) / (count * jnp.asarray(sd_of_mean)[..., None, None]) ** 2
    precision = differences / jnp.asarray(scale)[..., None, None] ** 2 + mean
    return Law(0.0, _factor_of_inverse(precision))


def _factor_of_inverse(precision: Any) -> Any:
    """The lower factor of the inverse of a precision, from the factor of the precision in the
    opposite order: a rounded covariance need not have a factor."""
    upper = jnp.linalg.cholesky(precision[..., ::-1, ::-1])[..., ::-1, ::-1]
    unit = jnp.broadcast_to(jnp.eye(precision.shape[-1], dtype=precision.dtype), precision.shape)
    return jax.scipy.linalg.solve_triangular(upper, unit, trans=1, lower=False)
