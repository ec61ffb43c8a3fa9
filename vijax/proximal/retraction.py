"""What keeps a step on sites inside the domain."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from vijax import tree
from vijax.sites import Prior, Sites


class Trial(NamedTuple):
    """Sites that a step of size rho proposes, after retraction, with the number of sites retracted."""

    sites: Sites
    rho: Float[Array, ""]
    retractions: Int[Array, ""]


def retract(proposal: Sites, current: Sites, target: Sites, prior: Prior, rho: Float[Array, ""]) -> Trial:
    """The proposal or, where it left the domain, the KL step with messages of negative precision left out.

    That step is (1 - rho) current + rho (messages of precision >= 0), a convex combination of a point of the domain
    with points of its recession cone added to the prior: it is in the domain, and needs no magic number. Non-finite
    proposals pass, to be skipped and reported.
    """
    ok = prior.in_domain(proposal) | ~tree.all_finite(proposal)
    out = target.precision < 0
    kept = Sites(jnp.where(out, 0.0, target.linear), jnp.where(out, 0.0, target.precision))
    safe = tree.mix(jnp.minimum(rho, 1.0), current, kept)  # a beta may exceed 1: see `vijax.update.retract`
    return Trial(tree.select(ok, proposal, safe), rho, jnp.where(ok, 0, jnp.sum(out)))
