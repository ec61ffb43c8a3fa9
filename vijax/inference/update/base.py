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
    """A step of one global. target = prior + message is the result of an exact coordinate update,
    so that -grad ELBO = F(lambda) (lambda - target). For a family that is no exponential one the
    target is the gradient of the bound (`Family.stationary`), which only `vijax.update.descend` can
    read."""

    # The meaning of the schedule's step size for this update: "rho", at most 1; "beta", any
    # positive number; "none" where it has one of its own
    size: ClassVar[str] = "rho"
    # It takes several steps, with the bound's gradient anew at each: the algorithm calls
    # `propose_from` (`vijax.update.sites.block`), and not `propose`
    asks_again: ClassVar[bool] = False

    def init(self, q: Family) -> PyTree:
        """The memory at the start: nothing, unless overridden."""
        return ()

    @abc.abstractmethod
    def propose(
        self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Q, PyTree]:
        """The result of the step, and the memory. The algorithm retracts whatever left the
        domain."""

    def remark(self, q: Family, memory: PyTree) -> str:
        """A remark on the posterior that a verdict passes on; empty, unless overridden."""
        return ""


class Retracted(NamedTuple):
    """A posterior inside its domain, and the number of natural parameters (coordinates, or whole
    events where a domain couples them) that had to be brought back."""

    posterior: Product
    retractions: Int[Array, ""]


def retract(proposal: Product, q: Product, prior: Product, rho: Float[Array, ""]) -> Retracted:
    """Replaces parameters that left the domain by the step with a zero message, (1 - rho) lambda +
    rho prior.

    This step is a convex combination of two valid parameters, hence valid, needs no magic number,
    and moves in the direction in which the offending coordinate was going: towards fewer
    observations. A step size above 1, which is a beta, counts as 1: beyond that no combination is
    convex. Non-finite values pass, to be skipped and reported."""
    fallback = tree.mix(jnp.minimum(rho, 1.0), q, prior)
    ok = tree.apply(_inside_or_not_finite, proposal.in_domain(), proposal)
    retractions = jnp.sum(
        jnp.array([jnp.sum(~mask) for mask in tree.parameters(ok)]), dtype=jnp.int32
    )
    return Retracted(tree.apply(jnp.where, ok, proposal, fallback), retractions)


def _inside_or_not_finite(mask: Bool[Array, ...], x: Array) -> Bool[Array, ...]:
    """The domain's mask, true also where the event it covers is not finite; a mask has length 1
    along event axes."""
    events = tuple(i for i in range(x.ndim) if mask.shape[i] < x.shape[i])
    return mask | jnp.any(~jnp.isfinite(x), axis=events, keepdims=True)
