"""Priors at the place and scale of the data: a fit of moved and scaled data is the fit, moved and
scaled."""

import jax
import numpy as np
import pytest

import vijax as vi
from vijax.models import emission

RNG = np.random.default_rng(0)
STATE = np.repeat([0, 1, 0], 40)
ROWS = np.stack([3.0 * STATE + RNG.normal(size=120), RNG.normal(size=120) - STATE], axis=1)
SHIFT, SCALE = np.array([37.0, -50.0]), 0.2


def components(make, rows):
    """At the optimum: where a fit starts goes by what rows hold, and so differs."""
    fit = vi.fit(
        vi.cavi(vi.models.mixture(emission.placed(make, 2, rows))),
        rows,
        num_steps=200,
        key=jax.random.key(0),
    )
    found = fit.posterior["components"].mean()
    order = np.argsort(np.asarray(found.mean)[:, 0].ravel())
    precision = np.asarray(found.precision)
    return np.asarray(found.mean)[
        order
    ], precision if make is emission.tied_gaussian else precision[order]


@pytest.mark.parametrize(
    "make", [emission.full_gaussian, emission.diagonal_gaussian, emission.tied_gaussian]
)
def test_a_mixture_is_equivariant(make):
    with jax.enable_x64(True):
        mean, precision = components(make, ROWS)
        moved, scaled = components(make, SHIFT + SCALE * ROWS)
    np.testing.assert_allclose(moved, SHIFT + SCALE * mean, rtol=1e-6)
    np.testing.assert_allclose(scaled * SCALE**2, precision, rtol=1e-5, atol=1e-6)


def test_one_variance_for_all_columns_follows_a_common_scale():
    prior = emission.placed(emission.spherical_gaussian, 2, ROWS).prior
    moved = emission.placed(emission.spherical_gaussian, 2, 5 + 10 * ROWS).prior
    np.testing.assert_allclose(moved.location, 5 + 10 * prior.location, rtol=1e-5)
    np.testing.assert_allclose(100 * moved.scale, prior.scale, rtol=1e-5)
    unit = emission.placed(emission.unit_gaussian, 2, 37 + ROWS).prior
    np.testing.assert_allclose(unit.mean()[0], 37 + ROWS.mean(axis=0), rtol=1e-5)


def test_missing_numbers_and_padding_say_nothing():
    y, mask = vi.models.pad([ROWS[:70], ROWS[70:]])
    y[0, 3, 0] = np.nan
    prior = emission.placed(emission.full_gaussian, 2, (y, mask)).prior
    np.testing.assert_allclose(
        prior.location[0], [np.delete(ROWS[:, 0], 3).mean(), ROWS[:, 1].mean()], rtol=1e-5
    )


def test_what_cannot_be_placed_is_refused():
    with pytest.raises(ValueError, match="a Gaussian constructor"):
        emission.placed(emission.poisson, 2, ROWS)
    with pytest.raises(ValueError, match="a number in every column"):
        emission.placed(emission.full_gaussian, 2, np.full((3, 1), np.nan))
