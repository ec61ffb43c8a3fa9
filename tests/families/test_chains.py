"""Discrete chains: masks, draws and memory; sums over all paths are in the laws."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vijax.families import MarkovChain
from vijax.families.chain import chains

T, K = 5, 3


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def potentials(shared: bool, seed: int = 0, dtype: type = np.float32) -> tuple:
    rng = np.random.default_rng(seed)
    shapes = ((K,), (K, K) if shared else (T - 1, K, K), (T, K))
    return tuple(jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes)


def weights_of_all_paths(initial, transition, unary, length: int) -> dict[tuple, float]:
    """Log weight of every path of this length, by loops."""
    initial, transition, unary = (np.asarray(x, np.float64) for x in (initial, transition, unary))
    out = {}
    for z in itertools.product(range(K), repeat=length):
        total = initial[z[0]] if length else 0.0
        for t in range(length):
            total += unary[t, z[t]]
            if t:
                total += (transition if transition.ndim == 2 else transition[t - 1])[z[t - 1], z[t]]
        out[z] = total
    return out


@jax.jit
def everything(initial, transition, unary, mask):
    args = (initial, transition, unary)
    value, gradient = jax.value_and_grad(chains.chain_log_normalizer, (0, 1, 2))(*args, mask)
    return {
        "value": value,
        "gradient": gradient,
        "entropy": chains.chain_entropy(*args, mask),
        "mode": chains.chain_mode(*args, mask),
        "draws": chains.chain_sample(jax.random.key(0), *args, mask, (4000,)),
    }


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "by_step"])
def test_masked_chains_are_shorter_chains(shared: bool, x64) -> None:
    """Of every length from 0 to T: values, statistics, entropy, mode and draws by enumeration;
    nonsense where padded.

    Draws: 4000 paths, every pair's frequency at 6 standard errors."""
    args = potentials(shared, dtype=np.float64)
    for length in range(T + 1):
        mask = jnp.arange(T) < length
        spoilt = (args[0], args[1], jnp.where(mask[:, None], args[2], jnp.nan))
        got = jax.tree.map(np.asarray, everything(*spoilt, mask))
        weights = weights_of_all_paths(*args, length)
        log_weights = np.array(list(weights.values()))
        log_normalizer = np.logaddexp.reduce(log_weights)
        probs = np.exp(log_weights - log_normalizer)
        np.testing.assert_allclose(got["value"], log_normalizer, atol=1e-12)
        np.testing.assert_allclose(got["entropy"], -np.sum(probs * np.log(probs)), atol=1e-12)
        stats = [np.zeros(np.shape(a)) for a in args]
        for z, p in zip(weights, probs, strict=True):
            for t, state in enumerate(z):
                stats[2][t, state] += p
                if t:
                    (stats[1] if shared else stats[1][t - 1])[z[t - 1], state] += p
            if z:
                stats[0][z[0]] += p
        for mine, want in zip(got["gradient"], stats, strict=True):
            np.testing.assert_allclose(mine, want, atol=1e-12)
        assert tuple(got["mode"][:length]) == max(weights, key=weights.get)
        assert not got["mode"][length:].any()
        assert not got["draws"][:, length:].any()
        check_draws(got["draws"][:, :length], weights, probs)


def check_draws(draws: np.ndarray, weights: dict[tuple, float], probs: np.ndarray) -> None:
    index = (
        np.ravel_multi_index(draws.T, (K,) * draws.shape[1])
        if draws.shape[1]
        else np.zeros(len(draws), int)
    )
    counts = np.bincount(index, minlength=len(weights))
    assert np.all(np.abs(counts - len(draws) * probs) < 6 * np.sqrt(len(draws) * probs) + 6)


def test_stats_count_pairs_and_skip_padding() -> None:
    z, mask = jnp.array([2, 0, 0, 1, 1]), jnp.arange(T) < 3
    initial, pairs, unary = chains.chain_stats(z, K, shared=True, mask=mask)
    assert initial.tolist() == [0, 0, 1]
    assert pairs.tolist() == [[1, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert unary.sum(-1).tolist() == [1, 1, 1, 0, 0]
    by_step = chains.chain_stats(z, K, shared=False, mask=mask)[1]
    assert by_step.shape == (T - 1, K, K)
    assert by_step.sum((1, 2)).tolist() == [1, 1, 0, 0]


def test_impossible_moves() -> None:
    """log 0 in first state, transitions and observations: value and marginals are those of a large
    negative number."""
    initial, transition, unary = potentials(True)
    initial = initial.at[1:].set(-jnp.inf)
    transition = jnp.where(
        jnp.tril(jnp.ones((K, K), bool), -1) | ~jnp.tri(K, k=1, dtype=bool), -jnp.inf, transition
    )
    unary = unary.at[3, 0].set(-jnp.inf)
    args = initial, transition, unary
    f = jax.jit(jax.value_and_grad(chains.chain_log_normalizer, (0, 1, 2)))
    for got, want in zip(
        *map(jax.tree.leaves, (f(*args), f(*(jnp.maximum(a, -1e30) for a in args)))), strict=True
    ):
        assert np.all(np.isfinite(got))
        np.testing.assert_allclose(got, want, rtol=1e-6)
    assert f(initial, jnp.where(jnp.eye(K, dtype=bool), -jnp.inf, transition), unary)[0] == -jnp.inf


def test_one_step_is_a_categorical() -> None:
    q = MarkovChain.from_potentials([0.3, -1.0], np.zeros((2, 2)), [[0.5, 1.0]])
    np.testing.assert_allclose(q.log_normalizer(), np.logaddexp(0.8, 0.0), rtol=1e-6)
    np.testing.assert_allclose(
        q.mean()[0], np.exp([0.8, 0.0]) / np.exp([0.8, 0.0]).sum(), rtol=1e-6
    )
    assert q.sample(jax.random.key(0), (7,)).shape == (7, 1)
    assert q.mode().tolist() == [0]


def test_long_chains_in_float32() -> None:
    """10,000 steps over 20 states: A within 1e-6 of float64, marginals that sum to one, and the
    entropy."""
    rng = np.random.default_rng(1)
    steps, k = 10_000, 20
    potentials = [
        np.log(rng.dirichlet(np.ones(k))),
        np.log(rng.dirichlet(np.ones(k), k)),
        rng.normal(size=(steps, k)),
    ]
    f = jax.jit(lambda q: (q.log_normalizer(), q.expected_stats(), q.entropy()))
    value, mu, entropy = f(MarkovChain.from_potentials(*map(np.float32, potentials)))
    with jax.enable_x64(True):
        exact, mu64, entropy64 = f(MarkovChain.from_potentials(*potentials))
    np.testing.assert_allclose([value, entropy], [exact, entropy64], rtol=1e-6)
    np.testing.assert_allclose(mu.unary, mu64.unary, atol=1e-4)
    np.testing.assert_allclose(mu.transition.sum(), steps - 1, rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({0: (1, K)}, "initial"),
        ({1: (2, K, K)}, "transition"),
        ({2: (T, K + 1)}, "unary"),
        ({3: (T + 1,)}, "mask"),
    ],
)
def test_shapes_that_do_not_fit_are_named(change: dict, name: str) -> None:
    shapes = {0: (K,), 1: (K, K), 2: (T, K), 3: (T,)} | change
    with pytest.raises(ValueError, match=rf"^{name}: expected "):
        chains.chain_log_normalizer(*(jnp.ones(shape) for shape in shapes.values()))
