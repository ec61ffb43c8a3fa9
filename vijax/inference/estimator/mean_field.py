"""Mean field: the gradient at the expected statistics s = E_q[t(beta)] (Blei, Kucukelbir and McAuliffe 2017, eq. 41;
Pei 2019, section on SVI)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.families import Family
from vijax.inference.estimand import Estimand
from vijax.inference.estimator.base import Estimator, Reads


@dataclasses.dataclass(frozen=True)
class mean_field(Estimator):
    """grad_s l at s = E_q[t(beta)]: with KL steps, CAVI on full data and SVI on minibatches.

    Args:
      memory: for globals of which a batch reads some entries (the sites of Gaussian predictors): keep every entry's
        last message and replace those of the batch, instead of estimating all of them from the batch, N/S times. So
        only the change of the present batch is noise, and it vanishes at the optimum (the stochastic average gradient
        of Le Roux et al. 2012, whose memory the natural parameters are).
    """

    draws: ClassVar[bool] = False

    memory: bool = False

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`."""
        return q.expected_stats(), q.with_naturals

    def read(self, q: Any, prior: Any, reads: Reads) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`; `q` has `entries`, as `vijax.sites.SitePosterior` has."""
        at = q.entries(reads.rows)

        def message(slope: Any) -> PyTree:
            new = q.entry_messages(at, slope)
            if not self.memory:
                return q.scattered(reads.rows, _counted(reads, new))
            change = tree.subtract(tree.scale(1 / reads.scale, new), q.at(reads.rows))
            return tree.add(tree.subtract(q, prior), q.scattered(reads.rows, _counted(reads, change)))

        return at, message


def _counted(reads: Reads, messages: PyTree) -> PyTree:
    """Values with those of padding replaced by zero."""
    return jax.tree.map(lambda x: jnp.where(reads.weights > 0, x, 0.0), messages)


@dataclasses.dataclass(frozen=True)
class at_point(Estimator):
    """grad_s l at the point that is sought: every estimator reduces to this where only a point is sought."""

    draws: ClassVar[bool] = False

    estimand: Estimand

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`."""
        return self.estimand.point(q), q.with_naturals
