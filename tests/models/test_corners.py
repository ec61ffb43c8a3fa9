"""Successive projections: exact on rows without noise, against least squares, and wary of rows of
few counts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vijax.data import synthetic
from vijax.models.factors.gap_nmf import corner_rows

RNG = np.random.default_rng(0)
PROFILES = RNG.dirichlet(np.full(30, 0.3), 6)
KEY = jax.random.key(0)
found = jax.jit(corner_rows, static_argnums=3)


def test_pure_rows_are_found_among_mixtures_of_as_many_counts():
    shares = np.concatenate([np.eye(6), RNG.dirichlet(np.full(6, 0.5), 94) * 0.6 + 0.4 / 6])
    order = RNG.permutation(100)
    y = 1000.0 * (shares @ PROFILES)[order]
    for seed in range(5):
        rows = found(jax.random.key(seed), y, jnp.ones(100), 6)
        assert set(order[np.asarray(rows)]) == set(range(6))


def test_each_row_is_the_farthest_from_the_span_of_those_before():
    """Residuals by least squares in double precision; the half that the key prefers is read off the
    same generator."""
    y = RNG.poisson(40.0 * RNG.gamma(0.3, size=(100, 6)) @ PROFILES).astype(float)
    x = y / np.sqrt(np.maximum(y.sum(1, keepdims=True), 1))
    preferred = np.where(jax.random.bernoulli(KEY, 0.5, (100,)), 1.0, 0.5)
    rows = np.asarray(found(KEY, y, jnp.ones(100), 10))
    for k in range(10):
        others = x[rows[:k]].T
        residual = x.T - others @ np.linalg.lstsq(others, x.T, rcond=None)[0] if k else x.T
        lengths = preferred * (residual**2).sum(0)
        assert lengths[rows[k]] >= lengths.max() * (1 - 1e-4)


def test_rows_of_few_counts_do_not_look_pure():
    """Half of the rows have ten counts or fewer, each on entries that no other row has so often."""
    y = RNG.poisson(300.0 * RNG.dirichlet(np.full(6, 0.2), 100) @ PROFILES).astype(float)
    y[::2] = RNG.multinomial(RNG.integers(1, 11, 50), PROFILES.mean(0))
    rows = np.asarray(found(KEY, y, jnp.ones(100), 6))
    assert np.all(rows % 2 == 1)


@pytest.mark.parametrize("x64", [False, True])
def test_padding_empty_rows_and_more_rows_than_there_are(x64):
    with jax.enable_x64(x64):
        y = np.concatenate(
            [RNG.poisson(50.0, (94, 30)), np.zeros((2, 30)), np.full((4, 30), 1e4)]
        ).astype(float)
        weights = jnp.asarray(np.repeat([1.0, 0.0], [96, 4]))
        rows = np.asarray(found(KEY, jnp.asarray(y), weights, 10))
        assert np.all(rows < 94)
        assert len(set(rows)) == 10
        rows = np.asarray(found(KEY, jnp.zeros((100, 30)), jnp.zeros(100), 10))
        assert np.all((rows >= 0) & (rows < 100))


def test_another_key_finds_other_rows():
    y = jnp.asarray(
        synthetic.spectrogram(100, num_components=20, num_frequencies=30, seed=1)[0], float
    )
    choose = jax.jit(
        jax.vmap(functools.partial(corner_rows, y=y, weights=jnp.ones(100), num_rows=10))
    )
    first, second = (set(rows.tolist()) for rows in choose(jax.random.split(KEY, 2)))
    assert first != second
    assert first & second
