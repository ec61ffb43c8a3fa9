"""Models as energies, against enumeration, closed forms and updates derived by hand."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import special, stats

import vijax as vi
from tests.naming import naming
from vijax import reference

Y = jnp.array([-2.5, -1.5, 3.0, 2.0])


def mixture(weights=(1.0, 1.0), spread=10.0, init=None, estep=None):
    """y ~ N(mu_z, 1), z ~ pi, mu_k ~ N(m_k, spread), pi ~ Dirichlet(weights)."""

    def energy(s, y):
        fit = y * s["mu"].value - 0.5 * s["mu"].square - 0.5 * y**2 - 0.5 * jnp.log(2 * jnp.pi)
        return jnp.vdot(s["z"].one_hot, s["weights"].log + fit)

    return vi.energy_model(
        globals={
            "mu": vi.Normal.from_mean_variance(jnp.array([-1.0, 1.0]), spread),
            "weights": vi.Dirichlet.from_concentration(weights),
        },
        locals={"z": vi.Categorical.from_probs([0.5, 0.5])},
        energy=energy,
        example=0.0,
        init=init,
        estep=estep,
    )


def location_and_precision():
    """y ~ N(mu, 1 / tau), mu and tau independent under q: the two are coupled."""

    def energy(s, y):
        square = y**2 - 2 * y * s["mu"].value + s["mu"].square
        return 0.5 * (s["tau"].log - s["tau"].value * square - jnp.log(2 * jnp.pi))

    return vi.energy_model(
        globals={
            "mu": vi.Normal.from_mean_variance(0.0, 4.0),
            "tau": vi.Gamma.from_shape_rate(2.0, 3.0),
        },
        energy=energy,
        example=0.0,
    )


def two_locals():
    """y = a + b + e with a ~ N(0, 2), b ~ N(0, 1), e ~ N(c, 1), c ~ N(0, 1): two coupled locals,
    all Gaussian."""

    def energy(s, y):
        a, b, c = s["a"], s["b"], s["c"]
        residual = (
            (y**2 + a.square + b.square + c.square)
            - 2 * y * (a.value + b.value + c.value)
            + 2 * (a.value * b.value + a.value * c.value + b.value * c.value)
        )
        return (
            -0.5 * residual
            - 0.25 * a.square
            - 0.5 * b.square
            - 0.5 * jnp.log(2)
            - 1.5 * jnp.log(2 * jnp.pi)
        )

    unit = vi.Normal.from_mean_variance(0.0, 1.0)
    return vi.energy_model(
        globals={"c": unit}, locals={"a": unit, "b": unit}, energy=energy, example=0.0
    )


def hierarchy():
    """y_n ~ N(theta, 1), theta ~ N(m, 1), m ~ N(1, 2)."""

    def energy(s, y):
        return (
            y * s["theta"].value - 0.5 * s["theta"].square - 0.5 * y**2 - 0.5 * jnp.log(2 * jnp.pi)
        )

    def prior_energy(s):
        m, theta = s["m"], s["theta"]
        return (
            m.value * theta.value - 0.5 * theta.square - 0.5 * m.square - 0.5 * jnp.log(2 * jnp.pi)
        )

    return vi.energy_model(
        globals={
            "m": vi.Normal.from_mean_variance(1.0, 2.0),
            "theta": vi.conditional(vi.Normal.from_mean_variance(0.3, 0.7)),
        },
        energy=energy,
        prior_energy=prior_energy,
        example=0.0,
    )


def mixture_evidence(y, weights, spread):
    """log p(y) by enumeration of all assignments: Polya's urn times a Gaussian marginal per
    component."""
    total = []
    for z in itertools.product([0, 1], repeat=len(y)):
        sizes = np.bincount(z, minlength=2)
        term = special.loggamma(sum(weights)) - special.loggamma(sum(weights) + len(y))
        term += np.sum(special.loggamma(np.add(weights, sizes)) - special.loggamma(weights))
        for k, mean in enumerate([-1.0, 1.0]):
            mine = np.asarray(y)[np.array(z) == k]
            if len(mine):
                cov = np.eye(len(mine)) + spread
                term += stats.multivariate_normal(np.full(len(mine), mean), cov).logpdf(mine)
        total.append(term)
    return special.logsumexp(total)


@functools.lru_cache
def cavi_trace(make, steps=60):
    with jax.enable_x64(True):
        fit = vi.fit(
            vi.cavi(make()), np.asarray(Y, np.float64), num_steps=steps, key=jax.random.key(0)
        )
        return fit.trace["elbo"], jax.tree.map(np.asarray, fit.posterior)


def test_elbo_lower_bounds_the_evidence_of_a_mixture():
    evidence = mixture_evidence(Y, (1.0, 1.0), 10.0)
    trace, _ = cavi_trace(mixture)
    assert np.all(trace < evidence)
    assert (
        trace[-1] > evidence - 1.0
    )  # separated components: the two labellings cost log 2, the rest is small


def test_elbo_is_the_evidence_where_the_family_holds_the_posterior():
    """One component: q is exact, and so is every constant."""
    model = vi.energy_model(
        globals={"mu": vi.Normal.from_mean_variance(0.5, 3.0)},
        energy=lambda s, y: (
            y * s["mu"].value - 0.5 * s["mu"].square - 0.5 * y**2 - 0.5 * jnp.log(2 * jnp.pi)
        ),
        example=0.0,
    )
    fit = vi.fit(vi.cavi(model), Y, num_steps=3, key=jax.random.key(0))
    exact = stats.multivariate_normal(np.full(4, 0.5), np.eye(4) + 3.0).logpdf(Y)
    np.testing.assert_allclose(fit.trace["elbo"][-1], exact, rtol=1e-5)


def test_evidence_of_a_gaussian_hierarchy():
    """Exact conjugate sums again, with one global's prior written in terms of another: mean field
    misses only the correlation, so the means are exact and the ELBO is below the evidence by half a
    log determinant."""
    trace, q = cavi_trace(hierarchy)
    n, y = 4, np.asarray(Y)
    evidence = stats.multivariate_normal(np.full(n, 1.0), np.eye(n) + 3.0).logpdf(y)
    precision = np.array([[0.5 + 1.0, -1.0], [-1.0, 1.0 + n]])  # of (m, theta) given y
    mean = np.linalg.solve(precision, [0.5, y.sum()])
    np.testing.assert_allclose([q["m"].mean(), q["theta"].mean()], mean, rtol=1e-6)
    gap = 0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1])
    np.testing.assert_allclose(trace[-1], evidence - gap, rtol=1e-9)


def test_two_coupled_locals_reach_the_mean_field_optimum():
    """All Gaussian: the mean-field means are those of the posterior, which the joint normal
    gives."""
    trace, q = cavi_trace(two_locals)
    n, y = 4, np.asarray(Y)
    evidence = stats.multivariate_normal(np.zeros(n), 4.0 * np.eye(n) + 1.0).logpdf(y)
    np.testing.assert_allclose(q["c"].mean(), y.sum() / (4.0 + n), rtol=1e-5)
    precision = np.zeros((2 * n + 1, 2 * n + 1))
    precision[0, 0] = 1.0 + n
    for i in range(n):
        a, b = 1 + 2 * i, 2 + 2 * i
        precision[a, a], precision[b, b] = 1.5, 2.0
        for j, k in ((0, a), (0, b), (a, b)):
            precision[j, k] = precision[k, j] = 1.0
    gap = 0.5 * (np.log(np.diag(precision)).sum() - np.linalg.slogdet(precision)[1])
    np.testing.assert_allclose(trace[-1], evidence - gap, rtol=1e-6)


@pytest.mark.parametrize("make", [mixture, location_and_precision, two_locals, hierarchy])
def test_coordinate_ascent_never_loses_ground(make):
    trace, _ = cavi_trace(make)
    assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[1:]))


def test_blocks_follow_the_couplings():
    assert mixture().blocks == (("mu", "weights"),)
    assert location_and_precision().blocks == (("mu",), ("tau",))
    assert two_locals().queries["energy"].local_blocks == (("a",), ("b",))
    assert hierarchy().blocks == (("m",), ("theta",))


def test_one_step_is_the_update_of_the_review():
    """Blei, Kucukelbir and McAuliffe 2017, Algorithm 2 (and eq. 33, 34), by hand in NumPy."""
    model, y = mixture(), np.asarray(Y, np.float64)
    alg = vi.cavi(model)
    state = alg.init(jax.random.key(0))
    state, _ = jax.jit(alg.step)(jax.random.key(1), state, Y)
    mean, square = np.array([-1.0, 1.0]), 1.0 + 10.0
    logits = special.digamma(1.0) - special.digamma(2.0) + y[:, None] * mean - 0.5 * square
    phi = special.softmax(logits, axis=1)
    variance = 1 / (1 / 10.0 + phi.sum(0))
    np.testing.assert_allclose(state.posterior["mu"].variance(), variance, rtol=1e-5)
    np.testing.assert_allclose(
        state.posterior["mu"].mean(),
        variance * (np.array([-1.0, 1.0]) / 10.0 + phi.T @ y),
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        state.posterior["weights"].concentration, 1.0 + phi.sum(0), rtol=1e-5
    )


def test_blocks_that_conflict_are_updated_one_after_the_other():
    """Location, then precision at the new location, by hand; the objective reported is that of the
    state as it was."""
    model, y = location_and_precision(), np.asarray(Y, np.float64)
    alg = vi.cavi(model)
    state, info = jax.jit(alg.step)(jax.random.key(1), alg.init(jax.random.key(0)), Y)
    tau = 2.0 / 3.0
    variance = 1 / (1 / 4.0 + 4 * tau)
    mean = variance * tau * y.sum()
    rate = 3.0 + 0.5 * np.sum((y - mean) ** 2 + variance)
    np.testing.assert_allclose(
        [state.posterior["mu"].mean(), state.posterior["mu"].variance()],
        [mean, variance],
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        [state.posterior["tau"].shape, state.posterior["tau"].rate], [4.0, rate], rtol=1e-5
    )
    log_tau = special.digamma(2.0) - np.log(3.0)
    before = 0.5 * np.sum(log_tau - tau * (y**2 + 4.0) - np.log(2 * np.pi))
    np.testing.assert_allclose(info.elbo, before, rtol=1e-5)


def test_gibbs_agrees_with_quadrature():
    """Posterior mean and variance of location and precision against a grid."""
    draws = reference.gibbs(
        location_and_precision(), Y, key=jax.random.key(3), num_samples=20_000, burn_in=100
    ).globals
    mu, tau = np.meshgrid(np.linspace(-8, 8, 801), np.linspace(1e-3, 4, 800), indexing="ij")
    log_joint = stats.norm(0, 2).logpdf(mu) + stats.gamma(2.0, scale=1 / 3.0).logpdf(tau)
    for y in np.asarray(Y):
        log_joint += stats.norm(mu, tau**-0.5).logpdf(y)
    weights = special.softmax(log_joint)
    for name, value in (("mu", mu), ("tau", tau)):
        mean = np.sum(weights * value)
        sd = np.sqrt(np.sum(weights * (value - mean) ** 2))
        np.testing.assert_allclose(draws[name].mean(), mean, atol=6 * sd / np.sqrt(10_000))
        np.testing.assert_allclose(draws[name].std(), sd, rtol=0.08)


def test_gibbs_estep_message_is_unbiased():
    """Averaged draws of z are its conditional, so the mean message is the exact one; and the value
    is log p(y | beta) whatever was drawn."""
    model = mixture()
    stats_ = model.prior({}).expected_stats()
    batch = vi.Minibatch(Y, None)

    def bound(s, key, estep):
        return model.local_elbo({}, s, batch, key, estep).total

    exact, message = jax.value_and_grad(bound)(stats_, jax.random.key(0), vi.estep.mean_field())
    value, sampled = jax.value_and_grad(bound)(
        stats_, jax.random.key(1), vi.estep.gibbs(num_sweeps=20_000)
    )
    np.testing.assert_allclose(value, exact, rtol=1e-5)
    for one, other in zip(jax.tree.leaves(message), jax.tree.leaves(sampled), strict=True):
        np.testing.assert_allclose(
            one, other, atol=0.1
        )  # 6 s.e. of a sum of four, each at most 3 * 0.5 / sqrt(2e4)


@pytest.mark.parametrize("name", ["svi", "ssvi", "ssvi_a"])
def test_stochastic_algorithms_on_minibatches(name):
    """Well separated data: all end near the coordinate-ascent optimum."""
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.normal(-4, 1, 300), rng.normal(4, 1, 200)]).astype(np.float32)
    alg = getattr(vi, name)(mixture())
    fit = vi.fit(alg, y, key=jax.random.key(0), num_epochs=40, batch_size=50)
    np.testing.assert_allclose(
        np.sort(fit.posterior["mu"].mean()), [y[:300].mean(), y[300:].mean()], atol=0.15
    )
    np.testing.assert_allclose(np.sort(fit.posterior["weights"].mean()), [0.4, 0.6], atol=0.03)


def test_points_beside_distributions():
    """Variational EM: the means as posterior modes, the weights in full; by hand, mu's mode is its
    conditional mean."""
    model = mixture()
    fit = vi.fit(
        vi.cavi(model, estimand={"mu": vi.estimand.mode()}), Y, num_steps=100, key=jax.random.key(0)
    )
    mu = np.asarray(fit.posterior["mu"].mean(), np.float64)
    log_weights = special.digamma(fit.posterior["weights"].concentration) - special.digamma(6.0)
    phi = special.softmax(log_weights + np.asarray(Y)[:, None] * mu - 0.5 * mu**2, axis=1)
    by_hand = (np.array([-1.0, 1.0]) / 10.0 + phi.T @ np.asarray(Y)) / (1 / 10.0 + phi.sum(0))
    np.testing.assert_allclose(mu, by_hand, rtol=1e-4)
    assert np.all(np.diff(fit.trace["elbo"]) > -1e-5)


def test_learnt_hyperparameters_maximise_the_evidence():
    """y ~ N(mu, 1), mu ~ N(0, v): the evidence is largest at v = mean(y)^2 - 1 / n."""
    y = jnp.asarray(np.random.default_rng(1).normal(3.0, 1.0, 20), jnp.float32)
    model = vi.energy_model(
        globals=lambda h: {"mu": vi.Normal(0.0 * h["v"], -0.5 / h["v"])},
        energy=lambda s, y, h: y * s["mu"].value - 0.5 * s["mu"].square - 0.5 * y**2,
        example=0.0,
        hyper={"v": 1.0},
    )
    alg = vi.cavi(model, learn=vi.learn("v", optimizer=optax.adam(0.1)))
    fit = vi.fit(alg, y, num_steps=300, key=jax.random.key(0))
    np.testing.assert_allclose(fit.state.hyper["v"], float(y.mean()) ** 2 - 1 / 20, rtol=1e-3)


class TestStarts:
    Y = np.concatenate(
        [np.random.default_rng(0).normal(c, 0.5, (40, 2)) for c in (-5, 0, 5)]
    ).astype(np.float32)

    def model(self, init):
        def energy(s, y):
            mu = s["mu"]
            fit = jnp.sum(y * mu.value - 0.5 * mu.square - 0.5 * y**2, -1)
            return jnp.vdot(s["z"].one_hot, s["weights"].log + fit)

        return vi.energy_model(
            globals={
                "mu": vi.Normal.from_mean_variance(jnp.zeros((3, 2)), 100.0),
                "weights": vi.Dirichlet.from_concentration(jnp.ones(3)),
            },
            locals={"z": vi.Categorical.from_probs(jnp.ones(3) / 3)},
            energy=energy,
            example=jnp.zeros(2),
            init=init,
        )

    def start(self, init, algorithm=vi.cavi):
        return jax.jit(algorithm(self.model(init)).init)(
            jax.random.key(0), vi.Minibatch(self.Y, None)
        ).posterior

    def test_kmeans_plus_plus_finds_separated_clusters(self):
        q = self.start(vi.init.kmeans_plus_plus())
        means = np.sort(q["mu"].mean(), axis=0)
        expected = [self.Y[i : i + 40].sum(0) / 40.01 for i in (0, 40, 80)]
        np.testing.assert_allclose(means, expected, atol=1e-3)
        np.testing.assert_allclose(q["weights"].concentration, 41.0, rtol=1e-6)

    def test_near_symmetric_and_random_responsibilities(self):
        near, diverse = (
            self.start(i()) for i in (vi.init.near_symmetric, vi.init.random_responsibilities)
        )
        np.testing.assert_allclose(near["weights"].concentration, 41.0, rtol=0.05)
        assert (
            np.ptp(near["mu"].mean(), axis=0).max()
            < 0.5
            < np.ptp(diverse["mu"].mean(), axis=0).max()
        )
        np.testing.assert_allclose(jnp.sum(diverse["weights"].concentration), 123.0, rtol=1e-5)

    def test_globals_whose_prior_depends_on_others_start_at_what_it_says_of_them(self):
        """mu_k ~ N(1, 1 / tau), tau ~ Gamma(2, 8), its mean 1/4: each centre is pulled to 1 by a
        quarter of a group."""

        def energy(s, y):
            fit = y * s["mu"].value - 0.5 * s["mu"].square - 0.5 * y**2
            return jnp.vdot(s["z"].one_hot, s["weights"].log + fit)

        def prior_energy(s):
            return jnp.sum(
                0.5 * (s["tau"].log - s["tau"].value * (s["mu"].square - 2 * s["mu"].value + 1))
            )

        model = vi.energy_model(
            globals={
                "mu": vi.conditional(vi.Normal.from_mean_variance(jnp.zeros(2), 10.0)),
                "tau": vi.Gamma.from_shape_rate(2.0, 8.0),
                "weights": vi.Dirichlet.from_concentration(jnp.ones(2)),
            },
            locals={"z": vi.Categorical.from_probs([0.5, 0.5])},
            energy=energy,
            prior_energy=prior_energy,
            example=0.0,
            init=vi.init.kmeans_plus_plus(),
        )
        y = np.float32([-5.5, -4.5, 5.0])
        q = jax.jit(vi.cavi(model).init)(jax.random.key(0), vi.Minibatch(y, None)).posterior
        np.testing.assert_allclose(
            np.sort(q["mu"].mean()), [(-10 + 0.25) / 2.25, (5 + 0.25) / 1.25], rtol=1e-5
        )
        np.testing.assert_allclose(
            [q["tau"].shape, q["tau"].rate], [2 + 1, 8 + 0.5 * 2 * (10 + 1)], rtol=1e-5
        )

    def test_maximum_likelihood_starts_without_the_prior(self):
        q = self.start(vi.init.kmeans_plus_plus(), vi.em)
        np.testing.assert_allclose(
            np.sort(q["mu"].mean(), axis=0)[0], self.Y[:40].mean(0), rtol=1e-4
        )

    def test_a_start_that_reads_data_says_that_it_has_none(self):
        with pytest.raises(ValueError, match=r"batch: this model's start depends on the data"):
            vi.cavi(self.model(vi.init.near_symmetric())).init(jax.random.key(0))

    def test_kmeans_survives_points_all_alike(self):
        model, y = self.model(vi.init.kmeans_plus_plus()), np.ones((5, 2), np.float32)
        q = jax.jit(vi.cavi(model).init)(jax.random.key(0), vi.Minibatch(y, None)).posterior
        assert all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(q))


NORMAL = vi.Normal.from_mean_variance(0.0, 1.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"energy": lambda s, y: s["x"].value ** 2}, r"not linear in stats\['x'\]\.value"),
        (
            {"energy": lambda s, y: s["x"].value * s["x"].square},
            r"multiplies stats\['x'\]\.value by .*square",
        ),
        ({"energy": lambda s, y: jnp.log(s["x"].square)}, "it takes a logarithm, root or quotient"),
        ({"energy": lambda s, y: jnp.abs(s["x"].square)}, r"not linear in stats\['x'\]\.square"),
        (
            {"energy": lambda s, y: s["x"].value * jnp.ones(3)},
            r"energy: expected a scalar for one group, got shape",
        ),
        ({"locals": {"x": NORMAL}}, r"locals: expected names that are not those of globals"),
        ({"locals": {"z": 1.0}}, r"locals\['z'\]: expected a family"),
        ({"structure": vi.Structure(order=["y"])}, r"order: expected a permutation of \['x'\]"),
        (
            {"prior_energy": lambda s: 0.0},
            r"prior_energy: expected it together with vijax.conditional",
        ),
        ({"globals": {"x": vi.conditional(NORMAL)}}, r"prior_energy: expected it together"),
    ],
)
def test_models_that_cannot_be(arguments, message):
    given = {"globals": {"x": NORMAL}, "energy": lambda s, y: y * s["x"].value, "example": 0.0}
    with pytest.raises(ValueError, match=message):
        vi.energy_model(**given | arguments)


@pytest.mark.parametrize("choice", ["estimand", "estimator", "update"])
def test_choices_for_what_is_no_global_are_refused(choice):
    given = {
        "estimand": vi.estimand.mode(),
        "estimator": vi.estimator.ssvi(),
        "update": vi.update.mirror(),
    }[choice]
    with pytest.raises(
        ValueError,
        match=rf"^{choice}: expected names among the globals .*got 'weight'. Did you mean "
        r"'weights'",
    ):
        vi.cavi(mixture(), **{choice: {"weight": given}})
    with pytest.raises(
        ValueError, match=rf"^{choice}\['mu'\]: expected one of vijax.{choice}.* Call it"
    ):
        vi.cavi(mixture(), **{choice: {"mu": type(given)}})


def test_restarts_keep_the_best_run():
    """Each run of several is a run of its own; from diverse starts they differ, and the best is
    what comes back."""
    rng = np.random.default_rng(3)
    y = np.concatenate([rng.normal(c, 1, 30) for c in (-6, 0, 6)]).astype(np.float32)

    def energy(s, y):
        fit = y * s["mu"].value - 0.5 * s["mu"].square - 0.5 * y**2
        return jnp.vdot(s["z"].one_hot, s["weights"].log + fit)

    model = vi.energy_model(
        globals={
            "mu": vi.Normal.from_mean_variance(jnp.zeros(4), 100.0),
            "weights": vi.Dirichlet.from_concentration(0.1 * jnp.ones(4)),
        },
        locals={"z": vi.Categorical.from_probs(jnp.ones(4) / 4)},
        energy=energy,
        example=0.0,
        init=vi.init.random_responsibilities(0.1),
    )
    seen = []
    fit = vi.fit(
        vi.cavi(model), y, num_steps=40, restarts=6, key=jax.random.key(0), callbacks=[seen.append]
    )
    ends = fit.trace["restart_elbo"][-1]
    assert fit.trace["restart_elbo"].shape == (40, 6)
    assert np.ptp(ends) > 1e-3
    assert fit.trace["elbo"][-1] == ends.max()
    assert (
        fit.state.posterior["mu"].mean().shape
        == seen[-1].state.posterior["mu"].mean().shape
        == (4,)
    )
    np.testing.assert_allclose(
        fit.locals(y, key=jax.random.key(1))["z"].probs.sum(0) + 0.1,
        fit.posterior["weights"].concentration,
        rtol=1e-3,
    )
    with pytest.raises(ValueError, match=naming("restarts:", "1")):
        vi.fit(vi.cavi(model), y, num_steps=41, restarts=2, state=fit.state, key=jax.random.key(0))


def test_maximum_likelihood_of_a_hierarchy_is_refused():
    """Its upper globals would be left with neither prior nor data; the mode is defined, and `map`
    finds it."""
    with pytest.raises(ValueError, match=naming("estimand:", "maximum_l")):
        vi.em(hierarchy())
    fit = vi.fit(vi.map(hierarchy()), Y, num_steps=60, key=jax.random.key(0))
    mean = np.linalg.solve(np.array([[1.5, -1.0], [-1.0, 5.0]]), [0.5, float(Y.sum())])
    np.testing.assert_allclose(
        [fit.posterior["m"].mode(), fit.posterior["theta"].mode()], mean, rtol=1e-4
    )
