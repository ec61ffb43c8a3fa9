"""Monte Carlo messages for bounds that are not linear in the statistics (Khan et al. 2016, section 3.2).

    grad_mu E_q[l(t(beta))] = F^-1 grad_lambda E_q[l(t(beta))]

*reparameterised*: F^-1 J' grad_s l at draws, J the pathwise derivative of the draw's statistics (V of structured SVI);
*score function*: F^-1 Cov_q(t(beta), l), which needs no derivative of l and serves discrete variables.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.arguments import Size, checked, whole
from vijax.checks import require
from vijax.families import Family
from vijax.inference.estimator.base import Estimator


@checked
@dataclasses.dataclass(frozen=True)
class reparameterised(Estimator):
    """The natural gradient of E_q[l] by derivatives through draws, averaged over them.

    Args:
      num_samples: draws of the globals a step.
      sticking: "sticking the landing" (Roeder, Wu and Duvenaud 2017): the divergence from the prior is differentiated
        at the same draws as the bound, through the draws alone, instead of taking its exact gradient. The expectation
        is the same. The noise vanishes as q approaches the posterior, where the family holds it; elsewhere it may be
        larger.
      quasi: draws that are evenly spread, from a Sobol sequence with a random digital shift a step (randomised quasi
        Monte Carlo: Buchholz, Wenzel and Mandt 2018): the expectation is the same, the noise less, above all for smooth
        bounds in few dimensions, with a power of two draws. It serves normal globals, mixtures and flows.

    Raises:
      ValueError: no draw, `quasi` that is no bool; when used, `quasi` for a global of another family.
    """

    num_samples: Size = 8
    sticking: bool = False
    quasi: bool = False

    def __post_init__(self) -> None:
        require(isinstance(self.quasi, bool), "quasi", "True or False", repr(self.quasi))

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`."""
        return self._placed(q, prior, *q.pathwise_sample(key))

    def place_at(
        self, noise: Float[Array, " noise"], q: Family, prior: Family
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`."""
        return self._placed(q, prior, *q.pathwise_at(noise))

    def _placed(
        self, q: Family, prior: Family, stats: PyTree, v: Callable[[Any], PyTree]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        if not self.sticking:
            return stats, lambda eta_hat: v(q.as_stats(eta_hat))
        # A step adds prior - lambda to the message, exactly: it is taken out again here, and put in at the draw.
        own, exact = q.slope(stats, prior), tree.subtract(q.stationary(), prior)
        return stats, lambda eta_hat: tree.add(v(tree.subtract(q.as_stats(eta_hat), own)), exact)


@checked
@dataclasses.dataclass(frozen=True)
class score_function(Estimator):
    """The natural gradient of E_q[l] by the covariance of draws with the bound at them, for any bound.

    Args:
      num_samples: draws of the globals a step, at least two: the baseline of each is the mean of the others.

    Raises:
      ValueError: fewer than two draws.
    """

    num_samples: Annotated[int, whole(2)] = 8
    differentiates: ClassVar[bool] = False

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
