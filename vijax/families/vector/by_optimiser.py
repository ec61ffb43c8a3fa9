"""Densities of free coordinates that are not exponential families in their parameters: only an optimiser moves them.

Their parameters are unconstrained and are their leaves, and their "Fisher product" is the identity, so that the target
of a step is a gradient and not a natural parameter (`Family.stationary`). Whatever needs natural parameters is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.families.base import Family


class Value(NamedTuple):
    """The statistic x of a draw, as a density reads it."""

    value: Float[Array, " D"]


class ByOptimiser(Family):
    """A density of a vector; a subclass has a field `center`, its mean, and says how to draw, and its entropy."""

    center: Any
    Stats: ClassVar = Value
    exponential: ClassVar = False

    def log_normalizer(self) -> NoReturn:
        """Raises NotImplementedError: there are no natural parameters."""
        raise NotImplementedError(_no_naturals(self))

    def fisher_solve(self, cotangent: Any) -> NoReturn:
        """Raises NotImplementedError: there are no natural parameters."""
        raise NotImplementedError(_no_naturals(self))

    def expected_stats(self) -> Value:
        """E_q[x], its only mean statistic."""
        return Value(self.center)

    def stats(self, x: Any) -> Value:
        """x itself."""
        return Value(x)

    def mean(self) -> Float[Array, " D"]:
        """E_q[x]."""
        return self.center

    def mode(self) -> Float[Array, " D"]:
        """The mean."""
        return self.center

    def in_domain(self) -> Self:
        """All parameters finite."""
        return jax.tree.map(jnp.isfinite, self)

    def flat(self) -> Self:
        """Zeros, to which a step adds its message: the prior is a term of the energy."""
        return jax.tree.map(jnp.zeros_like, self)

    def fisher_product(self, tangent: Self) -> Self:
        """The tangent itself: targets are gradients."""
        return tangent

    def stationary(self) -> Self:
        """Minus the gradient of the entropy: the message at which the ELBO is level."""
        return jax.tree.map(jnp.negative, jax.grad(lambda q: q.entropy())(self))

    def _pathwise(self, draw: Callable[[Self], Any]) -> tuple[Value, Callable[[Value], Self]]:
        """A draw, and (slope there) -> gradient in the parameters."""
        x, pull = jax.vjp(lambda q: draw(q).value, self)
        return Value(x), lambda eta: pull(eta.value)[0]


def _no_naturals(q: Family) -> str:
    return (
        f"{type(q).__name__} is no exponential family: it has no natural parameters. Move it by vijax.update.descend "
        "on draws (vijax.estimator.reparameterised), as vijax.advi does."
    )
