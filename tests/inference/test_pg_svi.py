"""pg_svi against brute force: natural gradients in full covariances, L-BFGS on (m, L), exact
regression, EM by hand."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import optimize, special

import vijax as vi
from tests.rounding import rounding
from vijax.inference.step_size import backtracking, constant, proximal, robbins_monro

N = 6
RNG = np.random.default_rng(3)
X = np.sort(RNG.uniform(-2, 2, N))
Y = np.array([-1, -1, 1, -1, 1, 1])
KERNEL = 4.0 * np.exp(-0.5 * (X[:, None] - X[None]) ** 2) + 1e-2 * np.eye(N)
HERMITE, WEIGHT = np.polynomial.hermite_e.hermegauss(120)
WEIGHT = WEIGHT / WEIGHT.sum()


def rbf(a, b):
    return 4.0 * jnp.exp(-0.5 * (a[:, None] - b[None]) ** 2)


def classifier(**kwargs):
    return vi.models.gp(X, Y, rbf, vi.likelihood.bernoulli_logit(), jitter=1e-2, **kwargs)


def run(alg, model, num_steps, **kwargs):
    return vi.fit(alg, model.data, num_steps=num_steps, key=jax.random.key(0), **kwargs)


def brute_elbo(m, cov, kernel=KERNEL):
    """E_q[log p(y | z)] by 120-point Gauss-Hermite, which suffices at these variances, minus KL."""
    z = m[:, None] + np.sqrt(np.diag(cov))[:, None] * HERMITE
    expected = np.sum(special.log_expit(Y[:, None] * z) @ WEIGHT)
    inverse = np.linalg.inv(kernel)
    gap = np.linalg.slogdet(kernel)[1] - np.linalg.slogdet(cov)[1]
    return expected - 0.5 * (np.trace(inverse @ cov) + m @ inverse @ m - N + gap)


@functools.cache
def brute_optimum():
    rows, columns = np.tril_indices(N)

    def unpack(x):
        factor = np.zeros((N, N))
        factor[rows, columns] = x[N:]
        return x[:N], factor @ factor.T

    def loss(x):
        return -brute_elbo(*unpack(x))

    start = np.concatenate([np.zeros(N), np.linalg.cholesky(KERNEL)[rows, columns]])
    found = optimize.minimize(
        loss, start, method="L-BFGS-B", options={"maxiter": 2000, "ftol": 1e-15, "gtol": 1e-9}
    )
    return unpack(found.x), -found.fun


@pytest.mark.parametrize("choices", [{}, {"mean": "exact"}, {"update": vi.update.symmetric_kl()}])
def test_batch_reaches_the_optimum_of_brute_force_and_never_falls(choices):
    (m, cov), best = brute_optimum()
    with jax.enable_x64(True):
        model = classifier()
        fit = run(vi.pg_svi(model, **choices), model, 60)
        elbo, (mean, variance) = model.elbo(fit.posterior), fit.posterior["z"].marginals()
        start = model.elbo(vi.sites.Sites.zeros(N))
    np.testing.assert_allclose(start, brute_elbo(np.zeros(N), KERNEL), rtol=1e-9)
    np.testing.assert_allclose(elbo, best, rtol=1e-7)
    np.testing.assert_allclose(mean, m, atol=2e-3)
    np.testing.assert_allclose(variance, np.diag(cov), atol=4e-3)
    assert np.all(np.diff(fit.trace["elbo"]) > -1e-9)
    assert np.all(fit.trace["result"] == 0)


@pytest.mark.parametrize("name", ["euclidean", "mirror"])
def test_other_divergences_climb(name):
    """Both take F(lambda) (target - lambda): slow where the prior variance is large, never
    downhill."""
    with jax.enable_x64(True):
        model = classifier()
        alg = vi.pg_svi(model, update=vi.update.DIVERGENCES[name](), step_size=backtracking(1e-3))
        fit = run(alg, model, 60)
    assert np.all(np.diff(fit.trace["elbo"]) > -1e-9)
    assert fit.trace["elbo"][-1] > fit.trace["elbo"][0] + 0.8 * (
        brute_optimum()[1] - fit.trace["elbo"][0]
    )


def test_step_is_the_natural_gradient_in_the_full_mean_parameters():
    """lambda + rho dELBO/d(m, V + m m'), by autodiff in the N + N^2 mean parameters of the full
    Gaussian."""
    rho = 0.4
    with jax.enable_x64(True):
        model = classifier()
        step = jax.jit(vi.pg_svi(model, step_size=constant(rho)).step)
        state = vi.pg_svi(model).init(jax.random.key(0))
        for _ in range(2):
            old, (state, _) = state, step(jax.random.key(0), state, model.data)

        def moments(sites):
            cov = jnp.linalg.inv(jnp.linalg.inv(KERNEL) + jnp.diag(sites.precision))
            return cov @ sites.linear, cov

        def elbo(first, second):
            cov = second - jnp.outer(first, first)
            z = first[:, None] + jnp.sqrt(jnp.diag(cov))[:, None] * jnp.asarray(HERMITE)
            inverse = jnp.linalg.inv(KERNEL)
            kl = jnp.trace(inverse @ cov) + first @ inverse @ first - jnp.linalg.slogdet(cov)[1]
            return jnp.sum(jax.nn.log_sigmoid(Y[:, None] * z) @ jnp.asarray(WEIGHT)) - 0.5 * kl

        m, cov = moments(old.posterior["z"])
        d_first, d_second = jax.grad(elbo, argnums=(0, 1))(m, cov + jnp.outer(m, m))
        precision = jnp.linalg.inv(cov)
        new_precision = precision - 2 * rho * 0.5 * (d_second + d_second.T)
        new_mean = jnp.linalg.solve(new_precision, precision @ m + rho * d_first)
        got_mean, got_cov = moments(state.posterior["z"])
    np.testing.assert_allclose(got_mean, new_mean, atol=1e-10)
    np.testing.assert_allclose(got_cov, np.linalg.inv(new_precision), atol=1e-10)


def test_exact_mean_is_the_seeds_update():
    """Appendix D: B = K + diag(r gamma)^-1, m' = m - (1 - r)(I - K B^-1)(m + K alpha), on a
    minibatch."""
    r = 0.7
    with jax.enable_x64(True):
        model = classifier()
        alg = vi.pg_svi(model, step_size=constant(1 - r), mean="exact")
        state = alg.init(jax.random.key(0))
        state, _ = jax.jit(alg.step)(jax.random.key(0), state, model.data)
        rows = np.array([0, 3, 4])
        new, _ = jax.jit(alg.step)(
            jax.random.key(0), state, vi.Minibatch({"site": rows, "y": Y[rows]}, N)
        )
        m, v = (np.asarray(x) for x in state.posterior["z"].marginals())
        got = np.asarray(new.posterior["z"].mean())
        moments = vi.expectation.exact()(
            vi.likelihood.bernoulli_logit(), Y, jnp.asarray(m), jnp.asarray(v), None
        )
        alpha, gamma = np.zeros(N), np.zeros(N)
        alpha[rows] = -(N / 3) * np.asarray(moments.slope)[rows]
        gamma[rows] = -(N / 3) * np.asarray(moments.curvature)[rows]
    old = np.asarray(state.posterior["z"].precision)
    b = KERNEL + np.diag(1 / (r * old))
    expected = m - (1 - r) * (np.eye(N) - KERNEL @ np.linalg.inv(b)) @ (m + KERNEL @ alpha)
    np.testing.assert_allclose(got, expected, atol=1e-9)
    np.testing.assert_allclose(new.posterior["z"].precision, r * old + (1 - r) * gamma, atol=1e-12)


@pytest.mark.parametrize("form", ["whitened", "kernel"])
def test_gaussian_likelihood_is_exact_regression_in_one_step(form):
    y = RNG.normal(size=N)
    new = np.array([-1.0, 0.3])
    with jax.enable_x64(True):
        model = vi.models.gp(X, y, rbf, vi.likelihood.gaussian(0.3), jitter=1e-2, form=form)
        alg = vi.pg_svi(model, step_size=constant(1.0))
        # Not by `fit`, whose prefetching thread does not see this thread's x64 and would round y to
        # float32.
        state, _ = jax.jit(alg.step)(jax.random.key(0), alg.init(jax.random.key(0)), model.data)
        elbo, (mean, variance) = model.elbo(state.posterior), model.predict(state.posterior, new)
        density = model.predictive(state.posterior, new, 0.5)
        elbo, mean, variance, density = (np.asarray(x) for x in (elbo, mean, variance, density))
    total = KERNEL + 0.3 * np.eye(N)
    cross = 4.0 * np.exp(-0.5 * (X[:, None] - new[None]) ** 2)
    evidence = -0.5 * (y @ np.linalg.solve(total, y) + np.linalg.slogdet(2 * np.pi * total)[1])
    np.testing.assert_allclose(elbo, evidence, rtol=1e-10)
    want = cross.T @ np.linalg.solve(total, y)
    np.testing.assert_allclose(mean, want, rtol=1e-8, atol=rounding(want))
    exact = 4.0 - np.sum(cross * np.linalg.solve(total, cross), 0)
    np.testing.assert_allclose(variance, exact, rtol=1e-8)
    normal = np.exp(-0.5 * (0.5 - mean) ** 2 / (exact + 0.3)) / np.sqrt(2 * np.pi * (exact + 0.3))
    np.testing.assert_allclose(density, normal, rtol=1e-6)


def test_minibatches_with_memory_converge_to_the_optimum_with_large_steps():
    _, best = brute_optimum()
    with jax.enable_x64(True):
        model = classifier()
        alg = vi.pg_svi(model, step_size=constant(0.5), memory=True, penalty_every=50)
        fit = run(alg, model, 400, batch_size=4)  # of six sites: the last batch of a pass is padded
        np.testing.assert_allclose(model.elbo(fit.posterior), best, rtol=1e-7)


def test_plain_minibatches_need_small_steps_or_averages():
    _, best = brute_optimum()
    model = classifier()
    alg = vi.averaged(vi.pg_svi(model), 200)
    fit = run(alg, model, 900, batch_size=2)
    assert fit.state.beside["averaged"]["z"].prior is None  # a kernel is kept once
    assert abs(float(model.elbo(fit.average)) / best - 1) < 2e-3
    assert float(model.elbo(fit.average)) >= float(model.elbo(fit.posterior)) - 1e-3


def test_resuming_equals_one_run_and_nothing_recompiles():
    model = classifier()
    alg = vi.averaged(vi.pg_svi(model, memory=True), 3)
    step = chex.assert_max_traces(
        lambda *a: alg.step(*a), n=4
    )  # shapes, loop: of the first chunk only
    traced = alg._replace(step=step)
    whole = run(traced, model, 9, batch_size=2, steps_per_chunk=3)
    part = run(traced, model, 4, batch_size=2, steps_per_chunk=3)
    rest = run(traced, model, 9, batch_size=2, steps_per_chunk=3, state=part.state)
    for a, b in zip(jax.tree.leaves(whole.state), jax.tree.leaves(rest.state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_backtracking_copes_with_a_poisson_likelihood_that_is_not_lipschitz():
    """From the prior, a step of size 0.9 at variance 25 sends e^z out of sight; the safeguard keeps
    every step up."""
    y = np.array([0.0, 3.0, 20.0, 150.0, 2.0, 0.0])
    with jax.enable_x64(True):
        model = vi.models.gp(X, y, lambda a, b: 6.25 * rbf(a, b), vi.likelihood.poisson_log())
        fit = run(vi.pg_svi(model, step_size=backtracking(0.9)), model, 250)
        slope = [np.asarray(x) for x in jax.grad(model.elbo)(fit.posterior["z"]).sites]
    assert np.all(np.diff(fit.trace["elbo"]) > -1e-7)
    assert fit.trace["backtracks"].sum() > 0
    assert np.all(np.isfinite(fit.trace["elbo"]))
    assert max(np.max(np.abs(s)) for s in slope) < 1e-3


def test_sites_of_negative_precision_stay_in_the_domain():
    y = np.array([0.1, 0.0, 6.0, 0.2, -0.1, 0.0])  # an outlier
    with jax.enable_x64(True):
        model = vi.models.gp(X, y, rbf, vi.likelihood.student_t(2.0, 0.1), jitter=1e-2)
        fit = run(vi.pg_svi(model), model, 150)
        slope = jax.grad(model.elbo)(fit.posterior["z"])
        assert float(fit.posterior["z"].precision[2]) < 0
        assert bool(fit.posterior["z"].prior.in_domain(fit.posterior["z"].sites))
        assert float(jnp.max(jnp.abs(slope.linear))) < 1e-5
    assert np.all(np.diff(fit.trace["elbo"]) > -1e-9)


def test_retractions_are_counted():
    """A reparameterised curvature has either sign; the kernel form admits no negative site."""
    model = classifier(form="kernel", expectation=vi.expectation.reparameterised(2))
    fit = run(vi.pg_svi(model, step_size=constant(0.9)), model, 20)
    assert fit.trace["retractions"].sum() > 0
    assert float(jnp.min(fit.posterior["z"].precision)) >= 0


@pytest.mark.parametrize("name", ["bonnet_price", "score_function"])
def test_monte_carlo_expectations_come_close(name):
    _, best = brute_optimum()
    model = classifier(expectation=getattr(vi.expectation, name)(2000))
    fit = run(vi.pg_svi(model, step_size=robbins_monro(0.5, kappa=0.7)), model, 100)
    assert (
        abs(float(model.elbo(fit.posterior, expectation=vi.expectation.exact())) / best - 1) < 5e-3
    )


def test_hyperparameter_gradient_is_that_of_the_optimised_bound():
    """At optimal sites d ELBO / d hyper at fixed sites equals the finite difference of re-optimised
    bounds."""

    def model(length):
        kernel = lambda h: lambda a, b: rbf(a / h["length"], b / h["length"])
        lik = vi.likelihood.bernoulli_logit()
        return vi.models.gp(X, Y, kernel, lik, hyper={"length": length}, jitter=1e-2)

    def optimised(length):
        m = model(length)
        sites = run(vi.pg_svi(m), m, 60).posterior
        return m, sites, float(m.elbo(sites))

    with jax.enable_x64(True):
        here, sites, _ = optimised(1.0)
        slope = jax.grad(lambda h: here.elbo(sites, h))({"length": jnp.array(1.0)})["length"]
        change = (optimised(1.001)[2] - optimised(0.999)[2]) / 0.002
        np.testing.assert_allclose(slope, change, rtol=1e-4)
        learnt = run(vi.pg_svi(here, learn=("length",)), here, 150)
        assert float(learnt.trace["elbo"][-1]) > float(learnt.trace["elbo"][40])
        assert abs(float(learnt.state.hyper["length"]) - 1.0) > 0.05
        own, explicit = (here.predict(learnt.posterior, X, h) for h in (None, learnt.state.hyper))
        moved = model(learnt.state.hyper["length"])  # made with what was learnt
        for a, b, c in zip(
            own, explicit, moved.predict(learnt.posterior["z"].sites, X), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-8)
            np.testing.assert_allclose(a, c, rtol=1e-8)


def test_a_likelihood_that_is_nan_at_some_site_is_named_and_skipped():
    own = lambda y, z: jnp.where(y > 2, jnp.log(-1.0 - z**2), -0.5 * (y - z) ** 2)
    model = vi.models.gp(X, np.array([0.0, 1.0, 0.0, 1.0, 3.0, 1.0]), rbf, own, jitter=1e-2)
    with pytest.warns(vi.SkippedStepsWarning, match="12 of 12 steps"):
        fit = run(vi.pg_svi(model), model, 12, throw=False)
    assert fit.status is vi.Status.DIVERGED
    assert set(fit.trace["bad_group"].tolist()) == {4}
    assert set(fit.trace["result"].tolist()) == {int(vi.Result.SKIPPED)}
    assert bool(jnp.all(jnp.isfinite(fit.posterior["z"].linear)))


def test_any_model_by_monte_carlo_comes_close_to_the_glm():
    """The same logistic regression, as a vijax.Model with a full Gaussian posterior, by both
    estimators."""
    x = np.stack([np.ones(N), X], 1)
    glm = vi.models.glm(x, Y, vi.likelihood.bernoulli_logit())
    exact = run(vi.pg_svi(glm), glm, 40)
    mean, variance = glm.predict(exact.posterior, jnp.eye(2))
    prior = vi.Product({"w": vi.MultivariateNormal.from_mean_cov(jnp.zeros(2), jnp.eye(2))})
    logit = lambda s, data, key: (jax.nn.log_sigmoid(data[1] * (data[0] @ s["w"].value)), None)
    model = vi.model(prior=prior, local_elbo=logit)
    for rule in (vi.estimator.reparameterised(32), vi.estimator.score_function(400)):
        alg = vi.whole(vi.pg_svi(model, estimator=rule, step_size=robbins_monro(0.5, kappa=0.8)))
        fit = vi.fit(
            alg, (jnp.asarray(x, jnp.float32), jnp.asarray(Y)), num_steps=400, key=jax.random.key(1)
        )
        q = fit.posterior["w"]
        np.testing.assert_allclose(q.mean(), mean, atol=0.05)
        np.testing.assert_allclose(jnp.diag(q.cov), variance, rtol=0.1)


def test_bad_input_is_named():
    lik = vi.likelihood.bernoulli_logit()
    model = classifier()
    alg = vi.pg_svi(model)
    step = lambda batch: alg.step(jax.random.key(0), alg.init(jax.random.key(0)), batch)
    empty = {"site": np.zeros(0, np.int32), "y": np.zeros(0)}
    cases = [
        (
            lambda: vi.models.gp(X, np.array([1, 0, 1, 1, 1, 1]), rbf, lik),
            r"y: .*-1 or \+1 .*, got 0 at site 1",
        ),
        (
            lambda: vi.models.gp(X, Y[:4], rbf, lik),
            "y: expected one observation for each of the 6 inputs",
        ),
        (
            lambda: vi.models.gp(X, Y, lambda a, b: -rbf(a, b), lik),
            "kernel: .*positive definite.*Add jitter",
        ),
        (lambda: vi.models.gp(X, Y, lambda a, b: a, lik), "kernel: expected a matrix of shape"),
        (
            lambda: vi.models.gp(X, Y, "cubic", lik),
            'kernel: expected one of "rbf", .* or a function, got .cubic.',
        ),
        (lambda: vi.models.gp(X, Y, rbf, lik, form="dense"), "form"),
        (lambda: vi.models.gp(X, Y, "rbf", lik, hyper={"length": -1.0}), "length"),
        (lambda: proximal(0.0), "beta: expected a positive number"),
        (lambda: backtracking(1.5), "initial"),
        (lambda: step(empty), "batch: expected at least one site"),
        (
            lambda: step(vi.Minibatch({"site": np.arange(2), "y": Y[:2]}, 9.0)),
            "batch.num_groups: expected N = 6",
        ),
        (lambda: step({"site": np.array([0, 6]), "y": Y[:2]}), "batch: expected sites from 0 to 5"),
        (lambda: step(Y), "batch: expected"),
        (lambda: vi.pg_svi(model, mean="approximate"), "mean"),
        (lambda: vi.pg_svi(model, learn=("length",)), "learn"),
        (lambda: vi.estimator.score_function(1), "num_samples"),
        (lambda: vi.estimator.reparameterised(0), "num_samples"),
        (
            lambda: vi.pg_svi(model, update=vi.update.descend(optax.sgd(0.1))),
            "update: expected a proximal step",
        ),
    ]
    for call, message in cases:
        with pytest.raises(ValueError, match=message):
            call()


def gap_to_messages(model, sites):
    m, v = sites.marginals()
    moments = model.estep(vi.likelihood.bernoulli_logit(), model.y, m, v, None)
    message = (moments.slope - m * moments.curvature, -moments.curvature)
    return np.stack([message[0] - sites.linear, message[1] - sites.precision])


def test_inner_steps_solve_the_problem_of_the_batch():
    """After many of them the batch's sites equal their own messages, and only those have moved."""
    rows, padded = np.array([4, 1]), np.array([4, 1, 0])
    with jax.enable_x64(True):
        model = classifier()
        alg = vi.pg_svi(model, step_size=constant(0.4), memory=True, inner_steps=60)
        key = jax.random.key(0)
        start = jax.jit(vi.pg_svi(model).step)(key, vi.pg_svi(model).init(key), model.data)[
            0
        ].posterior
        batch = vi.Minibatch({"site": padded, "y": Y[padded]}, N, np.array([1.0, 1.0, 0.0]))
        state, _ = jax.jit(alg.step)(key, alg.init(key)._replace(posterior=start), batch)
        before, after = (gap_to_messages(model, s["z"]) for s in (start, state.posterior))
        change = np.flatnonzero(
            np.asarray(state.posterior["z"].precision) != np.asarray(start["z"].precision)
        )
    assert np.max(np.abs(before[:, rows])) > 1e-2
    np.testing.assert_allclose(after[:, rows], 0.0, atol=1e-9)
    assert change.tolist() == sorted(rows)
    with pytest.raises(ValueError, match="inner_steps"):
        vi.pg_svi(classifier(), inner_steps=3)


def test_draws_are_judged_by_the_rule_for_noise():
    """On full data too; an expectation without draws has no watch."""
    model = classifier()
    for expectation, noisy in ((vi.expectation.bonnet_price(20), True), (None, False)):
        alg = vi.pg_svi(model, expectation=expectation)
        assert alg.spec.draws is noisy
        fit = run(alg, model, 2000, tol=1e-2)
        assert fit.status is vi.Status.CONVERGED
        assert (int(fit.state.watch.window) > 0) is noisy
