"""Categoricals and Bernoullis beyond the laws: zeros, the redundant direction, and each other."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from vijax.families import Bernoulli, Categorical, CategoricalStats


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
