"""Proximal steps as updates, without memory, of the size that the schedule says."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

from jaxtyping import Array, Float, PyTree

from vijax.inference.update.base import Q, Update
from vijax.inference.update.divergences import euclidean_step, kl_step, mirror_step, symmetric_kl_step


@dataclasses.dataclass(frozen=True)
class proximal(Update):
    """A proximal step of your own, in a divergence that vijax does not have.

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
class _Solved(Update):
    """A proximal step without settings: two of one class are equal."""

    @staticmethod
    @abc.abstractmethod
    def solve(q: Q, target: Q, size: Any, /) -> Q:
        """The result of a step of this size."""

    def propose(self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree) -> tuple[Q, PyTree]:
        """See `Update`."""
        return self.solve(q, target, size), memory


class kl(_Solved):
    """The natural-gradient step lambda' = (1 - rho) lambda + rho target, proximal in KL(q' || q)."""

    solve = staticmethod(kl_step)


class euclidean(_Solved):
    """Plain gradient ascent in the natural parameters, proximal in |lambda' - lambda|^2 / 2; the step size is beta."""

    size: ClassVar[str] = "beta"
    solve = staticmethod(euclidean_step)


class symmetric_kl(_Solved):
    """The proximal step in KL(q' || q) + KL(q || q'), to first order; the step size is beta, a full step is 2."""

    size: ClassVar[str] = "beta"
    solve = staticmethod(symmetric_kl_step)


class mirror(_Solved):
    """Mirror descent, proximal in KL(q || q'); the step size is beta."""

    size: ClassVar[str] = "beta"
    solve = staticmethod(mirror_step)


DIVERGENCES = {"kl": kl, "euclidean": euclidean, "mirror": mirror, "symmetric_kl": symmetric_kl}
"""The registry: a new divergence is one step, one class and one row."""
