"""Predictions of observations by a Gaussian predictor: the expectation, and an interval that should hold them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jaxtyping import Array, Float
from scipy import special

from vijax.checks import require
from vijax.inference.expectation.scalar import expect
from vijax.inference.likelihood import Likelihood

NUM_LEVELS = 100
"""Values of z, of equal probability, over which the law of y is averaged: its levels are right to half a per cent."""
NUM_HALVINGS = 50
NUM_DOUBLINGS = 100


class Response(NamedTuple):
    """Predictions.

    Attributes:
      mean: E[y]; for labels -1 and +1 the probability of +1.
      low, high: ends of the central interval of y; for labels, of the posterior of this probability.
    """

    mean: Float[Array, " N"]
    low: Float[Array, " N"]
    high: Float[Array, " N"]


def response(likelihood: Likelihood, mean: Any, variance: Any, level: float = 0.95) -> Response:
    """Expectations of y, and central intervals, where z ~ N(mean, variance) and y ~ p(y | z).

    The interval includes the uncertainty of z and of y given z. For labels, which are no quantities, it is an interval
    of the probability of +1.

    Args:
      likelihood: one that knows its mean (all of `vijax.likelihood` with one predictor do).
      mean: mean of z, (N,).
      variance: variance of z, (N,).
      level: probability of the interval.

    Raises:
      ValueError: a level outside of 0 to 1; a likelihood that does not know its mean.

    >>> import vijax as vi
    >>> found = response(vi.likelihood.gaussian(3.0), np.zeros(1), np.ones(1))
    >>> print([f"{float(x[0]):.2f}" for x in (found.low, found.high)])
    ['-3.92', '3.92']
    """
    require(0 < level < 1, "level", "a probability between 0 and 1", level)
    knows = likelihood.mean is not None
    require(knows, "likelihood", "one that knows its mean", likelihood.name, "Give it mean= and cdf=.")
    m, v = (jnp.asarray(x, jnp.result_type(float)) for x in (mean, variance))
    middle = _expected(likelihood, m, v)
    tails = 0.5 * (1 - level), 0.5 * (1 + level)
    if likelihood.cdf is None:
        return Response(middle, *(likelihood.mean(m + jnp.sqrt(v) * ndtri(tail)) for tail in tails))  # type: ignore[misc]
    return Response(middle, *(_quantile(likelihood, m, v, jnp.asarray(tail, m.dtype)) for tail in tails))


@functools.partial(jax.jit, static_argnums=0)
def _expected(likelihood: Likelihood, m: Array, v: Array) -> Float[Array, " N"]:
    mean: Any = likelihood.mean
    return expect(lambda y, z: mean(z), likelihood, jnp.ones_like(m), m, v)


@functools.partial(jax.jit, static_argnums=0)
def _quantile(likelihood: Likelihood, m: Array, v: Array, level: Array) -> Float[Array, " N"]:
    """The least y with P(Y <= y) >= level, by halving an interval that holds it; for counts a whole number."""
    cdf: Any = likelihood.cdf
    z = m[:, None] + jnp.sqrt(v)[:, None] * jnp.asarray(_standard_values(), m.dtype)
    below = lambda y: jnp.mean(cdf(y[:, None], z), axis=1) < level
    start: Any = likelihood.mean(m)  # type: ignore[misc]
    low = _beyond(start, lambda y: ~below(y), -1.0)
    high = _beyond(start, below, 1.0)

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        under = below(middle)
        return jnp.where(under, middle, low), jnp.where(under, high, middle)

    return jax.lax.fori_loop(0, NUM_HALVINGS, halve, (low, high))[1]


def _standard_values() -> Float[np.ndarray, " levels"]:
    """Values that represent a standard normal: its quantiles, stretched to variance one."""
    found = special.ndtri((np.arange(NUM_LEVELS) + 0.5) / NUM_LEVELS)
    return found / found.std()


def _beyond(start: Array, is_inside: Any, sign: float) -> Array:
    """A point at which `is_inside` no longer holds, by steps that double."""

    def go(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        y, step, count = carry
        inside = is_inside(y)
        return jnp.where(inside, y + sign * step, y), 2 * step, count + 1

    def goes_on(carry: tuple[Array, Array, Array]) -> Array:
        return jnp.any(is_inside(carry[0])) & (carry[2] < NUM_DOUBLINGS)

    return jax.lax.while_loop(goes_on, go, (start, 0.1 * (1 + jnp.abs(start)), jnp.asarray(0)))[0]
