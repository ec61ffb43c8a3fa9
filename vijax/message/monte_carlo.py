"""Monte Carlo messages for local bounds that are not linear in the statistics (Khan et al. 2016, section 3.2).

    grad_mu E_q[l(t(beta))] = F^-1 grad_lambda E_q[l(t(beta))]

*reparameterised*: F^-1 J' grad_s l at draws, J the pathwise derivative of the draw's statistics (V of structured SVI);
*score function*: F^-1 Cov_q(t(beta), l), which wants no derivative of l and serves discrete variables.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.families import Product
from vijax.families.base import require, require_integers
from vijax.message.base import LocalBound, Message, MessageRule, gradient, kl_penalty, mean_statistics


def monte_carlo(num_samples: int = 8, estimator: str = "reparameterised") -> MessageRule:
    """The natural gradient of E_q[l], averaged over draws; with KL geometry, `pg_svi` for any `vijax.Model`.

    Args:
      num_samples: draws of the globals a step; two or more for the score function, whose baseline is the mean of the
        others.
      estimator: "reparameterised" or "score_function".

    Raises:
      ValueError: too few draws, or an unknown estimator.
    """
    kinds = {"reparameterised": _reparameterised, "score_function": _score_function}
    require(estimator in kinds, "estimator", f"one of {sorted(kinds)}", estimator)
    require_integers(2 if estimator == "score_function" else 1, num_samples=num_samples)
    rule = kinds[estimator]

    def estimate(
        key: PRNGKeyArray, q: Product, prior: Product, rho: Float[Array, ""], bound: LocalBound, theta: PyTree
    ) -> Message:
        del prior, rho
        return rule(jax.random.split(key, num_samples), q, bound, theta)

    return MessageRule(estimate, None, lambda p: p, kl_penalty, mean_statistics, "monte_carlo")


def _reparameterised(keys: PRNGKeyArray, q: Product, bound: LocalBound, theta: PyTree) -> Message:
    def one(key: PRNGKeyArray) -> Message:
        stats, v = q.pathwise_sample(key)
        value, aux, eta_hat, theta_grad = gradient(bound, stats, theta)
        return Message(v(q.as_stats(eta_hat)), value, aux, theta_grad)

    return _averaged(jax.vmap(one)(keys))


def _score_function(keys: PRNGKeyArray, q: Product, bound: LocalBound, theta: PyTree) -> Message:
    mean = q.expected_stats()

    def one(key: PRNGKeyArray) -> tuple[PyTree, Message]:
        stats = q.sample_stats(key)
        (value, aux), theta_grad = jax.value_and_grad(lambda t: bound(stats, t), has_aux=True)(theta)
        return tree.subtract(stats, mean), Message(tree.scale(0.0, q), value, aux, theta_grad)

    centred, said = jax.vmap(one)(keys)
    advantage = (said.value - jnp.mean(said.value)) / (len(keys) - 1)
    covariance = jax.tree.map(lambda t: jnp.tensordot(advantage, t, 1), centred)
    return _averaged(said)._replace(natural=q.fisher_solve(covariance))


def _averaged(draws: Message) -> Message:
    """Means over the leading axis of draws; what the model said keeps its own types."""
    return jax.tree.map(lambda x: jnp.mean(x, 0).astype(x.dtype), draws)
