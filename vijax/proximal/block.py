"""Several steps on the sites of one batch, while the other sites stand for their likelihoods.

They ascend the bound of the model p(z) prod_others exp(a z - g z^2 / 2) prod_batch p(y | z), whose optimum has the
sites of the batch equal to their messages: the fixed points are those of the whole bound, in which the other sites are
messages too. It is no coordinate ascent on that bound, and does not promise that it rises at every step; measured, it
converges in far fewer passes.

Given the marginal N(m, V) of the batch's predictors, a change (da, dg) of their own sites changes it in closed form,

    m' = R^-1 (m + V da),   V' = R^-1 V,   R = I + V diag(dg),

so that inner steps cost O(M^3) and no new factorisation of the whole.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax import tree
from vijax.likelihood import Moments
from vijax.proximal.messages import Batch, site_message
from vijax.sites import Sites

Expect = Callable[[Float[Array, " batch"], Float[Array, " batch"]], Moments]
"""(m, v) -> the moments of the batch's likelihoods."""


def ascend(
    sites: Sites,
    batch: Batch,
    mean: Float[Array, " batch"],
    cov: Float[Array, "batch batch"],
    expect: Expect,
    rho: Float[Array, ""],
    num_steps: int,
) -> Sites:
    """The sites after `num_steps` KL steps of size rho on those of the batch.

    Args:
      sites: all of them.
      batch: which to move; padding stays.
      mean: m of the batch, at `sites`.
      cov: V of the batch, at `sites`.
      expect: the likelihood's moments.
      rho: size of each step.
      num_steps: how many.
    """
    start = sites.at(batch.rows)
    moving = batch.weights > 0

    def one(_: Array, block: Sites) -> Sites:
        m, v = _shifted(mean, cov, tree.subtract(block, start))
        stepped = tree.mix(rho, block, site_message(expect(m, v), m))
        return tree.select(moving, stepped, block)

    block = jax.lax.fori_loop(0, num_steps, one, start)
    change = tree.select(moving, tree.subtract(block, start), tree.scale(0.0, start))
    return sites.at_add(batch.rows, change)


def _shifted(mean: Array, cov: Array, change: Sites) -> tuple[Array, Array]:
    """Mean and variances after a change of the batch's own sites."""
    r = jnp.eye(len(mean), dtype=cov.dtype) + cov * change.precision
    shifted = jnp.linalg.solve(r, jnp.concatenate([(mean + cov @ change.linear)[:, None], cov], 1))
    return shifted[:, 0], jnp.diagonal(shifted[:, 1:])
