"""Quasi-random normals inside compiled programs: points of a Sobol sequence, shifted at random.

The points are a table that is made once, where a program is traced. A random digital shift (every binary digit of a
coordinate is turned or not, for all points alike; Owen 2023, Practical Quasi-Monte Carlo Integration, section 15.5)
makes each of them uniform, so that means over them are unbiased, and keeps them as evenly spread as they were.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt32

from vijax.checks import require

MOST = 21_201
"""Coordinates that SciPy's direction numbers serve."""
_BITS = 23
"""Binary digits that are read: no uniform number is then 0 or 1 in float32."""


@functools.lru_cache(maxsize=16)
def points(count: int, dim: int) -> UInt32[np.ndarray, "count dim"]:
    """The first points of a Sobol sequence of fixed scrambling, as fractions of 2^32.

    Raises:
      ValueError: more coordinates than the sequence has.

    >>> points(4, 2).shape
    (4, 2)
    """
    from scipy.stats import qmc  # imported here, because it takes as long to import as JAX itself

    require(dim <= MOST, "quasi", f"at most {MOST} coordinates", dim, "Leave it out: draws are then independent.")
    rule = qmc.Sobol(dim, rng=np.random.default_rng(0))
    found = rule.random_base2(math.ceil(math.log2(max(count, 1))))[:count]
    return (found * 2.0**32).astype(np.uint32)


def fixed_normals(count: int, dim: int, dtype: DTypeLike) -> Float[Array, "count dim"]:
    """Standard normal points that are always the same: for expectations that take no key."""
    return _normal(jnp.asarray(points(count, dim)), dtype)


def normal_at(key: PRNGKeyArray, index: Int[Array, ""], count: int, dim: int, dtype: DTypeLike) -> Float[Array, " dim"]:
    """One of `count` standard normal points, whose shift is drawn with `key`: points of one key belong together.

    >>> all_of = lambda key: jax.vmap(lambda i: normal_at(key, i, 64, 3, jnp.float32))(jnp.arange(64))
    >>> bool(jnp.all(jnp.abs(all_of(jax.random.key(0)).mean(0)) < 0.05))  # independent ones: 0.125 on average
    True
    """
    turned = jax.random.bits(key, (dim,), jnp.uint32)
    return _normal(jnp.asarray(points(count, dim))[index] ^ turned, dtype)


def _normal(fraction: UInt32[Array, "*shape"], dtype: DTypeLike) -> Float[Array, "*shape"]:
    cell = (fraction >> (32 - _BITS)).astype(dtype)
    return ndtri((cell + 0.5) / 2**_BITS)
