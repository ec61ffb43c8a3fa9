"""Densities of free coordinates that are not exponential families in their parameters: only an
optimiser moves them.

Their leaves are unconstrained parameters, and their "Fisher product" is the identity, so the target
of a step is a gradient and not a natural parameter (`Family.stationary`). Methods that need natural
parameters raise NotImplementedError."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, NoReturn, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.families.base import Family


class Value(NamedTuple):
    """The statistic x of a draw."""

    value: Float[Array, " D"]


class ByOptimiser(Family):
    """A density of a vector. Subclasses have `center`, the mean, `sample` and `entropy`."""

    center: Any
    Stats: ClassVar = Value
    exponential: ClassVar = False

    def log_normalizer(self) -> NoReturn:
        """NotImplementedError: there are no natural parameters."""
        raise NotImplementedError(
            f"{type(self).__name__} is no exponential family: it has no natural parameters. Move "
            "it by vijax.update.descend on draws (vijax.estimator.reparameterised), as vijax.advi "
            "does."
        )

    def fisher_solve(self, cotangent: Any) -> NoReturn:
        self.log_normalizer()

    def expected_stats(self) -> Value:
        return Value(self.center)

    def stats(self, x: Any) -> Value:
        return Value(x)

    def mean(self) -> Float[Array, " D"]:
        return self.center

    def mode(self) -> Float[Array, " D"]:
        return self.center

    @property
    def noise_size(self) -> int:
        """D; a subclass may need more noise."""
        return self.center.size

    def in_domain(self) -> Self:
        return jax.tree.map(jnp.isfinite, self)

    def fisher_product(self, tangent: Self) -> Self:
        """The tangent itself, because targets are gradients."""
        return tangent

    def stationary(self) -> Self:
        """Minus the gradient of the entropy: the message at which the ELBO is stationary."""
        return jax.tree.map(jnp.negative, jax.grad(lambda q: q.entropy())(self))

    def _pathwise(self, draw: Callable[[Self], Any]) -> tuple[Value, Callable[[Value], Self]]:
        """A draw, and the map from a slope at the draw to a gradient in the parameters."""
        x, pull = jax.vjp(lambda q: draw(q).value, self)
        return Value(x), lambda eta: pull(eta.value)[0]


class ByDraws(ByOptimiser):
    """A density whose entropy has no closed form, such as a mixture or a flow. A subclass writes
    `sample`, `log_prob` and `weighted_points`.

    The gradient is that of log p - log q through draws
    (`vijax.estimator.reparameterised(sticking=True)`), which needs no entropy; the reported entropy
    is a mean over fixed quasi-random draws."""

    closed_entropy: ClassVar[bool] = False

    @abc.abstractmethod
    def weighted_points(self) -> tuple[Float[Array, "points D"], Float[Array, " points"]]:
        """Points and their weights, which sum to one: weighted means are close to means under q."""

    def entropy(self) -> Float[Array, ""]:
        """H[q] as a mean over `weighted_points`."""
        x, weights = self.weighted_points()
        return -weights @ self.log_prob(x)

    def slope(self, stats: Any, prior: Self) -> Value:
        """The gradient of log q at a draw; the prior is a term of the energy."""
        return Value(jax.grad(lambda x: self.log_prob(x))(stats.value))

    def stationary(self) -> Self:
        """Zeros: the gradients of draws contain the entropy."""
        return jax.tree.map(jnp.zeros_like, self)
