"""The part of a density that gammas, betas and Dirichlets share, with its limits at 0 and its -inf outside."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.families.numeric.excess import log_excess


def log_gamma_kernel(
    x: Float[Array, "*shape"],
    shape: Float[Array, "*shape"],
    rate: Float[Array, "*shape"],
    excess: Float[Array, "*shape"],
) -> Float[Array, "*shape"]:
    """(a - 1) log x - b x + a log(b / a) + a of shape a and rate b, given (b x - a) / a without cancellation.

    It is -a (m - 1 - log m) - log x with m = b x / a (the deviance form), where no two terms of size a meet. At x = 0
    it is the limit: infinite for a < 1, 1 + log b for a = 1, -inf for a > 1. It is -inf at x < 0 and at infinity. No
    derivative is NaN."""
    inside = (x > 0) & jnp.isfinite(x)
    safe = jnp.where(inside, x, 1.0)
    log_x = jnp.log(safe)
    regular = -shape * log_excess(jnp.where(inside, excess, 0.0), log_x + jnp.log(rate / shape)) - log_x
    at_zero = jnp.where(shape == 1.0, 1.0 + jnp.log(rate), jnp.where(shape < 1.0, jnp.inf, -jnp.inf))
    outside = jnp.where(x == 0, at_zero, jnp.where(jnp.isnan(x), jnp.nan, -jnp.inf))
    return jnp.where(inside, regular, outside)


def total_log_density(terms: Float[Array, "*shape n"]) -> Float[Array, "*shape"]:
    """The sum over the last axis; -inf where one of the terms is -inf, even beside an infinite one."""
    none = terms == -jnp.inf
    return jnp.where(jnp.any(none, axis=-1), -jnp.inf, jnp.sum(jnp.where(none, 0.0, terms), axis=-1))
