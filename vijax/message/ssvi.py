"""Structured SVI: messages at a *sample* of the globals (Hoffman and Blei 2015, Algorithm 1).

SSVI    m = V(beta, lambda) eta_hat(beta),   beta ~ q,   V = F^-1 J   (eq. 7, 8): unbiased natural gradient
SSVI-A  m = eta_hat(beta)                    (eq. 10): V replaced by its expectation, the identity
"""

from __future__ import annotations

from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.families import Product
from vijax.families.base import require
from vijax.message.base import LocalBound, Message, MessageRule, gradient, gradient_rule, kl_penalty, mean_statistics


def ssvi_a() -> MessageRule:
    """grad_s l at s = t(beta), beta ~ q."""

    return gradient_rule(lambda key, q: q.sample_stats(key), lambda p: p, kl_penalty, mean_statistics, "ssvi_a")


def ssvi(damping: float = 0.3, control_variate: bool = True) -> MessageRule:
    """V grad_s l at s = t(beta), beta ~ q.

    Args:
      damping: tau in (1 - tau_t) I + tau_t V with tau_t = tau (1 - rho_t): 1 is the SSVI of the paper once steps are
        small, 0 is SSVI-A. V multiplies the message of a coordinate by noise of mean and, where lambda is small, spread
        one; a step of size one would follow it out of the domain, hence the factor 1 - rho_t.
      control_variate: eq. (9), V applied to the whole displacement eta + eta_hat - lambda, whose spread vanishes at
        the fixed point; the same expectation, since E[V] = I.

    Raises:
      ValueError: `damping` outside [0, 1].
    """
    require(0.0 <= damping <= 1.0, "damping", "a number in [0, 1]", damping)

    def estimate(
        key: PRNGKeyArray, q: Product, prior: Product, rho: Float[Array, ""], bound: LocalBound, theta: PyTree
    ) -> Message:
        stats, v = q.pathwise_sample(key)
        value, aux, eta_hat, theta_grad = gradient(bound, stats, theta)
        plain = q.with_naturals(eta_hat)
        offset = tree.subtract(q, prior) if control_variate else tree.scale(0.0, q)
        structured = tree.add(offset, v(q.as_stats(tree.subtract(plain, offset))))
        return Message(tree.mix(damping * (1 - rho), plain, structured), value, aux, theta_grad)

    return MessageRule(estimate, None, lambda p: p, kl_penalty, mean_statistics, "ssvi")
