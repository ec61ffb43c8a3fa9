"""Missing cells: marginal densities and expected messages, against NumPy, SciPy and quadrature."""

import functools

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from scipy import stats
from scipy.integrate import quad

from vijax.families import Point
from vijax.models import emission as emissions
from vijax.models.emission import around, blurred, incomplete
from vijax.xla.precision import enable_x64

NAN = np.nan
ROWS = np.array([[0.3, NAN, 1.2], [NAN, NAN, -0.7], [0.1, 0.2, 0.3], [NAN, NAN, NAN]])


SCATTER = np.array([[1.0, 0.5, 0.2], [0, 1, 0.4], [0, 0, 0.6]])


@functools.cache
def law(name):
    """A law of two components in three columns, as far from the prior as ten rows of each bring
    it, in float64."""
    emission = getattr(emissions, name)(2, 3)
    rows = jnp.asarray(np.random.default_rng(3).normal(size=(2, 10, 3)) @ SCATTER)

    def total(s):
        of_rows = jax.vmap(jax.vmap(lambda y: emission.log_likelihood(s, y)))(rows)
        return of_rows[0, :, 0].sum() + of_rows[1, :, 1].sum()

    @jax.jit
    def updated(prior):
        message = jax.grad(total)(prior.expected_stats())
        return jax.tree.map(jnp.add, prior, prior.with_naturals(message))

    return emission, updated(jax.tree.map(jnp.asarray, emission.prior))


def covariances(name, point):
    if name == "unit_gaussian":
        return np.stack([np.eye(3)] * 2)
    precision = np.asarray(point.precision)
    if name == "diagonal_gaussian":
        return np.stack([np.diag(1 / p) for p in precision])
    if name == "spherical_gaussian":
        return np.stack([np.eye(3) / p[0, 0] for p in precision])
    inverse = np.linalg.inv(precision)
    return np.broadcast_to(inverse, (2, 3, 3))


GAUSSIANS = (
    "unit_gaussian",
    "diagonal_gaussian",
    "spherical_gaussian",
    "full_gaussian",
    "tied_gaussian",
)


@pytest.mark.parametrize("name", GAUSSIANS)
def test_at_a_point_the_density_is_the_margin_of_the_observed_cells(name):
    with enable_x64(True):
        emission, q = law(name)
        point = q.mean()
        means = np.asarray(point if name == "unit_gaussian" else point.mean).reshape(2, 3)
        covs = covariances(name, point)
        log_likelihood = jax.jit(incomplete(emission).log_likelihood)
        for y in ROWS:
            o = ~np.isnan(y)
            expected = [0.0, 0.0]
            if o.any():
                expected = [
                    stats.multivariate_normal(m[o], c[np.ix_(o, o)]).logpdf(y[o])
                    for m, c in zip(means, covs, strict=True)
                ]
            actual = log_likelihood(q.stats(point), jnp.asarray(y))
            np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["full_gaussian", "tied_gaussian"])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_message_has_the_conditional_mean_and_covariance(name, noise):
    with enable_x64(True):
        emission, q = law(name)
        point = q.mean()
        y = jnp.asarray(ROWS[0])
        log_likelihood = incomplete(blurred(emission, noise)).log_likelihood
        message = jax.jit(jax.grad(lambda s: log_likelihood(s, y)[1]))(q.stats(point))
        mean = np.asarray(point.mean)[1]
        cov = covariances(name, point)[1]
        slope = cov[1, [0, 2]] @ np.linalg.inv(cov[np.ix_([0, 2], [0, 2])])
        full = np.array([0.3, mean[1] + slope @ (ROWS[0, [0, 2]] - mean[[0, 2]]), 1.2])
        square = np.outer(full, full) + noise * np.eye(3)
        square[1, 1] += cov[1, 1] - slope @ cov[[0, 2], 1]
        precision = message.precision if name == "tied_gaussian" else message.precision[1]
        np.testing.assert_allclose(message.precision_times_mean[1], full, rtol=1e-10)
        np.testing.assert_allclose(precision, -0.5 * square, rtol=1e-10)
        np.testing.assert_allclose(message.quadratic[1], -0.5)
        np.testing.assert_allclose(np.sum(message.log_det), 0.5)


@pytest.mark.parametrize("name", GAUSSIANS)
def test_without_missing_cells_nothing_changes(name):
    with enable_x64(True):
        emission, q = law(name)
        y, s = jnp.asarray(ROWS[2]), q.expected_stats()
        weights = jnp.array([0.3, 0.7])
        for base in (emission, blurred(emission, 0.2)):
            read = [
                jax.jit(jax.value_and_grad(lambda s, e=e: weights @ e.log_likelihood(s, y)))(s)
                for e in (base, incomplete(base))
            ]
            values, slopes = zip(*read, strict=True)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), *slopes)
            np.testing.assert_allclose(*values, rtol=1e-12)


@pytest.mark.parametrize("name", GAUSSIANS)
def test_the_predictive_density_is_a_margin(name):
    """The density of the first cell is the integral of that of the first two."""
    with enable_x64(True):
        emission, q = law(name)
        predictive = jax.jit(incomplete(emission).log_predictive)
        with_second = lambda x: np.exp(predictive(q, np.array([0.4, x, NAN])))
        for k in (0, 1):
            total, error = quad(lambda x, k=k: float(with_second(x)[k]), -np.inf, np.inf, limit=200)
            alone = float(np.exp(predictive(q, np.array([0.4, NAN, NAN])))[k])
            assert abs(total - alone) < 1e-6 + error
        of_complete = jax.jit(emission.log_predictive)(q, ROWS[2])
        np.testing.assert_allclose(predictive(q, ROWS[2]), of_complete, rtol=1e-9)
        np.testing.assert_allclose(predictive(q, np.full(3, NAN)), 0.0, atol=1e-12)


def test_variational_bounds_lie_below_the_predictive_density():
    """The bound of a row, with the missing cells optimised out, is below log E p(y_o)."""
    with enable_x64(True):
        emission, q = law("full_gaussian")
        partial, s = incomplete(emission), q.expected_stats()
        bound, density = jax.jit(partial.log_likelihood), jax.jit(partial.log_predictive)
        for y in ROWS[:3]:
            assert (bound(s, y) < density(q, y)).all()


def test_counts_and_binary_cells_are_left_out():
    for make, y in ((emissions.bernoulli, [1.0, NAN, 0.0]), (emissions.poisson, [4.0, NAN, 0.0])):
        three, two = make(2, 3, *(2.0, 3.0)), make(2, 2, *(2.0, 3.0))
        for read in ("log_predictive", "log_likelihood"):
            pairs = []
            for emission, cells in ((incomplete(three), y), (two, [y[0], y[2]])):
                q = emission.prior if read == "log_predictive" else emission.prior.expected_stats()
                pairs.append(jax.jit(getattr(emission, read))(q, jnp.array(cells)))
            np.testing.assert_allclose(*pairs, rtol=2e-5)


def test_around_reads_missing_cells():
    places = np.array([[0.0, 5.0, 1.0], [1.0, 1.0, 1.0]])
    with enable_x64(True):
        emission, q = law("full_gaussian")
        s, y = q.expected_stats(), jnp.asarray(ROWS[0])
        actual = jax.jit(incomplete(around(emission, places)).log_likelihood)(s, y)
        plain = jax.jit(incomplete(emission).log_likelihood)
        expected = [plain(s, y - places[k])[k] for k in (0, 1)]
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_point_estimates_have_predictive_densities():
    with enable_x64(True):
        emission, q = law("full_gaussian")
        point, y = Point(q), jnp.asarray(ROWS[1])
        partial = incomplete(emission)
        expected = jax.jit(partial.log_likelihood)(point.expected_stats(), y)
        np.testing.assert_allclose(jax.jit(partial.log_predictive)(point, y), expected)


def test_what_has_no_law_is_refused():
    with pytest.raises(ValueError, match="emission: expected a Gaussian emission, bernoulli or p"):
        incomplete(emissions.categorical(2, 5))
    for wrap in (lambda e: blurred(e, 0.1), lambda e: around(e, np.zeros((2, 3)))):
        with pytest.raises(ValueError, match=r"emission: expected incomplete\("):
            wrap(incomplete(emissions.full_gaussian(2, 3)))


def test_the_check_takes_nan_and_nothing_else():
    check = incomplete(emissions.full_gaussian(2, 3)).check
    check(ROWS)
    with pytest.raises(ValueError, match="got inf in row 1, column 0"):
        check(np.array([[NAN, 0, 0], [np.inf, 0, 0]]))
    far = np.array([[1e6, 0, 0], [1e6 + 1, NAN, 1], [NAN, 1, 1]], np.float32)
    with pytest.raises(ValueError, match="within 300 standard deviations"):
        check(far)
