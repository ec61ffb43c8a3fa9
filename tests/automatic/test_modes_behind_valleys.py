"""A mode behind a valley is another one, however many variables there are: draws of many variables
are far from the mean in all directions together, and a mode may be as far along one of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import vijax as vi

KEY = jax.random.key(0)


def two_modes(dim, place, share):
    def log_density(v):
        x = v["w"]
        low = jnp.log(share) + norm.logpdf(x[0], -place, 0.5)
        high = jnp.log(1 - share) + norm.logpdf(x[0], place, 0.5)
        return norm.logpdf(x[1:]).sum() + jnp.logaddexp(low, high)

    return vi.density({"w": vi.free(dim)}, log_density)


def test_a_mode_that_is_not_described_is_told():
    """Eight standard deviations of q away, among 60 variables."""
    fit = vi.auto(two_modes(60, 2.0, 0.3), key=KEY, max_gradients=4000)
    mean = float(np.asarray(fit.sample(KEY, 2000)["w"])[:, 0].mean())
    if abs(mean) > 1.5:  # one of the two
        assert fit.report.others.others == 1
        assert "another mode" in fit.verdict
    else:
        np.testing.assert_allclose(mean, 0.8, atol=0.2)


@pytest.mark.slow
def test_both_modes_of_thirty_variables_are_described():
    fit = vi.auto(two_modes(30, 2.0, 0.6), key=KEY)
    draws = np.asarray(fit.sample(KEY, 20_000)["w"])[:, 0]
    np.testing.assert_allclose(draws.mean(), -0.4, atol=0.1)
    np.testing.assert_allclose(draws.std(), np.sqrt(4 + 0.25 - 0.16), rtol=0.03)
