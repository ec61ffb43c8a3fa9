"""`jax.random`, bit for bit, for the inside of a step: computed where it is read.

On a CPU JAX's own generator is a rolled loop of five rounds over arrays in memory, of some eighty small programs a
call; a step of a small model spent half of its time there. Unrolled it fuses with what reads it (`vijax.families.
threefry`). Not in a long chain: three such calls, one under the other and mapped over draws, took XLA minutes to
compile, so that `vijax.estimator.joint` asks `jax.random`. Keys of other generators, and settings under which JAX draws
other numbers, go to `jax.random`.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from vijax.families.threefry import threefry2x32

MOST = 1 << 16
"""Numbers that are drawn so; more of them are JAX's own, which takes less memory at once."""


def fold_in(key: PRNGKeyArray, number: Any) -> PRNGKeyArray:
    """`jax.random.fold_in`."""
    if not _is_ours(key):
        return jax.random.fold_in(key, number)
    zero, one = _words(key)
    return _key(*threefry2x32(zero, one, jnp.uint32(0), jnp.asarray(number).astype(jnp.uint32)))


def split(key: PRNGKeyArray, num: int = 2) -> PRNGKeyArray:
    """`jax.random.split`."""
    return _key(*_pairs(key, (num,))) if _is_ours(key) else jax.random.split(key, num)


def normal(key: PRNGKeyArray, shape: tuple[int, ...], dtype: Any) -> Float[Array, "*shape"]:
    """`jax.random.normal`; for what reads each number once: an outer product would draw it again in every row."""
    if not _is_ours(key) or jnp.dtype(dtype) != jnp.float32 or math.prod(shape) > MOST:
        return jax.random.normal(key, shape, dtype)
    first, second = _pairs(key, shape)
    exponent = np.float32(1.0).view(np.uint32)
    unit = lax.bitcast_convert_type((first ^ second) >> jnp.uint32(9) | exponent, jnp.float32) - np.float32(1.0)
    low = np.nextafter(np.float32(-1.0), np.float32(0.0))
    return np.float32(np.sqrt(2)) * lax.erf_inv(jnp.maximum(low, unit * (np.float32(1.0) - low) + low))


def _is_ours(key: PRNGKeyArray) -> bool:
    """Whether JAX would draw what is computed here."""
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    return typed and key.shape == () and str(jax.random.key_impl(key)) == "threefry2x32" and _is_partitionable()


def _is_partitionable() -> bool:
    return bool(jax.config.jax_threefry_partitionable)  # type: ignore[attr-defined]


def _words(key: PRNGKeyArray) -> tuple[UInt32[Array, ""], UInt32[Array, ""]]:
    data = jax.random.key_data(key)
    return data[0], data[1]


def _key(first: UInt32[Array, "*shape"], second: UInt32[Array, "*shape"]) -> PRNGKeyArray:
    return jax.random.wrap_key_data(jnp.stack([first, second], -1), impl="threefry2x32")


def _pairs(key: PRNGKeyArray, shape: tuple[int, ...]) -> tuple[UInt32[Array, "*shape"], UInt32[Array, "*shape"]]:
    """The words of counters from zero on."""
    count = jnp.reshape(lax.iota(jnp.uint32, math.prod(shape)), shape)
    return threefry2x32(*_words(key), jnp.zeros_like(count), count)
