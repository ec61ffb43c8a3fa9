"""Tests of keys made on the host."""

from __future__ import annotations

import jax
import numpy as np

from vijax.xla import keys


def test_keys_of_a_run_on_the_host_are_those_of_jax():
    by_jax = jax.jit(keys._run_keys)
    for seed in range(200):
        key = jax.random.key(7919 * seed)
        found, expected = keys.run_keys(key), by_jax(key)
        for a, b in zip(found[:2], expected[:2], strict=True):
            assert a.dtype == b.dtype
            assert np.array_equal(jax.random.key_data(a), jax.random.key_data(b))
        assert int(found[2]) == int(expected[2])
        assert keys.seed(key) == int(jax.random.randint(key, (), 0, 2**31 - 1))


def test_keys_of_another_generator_are_those_of_jax():
    key = jax.random.key(3, impl="rbg")
    a, b = keys.run_keys(key), keys._run_keys(key)
    assert np.array_equal(jax.random.key_data(a[0]), jax.random.key_data(b[0]))
    assert int(a[2]) == int(b[2])
    assert keys.seed(key) == int(jax.random.randint(key, (), 0, 2**31 - 1))
