"""JAX's own random numbers, computed in one piece.

On a CPU, `jax.random` runs the rounds of Threefry as a loop. Each turn is a dozen tiny calls side
by side, too many for XLA to leave to one thread. It wakes a second thread for them, which costs a
small step more than its arithmetic. This implementation writes the rounds out, and gives the same
numbers, bit for bit. Every function of `jax.random` reads its keys like any others."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Int, PRNGKeyArray, UInt, UInt32

from vijax.xla.threefry import threefry2x32

PLAIN = "threefry2x32"
"""JAX's name of the implementation that gives the same numbers."""


def fused_key(key: PRNGKeyArray) -> PRNGKeyArray:
    """The same key in this implementation, for use within a compiled step. The key is unchanged if
    nothing is gained: off the CPU, and for implementations other than JAX's usual one.

    >>> key = jax.random.key(1)
    >>> same = jax.random.normal(key, 3) == jax.random.normal(fused_key(key), 3)
    >>> print(same)
    [ True  True  True]
    """
    if jax.default_backend() != "cpu" or not is_usual(key) or jax.random.key_impl(key) != PLAIN:
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_IMPLEMENTATION)


def is_usual(key: PRNGKeyArray) -> bool:
    """True for a key with the numbers of JAX's usual implementation, each by its position.

    >>> is_usual(jax.random.key(0)), is_usual(fused_key(jax.random.key(0))), is_usual(jax.random.key(0, impl="rbg"))
    (True, True, False)
    """
    partitionable = jax.config.jax_threefry_partitionable  # type: ignore[attr-defined]
    return partitionable and jax.random.key_impl(key) in (PLAIN, _IMPLEMENTATION)


def _seed(seed: Int[Array, ""]) -> UInt32[Array, 2]:
    return jax.random.key_data(jax.random.key(seed, impl=PLAIN))


def _split(key: UInt32[Array, 2], shape: tuple[int, ...]) -> UInt32[Array, "*shape 2"]:
    return _once(jnp.stack(_words(key, shape), -1))


def _fold_in(key: UInt32[Array, 2], data: Int[Array, ""] | int) -> UInt32[Array, 2]:
    zero = jnp.zeros((), jnp.uint32)
    words = threefry2x32(key[0], key[1], zero, jnp.asarray(data).astype(jnp.uint32))
    return _once(jnp.stack(words))


def _bits(key: UInt32[Array, 2], width: int, shape: tuple[int, ...]) -> UInt[Array, "*shape"]:
    high, low = _words(key, shape)
    if width == 64:
        return _once((high.astype(jnp.uint64) << jnp.uint64(32)) | low.astype(jnp.uint64))
    return _once((high ^ low).astype(f"uint{width}"))


def _words(key: UInt32[Array, 2], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Two words for each element, with its position as the counter."""
    size = math.prod(shape)
    if size < 2**32:
        high = jnp.zeros(shape, jnp.uint32)
        low = lax.iota(jnp.uint32, size).reshape(shape)
    else:  # only with 64 bits
        position = lax.iota(jnp.uint64, size).reshape(shape)
        high = (position >> jnp.uint64(32)).astype(jnp.uint32)
        low = position.astype(jnp.uint32)
    return threefry2x32(key[0], key[1], high, low)


def _once(x: Array) -> Array:
    """`x`, computed once, not again in each expression that reads it: keys made from keys would be
    computed exponentially often."""
    return lax.optimization_barrier(x)


_IMPLEMENTATION = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_bits,
    fold_in=_fold_in,
    name=f"{PLAIN} in one piece",
    tag="vij",
)
