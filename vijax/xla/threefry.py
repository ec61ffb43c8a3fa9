"""The counter-based generator Threefry-2x32 with 20 rounds (Salmon et al., 2011), written to fuse.

It computes the same function as JAX's own generator. `jax.random.bits` runs it as a separate,
rolled loop over arrays in memory and throws away half of each pair of words; unrolled inside the
consumer it costs several times less (`benchmarks/log_gamma.py` prints both), and any element can be
redrawn from its index alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Words = Any  # arrays of uint32, of JAX or of NumPy

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def threefry2x32(
    key0: Words, key1: Words, x0: Words, x1: Words, xp: Any = jnp
) -> tuple[Words, Words]:
    """Two random words for each counter (x0, x1) under the key (key0, key1); `xp` is the module
    that computes them."""
    if xp is jnp:
        return _once(key0, key1, x0, x1)
    return _rounds(key0, key1, x0, x1, xp)


@jax.jit
def _once(key0: Words, key1: Words, x0: Words, x1: Words) -> tuple[Words, Words]:
    """The rounds, traced once for each shape, because they are much of the tracing of a small step.
    XLA still fuses them into the consumer."""
    return _rounds(key0, key1, x0, x1, jnp)


def _rounds(key0: Words, key1: Words, x0: Words, x1: Words, xp: Any) -> tuple[Words, Words]:
    keys = (key0, key1, key0 ^ key1 ^ xp.uint32(_PARITY))
    x0 = x0 + keys[0]
    x1 = x1 + keys[1]
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            x0 = x0 + x1
            x1 = _rotate(x1, rotation) ^ x0
        x0 = x0 + keys[(block + 1) % 3]
        x1 = x1 + keys[(block + 2) % 3] + xp.uint32(block + 1)
    return x0, x1


def _rotate(x: Words, bits: int) -> Words:
    """x rotated to the left."""
    return (x << np.uint32(bits)) | (x >> np.uint32(32 - bits))
