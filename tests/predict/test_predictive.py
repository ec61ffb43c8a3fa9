"""Draws of data from fits: laws in closed form, coverage on simulated data, and every model."""

import itertools
import types
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from vijax import tree
from vijax.fitting.result import Fit
from vijax.models import emission

KEY = jax.random.key
RNG = np.random.default_rng(0)
NUM = 20_000
ALARM = 4.5  # standard errors, a false alarm in 100,000 numbers


def fitted(model, posterior):
    """A fit that has this posterior, without any steps."""
    state = types.SimpleNamespace(
        hyper=tree.as_arrays(model.hyper), posterior=vi.Product(posterior)
    )
    return Fit(vi.cavi(model), state, {}, None)


def same_law(draws, law, discrete=False):
    """Kolmogorov and Smirnov's distance is below what 20,000 draws have but once in 10,000 times;
    of counts below that of the closest step."""
    draws = np.sort(np.asarray(draws, np.float64).ravel())
    if discrete:
        values = np.unique(draws)
        found = np.searchsorted(draws, values, side="right") / len(draws)
        distance = np.max(np.abs(found - law.cdf(values)))
    else:
        distance = stats.kstest(draws, law.cdf).statistic
    assert distance < 2.23 / np.sqrt(len(draws)), distance


# --- closed forms ---------------------------------------------------------------------------------
def test_normal_wishart_gives_a_multivariate_t():
    q = vi.NormalWishart.from_parameters(
        np.array([[1.0, -2.0]]),
        np.array([3.0]),
        np.array([7.0]),
        np.array([[[0.5, 0.1], [0.1, 0.3]]]),
    )
    fit = fitted(vi.models.mixture(emission.full_gaussian(1, 2), weights=1.0), {"components": q})
    draws = np.asarray(fit.predictive(KEY(1), NUM, 1))[:, 0]
    # y ~ t with nu - D + 1 = 6 degrees of freedom about the location, of shape (k + 1) / (k (nu - D
    # + 1)) W^-1
    shape = (4.0 / (3.0 * 6.0)) * np.linalg.inv([[0.5, 0.1], [0.1, 0.3]])
    for d, mean in enumerate([1.0, -2.0]):
        same_law(draws[:, d], stats.t(6, mean, np.sqrt(shape[d, d])))
    across = draws @ np.array([0.6, 0.8])
    same_law(across, stats.t(6, 0.6 - 1.6, np.sqrt(np.array([0.6, 0.8]) @ shape @ [0.6, 0.8])))


GAUSSIANS = {
    "diagonal": (
        lambda: emission.diagonal_gaussian(1, 2),
        lambda: vi.NormalGamma.from_parameters(*(np.full((1, 2), x) for x in (1.0, 3.0, 4.0, 2.0))),
        stats.t(8, 1.0, np.sqrt(2.0 / 4.0 * 4.0 / 3.0)),
    ),
    "unit": (
        lambda: emission.unit_gaussian(1, 2),
        lambda: vi.Normal.from_mean_variance(np.full((1, 2), 1.0), 3.0),
        stats.norm(1.0, 2.0),
    ),
    "spherical": (
        lambda: emission.spherical_gaussian(1, 2),
        lambda: (
            vi.models.emission.spherical_gaussian(
                1, 2, location=1.0, strength=3.0, shape=4.0, rate=2.0
            ).prior
        ),
        stats.t(8, 1.0, np.sqrt(2.0 / 4.0 * 4.0 / 3.0)),
    ),
    "tied": (
        lambda: emission.tied_gaussian(1, 2),
        lambda: vi.models.emission.tied_gaussian(1, 2, 1.0, 3.0, 7.0, np.eye(2) / 5.0).prior,
        stats.t(6, 1.0, np.sqrt(4.0 / (3.0 * 6.0) * 5.0)),
    ),
}


@pytest.mark.parametrize("name", GAUSSIANS)
def test_gaussian_emissions_give_their_t(name):
    make, q, law = GAUSSIANS[name]
    fit = fitted(vi.models.mixture(make(), weights=1.0), {"components": q()})
    draws = np.asarray(fit.predictive(KEY(1), NUM, 1))[:, 0]
    same_law(draws[:, 0], law)
    same_law(draws[:, 1], law)


def test_counts_give_negative_binomials_and_binary_values_their_mean():
    rates = vi.Gamma.from_shape_rate(np.array([[2.5]]), np.array([[0.7]]))
    fit = fitted(vi.models.mixture(emission.poisson(1, 1), weights=1.0), {"components": rates})
    same_law(fit.predictive(KEY(1), NUM, 1), stats.nbinom(2.5, 0.7 / 1.7), discrete=True)
    bias = vi.Beta.from_alpha_beta(np.array([[2.0]]), np.array([[3.0]]))
    fit = fitted(vi.models.mixture(emission.bernoulli(1, 1), weights=1.0), {"components": bias})
    totals = np.asarray(fit.predictive(KEY(1), NUM, 10)).sum(
        (1, 2)
    )  # ten rows share the draw of the bias
    same_law(totals, stats.betabinom(10, 2.0, 3.0), discrete=True)


def test_words_of_a_component_are_dirichlet_multinomial():
    q = vi.Dirichlet.from_concentration(np.array([[1.0, 2.0, 3.0]]))
    fit = fitted(vi.models.mixture(emission.categorical(1, 3), weights=1.0), {"components": q})
    drawn = np.asarray(fit.predictive(KEY(1), NUM, np.array([[4.0, 3.0, 1.0]])))[:, 0]
    assert np.all(drawn.sum(1) == 8)
    same_law(drawn[:, 0], stats.betabinom(8, 1.0, 5.0), discrete=True)


def test_lda_words_have_the_mean_of_the_topics_under_the_shares():
    topics = vi.Dirichlet.from_concentration(np.array([[4.0, 1.0, 1.0], [1.0, 1.0, 6.0]]))
    fit = fitted(vi.models.lda(2, 3, alpha=np.array([0.6, 0.2])), {"topics": topics})
    new = np.asarray(fit.predictive(KEY(1), NUM, [20, 5]))
    np.testing.assert_array_equal(new.sum(2), np.tile([20, 5], (NUM, 1)))
    mean = np.array([0.75, 0.25]) @ np.asarray(topics.mean())
    error = np.sqrt(new[:, 0].var(0) / NUM)
    assert np.all(np.abs(new[:, 0].mean(0) - 20 * mean) < ALARM * error)
    counts = np.array([[9, 1, 2], [0, 1, 9]])
    same = np.asarray(fit.predictive(KEY(1), NUM, counts, groups="same"))
    shares = np.asarray(fit.transform(counts, key=KEY(2)))
    error = np.sqrt(same.var(0) / NUM)
    expected = counts.sum(1)[:, None] * (shares @ np.asarray(topics.mean()))
    assert np.all(np.abs(same.mean(0) - expected) < ALARM * error)


def test_gaussian_process_regression_in_closed_form():
    """Joint: the covariance of the observations at new inputs, and at the training inputs."""
    x, y, noise = np.linspace(0, 3, 12)[:, None], np.sin(np.linspace(0, 3, 12)), 0.1
    new = np.array([[0.52], [0.6], [5.0]])
    rbf = lambda a, b: jnp.exp(-0.5 * (a - b.T) ** 2)
    k = lambda a, b: np.exp(-0.5 * (a - b.T) ** 2)
    inverse = np.linalg.inv(k(x, x) + (1e-3 + noise) * np.eye(12))
    for form in ("whitened", "kernel"):
        model = vi.models.gp(x, y, rbf, vi.likelihood.gaussian(noise), jitter=1e-3, form=form)
        alg = vi.pg_svi(model, step_size=vi.step_size.constant(1.0))
        fit = vi.fit(alg, model.data, num_steps=1, key=KEY(0))
        draws = np.asarray(fit.predictive(KEY(1), NUM, new), np.float64)
        mean, cov = (
            k(new, x) @ inverse @ y,
            k(new, new) - k(new, x) @ inverse @ k(x, new) + noise * np.eye(3),
        )
        np.testing.assert_allclose(draws.mean(0), mean, atol=ALARM * np.sqrt(cov.max() / NUM))
        np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.03)
        again = np.asarray(fit.predictive(KEY(1), 4, model.data, groups="same"))
        assert again.shape == (4, 12)


def test_weights_and_kernel_forms_of_a_glm_draw_the_same_law():
    x = RNG.normal(size=(6, 2)).astype(np.float32)
    y = (x @ [1.0, -1.0]).astype(np.float32)
    found = []
    for form in ("weights", "kernel"):
        model = vi.models.glm(x, y, vi.likelihood.gaussian(0.25), form=form)
        alg = vi.pg_svi(model, step_size=vi.step_size.constant(1.0))
        fit = vi.fit(alg, model.data, num_steps=1, key=KEY(0))
        found.append(np.asarray(fit.predictive(KEY(1), NUM, x[:3] + 1.0)))
    precision = np.eye(2) + x.T @ x / 0.25
    new = x[:3] + 1.0
    cov = new @ np.linalg.solve(precision, new.T) + 0.25 * np.eye(3)
    for draws in found:
        np.testing.assert_allclose(
            draws.mean(0), new @ np.linalg.solve(precision, x.T @ y / 0.25), atol=0.02
        )
        np.testing.assert_allclose(np.cov(draws.T), cov, rtol=0.05, atol=0.02)


LAWS = {
    "gaussian": (vi.likelihood.gaussian(0.25), lambda z: stats.norm(z, 0.5)),
    "student_t": (vi.likelihood.student_t(4.0, 0.5), lambda z: stats.t(4, z, 0.5)),
    "gamma_log": (vi.likelihood.gamma_log(2.0), lambda z: stats.gamma(2.0, scale=np.exp(z) / 2.0)),
    "poisson_log": (vi.likelihood.poisson_log(), lambda z: stats.poisson(np.exp(z))),
    "negative_binomial": (
        vi.likelihood.negative_binomial(3.0),
        lambda z: stats.nbinom(3, 3 / (3 + np.exp(z))),
    ),
}


@pytest.mark.parametrize("name", LAWS)
def test_likelihoods_draw_their_law(name):
    lik, law = LAWS[name]
    draws = lik.sample(KEY(0), jnp.full(NUM, 0.7))
    same_law(draws, law(0.7), discrete=name in ("poisson_log", "negative_binomial"))


def test_labels_and_classes_have_their_probabilities():
    z = jnp.full(NUM, 0.4)
    rate = vi.Beta.from_alpha_beta(1e6, 9e6).expected_stats()
    for lik, values in (
        (vi.likelihood.bernoulli_logit(), (-1, 1)),
        (vi.likelihood.bernoulli_probit(), (-1, 1)),
        (vi.likelihood.noisy_labels(rate), (-1, 1)),
        (vi.likelihood.ordinal_logit([-1.0, 0.5]), (0, 1, 2)),
    ):
        drawn = np.asarray(lik.sample(KEY(1), z))
        assert set(np.unique(drawn)) == set(values)
        for value in values:
            p = float(jnp.exp(lik.log_prob(value, z[0])))
            assert abs(np.mean(drawn == value) - p) < ALARM * np.sqrt(p * (1 - p) / NUM), (
                lik.name,
                value,
            )


def test_chains_move_as_they_should():
    """Of globals known almost surely: shares of pairs of states, and the covariance of a state
    space."""
    sure = 1e6
    q = {
        "initial": vi.Dirichlet.from_concentration(sure * np.array([0.2, 0.8])),
        "transition": vi.Dirichlet.from_concentration(sure * np.array([[0.9, 0.1], [0.4, 0.6]])),
        "components": vi.Normal.from_mean_variance(np.array([[-20.0], [20.0]]), 1e-6),
    }
    fit = fitted(vi.models.hmm(emission.unit_gaussian(2, 1)), q)
    y = np.asarray(fit.predictive(KEY(1), NUM, [3, 2]))
    assert np.all(np.isnan(y[:, 1, 2]))
    assert np.isfinite(y[:, 0]).all()
    states = (y[:, 0, :, 0] > 0).astype(int)
    for path in np.ndindex(2, 2, 2):
        p = [0.2, 0.8][path[0]]
        for a, b in itertools.pairwise(path):
            p *= [[0.9, 0.1], [0.4, 0.6]][a][b]
        assert abs(np.mean(np.all(states == path, 1)) - p) < ALARM * np.sqrt(p * (1 - p) / NUM)


def test_state_space_forecasts_beyond_the_end():
    """x' = 0.8 x + N(0, 1), y = x + N(0, 0.01), known: two steps after y = 2."""
    big = 1e6
    q = {
        "initial": vi.NormalGamma.from_parameters(np.zeros(1), big, big, big),
        "dynamics": vi.MultivariateNormalGamma.from_parameters(
            np.array([[0.8]]), big * np.eye(1), np.array([big]), np.array([big])
        ),
        "observation": vi.MultivariateNormalGamma.from_parameters(
            np.array([[1.0, 0.0]]), big * np.eye(2), np.array([big]), np.array([big * 0.01])
        ),
    }
    fit = fitted(vi.models.linear_gaussian_state_space(1, 1), q)
    y = np.array([[[0.0], [2.0], [np.nan], [np.nan]]])
    drawn = np.asarray(fit.predictive(KEY(1), NUM, (y, np.ones((1, 4), bool)), groups="same"))[
        :, 0, 2:, 0
    ]
    ahead = np.asarray(fit.forecast(KEY(2), NUM, (y[:, :2], np.ones((1, 2), bool)), 2))[:, 0, :, 0]
    mean, variance = 0.0, 1.0  # Kalman's filter
    for seen in (0.0, 2.0):
        gain = variance / (variance + 0.01)
        mean, variance = mean + gain * (seen - mean), (1 - gain) * variance
        mean, variance = 0.8 * mean, 0.64 * variance + 1.0
    for h in (0, 1):
        for draws in (drawn, ahead):
            same_law(draws[:, h], stats.norm(mean, np.sqrt(variance + 0.01)))
        mean, variance = 0.8 * mean, 0.64 * variance + 1.0


# --- calibration ----------------------------------------------------------------------------------
def test_intervals_hold_new_rows_as_often_as_they_say():
    y = RNG.normal(2.0, 3.0, size=(2100, 1))
    fit = vi.fit(
        vi.cavi(vi.models.mixture(emission.diagonal_gaussian(1, 1))),
        y[:100],
        num_steps=3,
        key=KEY(0),
    )
    low, high = fit.predictive_interval(KEY(1), like=1, level=0.8, num_draws=5000)
    inside = np.mean((y[100:, 0] > low[0, 0]) & (y[100:, 0] < high[0, 0]))
    assert abs(inside - 0.8) < 0.05  # 0.009 of the rows, 0.02 of the 100 that it was fitted to


def test_intervals_of_a_regression_hold_responses_as_often_as_they_say():
    x = RNG.normal(size=(2200, 2))
    y = x @ [1.0, 2.0] + RNG.normal(size=2200)
    fit = vi.fit(vi.cavi(vi.models.ard_regression(2)), (x[:200], y[:200]), num_steps=20, key=KEY(0))
    low, high = fit.predictive_interval(KEY(1), like=x[200:], level=0.9)
    inside = np.mean((y[200:] > low) & (y[200:] < high))
    assert abs(inside - 0.9) < 0.04


def test_new_groups_are_wider_than_the_same_groups():
    labels = np.repeat(np.arange(20), 10)
    level = RNG.normal(0.0, 5.0, 20)
    y = level[labels] + 0.5 * RNG.normal(size=200)
    data = vi.models.group_rows(np.ones((200, 1)), y, labels)
    fit = vi.fit(
        vi.cavi(vi.models.hierarchical_linear_regression(1)), data, num_steps=30, key=KEY(0)
    )
    same = np.asarray(fit.predictive(KEY(1), 500, data, groups="same"))
    new = np.asarray(fit.predictive(KEY(1), 500, data))
    np.testing.assert_allclose(same.mean((0, 2)), data[1].mean(1), atol=0.3)
    assert same.std(0).mean() < 0.7
    assert 3.0 < new.std(0).mean() < 8.0


# --- checks ---------------------------------------------------------------------------------------
def test_a_check_sees_what_the_model_cannot_make():
    y = RNG.negative_binomial(1, 0.2, size=(300, 1)).astype(float)
    fit = vi.fit(vi.cavi(vi.models.mixture(emission.poisson(1, 1))), y, num_steps=3, key=KEY(0))
    spread = vi.evaluate.predictive_check(fit, jnp.var, y, key=KEY(1), num_draws=200)
    level = vi.evaluate.predictive_check(
        fit, lambda y: jnp.mean(y), y, key=KEY(1), num_draws=200, name="mean"
    )
    assert spread.p_value == 0.0
    assert 0.2 < level.p_value < 0.8
    assert level.observed == pytest.approx(y.mean(), rel=1e-5)
    assert str(level).startswith("mean: ")


def test_p_values_of_a_discrepancy_are_spread_where_the_model_is_right():
    """Squared residuals over their variance, which reads the globals; of data that the model
    made."""
    misfit = lambda y, v: jnp.sum((y - v["components"].mean) ** 2 * v["components"].precision)
    found = []
    for seed in range(40):
        y = np.random.default_rng(seed).normal(size=(50, 1))
        fit = vi.fit(
            vi.cavi(vi.models.mixture(emission.diagonal_gaussian(1, 1))), y, num_steps=3, key=KEY(0)
        )
        found.append(
            float(
                vi.evaluate.predictive_check(fit, misfit, y, key=KEY(seed), num_draws=100).p_value
            )
        )
    assert 0.4 < np.mean(found) < 0.6
    assert np.all((np.array(found) > 0.02) & (np.array(found) < 0.98))


def test_missing_entries_are_left_out_of_both():
    y = RNG.normal(size=(30, 3))
    y[0, 0] = np.nan
    fit = vi.fit(vi.cavi(vi.models.factor_analysis(3, 1)), y, num_steps=3, key=KEY(0))
    count = lambda y: jnp.sum(~jnp.isnan(y)).astype(float)
    check = vi.evaluate.predictive_check(fit, count, y, key=KEY(1), num_draws=5)
    assert check.observed == 89.0
    assert np.all(check.replicated == 89.0)
    with pytest.raises(ValueError, match="nanmean"):
        vi.evaluate.predictive_check(fit, jnp.mean, y, key=KEY(1), num_draws=5)


@pytest.mark.parametrize("kind", ["number", "vector", "discrepancy"])
def test_pictures(kind):
    drawn = RNG.normal(size=(50, 4) if kind == "vector" else 50)
    observed = drawn if kind == "discrepancy" else drawn[0]
    p_value = np.mean(drawn >= observed, axis=0)
    figure = vi.evaluate.PredictiveCheck(np.asarray(observed), drawn, p_value, "a$b").plot()
    figure.canvas.draw()
    assert figure.axes[0].get_legend() is not None


def test_a_notebook_shows_the_picture():
    drawn = RNG.normal(size=50)
    picture = vi.evaluate.PredictiveCheck(
        drawn[0], drawn, np.mean(drawn >= drawn[0]), "mean"
    )._repr_png_()
    assert picture.startswith(b"\x89PNG")


# --- what is refused ------------------------------------------------------------------------------
def test_wrong_arguments_say_what_to_do():
    fit = vi.fit(
        vi.cavi(vi.models.mixture(emission.unit_gaussian(1, 2))),
        np.zeros((3, 2)),
        num_steps=1,
        key=KEY(0),
    )
    for change, message in (
        ({"num_draws": 0}, "num_draws: expected an integer >= 1"),
        ({"groups": "old"}, 'groups: expected "new" or "same"'),
        ({"like": 0}, "like: expected an integer >= 1"),
        ({"like": np.zeros((3, 5))}, r"expected an array of shape \(N, 2\)"),
        ({"like": 3, "groups": "same"}, 'expected data, for groups="same"'),
        ({"num_draws": 10**9, "like": 10**6}, "vijax.evaluate.predictive_check"),
    ):
        with pytest.raises(ValueError, match=message):
            fit.predictive(KEY(0), **{"num_draws": 2, "like": 3, **change})


def test_models_of_ones_own_say_how_data_are_drawn_or_are_refused():
    variables = {"_mean": vi.free()}
    log_lik = lambda x, row: -0.5 * (row["y"] - x["_mean"]) ** 2
    data = {"y": np.array([1.0, 2.0, 3.0])}
    silent = vi.density(variables, log_prior=lambda x: -0.5 * x["_mean"] ** 2, log_lik=log_lik)
    with pytest.raises(ValueError, match=r"vijax\.density"):
        vi.fit(vi.advi(silent), data, num_steps=1, key=KEY(0)).predictive(KEY(0), 2, data)
    sample = lambda x, row, key: {**row, "y": x["_mean"] + jax.random.normal(key)}
    model = vi.density(
        variables, log_prior=lambda x: -0.5 * x["_mean"] ** 2, log_lik=log_lik, sample=sample
    )
    fit = vi.auto(model, data, key=KEY(0))
    assert list(fit.sample(KEY(1), 2)) == ["_mean"]
    draws = fit.predictive(KEY(1), NUM, data)["y"]
    same_law(draws[:, 0], stats.norm(1.5, np.sqrt(1.25)))
    check = vi.evaluate.predictive_check(
        fit, lambda y: jnp.max(y["y"]), data, key=KEY(1), num_draws=100
    )
    assert check.observed == 3.0
    wrong = vi.density(
        variables,
        log_prior=lambda x: 0.0 * x["_mean"],
        log_lik=log_lik,
        sample=lambda x, row, key: 1.0,
    )
    with pytest.raises(ValueError, match="sample: expected a group of shapes"):
        vi.fit(vi.advi(wrong), data, num_steps=1, key=KEY(0)).predictive(KEY(0), 2, data)


def test_energies_and_bounds_of_ones_own():
    def energy(s, y):
        fits = y * s["mu"].value - 0.5 * s["mu"].square - 0.5 * y**2 - 0.5 * jnp.log(2 * jnp.pi)
        return jnp.vdot(s["z"].one_hot, s["pi"].log + fits)

    parts = {
        "globals": {
            "mu": vi.Normal.from_mean_variance(np.array([-50.0, 50.0]), 1.0),
            "pi": vi.Dirichlet.from_concentration(np.array([1.0, 3.0])),
        },
        "locals": {"z": vi.Categorical.from_probs(np.array([0.5, 0.5]))},
        "energy": energy,
        "example": 0.0,
        "sample": lambda v, y, key: v["mu"][v["z"]] + jax.random.normal(key),
    }
    with pytest.raises(ValueError, match="sample_locals"):
        vi.energy_model(**parts)
    model = vi.energy_model(
        **parts,
        sample_locals=lambda v, y, key: {"z": jax.random.categorical(key, jnp.log(v["pi"]))},
    )
    y = np.array([-50.0, 50.0, 50.0, 50.0])
    fit = vi.fit(vi.cavi(model), y, num_steps=5, key=KEY(0))
    assert np.all(np.sign(np.asarray(fit.predictive(KEY(1), 50, y, groups="same"))) == np.sign(y))
    up = np.mean(np.asarray(fit.predictive(KEY(1), 2000, y)) > 0)
    assert abs(up - 6 / 8) < 0.05

    coin = vi.model(
        prior={"bias": vi.Beta.from_alpha_beta(1.0, 1.0)},
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
        sample=lambda v, y, key: jax.random.bernoulli(key, v["bias"]).astype(float),
    )
    fit = vi.fit(vi.cavi(coin), np.array([1.0, 1.0, 0.0]), num_steps=1, key=KEY(0))
    totals = np.asarray(fit.predictive(KEY(1), NUM, np.zeros(5))).sum(1)
    same_law(totals, stats.betabinom(5, 3.0, 2.0), discrete=True)


def test_draws_depend_on_the_key_alone_and_points_are_repeated():
    y = np.array([[1.0], [2.0]])
    fit = vi.fit(vi.em(vi.models.mixture(emission.unit_gaussian(1, 1))), y, num_steps=2, key=KEY(0))
    draws = np.asarray(fit.predictive(KEY(1), NUM, 1))
    np.testing.assert_array_equal(draws, fit.predictive(KEY(1), NUM, 1))
    same_law(draws, stats.norm(1.5, 1.0))  # no uncertainty of the mean


def test_many_draws_at_once_and_in_parts_are_the_same(monkeypatch):
    from vijax.predict import predictive

    y = np.array([[1.0], [2.0]])
    fit = vi.fit(
        vi.cavi(vi.models.mixture(emission.unit_gaussian(1, 1))), y, num_steps=2, key=KEY(0)
    )
    whole = fit.predictive(KEY(1), 7, 2)
    monkeypatch.setattr(predictive, "AT_ONCE", 6)  # three draws of two numbers at a time
    monkeypatch.setattr(
        predictive, "cached_program", lambda owner, what, program: program(weakref.ref(owner))
    )
    np.testing.assert_allclose(whole, fit.predictive(KEY(1), 7, 2), rtol=1e-6)
