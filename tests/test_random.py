"""The generator that is computed where it is read: JAX's own numbers, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vijax import random

KEY = jax.random.key(3)


def same(one, other):
    np.testing.assert_array_equal(jax.random.key_data(one), jax.random.key_data(other))


def test_keys_are_those_of_jax():
    assert random._is_ours(KEY)  # else the rest would compare JAX with itself
    for count in (1, 2, 5):
        same(random.split(KEY, count), jax.random.split(KEY, count))
    for number in (0, 77, jnp.int32(5), 2**31 - 1):
        same(random.fold_in(KEY, number), jax.random.fold_in(KEY, number))
    keys = jax.random.split(KEY, 4)
    same(jax.vmap(random.split)(keys), jax.vmap(jax.random.split)(keys))


@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (4, 1, 9)])
def test_normals_are_those_of_jax(shape):
    found = jax.jit(lambda key: random.normal(key, shape, jnp.float32))(KEY)
    np.testing.assert_allclose(found, jax.random.normal(KEY, shape), rtol=2e-7)


def test_other_generators_and_precisions_are_left_to_jax():
    other = jax.random.key(3, impl="rbg")
    assert not random._is_ours(other)
    same(random.split(other, 3), jax.random.split(other, 3))
    np.testing.assert_array_equal(random.normal(other, (4,), jnp.float32), jax.random.normal(other, (4,)))
    old = jax.random.PRNGKey(3)
    np.testing.assert_array_equal(random.split(old, 3), jax.random.split(old, 3))
    with jax.enable_x64(True):
        np.testing.assert_array_equal(random.normal(KEY, (4,), jnp.float64), jax.random.normal(KEY, (4,), jnp.float64))
