"""Point estimates of the globals: maximum likelihood and maximum a posteriori, hence EM (Pei 2019, sections 2 to 5).

The state is lambda as ever, prior plus (running) expected statistics; the point is its mode. With a full batch and
step size one that is EM, with minibatches and decreasing steps online EM.
"""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from vijax.families import Product
from vijax.message.base import MessageRule, gradient_rule


def _at_mode(q: Product) -> PyTree:
    return q.stats(q.mode())


def _at_modes(prior: Callable, penalty: Callable, name: str, forgets_prior: bool = False) -> MessageRule:
    at = lambda key, q: _at_mode(q)
    return gradient_rule(at, prior, penalty, _at_mode, name, forgets_prior, is_point=lambda name: True)


def maximum_likelihood() -> MessageRule:
    """grad_s l at the maximum-likelihood point: the prior is replaced by a flat one."""

    def no_penalty(q: Product, prior: Product) -> Float[Array, ""]:
        return 0.0 * q.log_normalizer()

    return _at_modes(lambda p: p.flat(), no_penalty, "mle", forgets_prior=True)


def maximum_a_posteriori() -> MessageRule:
    """grad_s l at the posterior mode, with respect to Lebesgue measure on the mean-value scale of each variable."""

    def minus_log_prior(q: Product, prior: Product) -> Float[Array, ""]:
        log_prob, floored = prior.log_prob(q.mode()), prior.log_prob_of_stats(prior.stats(q.mode()))
        return -jnp.where(jnp.isinf(log_prob), floored, log_prob)  # a mode at the edge keeps a finite penalty

    return _at_modes(lambda p: p, minus_log_prior, "map")
