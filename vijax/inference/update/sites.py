"""Updates that only sites (`vijax.sites.SitePosterior`) have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from vijax import tree
from vijax.arguments import Size, check_arguments
from vijax.checks import require
from vijax.inference.estimator.base import Reads
from vijax.inference.sites import Marginals, SitePosterior, Sites
from vijax.inference.update.base import Update


@dataclasses.dataclass(frozen=True)
class exact_mean(Update):
    """The natural-gradient step with the likelihood linearised in (m, V) instead of the mean
    parameters: the exact-m form of Khan et al. 2016, appendix D.3.

    It has the fixed points of `kl`, and is undamped while the sites are weak. With slope alpha and
    curvature gamma of the bound the new mean is

        m' = (K^-1 + (1 - rho) diag g)^-1 ((1 - rho) a + rho alpha).

    The step of the sites to (1 - rho) a + rho (alpha - gamma m'), and likewise to -gamma for g, has
    exactly this mean.
    """

    def propose(
        self, q: Any, target: Any, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Any, PyTree]:
        _require_sites(self, q)
        slope = target.linear - q.mean() * target.precision  # target is (alpha - gamma m, -gamma)
        first = q.with_naturals([(1 - size) * q.linear + size * slope, (1 - size) * q.precision])
        new_target = [slope + first.mean() * target.precision, target.precision]
        return tree.mix(size, q, q.with_naturals(new_target)), memory


@check_arguments
@dataclasses.dataclass(frozen=True)
class block(Update):
    """Several steps on the sites of one batch, with the other likelihoods replaced by their sites.

    They ascend the bound of the model p(z) prod_others exp(a z - g z^2 / 2) prod_batch p(y | z). At
    its optimum the sites of the batch equal their messages, so the fixed points are those of the
    whole bound. It is no coordinate ascent on the whole bound, which may fall at a step.

    Given the marginal N(m, V) of the batch's predictors, a change (da, dg) of their sites changes
    it in closed form,

        m' = R^-1 (m + V da),   V' = R^-1 V,   R = I + V diag(dg),

    so that inner steps cost O(M^3) and need no new factorisation of the whole.

    Args:
      num_steps: number of steps, each of the size of the schedule.
    """

    num_steps: Size
    asks_again: ClassVar[bool] = True

    def propose(
        self, q: Any, target: Any, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Any, PyTree]:
        """Raises an error: the steps need the bound; see `propose_from`."""
        raise NotImplementedError(
            "block: it reads the bound's gradient anew at each of its steps, and so cannot be "
            "part of another update, such as within. Give it alone: "
            "update={'z': vijax.update.block(num_steps)}."
        )

    def propose_from(
        self,
        q: SitePosterior,
        reads: Reads,
        slope: Callable[[Marginals], Marginals],
        size: Float[Array, ""],
    ) -> SitePosterior:
        """The posterior after the steps.

        Args:
          q: the posterior.
          reads: the sites of the batch.
          slope: marginals -> gradient of the batch's unscaled bound in them.
          size: size of each step.
        """
        _require_sites(self, q)
        start = q.take_sites(reads.rows)
        is_real = reads.weights > 0  # no padding
        factor = q.condition()
        mean = q.entries(reads.rows).mean
        cov = q.prior.covariance(factor, reads.rows)

        def step(_: Array, sites: Sites) -> Sites:
            change = tree.subtract(sites, start)
            r = jnp.eye(len(mean), dtype=cov.dtype) + cov * change.precision[None]
            right = jnp.concatenate([(mean + cov @ change.linear)[:, None], cov], 1)
            moments = jnp.linalg.solve(r, right)
            marginals = Marginals(moments[:, 0], jnp.diagonal(moments[:, 1:]))
            new = tree.mix(size, sites, q.entry_messages(marginals, slope(marginals)))
            return tree.select(is_real, new, sites)

        end = jax.lax.fori_loop(0, self.num_steps, step, start)
        change = tree.select(is_real, tree.subtract(end, start), tree.scale(0.0, start))
        return tree.add(q, q.scatter(reads.rows, change))


def _require_sites(update: Update, q: Any) -> None:
    """Raises ValueError at a global that has no sites."""
    expected = (
        "vijax.update.kl() or another that is not for the sites of Gaussian predictors alone, "
        f"for a {type(q).__name__}"
    )
    require(isinstance(q, SitePosterior), "update", expected, repr(update))
