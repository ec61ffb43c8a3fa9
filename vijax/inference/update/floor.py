"""The step of maximum likelihood for Gaussian components: their covariances keep above a floor.

The likelihood of a mixture or hidden Markov model has no maximum: it grows without limit where one
component narrows onto a few observations. With W the average covariance within components at the
start, weighted by their observations, and c the share, a step maximises under the constraint that
Sigma_k - c W is positive semidefinite for every component. The maximum is known: in coordinates
where W = I the eigenvalues of Sigma_k below c are c. Without correlations each variance below its
floor is the floor. A component above the floor is left as it is, bit for bit."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, PyTree

from vijax import tree
from vijax.arguments import Positive, check_arguments
from vijax.families import Family, NormalGamma
from vijax.families.vector.means_and_precision import MeansAndPrecision
from vijax.inference.update.base import Q, Update
from vijax.xla.compiler import quick_jit

GAUSSIAN = NormalGamma, MeansAndPrecision
"""Laws of means and precisions, whose covariances can have a floor."""


@check_arguments
@dataclasses.dataclass(frozen=True)
class floored(Update):
    """The step of `kl()`, then a floor under the covariances of Gaussian components: `vijax.em`
    takes it by default.

    No covariance falls below `share` times the average covariance within components at the start.
    There is no floor where there is one component, or one covariance for all.

    Args:
      share: the floor, as a share of that average. At 1e-3 the standard deviation of a component is
        at least a thirtieth of the average one.
    """

    share: Positive = 1e-3

    def init(self, q: Family) -> PyTree:
        """The floor: c W, or variances where there are no correlations; nothing for other
        families."""
        if not _can_collapse(q):
            return ()
        scatter, counts = _scatter(q)
        total = jnp.sum(counts, 0)
        return self.share * jnp.sum(scatter, 0) / jnp.where(total > 0, total, 1)

    def propose(
        self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Q, PyTree]:
        new: Any = tree.mix(size, q, target)
        if not _can_collapse(q):
            return new, memory
        return dataclasses.replace(
            new, negative_raw_rate=new.negative_raw_rate - _missing(new, memory)
        ), memory

    def remark(self, q: Family, memory: PyTree) -> str:
        """The number of components at the floor, in words; empty where there is none."""
        if not _can_collapse(q):
            return ""
        at_floor = np.asarray(_at_floor(q, memory))
        count, size = int(at_floor.sum()), len(at_floor)
        known = f"{self.share:g} of the average covariance within components at the start"
        return (
            f"{count} of {size} components are as narrow as em allows ({known}): fewer may do"
            if count
            else ""
        )


def _can_collapse(q: Family) -> bool:
    return isinstance(q, GAUSSIAN) and len(q.batch_shape) > 0 and q.batch_shape[0] > 1


def _scatter(q: Any) -> tuple[Array, Array]:
    """Matrices (or numbers) and counts whose ratios are the covariances at the mode."""
    if isinstance(q, NormalGamma):
        return q.rate, jnp.maximum(q.shape - 0.5, 0.0)
    num_means = q.negative_half_strength.size // max(1, q.half_degrees.size)
    counts = jnp.maximum(
        q.half_degrees + 0.5 * (num_means - q.negative_raw_rate.shape[-1] - 1), 0.0
    )
    return -q.precision_law().negative_rate, counts[..., None, None]


def _below(q: Any, floor: Array) -> Bool[Array, " K"]:
    """True for components that are below the floor anywhere."""
    scatter, counts = _scatter(q)
    if isinstance(q, NormalGamma):
        return jnp.any(scatter < floor * counts, axis=tuple(range(1, scatter.ndim)))
    left = jnp.linalg.cholesky(scatter - floor * counts)
    return jnp.isnan(left[..., 0, 0]) | jnp.isnan(left[..., -1, -1])


@quick_jit
def _at_floor(q: Any, floor: Array) -> Bool[Array, " K"]:
    """`_below` as one program, up to 5 %, because float32 loses digits of the scatter far from the
    origin."""
    return _below(q, 1.05 * floor)


def _missing(q: Any, floor: Array) -> Array:
    """The scatter that brings each component up to the floor: exactly zero for those above it."""
    scatter, counts = _scatter(q)
    if isinstance(q, NormalGamma):
        return jnp.maximum(floor * counts - scatter, 0.0)
    low = _below(q, floor) & (counts[:, 0, 0] > 0)

    def raised(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        factor = jnp.linalg.cholesky(floor)
        white = jax.vmap(lambda s: _between(factor, s))(scatter / jnp.where(counts > 0, counts, 1))
        values, vectors = jnp.linalg.eigh(white)
        axes = factor @ vectors
        more = (
            counts
            * (axes * jnp.maximum(1.0 - values, 0.0)[:, None, :])
            @ jnp.swapaxes(axes, -1, -2)
        )
        return jnp.zeros((), bool), jnp.where(low[:, None, None], more, 0.0)

    # A loop of one turn or none: where nothing is low nothing is factorised, also side by side in
    # restarts.
    return jax.lax.while_loop(
        lambda carry: carry[0], raised, (jnp.any(low), jnp.zeros_like(scatter))
    )[1]


def _between(factor: Array, matrix: Array) -> Array:
    """factor^-1 matrix factor^-T."""
    half = solve_triangular(factor, matrix, lower=True)
    return solve_triangular(factor, half.T, lower=True)
