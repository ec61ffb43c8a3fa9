"""ARD regression against Drugowitsch's updates and bound, written out in NumPy."""

import jax
import numpy as np
import pytest
from scipy.special import gammaln

import vijax as vi
from tests.rounding import rounding

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 4))
Y = X @ np.array([2.0, 0.0, -1.0, 0.0]) + 0.3 * RNG.normal(size=40)
A0, B0, C0, D0 = 0.5, 0.7, 0.6, 0.3


def drugowitsch(steps):
    """The appendix, update by update; and its lower bound (arXiv 1310.5438, eq. 33) at the end of
    each sweep."""
    n, d = X.shape
    relevance, bounds = np.full(d, C0 / D0), []
    for _ in range(steps):
        precision = np.diag(relevance) + X.T @ X
        v = np.linalg.inv(precision)
        w = v @ X.T @ Y
        a, b = A0 + n / 2, B0 + 0.5 * (Y @ Y - w @ precision @ w)
        c, dd = C0 + 0.5, D0 + 0.5 * (w**2 * a / b + np.diag(v))
        relevance = c / dd
        bounds.append(
            -n / 2 * np.log(2 * np.pi)
            - 0.5 * (a / b * np.sum((Y - X @ w) ** 2) + np.sum((X @ v) * X))
            + 0.5 * np.linalg.slogdet(v)[1]
            + d / 2
            - gammaln(A0) + A0 * np.log(B0) - B0 * a / b + gammaln(a) - a * np.log(b) + a
            + d * (-gammaln(C0) + C0 * np.log(D0)) + np.sum(gammaln(c) - c * np.log(dd))
        )  # fmt: skip
    return w, v, a, b, c, dd, bounds


def test_updates_and_bound_are_those_of_the_appendix():
    with jax.enable_x64(True):
        model = vi.models.ard_regression(4, A0, B0, C0, D0)
        fit = vi.fit(vi.cavi(model), (X, Y), num_steps=30, key=jax.random.key(0))
        q = fit.posterior
        w, v, a, b, c, d, bounds = drugowitsch(30)
        np.testing.assert_allclose(q["coefficients"].location, w, rtol=1e-8, atol=rounding(w))
        np.testing.assert_allclose(
            np.linalg.inv(q["coefficients"].strength), v, rtol=1e-8, atol=rounding(v)
        )
        np.testing.assert_allclose(
            [q["coefficients"].shape, q["coefficients"].rate], [a, b], rtol=1e-8
        )
        np.testing.assert_allclose(q["relevance"].shape, np.full(4, c), rtol=1e-8)
        np.testing.assert_allclose(q["relevance"].rate, d, rtol=1e-8)
        # The trace is of the states before each step: entry t + 1 is the bound after t + 1 sweeps.
        np.testing.assert_allclose(fit.trace["elbo"][1:], bounds[:-1], rtol=1e-9)
        assert np.all(np.diff(fit.trace["elbo"]) >= -1e-9 * np.abs(fit.trace["elbo"][1:]))


def test_minibatches_reach_the_same_coefficients():
    x, y = np.tile(X, (10, 1)).astype(np.float32), np.tile(Y, 10).astype(np.float32)
    model = vi.models.ard_regression(4)
    full = vi.fit(vi.cavi(model), (x, y), num_steps=50, key=jax.random.key(0)).posterior[
        "coefficients"
    ]
    svi = vi.fit(
        vi.svi(model), (x, y), num_epochs=60, batch_size=40, key=jax.random.key(0)
    ).posterior["coefficients"]
    np.testing.assert_allclose(svi.location, full.location, atol=0.03)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (X, r"a pair \(x, y\), got ndarray"),
        ((X, Y[:3]), r"x of shape \(N, 4\) and y of shape \(N,\), got \(40, 4\) and \(3,\)"),
        (
            (np.where(np.arange(40)[:, None] == 7, np.nan, X), Y),
            r"got 1 rows that are not, the first row 7",
        ),
    ],
)
def test_bad_data(data, message):
    with pytest.raises(ValueError, match=message):
        vi.fit(vi.cavi(vi.models.ard_regression(4)), data, num_steps=1, key=jax.random.key(0))
