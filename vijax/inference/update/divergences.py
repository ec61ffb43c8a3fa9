"""Proximal steps, by divergence (Khan et al. 2016, eq. 9).

    lambda' = argmin <grad f, lambda> + h(lambda) + D(lambda || lambda_t) / beta,    -ELBO = f + h

Each is a function (q, target, size) -> q'. Here -grad ELBO = F(lambda) (lambda - target), and size is the step size in
its row:

| step | D(lambda' || lambda) | h | size | closed form |
|---|---|---|---|---|
| `kl_step` | KL(q' || q) | KL(q' || prior) | rho = beta / (1 + beta) | lambda' = (1 - rho) lambda + rho target |
| `euclidean_step` | |lambda' - lambda|^2 / 2 | 0 | beta | lambda' = lambda + beta F (target - lambda) |
| `mirror_step` | KL(q || q'), Bregman of A | 0 | beta | mu' = mu + beta F (target - lambda) |
| `symmetric_kl_step` | <lambda' - lambda, mu' - mu> | 0 | beta | lambda' = lambda + beta (target - lambda) / 2 |

`symmetric_kl_step` is closed to first order in beta. `kl_step` never leaves the domain with messages inside it; a step
of the others that would is halved until it does not (`mirror_step`), or the algorithm retracts it.
"""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from vijax import tree
from vijax.families import Family

Q = TypeVar("Q", bound=Family)
_HALVINGS, _NEWTON_STEPS = 30, 30


def kl_step(q: Q, target: Q, rho: Float[Array, ""] | float) -> Q:
    """Natural gradient, the proximal step in KL(q' || q): lambda' = (1 - rho) lambda + rho target."""
    return tree.mix(rho, q, target)


def euclidean_step(q: Q, target: Q, rho: Float[Array, ""] | float) -> Q:
    """Plain gradient, the proximal step in |lambda' - lambda|^2 / 2:

    lambda' = lambda + rho F(lambda) (target - lambda).
    """
    return tree.add(q, tree.scale(rho, q.with_naturals(q.fisher_product(tree.subtract(target, q)))))


def symmetric_kl_step(q: Q, target: Q, rho: Float[Array, ""] | float) -> Q:
    """The proximal step in KL(q' || q) + KL(q || q') = <lambda' - lambda, mu' - mu>, to first order in rho:

    lambda' = lambda + rho (target - lambda) / 2.
    """
    return tree.mix(0.5 * rho, q, target)


def mirror_step(q: Q, target: Q, rho: Float[Array, ""] | float) -> Q:
    """Mirror descent, the proximal step in KL(q || q'), the Bregman divergence of A:

    mu' = mu + rho F(lambda) (target - lambda),   lambda' = (grad A)^-1 (mu').

    The mean parameters are inverted by Newton's method. Where mu' is outside their set, no lambda' exists and rho is
    halved until one does.
    """
    mu, slope = q.expected_stats(), q.fisher_product(tree.subtract(target, q))

    def attempt(step: Array) -> tuple[Q, Bool[Array, ""]]:
        return from_expected_stats(q, tree.add(mu, tree.scale(step, slope)))

    def halve(carry: tuple) -> tuple:
        step, _, _, count = carry
        return 0.5 * step, *attempt(0.5 * step), count + 1

    step = jnp.asarray(rho, jnp.result_type(jax.tree.leaves(q)[0]))
    carry = (step, *attempt(step), jnp.int32(0))
    _, new, found, _ = jax.lax.while_loop(lambda c: ~c[2] & (c[3] < _HALVINGS), halve, carry)
    return tree.select(found, new, q)


def from_expected_stats(q: Q, mu: PyTree) -> tuple[Q, Bool[Array, ""]]:
    """The lambda with grad A(lambda) = mu, and True where one was found: Newton's method on A(lambda) - <lambda, mu>.

    Args:
      q: the starting point.
      mu: mean parameters, in the structure of `q.expected_stats()`.

    >>> from vijax.families import Gamma
    >>> mu = Gamma.from_shape_rate(3.0, 2.0).expected_stats()
    >>> q, found = from_expected_stats(Gamma.from_shape_rate(1.0, 1.0), mu)
    >>> bool(found), round(float(q.shape), 3), round(float(q.rate), 3)
    (True, 3.0, 2.0)
    """
    tolerance = 50 * float(jnp.finfo(jax.tree.leaves(mu)[0].dtype).eps)

    def newton(carry: tuple) -> tuple:
        p, _, count = carry
        gap = tree.subtract(mu, p.expected_stats())
        direction = p.fisher_solve(gap)
        return _damped(p, direction, mu), jnp.sum(direction.dot(gap)), count + 1

    start = (q, jnp.full((), jnp.inf, jax.tree.leaves(mu)[0].dtype), jnp.int32(0))
    p, decrement, _ = jax.lax.while_loop(lambda c: (c[1] > tolerance) & (c[2] < _NEWTON_STEPS), newton, start)
    return p, tree.all_finite(p) & (decrement <= tolerance)


def _damped(p: Q, direction: Q, mu: PyTree) -> Q:
    """p + t direction, with t halved from 1 until the point is in the domain and A - <., mu> does not rise."""

    def objective(p: Q) -> Array:
        return jnp.sum(p.log_normalizer() - p.dot(mu))

    start = objective(p)
    slack = 8 * jnp.finfo(start.dtype).eps * (1 + jnp.abs(start))

    def refused(t: Array) -> Bool[Array, ""]:
        moved = tree.add(p, tree.scale(t, direction))
        inside = jnp.all(jnp.array([jnp.all(mask) for mask in tree.parameters(moved.in_domain())]))
        return ~(inside & (objective(moved) <= start + slack))

    one = jnp.ones((), start.dtype)
    t, _ = jax.lax.while_loop(
        lambda c: refused(c[0]) & (c[1] < _HALVINGS), lambda c: (0.5 * c[0], c[1] + 1), (one, jnp.int32(0))
    )
    return tree.add(p, tree.scale(t, direction))
