"""Deterministic ADVI against optima that are known: in closed form, or by quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

import vijax as vi
from vijax.automatic.dadvi import OnDraws, unit_noise

KEY = jax.random.key(0)
A = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])  # precision of a normal target
M = np.array([1.0, -2.0, 0.5])
X = np.array([-1.5, -0.5, 0.1, 0.6, 1.0, 2.0])
Y = np.array([-1, -1, 1, -1, 1, 1.0])


def normal_target():
    return vi.density({"x": vi.free(3)}, lambda v: -0.5 * (v["x"] - M) @ A @ (v["x"] - M))


def logistic():
    model = vi.density(
        {"w": vi.free()},
        log_prior=lambda v: -(v["w"] ** 2) / 8,
        log_lik=lambda v, xy: jax.nn.log_sigmoid(xy * v["w"]),
    )
    return model, (X * Y).astype(np.float32)


def draws_of(fit):
    return jax.tree.map(lambda x: np.asarray(x, np.float64), fit.sample(jax.random.key(1), 20_000))


def test_on_a_normal_target_means_are_exact_and_variances_conditional():
    """log q of the optimum: m = M, 1 / s_i^2 = A_ii up to what 64 draws make of E[e e']."""
    fit = vi.dadvi(normal_target(), key=KEY, num_draws=64)
    frame = fit.state.hyper["frame"]
    np.testing.assert_allclose(frame.shift, M, atol=1e-4)
    np.testing.assert_allclose(np.asarray(frame.scale) ** 2, 1 / np.diag(A), rtol=0.05)
    assert fit.status is vi.Status.CONVERGED
    assert fit.verdict.startswith("Converged.")
    assert fit.report.noise.shape == (64, 3)
    exact = 0.5 * (
        3 * np.log(2 * np.pi) - np.log(np.diag(A)).sum()
    )  # E_q[log p] = -D/2, plus the entropy
    assert fit.elbo.value == pytest.approx(exact, abs=0.02)


def test_logistic_regression_against_quadrature():
    """The best normal by quadrature of the ELBO; and the exact mean and sd of the posterior."""
    model, data = logistic()
    fit = vi.dadvi(model, data, key=KEY, num_draws=256)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    log_p = lambda w: -(w**2) / 8 - np.log1p(np.exp(-np.outer(np.atleast_1d(w), X * Y))).sum(-1)
    loss = lambda p: -(weights / weights.sum()) @ log_p(p[0] + np.exp(p[1]) * nodes) - p[1]
    best = minimize(loss, [0.0, 0.0], method="BFGS").x
    frame = fit.state.hyper["frame"]
    assert float(frame.shift[0]) == pytest.approx(best[0], abs=0.01)
    assert float(jnp.log(frame.scale[0])) == pytest.approx(best[1], abs=0.02)
    grid = np.linspace(-6, 12, 6001)
    p = np.exp(log_p(grid))
    mean, sd = np.average(grid, weights=p), np.sqrt(np.cov(grid, aweights=p, ddof=0))
    found = vi.linear_response(fit, data)
    assert found.means["w"] == pytest.approx(mean, abs=0.06 * sd)
    assert found.sds["w"] == pytest.approx(sd, rel=0.1)


def test_it_is_at_the_top_of_its_own_draws():
    """The gradient on the draws that the report holds, by differences in float64 of the density in
    NumPy."""
    model, data = logistic()
    fit = vi.dadvi(model, data, key=KEY)
    frame, noise = fit.state.hyper["frame"], fit.report.noise
    log_p = lambda w: -(w**2) / 8 - np.log1p(np.exp(-np.outer(w, X * Y))).sum(-1)
    f = lambda p: log_p(p[0] + np.exp(p[1]) * noise[:, 0]).mean() + p[1]
    at = np.array([float(frame.shift[0]), float(jnp.log(frame.scale[0]))])
    step = 1e-4 * np.eye(2)
    slope = [(f(at + d) - f(at - d)) / 2e-4 for d in step]
    np.testing.assert_allclose(slope, 0, atol=2e-4)


def test_the_same_key_gives_the_same_fit():
    one, two = (vi.dadvi(normal_target(), key=KEY) for _ in range(2))
    np.testing.assert_array_equal(draws_of(one)["x"], draws_of(two)["x"])


def test_second_derivatives_on_draws():
    """The Hessian and its products against differences of the gradient."""

    class Cosh:  # log p(x) = -sum cosh(R x), with derivatives by hand
        dim, epsilon, num_gradients = 2, 1e-16, 0
        r = np.array([[1.0, 0.5], [-0.3, 0.8]])

        def slopes(self, x):
            return -np.cosh(x @ self.r.T).sum(1), -np.sinh(x @ self.r.T) @ self.r

        def hessians(self, x):
            return -np.einsum("ki,ia,ib->kab", np.cosh(x @ self.r.T), self.r, self.r)

        def products(self, x, v):
            return np.einsum("kab,kb->ka", self.hessians(x), v)

    objective = OnDraws(Cosh(), unit_noise(8, 2, 0))
    point, step = np.array([0.3, -0.5, -0.2, -1.0]), 1e-5
    slope = lambda p: objective.slopes(p[None])[1][0]
    exact = np.array(
        [(slope(point + step * e) - slope(point - step * e)) / (2 * step) for e in np.eye(4)]
    )
    np.testing.assert_allclose(objective.hessian(point), exact, atol=1e-7)
    product = objective.product(point)
    np.testing.assert_allclose([product(e) for e in np.eye(4)], exact, atol=1e-7)
    value = lambda p: objective.slopes(p[None])[0][0]
    np.testing.assert_allclose(
        slope(point),
        [(value(point + step * e) - value(point - step * e)) / (2 * step) for e in np.eye(4)],
        atol=1e-8,
    )


def test_what_it_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="model: expected a log density"):
        vi.dadvi(vi.models.lda(num_topics=2, vocab_size=3), key=KEY)
    with pytest.raises(ValueError, match="num_draws"):
        vi.dadvi(normal_target(), key=KEY, num_draws=1)


def test_too_few_draws_are_told():
    """Forty variables with one strong common factor: on eight draws the sds adapt to the noise."""
    common = lambda v: -0.5 * jnp.sum(v["x"] ** 2) - 0.5 * 10 * jnp.sum(v["x"]) ** 2
    model = vi.density({"x": vi.free(40)}, common)
    few, enough = (vi.dadvi(model, key=KEY, num_draws=n) for n in (8, 256))
    assert few.verdict.startswith("Its fixed draws were too few")
    assert few.status is not vi.Status.CONVERGED
    assert enough.verdict.startswith("Converged")
    sds = [np.asarray(fit.state.hyper["frame"].scale).mean() * 11**0.5 for fit in (few, enough)]
    assert sds[0] > 1.4
    assert sds[1] == pytest.approx(1, abs=0.1)


def test_an_improper_density_is_not_converged():
    fit = vi.dadvi(vi.density({"x": vi.free()}, lambda v: 0.0 * v["x"]), key=KEY)
    assert fit.verdict.startswith("Do not use this fit: the bound grows without limit")
    assert fit.status is not vi.Status.CONVERGED
