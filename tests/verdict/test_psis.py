"""Smoothed importance weights against arviz 0.23.4 (`psislw`) and SciPy's generalised Pareto, and
hard ratios."""

import numpy as np
import pytest
from scipy import stats

from tests.naming import naming
from vijax.trust import in_words, psis
from vijax.verdict.psis import GeneralisedPareto, fit_pareto


def draws(num, seed=0):
    return np.random.RandomState(seed).standard_normal(
        num
    )  # a stream that NumPy promises never to change


@pytest.mark.parametrize(
    ("scale", "num", "khat", "largest", "ess", "mean"),
    [
        (
            0.3,
            1000,
            -0.1166268858604893,
            0.002217942936861369,
            914.6587125705214,
            0.07487860155207574,
        ),
        (2.0, 1000, 0.5495312684267079, 0.04270730280149087, 85.67905341306324, 3.379092207614922),
        (5.0, 1000, 1.8627302465466975, 0.19743541808782886, 7.759891695784566, 12.573168843254866),
        (1.0, 60, 0.12600451219805936, 0.0851968702045435, 24.998364643604265, 1.1306937126820449),
    ],
)
def test_normal_log_ratios_are_smoothed_as_arviz_does(scale, num, khat, largest, ess, mean):
    log_ratios = scale * draws(num)
    found = psis(log_ratios + 700.0)
    weights = np.exp(found.log_weights)
    got = [found.khat, weights.max(), found.ess, weights @ log_ratios]
    np.testing.assert_allclose(got, [khat, largest, ess, mean], rtol=1e-10)
    np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)


@pytest.mark.parametrize("k", [0.2, 0.5, 0.9])
def test_tails_of_known_shape(k):
    """Excesses of a generalised Pareto have the same shape; the prior moves the estimate to (n k +
    5) / (n + 10)."""
    rng, count = np.random.RandomState(1), np.ceil(3 * np.sqrt(4000))
    found = [psis(np.log(stats.genpareto(k).ppf(rng.uniform(size=4000)))).khat for _ in range(30)]
    assert np.mean(found) == pytest.approx(
        (count * k + 5) / (count + 10), abs=4 * np.std(found) / np.sqrt(30)
    )
    assert np.std(found) / np.sqrt(30) < 0.03


@pytest.mark.parametrize("k", [-0.7, -1e-9, 0.0, 1e-9, 0.3, 2.0])
def test_quantiles_are_scipys(k):
    p = np.array([1e-6, 0.1, 0.5, 0.999])
    got = np.exp(GeneralisedPareto(k, np.log(3.0)).log_quantile(p))
    np.testing.assert_allclose(got, stats.genpareto(k, scale=3.0).ppf(p), rtol=1e-7)


@pytest.mark.parametrize("k", [-0.3, 0.0, 0.7])
def test_the_fit_is_near_maximum_likelihood(k):
    """Without the prior; for as many observations the two estimators agree to a fraction of their
    standard error."""
    x = np.sort(stats.genpareto(k, scale=2.0).ppf((np.arange(2000) + 0.5) / 2000))
    law = fit_pareto(np.log(x))
    shape, _, scale = stats.genpareto.fit(x, floc=0.0)
    assert (law.k * 2010 - 5) / 2000 == pytest.approx(shape, abs=0.005)
    assert np.exp(law.log_sigma) == pytest.approx(scale, rel=0.005)


def sums_to_one(found):
    return (
        np.exp(found.log_weights).sum() == pytest.approx(1.0, rel=1e-12)
        and not np.isnan(found.log_weights).any()
    )


@pytest.mark.parametrize(
    "log_ratios",
    [
        1e3 * draws(4000),
        1e3 * draws(100),
        np.linspace(-1e3, 0.0, 4000),
        np.linspace(0.0, 1e3, 30),
        1e300 * draws(500),
        np.r_[draws(3999), 1e5],
    ],
)
def test_ratios_spread_over_hundreds_of_nats_are_useless_and_their_weights_finite(log_ratios):
    found = psis(log_ratios)
    assert sums_to_one(found)
    assert 1 < found.khat < np.inf
    assert "useless" in in_words(found.khat)
    assert found.log_weights[np.argmax(log_ratios)] == found.log_weights.max()


def test_ratios_of_minus_infinity_have_no_weight():
    log_ratios = draws(1000)
    without = psis(log_ratios)
    log_ratios[np.argmin(log_ratios)] = -np.inf
    found = psis(log_ratios)
    assert sums_to_one(found)
    assert found.khat == without.khat
    assert np.isneginf(found.log_weights).sum() == 1


@pytest.mark.parametrize(
    "log_ratios",
    [
        np.zeros(1000),
        np.full(1000, -1e6),
        np.r_[np.full(990, -np.inf), np.zeros(10)],
        np.r_[np.zeros(900), np.repeat([1.0, 2.0, 3.0, 4.0], 25)],
        draws(20),
        np.zeros(1),
    ],
)
def test_what_cannot_be_judged_has_an_infinite_khat_and_raw_weights(log_ratios):
    found = psis(log_ratios)
    assert found.khat == np.inf
    raw = np.exp(log_ratios - log_ratios.max())
    np.testing.assert_allclose(np.exp(found.log_weights), raw / raw.sum(), rtol=1e-12)
    assert found.ess == pytest.approx(raw.sum() ** 2 / (raw**2).sum())


def test_five_distinct_values_in_the_tail_are_enough():
    """As ties of a Metropolis-Hastings chain are."""
    assert np.isfinite(psis(np.r_[np.zeros(900), np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 18)]).khat)
    assert np.isfinite(psis(draws(21)).khat)


@pytest.mark.parametrize(
    ("log_ratios", "message"),
    [
        (
            [0.0, np.inf],
            r"numbers, or -inf where the posterior is zero, got 1 that are NaN or \+inf, of 2\. "
            r"\+inf is",
        ),
        ([np.nan, 0.0, np.nan], "numbers, or -inf where the posterior is zero, got 2 that are NaN"),
        ([-np.inf, -np.inf], "a draw at which the posterior is not zero, got -inf at all 2"),
        (np.zeros((3, 2)), r"one number for each draw, shape \(S,\), got shape \(3, 2\)"),
        ([], r"one number for each draw, shape \(S,\), got shape \(0,\)"),
    ],
)
def test_what_are_no_ratios(log_ratios, message):
    with pytest.raises(ValueError, match=f"^log_ratios: expected {message}"):
        psis(log_ratios)


@pytest.mark.parametrize(
    ("khat", "says", "of_means"),
    [
        (-0.2, "k-hat -0.20: good", False),
        (0.3, "k-hat 0.30: good", False),
        (0.6, "k-hat 0.60: usable", False),
        (0.85, "k-hat 0.85: importance weights are unreliable", True),
        (1.5, "k-hat 1.50: importance weights are useless", True),
        (np.inf, "k-hat inf: importance weights cannot be judged", False),
    ],
)
def test_words(khat, says, of_means):
    assert in_words(khat).startswith(says)
    assert ("does not say that means are wrong" in in_words(khat)) == of_means


def test_no_words_for_nan():
    with pytest.raises(ValueError, match=naming("khat:", "nan")):
        in_words(float("nan"))
