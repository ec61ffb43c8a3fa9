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

        m' = (K^-1 + (1 - rho) diag g)^-1 ((1 - rho) a + rho alpha),

    and the sites' step (1 - rho) a + rho (alpha - gamma m'), -gamma for g, has exactly this mean.
    """

    def propose(
        self, q: Any, target: Any, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Any, PyTree]:
        _require_sites(self, q)
        slope = (
            target.linear - q.mean() * target.precision
        )  # the message is (alpha - gamma m, -gamma)
        first = q.with_naturals([(1 - size) * q.linear + size * slope, (1 - size) * q.precision])
        landed = [slope + first.mean() * target.precision, target.precision]
        return tree.mix(size, q, q.with_naturals(landed)), memory


@check_arguments
@dataclasses.dataclass(frozen=True)
class block(Update):
    """Several steps on the sites of one batch, with the other sites in the place of their
    likelihoods.

    They ascend the bound of the model p(z) prod_others exp(a z - g z^2 / 2) prod_batch p(y | z),
    whose optimum has the sites of the batch equal to their messages: the fixed points are those of
    the whole bound, in which the other sites are messages too. It is no coordinate ascent on that
    bound, and does not promise that it rises at every step.

    Given the marginal N(m, V) of the batch's predictors, a change (da, dg) of their own sites
    changes it in closed form,

        m' = R^-1 (m + V da),   V' = R^-1 V,   R = I + V diag(dg),

    so that inner steps cost O(M^3) and need no new factorisation of the whole.

    Args:
      num_steps: number of steps, each of the size that the schedule says.
    """

    num_steps: Size
    asks_again: ClassVar[bool] = True

    def propose(
        self, q: Any, target: Any, size: Float[Array, ""] | float, memory: PyTree
    ) -> tuple[Any, PyTree]:
        """Raises an error: the steps need the bound; see `propose_from`."""
        raise NotImplementedError(
            "block: it reads the bound's gradient anew at each of its steps, and so cannot be "
            "part of another update, "
            "such as within. Give it alone: update={'z': vijax.update.block(num_steps)}."
        )

    def propose_from(
        self,
        q: SitePosterior,
        reads: Reads,
        slope: Callable[[Marginals], Marginals],
        size: Float[Array, ""],
    ) -> SitePosterior:
        """The sites after the steps, each of this size; `slope` is the gradient of the batch's
        unscaled bound in the marginals of its sites."""
        _require_sites(self, q)
        start, moving = q.at(reads.rows), reads.weights > 0
        factor = q.condition()
        mean, cov = q.entries(reads.rows).mean, q.prior.covariance(factor, reads.rows)

        def one(_: Array, sites: Sites) -> Sites:
            change = tree.subtract(sites, start)
            r = jnp.eye(len(mean), dtype=cov.dtype) + cov * change.precision[None]
            shifted = jnp.linalg.solve(
                r, jnp.concatenate([(mean + cov @ change.linear)[:, None], cov], 1)
            )
            at = Marginals(shifted[:, 0], jnp.diagonal(shifted[:, 1:]))
            stepped = tree.mix(size, sites, q.entry_messages(at, slope(at)))
            return tree.select(moving, stepped, sites)

        end = jax.lax.fori_loop(0, self.num_steps, one, start)
        change = tree.select(moving, tree.subtract(end, start), tree.scale(0.0, start))
        return tree.add(q, q.scattered(reads.rows, change))


def _require_sites(update: Update, q: Any) -> None:
    expected = "vijax.update.kl() or another that is not for the sites of Gaussian predictors alone"
    require(
        isinstance(q, SitePosterior),
        "update",
        f"{expected}, for a {type(q).__name__}",
        repr(update),
    )
