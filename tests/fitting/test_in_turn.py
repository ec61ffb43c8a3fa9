"""Restarts of topics on a processor, one after the other: the numbers of restarts side by side."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi

V, K = 30, 3
COUNTS = np.random.default_rng(0).poisson(0.4, (48, V)) + np.eye(48, V, dtype=int)
CORPUS = vi.data.Corpus.from_counts(COUNTS)
KEY = jax.random.key(0)
slow = pytest.mark.slow
TAKES_TURNS = "vijax.fitting.fit.takes_turns"
ALGORITHMS = {
    "ssvi_a": lambda: vi.ssvi_a(vi.models.lda(K, V, eta=0.1), estep=vi.estep.cvb0()),
    "svi": lambda: vi.svi(vi.models.lda(K, V)),
    "ssvi_a, by words": lambda: vi.topics.by_words(
        vi.ssvi_a(vi.models.lda(K, V, eta=0.1), estep=vi.estep.cvb0())
    ),
    "em of all documents": lambda: vi.em(vi.models.lda(K, V, eta=1.5)),
    "learnt alpha": lambda: vi.svi(vi.models.lda(K, V), learn=("alpha",)),
}
NAMES = ["ssvi_a", *(pytest.param(name, marks=slow) for name in list(ALGORITHMS)[1:])]


def run(alg, num_steps=25, **more):
    size = None if alg.spec.name == "em" else 16
    settings = {"key": KEY, "num_steps": num_steps, "batch_size": size, "restarts": 3, **more}
    return vi.fit(alg, CORPUS, **settings)


@pytest.mark.parametrize("name", NAMES)
def test_turns_are_restarts_side_by_side(name, monkeypatch):
    with jax.enable_x64(True):
        turns = run(ALGORITHMS[name]())
        monkeypatch.setattr(TAKES_TURNS, lambda model: False)
        side_by_side = run(ALGORITHMS[name]())
    assert turns.trace["restart_elbo"].shape == (25, 3)
    for column in turns.trace:
        np.testing.assert_allclose(
            turns.trace[column], side_by_side.trace[column], rtol=1e-9, err_msg=column
        )
    for a, b in zip(
        jax.tree.leaves(turns.posterior), jax.tree.leaves(side_by_side.posterior), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-8)


@pytest.mark.parametrize("name", [NAMES[0], NAMES[2]])
def test_turns_in_two_parts_are_turns_in_one_bit_for_bit(name):
    kept = []
    keep = lambda progress: kept.append(jax.tree.map(jnp.copy, progress.whole))
    alg = ALGORITHMS[name]()
    run(alg, 12, callbacks=[keep], steps_per_chunk=4)
    whole = run(alg)
    parts = run(alg, state=kept[-1])
    for a, b in zip(jax.tree.leaves(whole.state), jax.tree.leaves(parts.state), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of skipped steps, of equal starts
def test_a_chunk_ends_where_all_runs_are_bad(monkeypatch):
    """A bound that is not finite: runs in turn end where one run does."""
    coin = vi.model(
        {"bias": vi.Beta.from_alpha_beta(2.0, 3.0)},
        lambda s, y, key: (jnp.log(y) * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    settings = {"num_steps": 100, "batch_size": 2, "key": KEY, "throw": False}
    fit = lambda **more: vi.fit(vi.svi(coin), -jnp.ones(8), **settings, **more)
    alone = fit()
    monkeypatch.setattr(TAKES_TURNS, lambda model: True)
    turns = fit(restarts=2)
    assert alone.status is turns.status
    assert len(turns.trace["step"]) == len(alone.trace["step"]) < 100
