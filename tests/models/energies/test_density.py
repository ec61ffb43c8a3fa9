"""Log densities of free variables in the one engine: what they are as functions, and the algorithms
on them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import gamma, norm
from scipy import stats

import vijax as vi
from tests.naming import naming
from vijax.contract.batch import Minibatch
from vijax.contract.variables import Variables
from vijax.inference.guides import Z
from vijax.models.energies.density import Frame, with_guide

KEY = jax.random.key(0)
A = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])  # precision of a normal target
M = np.array([1.0, -2.0, 0.5])


def normal_target():
    return vi.density({"x": vi.free(3)}, lambda v: -0.5 * (v["x"] - M) @ A @ (v["x"] - M))


@functools.cache
def regression():
    x = np.random.default_rng(0).normal(size=(12, 2))
    y = x @ [1.0, -1.0] + np.random.default_rng(1).normal(size=12)
    model = vi.density(
        {"w": vi.free(2), "scale": vi.free(support="positive")},
        log_prior=lambda v: norm.logpdf(v["w"]).sum() + gamma.logpdf(v["scale"], 2.0),
        log_lik=lambda v, group: norm.logpdf(group["y"], group["x"] @ v["w"], v["scale"]),
    )
    return model, {"x": x.astype(np.float32), "y": y.astype(np.float32)}


@functools.cache
def stepping():
    model, data = regression()
    alg = vi.ngvi(model, num_samples=4)
    return data, alg.init(KEY), jax.jit(alg.step)


# --- variables ------------------------------------------------------------------------------------
def test_values_are_in_their_supports_and_come_back():
    variables = Variables.from_tree(
        {
            "a": vi.free((), "positive"),
            "b": {"c": vi.free(3, "simplex"), "d": vi.free((2, 2), "positive definite")},
        }
    )
    x = jnp.array([0.3, -1.0, 0.5, 0.1, 0.2, -0.4])
    values, log_det = jax.jit(variables.values)(x)
    assert variables.dim == 6
    assert float(values["a"]) == pytest.approx(np.exp(0.3), rel=1e-6)
    assert float(values["b"]["c"].sum()) == pytest.approx(1, abs=1e-6)
    assert np.all(np.linalg.eigvalsh(values["b"]["d"]) > 0)
    np.testing.assert_allclose(jax.jit(variables.coordinates)(values), x, atol=1e-5)
    parts = zip(variables.leaves, variables._split(x), strict=True)
    total = jax.jit(lambda: sum(leaf.support.log_det(part) for leaf, part in parts))()
    assert float(log_det) == pytest.approx(float(total), rel=1e-6)


@pytest.mark.parametrize("bad", [{}, [vi.free()], {"x": 3.0}, {1: vi.free()}])
def test_variables_that_are_none_are_refused(bad):
    with pytest.raises(ValueError, match="variables: expected"):
        Variables.from_tree(bad)


def test_supports_that_there_are_not_are_refused():
    with pytest.raises(ValueError, match="support: expected one of"):
        vi.free(3, "possitive")
    with pytest.raises(ValueError, match="shape"):
        vi.free((), "simplex")


# --- the density ----------------------------------------------------------------------------------
def test_the_density_of_coordinates_has_the_jacobian():
    model = vi.density({"x": vi.free(support="positive")}, lambda v: gamma.logpdf(v["x"], 3.0))
    grid = np.linspace(-12, 5, 4001)
    density = jax.jit(jax.vmap(model.free.log_prior_at))(jnp.asarray(grid, jnp.float32)[:, None])
    assert np.trapezoid(np.exp(np.asarray(density, np.float64)), grid) == pytest.approx(1, abs=1e-5)


def test_the_prior_is_counted_once_and_the_likelihood_scaled():
    """At the same draws the objective of minibatches, averaged over a pass of them, is that of all
    the data. With a prior that is scaled too, or a likelihood that is not, it is another."""
    data, state, step = stepping()
    whole = step(KEY, state, Minibatch(data, 12.0))[1].elbo
    parts = [jax.tree.map(lambda x, i=i: x[i : i + 4], data) for i in (0, 4, 8)]
    each = [step(KEY, state, Minibatch(part, 12.0))[1].elbo for part in parts]
    assert float(np.mean(each)) == pytest.approx(float(whole), rel=1e-5)
    assert np.std(each) > 0.1  # or the test would see nothing


def test_padding_counts_for_nothing():
    data, state, step = stepping()
    padded = jax.tree.map(
        lambda x: np.concatenate([x, np.full((2, *x.shape[1:]), np.nan, x.dtype)]), data
    )
    weights = np.r_[np.ones(12), np.zeros(2)].astype(np.float32)
    ours = step(KEY, state, Minibatch(padded, 12.0, weights))[1].elbo
    plain = step(KEY, state, Minibatch(data, 12.0))[1].elbo
    assert float(ours) == pytest.approx(float(plain), rel=1e-5)


def test_a_density_of_all_the_data_reads_them_whole():
    y = np.array([1.0, 2.0, 6.0], np.float32)
    whole = vi.density(
        {"m": vi.free()}, lambda v, y: norm.logpdf(y, v["m"], 1.0).sum() + norm.logpdf(v["m"])
    )
    fit = vi.fit(vi.ngvi(whole), y, num_steps=200, key=KEY)
    assert float(fit.posterior["free"].mean()[0]) == pytest.approx(9 / 4, abs=1e-2)
    assert float(fit.posterior["free"].cov[0, 0]) == pytest.approx(1 / 4, abs=1e-2)


def test_a_rebuilt_density_and_algorithm_are_the_same():
    prior = lambda v: norm.logpdf(v["m"])
    one, two = (vi.density({"m": vi.free()}, prior) for _ in range(2))
    assert one is two
    assert vi.advi(one).step is vi.advi(two).step
    assert vi.advi(one).step is not vi.advi(one, guide=vi.guides.full_rank()).step


# --- estimators and rows --------------------------------------------------------------------------
def test_least_squares_is_exact_on_a_normal_target():
    """One whole step from anywhere is the target itself, with D + 2 draws."""
    alg = vi.compose(
        normal_target(),
        estimator=vi.estimator.least_squares(num_samples=5),
        update=vi.update.within(1e6),
        step_size=vi.step_size.constant(),
    )
    state, info = jax.jit(alg.step)(jax.random.key(3), alg.init(KEY), None)
    assert int(info.result) == 0
    np.testing.assert_allclose(state.posterior["free"].mean(), M, atol=2e-4)
    np.testing.assert_allclose(state.posterior["free"].precision, A, atol=2e-4)


def test_mean_field_finds_the_conditional_variances_of_a_normal_target():
    """It underestimates variances as theory says: 1 / precision_ii, not covariance_ii (Blei et al.
    2017, fig. 1)."""
    model = with_guide(normal_target(), vi.guides.mean_field())
    alg = vi.compose(
        model,
        estimator=vi.estimator.least_squares(num_samples=8),
        update=vi.update.within(1e6),
        step_size=vi.step_size.constant(0.5),
    )
    fit = vi.fit(alg, num_steps=60, key=KEY)
    np.testing.assert_allclose(fit.posterior["free"].variance(), 1 / np.diag(A), rtol=1e-3)
    np.testing.assert_allclose(fit.posterior["free"].mean(), M, atol=2e-3)


def test_estimators_agree_on_the_message():
    """Least squares, reparameterised and score function estimate one number: within 5 standard
    errors, which of the largest numbers are so small that one off by 5 % would be told."""
    model, data = regression()
    near = vi.MultivariateNormal.from_mean_cov(
        np.array([-0.5, 1.0, -1.0]), np.diag([0.03, 0.05, 0.1])
    )
    q, size, count = vi.Product({"free": near}), 0.1, 400

    def messages(estimator):
        step_size = vi.step_size.constant(size)
        alg = vi.compose(
            model, estimator=estimator, update=vi.update.within(1e9), step_size=step_size
        )
        state = alg.init(KEY)._replace(posterior=q)
        step = lambda key: alg.step(key, state, Minibatch(data, None))[0].posterior
        moved = jax.jit(lambda keys: jax.lax.map(step, keys, batch_size=50))(
            jax.random.split(KEY, count)
        )
        message = jax.tree.map(
            lambda new, old: np.asarray(old + (new - old) / size, float), moved, q
        )
        flat = np.concatenate([x.reshape(count, -1) for x in jax.tree.leaves(message)], 1)
        return flat.mean(0), flat.std(0) / np.sqrt(count)

    def agree(one, other):
        return np.all(np.abs(one[0] - other[0]) < 5 * np.hypot(one[1], other[1]))

    exact = messages(vi.estimator.least_squares(num_samples=128))
    for estimator in (
        vi.estimator.reparameterised(num_samples=512),
        vi.estimator.score_function(num_samples=2048),
    ):
        mean, error = messages(estimator)
        assert agree((mean, error), exact)
        assert not agree((1.05 * mean, 1.05 * error), exact)
        assert not agree((0.95 * mean, 0.95 * error), exact)


def test_advi_and_bbvi_find_a_gamma_posterior():
    """The mean of the best log-normal of Gamma(3, 1): KL is least at log-mean E[log x] - ..., found
    by quadrature."""
    model = vi.density({"x": vi.free(support="positive")}, lambda v: gamma.logpdf(v["x"], 3.0))
    from scipy.optimize import minimize

    def loss(p):  # minus E_q[3 u - e^u] - log sd, u ~ N(m, s^2)
        return -(3 * p[0] - np.exp(p[0] + np.exp(2 * p[1]) / 2) + p[1])

    best = minimize(loss, [0.0, 0.0], method="BFGS").x
    for alg in (vi.advi(model, num_samples=16), vi.bbvi(model, num_samples=128)):
        q = vi.fit(alg, num_steps=1500, key=KEY).posterior["free"]
        assert float(q.mean()[0]) == pytest.approx(best[0], abs=0.06)
        assert 0.5 * float(jnp.log(q.variance()[0])) == pytest.approx(best[1], abs=0.06)


def test_restarts_checkpoints_and_going_on_serve_densities(tmp_path):
    model, data = regression()
    whole = vi.fit(vi.ngvi(model), data, num_steps=20, key=KEY)
    half = vi.fit(vi.ngvi(model), data, num_steps=10, key=KEY)
    on = vi.fit(vi.ngvi(model), data, num_steps=20, key=KEY, state=half.state)
    np.testing.assert_array_equal(on.posterior["free"].precision, whole.posterior["free"].precision)
    several = vi.fit(vi.ngvi(model), data, num_steps=10, key=KEY, restarts=3)
    assert several.trace["restart_elbo"].shape == (10, 3)


def test_draws_are_of_the_variables():
    model, data = regression()
    fit = vi.fit(vi.ngvi(model), data, num_steps=100, key=KEY)
    draws = fit.sample(jax.random.key(1), 500)
    assert {name: x.shape for name, x in draws.items()} == {"w": (500, 2), "scale": (500,)}
    assert bool(jnp.all(draws["scale"] > 0))
    with pytest.raises(ValueError, match="num_draws"):
        fit.sample(KEY, 0)


def test_derived_values_are_drawn_with_the_variables():
    derived = lambda v: {"total": jnp.sum(v["x"]), "first": {"square": v["x"][0] ** 2}}
    model = vi.density({"x": vi.free(3)}, lambda v: -0.5 * jnp.sum(v["x"] ** 2), derived=derived)
    draws = vi.fit(vi.ngvi(model), num_steps=5, key=KEY).sample(jax.random.key(1), 50)
    np.testing.assert_allclose(draws["total"], draws["x"].sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(draws["first"]["square"], draws["x"][:, 0] ** 2, rtol=1e-6)


def test_draws_of_conjugate_fits_of_points_and_of_locals():
    y = np.concatenate(
        [np.random.default_rng(0).normal(m, 1.0, (20, 1)) for m in (-4.0, 4.0)]
    ).astype(np.float32)
    model = vi.models.mixture(vi.models.emission.unit_gaussian(2, dim=1))
    fit = vi.fit(vi.cavi(model, estimand={"weights": vi.estimand.mode()}), y, num_steps=20, key=KEY)
    draws = fit.sample(jax.random.key(1), 2000, locals_of=y)
    assert np.ptp(draws["weights"], axis=0).max() == 0
    exact = fit.posterior["components"]
    np.testing.assert_allclose(draws["components"].mean(0), exact.mean(), atol=0.03)
    assert draws["z"].shape == (2000, 40)
    assert np.all(np.asarray(draws["z"][:, :20]) == np.asarray(draws["z"][0, 0]))


# --- what is refused ------------------------------------------------------------------------------
def test_densities_that_are_none_are_refused():
    free = {"x": vi.free(2)}
    with pytest.raises(ValueError, match=naming("log_density:", "(2,)", "jnp.sum")):
        vi.density(free, lambda v: v["x"])
    with pytest.raises(ValueError, match=naming("log_density:", "int32")):
        vi.density(free, lambda v: jnp.sum(v["x"]).astype(int))
    with pytest.raises(ValueError, match=naming("log_density:", "['x']", "'mu'")):
        vi.density(free, lambda v: v["mu"])
    with pytest.raises(ValueError, match="one form of the density, got none"):
        vi.density(free)
    with pytest.raises(ValueError, match="one form of the density, got both"):
        vi.density(free, lambda v: 0.0, log_prior=lambda v: 0.0)
    with pytest.raises(ValueError, match=naming("derived:", "'x'")):
        vi.density(free, lambda v: 0.0 * v["x"][0], derived=lambda v: {"x": v["x"]})
    with pytest.raises(ValueError, match=naming("derived:", "mapping")):
        vi.density(free, lambda v: 0.0 * v["x"][0], derived=lambda v: v["x"])
    with pytest.raises(ValueError, match="log_prior: expected a function"):
        vi.density(free, log_lik=lambda v, y: 0.0)


def test_a_density_that_is_finite_nowhere_is_refused():
    model = vi.density({"x": vi.free()}, lambda v: jnp.log(-1.0 - v["x"] ** 2))
    for run in (
        lambda: vi.fit(vi.ngvi(model), num_steps=2, key=KEY),
        lambda: vi.auto(model, key=KEY),
    ):
        with pytest.raises(ValueError, match=r"log_density: expected .*finite"):
            run()


def test_data_that_are_none_are_refused():
    model, data = regression()
    with pytest.raises(ValueError, match="data"):
        vi.fit(vi.ngvi(model), num_steps=2, key=KEY)
    bad = {**data, "y": data["y"].copy()}
    bad["y"][3] = np.nan
    with pytest.raises(ValueError, match="row 3"):
        vi.fit(vi.ngvi(model), bad, num_steps=2, key=KEY)


def test_points_and_means_of_free_variables_are_refused():
    model = normal_target()
    with pytest.raises(ValueError, match=naming("estimand:", "'free'")):
        vi.map(model)
    with pytest.raises(ValueError, match=naming("estimator:", "'free'")):
        vi.compose(
            model, estimator={"free": vi.estimator.mean_field()}, step_size=vi.step_size.constant()
        )
    with pytest.raises(ValueError, match="model: expected one with free variables"):
        vi.advi(vi.models.lda(num_topics=2, vocab_size=5))
    with pytest.raises(ValueError, match=r"guide: expected one of vijax\.guides"):
        vi.advi(model, guide="full_rank")


def test_other_groups_are_scored_by_their_predictive_density():
    """Normal data of known variance: N(y; mean, 1 + variance), to the error of a thousand draws."""
    from vijax.models.energies.predictive_density import NUM_DRAWS

    model = vi.density(
        {"m": vi.free()},
        log_prior=lambda v: norm.logpdf(v["m"], 0, 3),
        log_lik=lambda v, y: norm.logpdf(y, v["m"], 1),
    )
    state = vi.ngvi(model).init(KEY)
    q = vi.MultivariateNormal.from_mean_cov(np.array([0.7]), np.array([[0.5]]))
    fit = vi.Fit(
        vi.ngvi(model), state._replace(posterior=state.posterior.replace({"free": q})), {}, None
    )
    y = np.array([-1.0, 0.5, 3.0], np.float32)
    found = fit.score(y, key=KEY)
    second = norm.pdf(y, 0.7, np.sqrt(0.5 + 0.5)) / np.sqrt(
        4 * np.pi
    )  # E[N(y; m, 1)^2], N^2 = N(., 1/2) / sqrt(4 pi)
    first = norm.pdf(y, 0.7, np.sqrt(1.5))
    error = np.sqrt((second / first**2 - 1) / NUM_DRAWS)
    assert np.all(np.abs(found.log_densities - np.log(first)) < 5 * error)
    assert found.mean == pytest.approx(found.log_densities.mean())
    with pytest.raises(
        ValueError,
        match=naming("score:", "-out", "fit.trace"),
    ):
        vi.Fit(vi.ngvi(normal_target()), state, {}, None).score(y, key=KEY)


def test_a_framed_density_by_hand():
    """log p(x) + log |dx / dz| at x = shift + L z, with SciPy's normal."""
    law = stats.multivariate_normal([1.0, -2.0], [[2.0, 0.7], [0.7, 1.0]])
    inverse, constant = np.linalg.inv(law.cov), law.logpdf(law.mean)
    gap = lambda v: v["w"] - law.mean
    model = vi.density({"w": vi.free(2)}, lambda v: constant - 0.5 * gap(v) @ inverse @ gap(v))
    shift, scale, z = (
        np.array([0.3, 0.1]),
        np.array([[0.5, 0.0], [1.5, 3.0]]),
        np.array([0.7, -1.2]),
    )
    for frame, width in ((scale, scale), (np.diagonal(scale), np.diag(np.diagonal(scale)))):
        framed = with_guide(model, vi.guides.full_rank(), is_framed=True)
        point = framed.prior({}).stats({Z: jnp.asarray(z, jnp.float32)})
        found = framed.global_elbo({"frame": Frame(np.float32(shift), np.float32(frame))}, point)
        expected = law.logpdf(shift + width @ z) + np.log(np.diagonal(width)).sum()
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_first_groups_are_looked_at_and_not_one_alone():
    where = lambda v, y: jnp.where(y > 4, -jnp.inf, -0.5 * (y - v["w"]) ** 2)
    model = vi.density({"w": vi.free()}, log_prior=lambda v: -0.5 * v["w"] ** 2, log_lik=where)
    model.form.check(np.arange(5.0))
    with pytest.raises(ValueError, match=naming("log_density:", "finite")):
        model.form.check(np.arange(10.0))


def test_a_parameter_with_a_default_is_not_data():
    """Functions bind what they need of a loop so; the second parameter was taken for data."""
    log_p = lambda x: -0.5 * (x["m"] - 3.0) ** 2
    bound = [
        lambda x, lp=log_p: lp(x),
        lambda x, *, scale=1.0: log_p(x) / scale,
        functools.partial(_scaled, by=1.0),
    ]
    for function in bound:
        model = vi.density({"m": vi.free()}, function)
        assert model.free.log_lik is None
        assert float(model.free.log_prior_at(jnp.ones(1))) == -2.0
    np.testing.assert_allclose(vi.auto(model, key=KEY).modes[0].values["m"], 3.0, atol=1e-3)
    model = vi.density({"m": vi.free()}, lambda x, y, lp=log_p: lp(x) - 0.0 * jnp.sum(y))
    assert model.free.log_lik is not None
    assert model.free.is_whole


def _scaled(x, by):
    return -0.5 * by * (x["m"] - 3.0) ** 2


def test_data_for_a_density_that_reads_none_are_refused():
    """Also where they were meant for a parameter with a default."""
    model = vi.density({"m": vi.free()}, lambda x, data=None: -(x["m"] ** 2))
    for run in (
        lambda: vi.auto(model, np.ones(5), key=KEY),
        lambda: _step(model, np.zeros(1, int)),
    ):
        with pytest.raises(ValueError, match=naming("data:", "None", "log_density(x, data)")):
            run()


def _step(model, data):
    return vi.fit(vi.advi(model), data, num_steps=1, key=KEY)


def test_hyperparameters_are_not_given_to_a_parameter_with_a_default():
    prior = {"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}
    each = lambda s, y: y * s["bias"].log + (1 - y) * s["bias"].log1m
    times = vi.model(prior, lambda s, y, key, c=2.0: (c * each(s, y), None), hyper={"c": 5.0})
    fit = vi.fit(vi.cavi(times), np.ones(3), num_steps=1, key=KEY)
    np.testing.assert_allclose(fit.posterior["bias"].alpha, 1.0 + 2.0 * 3, rtol=1e-6)
    with pytest.raises(ValueError, match=naming("local_elbo:", "`hyper`")):
        vi.model(prior, lambda s, y, key, hyper=None: (each(s, y), None), hyper={"c": 5.0})


def test_names_with_underscores_are_names(tmp_path):
    """Hidden are variables alone from which something is derived: a column of a formula may begin
    with one."""
    density = lambda v: -0.5 * jnp.sum(v["_x"] ** 2)
    alone = vi.density({"_x": vi.free(2)}, density)
    fit = vi.auto(alone, key=KEY, num_starts=2)
    assert list(fit.sample(KEY, 3)) == ["_x"]
    assert list(fit.summary().to_frame().index) == ["_x[0]", "_x[1]"]
    derived = vi.density({"_x": vi.free(2)}, density, derived=lambda v: {"_y": 2 * v["_x"]})
    fit = vi.auto(derived, key=KEY, num_starts=2)
    assert list(fit.sample(KEY, 3)) == ["_y"]
    assert list(fit.summary().to_frame().index) == ["_y[0]", "_y[1]"]
    rng = np.random.default_rng(0)
    table = {"_x": rng.normal(size=30), "y": rng.normal(size=30)}
    found = vi.auto(vi.glmm("y ~ _x", table), key=KEY).summary().to_frame()
    assert "_x" in list(found.index)


@pytest.mark.parametrize(
    "variables",
    [
        {"a": vi.free(2), "a[0]": vi.free()},
        {"a": vi.free((2, 2)), "a[0, 1]": vi.free()},
        {"a": {"b": vi.free()}, "a.b": vi.free()},
    ],
)
def test_two_numbers_of_one_name_are_refused(variables):
    with pytest.raises(ValueError, match=naming("variables:", "'a", "Rename")):
        vi.density(variables, lambda v: 0.0)
    with pytest.raises(ValueError, match=naming("derived:", "'a[1]'", "Rename")):
        vi.density(
            {"a": vi.free(2)},
            lambda v: -jnp.sum(v["a"] ** 2),
            derived=lambda v: {"a[1]": v["a"][0]},
        )


def test_names_that_look_like_entries_are_free_where_nothing_has_them():
    vi.density({"a[0]": vi.free(), "a": vi.free()}, lambda v: -(v["a"] ** 2) - v["a[0]"] ** 2)
