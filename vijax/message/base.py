"""The message: an estimate of grad_mu E_q[l], as a natural-parameter direction.

A `MessageRule` is one way of estimating the message. It sees the scaled local bound f(stats, theta), theta being
whatever hyperparameters are learnt beside the globals, and differentiates it; no rule knows any model's algebra.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.families import Product

LocalBound = Callable[[PyTree, PyTree], tuple[Float[Array, ""], Any]]


class Message(NamedTuple):
    """Attributes:
    natural: the message, a natural-parameter direction in the structure of q.
    value: the scaled local bound where it was evaluated.
    aux: whatever the bound returned beside its value.
    theta_grad: its gradient in the learnt hyperparameters.
    """

    natural: Product
    value: Float[Array, ""]
    aux: Any
    theta_grad: PyTree


class MessageRule(NamedTuple):
    """Attributes:
    estimate: (key, q, prior, rho, bound, theta) -> `Message`; rho is the size of the step the message is for.
    at: (key, q) -> the statistics where the gradient is taken, of rules that do no more than that; else None.
    prior: the prior, as the natural parameters towards which a step pulls (MLE forgets it).
    penalty: (q, prior) -> what the objective subtracts from the local bound: KL(q || prior), or minus the log prior
      density at a point.
    point: q -> statistics at which the rule evaluates the model without noise (held-out use).
    name: the name the literature uses.
    forgets_prior: whether `prior` forgets the prior of some global.
    is_point: whether the rule finds a point for the global of a name, and no distribution.
    """

    estimate: Callable[[PRNGKeyArray, Product, Product, Float[Array, ""], LocalBound, PyTree], Message]
    at: Callable[[PRNGKeyArray, Product], PyTree] | None
    prior: Callable[[Product], Product]
    penalty: Callable[[Product, Product], Float[Array, ""]]
    point: Callable[[Product], PyTree]
    name: str
    forgets_prior: bool = False
    is_point: Callable[[str], bool] = lambda name: False


def kl_penalty(q: Product, prior: Product) -> Float[Array, ""]:
    """KL(q || prior)."""
    return q.kl(prior)


def mean_statistics(q: Product) -> PyTree:
    """E_q[t(beta)]; one function for all rules that evaluate the model there, so that they share its programs."""
    return q.expected_stats()


def gradient(bound: LocalBound, stats: PyTree, theta: PyTree) -> tuple[Float[Array, ""], Any, PyTree, PyTree]:
    """Value, aux, gradient in the statistics, gradient in theta."""
    (value, aux), (stats_grad, theta_grad) = jax.value_and_grad(bound, argnums=(0, 1), has_aux=True)(stats, theta)
    return value, aux, stats_grad, theta_grad


def gradient_rule(
    at: Callable[[PRNGKeyArray, Product], PyTree],
    prior: Callable[[Product], Product],
    penalty: Callable[[Product, Product], Float[Array, ""]],
    point: Callable[[Product], PyTree],
    name: str,
    forgets_prior: bool = False,
    is_point: Callable[[str], bool] = lambda name: False,
) -> MessageRule:
    """The rule whose message is the gradient of the bound at the statistics `at(key, q)`, relabelled as natural
    parameters; the other arguments are those of `MessageRule`."""

    def estimate(
        key: PRNGKeyArray, q: Product, base: Product, rho: Float[Array, ""], bound: LocalBound, theta: PyTree
    ) -> Message:
        del base, rho
        value, aux, stats_grad, theta_grad = gradient(bound, at(key, q), theta)
        return Message(q.with_naturals(stats_grad), value, aux, theta_grad)

    return MessageRule(estimate, at, prior, penalty, point, name, forgets_prior, is_point)
