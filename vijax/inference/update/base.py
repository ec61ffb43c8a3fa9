"""How a global moves: an `Update` takes q to q', and may remember something from step to step."""

from __future__ import annotations

import abc
from typing import ClassVar, TypeVar

from jaxtyping import Array, Float, PyTree

from vijax.families import Family

Q = TypeVar("Q", bound=Family)


class Update(abc.ABC):
    """target = prior + message is where an exact coordinate update would land, so that -grad ELBO = F(lambda) (lambda -
    target). Of a family that is no exponential one it is the gradient of the bound (`Family.stationary`), which
    `vijax.update.descend` alone can read.

    Attributes:
      size: what the step size of the schedule is to this update: "rho", at most 1; "beta", any positive number; "none",
        it has one of its own.
      asks_again: it takes several steps, with the bound's gradient anew at each: the algorithm calls `propose_from`
        (`vijax.update.sites.block`), and not `propose`.
    """

    size: ClassVar[str] = "rho"
    asks_again: ClassVar[bool] = False

    def init(self, q: Family) -> PyTree:
        """What is remembered at the start: nothing, unless said otherwise."""
        del q
        return ()

    @abc.abstractmethod
    def propose(self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree) -> tuple[Q, PyTree]:
        """Where the step leads, and what is remembered. What left the domain is retracted by the algorithm."""
