"""Filtering row by row: against sums over all paths, the batch forward pass, and the score."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from vijax.models import emission

RNG = np.random.default_rng(0)
MEANS = np.array([0.0, 2.0, -2.0])
Y = np.where(RNG.random((7, 1)) < 0.5, 0.0, 2.0) + RNG.normal(size=(7, 2))
Y[3] = np.nan
DATA = Y[None], np.ones((1, 7), bool)


def fitted(algorithm: str = "em", emits=None, data=DATA) -> vi.Fit:
    model = vi.models.hmm(emits or emission.diagonal_gaussian(3, 2))
    return vi.fit(getattr(vi, algorithm)(model), data, num_steps=5, key=jax.random.key(1))


def scanned(online, rows):
    """The states after each row."""
    return jax.jit(
        lambda online, rows: jax.lax.scan(
            lambda state, row: (online.step(state, row),) * 2, online.init(), rows
        )[1]
    )(online, jnp.asarray(rows))


def test_probabilities_and_densities_are_sums_over_all_paths():
    with jax.enable_x64(True):
        fit = fitted()
        states = jax.tree.map(np.asarray, scanned(fit.filter(), Y))
        point = {name: q.mean() for name, q in fit.estimates.items()}
    mean, precision = (np.asarray(x) for x in tuple(point["components"])[:2])
    fits = np.exp([
        [stats.norm(m, p**-0.5).logpdf(row).sum() for m, p in zip(mean, precision, strict=True)]
        for row in Y
    ])  # fmt: skip
    fits = np.where(np.isnan(Y).any(1)[:, None], 1.0, fits)
    initial, transition = np.asarray(point["initial"]), np.asarray(point["transition"])
    before = 0.0
    for t in range(1, 8):
        paths = np.array(list(itertools.product(range(3), repeat=t)))
        weights = initial[paths[:, 0]] * fits[np.arange(t), paths].prod(1)
        weights *= transition[paths[:, :-1], paths[:, 1:]].prod(1)
        probs = np.array([weights[paths[:, -1] == k].sum() for k in range(3)]) / weights.sum()
        total = np.log(weights.sum())
        np.testing.assert_allclose(states.probs[t - 1], probs, atol=1e-12)
        np.testing.assert_allclose(states.next_probs[t - 1], probs @ transition, atol=1e-12)
        np.testing.assert_allclose(states.log_prob[t - 1], total, rtol=1e-10)
        np.testing.assert_allclose(states.log_density[t - 1], total - before, atol=1e-10)
        before = total
    assert states.num_rows.tolist() == list(range(1, 8))


@pytest.mark.parametrize("algorithm", ["em", "cavi"])
def test_the_log_probability_is_the_score(algorithm):
    """At a point, and with predictive densities of a posterior; the filter of float32 beside the
    score in float64."""
    fit = fitted(algorithm)
    states = scanned(fit.filter(), Y)
    score = fit.score(DATA, key=jax.random.key(0))
    np.testing.assert_allclose(states.log_prob[-1], score.log_probs[0], rtol=1e-5)


def test_the_last_row_is_the_end_of_the_smoothed_path():
    """Of EM, whose smoothed probabilities are those of a point; and of many sequences at once."""
    fit = fitted()
    rows = jnp.asarray(np.stack([np.nan_to_num(Y), 1 - np.nan_to_num(Y)]), jnp.float32)
    online = fit.filter()
    states = jax.vmap(lambda rows: scanned(online, rows))(rows)
    smoothed = fit.locals((rows, np.ones((2, 7), bool)), key=jax.random.key(0))["z"].probs
    np.testing.assert_allclose(states.probs[:, -1], smoothed[:, -1], atol=1e-5)


def test_cells_may_be_missing_and_impossible_transitions_stay_so():
    rows = Y.copy()
    rows[1, 0] = np.nan
    data = rows[None], DATA[1]
    model = vi.models.hmm(
        emission.incomplete(emission.full_gaussian(3, 2)),
        starts="? 0 0",
        transitions=["? ? 0", "0 ? ?", "0 0 1"],
    )
    fit = vi.fit(vi.cavi(model), data, num_steps=5, key=jax.random.key(1))
    states = scanned(fit.filter(), rows)
    score = fit.score(data, key=jax.random.key(0))
    np.testing.assert_allclose(states.log_prob[-1], score.log_probs[0], rtol=1e-5)
    assert states.probs[0].tolist() == [1, 0, 0]
    assert states.probs[1, 2] == 0


def test_the_sticky_hdp_has_a_filter_and_mixtures_have_none():
    model = vi.models.hdp_hmm(emission.unit_gaussian(3, 2))
    fit = vi.fit(vi.cavi(model), DATA, num_steps=3, key=jax.random.key(0))
    score = fit.score(DATA, key=jax.random.key(0))
    states = scanned(fit.filter(), Y)
    np.testing.assert_allclose(states.log_prob[-1], score.log_probs[0], rtol=1e-5)
    rows = np.nan_to_num(Y)
    mixture = vi.fit(
        vi.cavi(vi.models.mixture(emission.unit_gaussian(2, 2))),
        rows,
        num_steps=1,
        key=jax.random.key(0),
    )
    with pytest.raises(ValueError, match=r"filter: expected a model that filters states row by"):
        mixture.filter()
    online = fit.filter()
    with pytest.raises(
        ValueError, match=r"row: expected one row of shape \(2,\), got shape \(7, 2"
    ):
        online.step(online.init(), rows)


def labelled_filter():
    labels = np.where(np.arange(7) % 2, np.nan, np.arange(7) % 3)
    rows = np.column_stack([np.nan_to_num(Y), labels])[None]
    emits = emission.with_labels(emission.diagonal_gaussian(3, 2))
    return fitted("cavi", emits, (rows, DATA[1])).filter()


@pytest.mark.parametrize("label", [3.0, -1.0, 0.5])
def test_a_label_that_numbers_no_state_is_refused_or_not_a_number(label):
    online = labelled_filter()
    row = np.array([0.0, 0.0, label])
    with pytest.raises(ValueError, match=r"from 0 to 2 in the last column, or NaN, got"):
        online.step(online.init(), row)
    states = scanned(online, [[0.0, 0.0, np.nan], row, [0.0, 0.0, 1.0]])
    assert np.isnan(states.log_prob).tolist() == [False, True, True]
    assert np.isnan(states.probs).all(axis=1).tolist() == [False, True, True]


def test_infinite_cells_are_refused_and_cells_beside_missing_ones_are_told():
    online = fitted("cavi").filter()
    with pytest.raises(ValueError, match=r"row: expected finite numbers or NaN"):
        online.step(online.init(), np.array([np.inf, 0.0]))
    with pytest.warns(UserWarning, match=r"1 steps that lack only some count as not seen, and 1 c"):
        state = online.step(online.init(), np.array([50.0, np.nan]))
    assert state.log_density == 0


def test_a_score_tells_of_cells_that_it_does_not_read():
    rows = np.nan_to_num(Y)
    rows[2, 0] = np.nan
    fit = fitted("cavi")
    with pytest.warns(UserWarning, match=r"1 of 14 cells are missing; 1 steps that lack only some"):
        fit.score((rows[None], DATA[1]), key=jax.random.key(0))
