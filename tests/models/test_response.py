"""Expectations and intervals of observations against SciPy's quantiles and a sum over many values
of the predictor."""

import numpy as np
import pytest
from scipy import stats

import vijax as vi
from tests.naming import naming
from vijax.models.regressions.predictor_draws import response


@pytest.mark.parametrize(
    ("likelihood", "quantile"),
    [
        (vi.likelihood.gaussian(2.0), lambda p, z: stats.norm.ppf(p, z, np.sqrt(2.0))),
        (vi.likelihood.student_t(4, 0.7), lambda p, z: stats.t.ppf(p, 4, z, 0.7)),
        (vi.likelihood.gamma_log(3.0), lambda p, z: stats.gamma.ppf(p, 3.0, scale=np.exp(z) / 3)),
        (vi.likelihood.poisson_log(), lambda p, z: stats.poisson.ppf(p, np.exp(z))),
        (
            vi.likelihood.negative_binomial(2.0),
            lambda p, z: stats.nbinom.ppf(p, 2.0, 2 / (2 + np.exp(z))),
        ),
    ],
    ids=lambda case: getattr(case, "name", ""),
)
def test_intervals_of_a_known_predictor_are_quantiles_of_the_likelihood(likelihood, quantile):
    z = np.array([-1.0, 0.5, 2.0])
    found = response(likelihood, z, np.full(3, 1e-8), level=0.9)
    np.testing.assert_allclose(found.low, quantile(0.05, z), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found.high, quantile(0.95, z), rtol=1e-4, atol=1e-4)


def test_intervals_average_over_what_is_not_known_of_the_predictor():
    m, v = np.array([2.0]), np.array([0.5])
    found = response(vi.likelihood.poisson_log(), m, v)
    np.testing.assert_allclose(found.mean, np.exp(2.25), rtol=1e-5)
    z = m + np.sqrt(v) * stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    below = lambda y: stats.poisson.cdf(y, np.exp(z)).mean()
    for end, level in ((found.low, 0.025), (found.high, 0.975)):
        y = int(end[0])
        assert below(y - 1) < level + 0.005
        assert below(y) > level - 0.005
    both = response(vi.likelihood.gaussian(3.0), np.zeros(1), np.ones(1))
    np.testing.assert_allclose(both.high, 2 * stats.norm.ppf(0.975), rtol=3e-3)


def test_a_likelihood_of_one_s_own_has_to_know_its_mean():
    own = vi.likelihood.base.as_likelihood(lambda y, z: -((y - z) ** 2))
    with pytest.raises(ValueError, match=naming("likelihood:", "knows")):
        response(own, np.zeros(1), np.ones(1))
    with pytest.raises(ValueError, match=naming("level:", "0", "1")):
        response(vi.likelihood.gaussian(1.0), np.zeros(1), np.ones(1), level=95)
