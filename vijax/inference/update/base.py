"""The base class of updates: an `Update` takes q to q', and may remember something from step to step."""

from __future__ import annotations

import abc
from typing import ClassVar, TypeVar

from jaxtyping import Array, Float, PyTree

from vijax.families import Family

Q = TypeVar("Q", bound=Family)


class Update(abc.ABC):
    """A step of one global. target = prior + message is the result of an exact coordinate update, so that -grad ELBO =
    F(lambda) (lambda - target). For a family that is no exponential one the target is the gradient of the bound
    (`Family.stationary`), which only `vijax.update.descend` can read.

    Attributes:
      size: the meaning of the schedule's step size for this update: "rho", at most 1; "beta", any positive number;
        "none" where it has one of its own.
      asks_again: it takes several steps, with the bound's gradient anew at each: the algorithm calls `propose_from`
        (`vijax.update.sites.block`), and not `propose`.
    """

    size: ClassVar[str] = "rho"
    asks_again: ClassVar[bool] = False

    def init(self, q: Family) -> PyTree:
        """The memory at the start: nothing, unless overridden."""
        del q
        return ()

    @abc.abstractmethod
    def propose(self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree) -> tuple[Q, PyTree]:
        """The result of the step, and the memory. The algorithm retracts whatever left the domain."""
