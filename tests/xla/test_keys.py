"""Tests of keys made on the host."""

from __future__ import annotations

import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vijax.xla import keys

WORDS = st.integers(0, 2**32 - 1)
BY_JAX = jax.jit(keys._run_keys)


@settings(max_examples=100, deadline=None)
@given(WORDS, WORDS)
def test_keys_of_a_run_on_the_host_are_those_of_jax(first, second):
    """Of any 64 bits."""
    key = jax.random.wrap_key_data(np.array([first, second], np.uint32))
    by_host = keys.run_keys(key)
    expected = BY_JAX(key)
    for a, b in zip(by_host[:2], expected[:2], strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(jax.random.key_data(a), jax.random.key_data(b))
    assert int(by_host[2]) == int(expected[2])
    assert keys.seed(key) == int(jax.random.randint(key, (), 0, 2**31 - 1))


def test_keys_of_another_generator_are_those_of_jax():
    key = jax.random.key(3, impl="rbg")
    a, b = keys.run_keys(key), keys._run_keys(key)
    assert np.array_equal(jax.random.key_data(a[0]), jax.random.key_data(b[0]))
    assert int(a[2]) == int(b[2])
    assert keys.seed(key) == int(jax.random.randint(key, (), 0, 2**31 - 1))
