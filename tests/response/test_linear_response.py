"""Linear response against exact covariances, and against quadrature."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import logsumexp
from jax.scipy.stats import norm

import vijax as vi
from vijax.models.energies.density import Frame
from vijax.response.linear_response import _free

KEY = jax.random.key(0)
A = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])  # precision of a normal target
M = np.array([1.0, -2.0, 0.5])


def normal_target():
    return vi.density({"x": vi.free(3)}, lambda v: -0.5 * (v["x"] - M) @ A @ (v["x"] - M))


def pairs():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, 2))
    x[:, 1] += x[:, 0]
    return x.astype(np.float32), (x @ [1.0, -1.0] + rng.normal(size=20)).astype(np.float32)


@functools.lru_cache
def split_regression():
    """Known noise, and a mean-field factor for each coefficient: their correlation is all in what q
    leaves out."""

    def energy(s, group):
        (x, y), a, b = group, s["a"], s["b"]
        mean = x[0] * a.value + x[1] * b.value
        square = x[0] ** 2 * a.square + x[1] ** 2 * b.square + 2 * x[0] * x[1] * a.value * b.value
        return -0.5 * (jnp.log(2 * jnp.pi) + y**2 - 2 * y * mean + square)

    normal = vi.Normal.from_mean_variance(0.0, 4.0)
    return vi.energy_model(
        globals={"a": normal, "b": normal}, energy=energy, example=(jnp.ones(2), 1.0)
    )


def fitted(model, data, num_steps=200):
    return vi.fit(vi.cavi(model), data, num_steps=num_steps, key=KEY)


# --- of densities ---------------------------------------------------------------------------------
def test_on_a_normal_target_it_is_the_covariance():
    fit = vi.dadvi(normal_target(), key=KEY)
    found = vi.linear_response(fit)
    np.testing.assert_allclose(found.matrix, np.linalg.inv(A), atol=1e-4)
    np.testing.assert_allclose(found.means["x"], M, atol=1e-4)
    assert found.names == ["x[0]", "x[1]", "x[2]"]
    q_sds = fit.sample(jax.random.key(1), 10_000)["x"].std(0)
    assert np.all(q_sds < 0.95 * found.sds["x"])


def test_fits_of_other_algorithms_are_read_at_the_top_of_fixed_draws():
    fit = vi.fit(vi.advi(normal_target(), num_samples=8), num_steps=1000, key=KEY)
    np.testing.assert_allclose(vi.linear_response(fit, key=KEY).matrix, np.linalg.inv(A), atol=1e-4)
    with pytest.raises(ValueError, match="key: expected a key of fixed draws"):
        vi.linear_response(fit)


FRAMES = {
    "wide": ([0.0, 0.0, 0.0], [100.0, 100.0, 100.0]),
    "narrow": ([0.0, 0.0, 0.0], [0.01, 0.01, 0.01]),
    "elsewhere": ([7.0, -3.0, 20.0], [1.0, 1.0, 1.0]),
    "each its own": ([5.0, 0.0, -2.0], [0.05, 30.0, 4.0]),
}


@pytest.mark.parametrize("name", FRAMES)
def test_the_coordinates_of_a_frame_are_nothing(name):
    """x = shift + scale z: the fit is the same density in any frame, and so are its covariances.
    That of vijax.dadvi is N(0, 1) in its frame; one that has gone on has another mean and sd
    there."""
    shift, scale = (np.float32(x) for x in FRAMES[name])
    fit = vi.dadvi(normal_target(), key=KEY)
    model, frame = fit.alg.spec.model, fit.state.hyper["frame"]
    mean = np.asarray(frame.shift) + np.asarray(frame.scale) * np.asarray(
        fit.posterior["free"].mean()
    )
    sd = np.asarray(frame.scale) * np.sqrt(np.asarray(fit.posterior["free"].variance()))
    q = vi.Normal.from_mean_variance((mean - shift) / scale, (sd / scale) ** 2)
    state = fit.state._replace(
        posterior=vi.Product({"free": q}), hyper={"frame": Frame(shift, scale)}
    )
    other = fit._replace(state=state)
    np.testing.assert_allclose(other.sample(KEY, 200)["x"], fit.sample(KEY, 200)["x"], atol=2e-3)
    np.testing.assert_allclose(
        _free(q, state.hyper["frame"]), np.concatenate([mean, np.log(sd)]), atol=1e-5
    )
    np.testing.assert_allclose(
        vi.linear_response(other).matrix, vi.linear_response(fit).matrix, atol=1e-4
    )
    assert model.free.is_framed


def test_of_any_function_of_the_values():
    found = vi.linear_response(
        vi.dadvi(normal_target(), key=KEY), of=lambda v: {"sum": v["x"].sum()}
    )
    assert found.of("sum")[0, 0] == pytest.approx(np.linalg.inv(A).sum(), rel=1e-4)
    with pytest.raises(ValueError, match=r"name: expected one of \['sum'\]"):
        found.of("total")


def test_conjugate_gradients_serve_many_variables():
    """A chain of 250: three of the covariances, none of the matrix formed."""
    dim = 250
    model = vi.density(
        {"x": vi.free(dim)},
        lambda v: -0.5 * jnp.sum(v["x"] ** 2) - 0.5 * jnp.sum(jnp.diff(v["x"]) ** 2),
    )
    step = np.diff(np.eye(dim), axis=0)
    exact = np.linalg.inv(np.eye(dim) + step.T @ step)
    found = vi.linear_response(vi.dadvi(model, key=KEY, num_draws=8), of=lambda v: v["x"][:3])
    np.testing.assert_allclose(found.matrix, exact[:3, :3], atol=1e-4)


def test_positive_values_are_pushed_through():
    """A log-normal pair: Var[exp(u)] by linear response is that of exp on fixed draws, here of a
    small spread where the delta method is the truth."""
    model = vi.density(
        {"s": vi.free(2, "positive")},
        lambda v: (
            -0.5 * (jnp.log(v["s"]) @ jnp.asarray(100 * A[:2, :2]) @ jnp.log(v["s"]))
            - jnp.sum(jnp.log(v["s"]))
        ),
    )
    found = vi.linear_response(vi.dadvi(model, key=KEY))
    np.testing.assert_allclose(found.matrix, np.linalg.inv(100 * A[:2, :2]), rtol=0.03, atol=1e-4)


# --- of conjugate models --------------------------------------------------------------------------
def test_a_split_regression_has_its_exact_covariance_again():
    x, y = pairs()
    fit = fitted(split_regression(), (x, y))
    exact = np.linalg.inv(x.T @ x + np.eye(2) / 4)
    found = vi.linear_response(fit, (x, y))
    np.testing.assert_allclose(found.matrix, exact, rtol=1e-4)
    assert float(fit.posterior["a"].variance()) < 0.3 * exact[0, 0]
    assert found.names == ["a", "b"]
    statistics = vi.linear_response(fit, (x, y), of=lambda q: q.expected_stats())
    value = [i for i, name in enumerate(statistics.names) if name.endswith("value")]
    np.testing.assert_allclose(statistics.matrix[np.ix_(value, value)], exact, rtol=1e-4)


def test_locals_are_put_in_at_their_optimum():
    """y ~ N(z, 1), z ~ N(mu, 1), mu ~ N(0, 4): with z held where it is the variance would be q's,
    0.31, not 0.57."""

    def energy(s, y):
        z, mu = s["z"], s["mu"]
        cross = y**2 - 2 * y * z.value + 2 * z.square - 2 * z.value * mu.value + mu.square
        return -jnp.log(2 * jnp.pi) - 0.5 * cross

    normal = vi.Normal.from_mean_variance(0.0, 4.0)
    model = vi.energy_model(
        globals={"mu": normal}, locals={"z": normal}, energy=energy, example=1.0
    )
    y = np.array([1.0, 2.0, 6.0], np.float32)
    found = vi.linear_response(fitted(model, y, 60), y)
    np.testing.assert_allclose(found.matrix, [[1 / (1 / 4 + 3 / 2)]], rtol=1e-4)


def test_a_split_normal_gamma_is_within_a_tenth_of_quadrature():
    """Unknown mean and precision of twelve numbers; the prior of the mean pulls, so that they are
    correlated."""

    def energy(s, y):
        tau, mu = s["tau"], s["mu"]
        return 0.5 * (
            tau.log - jnp.log(2 * jnp.pi) - tau.value * (y**2 - 2 * y * mu.value + mu.square)
        )

    model = vi.energy_model(
        globals={
            "mu": vi.Normal.from_mean_variance(0.0, 0.5),
            "tau": vi.Gamma.from_shape_rate(2.0, 2.0),
        },
        energy=energy,
        example=1.0,
    )
    y = (np.random.default_rng(0).normal(size=12) + 2.0).astype(np.float32)
    found = vi.linear_response(fitted(model, y, 100), y)
    mu, tau = np.meshgrid(np.linspace(-1, 4, 801), np.linspace(1e-3, 6, 801), indexing="ij")
    log_p = (
        -(mu**2)
        + (1 + 6) * np.log(tau)
        - 2 * tau
        - 0.5 * tau * sum((v - mu) ** 2 for v in y.astype(float))
    )
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    points = np.stack([mu.ravel(), tau.ravel()])
    exact = np.cov(points, aweights=p.ravel(), ddof=0)
    sds = np.sqrt(np.diag(exact))
    np.testing.assert_allclose(np.sqrt(np.diag(found.matrix)), sds, rtol=0.1)
    assert abs(found.matrix[0, 1] - exact[0, 1]) < 0.1 * sds[0] * sds[1]
    assert abs(exact[0, 1]) > 0.1 * sds[0] * sds[1]  # or the last line but one would see nothing


def hand_written(stop):
    """A mixture of known normals with an unknown weight, its locals summed out."""

    def bound(s, y, key):
        log_p = jnp.stack([norm.logpdf(y, -1.0), norm.logpdf(y, 1.0)], 1) + jnp.stack(
            [s["w"].log, s["w"].log1m]
        )
        if not stop:
            return logsumexp(log_p, 1), None
        r = jax.lax.stop_gradient(jax.nn.softmax(log_p, 1))
        return jnp.sum(r * (log_p - jnp.log(r)), 1), None

    return vi.model({"w": vi.Beta.from_alpha_beta(1.0, 1.0)}, bound)


def test_hand_written_bounds_with_their_locals_summed_out():
    """The sd of a mixture's weight, against quadrature."""
    y = np.concatenate([np.random.default_rng(0).normal(m, 1.0, 60) for m in (-1.0, 1.0)]).astype(
        np.float32
    )
    model = hand_written(stop=False)
    found = vi.linear_response(fitted(model, y), y)
    w = np.linspace(0.001, 0.999, 999)
    p = [np.exp(-0.5 * (y[:, None].astype(float) - m) ** 2) for m in (-1.0, 1.0)]
    log_p = np.log(w * p[0] + (1 - w) * p[1]).sum(0)
    weights = np.exp(log_p - log_p.max())
    exact = np.sqrt(np.cov(w, aweights=weights, ddof=0))
    assert found.sds["w"] == pytest.approx(exact, rel=0.1)


# --- what is refused ------------------------------------------------------------------------------
def test_locals_behind_a_stopped_gradient_are_refused():
    y = np.linspace(-3, 3, 30).astype(np.float32)
    with pytest.raises(ValueError, match="message does not change as its bound says"):
        vi.linear_response(fitted(hand_written(stop=True), y), y)


def test_fits_that_are_no_fixed_points_are_refused():
    x, y = pairs()
    with pytest.raises(ValueError, match="fit: expected a fixed point"):
        vi.linear_response(fitted(split_regression(), (x, y), 2), (x, y))


def test_models_that_are_not_served_are_refused():
    of_density = vi.ngvi(normal_target())
    full = vi.Fit(of_density, of_density.init(KEY), {}, None)
    with pytest.raises(ValueError, match=r"guide vijax\.guides\.mean_field"):
        vi.linear_response(full, key=KEY)
    of_topics = vi.cavi(vi.models.lda(num_topics=2, vocab_size=3))
    with pytest.raises(ValueError, match="a model of documents"):
        vi.linear_response(full._replace(alg=of_topics))
    points = vi.cavi(split_regression(), estimand={"a": vi.estimand.mode()})
    with pytest.raises(ValueError, match="a distribution of every global"):
        vi.linear_response(full._replace(alg=points, state=points.init(KEY)), pairs())


def test_data_that_were_not_fitted_are_refused():
    model = vi.density(
        {"m": vi.free()},
        log_prior=lambda v: norm.logpdf(v["m"], 0, 9),
        log_lik=lambda v, y: norm.logpdf(y, v["m"]),
    )
    y = np.linspace(-1, 1, 8).astype(np.float32)
    fit = vi.dadvi(model, y, key=KEY)
    assert vi.linear_response(fit, y).sds["m"] == pytest.approx((8 + 1 / 81) ** -0.5, rel=1e-3)
    with pytest.raises(ValueError, match="fit: expected one near the maximum"):
        vi.linear_response(fit, y + 3)
