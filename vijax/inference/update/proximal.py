"""Proximal steps, by divergence (Khan et al. 2016, eq. 9), and trust regions.

    lambda' = argmin <grad f, lambda> + h(lambda) + D(lambda || lambda_t) / beta,    -ELBO = f + h

Here -grad ELBO = F(lambda) (lambda - target). The step size is beta, or rho = beta / (1 + beta):

| update | D(lambda' || lambda) | h | size |
|---|---|---|---|
| `kl` | KL(q' || q) | KL(q' || prior) | rho |
| `euclidean` | |lambda' - lambda|^2 / 2 | 0 | beta |
| `mirror` | KL(q || q'), Bregman of A | 0 | beta |
| `symmetric_kl` | <lambda' - lambda, mu' - mu> | 0 | beta |

`kl` stays in the domain if the messages are inside it. A step of another update that leaves the
domain is halved until it stays inside (`mirror`), or retracted by the algorithm."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from vijax import tree
from vijax.arguments import Positive, check_arguments
from vijax.families import Family
from vijax.inference.update.base import Q, Update

_HALVINGS, _NEWTON_STEPS = 30, 30


@dataclasses.dataclass(frozen=True)
class proximal(Update):
    """Your own proximal step, in a divergence that vijax does not have.

    Args:
      step: (q, target, size) -> q', the solution of eq. 9 of Khan et al. 2016.
      size: "rho" if the step size is rho = beta / (1 + beta), at most 1; "beta" if it is beta.
    """

    step: Callable[[Any, Any, Any], Any]
    size: str = "rho"  # type: ignore[misc]

    def propose(
        self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Q, PyTree]:
        return self.step(q, target, size), memory


@dataclasses.dataclass(frozen=True)
class _ProximalStep(Update):
    """A proximal step without settings; two objects of one class are equal."""

    @staticmethod
    @abc.abstractmethod
    def solve(q: Q, target: Q, size: Float[Array, ""] | float) -> Q:
        """The result of a step of this size."""

    def propose(
        self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Q, PyTree]:
        return self.solve(q, target, size), memory


class kl(_ProximalStep):
    """The natural-gradient step, proximal in KL(q' || q):

    lambda' = (1 - rho) lambda + rho target.
    """

    by_number: ClassVar[bool] = True

    @staticmethod
    def solve(q: Q, target: Q, size: Float[Array, ""] | float) -> Q:
        return tree.mix(size, q, target)


class euclidean(_ProximalStep):
    """Plain gradient ascent in the natural parameters, proximal in |lambda' - lambda|^2 / 2; the
    step size is beta:

    lambda' = lambda + beta F(lambda) (target - lambda).
    """

    size: ClassVar[str] = "beta"

    @staticmethod
    def solve(q: Q, target: Q, size: Float[Array, ""] | float) -> Q:
        return tree.add(
            q, tree.scale(size, q.with_naturals(q.fisher_product(tree.subtract(target, q))))
        )


class symmetric_kl(_ProximalStep):
    """The step proximal in KL(q' || q) + KL(q || q') = <lambda' - lambda, mu' - mu>, to first
    order; the step size is beta, a full step is 2:

    lambda' = lambda + beta (target - lambda) / 2.
    """

    size: ClassVar[str] = "beta"

    @staticmethod
    def solve(q: Q, target: Q, size: Float[Array, ""] | float) -> Q:
        return tree.mix(0.5 * size, q, target)


class mirror(_ProximalStep):
    """Mirror descent, proximal in KL(q || q'), the Bregman divergence of A; the step size is beta:

    mu' = mu + beta F(lambda) (target - lambda),   lambda' = (grad A)^-1 (mu').

    The mean parameters are inverted by Newton's method. Where mu' is outside their set, no lambda'
    exists and beta is halved until one does."""

    size: ClassVar[str] = "beta"

    @staticmethod
    def solve(q: Q, target: Q, size: Float[Array, ""] | float) -> Q:
        mu, slope = q.expected_stats(), q.fisher_product(tree.subtract(target, q))
        invert = lambda step: from_expected_stats(q, tree.add(mu, tree.scale(step, slope)))

        def halve(carry: tuple) -> tuple:
            step, _, _, count = carry
            return 0.5 * step, *invert(0.5 * step), count + 1

        step = jnp.asarray(size, jnp.result_type(jax.tree.leaves(q)[0]))
        carry = (step, *invert(step), jnp.int32(0))
        goes_on = lambda carry: ~carry[2] & (carry[3] < _HALVINGS)
        _, new, exists, _ = jax.lax.while_loop(goes_on, halve, carry)
        return tree.select(exists, new, q)


DIVERGENCES = {"kl": kl, "euclidean": euclidean, "mirror": mirror, "symmetric_kl": symmetric_kl}
"""Divergences by name: a new divergence is a class and a row here."""


@check_arguments
@dataclasses.dataclass(frozen=True)
class within(Update):
    """The step of another update, halved until KL(q' || q) is at most `nats`.

    In a global with batch axes (topics, components) each member has its own bound of `nats`. It
    works with noisy objectives too (minibatches); on full data `vijax.step_size.backtracking` looks
    at the objective.

    Args:
      nats: radius of the trust region.
      update: the update whose steps are cut; None is `kl()`.

    >>> from vijax.families import Normal
    >>> q, target = Normal.from_mean_variance(0.0, 1.0), Normal.from_mean_variance(40.0, 1.0)
    >>> new, _ = within(0.5).propose(q, target, 1.0, ())
    >>> bool(0.1 < new.kl(q) <= 0.5)
    True
    """

    nats: Positive
    update: Update = dataclasses.field(default_factory=kl)

    @property
    def size(self) -> str:  # type: ignore[override]
        return self.update.size

    def init(self, q: Family) -> PyTree:
        return self.update.init(q)

    def propose(
        self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Q, PyTree]:
        """See `Update`. The memory is that of the full step, even if the step was cut."""
        full, memory = self.update.propose(q, target, size, memory)
        ones = jnp.ones(q.batch_shape, jnp.result_type(jax.tree.leaves(q)[0]))

        def cut(share: Array) -> Q:
            shares = q.with_naturals([share.reshape(share.shape + (1,) * n) for n in q.event_ndims])
            return tree.apply(lambda a, b, s: (1 - s) * a + s * b, q, full, shares)

        too_far = lambda share: ~(cut(share).kl(q) <= self.nats)
        share, _ = jax.lax.while_loop(
            lambda c: jnp.any(too_far(c[0])) & (c[1] < _HALVINGS),
            lambda c: (jnp.where(too_far(c[0]), 0.5 * c[0], c[0]), c[1] + 1),
            (ones, jnp.int32(0)),
        )
        # Values that are not finite pass: the step is then skipped and reported.
        return tree.select(tree.all_finite(full), cut(share), full), memory


def from_expected_stats(q: Q, mu: PyTree) -> tuple[Q, Bool[Array, ""]]:
    """The lambda with grad A(lambda) = mu, and True if it was found. Newton's method on A(lambda) -
    <lambda, mu>, from q; mu has the structure of `q.expected_stats()`.

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
        return _damped_step(p, direction, mu), jnp.sum(direction.dot(gap)), count + 1

    start = (q, jnp.full((), jnp.inf, jax.tree.leaves(mu)[0].dtype), jnp.int32(0))
    p, decrement, _ = jax.lax.while_loop(
        lambda c: (c[1] > tolerance) & (c[2] < _NEWTON_STEPS), newton, start
    )
    return p, tree.all_finite(p) & (decrement <= tolerance)


def _damped_step(p: Q, direction: Q, mu: PyTree) -> Q:
    """p + t direction, with t halved from 1 until the point is in the domain and A - <., mu> does
    not rise."""

    objective = lambda p: jnp.sum(p.log_normalizer() - p.dot(mu))
    start = objective(p)
    slack = 8 * jnp.finfo(start.dtype).eps * (1 + jnp.abs(start))

    def fails(t: Array) -> Bool[Array, ""]:
        new = tree.add(p, tree.scale(t, direction))
        masks = [jnp.all(mask) for mask in tree.parameters(new.in_domain())]
        is_inside = jnp.all(jnp.array(masks))
        return ~(is_inside & (objective(new) <= start + slack))

    t, _ = jax.lax.while_loop(
        lambda c: fails(c[0]) & (c[1] < _HALVINGS),
        lambda c: (0.5 * c[0], c[1] + 1),
        (jnp.ones((), start.dtype), jnp.int32(0)),
    )
    return tree.add(p, tree.scale(t, direction))
