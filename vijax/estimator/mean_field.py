"""Mean field: the gradient at the expected statistics s = E_q[t(beta)] (Blei, Kucukelbir and McAuliffe 2017, eq. 41;
Pei 2019, section on SVI)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.estimand import Estimand
from vijax.estimator.base import Estimator
from vijax.families import Family


@dataclasses.dataclass(frozen=True)
class mean_field(Estimator):
    """grad_s l at s = E_q[t(beta)]: with KL steps, CAVI on full data and SVI on minibatches."""

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`."""
        return q.expected_stats(), q.with_naturals


@dataclasses.dataclass(frozen=True)
class at_point(Estimator):
    """grad_s l at the point that is sought: what every estimator comes to for a global of which only a point is."""

    estimand: Estimand

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`."""
        return self.estimand.point(q), q.with_naturals
