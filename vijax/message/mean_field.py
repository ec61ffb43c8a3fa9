"""Mean field: the gradient at the expected statistics s = E_q[t(beta)] (Blei, Kucukelbir and McAuliffe 2017, eq. 41;
Pei 2019, section on SVI)."""

from __future__ import annotations

from vijax.message.base import MessageRule, gradient_rule, kl_penalty, mean_statistics


def mean_field() -> MessageRule:
    """grad_s l at s = E_q[t(beta)]: with KL geometry, CAVI on full data and SVI on minibatches."""
    return gradient_rule(lambda key, q: q.expected_stats(), lambda p: p, kl_penalty, mean_statistics, "mean_field")
