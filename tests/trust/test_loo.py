"""Leave-one-out against its exact value in a conjugate model and against arviz 0.23.4; the WAIC by
hand."""

import numpy as np
import pytest
from scipy import stats

from tests.naming import naming
from vijax.trust import loo, waic

NUM = 20
Y = stats.norm.ppf((np.arange(NUM) + 0.5) / NUM) * 1.2 + 0.3
POSTERIOR = stats.norm(Y.sum() / (NUM + 1), (NUM + 1) ** -0.5)  # y ~ N(mu, 1), mu ~ N(0, 1)
GRID = (np.arange(4000) + 0.5) / 4000
WIDE = stats.norm(POSTERIOR.mean() + 0.1, 1.3 * POSTERIOR.std())  # an approximation that is wrong
LAWS = {"posterior": POSTERIOR, "approximation": WIDE}


def drawn(name):
    """Log likelihoods at quantiles of the law, and log ratios where they are needed."""
    mu = LAWS[name].ppf(GRID)
    ratios = None if name == "posterior" else POSTERIOR.logpdf(mu) - WIDE.logpdf(mu) + 40.0
    return stats.norm(mu[:, None], 1).logpdf(Y), ratios


def exact():
    """log p(y_n | the others)."""
    others = (Y.sum() - Y) / NUM
    return stats.norm(others, np.sqrt(1 + 1 / NUM)).logpdf(Y)


@pytest.mark.parametrize("name", LAWS)
def test_leave_one_out_is_exact_in_a_conjugate_model(name):
    log_lik, ratios = drawn(name)
    found = loo(log_lik, log_ratios=ratios)
    np.testing.assert_allclose(found.pointwise, exact(), atol=0.004)
    assert found.elpd == pytest.approx(exact().sum(), abs=0.01)
    assert found.standard_error == pytest.approx(np.sqrt(NUM) * exact().std(ddof=1), rel=0.01)
    own = stats.norm(POSTERIOR.mean(), np.sqrt(1 + POSTERIOR.var())).logpdf(Y).sum()
    assert found.p_eff == pytest.approx(own - exact().sum(), abs=0.01)
    assert found.khat.shape == (NUM,)
    assert found.khat.max() < 0.5


def test_draws_of_an_approximation_without_their_ratios_are_another_posterior():
    assert abs(loo(drawn("approximation")[0]).p_eff - loo(drawn("posterior")[0]).p_eff) > 0.2


@pytest.mark.parametrize("name", LAWS)
def test_waic_of_a_conjugate_model(name):
    """The variance of a quadratic log likelihood under a normal posterior: v^2 / 2 + v (y -
    m)^2."""
    log_lik, ratios = drawn(name)
    found = waic(log_lik, log_ratios=ratios)
    m, v = POSTERIOR.mean(), POSTERIOR.var()
    variance = v**2 / 2 + v * (Y - m) ** 2
    np.testing.assert_allclose(found.p_eff_pointwise, variance, rtol=0.02)
    own = stats.norm(m, np.sqrt(1 + v)).logpdf(Y)
    np.testing.assert_allclose(found.pointwise, own - variance, atol=0.003)
    assert found.khat is None


def test_numbers_of_arviz():
    """Its standard error divides by N, not N - 1, and its variance by S."""
    rng = np.random.RandomState(0)
    rng.standard_normal((4, 201, 2))
    log_lik = -0.5 * (0.3 * rng.standard_normal((500, 1)) - 2 * rng.standard_normal(6)) ** 2 - 0.9
    found = loo(log_lik)
    want = [-23.229445246717212, 6.264198823939384 * np.sqrt(6 / 5), 2.7921775761136374]
    np.testing.assert_allclose(found[:3], want, rtol=1e-10)
    khat = [
        0.08307072771862199,
        0.10109099542282475,
        0.21043137648753862,
        0.17155034879381267,
        0.1342321639814029,
    ]
    np.testing.assert_allclose(found.khat[:5], khat, rtol=1e-9)
    criterion = waic(log_lik)
    np.testing.assert_allclose(criterion.p_eff * 499 / 500, 2.7973084476280943, rtol=1e-10)
    np.testing.assert_allclose(
        criterion.elpd + criterion.p_eff, -23.234576118231672 + 2.7973084476280943, rtol=1e-10
    )


def test_draws_of_no_weight_say_nothing():
    """Their likelihood may be zero; a posterior has none such."""
    log_lik, ratios = drawn("approximation")
    more = np.vstack([log_lik, np.full(NUM, -np.inf)]), np.append(ratios, -np.inf)
    np.testing.assert_array_equal(
        loo(more[0], log_ratios=more[1]).pointwise, loo(log_lik, log_ratios=ratios).pointwise
    )
    with pytest.raises(
        ValueError,
        match=naming("log_lik:", "0", "1", "2", "3"),
    ):
        loo(more[0])


def test_one_group_has_no_standard_error():
    assert loo(drawn("posterior")[0][:, :1]).standard_error == np.inf
    assert "1 groups" in str(waic(drawn("posterior")[0][:, :1]))


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=naming("log_lik:", "(draws, groups)", "(5,)")):
        loo(np.zeros(5))
    with pytest.raises(
        ValueError,
        match=naming("log_ratios:", "5 draws", "4"),
    ):
        waic(np.zeros((5, 2)), log_ratios=np.zeros(4))
    with pytest.raises(
        ValueError,
        match="log_ratios: expected two draws or more at which the posterior is not zero",
    ):
        loo(np.zeros((2, 2)), log_ratios=[0.0, -np.inf])
