"""The default method against posteriors that are known: in closed form, or by quadrature."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vijax as vi
from tests.naming import naming
from tests.programs import compiled
from vijax import lbfgs
from vijax.automatic import auto as automatic
from vijax.automatic import by_steps
from vijax.automatic.curvature import normal as curved
from vijax.automatic.gaussian import Gaussian, draw_noise, step
from vijax.automatic.many_groups import by_passes
from vijax.data import synthetic
from vijax.fitting import checkpoint
from vijax.lbfgs import maximise
from vijax.models.energies.density import with_guide

KEY = jax.random.key(0)


def test_on_a_normal_target_the_bound_is_the_log_evidence():
    """Linear regression with known noise: q is the posterior, ELBO = log p(y) to rounding, with no
    noise at all."""
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(30, 3)), 0.5
    y = x @ [1.0, -2.0, 0.5] + noise * rng.normal(size=30)
    model = vi.density(
        {"w": vi.free(3)},
        log_prior=lambda v: norm.logpdf(v["w"], 0, 2).sum(),
        log_lik=lambda v, g: norm.logpdf(g[1], g[0] @ v["w"], noise),
    )
    fit = vi.auto(model, (x.astype(np.float32), y.astype(np.float32)), key=KEY)
    cov = np.linalg.inv(x.T @ x / noise**2 + np.eye(3) / 4)
    evidence = x @ x.T * 4 + noise**2 * np.eye(30)
    exact = -0.5 * (y @ np.linalg.solve(evidence, y) + np.linalg.slogdet(2 * np.pi * evidence)[1])
    draws = np.asarray(fit.sample(jax.random.key(1), 20_000)["w"], np.float64)
    sds = np.sqrt(np.diag(cov))
    np.testing.assert_allclose(draws.mean(0) / sds, cov @ x.T @ y / noise**2 / sds, atol=0.03)
    np.testing.assert_allclose(
        np.cov(draws.T) / sds / sds[:, None], cov / sds / sds[:, None], atol=0.04
    )
    assert fit.elbo.value == pytest.approx(exact, abs=1e-3)
    assert fit.elbo.standard_error < 1e-3
    assert fit.status is vi.Status.CONVERGED
    assert fit.report.num_gradients < 700
    assert fit.khat < 0.5


def test_float32_serves_variables_that_are_correlated_and_of_other_scales():
    """Intercept and slope over the years 1950 to 2010, correlation -0.99995: in a fixed frame
    float32 would not hold the precision."""
    year = np.arange(1950.0, 2010.0)
    y = 0.02 * year - 30 + 0.3 * np.random.default_rng(0).normal(size=60)
    model = vi.density(
        {"w": vi.free(2), "scale": vi.free(support="positive")},
        log_prior=lambda v: (
            norm.logpdf(v["w"][0], 0, 50) + norm.logpdf(v["w"][1], 0, 1) - v["scale"]
        ),
        log_lik=lambda v, g: norm.logpdf(g["y"], v["w"][0] + v["w"][1] * g["year"], v["scale"]),
    )
    fit = vi.auto(model, {"y": y.astype(np.float32), "year": year.astype(np.float32)}, key=KEY)
    x = np.column_stack([np.ones(60), year])
    best = np.linalg.lstsq(x, y, rcond=None)[0]
    sigma2 = ((y - x @ best) ** 2).sum() / 59
    cov = np.linalg.inv(x.T @ x / sigma2 + np.diag([1 / 2500, 1.0]))
    mean = cov @ (x.T @ y / sigma2)
    draws = np.asarray(fit.sample(jax.random.key(1), 20_000)["w"], np.float64)
    assert np.all(np.abs(draws.mean(0) - mean) < 0.1 * np.sqrt(np.diag(cov)))
    np.testing.assert_allclose(draws.std(0), np.sqrt(np.diag(cov)), rtol=0.1)


def test_logistic_regression_against_quadrature():
    x = np.array([-1.5, -0.5, 0.1, 0.6, 1.0, 2.0])
    y = np.array([-1, -1, 1, -1, 1, 1.0])
    log_p = lambda w: -0.5 * w**2 / 4 - np.log1p(np.exp(-np.outer(np.atleast_1d(w), y * x))).sum(-1)
    grid = np.linspace(-6, 12, 6001)
    p = np.exp(log_p(grid))
    p /= p.sum()
    mean = p @ grid
    sd = np.sqrt(p @ (grid - mean) ** 2)
    model = vi.density(
        {"w": vi.free()},
        lambda v: -(v["w"] ** 2) / 8 + jnp.sum(jax.nn.log_sigmoid(jnp.asarray(y * x) * v["w"])),
    )
    fit = vi.auto(model, key=KEY)
    draws = np.asarray(fit.sample(jax.random.key(1), 40_000)["w"], np.float64)
    assert abs(draws.mean() - mean) < 0.06 * sd
    assert abs(np.log(draws.std() / sd)) < 0.1


def test_an_improper_density_is_called_so():
    fit = vi.auto(
        vi.density({"x": vi.free(), "y": vi.free()}, lambda v: norm.logpdf(v["x"])), key=KEY
    )
    assert "improper" in fit.verdict
    assert fit.status is not vi.Status.CONVERGED


@pytest.mark.parametrize("most_full", [0, 3000])
def test_an_improper_density_of_many_variables_is_called_so(most_full, monkeypatch):
    """Nothing depends on one of them; of another the tail is too heavy for any normal. Proper ones
    of other scales are not called so."""
    monkeypatch.setattr(automatic, "MOST_FULL", 4)
    monkeypatch.setattr(curved, "MOST_DIM", most_full)
    others = lambda v: norm.logpdf(v["x"]).sum()
    names = {"x": vi.free(8), "y": vi.free()}
    for improper in (others, lambda v: others(v) - 0.2 * jnp.log1p(v["y"] ** 2)):
        fit = vi.auto(vi.density(names, improper), key=KEY)
        assert "improper" in fit.verdict
        assert fit.status is not vi.Status.CONVERGED
    if most_full:
        return
    wide = vi.density(names, lambda v: others(v) + norm.logpdf(v["y"], 50.0, 300.0))
    assert vi.auto(wide, key=KEY).status is vi.Status.CONVERGED


@pytest.mark.parametrize(
    ("edge", "words"),
    [
        (0.0, "Do not use this fit: the density is zero"),
        (-2.9, "The density is zero, or no number, at 0."),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_density_that_is_zero_where_q_is_not_is_told(edge, words):
    """A support that no variable declares: the bound is minus infinity, and no number is made
    up."""
    fit = vi.auto(
        vi.density(
            {"x": vi.free()}, lambda v: jnp.where(v["x"] > edge, -0.5 * v["x"] ** 2, -jnp.inf)
        ),
        key=KEY,
    )
    assert words in fit.verdict
    assert "support" in fit.verdict
    assert fit.elbo.value == -np.inf
    assert str(fit.elbo) == "-inf"
    assert fit.report.zero == pytest.approx(np.mean(~np.isfinite(fit.report.log_ratios)))
    assert np.isfinite(fit.report.gap)


def test_other_modes_are_told():
    """Two well separated normals of equal weight: q is one of them, and the verdict says so."""
    log_p = lambda v: jnp.logaddexp(norm.logpdf(v["x"], -1.5, 0.1), norm.logpdf(v["x"], 1.5, 0.1))
    fit = vi.auto(vi.density({"x": vi.free()}, log_p), key=KEY, richer=False)
    assert len(fit.modes) == 2
    assert sum(mode.num_starts for mode in fit.modes) == 16
    np.testing.assert_allclose(
        sorted(float(mode.values["x"]) for mode in fit.modes), [-1.5, 1.5], atol=0.05
    )
    assert "another mode of similar weight" in fit.verdict
    assert fit.elbo.value == pytest.approx(0.0, abs=0.01)


def test_heavy_tails_are_told():
    """A Cauchy density has no variance at all: the importance ratios of any normal have a tail that
    says so."""
    cauchy = vi.density({"x": vi.free(5)}, lambda v: -jnp.sum(jnp.log1p(v["x"] ** 2)))
    fit = vi.auto(cauchy, key=KEY, richer=False)
    assert fit.khat > 0.7
    assert "can be used" not in fit.verdict


def test_a_shape_that_no_normal_has_is_told_whatever_the_tails_say():
    """A funnel: q follows its neck, where ratios are tame (k-hat below .7), and its sds are far
    off. The gap is at most the true divergence: log evidence 0 less the bound."""

    def funnel(v):
        return norm.logpdf(v["s"], 0, 1.5) + norm.logpdf(v["x"], 0, jnp.exp(v["s"]))

    fit = vi.auto(vi.density({"x": vi.free(), "s": vi.free()}, funnel), key=KEY, richer=False)
    assert 0.3 < fit.report.gap < -fit.elbo.value + 3 * fit.elbo.standard_error
    assert "sds, and perhaps means, are wrong" in fit.verdict


def test_light_tails_of_a_good_fit_are_told_apart():
    """Logistic regression: means and sds are right, and yet the k-hat is large."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    y = np.where(rng.uniform(size=60) < 1 / (1 + np.exp(-(0.5 + 2 * x))), 1.0, -1.0)
    model = vi.density(
        {"w": vi.free(2, log_prior=lambda w: norm.logpdf(w, 0, 3))},
        log_lik=lambda v, r: jax.nn.log_sigmoid(r["y"] * (v["w"][0] + v["w"][1] * r["x"])),
    )
    fit = vi.auto(model, {"x": x, "y": y}, key=KEY)
    assert fit.report.gap < 0.05
    assert "means and sds can be used" in fit.verdict


def test_a_limit_of_gradients_holds_and_is_told():
    model = vi.density(
        {"x": vi.free(20)}, lambda v: -jnp.sum(jnp.cosh(v["x"]) + jnp.cosh(v["x"] - v["x"][0]))
    )
    fit = vi.auto(model, key=KEY, max_gradients=400)
    assert fit.report.num_gradients <= 400 + 160
    assert "Converged" not in fit.verdict


def test_many_variables_are_fitted_as_independent(monkeypatch):
    """Conditional variances, as mean field has them, and the words that say so."""
    monkeypatch.setattr(automatic, "MOST_FULL", 4)
    monkeypatch.setattr(curved, "MOST_DIM", 0)
    precision = 2 * np.eye(6) - 0.8 * (np.eye(6, k=1) + np.eye(6, k=-1))
    target = np.arange(6.0)
    model = vi.density(
        {"x": vi.free(6)}, lambda v: -0.5 * (v["x"] - target) @ precision @ (v["x"] - target)
    )
    fit = vi.auto(model, key=KEY)
    draws = np.asarray(fit.sample(jax.random.key(1), 20_000)["x"], np.float64)
    np.testing.assert_allclose(draws.mean(0), target, atol=0.1)
    np.testing.assert_allclose(draws.var(0), 1 / np.diag(precision), rtol=0.1)
    assert "sds are too small" in fit.verdict


def test_minibatches_end_where_all_the_data_do():
    """Logistic regression in batches of 64 of 1,000 rows, beginning at a fit to 200 of them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 4)).astype(np.float32)
    y = np.where(
        rng.uniform(size=1000) < 1 / (1 + np.exp(-x @ [1.0, -1.0, 0.5, 0.0])), 1.0, -1.0
    ).astype(np.float32)
    model = vi.density(
        {"w": vi.free(4, log_prior=norm.logpdf)},
        log_lik=lambda v, r: jax.nn.log_sigmoid(r["y"] * (r["x"] @ v["w"])),
    )
    whole = vi.auto(model, {"x": x, "y": y}, key=KEY)
    parts = vi.auto(model, {"x": x, "y": y}, key=KEY, batch_size=64)
    assert parts.alg.spec.name == "ngvi"
    assert parts.elbo.value == pytest.approx(whole.elbo.value, abs=0.02)
    assert parts.verdict.startswith("Converged")
    draws = [
        np.asarray(fit.sample(jax.random.key(1), 5000)["w"], np.float64) for fit in (whole, parts)
    ]
    assert np.abs((draws[0].mean(0) - draws[1].mean(0)) / draws[0].std(0)).max() < 0.06
    np.testing.assert_allclose(draws[0].std(0), draws[1].std(0), rtol=0.04)


def test_every_batch_of_a_pass_counts_alike():
    """After a pass: (c before + mean of the messages) / (c + 1)."""
    schedule, values, state = by_passes(5), np.arange(5.0) + 3, 10.0
    for t, value in enumerate(values):
        state = (1 - float(schedule(t))) * state + float(schedule(t)) * value
    c = 1 / float(schedule(0)) / 5 - 1 / 5
    assert state == pytest.approx((c * 10.0 + values.mean()) / (c + 1), rel=1e-6)


def test_batches_that_cannot_be_are_refused():
    model = vi.density({"x": vi.free()}, lambda v: -(v["x"] ** 2))
    with pytest.raises(ValueError, match="batch_size: expected none"):
        vi.auto(model, key=KEY, batch_size=10)


def test_conjugate_models_get_the_exact_rows():
    y = np.concatenate(
        [np.random.default_rng(0).normal(m, 1.0, (60, 1)) for m in (-6.0, 0.0, 6.0)]
    ).astype(np.float32)
    model = vi.models.mixture(vi.models.emission.unit_gaussian(3, dim=1))
    fit = vi.auto(model, y, key=KEY)
    assert fit.alg.spec.name == "cavi"
    assert "starts reached the best bound" in fit.verdict
    best = max(
        vi.fit(vi.cavi(model), y, key=jax.random.key(i), num_steps=200).elbo for i in range(4)
    )
    assert fit.elbo.value >= best - 1e-3 * abs(best)


@pytest.mark.parametrize("given", ["max_draws", "max_gradients", "batch_size"])
def test_what_a_conjugate_model_has_no_use_for_is_refused(given):
    with pytest.raises(
        ValueError, match=f"{given}: expected none for a model that is no log density, got 64"
    ):
        vi.auto(coin(), np.ones(10, np.float32), key=KEY, **{given: 64})


def coin():
    return vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
        local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    )


def test_networks_are_not_left_as_they_were():
    encoder = (lambda w, x: (x @ w, jnp.zeros(1)), jnp.ones((2, 1)))
    observed = vi.models.observed.gaussian(sd=1.0)
    model = vi.models.vae(encoder, (lambda w, z: z @ w, jnp.ones((1, 2))), observed, latent_dim=1)
    with pytest.raises(ValueError, match=naming("'encoder'", "'decoder'", "vijax.aevb")):
        vi.auto(model, np.ones((3, 2), np.float32), key=KEY)


def test_starts_that_are_one_are_called_so():
    assert (
        "All starts were the same"
        in vi.auto(coin(), np.array([1.0, 0, 1], np.float32), key=KEY).verdict
    )


def test_skipped_steps_of_a_conjugate_model_are_told(monkeypatch):
    def skipping(*given, **more):
        done = vi.fit(*given, **more)
        return done._replace(state=done.state._replace(num_skipped=np.int32(3)))

    monkeypatch.setattr(by_steps, "fit", skipping)
    fit = vi.auto(coin(), np.array([1.0, 0, 1], np.float32), key=KEY, num_starts=1)
    told = f"3 of {fit.state.step} steps were not finite and were skipped"
    assert told in fit.outcome
    assert told in fit.verdict


@pytest.mark.parametrize(
    ("num", "remembered", "row", "starts"),
    [
        (150, 1 << 26, "cavi", 8),
        (300, 1 << 26, "memoized", 4),
        (300, 5, "svi", 4),
        (5001, 1 << 26, "memoized", 1),
    ],
)
def test_the_rows_of_documents_by_their_number(monkeypatch, num, remembered, row, starts):
    asked = []
    monkeypatch.setattr(
        by_steps, "fit", lambda alg, *_, restarts, **more: asked.append((alg.spec.name, restarts))
    )
    monkeypatch.setattr(by_steps, "_with_report", lambda done, words: done)
    monkeypatch.setattr(by_steps, "REMEMBERED", remembered)
    vi.auto(vi.models.lda(2, 3), np.ones((num, 3), int), key=KEY)
    assert asked == [(row, starts)]


def test_documents_end_where_coordinate_ascent_does(monkeypatch):
    """Or in an optimum as good, in far fewer passes."""
    corpus, _ = synthetic.lda_corpus(
        num_documents=60, num_topics=2, vocab_size=8, document_length=30.0, seed=0
    )
    model = vi.models.lda(2, 8)
    monkeypatch.setattr(by_steps, "SMALL_CORPUS", 50)
    monkeypatch.setattr(by_steps, "PART", 20)
    parts = vi.auto(model, corpus, key=KEY)
    assert parts.alg.spec.name == "memoized"
    assert parts.trace["restart_elbo"].shape == (90, 4)
    whole = vi.fit(vi.cavi(model), corpus, key=KEY, num_steps=100)
    assert parts.elbo.value > whole.elbo - 0.02 * abs(
        whole.elbo
    )  # topics that are one are 24 % below


def test_a_model_of_sites_has_one_start():
    model = vi.models.glm(np.ones((4, 1)), np.ones(4), vi.likelihood.bernoulli_logit())
    with pytest.raises(ValueError, match=naming("num_starts:", "Gaussian", "3")):
        vi.auto(model, key=KEY, num_starts=3)


def test_sites_are_fitted_by_proximal_gradients():
    x = np.linspace(-2, 2, 20)[:, None]
    model = vi.models.glm(x, np.sign(x[:, 0] + 0.1), vi.likelihood.bernoulli_logit())
    fit = vi.auto(model, key=KEY)
    assert fit.alg.spec.name == "pg_svi"
    assert fit.verdict.startswith("Converged")


def test_a_fit_goes_on_and_is_repeatable():
    model = vi.density({"x": vi.free(2)}, lambda v: -jnp.sum(jnp.cosh(v["x"] - 1)))
    one, two = (vi.auto(model, key=KEY) for _ in range(2))
    np.testing.assert_array_equal(*(f.sample(jax.random.key(1), 5)["x"] for f in (one, two)))
    on = vi.fit(one.alg, num_steps=50, key=KEY, state=one.state)
    np.testing.assert_allclose(on.sample(jax.random.key(1), 4000)["x"].mean(0), 1.0, atol=0.05)


def scaled(v):
    return norm.logpdf(v["x"], jnp.array([100.0, -3.0]), jnp.array([5.0, 0.1])).sum()


def test_the_frame_is_of_the_state_so_that_a_saved_fit_means_the_same(tmp_path):
    """The state of a fit says N(0, I): read without its frame it would be a normal around zero."""
    model = vi.density({"x": vi.free(2)}, scaled)
    fit = vi.auto(model, key=KEY)
    checkpoint.save(tmp_path, 1, fit.state)
    alone = vi.ngvi(model)
    with pytest.raises(checkpoint.OtherTreeError, match="frame"):
        checkpoint.latest(tmp_path, like=alone.init(KEY))
    alg = vi.ngvi(with_guide(model, vi.guides.full_rank(), is_framed=True))
    assert alg.step == fit.alg.step
    read = vi.Fit(
        alg,
        checkpoint.latest(tmp_path, like=jax.eval_shape(alg.init, KEY)).tree,
        fit.trace,
        fit.status,
    )
    draws = read.sample(jax.random.key(1), 2000)["x"]
    np.testing.assert_array_equal(draws, fit.sample(jax.random.key(1), 2000)["x"])
    np.testing.assert_allclose(draws.mean(0), [100.0, -3.0], rtol=1e-2)


@pytest.mark.parametrize(
    "make", [vi.advi, lambda model: vi.auto(model, key=KEY).alg], ids=["advi", "auto"]
)
def test_algorithms_of_densities_pickle(make):
    alg = make(vi.density({"x": vi.free(2)}, scaled))
    again = pickle.loads(pickle.dumps(alg))
    states = [vi.fit(one, num_steps=2, key=KEY).posterior["free"] for one in (alg, again)]
    np.testing.assert_array_equal(*(q.mean() for q in states))


def test_a_second_fit_compiles_nothing():
    model = vi.density(
        {"x": vi.free(3)},
        log_prior=lambda v: norm.logpdf(v["x"]).sum(),
        log_lik=lambda v, y: -((y - v["x"][0]) ** 2),
    )

    def run(seed):
        y = np.random.default_rng(seed).normal(size=12).astype(np.float32)
        vi.auto(model, y, key=jax.random.key(seed)).sample(KEY, 10)
        vi.fit(vi.advi(model), y, num_steps=2, key=KEY)

    run(0)
    before = compiled()
    run(1)
    assert compiled() == before


# --- the parts ------------------------------------------------------------------------------------
def test_a_step_is_the_kl_step_of_the_engine():
    """Precision (1 - rho) P + rho L^-T B L^-1 and P' m' = (1 - rho) P m + rho (L^-T B L^-1 m + L^-T
    a)."""
    rng = np.random.default_rng(0)
    scale = np.tril(rng.normal(size=(3, 3))) + 2 * np.eye(3)
    mean, slope, half = rng.normal(size=3), rng.normal(size=3), rng.normal(size=(3, 3))
    curvature = half @ half.T + np.eye(3)
    q, rho = Gaussian(mean, scale, 0.0), 0.3
    there = step(q, slope, curvature, radius=1e9, rho=rho).to
    inverse = np.linalg.inv(scale)
    old, target = inverse.T @ inverse, inverse.T @ curvature @ inverse
    new = (1 - rho) * old + rho * target
    np.testing.assert_allclose(np.linalg.inv(there.scale @ there.scale.T), new, rtol=1e-9)
    linear = (1 - rho) * old @ mean + rho * (target @ mean + inverse.T @ slope)
    np.testing.assert_allclose(there.mean, np.linalg.solve(new, linear), rtol=1e-9)


def test_a_step_stays_within_its_radius():
    q = Gaussian(np.zeros(2), np.eye(2), 0.0)
    moved = step(q, np.array([30.0, 0.0]), np.diag([5.0, -3.0]), radius=0.5)
    assert not moved.is_whole
    assert moved.nats <= 0.5
    cov = moved.to.scale @ moved.to.scale.T
    exact = 0.5 * (np.trace(cov) - 2 - np.linalg.slogdet(cov)[1] + moved.to.mean @ moved.to.mean)
    assert moved.nats == pytest.approx(exact, rel=1e-9)


def test_draws_are_antithetic_normals():
    noise = draw_noise(100, 3, [0, 1])
    assert noise.shape == (128, 3)
    np.testing.assert_allclose(noise.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(noise.var(0), 1, atol=0.1)
    assert np.abs(draw_noise(100, 3, [0, 2]) - noise).max() > 0.1


def test_searches_arrive_side_by_side():
    """Rosenbrock's valley from eight starts."""

    class Valley:
        calls = 0

        def slopes(self, x):
            self.calls += 1
            a, b = x.T
            value = -((1 - a) ** 2) - 100 * (b - a**2) ** 2
            return value, np.stack([2 * (1 - a) + 400 * a * (b - a**2), -200 * (b - a**2)], 1)

    valley = Valley()
    found = maximise(valley.slopes, np.random.default_rng(0).uniform(-2, 2, (8, 2)))
    assert len(found) == 8
    np.testing.assert_allclose(found[0].x, [1, 1], atol=0.1)
    assert all(mode.value > -0.1 for mode in found)
    assert valley.calls < 150


def test_the_diagonal_of_what_a_search_knows_is_that_of_its_matrix():
    """By the two loops on every unit vector."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(7, 7))
    hessian = half @ half.T + np.eye(7)
    pairs = [(step, hessian @ step) for step in rng.normal(size=(4, 7))]
    slow = np.array([lbfgs._apply_inverse(pairs, row)[i] for i, row in enumerate(np.eye(7))])
    np.testing.assert_allclose(lbfgs._diagonal(pairs, 7), slow, rtol=1e-9)
