"""Laws of every estimator: of a bound linear in the statistics the message is its coefficients; of
any bound, for those that are unbiased, F^-1 times the gradient of E_q[l], here by quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from tests.estimators import ESTIMATORS
from vijax.inference.estimator.base import estimate

SHAPE, RATE = 2.5, 1.5
Q = vi.Product({"x": vi.Gamma.from_shape_rate(SHAPE, RATE)})
PRIOR = vi.Product({"x": vi.Gamma.from_shape_rate(1.5, 0.5)})
KEYS = jax.random.split(jax.random.key(0), 40_000)


def messages(estimator, bound):
    """Draws of the message, (2, draws): of a step of size zero."""
    rule = {"x": estimator}
    one = lambda key: estimate(
        rule, ["x"], key, Q, PRIOR, jnp.float32(0.0), lambda s, _: (bound(s), None), {}
    )
    return np.array(jax.tree.leaves(jax.jit(jax.vmap(lambda key: one(key).natural))(KEYS)), float)


def check(draws, expected):
    error = draws.std(axis=1) / np.sqrt(draws.shape[1])
    assert np.all(error < 0.05)
    np.testing.assert_array_less(np.abs(draws.mean(axis=1) - expected), 6 * error + 2e-4)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_of_a_linear_bound_the_message_is_its_coefficients(name):
    check(
        messages(ESTIMATORS[name][0], lambda s: 0.7 * s["x"].log - 1.2 * s["x"].value), [0.7, -1.2]
    )


@pytest.mark.parametrize("name", [name for name, (_, unbiased) in ESTIMATORS.items() if unbiased])
def test_of_any_bound_the_message_is_the_natural_gradient(name):
    """F^-1 Cov(t, l), both integrals by the trapezoidal rule in log x."""
    y = np.linspace(-25, 4, 4000)
    x = np.exp(y)
    w = stats.gamma(SHAPE, scale=1 / RATE).pdf(x) * x * (y[1] - y[0])
    t = np.stack([y, x])
    t = t - (t @ w)[:, None]
    ell = np.logaddexp(0.4 + 1.5 * y - x, -0.5 + 0.2 * y)
    expected = np.linalg.solve((t * w) @ t.T, t @ (w * ell))
    bound = lambda s: jnp.logaddexp(0.4 + 1.5 * s["x"].log - s["x"].value, -0.5 + 0.2 * s["x"].log)
    check(messages(ESTIMATORS[name][0], bound), expected)
    assert (
        np.max(np.abs(messages(vi.estimator.mean_field(), bound)[:, 0] - expected)) > 0.02
    )  # it is not linear


def test_the_number_of_draws_is_the_largest_that_any_global_asks_for():
    """And the bound that is reported their mean: here E of the product of two independent draws'
    values."""
    q = vi.Product({"a": Q["x"], "b": Q["x"]})
    rule = {"a": vi.estimator.reparameterised(3), "b": vi.estimator.ssvi_a()}
    seen = []

    def bound(s, _):
        seen.append(s["a"].value)
        return s["a"].value * s["b"].value, s["b"].value

    message = estimate(rule, ["a", "b"], KEYS[0], q, q, jnp.float32(0.1), bound, {})
    draws = [q.sample_stats(key) for key in jax.random.split(KEYS[0], 3)]
    expected = np.mean([float(d["a"].value * d["b"].value) for d in draws])
    np.testing.assert_allclose(message.value, expected, rtol=1e-5)
    np.testing.assert_allclose(
        message.aux, np.mean([float(d["b"].value) for d in draws]), rtol=1e-5
    )
    np.testing.assert_allclose(
        message.natural["b"].negative_rate, np.mean([float(d["a"].value) for d in draws]), rtol=1e-5
    )


def test_what_asks_for_no_derivative_needs_none():
    """A bound with a loop that cannot be differentiated backwards."""

    def bound(s, _):
        return jax.lax.while_loop(lambda c: c < 10.0, lambda c: c + 1.0, s["x"].value), None

    rule = {"x": vi.estimator.score_function(8)}
    natural = jax.jit(
        lambda key: estimate(rule, ["x"], key, Q, PRIOR, jnp.float32(0.1), bound, {}).natural
    )(KEYS[0])
    assert np.all(np.isfinite(jax.tree.leaves(natural)))


def test_the_registry_has_every_estimator():
    """`at_point` is what each is of a point; least squares and batch and match are of free
    variables (tests/models/energies/test_density.py, tests/inference/test_batch_and_match.py), and
    `langevin` steps of a Markov chain (tests/inference/test_sgrld.py)."""
    exported = {
        x
        for x in vars(vi.estimator).values()
        if isinstance(x, type) and issubclass(x, vi.estimator.Estimator)
    }
    others = {vi.estimator.Estimator, vi.estimator.at_point, vi.estimator.least_squares}
    others |= {vi.estimator.batch_and_match, vi.estimator.langevin}
    assert exported - others == {type(estimator) for estimator, _ in ESTIMATORS.values()}
