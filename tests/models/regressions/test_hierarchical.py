"""Hierarchical regressions against quadrature of the evidence, and updates written out in NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import vijax as vi
from tests.rounding import rounding
from vijax import reference
from vijax.contract.batch import Minibatch
from vijax.families import MeanPrecision
from vijax.models import group_rows

RNG = np.random.default_rng(0)
X2, LABELS = RNG.normal(size=(14, 2)), np.repeat([0, 1, 3], [6, 3, 5])  # group 2 is empty
REAL = X2 @ [1.0, -0.5] + 0.5 * RNG.normal(size=14)
SIGNS = np.where(REAL + 0.3 > 0, 1.0, -1.0)
MODELS = {
    "linear": (vi.models.hierarchical_linear_regression, REAL),
    "probit": (vi.models.hierarchical_probit_regression, SIGNS),
    "logistic": (vi.models.multilevel_logistic_regression, SIGNS),
}
MEAN, PRECISION, TAU = np.array([0.4, -0.2]), np.array([[2.0, 0.3], [0.3, 1.0]]), 1.7
PRIOR = {"strength": 1.0, "degrees": 4.0, "spread": 0.8, "location": 0.2}
TIGHT = vi.estep.mean_field(max_iters=2000, tol=1e-13)


def data_of(name, dim=2):
    return group_rows(X2[:, :dim], MODELS[name][1], LABELS, num_groups=4)


@functools.lru_cache
def at_a_point(name):
    """Bounds and locals of the groups where the globals are known: MEAN, PRECISION and TAU."""
    with jax.enable_x64(True):
        model, data = MODELS[name][0](2), data_of(name)
        prior = model.prior({})
        stats = {"population": prior["population"].stats(MeanPrecision(MEAN, PRECISION))}
        if "noise" in prior:
            stats["noise"] = prior["noise"].stats(TAU)
        bound = jax.jit(
            lambda s, d: model.local_elbo({}, s, Minibatch(d, None), jax.random.key(0), TIGHT)
        )
        said = jax.tree.map(np.asarray, bound(stats, data))
        q = said.local["coefficients"]
        return said.per_group, np.asarray(q.mean()), np.asarray(q.cov), said.local


def as_floats(data, dtype):
    return tuple(a if a.dtype == bool else a.astype(dtype) for a in data)


def rows_of(name, group):
    return X2[group == LABELS], MODELS[name][1][group == LABELS]


def test_linear_groups_are_exact_given_the_population():
    bounds, means, covs, _ = at_a_point("linear")
    for j in range(4):
        x, y = rows_of("linear", j)
        cov = x @ np.linalg.inv(PRECISION) @ x.T + np.eye(len(y)) / TAU
        exact = stats.multivariate_normal(x @ MEAN, cov).logpdf(y) if len(y) else 0.0
        np.testing.assert_allclose(bounds[j], exact, atol=1e-10)
        precision = PRECISION + TAU * x.T @ x
        m, v = (
            np.linalg.solve(precision, PRECISION @ MEAN + TAU * x.T @ y),
            np.linalg.inv(precision),
        )
        np.testing.assert_allclose(means[j], m, rtol=1e-9, atol=rounding(m))
        np.testing.assert_allclose(covs[j], v, rtol=1e-9, atol=rounding(v))


def test_probit_locals_are_fixed_points_of_albert_and_chib():
    """Their conditionals at expected statistics: b | z ~ N(V (L mu + X' z), V), V^-1 = L + X' X; z
    | b a normal of mean x' b cut off at 0 on the side of the label. The bound: sum log Phi(y x' m)
    - x' V x / 2, less the divergence of N(m, V) from the population."""
    bounds, means, covs, _ = at_a_point("probit")
    for j in range(4):
        x, y = rows_of("probit", j)
        f = x @ means[j]
        z = f + y * np.exp(stats.norm.logpdf(f) - stats.norm.logcdf(y * f))
        v = np.linalg.inv(PRECISION + x.T @ x)
        np.testing.assert_allclose(covs[j], v, rtol=1e-9, atol=rounding(v))
        m = v @ (PRECISION @ MEAN + x.T @ z)
        np.testing.assert_allclose(means[j], m, rtol=1e-9, atol=rounding(m))
        ratio, shift = PRECISION @ v, means[j] - MEAN
        divergence = 0.5 * (
            np.trace(ratio) - 2 - np.linalg.slogdet(ratio)[1] + shift @ PRECISION @ shift
        )
        expected = np.sum(stats.norm.logcdf(y * f)) - 0.5 * np.trace(x @ v @ x.T) - divergence
        np.testing.assert_allclose(bounds[j], expected, atol=1e-10)


def test_logistic_locals_and_bounds_are_those_of_jaakkola_and_jordan():
    """V^-1 = L + 2 sum lambda(xi) x x', m = V (L mu + sum y x / 2), xi^2 = x' (V + m m') x; and
    their bound, the evidence of a Gaussian, at that xi."""
    bounds, means, covs, _ = at_a_point("logistic")
    for j in range(4):
        x, y = rows_of("logistic", j)
        xi = np.sqrt(np.einsum("nd,de,ne->n", x, covs[j] + np.outer(means[j], means[j]), x))
        curvature = np.tanh(xi / 2) / (4 * xi)
        v = np.linalg.inv(PRECISION + 2 * (x.T * curvature) @ x)
        m = v @ (PRECISION @ MEAN + 0.5 * y @ x)
        np.testing.assert_allclose(covs[j], v, rtol=1e-8, atol=rounding(v))
        np.testing.assert_allclose(means[j], m, rtol=1e-8, atol=rounding(m))
        rest = np.sum(special.log_expit(xi) - xi / 2 + curvature * xi**2)
        gaussian = 0.5 * (m @ np.linalg.solve(v, m) + np.linalg.slogdet(v)[1])
        gaussian -= 0.5 * (MEAN @ PRECISION @ MEAN - np.linalg.slogdet(PRECISION)[1])
        np.testing.assert_allclose(bounds[j], rest + gaussian, atol=1e-9)


def test_gibbs_messages_of_the_logistic_are_posterior_means():
    """5,000 copies of one group of few rows: E[b] and E[b^2] given (mu, L) by quadrature, within 1
    %."""
    x, y = np.array([1.2, -0.5, 2.0, 0.7]), np.array([1.0, 1.0, 1.0, -1.0])
    model = vi.models.multilevel_logistic_regression(1)
    point = MeanPrecision(jnp.array([0.3]), jnp.array([[1.5]]))
    stats = {"population": model.prior({})["population"].stats(point)}
    copies = lambda a: jnp.broadcast_to(
        jnp.asarray(a, jnp.result_type(float)), (5000, *np.shape(a))
    )
    data = copies(x[:, None]), copies(y), jnp.ones((5000, 4), bool)
    total = lambda s: (
        model.local_elbo({}, s, Minibatch(data, None), jax.random.key(0), vi.estep.gibbs()).total
        / 5000
    )
    got = jax.jit(jax.grad(total))(stats)["population"]
    b = np.linspace(-12, 12, 4001)
    weight = np.exp(-0.75 * (b - 0.3) ** 2 + special.log_expit(np.outer(b, x * y)).sum(1))
    mean, square = (weight @ np.stack([b, b**2], 1)) / weight.sum()
    np.testing.assert_allclose(got.precision_times_mean, [mean], rtol=0.01)
    np.testing.assert_allclose(-2 * got.precision, [[square]], rtol=0.01)
    np.testing.assert_allclose([got.log_det, got.quadratic], [0.5, -0.5], rtol=1e-5)


@pytest.mark.parametrize(("name", "gap"), [("probit", 1.0), ("logistic", 0.1)])
def test_bounds_of_groups_are_below_quadrature_in_two_dimensions(name, gap):
    """The gap is what the factorisation costs: more for the probit, whose z and b depend on each
    other more than w and b do."""
    bounds = at_a_point(name)[0]
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    u = np.stack(np.meshgrid(nodes, nodes), -1).reshape(-1, 2)
    w = np.outer(weights, weights).ravel() / (2 * np.pi)
    b = MEAN + u @ np.linalg.inv(np.linalg.cholesky(PRECISION))
    log_lik = special.log_ndtr if name == "probit" else special.log_expit
    for j in range(4):
        x, y = rows_of(name, j)
        exact = special.logsumexp(log_lik(y * (b @ x.T)).sum(1), b=w)
        assert exact - gap < bounds[j] <= exact + 1e-12


# --- one coefficient, where all of it can be integrated -------------------------------------------
def quadrature(name):
    """log p(y), and posterior means of mu, the precision (and tau), by grids over mu, log precision
    (and log tau)."""
    t, log_l = np.linspace(-7, 7, 141), np.linspace(-7, 3.5, 141)
    precision = np.exp(log_l)[:, None]
    mu = 0.2 + t / np.sqrt(precision)
    log_weight = (
        stats.norm.logpdf(t)
        + stats.gamma(2.0, scale=1 / (2.0 * 0.64)).logpdf(precision)
        + log_l[:, None]
    )
    log_weight += np.log((t[1] - t[0]) * (log_l[1] - log_l[0]))
    if name == "linear":
        log_tau = np.linspace(-5, 4, 91)[:, None, None]
        tau = np.exp(log_tau)
        log_weight = log_weight + stats.gamma(1.0).logpdf(tau) + log_tau + np.log(0.1)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    for j in (0, 1, 3):
        x, y = rows_of(name, j)
        x = x[:, 0]
        if name == "linear":
            r2 = y @ y - 2 * mu * (x @ y) + mu**2 * (x @ x)
            xr, n = x @ y - mu * (x @ x), len(y)
            quad = tau * (r2 - tau * xr**2 / (precision + tau * (x @ x)))
            log_det = -n * log_tau + np.log1p(tau * (x @ x) / precision)
            log_weight = log_weight - 0.5 * (quad + log_det + n * np.log(2 * np.pi))
        else:
            log_lik = special.log_ndtr if name == "probit" else special.log_expit
            b = mu + nodes[:, None, None] / np.sqrt(precision)
            total = sum(log_lik(yn * xn * b) for xn, yn in zip(x, y, strict=True))
            log_weight = log_weight + special.logsumexp(
                total, axis=0, b=weights[:, None, None] / np.sqrt(2 * np.pi)
            )
    evidence = special.logsumexp(log_weight)
    p = np.exp(log_weight - evidence)
    means = [np.sum(p * mu), np.sum(p * precision)]
    return evidence, np.array([*means, np.sum(p * tau)] if name == "linear" else means)


@functools.lru_cache
def cavi(name, covariance):
    with jax.enable_x64(True):
        model = MODELS[name][0](1, covariance, **PRIOR)
        return vi.fit(vi.cavi(model), data_of(name, 1), num_steps=60, key=jax.random.key(0))


@pytest.mark.parametrize("name", MODELS)
def test_elbo_rises_towards_the_evidence_and_stays_below(name):
    trace = cavi(name, "full").trace["elbo"]
    evidence, _ = quadrature(name)
    assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[1:]))
    assert evidence - (2.0 if name == "probit" else 1.0) < trace[-1] < evidence


def test_full_and_diagonal_populations_agree_in_one_dimension():
    np.testing.assert_allclose(
        cavi("linear", "full").trace["elbo"], cavi("linear", "diagonal").trace["elbo"], rtol=1e-9
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_gibbs_agrees_with_quadrature(name):
    """Means of 16 chains, 4,000 draws each, within 6 standard errors."""
    model, data = MODELS[name][0](1, **PRIOR), data_of(name, 1)
    chain = lambda key: reference.gibbs(model, data, key=key, num_samples=4000, burn_in=500).globals
    draws = jax.vmap(chain)(jax.random.split(jax.random.key(1), 16))
    values = [draws["population"].mean[..., 0], draws["population"].precision[..., 0, 0]]
    values += [draws["noise"]] if name == "linear" else []
    by_chain = np.array([np.asarray(v, np.float64).mean(1) for v in values])
    error = by_chain.std(1, ddof=1) / 4
    _, exact = quadrature(name)
    assert np.all(np.abs(by_chain.mean(1) - exact) < 6 * error)
    assert np.all(error < 0.05 * np.abs(exact) + 0.02)


# --- many groups ----------------------------------------------------------------------------------
def many(name, groups=300, rows=8):
    rng = np.random.default_rng(1)
    b = np.array([0.5, -1.0]) + rng.normal(size=(groups, 2)) * [0.7, 0.4]
    labels = np.repeat(np.arange(groups), rows)
    x = np.stack([np.ones(len(labels)), rng.normal(size=len(labels))], 1)
    z = np.sum(x * b[labels], 1)
    noise = {"linear": 0.5 * rng.normal(size=len(z)), "probit": rng.normal(size=len(z))}
    y = z + noise.get(name, rng.logistic(size=len(z)))
    return group_rows(
        x.astype(np.float32), (y if name == "linear" else np.sign(y)).astype(np.float32), labels
    )


@pytest.mark.parametrize(("name", "algorithm"), [("linear", "ssvi_a"), ("logistic", "svi")])
def test_minibatches_of_groups_find_the_population(name, algorithm):
    model, data = MODELS[name][0](2), many(name)
    fit = vi.fit(
        getattr(vi, algorithm)(model), data, num_epochs=30, batch_size=50, key=jax.random.key(0)
    )
    mean, precision = fit.posterior["population"].mean()
    np.testing.assert_allclose(mean, [0.5, -1.0], atol=0.15)
    np.testing.assert_allclose(np.sqrt(np.diag(np.linalg.inv(precision))), [0.7, 0.4], atol=0.15)
    if name == "linear":
        np.testing.assert_allclose(1 / np.sqrt(fit.posterior["noise"].mean()), 0.5, atol=0.03)


@pytest.mark.slow
def test_minibatches_reach_what_coordinate_ascent_does():
    """Probit; mean field, which takes z and b for independent, understates both the spread and the
    slopes."""
    model, data = vi.models.hierarchical_probit_regression(2), many("probit")
    full = (
        vi.fit(vi.cavi(model), data, num_steps=300, key=jax.random.key(0))
        .posterior["population"]
        .mean()
    )
    part = vi.fit(
        vi.svi(model), data, num_epochs=60, batch_size=50, key=jax.random.key(0)
    ).posterior["population"]
    np.testing.assert_allclose(part.mean().mean, full.mean, atol=0.03)
    spread = lambda p: np.sqrt(np.diag(np.linalg.inv(p)))
    np.testing.assert_allclose(spread(part.mean().precision), spread(full.precision), rtol=0.1)
    assert np.all(np.abs(full.mean) > [0.35, 0.75])
    assert np.all(np.abs(full.mean) < [0.6, 1.1])


@pytest.mark.parametrize("algorithm", ["em", "map"])
def test_points(algorithm):
    """EM of a random-effects model: the likelihood of the groups, by its closed form, is
    stationary."""
    data = many("linear", 60)
    with jax.enable_x64(True):
        data = as_floats(data, np.float64)
        model = vi.models.hierarchical_linear_regression(2)
        fit = vi.fit(getattr(vi, algorithm)(model), data, num_steps=200, key=jax.random.key(0))
        trace = fit.trace["elbo"]
        assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[1:]))
        (mean, precision), tau = fit.posterior["population"].mode(), fit.posterior["noise"].mode()
    if algorithm == "map":
        return
    x, y, _ = map(np.asarray, data)

    def log_lik(mean, cov, tau):
        covs = x @ cov @ np.swapaxes(x, 1, 2) + np.eye(8) / tau
        return sum(
            stats.multivariate_normal(a @ mean, c).logpdf(b)
            for a, b, c in zip(x, y, covs, strict=True)
        )

    mean, precision, tau = map(np.asarray, (mean, precision, tau))
    cov = np.linalg.inv(precision)
    best = log_lik(mean, cov, tau)
    np.testing.assert_allclose(trace[-1], best, rtol=1e-6)
    for scale in (0.9, 1.1):
        assert best > log_lik(mean * scale, cov, tau)
        assert best > log_lik(mean, cov * scale, tau)
        assert best > log_lik(mean, cov, tau * scale)


# --- bad input ------------------------------------------------------------------------------------
def broken(index, value, what=1):
    data = [np.array(a) for a in data_of("logistic")]
    data[what][index] = value
    return tuple(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (X2, r"a triple \(x, y, mask\), got ndarray. See vijax.models.group_rows"),
        (
            data_of("logistic", 1),
            r"x of shape \(J, n, 2\), y and mask of shape \(J, n\), got \(4, 6, 1\)",
        ),
        (
            broken((3, 2), 0.0),
            r"labels -1 and \+1 .*2\*y - 1.*, got 1 rows that are not, the first row 2 of group 3",
        ),
        (
            broken((1, 0, 1), np.nan, 0),
            r"finite inputs, got 1 rows that are not, the first row 0 of group 1",
        ),
        (broken((2, 0, 1), np.nan, 0), r"finite numbers in padded rows too"),
        (broken((...,), False, 2), r"at least one row"),
    ],
)
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=message):
        vi.fit(
            vi.cavi(vi.models.multilevel_logistic_regression(2)),
            data,
            num_steps=1,
            key=jax.random.key(0),
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dim": 0}, "dim"),
        ({"dim": 2, "covariance": "none"}, "covariance"),
        ({"dim": 2, "spread": -1.0}, "spread"),
        ({"dim": 2, "location": np.zeros(3)}, "location"),
        ({"dim": 2, "degrees": 0.5}, "degrees"),
        ({"dim": 2, "rate": 0.0}, "rate"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        vi.models.hierarchical_linear_regression(**arguments)


@pytest.mark.parametrize(
    ("labels", "message"),
    [([0, 1], "shapes"), ([0.0, 1.0, 1.0], "integers"), ([0, 1, 5], r"integers in \[0, 3\)")],
)
def test_bad_labels(labels, message):
    with pytest.raises(ValueError, match=message):
        group_rows(np.ones((3, 1)), np.ones(3), labels, num_groups=3)


def test_float32_agrees_with_float64():
    """Data of unit size: the bound to six digits."""
    model, data = vi.models.hierarchical_linear_regression(1, **PRIOR), data_of("linear", 1)
    data = as_floats(data, np.float32)
    trace = vi.fit(vi.cavi(model), data, num_steps=60, key=jax.random.key(0)).trace["elbo"]
    np.testing.assert_allclose(trace[-1], cavi("linear", "full").trace["elbo"][-1], rtol=3e-6)
    assert jnp.isfinite(trace).all()
