"""Energies with free variables and points beside conjugate ones, in one step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.scipy.stats import norm

import vijax as vi
from tests.naming import naming

KEY = jax.random.key(0)


def regression(**more):
    """y ~ N(x w, 1 / precision): w free with a normal prior, the precision conjugate."""

    def energy(s, group):
        x, y = group
        gap = y - x @ s["w"]
        return (
            0.5 * s["precision"].log
            - 0.5 * s["precision"].value * gap**2
            - 0.5 * jnp.log(2 * jnp.pi)
        )

    return vi.energy_model(
        globals={
            "w": vi.free(2, log_prior=lambda w: norm.logpdf(w, 0, 2)),
            "precision": vi.Gamma.from_shape_rate(2.0, 1.0),
        },
        energy=energy,
        example=(np.zeros(2, np.float32), np.float32(0)),
        **more,
    )


def data(n=40):
    x = np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32)
    y = (x @ [1.0, -2.0] + 0.5 * np.random.default_rng(1).normal(size=n)).astype(np.float32)
    return x, y


def exact(x, y):
    """Mean-field coordinate ascent by hand: q(w) = N, q(precision) = Gamma."""
    e, n = 1.0, len(y)
    for _ in range(200):
        p = e * x.T @ x + np.eye(2) / 4
        mean, cov = np.linalg.solve(p, e * x.T @ y), np.linalg.inv(p)
        shape, rate = 2 + n / 2, 1 + 0.5 * (((y - x @ mean) ** 2).sum() + np.trace(x @ cov @ x.T))
        e = shape / rate
    return mean, cov, shape, rate


def test_conjugate_and_free_variables_meet_where_coordinate_ascent_by_hand_does():
    x, y = data()
    mean, cov, shape, rate = exact(x.astype(float), y.astype(float))
    alg = vi.svi(regression(), step_size=vi.step_size.robbins_monro(offset=1.0, kappa=0.6))
    fit = vi.fit(alg, (x, y), num_steps=150, key=KEY)
    q = fit.posterior
    assert float(q["precision"].shape) == pytest.approx(shape, rel=1e-3)
    assert float(q["precision"].rate) == pytest.approx(rate, rel=5e-3)
    np.testing.assert_allclose(q["free"].mean(), mean, atol=0.02 * np.sqrt(np.diag(cov)).max())
    np.testing.assert_allclose(q["free"].cov, cov, atol=0.02 * np.diag(cov).max())
    draws = fit.sample(jax.random.key(1), 1000)
    assert set(draws) == {"w", "precision"}
    assert draws["w"].shape == (1000, 2)


def test_auto_fits_them_until_the_bound_rises_no_more():
    x, y = data()
    mean, cov, shape, rate = exact(x.astype(float), y.astype(float))
    fit = vi.auto(regression(), (x, y), key=KEY, num_starts=2)
    q = fit.posterior
    assert float(q["precision"].shape / q["precision"].rate) == pytest.approx(
        shape / rate, rel=0.02
    )
    np.testing.assert_allclose(q["free"].mean(), mean, atol=0.1 * np.sqrt(np.diag(cov)).max())
    assert fit.status is vi.Status.CONVERGED
    assert "rises no more" in fit.verdict
    assert fit.elbo.standard_error < 0.1
    with pytest.raises(ValueError, match="max_draws: expected none"):
        vi.auto(regression(), (x, y), key=KEY, max_draws=64)


def test_minibatches_scale_the_data_and_not_the_priors():
    x, y = data()
    _, cov, shape, rate = exact(x.astype(float), y.astype(float))
    fit = vi.fit(vi.svi(regression()), (x, y), num_epochs=60, batch_size=10, key=KEY)
    assert float(fit.posterior["precision"].shape) == pytest.approx(shape, rel=1e-3)
    assert float(fit.posterior["precision"].rate) == pytest.approx(rate, rel=0.1)
    np.testing.assert_allclose(np.diag(fit.posterior["free"].cov), np.diag(cov), rtol=0.15)


def test_a_network_of_which_a_point_is_learnt_beside_a_conjugate_precision():
    """y ~ N(tanh net(x), 1 / precision): the net by Adam, the precision by its exact message, in
    one step."""
    rng = np.random.default_rng(0)
    x = np.linspace(-2, 2, 60).astype(np.float32)
    y = (np.sin(2 * x) + 0.1 * rng.normal(size=60)).astype(np.float32)
    net = {
        "in": rng.normal(size=(8,)).astype(np.float32),
        "shift": np.zeros(8, np.float32),
        "out": np.zeros(8, np.float32),
    }

    def energy(s, group, points):
        x, y = group
        f = jnp.tanh(points["net"]["in"] * x + points["net"]["shift"]) @ points["net"]["out"]
        return (
            0.5 * s["precision"].log
            - 0.5 * s["precision"].value * (y - f) ** 2
            - 0.5 * jnp.log(2 * jnp.pi)
        )

    model = vi.energy_model(
        globals={"precision": vi.Gamma.from_shape_rate(1.0, 0.1)},
        points={"net": net},
        energy=energy,
        example=(np.float32(0), np.float32(0)),
    )
    fit = vi.fit(
        vi.cavi(model, learn=vi.learn("net", optimizer=optax.adam(0.03))),
        (x, y),
        num_steps=1500,
        key=KEY,
    )
    sd = 1 / np.sqrt(float(fit.posterior["precision"].mean()))
    assert 0.07 < sd < 0.16
    assert fit.trace["elbo"][-1] > fit.trace["elbo"][0] + 40


def test_a_free_variable_of_which_nothing_is_linear():
    """A length scale inside an exponential: checked against quadrature of the exact posterior."""
    t, decay = np.linspace(0.1, 3, 25).astype(np.float32), 0.7
    y = (np.exp(-decay * t) + 0.05 * np.random.default_rng(0).normal(size=25)).astype(np.float32)

    def energy(s, group):
        t, y = group
        fall = jnp.exp(-s["rate"] * t)
        return -200.0 * (y**2 - 2 * y * s["level"].value * fall + s["level"].square * fall**2)

    model = vi.energy_model(
        globals={
            "rate": vi.free(support="positive", log_prior=lambda r: -r),
            "level": vi.Normal.from_mean_variance(1.0, 1.0),
        },
        energy=energy,
        example=(np.float32(1), np.float32(0)),
    )
    fit = vi.fit(vi.svi(model), (t, y), num_steps=400, key=KEY)
    rates, levels = np.meshgrid(
        np.linspace(0.3, 1.2, 400), np.linspace(0.7, 1.3, 400), indexing="ij"
    )
    gaps = y - levels[..., None] * np.exp(-rates[..., None] * t)
    log_p = -200 * (gaps**2).sum(-1) - rates - 0.5 * (levels - 1) ** 2
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean, sd = (p * rates).sum(), np.sqrt((p * rates**2).sum() - (p * rates).sum() ** 2)
    draws = np.asarray(fit.sample(jax.random.key(1), 20_000)["rate"])
    assert abs(draws.mean() - mean) < 0.15 * sd
    assert draws.std() < sd  # q has level and rate independent, which they are not


def test_free_globals_alone_with_conjugate_locals():
    """The mean of one of two components. Given a draw of it the locals are exact, so that q is the
    best normal of the marginal posterior, which quadrature has."""
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(0, 1, 40), rng.normal(2.5, 1, 40)]).astype(np.float32)

    def energy(s, y):
        return s["z"].one_hot @ (-0.5 * (y - jnp.stack([jnp.zeros(()), s["mean"]])) ** 2) - jnp.log(
            2.0
        )

    model = vi.energy_model(
        globals={"mean": vi.free(log_prior=lambda m: -(m**2) / 18)},
        locals={"z": vi.Categorical.from_probs([0.5, 0.5])},
        energy=energy,
        example=np.float32(0),
    )
    fit = vi.fit(vi.svi(model), y, num_steps=400, key=KEY)
    means = np.linspace(0, 5, 2001)
    each = np.logaddexp(-0.5 * y[:, None] ** 2, -0.5 * (y[:, None] - means) ** 2)
    log_p = each.sum(0) - means**2 / 18
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = (p * means).sum()
    sd = np.sqrt((p * (means - mean) ** 2).sum())
    q = fit.posterior["free"]
    assert abs(float(q.mean()[0]) - mean) < 0.05 * sd
    assert abs(float(jnp.sqrt(q.cov[0, 0])) / sd - 1) < 0.05


def test_what_is_refused():
    with pytest.raises(ValueError, match=r"guide: expected none for an energy"):
        vi.ngvi(regression(), guide=vi.guides.mean_field())
    with pytest.raises(ValueError, match=naming("estimand:", "'free'")):
        vi.em(regression())
    with pytest.raises(ValueError, match="not linear in stats"):
        vi.energy_model(
            globals={"w": vi.free(), "m": vi.Normal.from_mean_variance(0.0, 1.0)},
            energy=lambda s, y: -s["w"] * s["m"].value ** 4,
            example=0.0,
        )
    with pytest.raises(ValueError, match="estimator: expected mean_field"):
        vi.memoized(regression(), num_parts=2)


def test_a_name_stands_for_one_thing():
    gamma, normal = vi.Gamma.from_shape_rate(1.0, 1.0), vi.Normal.from_mean_variance(0.0, 1.0)
    energy = lambda s, y, *more: 0.0 * y
    with pytest.raises(ValueError, match=naming("points:", "'scale'")):
        vi.energy_model(
            globals={"p": gamma},
            energy=energy,
            example=0.0,
            hyper={"scale": 1.0},
            points={"scale": 1.0},
        )
    with pytest.raises(ValueError, match=naming("globals:", "'free'", "'w'")):
        vi.energy_model(globals={"free": gamma, "w": vi.free()}, energy=energy, example=0.0)
    with pytest.raises(ValueError, match=naming("locals:", "'free'")):
        vi.energy_model(
            globals={"p": gamma, "w": vi.free()},
            locals={"free": normal},
            energy=energy,
            example=0.0,
        )
    with pytest.raises(ValueError, match=naming("locals:", "'w'")):
        vi.energy_model(
            globals={"p": gamma, "w": vi.free()}, locals={"w": normal}, energy=energy, example=0.0
        )
    with pytest.raises(ValueError, match=naming("guide:", "energy")):
        vi.energy_model(
            globals={"p": gamma},
            energy=energy,
            example=0.0,
            structure=vi.Structure(guide=vi.guides.mean_field()),
        )
    vi.energy_model(
        globals={"free": gamma},
        energy=lambda s, y: s["free"].log - y * s["free"].value,
        example=0.0,
    )
