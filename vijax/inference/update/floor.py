"""The step of maximum likelihood for Gaussian components, with a floor under their covariances.

The likelihood of a mixture or hidden Markov model has no maximum: it grows without limit if one
component narrows onto a few observations. Let W be the average covariance within components at the
start, weighted by their observations, and c the share. A step maximises under the constraint that
Sigma_k - c W is positive semidefinite for every component. This maximum has a closed form: in
coordinates where W = I, eigenvalues of Sigma_k below c become c. Without correlations, variances
below the floor become the floor. A component above the floor does not change, bit for bit."""

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
    """The step of `kl()`, then a floor under the covariances of Gaussian components. It is the
    default of `vijax.em`.

    No covariance falls below `share` times the average covariance within components at the start.
    There is no floor for a single component, or for one covariance of all components.

    Args:
      share: the floor, as a share of that average. At 1e-3 the standard deviation of a component is
        at least a thirtieth of the average one.
    """

    share: Positive = 1e-3

    def init(self, q: Family) -> PyTree:
        """The floor c W, or only variances if there are no correlations; empty for other
        families."""
        if not can_collapse(q):
            return ()
        return self.share * average_covariance(q)

    def propose(
        self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Q, PyTree]:
        new: Any = tree.mix(size, q, target)
        if not can_collapse(q):
            return new, memory
        rate = new.negative_raw_rate - _missing_scatter(new, memory)
        return dataclasses.replace(new, negative_raw_rate=rate), memory

    def remark(self, q: Family, memory: PyTree) -> str:
        """A sentence with the number of components at the floor; empty if there is none."""
        if not can_collapse(q):
            return ""
        is_at_floor = np.asarray(_touches_floor(q, memory))
        count, size = int(is_at_floor.sum()), len(is_at_floor)
        if not count:
            return ""
        floor = f"{self.share:g} of the average covariance within components at the start"
        return f"{count} of {size} components are as narrow as em allows ({floor}): fewer may do"


def can_collapse(q: Family) -> bool:
    """True for several Gaussian components."""
    return isinstance(q, GAUSSIAN) and len(q.batch_shape) > 0 and q.batch_shape[0] > 1


def scatter_and_counts(q: Any) -> tuple[Array, Array]:
    """Scatter matrices (or numbers) and counts; their ratios are the covariances at the mode."""
    if isinstance(q, NormalGamma):
        return q.rate, jnp.maximum(q.shape - 0.5, 0.0)
    num_means = q.negative_half_strength.size // max(1, q.half_degrees.size)
    dim = q.negative_raw_rate.shape[-1]
    counts = jnp.maximum(q.half_degrees + 0.5 * (num_means - dim - 1), 0.0)
    return -q.precision_law().negative_rate, counts[..., None, None]


def average_covariance(q: Any) -> Array:
    """The average covariance within components, weighted by their counts; variances if there are
    no correlations."""
    scatter, counts = scatter_and_counts(q)
    total = jnp.sum(counts, 0)
    return jnp.sum(scatter, 0) / jnp.where(total > 0, total, 1)


def _is_below(q: Any, floor: Array) -> Bool[Array, " K"]:
    """True for components that are below the floor in some direction."""
    scatter, counts = scatter_and_counts(q)
    if isinstance(q, NormalGamma):
        return jnp.any(scatter < floor * counts, axis=tuple(range(1, scatter.ndim)))
    factor = jnp.linalg.cholesky(scatter - floor * counts)
    return jnp.isnan(factor[..., 0, 0]) | jnp.isnan(factor[..., -1, -1])


@quick_jit
def _touches_floor(q: Any, floor: Array) -> Bool[Array, " K"]:
    """True for components below 1.05 of the floor, because float32 loses digits of the scatter far
    from the origin. One program."""
    return _is_below(q, 1.05 * floor)


def _missing_scatter(q: Any, floor: Array) -> Array:
    """The scatter that lifts each component to the floor; exactly zero for components above it."""
    scatter, counts = scatter_and_counts(q)
    if isinstance(q, NormalGamma):
        return jnp.maximum(floor * counts - scatter, 0.0)
    is_low = _is_below(q, floor) & (counts[:, 0, 0] > 0)

    def lift(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        factor = jnp.linalg.cholesky(floor)
        covariances = scatter / jnp.where(counts > 0, counts, 1)
        white = jax.vmap(lambda cov: _whiten(factor, cov))(covariances)
        values, vectors = jnp.linalg.eigh(white)
        axes = factor @ vectors
        lacks = jnp.maximum(1.0 - values, 0.0)[:, None, :]
        missing = counts * (axes * lacks) @ jnp.swapaxes(axes, -1, -2)
        return jnp.zeros((), bool), jnp.where(is_low[:, None, None], missing, 0.0)

    # A loop of at most one round: it factorises nothing if no component is low, under vmap too.
    start = jnp.any(is_low), jnp.zeros_like(scatter)
    return jax.lax.while_loop(lambda carry: carry[0], lift, start)[1]


def _whiten(factor: Array, matrix: Array) -> Array:
    """factor^-1 matrix factor^-T."""
    half = solve_triangular(factor, matrix, lower=True)
    return solve_triangular(factor, half.T, lower=True)
