"""The proximal step, by divergence, and the retraction that keeps it inside the domain (seed 001, eq. 9).

A geometry is a function (q, target, rho) -> q', where target = prior + message is where an exact coordinate update
would land and rho is the step size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from vijax import tree
from vijax.families import Product

Geometry = Callable[[Product, Product, Float[Array, ""]], Product]


def kl(q: Product, target: Product, rho: Float[Array, ""]) -> Product:
    """Natural gradient, the proximal step in KL(q' || q): lambda' = (1 - rho) lambda + rho target."""
    return tree.mix(rho, q, target)


def euclidean(q: Product, target: Product, rho: Float[Array, ""]) -> Product:
    """Plain gradient, the proximal step in |lambda' - lambda|^2 / 2:

    lambda' = lambda + rho F(lambda) (target - lambda).
    """
    return tree.add(q, tree.scale(rho, q.with_naturals(q.fisher_product(tree.subtract(target, q)))))


class Retracted(NamedTuple):
    """A posterior inside its domain, and how many natural parameters (coordinates, or whole events where a domain
    couples them) had to be brought back."""

    posterior: Product
    retractions: Int[Array, ""]


def retract(proposal: Product, q: Product, prior: Product, rho: Float[Array, ""]) -> Retracted:
    """Replaces what left the domain by the step with a zero message, (1 - rho) lambda + rho prior.

    That step is a convex combination of two valid parameters, hence valid, needs no magic number, and moves in the
    direction in which the offending coordinate was going: towards fewer observations.
    """
    ok = proposal.in_domain()
    fallback = tree.mix(rho, q, prior)
    retractions = jnp.sum(jnp.array([jnp.sum(~mask) for mask in jax.tree.leaves(ok)]))
    return Retracted(jax.tree.map(jnp.where, ok, proposal, fallback), retractions)
