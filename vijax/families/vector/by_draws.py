"""Families of free coordinates whose entropy has no closed form: mixtures, flows.

Their gradient is that of log p - log q through draws alone (`vijax.estimator.reparameterised(sticking=True)`), which
needs no entropy; the reported entropy is a mean over fixed quasi-random draws.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.families.vector.by_optimiser import ByOptimiser, Value


class ByDraws(ByOptimiser):
    """A density whose subclass says how to draw, its log density, and points that represent it."""

    closed_entropy: ClassVar[bool] = False

    @abc.abstractmethod
    def represented(self) -> tuple[Float[Array, "points D"], Float[Array, " points"]]:
        """Points and weights, which sum to one, with means close to those under q."""

    def entropy(self) -> Float[Array, ""]:
        """H[q], as a mean over the points that represent q."""
        x, weights = self.represented()
        return -weights @ self.log_prob(x)

    def slope(self, stats: Any, prior: Self) -> Value:
        """Gradient of log q at a draw; the prior is a term of the energy."""
        del prior
        return Value(jax.grad(lambda x: self.log_prob(x))(stats.value))

    def stationary(self) -> Self:
        """Zeros: the entropy is in the draws' own gradients."""
        return jax.tree.map(jnp.zeros_like, self)
