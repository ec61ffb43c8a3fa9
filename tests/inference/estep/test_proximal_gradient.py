"""Proximal-gradient E-step: fixed points against quadrature, SciPy's optimisers and hand-written
Newton; safeguards."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from scipy import special

from vijax import reference
from vijax.inference import estep, expectation, likelihood
from vijax.inference.estep import GaussianLocals, LogisticNormal
from vijax.inference.expectation import VectorMoments

RNG = np.random.default_rng(3)
K, DOCS, SLOTS = 3, 6, 9
TOPICS = RNG.dirichlet(np.full(SLOTS, 0.3), size=K).T + 1e-4
COUNTS = np.array(
    [
        RNG.multinomial(n, TOPICS @ RNG.dirichlet(np.full(K, 0.3)) / 1.01)
        for n in (3, 10, 30, 60, 90, 0)
    ]
)
MU = np.array([0.3, -0.4, 0.1])
SIGMA = np.array([[2.0, 0.6, 0.0], [0.6, 1.5, -0.4], [0.0, -0.4, 3.0]])
PRECISION = np.linalg.inv(SIGMA)


def grid(size, points):
    """Nodes and weights of Gauss-Hermite for a standard normal of `size` dimensions."""
    x, w = np.polynomial.hermite_e.hermegauss(points)
    nodes = np.array(list(itertools.product(x, repeat=size)))
    weights = np.prod(np.array(list(itertools.product(w / w.sum(), repeat=size))), 1)
    return nodes, weights


NODES, WEIGHTS = grid(K, 10)


def by_grid(likelihood, y, m, cov, key):
    """The exact expectation, as far as 10 points a dimension tell."""
    del key

    def one(y, m, cov):
        z = m + jnp.asarray(NODES, m.dtype) @ jnp.linalg.cholesky(cov).T
        each = jax.vmap(lambda x: likelihood.averages(y, x[None]))(z)
        return VectorMoments(*(jnp.tensordot(jnp.asarray(WEIGHTS, m.dtype), x, 1) for x in each))

    return jax.vmap(one)(y, m, cov)


def problem(dtype=float, counts=COUNTS):
    rows = np.broadcast_to(TOPICS / TOPICS.max(1, keepdims=True), (len(counts), SLOTS, K))
    return LogisticNormal(
        *(jnp.asarray(x, dtype) for x in (rows, counts, PRECISION @ MU, PRECISION))
    )


def cold(docs=DOCS, dtype=float):
    return GaussianLocals(
        jnp.zeros((docs, K), dtype), jnp.zeros((docs, K, K), dtype), jnp.zeros(docs, jnp.int32)
    )


@functools.partial(jax.jit, static_argnums=0)
def run(step, given, start):
    return step.logistic_normal(given, start, jax.random.key(1))


def covariances(local):
    return np.linalg.inv(PRECISION + np.asarray(local.site))


def log_words(counts, z):
    """By NumPy, at many z."""
    mixed = special.softmax(z, -1) @ (TOPICS / TOPICS.max(1, keepdims=True)).T
    return np.log(mixed) @ counts


def bound(counts, m, cov):
    """E log p(w | z) by the grid, less KL(N(m, V) || N(mu, Sigma))."""
    expected = WEIGHTS @ log_words(counts, m + NODES @ np.linalg.cholesky(cov).T)
    gap = m - MU
    kl = (
        np.trace(PRECISION @ cov)
        + gap @ PRECISION @ gap
        - K
        - np.linalg.slogdet(PRECISION @ cov)[1]
    )
    return expected - 0.5 * kl


def test_fixed_point_is_stationary_by_finite_differences_of_the_bound():
    """Sigma^-1 (m - mu) = dE/dm and V^-1 = Sigma^-1 - 2 dE/dV, to the accuracy of the
    quadrature."""
    with jax.enable_x64(True):
        step = estep.proximal_gradient(by_grid, max_iters=300, tol=1e-13)
        local = run(step, problem(), cold())
    for d, (m, cov) in enumerate(zip(np.asarray(local.mean), covariances(local), strict=True)):
        h = 1e-5
        for e in np.eye(K):
            slope = (bound(COUNTS[d], m + h * e, cov) - bound(COUNTS[d], m - h * e, cov)) / (2 * h)
            assert abs(slope) < 2e-5
        for i, j in itertools.combinations_with_replacement(range(K), 2):
            move = np.zeros((K, K))
            move[i, j] = move[j, i] = h
            slope = (bound(COUNTS[d], m, cov + move) - bound(COUNTS[d], m, cov - move)) / (2 * h)
            assert abs(slope) < 2e-5


def lbfgs(counts):
    y = (jnp.asarray(TOPICS / TOPICS.max(1, keepdims=True)), jnp.asarray(counts, float))
    log_lik = likelihood.softmax_mixture().log_prob
    joint = lambda z: log_lik(y, z) - 0.5 * (z - MU) @ PRECISION @ (z - MU)
    return reference.gaussian_by_lbfgs(
        joint, jnp.asarray(MU), jnp.asarray(NODES), jnp.asarray(WEIGHTS)
    )


def test_bound_of_each_document_is_that_of_lbfgs():
    """With exact expectations to 1e-6 nats; with 64 draws within 0.1."""
    with jax.enable_x64(True):
        exact = run(estep.proximal_gradient(by_grid, max_iters=300, tol=1e-13), problem(), cold())
        drawn = run(estep.proximal_gradient(), problem(), cold())
        best = [lbfgs(counts) for counts in COUNTS[:4]]
    for d, (m, factor) in enumerate(best):
        top = bound(COUNTS[d], m, factor @ factor.T)
        assert bound(COUNTS[d], np.asarray(exact.mean[d]), covariances(exact)[d]) > top - 1e-6
        assert bound(COUNTS[d], np.asarray(drawn.mean[d]), covariances(drawn)[d]) > top - 0.1


def test_small_steps_improve_the_bound():
    with jax.enable_x64(True):
        now, bounds = cold(), []
        one = estep.proximal_gradient(step_size=0.2, max_iters=1)
        for _ in range(40):
            now = run(one, problem(), now)
            bounds.append(
                [
                    bound(c, np.asarray(m), v)
                    for c, m, v in zip(COUNTS, now.mean, covariances(now), strict=True)
                ]
            )
    steps = np.diff(np.array(bounds), axis=0)
    assert steps.min() > -0.05  # up to the noise of the draws
    assert np.all(steps[:, 2:5].sum(0) > 0.1)


def test_laplace_is_the_mode_and_the_curvature_there():
    with jax.enable_x64(True):
        local = run(
            estep.proximal_gradient(expectation.laplace(), max_iters=300, tol=1e-13),
            problem(),
            cold(),
        )
    for d, counts in enumerate(COUNTS):
        joint = lambda z, counts=counts: (
            0.5 * (z - MU) @ PRECISION @ (z - MU) - log_words(counts, z)
        )
        mode = scipy.optimize.minimize(joint, np.asarray(local.mean[d]), tol=1e-12).x
        np.testing.assert_allclose(local.mean[d], mode, atol=1e-5)
        eye = np.eye(K)
        second = lambda a, b, f=joint, x=mode, h=1e-4: (
            (f(x + h * (a + b)) - f(x + h * (a - b)) - f(x - h * (a - b)) + f(x - h * (a + b)))
            / (4 * h * h)
        )
        hessian = np.array([[second(a, b) for a in eye] for b in eye])
        np.testing.assert_allclose(np.linalg.inv(covariances(local)[d]), hessian, atol=1e-3)


def blei_lafferty_bound(x, counts, sigma_inverse=PRECISION):
    """Their bound with q(topics) phi and zeta explicit, at their optima (Blei and Lafferty 2007,
    eq. 9 to 12)."""
    m, v = x[:K], np.exp(x[K:])
    rows = TOPICS / TOPICS.max(1, keepdims=True)
    phi = rows * np.exp(m)
    phi /= phi.sum(1, keepdims=True)
    zeta = np.exp(m + v / 2).sum()
    words = counts @ (phi * (m + np.log(rows) - np.log(phi))).sum(1)
    words -= counts.sum() * (np.exp(m + v / 2).sum() / zeta - 1 + np.log(zeta))
    gap = m - MU
    kl = np.diag(sigma_inverse) @ v + gap @ sigma_inverse @ gap - K - np.log(v).sum()
    return words - 0.5 * kl


def test_blei_lafferty_is_their_mean_field():
    with jax.enable_x64(True):
        step = estep.proximal_gradient(
            expectation.blei_lafferty(), "diagonal", max_iters=20_000, tol=1e-12
        )
        local = run(step, problem(), cold())
    for d in (1, 3):
        loss = lambda x, counts=COUNTS[d]: -blei_lafferty_bound(x, counts)
        best = scipy.optimize.minimize(
            loss, np.zeros(2 * K), tol=1e-12
        ).x  # its gradients are differences
        np.testing.assert_allclose(local.mean[d], best[:K], atol=1e-4)
        np.testing.assert_allclose(np.diagonal(covariances(local)[d]), np.exp(best[K:]), atol=1e-4)


def test_a_diagonal_covariance_is_the_best_diagonal_one():
    with jax.enable_x64(True):
        local = run(
            estep.proximal_gradient(by_grid, "diagonal", max_iters=300, tol=1e-13),
            problem(),
            cold(),
        )
    for d in (2, 4):
        m, cov = np.asarray(local.mean[d]), covariances(local)[d]
        np.testing.assert_allclose(cov, np.diag(np.diagonal(cov)), atol=1e-12)
        for i in range(K):
            move = 1e-5 * np.outer(np.eye(K)[i], np.eye(K)[i])
            slope = (bound(COUNTS[d], m, cov + move) - bound(COUNTS[d], m, cov - move)) / 2e-5
            assert abs(slope) < 2e-5


EACH = {
    "monte carlo": estep.proximal_gradient(),
    "exact, diagonal": estep.proximal_gradient(by_grid, "diagonal"),
    "laplace": estep.proximal_gradient(expectation.laplace()),
    "delta method": estep.proximal_gradient(expectation.delta_method()),
}
each = pytest.mark.parametrize("step", EACH.values(), ids=EACH)


@each
def test_float32_empty_documents_and_padding(step):
    """An empty document has its prior; a padding slot changes nothing; float32 is close to
    float64."""
    single = run(step, problem(np.float32), cold(dtype=np.float32))
    assert single.mean.dtype == single.site.dtype == np.float32
    np.testing.assert_allclose(single.mean[5], MU, atol=1e-5)
    expected = np.diag(np.diag(PRECISION)) if step.covariance == "diagonal" else PRECISION
    np.testing.assert_allclose(PRECISION + single.site[5], expected, atol=1e-6)
    with jax.enable_x64(True):
        double = run(step, problem(), cold())
    if step is not EACH["monte carlo"]:  # which draws other numbers in float64
        np.testing.assert_allclose(single.mean, double.mean, atol=2e-2)
        np.testing.assert_allclose(single.site, double.site, atol=5e-2)
    wide = problem(np.float32)
    wide = wide._replace(
        likelihood=jnp.pad(wide.likelihood, ((0, 0), (0, 2), (0, 0)), constant_values=0.3),
        counts=jnp.pad(wide.counts, ((0, 0), (0, 2))),
    )
    np.testing.assert_allclose(run(step, wide, cold(dtype=np.float32)).mean, single.mean, atol=2e-3)


def test_indefinite_curvature_is_halved_until_the_precision_is_positive_and_counted():
    def hostile(likelihood, y, m, cov, key):
        """A curvature that would take V^-1 out of the domain at step 1: E[hessian] = +10
        Sigma^-1."""
        zero = jnp.zeros(m.shape[0], m.dtype)
        return VectorMoments(
            zero,
            jnp.zeros_like(m),
            jnp.broadcast_to(10 * jnp.asarray(PRECISION, m.dtype), cov.shape),
        )

    step = estep.proximal_gradient(hostile, step_size=0.8, max_iters=1)
    local = run(
        step,
        problem(np.float32),
        cold(dtype=np.float32)._replace(mean=jnp.ones((DOCS, K), np.float32)),
    )
    # 1 - 10 rho >= 0.4 first at rho = 0.05, after four halvings of 0.8; the empty document is left
    # alone.
    assert local.halvings.tolist() == [4] * 5 + [0]
    np.testing.assert_allclose(PRECISION + local.site[0], 0.5 * PRECISION, atol=1e-5)


TARGET = np.array([1.0, -2.0, 3.0])


def pulled(strength, noise=0.0):
    """E = -strength (m - TARGET)' Sigma^-1 (m - TARGET) / 2, its slope with noise by the key."""

    def expectation(likelihood, y, m, cov, key):
        drawn = m - TARGET.astype(m.dtype) + noise * jax.random.normal(key, m.shape, m.dtype)
        slope = -strength * drawn @ jnp.asarray(PRECISION, m.dtype)
        return VectorMoments(jnp.zeros(m.shape[0], m.dtype), slope, jnp.zeros_like(cov))

    return expectation


def test_steps_that_oppose_one_another_are_halved_until_they_settle():
    """A constant rho = 0.7 multiplies the distance by 1 - 0.7 (1 + 4) = -2.5 at every step."""
    with jax.enable_x64(True):
        local = run(estep.proximal_gradient(pulled(4.0), tol=1e-24), problem(), cold())
    np.testing.assert_allclose(local.mean[:5], np.tile((MU + 4 * TARGET) / 5, (5, 1)), atol=1e-7)
    np.testing.assert_allclose(local.site[:5], np.zeros((5, K, K)), atol=1e-12)


def test_wide_priors_settle():
    """Sigma twenty times as wide, where steps of 0.7 go to and fro: a further step changes
    nothing."""
    with jax.enable_x64(True):
        wide = problem()._replace(
            precision=jnp.asarray(PRECISION / 20), linear=jnp.asarray(PRECISION @ MU / 20)
        )
        local = run(estep.proximal_gradient(by_grid, tol=1e-14, max_iters=300), wide, cold())
        again = run(estep.proximal_gradient(by_grid, tol=1e-14, max_iters=1), wide, local)
    np.testing.assert_allclose(again.mean, local.mean, atol=1e-5)
    np.testing.assert_allclose(again.site, local.site, atol=1e-5)


def test_a_document_without_a_start_begins_at_the_prior_mean_and_narrower_by_its_tokens():
    """Where nothing pulls, a step of 0.5 leaves half of what is added to the precision. With a
    start, there."""
    with jax.enable_x64(True):
        step = estep.proximal_gradient(pulled(0.0), step_size=0.5, max_iters=1)
        local = run(step, problem(), cold())
        other = run(step, problem(), GaussianLocals(local.mean + 1.0, local.site, local.halvings))
    added = 0.05 * COUNTS.sum(1)[:, None, None] * np.eye(K)
    np.testing.assert_allclose(local.mean, np.tile(MU, (DOCS, 1)), atol=1e-12)
    np.testing.assert_allclose(local.site, added, atol=1e-12)
    np.testing.assert_allclose(other.site, 0.5 * added, atol=1e-12)
    assert COUNTS[-1].sum() == 0  # what has no words believes the present prior, wherever it starts
    np.testing.assert_allclose(other.mean[-1], MU, atol=1e-12)


def test_refining_averages_new_draws():
    """The error of the fixed point is noise / 2 for one draw; 64 steps leave about an eighth of
    it."""
    with jax.enable_x64(True):
        error = []
        for refine in (0, 64):
            step = estep.proximal_gradient(pulled(1.0, noise=1.0), tol=1e-12, refine=refine)
            error.append(
                np.std(np.asarray(run(step, problem(), cold()).mean)[:5] - (MU + TARGET) / 2)
            )
    assert 0.3 < error[0] < 0.8
    assert error[1] < 0.25 * error[0]


def test_a_start_that_is_no_density_under_the_present_prior_is_none():
    bad = cold(dtype=np.float32)._replace(
        mean=jnp.full((DOCS, K), 50.0), site=jnp.full((DOCS, K, K), -100.0)
    )
    step = EACH["monte carlo"]
    given = problem(np.float32)
    np.testing.assert_array_equal(
        run(step, given, bad).mean, run(step, given, cold(dtype=np.float32)).mean
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"covariance": "low rank"}, 'covariance: expected "full" or "diagonal", got .low rank.'),
        ({"step_size": 0.0}, "step_size: expected a number above 0 and at most 1"),
        ({"step_size": 1.5}, "step_size: expected a number above 0 and at most 1"),
        ({"max_iters": 0}, "max_iters: expected an integer >= 1"),
        ({"tol": -1.0}, "tol: expected a positive number"),
        ({"refine": 1.5}, "refine: expected an integer >= 0"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        estep.proximal_gradient(**arguments)


def constant_moments(slope, curvature):
    """An expectation whose derivatives do not depend on m and V, so that every step is known by
    hand."""

    def moments(likelihood, y, m, cov, key):
        del likelihood, y, key
        return VectorMoments(
            m[:, 0], jnp.full_like(m, slope), curvature * jnp.broadcast_to(jnp.eye(K), cov.shape)
        )

    return moments


def standard_prior(tokens):
    """One document of so many tokens under N(0, I); it begins at precision (1 + tokens / 10) I."""
    counts = jnp.full((1, SLOTS), tokens / SLOTS)
    return LogisticNormal(jnp.ones((1, SLOTS, K)), counts, jnp.zeros(K), jnp.eye(K))


def test_a_step_leaves_two_fifths_of_the_precision_in_every_direction():
    """From V^-1 = 2 towards 0.1: rho = 0.7 would leave 0.67 < 0.8, so half of it is used."""
    with jax.enable_x64(True):
        step = estep.proximal_gradient(constant_moments(3.0, 0.9), step_size=0.7, max_iters=1)
        local = run(step, standard_prior(10.0), cold(1))
    landed = 2.0 + 0.35 * (0.1 - 2.0)
    np.testing.assert_allclose(
        np.eye(K) + np.asarray(local.site[0]), landed * np.eye(K), atol=1e-12
    )
    np.testing.assert_allclose(local.mean[0], 0.35 * 3.0 / landed, rtol=1e-12)
    assert local.halvings.tolist() == [1]


def test_a_document_is_finished_when_a_full_step_gains_less_than_tol():
    """With V^-1 = 2 right from the start, K (1 - m)^2 / 4 is the gain of a full step and 1 - m
    shrinks by 0.65 each."""
    with jax.enable_x64(True):
        step = estep.proximal_gradient(constant_moments(1.0, -1.0), step_size=0.7, tol=1e-2)
        local = run(step, standard_prior(10.0), cold(1))
    steps = 1 + next(k for k in range(100) if K / 4 * 0.65 ** (2 * k) <= 1e-2)
    assert steps > 4
    np.testing.assert_allclose(local.mean[0], 1 - 0.65**steps, rtol=1e-12)
