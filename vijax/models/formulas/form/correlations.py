"""Correlation matrices by partial correlations."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def correlation_factor(
    x: Float[Array, " pairs"], size: int
) -> tuple[Float[Array, "k k"], Float[Array, ""]]:
    """The triangular factor of a correlation matrix, and the log determinant of the map from the
    coordinates to its entries below the diagonal. The hyperbolic tangents of the coordinates are
    partial correlations (Lewandowski, Kurowicka and Joe 2009, section 2), so that a density in the
    coordinates has exponential tails; in ratios of entries its tails would be powers."""
    below = np.tril_indices(size, -1)
    log_left = -2 * (jnp.logaddexp(x, -x) - math.log(2))  # log(1 - z^2)
    z = jnp.zeros((size, size), x.dtype).at[below].set(jnp.tanh(x))
    log_parts = jnp.zeros((size, size), x.dtype).at[below].set(log_left)
    log_sums = jnp.cumsum(log_parts, 1)
    log_rest = log_sums - log_parts  # sums of a row before each entry
    factor = z * jnp.exp(0.5 * log_rest) + jnp.diag(jnp.exp(0.5 * log_sums[:, -1]))
    return factor, 0.5 * jnp.sum(log_rest[below]) + jnp.sum(log_left)
