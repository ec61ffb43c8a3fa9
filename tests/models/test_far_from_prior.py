"""Columns far from the place or the scale that a default prior expects are said, by every model in
one way."""

import warnings

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.contract.expected import FarFromPriorWarning, warn_of_far_columns
from vijax.models import emission

K, D, N = 3, 2, 240
RNG = np.random.default_rng(0)
CENTRES = np.array([[-1.2, 0.0], [1.2, 1.0], [0.0, -1.2]])
ROWS = CENTRES[np.arange(N) % K] + 0.5 * RNG.normal(size=(N, D))
ROWS = (ROWS - ROWS.mean(axis=0)) / ROWS.std(axis=0)
MASK = np.ones((8, N // 8), bool)
X, Y = np.column_stack([np.ones(N), RNG.normal(size=N)]), RNG.normal(size=N)


def as_rows(scale, place):
    return place + scale * ROWS


def as_steps(scale, place):
    return as_rows(scale, place).reshape(8, -1, D), MASK


def as_responses(scale, place):
    return X, place + scale * Y


def as_groups(scale, place):
    return X.reshape(8, -1, 2), (place + scale * Y).reshape(8, -1), MASK


def as_counts(scale, place):
    return np.random.default_rng(1).poisson(np.maximum(place + scale, 1.0), (N, D)).astype(float)


GAUSSIAN = [
    "full_gaussian",
    "tied_gaussian",
    "diagonal_gaussian",
    "spherical_gaussian",
    "unit_gaussian",
]
SMALL, FAR, FAR_AND_SMALL, LARGE = (1e-3, 0.0), (1.0, 60.0), (0.2, 37.0), (1e4, 0.0)
CASES = {
    **{
        f"mixture of {name}": (
            lambda name=name: vi.models.mixture(getattr(emission, name)(K, D)),
            as_rows,
            [SMALL, FAR_AND_SMALL, *([LARGE] if name == "unit_gaussian" else [FAR])],
            [(1.0, 5.0), *([] if name == "unit_gaussian" else [LARGE])],
        )
        for name in GAUSSIAN
    },
    "dp_mixture": (
        lambda: vi.models.dp_mixture(emission.full_gaussian(K, D)),
        as_rows,
        [FAR_AND_SMALL],
        [LARGE],
    ),
    "hmm": (
        lambda: vi.models.hmm(emission.full_gaussian(K, D)),
        as_steps,
        [FAR_AND_SMALL, FAR],
        [(1.0, 5.0)],
    ),
    "hdp_hmm": (
        lambda: vi.models.hdp_hmm(emission.full_gaussian(K, D)),
        as_steps,
        [FAR_AND_SMALL],
        [(1.0, 5.0)],
    ),
    "counts": (
        lambda: vi.models.mixture(emission.poisson(K, D)),
        as_counts,
        [(0.0, 1e5)],
        [(0.0, 30.0)],
    ),
    "factor_analysis": (
        lambda: vi.models.factor_analysis(D, 1),
        as_rows,
        [SMALL, FAR, LARGE],
        [(1.0, 1.0)],
    ),
    "state_space": (
        lambda: vi.models.linear_gaussian_state_space(D, 2),
        as_steps,
        [SMALL, (0.2, 60.0)],
        [LARGE],
    ),
    "arhmm": (lambda: vi.models.arhmm(D, 2), as_steps, [SMALL, FAR], [LARGE]),
    "slds": (lambda: vi.models.slds(D, 2, 2), as_steps, [SMALL, (0.2, 60.0)], [LARGE]),
    "recurrent_slds": (lambda: vi.models.recurrent_slds(D, 2, 2), as_steps, [SMALL], [LARGE]),
    "factorial_hmm": (lambda: vi.models.factorial_hmm(D, 2, 2), as_steps, [SMALL], [LARGE]),
    "ard_regression": (
        lambda: vi.models.ard_regression(2),
        as_responses,
        [(2e-6, 0.0)],
        [(1.0, 1e6), LARGE],
    ),
    "hierarchical": (
        lambda: vi.models.hierarchical_linear_regression(2),
        as_groups,
        [SMALL],
        [LARGE],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_columns_far_from_the_prior_are_said_and_others_are_not(name):
    make, data, far, near = CASES[name]
    model = make()
    for at in far:
        with pytest.warns(
            FarFromPriorWarning,
            match=naming("data:", " 0 (mean", "deviation", "nats"),
        ):
            warn_of_far_columns(model, data(*at))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for at in [(1.0, 0.0) if data is not as_counts else (0.0, 3.0), *near]:
            warn_of_far_columns(model, data(*at))


def test_what_is_said_is_what_is_lost():
    """The expected cost is near the fall of the held-out density, and the remedy mends it."""
    far = as_rows(0.2, 37.0)
    own = [
        vi.models.mixture(emission.full_gaussian(K, D)),
        vi.models.mixture(emission.placed(emission.full_gaussian, K, far)),
    ]
    with pytest.warns(
        FarFromPriorWarning,
        match=naming("1", "Make", "vijax.models"),
    ):
        fits = [
            vi.fit(vi.cavi(model), far[::2], num_steps=30, key=jax.random.key(0)) for model in own
        ]
    lost = (
        fits[1].score(far[1::2], key=jax.random.key(0)).mean
        - fits[0].score(far[1::2], key=jax.random.key(0)).mean
    )
    assert 0.5 < lost < 2.6  # of two columns that vary together


def test_nothing_is_said_where_no_prior_is_used_or_columns_were_placed():
    far = as_rows(0.2, 37.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vi.fit(
            vi.em(vi.models.mixture(emission.full_gaussian(K, D))),
            far,
            num_steps=1,
            key=jax.random.key(0),
        )
        for make in (emission.full_gaussian, emission.tied_gaussian, emission.diagonal_gaussian):
            warn_of_far_columns(vi.models.mixture(emission.placed(make, K, far)), far)
        warn_of_far_columns(
            vi.models.hmm(emission.placed(emission.spherical_gaussian, K, far)),
            (far[None], MASK.reshape(1, -1)),
        )


def test_missing_entries_and_single_rows_have_no_scale():
    one = np.array([[37.0, np.nan]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_far_columns(
            vi.models.factor_analysis(D, 1), np.where(RNG.random(ROWS.shape) < 0.5, np.nan, ROWS)
        )
        warn_of_far_columns(vi.models.factor_analysis(D, 1), one)
        warn_of_far_columns(
            vi.models.mixture(emission.full_gaussian(K, D)), one[:, :1].repeat(2, 1)
        )
