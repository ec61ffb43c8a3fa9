"""Bernoullis beyond the laws: certain events."""

from __future__ import annotations

import jax
import numpy as np

from vijax.families import Bernoulli


def test_certain_events_stay_finite() -> None:
    q = Bernoulli.from_probs([0.0, 1.0])
    assert np.all(np.isfinite(q.logit))
    np.testing.assert_allclose(q.probs, [0, 1], atol=1e-37)
    np.testing.assert_allclose(q.log_prob([0, 1]), 0, atol=1e-30)
    assert np.all(q.log_prob([1, 0]) < -87)
    np.testing.assert_allclose(q.entropy(), 0, atol=1e-30)


def test_a_rare_event_keeps_its_digits() -> None:
    """p = 1e-6 in float32: entropy, variance and their like to float32 accuracy."""
    p = 1e-6
    q = Bernoulli.from_probs(p)
    np.testing.assert_allclose(q.entropy(), -p * np.log(p) - (1 - p) * np.log1p(-p), rtol=1e-5)
    np.testing.assert_allclose(q.fisher_product(Bernoulli(1.0)).value, p * (1 - p), rtol=1e-5)


def test_draws_are_zero_or_one() -> None:
    x = Bernoulli.from_probs([0.0, 1.0, 0.5]).sample(jax.random.key(0), (50,))
    np.testing.assert_array_equal(x[:, :2], [[0, 1]] * 50)
    assert set(np.unique(x)) == {0, 1}
