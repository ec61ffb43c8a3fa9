"""Calibration by simulation of a conjugate normal model, exact and spoilt, the laws of both tests,
and coverage."""

import jax
import numpy as np
import pytest
from scipy import stats

from tests.naming import naming
from vijax.trust import coverage, sbc, symmetry, uniformity

KEY = jax.random.key(0)
PRIOR_SD = np.array([1.0, 3.0])


def rng_of(key):
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def draw_prior(key):
    return {"mu": PRIOR_SD * rng_of(key).normal(size=2), "p": rng_of(key).uniform()}


def simulate(key, truth):
    """Two means seen once with unit noise, and ten tosses of a coin."""
    rng = rng_of(key)
    return truth["mu"] + rng.normal(size=2), rng.binomial(10, truth["p"])


def posterior(width=1.0, shift=0.0):
    def fit_and_sample(key, data):
        (y, heads), rng = data, rng_of(key)
        variance = PRIOR_SD**2 / (1 + PRIOR_SD**2)
        sd = np.sqrt(variance)
        mu = variance * y + shift * sd + width * sd * rng.normal(size=(99, 2))
        return {"mu": mu, "p": rng.beta(1 + heads, 11 - heads, 99)}

    return fit_and_sample


def check(**spoilt):
    return sbc(draw_prior, simulate, posterior(**spoilt), key=KEY, num_simulations=200)


def test_the_exact_posterior_passes():
    found = check()
    assert found.num_draws == 99
    assert found.ranks["mu"].shape == (200, 2)
    assert found.ranks["p"].shape == (200,)
    for test in (found.uniformity, found.symmetry):
        assert test["mu"].shape == (2,)
        assert np.all(test["mu"] > 0.01)
        assert test["p"] > 0.01


def test_a_posterior_too_narrow_fails_but_its_centre_passes():
    """As a mean-field approximation would: what VSBC is for."""
    found = check(width=0.5)
    assert np.all(found.uniformity["mu"] < 1e-4)
    assert np.all(found.symmetry["mu"] > 0.01)
    assert found.uniformity["p"] > 0.01


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_a_posterior_shifted_fails_both(shift):
    found = check(shift=shift)
    assert np.all(found.uniformity["mu"] < 1e-4)
    assert np.all(found.symmetry["mu"] < 1e-4)
    assert np.sign(found.ranks["mu"].mean() - 49.5) == -shift


def test_a_wide_posterior_fails_where_its_ranks_pile_up_in_the_middle():
    found = check(width=2.0)
    assert np.all(found.uniformity["mu"] < 1e-4)
    assert np.all(found.symmetry["mu"] > 0.01)


def test_draws_that_equal_the_truth_are_ranked_at_random():
    """A coin's side under its exact posterior, drawn as 0 or 1: without care the ranks would be
    heaps."""
    side = lambda key: rng_of(key).integers(0, 2)
    draws = lambda key, data: rng_of(key).integers(0, 2, 39)
    found = sbc(side, lambda key, side: None, draws, key=KEY, num_simulations=300)
    assert found.uniformity > 0.01
    assert len(np.unique(found.ranks)) > 30


def test_the_same_key_gives_the_same_ranks():
    again = check().ranks["mu"]
    np.testing.assert_array_equal(check().ranks["mu"], again)


# --- the laws of the tests ------------------------------------------------------------------------
def test_uniformity_is_scipys_chi_square():
    ranks = np.random.RandomState(0).randint(0, 100, size=(400, 2))
    for column, found in zip(ranks.T, uniformity(ranks, 99), strict=True):
        observed = np.histogram(column, 20, (0, 100))[0]
        assert found == pytest.approx(stats.chisquare(observed).pvalue)


def test_uniformity_of_few_draws_has_bins_of_unequal_width():
    """Seven ranks in three bins, of three, two and two."""
    ranks = np.repeat(np.arange(7), [9, 4, 2, 6, 3, 5, 4])
    want = stats.chisquare([15, 9, 9], 33 * np.array([3, 2, 2]) / 7).pvalue
    assert uniformity(ranks, 6) == pytest.approx(want)


def beyond_exactly(distance, steps):
    """The probability that a random walk is ever `distance` from zero, by its transitions."""
    places = np.zeros(2 * distance + 1)
    places[distance] = 1.0
    for _ in range(steps):
        inner = places[1:-1] / 2
        places[1:-1] = 0.0
        places[:-2] += inner
        places[2:] += inner
    return places[0] + places[-1]


@pytest.mark.parametrize("distance", [40, 60, 90])
def test_symmetry_is_the_law_of_a_random_walk(distance):
    """Signs that take the walk of 900 steps just so far; Brownian motion in its place is right to a
    few per cent."""
    steps = 900
    signs = np.r_[np.ones(distance), np.tile([-1, 1], (steps - distance) // 2)]
    sizes = np.arange(steps, 0, -1)
    ranks = ((2 * steps + 1 + signs * (2 * sizes - 1)) // 2).astype(int)
    want = beyond_exactly(distance, steps)
    assert symmetry(ranks, 2 * steps + 1) == pytest.approx(want, rel=0.06, abs=1e-4)


def test_symmetry_rejects_as_often_as_it_says():
    """Yao et al.'s comparison of p with 1 - p as two samples rejects 11 % at the level of 5 %."""
    ranks = np.random.RandomState(0).randint(0, 100, size=(200, 2000))
    found = symmetry(ranks, 99)
    assert np.mean(found < 0.05) == pytest.approx(0.05, abs=0.015)
    np.testing.assert_allclose(symmetry(99 - ranks[:, :5], 99), found[:5])


def test_ranks_in_the_middle_are_symmetric():
    assert symmetry(np.full(30, 5), 10) == 1.0


# --- errors ---------------------------------------------------------------------------------------
def test_ranks_that_cannot_be():
    with pytest.raises(ValueError, match=naming("ranks:", "20", "3")):
        uniformity(np.arange(3), 9)
    with pytest.raises(ValueError, match=naming("ranks:", "0", "9")):
        symmetry(np.arange(30), 9)
    with pytest.raises(ValueError, match=naming("ranks:", "float64")):
        symmetry(np.ones(30), 9)
    with pytest.raises(ValueError, match=naming("num_simulations:", "20", "3")):
        sbc(draw_prior, simulate, posterior(), key=KEY, num_simulations=3)


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (
            lambda: {"b": np.ones((9, 2))},
            r"fit_and_sample: expected draws like the parameters, .*'a'.*, got .*'b'",
        ),
        (
            lambda: {"a": np.ones((2, 9))},
            r"fit_and_sample: expected one axis of draws before the shapes \[\(2,\)\]",
        ),
        (
            lambda: {"a": np.ones(())},
            r"fit_and_sample: expected one axis of draws before the shapes \[\(2,\)\]",
        ),
        (
            lambda: {"a": np.full((9, 2), np.nan)},
            "fit_and_sample, of simulation 0: expected finite numbers",
        ),
    ],
)
def test_draws_unlike_the_parameters(draws, message):
    with pytest.raises(ValueError, match=message):
        sbc(
            lambda key: {"a": np.ones(2)},
            lambda *_: None,
            lambda *_: draws(),
            key=KEY,
            num_simulations=20,
        )


def test_a_number_of_draws_that_changes():
    sizes = iter([9] * 19 + [8])
    with pytest.raises(
        ValueError,
        match=naming("fit_and_sample:", "8", "9"),
    ):
        sbc(
            lambda key: 0.0,
            lambda *_: None,
            lambda *_: np.arange(next(sizes)),
            key=KEY,
            num_simulations=20,
        )


# --- predictive intervals -------------------------------------------------------------------------
def test_intervals_are_those_of_the_law():
    """Draws at the quantiles k / 1000 of a normal: the interval of 80 % ends at 1.2816
    deviations."""
    draws = 3.0 + 2.0 * stats.norm.ppf(np.arange(1, 1000) / 1000)
    ends = 3.0 + 2.0 * stats.norm.ppf([0.25, 0.75, 0.1, 0.9])
    observed = np.r_[ends + 1e-9, ends - 1e-9]
    found = coverage(np.tile(draws[:, None], 8), observed, levels=(0.5, 0.8))
    np.testing.assert_allclose(found.share, [2 / 8, 6 / 8])
    np.testing.assert_allclose(found.standard_error, np.sqrt([0.25 / 8, 0.16 / 8]))


@pytest.mark.parametrize(("num", "level"), [(19, 0.9), (19, 0.5), (3, 0.5)])
def test_few_draws_hold_what_they_should(num, level):
    """Of exchangeable draws and an observation, exactly: plain quantiles of 19 draws would hold 83
    %, not 90 %."""
    rng = np.random.RandomState(0)
    found = coverage(
        rng.standard_normal((num, 100, 300)), rng.standard_normal((100, 300)), levels=[level]
    )
    assert abs(found.share[0] - level) < 4 * found.standard_error[0] < 0.015


def test_predictions_too_narrow_hold_too_few():
    rng = np.random.RandomState(0)
    found = coverage(0.5 * rng.standard_normal((400, 1000)), rng.standard_normal(1000))
    assert np.all(found.share < found.levels - 5 * found.standard_error)
    assert str(found).startswith("0.2")


def test_arrays_that_do_not_fit():
    with pytest.raises(
        ValueError,
        match=naming("draws:", "3", "9"),
    ):
        coverage(np.zeros((9, 2)), np.zeros(3))
    with pytest.raises(ValueError, match="observed: expected finite numbers"):
        coverage(np.zeros((99, 2)), [0.0, np.nan])
    with pytest.raises(ValueError, match=naming("levels:", "0.5", "1.0")):
        coverage(np.zeros((99, 2)), np.zeros(2), levels=(0.5, 1.0))
    with pytest.raises(ValueError, match=naming("draws:", "39 draws", "0.95", "20", "Draw")):
        coverage(np.zeros((20, 2)), np.zeros(2))
