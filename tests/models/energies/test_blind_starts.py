"""Energies whose classes or factors are equal under the prior: the fit does not stay there."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming

K, ITEMS, PEOPLE, FACTORS, COLUMNS = 3, 6, 500, 2, 5
KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
CHANCES = RNG.beta(0.4, 0.4, (K, ITEMS))
CLASSES = RNG.integers(0, K, PEOPLE)
ANSWERS = (RNG.uniform(size=(PEOPLE, ITEMS)) < CHANCES[CLASSES]).astype(float)
LOADINGS = 2 * RNG.normal(size=(COLUMNS, FACTORS))
ROWS = RNG.normal(size=(PEOPLE, FACTORS)) @ LOADINGS.T + 0.5 * RNG.normal(size=(PEOPLE, COLUMNS))
EVEN = vi.Beta.from_alpha_beta(jnp.ones((K, ITEMS)), jnp.ones((K, ITEMS)))


def answers(item, y):
    """log p(answer to each item | class), (items, K)."""
    return y[:, None] * item.log.T + (1 - y)[:, None] * item.log1m.T


def latent_class(init=None):
    shares = vi.Dirichlet.from_concentration(jnp.ones(K))
    return vi.energy_model(
        globals={"share": shares, "item": EVEN},
        locals={"z": vi.Categorical(jnp.zeros(K))},
        energy=lambda s, y: jnp.vdot(s["z"].one_hot, s["share"].log + answers(s["item"], y).sum(0)),
        example=ANSWERS[0],
        init=init,
    )


def membership(init=None):
    def energy(s, y):
        of_items = s["theta"].log[None] + answers(s["item"], y)
        return 0.5 * jnp.sum(s["theta"].log) + jnp.sum(s["z"].one_hot * of_items)

    shares = vi.Dirichlet.from_concentration(jnp.ones(K))
    local = {"theta": shares, "z": vi.Categorical(jnp.zeros((ITEMS, K)))}
    return vi.energy_model(
        globals={"item": EVEN}, locals=local, energy=energy, example=ANSWERS[0], init=init
    )


def factors(init=None):
    def energy(s, y):
        w, x, noise = s["w"], s["x"], s["noise"]
        square = (
            jnp.sum(y**2) - 2 * y @ w.value @ x.value + jnp.einsum("dqr,qr->", w.outer, x.outer)
        )
        return -0.5 * noise.value * square + 0.5 * COLUMNS * noise.log - 0.5 * jnp.trace(x.outer)

    eye = jnp.eye(FACTORS)
    prior = vi.MultivariateNormal.from_mean_cov(
        jnp.zeros((COLUMNS, FACTORS)), jnp.broadcast_to(4 * eye, (COLUMNS, *eye.shape))
    )
    return vi.energy_model(
        globals={"w": prior, "noise": vi.Gamma.from_shape_rate(1.0, 1.0)},
        locals={"x": vi.MultivariateNormal.from_mean_cov(jnp.zeros(FACTORS), eye)},
        energy=energy,
        example=ROWS[0],
        init=init,
    )


MODELS = {
    "latent classes": (latent_class, ANSWERS),
    "membership": (membership, ANSWERS),
    "factors": (factors, ROWS),
}


def bound(make, data, init=None, num_steps=150, **given):
    return vi.fit(vi.cavi(make(init)), data, num_steps=num_steps, key=KEY, **given).elbo


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_does_not_stay_where_all_classes_are_equal(name):
    make, data = MODELS[name]
    assert bound(make, data) > bound(make, data, vi.init.prior()) + 50


def test_classes_are_found():
    """As well as from eight starts that are given, and those of the truth."""
    best = bound(latent_class, ANSWERS, vi.init.random_responsibilities(), restarts=8)
    fit = vi.fit(vi.cavi(latent_class()), ANSWERS, num_steps=150, key=KEY, restarts=4)
    np.testing.assert_allclose(fit.elbo, best, atol=0.5)
    found = np.asarray(fit.posterior["item"].mean())
    gaps = np.abs(found[:, None] - CHANCES[None]).mean(-1)
    assert sorted(gaps.argmin(0).tolist()) == [0, 1, 2]
    assert gaps.min(0).max() < 0.06


def test_factors_are_those_of_principal_components():
    fit = vi.fit(vi.cavi(factors()), ROWS, num_steps=300, key=KEY)
    w = np.asarray(fit.posterior["w"].mean())
    noise = 1 / float(fit.posterior["noise"].mean())
    # The maximum-likelihood covariance of Tipping and Bishop (1999), from eigenvalues.
    values, vectors = np.linalg.eigh(ROWS.T @ ROWS / PEOPLE)
    rest = values[:-FACTORS].mean()
    largest = vectors[:, -FACTORS:]
    expected = largest @ np.diag(values[-FACTORS:] - rest) @ largest.T + rest * np.eye(COLUMNS)
    np.testing.assert_allclose(
        w @ w.T + noise * np.eye(COLUMNS), expected, atol=0.06 * np.abs(expected).max()
    )


def test_a_model_that_sees_its_data_begins_at_the_prior():
    """As before: means that differ under the prior tell classes apart."""
    apart = vi.Beta.from_alpha_beta(1.0 + 3 * CHANCES, 4.0 - 3 * CHANCES)
    model = vi.energy_model(
        globals={"item": apart},
        locals={"z": vi.Categorical(jnp.zeros(K))},
        energy=lambda s, y: jnp.vdot(s["z"].one_hot, answers(s["item"], y).sum(0)),
        example=ANSWERS[0],
    )
    alg = vi.cavi(model)
    starts = [alg.init(jax.random.key(seed)).posterior["item"] for seed in (0, 1)]
    for q in starts:
        np.testing.assert_array_equal(q.mean(), apart.mean())


def test_equal_restarts_are_told():
    with pytest.warns(UserWarning, match=naming("restarts:", "3")):
        bound(latent_class, ANSWERS, vi.init.prior(), num_steps=2, restarts=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bound(latent_class, ANSWERS, num_steps=2, restarts=3)


def test_the_draws_go_by_content():
    order = np.random.default_rng(1).permutation(PEOPLE)
    starts = [
        vi.fit(vi.cavi(latent_class()), ANSWERS[rows], num_steps=1, key=KEY)
        .posterior["item"]
        .mean()
        for rows in (np.arange(PEOPLE), order)
    ]
    np.testing.assert_allclose(*starts, rtol=1e-4)


def test_starts_of_classes_are_refused_where_there_are_none():
    with pytest.raises(ValueError, match=naming("init:", "locals")):
        bound(factors, ROWS, vi.init.near_symmetric())
    with pytest.raises(ValueError, match=naming("names:", "'x'", "'y'")):
        bound(factors, ROWS, vi.init.local_draws(("y",)))
