"""R-hat and effective numbers of draws against arviz 0.23.4 (`method="rank"`, `method="bulk"`), and
by law."""

import numpy as np
import pytest

from tests.naming import naming
from vijax.trust import bulk_ess, rhat


def chains():
    """Four chains of 201 draws, autocorrelation 0.7, of two quantities; in the second the last
    chain is elsewhere."""
    noise = np.random.RandomState(0).standard_normal((4, 201, 2))
    x = np.zeros_like(noise)
    for t in range(201):
        x[:, t] = 0.7 * x[:, t - 1] + noise[:, t]
    x[3] += [0.0, 1.0]
    return x, np.round(noise[:, :200])


def wide():
    x, _ = chains()
    x[3] *= 3
    return x


@pytest.mark.parametrize(
    ("draws", "want_rhat", "want_ess"),
    [
        (
            chains()[0],
            [1.043605666227038, 1.1149841412370693],
            [141.4631039320032, 30.9409129689441],
        ),
        (wide(), [1.1062463839685626, 1.213619283723854], [195.99200987100545, 23.20538476782682]),
        (
            chains()[1],
            [1.0034001636020555, 1.0017454354228708],
            [789.2307991666697, 827.5915217934797],
        ),
    ],
    ids=["autocorrelated", "one of another width", "rounded, with ties"],
)
def test_numbers_of_arviz(draws, want_rhat, want_ess):
    np.testing.assert_allclose(rhat(draws), want_rhat, rtol=1e-12)
    np.testing.assert_allclose(bulk_ess(draws), want_ess, rtol=1e-10)


def test_the_effective_number_is_that_of_the_law():
    """Autocorrelation r has (1 - r) / (1 + r) as many."""
    noise = np.random.RandomState(1).standard_normal((4, 2000, 5))
    for r in (-0.3, 0.0, 0.6):
        x = noise.copy()
        for t in range(1, 2000):
            x[:, t] = r * x[:, t - 1] + noise[:, t]
        assert bulk_ess(x).mean() == pytest.approx(8000 * (1 - r) / (1 + r), rel=0.1)


def test_ranks_do_not_see_the_scale():
    x = chains()[0]
    np.testing.assert_array_equal(bulk_ess(np.exp(x)), bulk_ess(x))
    assert np.all(np.isfinite(rhat(np.exp(50 * x))))


def test_constants():
    """A quantity that never moves says nothing; one that moves only between chains has not
    converged."""
    same, different = np.ones((4, 20)), np.tile(np.arange(4.0)[:, None], 20)
    assert np.isnan(rhat(same))
    assert np.isnan(bulk_ess(same))
    assert rhat(different) == np.inf
    assert bulk_ess(different) < 10
    both = np.stack([same, different, np.random.RandomState(0).standard_normal((4, 20))], -1)
    assert np.isnan(rhat(both)[0])
    assert np.isfinite(bulk_ess(both)[2])


def test_one_chain_is_judged_by_its_halves():
    drift = np.linspace(0.0, 5.0, 200) + np.random.RandomState(0).standard_normal(200)
    assert rhat(drift[None]) > 1.5
    assert rhat(np.random.RandomState(0).standard_normal((1, 200))) < 1.05


def test_draws_that_cannot_be():
    with pytest.raises(
        ValueError,
        match=naming("draws:", "4 draws"),
    ):
        rhat(np.zeros(9))
    with pytest.raises(ValueError, match=naming("draws:", "10 draws", "2", "9")):
        bulk_ess(np.zeros((2, 9)))
    with pytest.raises(ValueError, match="draws: expected finite numbers"):
        rhat([[0.0, 1.0, np.nan, 2.0]])
