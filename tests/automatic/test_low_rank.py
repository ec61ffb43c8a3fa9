"""The low-rank guide in the engine, and gradients without noise at the posterior."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.scipy.stats import norm

import vijax as vi
from tests.naming import naming
from vijax.families.vector.free_normals import LowRankNormal
from vijax.fitting import checkpoint

KEY = jax.random.key(0)
U = np.array([[1.0], [-0.5], [0.8], [0.0]])
SD = np.array([0.5, 0.4, 1.0, 0.7])
COV = np.diag(SD**2) + U @ U.T
P = np.linalg.inv(COV)
M = np.array([1.0, -2.0, 0.5, 0.0])
GUIDES = {
    "mean_field": vi.guides.mean_field(),
    "full_rank": vi.guides.full_rank(),
    "low_rank": vi.guides.low_rank(1),
}


def target(guide, precision=P):
    return vi.density(
        {"x": vi.free(4)}, lambda v: -0.5 * (v["x"] - M) @ precision @ (v["x"] - M), guide=guide
    )


def optimum(guide):
    """q at the target, which is in its family."""
    if guide == "low_rank":
        return target(GUIDES[guide]), LowRankNormal(
            *(jnp.asarray(a, jnp.float32) for a in (M, np.log(SD), U))
        )
    if guide == "full_rank":
        q = vi.MultivariateNormal.from_mean_precision(M.astype(np.float32), P.astype(np.float32))
        return target(GUIDES[guide]), q
    return target(GUIDES[guide], np.diag(1 / SD**2)), vi.Normal.from_mean_variance(
        M.astype(np.float32), (SD**2).astype(np.float32)
    )


@functools.lru_cache
def program(guide, sticking):
    """q -> what steps of gradient descent make of it over 500 keys, relative to their rate."""
    alg = vi.compose(
        optimum(guide)[0],
        estimator=vi.estimator.reparameterised(4, sticking=sticking),
        update=vi.update.descend(optax.sgd(1e-3)),
        step_size=vi.step_size.constant(),
    )
    state = alg.init(KEY)

    def moved(q, key):
        at = state._replace(posterior=state.posterior.replace({"free": q}))
        return jax.tree.map(
            lambda new, old: (new - old) / 1e-3, alg.step(key, at, None)[0].posterior["free"], q
        )

    return jax.jit(lambda q: jax.vmap(moved, (None, 0))(q, jax.random.split(KEY, 500)))


def moves_from(guide, q, sticking):
    return [np.asarray(x) for x in jax.tree.leaves(program(guide, sticking)(q))]


# --- the guide ------------------------------------------------------------------------------------
def test_advi_finds_a_normal_of_its_rank():
    rate = optax.cosine_decay_schedule(0.05, 1500)
    alg = vi.advi(
        target(None),
        guide=vi.guides.low_rank(1),
        estimator=vi.estimator.reparameterised(4, sticking=True),
        optimizer=optax.adam(rate),
    )
    fit = vi.fit(alg, num_steps=1500, key=KEY)
    q = fit.posterior["free"]
    cov = np.diag(np.exp(2 * np.asarray(q.log_sd))) + np.asarray(q.factor) @ np.asarray(q.factor).T
    np.testing.assert_allclose(q.mean(), M, atol=1e-3)
    np.testing.assert_allclose(cov, COV, atol=2e-3)
    draws = np.asarray(fit.sample(jax.random.key(1), 20_000)["x"], np.float64)
    np.testing.assert_allclose(np.cov(draws.T), COV, atol=0.05)


def test_restarts_checkpoints_and_going_on(tmp_path):
    alg = vi.advi(target(None), guide=vi.guides.low_rank(2), num_samples=2)
    whole = vi.fit(alg, num_steps=20, key=KEY)
    half = vi.fit(alg, num_steps=10, key=KEY)
    path = checkpoint.save(tmp_path, 10, half.state, {})
    on = vi.fit(alg, num_steps=20, key=KEY, state=checkpoint.load(path, half.state).tree)
    np.testing.assert_array_equal(on.posterior["free"].factor, whole.posterior["free"].factor)
    several = vi.fit(alg, num_steps=10, key=KEY, restarts=3)
    assert several.trace["restart_elbo"].shape == (10, 3)
    assert several.posterior["free"].factor.shape == (4, 2)


def sizes_of(jaxpr):
    """Of every array in a program, those of programs inside it too."""
    for equation in jaxpr.eqns:
        yield from (v.aval.size for v in equation.outvars if hasattr(v.aval, "size"))
        for value in equation.params.values():
            for inner in jax.tree.leaves(
                value, is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")
            ):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from sizes_of(inner)


def test_no_array_of_ten_thousand_variables_is_square():
    dim, rank = 10_000, 10
    model = vi.density(
        {"x": vi.free(dim)},
        lambda v: -0.5 * jnp.sum(v["x"] ** 2) - 0.5 * jnp.sum(v["x"]) ** 2 / dim,
    )
    alg = vi.advi(model, guide=vi.guides.low_rank(rank))
    state = jax.eval_shape(alg.init, KEY)
    program = jax.make_jaxpr(alg.step)(KEY, state, 0.0)
    sizes = list(sizes_of(program.jaxpr))
    assert len(sizes) > 100
    assert max(sizes) <= (dim + rank) * rank
    asked = lambda q: (q.sample(KEY, (3,)), q.log_prob(q.center))
    draws = jax.make_jaxpr(asked)(state.posterior["free"])
    assert max(sizes_of(draws.jaxpr)) <= (dim + rank) * rank
    divergence = jax.make_jaxpr(lambda q: q.kl(q))(state.posterior["free"])
    assert max(sizes_of(divergence.jaxpr)) <= 2 * (dim + rank) * rank


def test_an_energy_has_it_for_its_free_globals():
    """A slope and an intercept beside a conjugate precision of the noise: all are found."""
    x = np.linspace(-1, 1, 60).astype(np.float32)
    y = (2 * x + 1 + 0.1 * np.random.default_rng(0).normal(size=60)).astype(np.float32)

    def energy(s, group):
        x, y = group
        gap = y - s["w"][0] - s["w"][1] * x
        return 0.5 * (s["noise"].log - jnp.log(2 * jnp.pi) - s["noise"].value * gap**2)

    model = vi.energy_model(
        globals={
            "noise": vi.Gamma.from_shape_rate(1.0, 1.0),
            "w": vi.free(2, log_prior=lambda w: norm.logpdf(w, 0, 5)),
        },
        energy=energy,
        example=(1.0, 1.0),
        structure=vi.Structure(guide=vi.guides.low_rank(1)),
    )
    alg = vi.svi(
        model,
        update={"free": vi.update.descend(optax.adam(0.02))},
        step_size=vi.step_size.constant(0.2),
    )
    draws = vi.fit(alg, (x, y), num_steps=800, key=KEY).sample(jax.random.key(1), 500)
    np.testing.assert_allclose(draws["w"].mean(0), [1.0, 2.0], atol=0.1)
    assert 20 < float(draws["noise"].mean()) < 200


# --- sticking the landing -------------------------------------------------------------------------
@pytest.mark.parametrize("guide", GUIDES)
def test_at_the_posterior_the_gradient_has_no_noise(guide):
    q = optimum(guide)[1]
    still, noisy = (moves_from(guide, q, sticking) for sticking in (True, False))
    assert max(np.abs(x).max() for x in still) < 0.02
    assert max(np.abs(x).max() for x in noisy) > 0.5


@pytest.mark.parametrize("guide", GUIDES)
def test_elsewhere_its_mean_is_the_same(guide):
    q = optimum(guide)[1]
    away = q.with_naturals([1.3 * x for x in jax.tree.leaves(q)])
    one, two = (moves_from(guide, away, sticking) for sticking in (True, False))
    for a, b in zip(one, two, strict=True):
        error = np.sqrt((a.var(0) + b.var(0)) / 500)
        assert np.all(np.abs(a.mean(0) - b.mean(0)) < 5 * error + 0.01)


def test_a_conjugate_global_is_served_too():
    """Exactly the conjugate posterior stays where it is, at any draw; by the prior as part of what
    is drawn."""
    coin = vi.model(
        {"bias": vi.Beta.from_alpha_beta(2.0, 3.0)},
        lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )
    y = np.array([1.0, 1.0, 0.0, 1.0], np.float32)

    def after(sticking):
        alg = vi.svi(
            coin, estimator=vi.estimator.reparameterised(1, sticking=sticking), num_groups=4.0
        )
        state = alg.init(KEY)
        state = state._replace(
            posterior=state.posterior.replace({"bias": vi.Beta.from_alpha_beta(5.0, 4.0)})
        )
        new = jax.jit(jax.vmap(lambda key: alg.step(key, state, y)[0].posterior["bias"].alpha))
        return np.asarray(new(jax.random.split(KEY, 20)))

    np.testing.assert_allclose(after(True), 5.0, atol=1e-4)
    assert np.ptp(after(False)) > 0.01


# --- what is refused ------------------------------------------------------------------------------
def test_updates_and_estimators_of_natural_parameters_are_refused():
    model = target(vi.guides.low_rank(1))
    with pytest.raises(
        ValueError,
        match=naming("estimator:", "vijax.estimator.reparameterised()", "'free'"),
    ):
        vi.ngvi(model)
    with pytest.raises(ValueError, match="estimator: expected"):
        vi.bbvi(model, guide=vi.guides.low_rank(1))
    with pytest.raises(
        ValueError, match=naming("update:", "vijax.update.descend(optimizer)", "'free'")
    ):
        vi.compose(model, update={"free": vi.update.kl()}, step_size=vi.step_size.constant())
    with pytest.raises(ValueError, match="rank: expected at most 4"):
        vi.advi(target(None), guide=vi.guides.low_rank(5))
    with pytest.raises(ValueError, match="rank: expected an integer >= 1"):
        vi.guides.low_rank(0)
