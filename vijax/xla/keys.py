"""Random keys made outside of other programs, each by a program that is compiled quickly."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from vijax.xla.compiler import quick_jit

fold_in = quick_jit(jax.random.fold_in)
"""`jax.random.fold_in`."""


@quick_jit
def two(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray]:
    """`jax.random.split`."""
    first, second = jax.random.split(key)
    return first, second


@quick_jit
def of_run(key: PRNGKeyArray) -> tuple[PRNGKeyArray, PRNGKeyArray, Int[Array, ""]]:
    """Keys of a run's start and of its steps, and the seed of the order of its batches."""
    key_init, key_run, key_order = jax.random.split(key, 3)
    return key_init, key_run, jax.random.randint(key_order, (), 0, np.iinfo(np.int32).max)


def seed(key: PRNGKeyArray) -> int:
    """Seed of a generator on the host; not the seed of the order of the batches of a run by the same key."""
    return int(jax.random.randint(key, (), 0, 2**31 - 1))
