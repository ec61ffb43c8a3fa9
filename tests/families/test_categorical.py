"""Categoricals and Bernoullis beyond the laws: zeros, the redundant direction, and each other."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from vijax.families import Bernoulli, Categorical, CategoricalStats
from vijax.families.numeric.classes import FEW, log_sum_exp, softmax


def test_zero_probabilities_stay_finite() -> None:
    q = Categorical.from_probs([0.0, 0.25, 0.75])
    assert np.all(np.isfinite(q.logits))
    assert q.probs[0] < 1e-37
    np.testing.assert_allclose(q.entropy(), -(0.25 * np.log(0.25) + 0.75 * np.log(0.75)), rtol=1e-6)
    assert q.log_prob(0) < -87
    gradient = jax.jit(jax.grad(lambda q: q.kl(Categorical.from_probs([0.2, 0.3, 0.5]))))(q)
    assert np.all(np.isfinite(gradient.logits))


def test_a_constant_in_the_logits_changes_nothing() -> None:
    q, shifted = Categorical.from_logits([0.1, -1.0, 2.0]), Categorical.from_logits([5.1, 4.0, 7.0])
    for f in (lambda q: q.probs, lambda q: q.entropy(), lambda q: q.log_prob(1), lambda q: q.kl(q)):
        np.testing.assert_allclose(f(q), f(shifted), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(q.fisher_product(Categorical(jnp.ones(3))).one_hot, 0, atol=1e-7)


def test_fisher_solve_drops_what_is_outside_of_the_range() -> None:
    q = Categorical.from_probs([0.2, 0.3, 0.5])
    g = jnp.array([0.1, 0.2, -0.3])
    solve = lambda g: q.fisher_solve(CategoricalStats(g)).logits
    np.testing.assert_allclose(jnp.sum(q.probs * solve(g)), 0, atol=1e-6)
    np.testing.assert_allclose(solve(g + q.probs), solve(g), atol=1e-6)


def test_two_classes_are_a_bernoulli() -> None:
    two, one = Categorical.from_logits([[0.0, 0.7]]), Bernoulli.from_logit([0.7])
    np.testing.assert_allclose(two.entropy(), one.entropy(), rtol=1e-6)
    np.testing.assert_allclose(two.log_prob(1), one.log_prob(1), rtol=1e-6)
    np.testing.assert_allclose(two.probs[:, 1], one.probs, rtol=1e-6)


def test_draws_take_leading_axes_and_hold_integers() -> None:
    q = Categorical.from_logits(jnp.zeros((4, 3)))
    x = q.sample(jax.random.key(0), (2, 5))
    assert x.shape == (2, 5, 4)
    assert jnp.issubdtype(x.dtype, jnp.integer)
    assert q.stats(x).one_hot.shape == (2, 5, 4, 3)


@pytest.mark.parametrize("num_classes", [1, 2, 3, FEW, FEW + 1])
def test_log_sum_exp_and_softmax(num_classes: int) -> None:
    """Float32 beside SciPy's in float64, derivatives beside p and diag(p) - p p', small
    probabilities relatively."""
    rng = np.random.default_rng(num_classes)
    logits = np.float32(
        rng.normal(size=(200, num_classes)) * 10.0 ** rng.uniform(-2, 1.5, (200, 1))
    )
    logits[::5] += 1e4
    wanted = special.softmax(np.float64(logits), -1)
    np.testing.assert_allclose(
        log_sum_exp(logits), special.logsumexp(np.float64(logits), -1), rtol=3e-7, atol=3e-7
    )
    np.testing.assert_allclose(softmax(logits), wanted, rtol=1e-5, atol=1e-37)
    slope, bend = (
        jax.vmap(jax.grad(log_sum_exp))(logits),
        jax.vmap(jax.hessian(log_sum_exp))(logits),
    )
    np.testing.assert_allclose(slope, wanted, rtol=1e-5, atol=1e-37)
    fisher = wanted[:, :, None] * (np.eye(num_classes) - wanted[:, None, :])
    np.testing.assert_allclose(bend, fisher, atol=3e-7)
    np.testing.assert_allclose(jax.vmap(jax.jacfwd(softmax))(logits), fisher, atol=3e-7)


@pytest.mark.parametrize("num_classes", [2, FEW + 1])
def test_logits_that_are_infinite(num_classes: int) -> None:
    """Classes of probability zero stay so; what has no meaning is NaN, never a number."""
    inf, row = np.inf, np.zeros(num_classes, np.float32)
    first = lambda x: jnp.asarray(np.r_[np.float32(x), row[1:]])
    none = jnp.full(num_classes, -inf)
    np.testing.assert_allclose(log_sum_exp(first(-inf)), np.log(num_classes - 1), rtol=1e-6)
    np.testing.assert_allclose(
        softmax(first(-inf)), np.r_[0, np.ones(num_classes - 1) / (num_classes - 1)], rtol=1e-6
    )
    np.testing.assert_allclose(jax.grad(log_sum_exp)(first(-inf)), softmax(first(-inf)), rtol=1e-6)
    assert log_sum_exp(none) == -inf
    assert log_sum_exp(first(inf)) == inf
    assert jnp.isnan(log_sum_exp(first(np.nan)))
    assert all(jnp.isnan(softmax(x)).any() for x in (none, first(inf), first(np.nan)))
