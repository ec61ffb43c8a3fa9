"""Mean field: the gradient at the expected statistics s = E_q[t(beta)] (seed 002, eq. 41; seed 003, section on SVI)."""

from __future__ import annotations

from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.families import Product
from vijax.message.base import LocalBound, Message, MessageRule, kl_penalty, message_at


def mean_field() -> MessageRule:
    """grad_s l at s = E_q[t(beta)]: with KL geometry, CAVI on full data and SVI on minibatches."""

    def estimate(
        key: PRNGKeyArray, q: Product, prior: Product, rho: Float[Array, ""], bound: LocalBound, theta: PyTree
    ) -> Message:
        del key, prior, rho
        return message_at(q, q.expected_stats(), bound, theta)

    return MessageRule(estimate, lambda p: p, kl_penalty, lambda q: q.expected_stats(), "mean_field")
