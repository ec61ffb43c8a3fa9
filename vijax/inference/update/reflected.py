"""The step of stochastic gradient Riemannian Langevin dynamics, reflected at zero."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from vijax import tree
from vijax.families import Family
from vijax.inference.update.base import Q, Update


@dataclasses.dataclass(frozen=True)
class reflected(Update):
    """|(1 - rho) theta + rho target|, for `vijax.estimator.langevin` (Patterson and Teh 2013,
    section 4)."""

    def propose(
        self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Q, PyTree]:
        return jax.tree.map(jnp.abs, tree.mix(size, q, target)), memory

    def remark(self, q: Family, memory: PyTree) -> str:
        """A sentence that says what the state is."""
        return (
            "the globals are one draw of a Markov chain: draws along the chain have the "
            "posterior's spread"
        )
