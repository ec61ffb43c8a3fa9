"""Proximal steps as updates: without memory, of the size that the schedule says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from jaxtyping import Array, Float, PyTree

from vijax.update.base import Q, Update
from vijax.update.divergences import euclidean_step, kl_step, mirror_step, symmetric_kl_step


@dataclasses.dataclass(frozen=True)
class proximal(Update):
    """A proximal step of your own, in a divergence that is none of the others.

    Args:
      step: (q, target, size) -> q', solving eq. 9 of Khan et al. 2016.
      size: "rho" where the step size is rho = beta / (1 + beta), at most 1; "beta" where it is beta.
    """

    step: Callable[[Any, Any, Any], Any]
    size: str = "rho"  # type: ignore[misc]

    def propose(self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree) -> tuple[Q, PyTree]:
        """See `Update`."""
        return self.step(q, target, size), memory


@dataclasses.dataclass(frozen=True)
class kl(Update):
    """The natural-gradient step lambda' = (1 - rho) lambda + rho target, proximal in KL(q' || q)."""

    def propose(self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree) -> tuple[Q, PyTree]:
        """See `Update`."""
        return kl_step(q, target, size), memory


@dataclasses.dataclass(frozen=True)
class euclidean(Update):
    """Plain gradient ascent in the natural parameters, proximal in |lambda' - lambda|^2 / 2; the step size is beta."""

    size: ClassVar[str] = "beta"

    def propose(self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree) -> tuple[Q, PyTree]:
        """See `Update`."""
        return euclidean_step(q, target, size), memory


@dataclasses.dataclass(frozen=True)
class symmetric_kl(Update):
    """Proximal in KL(q' || q) + KL(q || q'), to first order; the step size is beta, a full step is 2."""

    size: ClassVar[str] = "beta"

    def propose(self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree) -> tuple[Q, PyTree]:
        """See `Update`."""
        return symmetric_kl_step(q, target, size), memory


@dataclasses.dataclass(frozen=True)
class mirror(Update):
    """Mirror descent, proximal in KL(q || q'); the step size is beta."""

    size: ClassVar[str] = "beta"

    def propose(self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree) -> tuple[Q, PyTree]:
        """See `Update`."""
        return mirror_step(q, target, size), memory


DIVERGENCES = {"kl": kl, "euclidean": euclidean, "mirror": mirror, "symmetric_kl": symmetric_kl}
"""The registry: a new divergence is one step, one class and one row."""
