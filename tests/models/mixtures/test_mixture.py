"""Mixtures of every emission: evidence by enumeration, scikit-learn, predictive densities as
ratios; DP mixtures."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats
from sklearn.mixture import GaussianMixture

import vijax as vi
from vijax.models import emission

RNG = np.random.default_rng(0)
COUNTS = np.array([[3.0, 0, 1], [2, 1, 0], [0, 4, 5], [1, 5, 4]])
BINARY = np.array([[1.0, 1, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]])
REAL = np.array([[-2.0, 0.5, 1], [-1.5, 0, 1.2], [2.0, 0.4, -1], [2.5, 0.6, -0.5]])

EMISSIONS = {  # made again in the precision of each test
    "bernoulli": (lambda: emission.bernoulli(2, 3, alpha=0.8, beta=1.2), BINARY),
    "poisson": (lambda: emission.poisson(2, 3, shape=2.0, rate=0.7), COUNTS),
    "categorical": (lambda: emission.categorical(2, 3, eta=0.7), COUNTS),
    "unit_gaussian": (lambda: emission.unit_gaussian(2, 3, variance=4.0), REAL),
    "diagonal_gaussian": (
        lambda: emission.diagonal_gaussian(2, 3, strength=0.5, shape=2.0, rate=1.5),
        REAL,
    ),
    "full_gaussian": (lambda: emission.full_gaussian(2, 3, strength=0.5), REAL),
    "spherical_gaussian": (
        lambda: emission.spherical_gaussian(2, 3, strength=0.5, shape=2.0, rate=1.5),
        REAL,
    ),
    "tied_gaussian": (lambda: emission.tied_gaussian(2, 3, strength=0.5), REAL),
}


def log_marginal(name, rows):
    """log p(rows | one component), from textbook formulas."""
    n, total = len(rows), rows.sum(0)
    if n == 0:
        return 0.0
    if name == "bernoulli":
        return np.sum(special.betaln(0.8 + total, 1.2 + n - total) - special.betaln(0.8, 1.2))
    if name == "poisson":
        terms = (
            special.gammaln(2 + total)
            - special.gammaln(2.0)
            + 2 * np.log(0.7)
            - (2 + total) * np.log(0.7 + n)
        )
        return np.sum(terms) - np.sum(special.gammaln(rows + 1))
    if name == "categorical":
        terms = np.sum(special.gammaln(0.7 + total)) - special.gammaln(2.1 + total.sum())
        return terms - 3 * special.gammaln(0.7) + special.gammaln(2.1)
    if name == "unit_gaussian":
        return sum(
            stats.multivariate_normal(np.zeros(n), np.eye(n) + 4.0).logpdf(c) for c in rows.T
        )
    if name == "diagonal_gaussian":  # a multivariate t for each column
        shape = (np.eye(n) + 1 / 0.5) * 1.5 / 2.0
        return sum(stats.multivariate_t(np.zeros(n), shape, df=4.0).logpdf(c) for c in rows.T)
    if name == "spherical_gaussian":
        spread, strength = scatter(rows, 0.5)
        a, b, count = 2.0 + rows.size / 2, 1.5 + np.trace(spread) / 2, rows.size
        level = special.gammaln(a) - special.gammaln(2.0) + 2.0 * np.log(1.5) - a * np.log(b)
        return level - 1.5 * np.log(strength / 0.5) - count / 2 * np.log(2 * np.pi)
    return sequential_wishart(rows)


def scatter(rows, strength):
    """Squares about the mean, those of the mean about the prior's among them; and the new
    strength."""
    n, mean = len(rows), rows.mean(0)
    own = (rows - mean).T @ (rows - mean)
    return own + strength * n / (strength + n) * np.outer(mean, mean), strength + n


def log_marginal_of_tied(parts):
    """log p(rows | their components), the Wishart of the precision that they share integrated out:
    5 degrees, scale I / 5, strength 1/2."""
    rate, log_strengths, count = 5.0 * np.eye(3), 0.0, 0
    for rows in filter(len, parts):
        spread, strength = scatter(rows, 0.5)
        rate, log_strengths, count = (
            rate + spread,
            log_strengths + np.log(strength / 0.5),
            count + len(rows),
        )
    level = (
        special.multigammaln((5 + count) / 2, 3) - special.multigammaln(2.5, 3) + 7.5 * np.log(5.0)
    )
    return (
        level
        - (5 + count) / 2 * np.linalg.slogdet(rate)[1]
        - 1.5 * log_strengths
        - 1.5 * count * np.log(np.pi)
    )


def sequential_wishart(rows):
    """Product of predictive multivariate t densities (Murphy 2007, eq. 232), updating a
    normal-inverse-Wishart."""
    d, mean, kappa, nu, scale, total = 3, np.zeros(3), 0.5, 5.0, 5.0 * np.eye(3), 0.0
    for y in rows:
        df = nu - d + 1
        total += stats.multivariate_t(mean, scale * (kappa + 1) / (kappa * df), df=df).logpdf(y)
        scale = scale + kappa / (kappa + 1) * np.outer(y - mean, y - mean)
        mean, kappa, nu = (kappa * mean + y) / (kappa + 1), kappa + 1, nu + 1
    return total


def log_marginal_of_parts(name, parts):
    return (
        log_marginal_of_tied(parts)
        if name == "tied_gaussian"
        else sum(log_marginal(name, rows) for rows in parts)
    )


def log_evidence(name, rows, concentration=1.0):
    total = []
    for z in itertools.product([0, 1], repeat=len(rows)):
        sizes = np.bincount(z, minlength=2)
        prior = special.gammaln(2 * concentration) - special.gammaln(2 * concentration + len(rows))
        prior += np.sum(special.gammaln(concentration + sizes) - special.gammaln(concentration))
        total.append(prior + log_marginal_of_parts(name, [rows[np.array(z) == k] for k in (0, 1)]))
    return special.logsumexp(total)


@functools.lru_cache
def fitted(name):
    with jax.enable_x64(True):
        model = vi.models.mixture(EMISSIONS[name][0]())
        return vi.fit(vi.cavi(model), EMISSIONS[name][1], num_steps=80, key=jax.random.key(0))


@pytest.mark.parametrize("name", EMISSIONS)
def test_elbo_is_below_the_evidence_and_never_falls(name):
    """The brute-force evidence is that of all 2^4 assignments; separated rows leave a gap of the
    label symmetry, log 2, and of what mean field cannot say."""
    trace = fitted(name).trace["elbo"]
    evidence = log_evidence(name, EMISSIONS[name][1])
    assert evidence - 2.5 < trace[-1] < evidence
    assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[1:]))


@pytest.mark.parametrize("name", EMISSIONS)
def test_predictive_density_is_the_ratio_of_evidences(name):
    """With the first component in use p(y | rows) = p(rows, y) / p(rows)."""
    make, rows = EMISSIONS[name]
    with jax.enable_x64(True):
        e = make()
        q = e.prior

        @jax.jit
        def after(q, y):
            message = jax.grad(lambda s: e.log_likelihood(s, y)[0])(q.expected_stats())
            return jax.tree.map(jnp.add, q, q.with_naturals(message))

        for y in rows[:3]:
            q = after(q, y)
        found = np.asarray(jax.jit(e.log_predictive)(q, rows[3]))[0]
    expected = log_marginal_of_parts(name, [rows]) - log_marginal_of_parts(name, [rows[:3]])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


PAIRS = [
    *((name, "ssvi") for name in EMISSIONS),
    *(("full_gaussian", a) for a in ("em", "map", "svi", "ssvi_a")),
]


@pytest.mark.parametrize(("name", "algorithm"), PAIRS)
def test_every_algorithm_finds_separated_components(name, algorithm):
    """Two groups far apart: weights near the truth under every message (points by em and map)."""
    rng = np.random.default_rng(1)
    share = np.arange(200) < 120
    if name == "bernoulli":
        y = rng.uniform(size=(200, 3)) < np.where(share[:, None], 0.95, 0.05)
    elif name in ("poisson", "categorical"):
        y = rng.poisson(np.where(share[:, None], [20.0, 1.0, 1.0], [1.0, 1.0, 20.0]))
    else:
        y = rng.normal(np.where(share[:, None], 4.0, -4.0), 1.0, (200, 3))
    model = vi.models.mixture(EMISSIONS[name][0](), concentration=2.0)
    whole = (
        {"num_steps": 30} if algorithm in ("em", "map") else {"num_epochs": 15, "batch_size": 50}
    )
    fit = vi.fit(
        getattr(vi, algorithm)(model), y.astype(np.float32), key=jax.random.key(0), **whole
    )
    np.testing.assert_allclose(np.sort(fit.posterior["weights"].mean()), [0.4, 0.6], atol=0.04)
    score = fit.score(y.astype(np.float32), key=jax.random.key(0))
    assert np.isfinite(score.mean)
    assert score.standard_error < 0.5


def test_em_agrees_with_scikit_learn():
    y = np.concatenate(
        [RNG.normal(c, 1, (80, 2)) @ RNG.normal(size=(2, 2)) for c in (-3, 3)]
    ).astype(np.float32)
    fit = vi.fit(
        vi.em(vi.models.mixture(emission.full_gaussian(2, 2))),
        y,
        num_steps=200,
        key=jax.random.key(0),
    )
    peer = GaussianMixture(2, tol=1e-9, reg_covar=0.0, max_iter=500, random_state=0).fit(
        y.astype(np.float64)
    )
    np.testing.assert_allclose(fit.trace["elbo"][-1] / len(y), peer.score(y), rtol=2e-4)


class TestDirichletProcess:
    Y = np.concatenate([np.random.default_rng(2).normal(c, 0.5, (30, 2)) for c in (-5, 0, 5)])

    def fit(self, size, truncation, steps=150, **arguments):
        with jax.enable_x64(True):
            model = vi.models.dp_mixture(emission.unit_gaussian(size, 2), truncation=truncation)
            return vi.fit(
                vi.cavi(model), self.Y, num_steps=steps, key=jax.random.key(0), **arguments
            )

    @pytest.mark.parametrize("truncation", ["finite", "tied"])
    def test_ascends_and_uses_three_components(self, truncation):
        fit = self.fit(8, truncation, restarts=4)
        trace = fit.trace["elbo"]
        assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[1:]))
        with jax.enable_x64(True):
            sizes = np.asarray(fit.locals(self.Y, key=jax.random.key(0))["z"].probs.sum(0))
        np.testing.assert_allclose(np.sort(sizes)[-3:], 30.0, atol=1.5)

    def test_tied_truncations_are_nested(self):
        """The optimum at T is a point of the family at T + 1 with the very same bound: component T
        + 1 at the prior."""
        small = self.fit(4, "tied").state.posterior
        with jax.enable_x64(True):
            models = {
                t: vi.models.dp_mixture(emission.unit_gaussian(t, 2), truncation="tied")
                for t in (4, 5)
            }
            priors = models[5].prior(models[5].hyper)
            large = jax.tree.map(
                lambda own, prior: jnp.concatenate([own, prior[-1:]]), small, priors
            )
            elbo = {}
            for t, q in ((4, small), (5, large)):
                alg = vi.cavi(models[t])
                state = jax.jit(alg.init)(jax.random.key(0), self.Y)._replace(posterior=q)
                elbo[t] = jax.jit(alg.step)(jax.random.key(0), state, self.Y)[1].elbo
        np.testing.assert_allclose(elbo[5], elbo[4], rtol=1e-10)

    def test_stick_updates_are_those_of_the_paper(self):
        """phi_1 = 1 + sum_n q(z_n = k), phi_2 = concentration + sum_n q(z_n > k)."""
        fit = self.fit(5, "finite", steps=300)
        with jax.enable_x64(True):
            z = np.asarray(fit.locals(self.Y, key=jax.random.key(0))["z"].probs.sum(0))
        later = z[::-1].cumsum()[::-1]
        np.testing.assert_allclose(fit.posterior["sticks"].alpha, 1 + z[:-1], rtol=1e-4)
        np.testing.assert_allclose(fit.posterior["sticks"].beta, 1 + later[1:], rtol=1e-4)

    def test_concentration_is_learnt(self):
        model = vi.models.dp_mixture(emission.unit_gaussian(8, 2), concentration=30.0)
        alg = vi.cavi(model, learn=("concentration",))
        y = self.Y.astype(np.float32)
        fit = vi.fit(alg, y, num_steps=600, key=jax.random.key(0))
        assert float(fit.state.hyper["concentration"]) < 10.0
        held = fit.score(y, key=jax.random.key(0))
        assert np.isfinite(held.mean)


@pytest.mark.parametrize(
    ("name", "rows", "message"),
    [
        ("bernoulli", [[1.0, 0, 2]], r"zeros and ones, got 2.0 in row 0, column 2"),
        ("poisson", [[1.0, 0, 2], [0, -1, 0]], r"counts 0, 1, 2, ..., got -1.0 in row 1, column 1"),
        ("categorical", [[0.5, 0, 2]], r"counts"),
        ("full_gaussian", [[1.0, np.nan, 2]], r"finite numbers, got nan in row 0, column 1"),
        ("unit_gaussian", [1.0, 2.0], r"shape \(N, 3\), got shape \(2,\)"),
        ("diagonal_gaussian", [[1e6, 0, 0], [1e6 + 1, 1, 1]], r"within 300 standard deviations"),
    ],
)
def test_bad_data_is_named(name, rows, message):
    alg = vi.cavi(vi.models.mixture(EMISSIONS[name][0]()))
    with pytest.raises(ValueError, match=message):
        vi.fit(alg, np.array(rows, np.float32), num_steps=1, key=jax.random.key(0))


def test_fewer_observations_than_components_and_constant_columns():
    model = vi.models.mixture(emission.full_gaussian(6, 2))
    y = np.array([[1.0, 2.0], [1.0, 2.0], [1.0, 3.0]], np.float32)
    fit = vi.fit(vi.cavi(model), y, num_steps=20, key=jax.random.key(0))
    assert all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(fit.posterior))
    np.testing.assert_allclose(fit.posterior["weights"].concentration.sum(), 9.0, rtol=1e-5)
