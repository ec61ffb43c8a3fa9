"""Messages from scores: regressions on few draws; batch and match against the objective that each
step minimises."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import linalg, optimize

import vijax as vi
from tests.naming import naming
from vijax.inference.estimator.scores import batch_and_match, regression

RNG = np.random.default_rng(0)
FULL = {"diagonal": False, "xp": np}


def simplex(dim):
    """dim + 1 draws of mean zero whose covariance, with n - 1, is the identity."""
    basis = np.linalg.qr(np.column_stack([np.ones(dim + 1), RNG.normal(size=(dim + 1, dim))]))[0]
    return np.sqrt(dim) * basis[:, 1:]


def precision(dim):
    root = RNG.normal(size=(dim, dim))
    return root @ root.T + np.eye(dim)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_of_draws_with_the_moments_of_q_the_message_of_a_normal_target_is_exact(dim):
    mean, curvature, noise = RNG.normal(size=dim), precision(dim), simplex(dim)
    slope = curvature @ mean
    found = regression(noise, slope - noise @ curvature, **FULL)
    np.testing.assert_allclose(found[0], slope, rtol=1e-12)
    np.testing.assert_allclose(found[1], curvature, rtol=1e-12)
    q = vi.MultivariateNormal.from_mean_cov(np.zeros(dim), np.eye(dim))
    said = np.float32(noise), np.float32(slope - noise @ curvature)
    message = vi.estimator.least_squares(dim + 1).message(q, said, np.zeros(dim + 1))
    np.testing.assert_allclose(message.precision_times_mean, slope, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        -2 * message.negative_half_precision, curvature, rtol=1e-4, atol=1e-5
    )


def test_few_draws_say_on_average_what_all_say():
    """As a covariance with n - 1 does, whatever the scores: of a few of them, of all few."""
    noise, scores = RNG.normal(size=(5, 6)), RNG.normal(size=(5, 6))
    whole = regression(noise, scores, **FULL)
    for count in (2, 3, 4):
        some = [
            regression(noise[list(i)], scores[list(i)], **FULL)
            for i in itertools.combinations(range(5), count)
        ]
        slope, curvature = (np.mean([one[i] for one in some], 0) for i in (0, 1))
        np.testing.assert_allclose(slope, whole[0], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(curvature, whole[1], rtol=1e-12, atol=1e-12)


KEY = jax.random.key(0)
M = np.array([2.0, -1.0, 0.5])
HALF = np.random.default_rng(0).normal(size=(3, 3))
P = HALF @ HALF.T + 0.2 * np.eye(3)


def target(scale=1.0):
    return vi.density(
        {"x": vi.free(3)}, lambda v: -0.5 * (v["x"] * scale - M) @ P @ (v["x"] * scale - M)
    )


def test_a_step_minimises_the_divergence_of_scores():
    """2 / l KL(q || q') plus the mean of |g - grad log q'(z)|^2 in the metric of S', by a search in
    float64."""
    rng = np.random.default_rng(1)
    mean, half, weight = rng.normal(size=2), rng.normal(size=(2, 2)), 1.7
    cov = half @ half.T + np.eye(2)
    draws, scores = rng.normal(size=(6, 2)), rng.normal(size=(6, 2))
    draws = draws @ np.linalg.cholesky(cov).T + mean

    def objective(v):
        factor = np.array([[np.exp(v[2]), 0.0], [v[3], np.exp(v[4])]])
        new, gap = factor @ factor.T, mean - v[:2]
        inverse = np.linalg.inv(new)
        kl = 0.5 * (
            np.trace(inverse @ cov)
            + gap @ inverse @ gap
            - 2
            + np.log(np.linalg.det(new) / np.linalg.det(cov))
        )
        off = scores + (draws - v[:2]) @ inverse
        return np.mean(np.einsum("bi,ij,bj->b", off, new, off)) + 2 / weight * kl

    best = optimize.minimize(objective, np.zeros(5), tol=1e-12).x
    with jax.enable_x64(True):
        q = vi.MultivariateNormal.from_mean_cov(mean, cov)
        rho = weight / (1 + weight)
        said = (jnp.asarray(draws), jnp.asarray(scores), jnp.full(6, rho))
        message = jax.jit(lambda q: batch_and_match(6).message(q, said, jnp.zeros(6)))(q)
        q = jax.tree.map(lambda a, b: (1 - rho) * a + rho * b, q, message)
        np.testing.assert_allclose(q.mean(), best[:2], atol=1e-4)
        factor = np.array([[np.exp(best[2]), 0.0], [best[3], np.exp(best[4])]])
        np.testing.assert_allclose(q.cov, factor @ factor.T, atol=1e-4)


@pytest.mark.parametrize(
    ("far", "said"), [(2.0, {}), (60.0, {}), (60.0, {"update": vi.update.kl()})]
)
def test_the_first_step_of_the_row_is_that_of_the_paper(far, said):
    """Cai et al. 2024, algorithm 1, by hand in NumPy, of the draws at which the density was asked;
    near and far."""
    seen = []
    batch, dim = 5, 2
    scores_at = lambda x: np.array([-(x[0] ** 3) / 50 + 1.0, -3.0 * (x[1] + far) - np.cos(x[1])])

    def log_density(v):
        x = v["x"]
        jax.debug.callback(lambda x: seen.append(np.array(x)), x)
        return -(x[0] ** 4) / 200 + x[0] - 1.5 * (x[1] + far) ** 2 - jnp.sin(x[1])

    with jax.enable_x64(True):
        alg = vi.bam(vi.density({"x": vi.free(dim)}, log_density), num_samples=batch, **said)
        state = alg.init(KEY)
        mean, cov = (
            np.asarray(x) for x in (state.posterior["free"].mean(), state.posterior["free"].cov)
        )
        seen.clear()
        new = jax.block_until_ready(jax.jit(alg.step)(KEY, state, 0.0)[0].posterior["free"])
        draws = np.array(seen)
        assert draws.shape == (batch, dim)
        scores, weight = np.array([scores_at(x) for x in draws]), 10.0 * batch * dim
        middle, push = draws.mean(0), scores.mean(0)
        c, g = np.cov(draws.T, bias=True), np.cov(scores.T, bias=True)
        share = weight / (1 + weight)
        u = weight * g + share * np.outer(push, push)
        v = cov + weight * c + share * np.outer(mean - middle, mean - middle)
        cov = 2 * v @ np.linalg.inv(np.eye(dim) + linalg.sqrtm(np.eye(dim) + 4 * u @ v))
        mean = (mean + weight * (cov @ push + middle)) / (1 + weight)
        np.testing.assert_allclose(new.mean(), mean, rtol=1e-8)
        np.testing.assert_allclose(new.cov, cov, rtol=1e-8)
        assert new.kl(state.posterior["free"]) > 1


def test_no_step_goes_further_than_is_said():
    model = target(30.0)
    state = vi.bam(model).init(KEY)
    moved = lambda **nats: float(
        jax.jit(vi.bam(model, **nats).step)(KEY, state, 0.0)[0]
        .posterior["free"]
        .kl(state.posterior["free"])
    )
    assert 0.1 < moved(nats=0.5) <= 0.5
    assert moved() > 100


@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_a_normal_target_is_found_in_few_steps(scale):
    """Also where the start is tens of its standard deviations away."""
    fit = vi.fit(vi.bam(target(scale)), num_steps=60, key=KEY)
    cov = np.linalg.inv(P) / scale**2
    sds = np.sqrt(np.diag(cov))
    assert np.all(np.abs(fit.posterior["free"].mean() - M / scale) < 0.02 * sds)
    np.testing.assert_allclose(
        fit.posterior["free"].cov / sds / sds[:, None], cov / sds / sds[:, None], atol=0.02
    )


def test_what_it_cannot_fit_is_refused():
    with pytest.raises(ValueError, match=naming("model:", "vijax.ngvi")):
        vi.bam(vi.models.lda(2, 3))
    alg = vi.ngvi(target(), guide=vi.guides.mean_field(), estimator=batch_and_match(4))
    with pytest.raises(ValueError, match="estimator: expected one for a Normal"):
        jax.eval_shape(alg.step, KEY, jax.eval_shape(alg.init, KEY), 0.0)
    with pytest.raises(ValueError, match="num_samples"):
        vi.bam(target(), num_samples=1)
    with pytest.raises(ValueError, match="first"):
        vi.step_size.by_odds(0.0)
