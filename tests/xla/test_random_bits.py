"""Random numbers in one piece: JAX's own, bit for bit."""

from __future__ import annotations

import re
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vijax.xla.random_bits import fused_key

FUNCTIONS: dict[str, Callable] = {
    "bits of 8": lambda key: jax.random.bits(key, (3, 5), jnp.uint8),
    "bits of 16": lambda key: jax.random.bits(key, (7,), jnp.uint16),
    "bits of 32": lambda key: jax.random.bits(key, (2, 3, 4)),
    "one word": jax.random.bits,
    "normal": lambda key: jax.random.normal(key, (124,)),
    "gamma": lambda key: jax.random.gamma(key, jnp.linspace(0.1, 3.0, 11)),
    "categorical": lambda key: jax.random.categorical(key, jnp.zeros((4, 9))),
    "permutation": lambda key: jax.random.permutation(key, 20),
    "split": lambda key: jax.random.key_data(jax.random.split(key, (2, 3))),
    "fold_in": lambda key: jax.random.key_data(jax.random.fold_in(key, 2**32 - 1)),
    "of keys of keys": lambda key: jax.vmap(lambda k: jax.random.normal(k, (3,)))(
        jax.random.split(key, 4)
    ),
}


@pytest.mark.parametrize("of", FUNCTIONS.values(), ids=FUNCTIONS)
def test_same_numbers_as_jax(of: Callable) -> None:
    key = jax.random.key(7)
    np.testing.assert_array_equal(of(fused_key(key)), of(key))
    np.testing.assert_array_equal(jax.jit(lambda key: of(fused_key(key)))(key), jax.jit(of)(key))


def test_same_numbers_of_64_bits() -> None:
    key = jax.random.key(3)
    with jax.enable_x64(True):
        for dtype in (jnp.uint64, jnp.uint32):
            of = lambda key, dtype=dtype: jax.random.bits(key, (6,), dtype)
            np.testing.assert_array_equal(of(fused_key(key)), of(key))
        same = jax.random.normal(fused_key(key), (9,)), jax.random.normal(key, (9,))
        np.testing.assert_array_equal(*same)


def test_keys_of_another_kind_stay_what_they_are() -> None:
    key = jax.random.key(0, impl="rbg")
    assert fused_key(key) is key
    plain = jax.random.key(0)
    assert fused_key(plain) is not plain
    again = fused_key(plain)
    assert fused_key(again) is again
    with jax.threefry_partitionable(False):
        assert fused_key(plain) is plain


def test_keys_of_the_old_kind() -> None:
    key = jax.random.PRNGKey(11)
    np.testing.assert_array_equal(
        jax.random.normal(fused_key(key), (5,)), jax.random.normal(key, (5,))
    )


def size_of_program(depth: int) -> int:
    def chained(key: jax.Array) -> jax.Array:
        key = fused_key(key)
        for i in range(depth):
            key = jax.random.split(jax.random.fold_in(key, i))[1]
        return jax.random.normal(key, (100,))

    text = jax.jit(chained).lower(jax.random.key(0)).compile().as_text() or ""
    return len(re.findall(r" xor\(", text))


def test_keys_made_from_keys_are_made_once() -> None:
    """Each key's rounds are written once, not once in each of the keys made of it."""
    two, four = size_of_program(2), size_of_program(4)
    assert 0 < four <= 2 * two
