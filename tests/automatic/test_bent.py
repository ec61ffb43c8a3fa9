"""Normals of bent coordinates: exact where a posterior is skewed in each variable, and left alone
where it is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from vijax.models.energies.bend import MOST_BENT, SKEWNESS, VARIANCE, Bend, bent, unbent

KEY = jax.random.key(0)
SHAPES = np.array([3.0, 4.0, 6.0, 9.0])


def test_moments_and_slopes_of_bent_noise():
    """By quadrature in float64."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()
    with jax.enable_x64(True):
        for amount in (-0.6, 0.0, 0.1, 0.4):
            change, slope = map(np.asarray, bent(jnp.asarray(nodes), jnp.full(len(nodes), amount)))
            u = nodes + change
            assert abs(weights @ u) < 1e-6
            assert weights @ u**2 == pytest.approx(1, abs=1e-6)
            assert weights @ u**3 == pytest.approx(SKEWNESS * amount, rel=0.08, abs=1e-9)
            assert np.all(slope > 0)
            numeric = np.asarray(
                jax.vmap(jax.grad(lambda z, a=amount: z + bent(z, jnp.asarray(a))[0]))(nodes)
            )
            np.testing.assert_allclose(slope, numeric, rtol=1e-12)
            np.testing.assert_allclose(
                unbent(jnp.asarray(u), jnp.full(len(u), amount)), nodes, atol=1e-9
            )
    assert 0 < VARIANCE < 1


def test_coordinates_lead_back_and_the_volume_is_that_of_the_map():
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        bend = Bend(
            rng.normal(size=5),
            rng.gamma(2.0, size=5),
            np.array([-MOST_BENT, 0.0, 0.1, -0.3, MOST_BENT]),
        )
        z = jnp.asarray(3 * rng.normal(size=5))
        x, log_volume = bend.point(z)
        np.testing.assert_allclose(bend.coordinates(x), z, atol=1e-10)
        np.testing.assert_array_equal(x[1], z[1])
        jacobian = jax.jacobian(lambda z: bend.point(z)[0])(z)
        assert float(log_volume) == pytest.approx(np.linalg.slogdet(jacobian)[1], abs=1e-10)


def gammas():
    def log_density(v):
        return jnp.sum((SHAPES - 1) * jnp.log(v["x"]) - v["x"])

    return vi.density({"x": vi.free(4, "positive")}, log_density)


def test_skewed_variables_are_right_without_a_mixture():
    """Logarithms of gamma variables: a normal was .06 nats away, and a mixture was fitted."""
    fit = vi.auto(gammas(), key=KEY, richer=False)
    x = np.log(np.asarray(fit.sample(jax.random.key(1), 40_000)["x"], float))
    exact = stats.loggamma(SHAPES)
    sds = exact.std()
    assert np.abs((x.mean(0) - exact.mean()) / sds).max() < 0.02
    assert np.abs(np.log(x.std(0) / sds)).max() < 0.02
    np.testing.assert_allclose(stats.skew(x), exact.stats("s"), atol=0.1)
    assert fit.report.gap < 0.01
    assert fit.elbo.value == pytest.approx(
        float(np.sum(jax.scipy.special.gammaln(SHAPES))), abs=0.02
    )


def test_a_mixture_is_not_needed_where_bent_coordinates_will_do():
    fit = vi.auto(gammas(), key=KEY)
    assert fit.report.other is None
    assert fit.report.num_gradients < 2500


def test_a_normal_posterior_is_not_bent():
    rng = np.random.default_rng(2)
    factor = rng.normal(size=(5, 5))
    model = vi.density({"x": vi.free(5)}, lambda v: -0.5 * jnp.sum((factor @ v["x"]) ** 2))
    fit = vi.auto(model, key=KEY)
    frame = fit.state.hyper["frame"]
    np.testing.assert_array_equal(frame.bend.amount, np.zeros(5))


def test_a_bent_fit_is_saved_and_judged(tmp_path):
    from vijax.fitting import checkpoint

    fit = vi.auto(gammas(), key=KEY, richer=False)
    assert np.abs(np.asarray(fit.state.hyper["frame"].bend.amount)).min() > 0.05
    again = fit._replace(
        state=checkpoint.load(checkpoint.save(tmp_path, 0, fit.state), fit.state).tree
    )
    np.testing.assert_array_equal(again.sample(KEY, 9)["x"], fit.sample(KEY, 9)["x"])
    assert "no fault" in str(vi.trust.check(fit, key=KEY))


def test_a_bent_fit_that_is_stopped_and_goes_on_is_the_whole_one(monkeypatch):
    """While it bends, too: it then begins at the normal again."""
    from vijax.automatic import auto

    whole = vi.auto(gammas(), key=KEY, richer=False)
    bend = auto.bent

    def stopped(run, *given):
        run.stopped.__self__.set()
        return bend(run, *given)

    monkeypatch.setattr(auto, "bent", stopped)
    early = vi.auto(gammas(), key=KEY, richer=False)
    monkeypatch.undo()
    assert "Stopped early" in early.verdict
    again = vi.auto(gammas(), key=KEY, richer=False, stage=early.report.stage)
    for one, other in zip(jax.tree.leaves(whole.state), jax.tree.leaves(again.state), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
