"""Messages for objectives of several draws (`vijax.objective`), by derivatives through the draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.arguments import Size, checked
from vijax.contract.objective import check_objective, importance_weighted, renyi
from vijax.families import Family
from vijax.inference.estimator.base import Estimator


@checked
@dataclasses.dataclass(frozen=True)
class weighted(Estimator):
    """The natural gradient of an objective of several draws of free variables, such as the importance-weighted bound,
    instead of the evidence lower bound (`vijax.objective` gives the formulas).

    The K draws of a step are weighted against each other, by their density under the model and under q. Read all the
    data at each step: with minibatches the weights would be those of these few groups, counted N / S times. `Info.elbo`
    stays the evidence lower bound, at the same draws.

    Args:
      num_samples: K. At one draw any objective is the evidence lower bound.
      objective: one of `vijax.objective`; the importance-weighted bound where none is given.

    Raises:
      ValueError: no draw, or an `objective` that is none.

    >>> import vijax as vi
    >>> humps = lambda v: jnp.logaddexp(-0.5 * (v["x"] - 2) ** 2, -0.5 * (v["x"] + 2) ** 2)
    >>> model, sds = vi.density({"x": vi.free()}, humps), {}
    >>> for name, estimator in (("elbo", vi.estimator.reparameterised(16)), ("weighted", weighted(16))):
    ...     fit = vi.fit(vi.advi(model, estimator=estimator), num_steps=2000, key=jax.random.key(0))
    ...     sds[name] = float(fit.posterior["free"].variance()[0]) ** 0.5
    >>> sds["weighted"] > 1.2 * sds["elbo"]  # it covers both modes
    True
    """

    num_samples: Size = 8
    objective: renyi = dataclasses.field(default_factory=importance_weighted)

    def __post_init__(self) -> None:
        check_objective(self.objective)

    def place(
        self, key: PRNGKeyArray, q: Family, prior: Family, rho: Float[Array, ""]
    ) -> tuple[PyTree, Callable[[Any], PyTree]]:
        """See `Estimator`: the draw, the derivative of its log ratio through it, and what a step adds itself."""
        stats, v = q.pathwise_sample(key)
        own, exact = q.slope(stats, prior), tree.subtract(q.stationary(), prior)
        through = lambda slope: v(tree.subtract(q.as_stats(slope), own))
        return stats, lambda slope: (stats.value, through(slope), exact)  # type: ignore[attr-defined]

    def message(self, q: Family, said: PyTree, values: Float[Array, " draws"]) -> Family:
        """See `Estimator`; `values` holds log p at the draws."""
        draws, slopes, exact = said
        log_q = jnp.reshape(q.log_prob(draws), (len(values), -1)).sum(1)
        counts = self.objective.through_draws(values - log_q)
        natural = jax.tree.map(lambda s, e: jnp.tensordot(counts, s, 1) + e[0], slopes, exact)
        return q.with_naturals(tree.parameters(natural))
