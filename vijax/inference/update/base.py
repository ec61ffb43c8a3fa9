"""The base class of updates, and the retraction that keeps their steps inside the domain."""

from __future__ import annotations

import abc
from typing import ClassVar, NamedTuple, TypeVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from vijax import tree
from vijax.families import Family, Product

Q = TypeVar("Q", bound=Family)


class Update(abc.ABC):
    """A step of one global towards target = prior + message, the result of an exact coordinate
    update: -grad ELBO = F(lambda) (lambda - target).

    For a family that is no exponential one the target is the gradient of the bound
    (`Family.stationary`), which only `vijax.update.descend` can read."""

    # Meaning of the schedule's step size for this update: "rho", at most 1; "beta", any positive
    # number; "none" if it does not read the schedule
    size: ClassVar[str] = "rho"
    # True if it takes several steps, and evaluates the gradient of the bound at each. The algorithm
    # then calls `propose_from` (`vijax.update.sites.block`) instead of `propose`
    asks_again: ClassVar[bool] = False
    # True if each natural parameter moves by itself, by its own target alone
    by_number: ClassVar[bool] = False
    # True if the objective subtracts a number of its own, `penalty`
    is_penalised: ClassVar[bool] = False

    def init(self, q: Family) -> PyTree:
        """The memory at the start; empty, unless overridden."""
        return ()

    @abc.abstractmethod
    def propose(
        self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Q, PyTree]:
        """The result of the step, and the memory. The algorithm retracts parameters that left the
        domain."""

    def penalty(self, q: Family, memory: PyTree) -> Float[Array, ""]:
        """The number that the objective subtracts beside that of the estimand; zero, unless
        `is_penalised`."""
        return jnp.zeros(())

    def remark(self, q: Family, memory: PyTree) -> str:
        """A remark on the posterior for the verdict; empty, unless overridden."""
        return ""


class Retraction(NamedTuple):
    """A posterior inside its domain, and the number of natural parameters that were brought back
    (coordinates; or events, if the domain couples the coordinates of an event)."""

    posterior: Product
    retractions: Int[Array, ""]


def retract(proposal: Product, q: Product, prior: Product, rho: Float[Array, ""]) -> Retraction:
    """Replaces parameters outside the domain by the step with a zero message, (1 - rho) lambda +
    rho prior.

    This step is a convex combination of two valid parameters, hence valid, and needs no constant.
    It moves the coordinate in its direction, towards fewer observations. A step size above 1, which
    is a beta, counts as 1, the last convex combination. Values that are not finite pass: the step
    is then skipped and reported."""
    fallback = tree.mix(jnp.minimum(rho, 1.0), q, prior)
    ok = tree.apply(_valid_mask, proposal.in_domain(), proposal)
    counts = [jnp.sum(~mask, dtype=jnp.int32) for mask in tree.parameters(ok)]
    retractions = sum(counts, start=jnp.int32(0))
    return Retraction(tree.apply(jnp.where, ok, proposal, fallback), retractions)


def _valid_mask(mask: Bool[Array, ...], x: Array) -> Bool[Array, ...]:
    """The mask of the domain, true also for events that are not finite. A mask has length 1 along
    event axes."""
    events = tuple(i for i in range(x.ndim) if mask.shape[i] < x.shape[i])
    return mask | jnp.any(~jnp.isfinite(x), axis=events, keepdims=True)
