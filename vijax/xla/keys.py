"""Random keys made outside of other programs, each by a quickly compiled program."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, UInt32

from vijax.xla.compiler import quick_jit
from vijax.xla.random_bits import PLAIN
from vijax.xla.threefry import threefry2x32

fold_in = quick_jit(jax.random.fold_in)
"""`jax.random.fold_in`."""


@quick_jit
def split(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """`jax.random.split`."""
    first, second = jax.random.split(key)
    return first, second


@functools.partial(quick_jit, static_argnums=1)
def split_many(key: PRNGKeyArray, count: int) -> tuple[PRNGKeyArray, ...]:
    """`jax.random.split`, as a tuple of keys."""
    return tuple(jax.random.split(key, count))


def run_keys(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray, Int[Array, ""] | int]:
    """Keys of a run's start and of its steps, and the seed of the order of its batches. They have
    the numbers of `jax.random`, but for JAX's usual generator are made on the host, so that nothing
    is compiled for them."""
    if not _is_usual(key):
        return _run_keys(key)
    start, steps, order = _split(np.asarray(jax.random.key_data(key)), 3)
    key_start = jax.random.wrap_key_data(start, impl=PLAIN)
    key_steps = jax.random.wrap_key_data(steps, impl=PLAIN)
    return key_start, key_steps, _integer(order)


def _is_usual(key: PRNGKeyArray) -> bool:
    """True for one concrete key of JAX's usual generator, whose numbers can be made on the host."""
    is_threefry = jax.config.jax_threefry_partitionable and jax.random.key_impl(key) == PLAIN  # type: ignore[attr-defined]
    return bool(is_threefry) and not isinstance(key, jax.core.Tracer) and not np.ndim(key)


def _integer(key: UInt32[np.ndarray, 2]) -> int:
    """`jax.random.randint` from 0 to below the largest int32. It draws 64 bits, of which only the
    lower 32 count in this range."""
    return int(np.bitwise_xor(*_words(_split(key, 2)[1], 1))[0]) % np.iinfo(np.int32).max


def _words(key: UInt32[np.ndarray, 2], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Two words for each of the counters 0, 1, ..."""
    counters: Any = np.arange(count, dtype=np.uint32)
    with np.errstate(over="ignore"):
        words: Any = threefry2x32(key[0], key[1], np.zeros_like(counters), counters, np)
    return words


def _split(key: UInt32[np.ndarray, 2], count: int) -> UInt32[np.ndarray, "count 2"]:
    return np.stack(_words(key, count), -1)


@quick_jit
def _run_keys(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray, Int[Array, ""]]:
    key_init, key_run, key_order = jax.random.split(key, 3)
    return key_init, key_run, jax.random.randint(key_order, (), 0, np.iinfo(np.int32).max)


def seed(key: PRNGKeyArray) -> int:
    """The seed of a generator on the host. It differs from the seed of the order of batches that
    `run_keys` makes of the same key."""
    if _is_usual(key):
        return _integer(np.asarray(jax.random.key_data(key)))
    return int(jax.random.randint(key, (), 0, np.iinfo(np.int32).max))
