"""The step of a penalised maximum of the likelihood for Gaussian components, whose covariances are
shrunk towards their average (Friedman 1989; Fraley and Raftery 2007).

Let W be the average covariance within components at the start, weighted by their observations. A
step maximises the likelihood less

    w sum_k KL(N(0, W) || N(0, Sigma_k)),   KL = (tr(Sigma_k^-1 W) - D + log|Sigma_k| - log|W|) / 2,

as if each component had seen w more observations, of covariance W. With scatter S_k of n_k expected
observations the maximum is

    Sigma_k = (S_k + w W) / (n_k + w),

so that no covariance is narrower than w W / (n_k + w), a component without observations has
covariance W, and the shrinkage vanishes where observations are many. It is the mode under an
inverse-Wishart prior, in any units."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from vijax import tree
from vijax.arguments import Positive, check_arguments
from vijax.families import Family, NormalGamma
from vijax.inference.update.base import Q, Update
from vijax.inference.update.floor import average_covariance, can_collapse, scatter_and_counts
from vijax.xla.compiler import quick_jit

MORE_THAN_COLUMNS = 2.0
"""Default weight less the number of columns of a covariance: D + 1 observations are the fewest
whose scatter about their mean is not singular, and one more gives each component some share of
it."""


@check_arguments
@dataclasses.dataclass(frozen=True)
class shrinkage(Update):
    """The step of `kl()` with covariances of Gaussian components shrunk towards the average
    covariance within components at the start. It is the default of `vijax.em` for hidden Markov
    models.

    The objective has the penalty, `rows` times the sum of KL(N(0, average) || N(0, covariance)).
    There is no shrinkage of a single component, or of one covariance of all components.

    Args:
      rows: the number of observations that the average is worth in each component. None is D + 2
        for covariances of D columns, and 3 for variances.

    >>> import jax, numpy as np, vijax as vi
    >>> y = np.array([[0.0], [2.0], [4.0], [9.0], [9.0], [9.0]])
    >>> model = vi.models.mixture(vi.models.emission.diagonal_gaussian(2, 1))
    >>> alg = vi.em(model, update={"components": shrinkage(rows=3.0)})
    >>> fit = vi.fit(alg, y, num_steps=20, key=jax.random.key(0))
    >>> print(np.sort(1 / fit.estimates["components"].mean().precision[:, 0]).round(2))
    [0.77 2.11]
    """

    rows: Positive | None = None
    is_penalised: ClassVar[bool] = True

    def init(self, q: Family) -> PyTree:
        """W, or only variances if there are no correlations; empty for other families."""
        if not can_collapse(q):
            return ()
        return average_covariance(q)

    def propose(
        self, q: Q, target: Q, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Q, PyTree]:
        if can_collapse(q):
            target = _add_rows(target, 0.5 * self._weight(q), memory)
        return tree.mix(size, q, target), memory

    def penalty(self, q: Family, memory: PyTree) -> Float[Array, ""]:
        """`rows` times the sum of KL(N(0, W) || N(0, Sigma_k))."""
        if not can_collapse(q):
            return jnp.zeros(())
        law: Any = q.mode()
        precision = law.precision
        if isinstance(q, NormalGamma):
            ratio = precision * memory[None]
            divergence = 0.5 * jnp.sum(ratio - 1.0 - jnp.log(_positive(ratio)))
        else:
            product = precision @ memory[None]
            log_det = jnp.linalg.slogdet(product)[1]
            trace = jnp.trace(product, axis1=-2, axis2=-1)
            divergence = 0.5 * jnp.sum(trace - memory.shape[-1] - log_det)
        return self._weight(q) * divergence

    def remark(self, q: Family, memory: PyTree) -> str:
        """A sentence with the number of components of which the average is most; empty if there is
        none."""
        if not can_collapse(q):
            return ""
        weight = self._weight(q)
        # Counts have the rows of the average too.
        few = np.asarray(_fewest_rows(q)) < 2 * weight
        count, size = int(few.sum()), len(few)
        if not count:
            return ""
        return (
            f"{count} of {size} components have fewer than {weight:g} rows: their covariances are "
            "mostly the average within components (vijax.update.shrinkage): fewer may do"
        )

    def _weight(self, q: Family) -> float:
        if self.rows is not None:
            return float(self.rows)
        law: Any = q
        if isinstance(q, NormalGamma):
            return 1 + MORE_THAN_COLUMNS
        return law.negative_raw_rate.shape[-1] + MORE_THAN_COLUMNS


def _add_rows(q: Any, half_weight: float, average: Array) -> Any:
    """The law with 2 `half_weight` more observations of this covariance about its mean."""
    rate = q.negative_raw_rate - half_weight * average[None]
    if isinstance(q, NormalGamma):
        return dataclasses.replace(q, negative_raw_rate=rate, shape=q.shape + half_weight)
    half_degrees = q.half_degrees + half_weight
    return dataclasses.replace(q, negative_raw_rate=rate, half_degrees=half_degrees)


def _positive(x: Array) -> Array:
    return jnp.maximum(x, jnp.finfo(x.dtype).tiny)


@quick_jit
def _fewest_rows(q: Any) -> Float[Array, " K"]:
    """The number of observations of each component, those of the average among them."""
    _, counts = scatter_and_counts(q)
    return 2 * jnp.min(counts.reshape(len(counts), -1), axis=1)
