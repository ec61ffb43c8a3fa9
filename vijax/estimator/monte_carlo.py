"""Monte Carlo messages for bounds that are not linear in the statistics (Khan et al. 2016, section 3.2).

    grad_mu E_q[l(t(beta))] = F^-1 grad_lambda E_q[l(t(beta))]

*reparameterised*: F^-1 J' grad_s l at draws, J the pathwise derivative of the draw's statistics (V of structured SVI);
*score function*: F^-1 Cov_q(t(beta), l), which wants no derivative of l and serves discrete variables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require_integers
from vijax.estimator.base import Estimator
from vijax.families import Family


@dataclasses.dataclass(frozen=True)
class reparameterised(Estimator):
    """The natural gradient of E_q[l] by derivatives of draws, averaged over them.

    Args:
      num_samples: draws of the globals a step.

    Raises:
      ValueError: no draw.
    """

    num_samples: int = 8

    def __post_init__(self) -> None:
        require_integers(num_samples=self.num_samples)

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`."""
        stats, v = q.pathwise_sample(key)
        return stats, lambda eta_hat: v(q.as_stats(eta_hat))


@dataclasses.dataclass(frozen=True)
class score_function(Estimator):
    """The natural gradient of E_q[l] by the covariance of draws with the bound at them, whatever the bound is.

    Args:
      num_samples: draws of the globals a step, at least two: the baseline of each is the mean of the others.

    Raises:
      ValueError: fewer than two draws.
    """

    num_samples: int = 8
    differentiates: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_integers(2, num_samples=self.num_samples)

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`."""
        stats = q.sample_stats(key)
        return stats, lambda _: tree.subtract(stats, q.expected_stats())

    def message(self, q: Family, said: PyTree, values: Float[Array, " draws"]) -> Family:
        """F^-1 Cov(t, l)."""
        advantage = (values - jnp.mean(values)) / (values.size - 1)
        return q.fisher_solve(jax.tree.map(lambda t: jnp.tensordot(advantage, t, 1), said))
