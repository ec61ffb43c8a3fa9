"""What every E-step for mixed membership keeps to."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.esteps import EACH, ESTEPS, GOING_ON
from vijax.inference import estep

each_estep = pytest.mark.parametrize("step", EACH, indirect=True)
MAX_TOKENS = 40


@pytest.fixture
def step(request):
    return ESTEPS[request.param]


def chunk(docs=6, slots=9, topics=11, seed=0):
    rng = np.random.default_rng(seed)
    likelihood = rng.gamma(0.3, size=(docs, slots, topics)) + 1e-5
    likelihood /= likelihood.max(axis=-1, keepdims=True)
    return (
        jnp.float32(likelihood),
        jnp.float32(rng.integers(1, 4, size=(docs, slots))),
        jnp.full(topics, 0.2),
    )


@functools.partial(jax.jit, static_argnums=0)
def run(step, likelihood, counts, alpha, seed=0):
    return step.mixed_membership(likelihood, counts, alpha, jax.random.key(seed), MAX_TOKENS)


@each_estep
def test_mass_is_conserved(step):
    likelihood, counts, alpha = chunk()
    local = run(step, likelihood, counts, alpha)
    np.testing.assert_allclose(local.gamma.sum(1), counts.sum(1) + alpha.sum(), rtol=1e-5)
    if local.token_topics is not None:
        np.testing.assert_allclose(local.token_topics.sum(2), counts, rtol=1e-5)
        np.testing.assert_allclose(local.token_topics.sum(1) + alpha, local.gamma, rtol=1e-5)


@each_estep
def test_an_empty_document_believes_its_prior(step):
    likelihood, counts, alpha = chunk()
    local = run(step, likelihood, counts.at[2].set(0), alpha)
    if local.token_topics is not None:
        np.testing.assert_array_equal(local.token_topics[2], 0)
    np.testing.assert_allclose(local.gamma[2], alpha, rtol=1e-6)


@each_estep
def test_padding_slots_change_nothing(step):
    likelihood, counts, alpha = chunk()
    other = jnp.concatenate([likelihood, jnp.full_like(likelihood[:, :4], 0.7)], axis=1)
    padded = run(step, other, jnp.pad(counts, ((0, 0), (0, 4))), alpha)
    plain = run(step, likelihood, counts, alpha)
    np.testing.assert_allclose(padded.gamma, plain.gamma, rtol=1e-5)


@pytest.mark.parametrize("name", GOING_ON)
def test_neighbours_in_the_chunk_change_nothing(name):
    step = ESTEPS[name]
    likelihood, counts, alpha = chunk()
    together = run(step, likelihood, counts, alpha).gamma
    alone = jnp.concatenate(
        [run(step, likelihood[d : d + 1], counts[d : d + 1], alpha).gamma for d in range(6)]
    )
    np.testing.assert_allclose(together, alone, rtol=1e-5)


@each_estep
@pytest.mark.parametrize("alpha", [1e-3, 10.0])
@pytest.mark.parametrize("least", [1e-30, 1e-3])
def test_extremes_stay_finite(step, alpha, least):
    likelihood, counts, _ = chunk()
    likelihood = jnp.where(likelihood < 0.5, least, likelihood)
    local = run(step, likelihood, counts.at[0].set(0).at[1, 0].set(20), jnp.full(11, alpha))
    assert all(bool(jnp.all(jnp.isfinite(x) & (x >= 0))) for x in jax.tree.leaves(local))
    assert bool(jnp.all(local.gamma > 0.99 * alpha))


@each_estep
def test_float64(step):
    with jax.enable_x64(True):
        local = run(step, *(jnp.asarray(x, jnp.float64) for x in chunk()))
        assert all(x.dtype == jnp.float64 for x in jax.tree.leaves(local))


@each_estep
def test_runs_under_jit_and_vmap(step):
    likelihood, counts, alpha = chunk()
    many = jax.jit(jax.vmap(lambda p, seed: run(step, p, counts, alpha, seed).gamma))
    stacked = many(jnp.stack([likelihood, likelihood[::-1]]), jnp.arange(2))
    for seed, p in enumerate([likelihood, likelihood[::-1]]):
        np.testing.assert_allclose(
            stacked[seed], run(step, p, counts, alpha, seed).gamma, rtol=1e-4
        )


@each_estep
def test_settings_are_hashable_and_chunks_hold_documents(step):
    assert hash(step) == hash(type(step)(**vars(step)))
    assert step.docs_per_chunk(134, 100) >= step.docs_per_chunk(10**7, 100) == 1


@pytest.mark.parametrize(
    ("make", "settings", "name"),
    [
        (estep.mean_field, {"max_iters": 0}, "max_iters"),
        (estep.mean_field, {"max_iters": 2.5}, "max_iters"),
        (estep.mean_field, {"tol": 0.0}, "tol"),
        (estep.mean_field, {"tol": float("nan")}, "tol"),
        (estep.cvb0, {"max_iters": -1}, "max_iters"),
        (estep.cvb0, {"tol": "small"}, "tol"),
        (estep.gibbs, {"num_sweeps": 0}, "num_sweeps"),
        (estep.gibbs, {"num_sweeps": True}, "num_sweeps"),
        (estep.gibbs, {"burn_in": -1}, "burn_in"),
    ],
)
def test_bad_settings_are_named(make, settings, name):
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        make(**settings)


def test_the_registry_has_every_estep_for_mixed_membership():
    classes = {
        x
        for x in vars(estep).values()
        if isinstance(x, type) and issubclass(x, estep.MixedMembership)
    }
    assert classes - {estep.MixedMembership} == {type(step) for step in ESTEPS.values()}
