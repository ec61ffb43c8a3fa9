"""The bound, or a step's estimate of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.batch import weighted_sum
from vijax.likelihood import Moments
from vijax.model import Hyper
from vijax.proximal.batch import Batch
from vijax.proximal.state import PGState, Spec
from vijax.sites import Factor, Prior, Sites
from vijax.sites.posterior import kl_to_prior


def objective(
    spec: Spec, hyper: Hyper, prior: Prior, sites: Sites, batch: Batch, key: PRNGKeyArray
) -> Float[Array, ""]:
    """(N/S) sum over the batch of E l_n, minus KL(q || p)."""
    factor = prior.condition(sites)
    m, v = prior.marginals(factor, jnp.arange(spec.model.num_sites))
    moments = spec.expectation(spec.model.likelihood(hyper), batch.y, m[batch.rows], v[batch.rows], key)
    return batch.scale * local(batch, moments) - kl_to_prior(factor, sites, v)


def penalty(spec: Spec, state: PGState, factor: Factor) -> Float[Array, ""]:
    """KL(q || p), when it is due."""

    def kl() -> Float[Array, ""]:
        _, v = state.prior.marginals(factor, jnp.arange(spec.model.num_sites))
        return kl_to_prior(factor, state.posterior, v)

    if spec.penalty_every == 1:
        return kl()
    return jax.lax.cond(state.step % spec.penalty_every == 0, kl, lambda: state.penalty)


def local(batch: Batch, moments: Moments) -> Float[Array, ""]:
    """Sum of the batch's terms, padding left out whatever it holds."""
    return weighted_sum(batch.weights, moments.value)
