"""Messages of sites: the natural gradient of E_q[log p(y_n | z_n)], and where a step would land with them.

In the mean parameters (m_n, -(v_n + m_n^2)/2) of the statistics (z_n, -z_n^2/2) the gradient of E l_n is

    (E l' - m E l'',  -E l'')

by Bonnet and Price and the chain rule: the pseudo-observation that replaces the likelihood (conjugate-computation VI).
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from vijax.likelihood import Moments
from vijax.proximal.batch import Batch
from vijax.sites import Sites


def site_message(moments: Moments, mean: Float[Array, " batch"]) -> Sites:
    """One message a site, linearised at `mean`."""
    return Sites(moments.slope - mean * moments.curvature, -moments.curvature)


def minibatch_target(sites: Sites, batch: Batch, message: Sites) -> Sites:
    """(N/S) sum of the batch's messages: an unbiased estimate of all of them (eq. 19)."""
    zero = Sites(jnp.zeros_like(sites.linear), jnp.zeros_like(sites.precision))
    return zero.at_add(batch.rows, _weighted(batch.scale * batch.weights, message))


def memory_target(sites: Sites, batch: Batch, message: Sites) -> Sites:
    """The sites with the batch's replaced: every site remembers its last message, so that nothing but the present
    batch's change is noise (the stochastic average gradient of Le Roux et al. 2012, whose memory the sites are)."""
    old = sites.at(batch.rows)
    change = Sites(message.linear - old.linear, message.precision - old.precision)
    return sites.at_add(batch.rows, _weighted(batch.weights, change))


def first_bad(batch: Batch, moments: Moments) -> Int[Array, ""]:
    """The first site of the batch with a moment that is not finite, or -1."""
    bad = jnp.any(_bad(batch, moments), axis=0)
    return jnp.where(jnp.any(bad), batch.rows[jnp.argmax(bad)], -1)


def count_non_finite(batch: Batch, moments: Moments) -> Int[Array, ""]:
    """How many moments of the batch, padding left out, are infinite or NaN."""
    return jnp.sum(_bad(batch, moments), dtype=jnp.int32)


def _bad(batch: Batch, moments: Moments) -> Bool[Array, "3 batch"]:
    values = jnp.stack([moments.value, moments.slope, moments.curvature])
    return ~jnp.isfinite(values) & (batch.weights > 0)


def _weighted(weights: Array, message: Sites) -> Sites:
    """Weights times a message, padding left out whatever it holds."""
    keep = lambda x: jnp.where(weights > 0, weights * x, 0.0)
    return Sites(keep(message.linear), keep(message.precision))
