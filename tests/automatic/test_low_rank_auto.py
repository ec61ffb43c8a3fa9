"""`vijax.auto` of many variables: directions of dependence beside independent normals, against
exact posteriors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.automatic import auto as automatic
from vijax.automatic import low_rank
from vijax.automatic.curvature import normal as curved
from vijax.automatic.gaussian import Gaussian
from vijax.automatic.low_rank import FURTHEST, choose_rank, gradient, lanczos, move
from vijax.models.energies.density import Frame

KEY, DIM = jax.random.key(0), 60


@pytest.fixture(autouse=True)
def few_count_as_many(monkeypatch):
    monkeypatch.setattr(automatic, "MOST_FULL", 20)
    monkeypatch.setattr(curved, "MOST_DIM", 0)


def normal(precision, mean=0.0):
    """A density that is normal, and its log evidence."""
    held = jnp.asarray(precision, jnp.float32)
    evidence = 0.5 * (len(precision) * np.log(2 * np.pi) - np.linalg.slogdet(precision)[1])
    return vi.density(
        {"w": vi.free(len(precision))}, lambda v: -0.5 * (v["w"] - mean) @ held @ (v["w"] - mean)
    ), evidence


def factors(count, size):
    return size * np.random.default_rng(0).normal(size=(DIM, count))


WIDE = np.linalg.inv(
    np.eye(DIM) + factors(3, 1.0) @ factors(3, 1.0).T
)  # common factors of the variables
NARROW = np.eye(DIM) + factors(3, 2.0) @ factors(3, 2.0).T  # sums of them that the data know well


@pytest.mark.parametrize("precision", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_normal_of_its_kind_is_found(precision):
    model, evidence = normal(precision, 0.7)
    fit = vi.auto(
        model, key=jax.random.key(1), max_gradients=12_000
    )  # of narrow ones .26 to .60 nats, by the key
    assert 0 <= evidence - fit.elbo.value + 3 * fit.elbo.standard_error < 0.5
    draws = np.asarray(fit.sample(jax.random.key(1), 20_000)["w"], np.float64)
    sds = np.sqrt(np.diag(np.linalg.inv(precision)))
    assert np.sqrt(np.mean(np.log(draws.std(0) / sds) ** 2)) < 0.1
    np.testing.assert_allclose(draws.mean(0), 0.7, atol=0.1 * sds.max())
    frame = fit.state.hyper["frame"]
    along = np.asarray(frame.directions)[:, np.abs(np.log(np.asarray(frame.stretch))) > 1.0]
    assert along.shape[1] >= 3
    np.testing.assert_allclose(along.T @ along, np.eye(along.shape[1]), atol=1e-5)
    assert fit.status is vi.Status.CONVERGED
    with pytest.raises(ValueError, match=naming("fit:", "independent")):
        vi.linear_response(fit)


def test_without_dependence_there_are_none():
    fit = vi.auto(normal(np.diag(np.linspace(0.2, 3.0, DIM)))[0], key=KEY)
    assert np.all(np.asarray(fit.state.hyper["frame"].stretch) == 1)  # within the noise of draws
    assert "along" not in fit.verdict
    assert vi.linear_response(fit, key=KEY).sds["w"].shape == (DIM,)


def test_a_mode_where_a_scale_is_zero_is_no_start():
    """A hierarchy: the density is highest where all effects are one, at a bound that is hundreds of
    nats lower."""
    rng = np.random.default_rng(0)
    rates = np.repeat(rng.normal(0.5, 1.0, DIM), 5)
    y = (rng.uniform(size=5 * DIM) < 1 / (1 + np.exp(-rates))).astype(np.float32)
    logp = jax.scipy.stats.norm.logpdf
    model = vi.density(
        {"mean": vi.free(), "sd": vi.free(support="positive"), "effect": vi.free(DIM)},
        log_prior=lambda v: (
            logp(v["mean"], 0, 2) + logp(v["sd"]) + logp(v["effect"], v["mean"], v["sd"]).sum()
        ),
        log_lik=lambda v, row: row[1] * v["effect"][row[0]] - jax.nn.softplus(v["effect"][row[0]]),
    )
    fit = vi.auto(model, (np.repeat(np.arange(DIM), 5), y), key=KEY)
    sd = np.asarray(fit.sample(jax.random.key(1), 1000)["sd"])
    assert 0.1 < sd.mean() < 2.0
    assert np.isfinite(fit.elbo.value)


def test_lanczos_finds_the_ends_of_a_spectrum():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 200))
    matrix = np.eye(200) + matrix @ matrix.T / 200
    values, vectors = lanczos(lambda v: matrix @ v, 200, 20, [1])
    exact, basis = np.linalg.eigh(matrix)
    np.testing.assert_allclose(np.sort(values)[-5:], exact[-5:], rtol=1e-8)
    np.testing.assert_allclose(np.abs(vectors[:, np.argmax(values)] @ basis[:, -1]), 1.0, rtol=1e-8)
    assert len(lanczos(lambda v: np.full(200, np.nan), 200, 20, [1])[0]) == 0


class Known:
    """As a target: the log density of N(0, precision^-1)."""

    dim, epsilon, num_gradients = 4, 1e-16, 0
    precision = np.array(
        [[2.0, 0.3, 0.0, 0.1], [0.3, 1.0, 0.2, 0.0], [0.0, 0.2, 1.5, 0.4], [0.1, 0.0, 0.4, 0.8]]
    )

    def slopes(self, x):
        return -0.5 * np.einsum("ni,ij,nj->n", x, self.precision, x), -x @ self.precision


def directed():
    directions = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 2)))[0]
    return Gaussian(
        np.arange(4.0) / 10,
        np.array([0.5, 1.0, 0.7, 1.3]),
        0.0,
        directions=directions,
        stretch=np.array([2.0, 0.4]),
    )


def test_the_gradient_is_that_of_the_bound():
    noise, q = np.random.default_rng(0).normal(size=(16, 4)), directed()
    asked = gradient(Known(), q, noise)
    value = lambda q: gradient(Known(), q, noise).elbo
    h = 1e-6
    for i, one in enumerate(np.eye(4) * h):
        of_mean = (value(q._replace(mean=q.mean + one)) - value(q._replace(mean=q.mean - one))) / (
            2 * h
        )
        assert asked.mean[i] == pytest.approx(of_mean, rel=1e-5, abs=1e-7)
        of_sd = value(q._replace(scale=q.scale * np.exp(one))) - value(
            q._replace(scale=q.scale * np.exp(-one))
        )
        assert asked.log_sd[i] == pytest.approx(of_sd / (2 * h), rel=1e-5, abs=1e-7)
    for i, one in enumerate(np.eye(2) * h):
        of_b = value(q._replace(stretch=q.stretch * np.exp(one))) - value(
            q._replace(stretch=q.stretch * np.exp(-one))
        )
        assert asked.b[i] == pytest.approx(of_b / (2 * h), rel=1e-5, abs=1e-7)


def test_a_whole_step_of_the_mean_is_newtons():
    """In the frame of q: mean + Sigma (expected slope)."""
    q, noise = directed(), np.concatenate([z := np.random.default_rng(0).normal(size=(64, 4)), -z])
    cov = q.from_noise(np.eye(4)) - q.mean
    cov = cov.T @ cov
    want = q.mean - 0.1 * cov @ Known.precision @ q.mean
    np.testing.assert_allclose(
        move(gradient(Known(), q, noise), FURTHEST, 0.1).mean, want, rtol=1e-6
    )


def test_density_distance_and_frame_are_those_of_its_covariance():
    from scipy import stats

    q, x = directed(), np.array([1.0, -0.7, 0.2, 0.4])
    cov = (q.from_noise(np.eye(4)) - q.mean).T @ (q.from_noise(np.eye(4)) - q.mean)
    np.testing.assert_allclose(
        q.entropy(), stats.multivariate_normal(q.mean, cov).entropy(), rtol=1e-10
    )
    np.testing.assert_allclose(
        q.distance(x), (x - q.mean) @ np.linalg.solve(cov, x - q.mean), rtol=1e-10
    )
    model = vi.density({"x": vi.free(4)}, lambda v: -0.5 * (v["x"] ** 2).sum())
    frame: Frame = q.frame(model.log_density)
    np.testing.assert_allclose(
        jax.vmap(frame.point)(jnp.eye(4)), q.from_noise(np.eye(4)), rtol=1e-5
    )
    np.testing.assert_allclose(frame.log_det(), 0.5 * np.linalg.slogdet(cov)[1], rtol=1e-5)


def test_a_fit_with_directions_is_saved_and_read(tmp_path):
    from vijax.fitting import checkpoint

    fit = vi.auto(normal(WIDE)[0], key=KEY)
    checkpoint.save(tmp_path, 0, fit.state)
    like = jax.eval_shape(lambda key: fit.alg.init(key), KEY)
    again = fit._replace(state=checkpoint.latest(tmp_path, like).tree)
    for a, b in zip(
        jax.tree.leaves(fit.sample(KEY, 3)), jax.tree.leaves(again.sample(KEY, 3)), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert choose_rank(DIM) == fit.state.hyper["frame"].directions.shape[1]
    assert low_rank.RANK == 32
