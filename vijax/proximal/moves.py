"""Where a step of a given size lands."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax import tree
from vijax.likelihood import Moments
from vijax.proximal import block
from vijax.proximal.batch import Batch
from vijax.proximal.messages import memory_target, minibatch_target, site_message
from vijax.proximal.retraction import Trial, retract
from vijax.proximal.state import PGState, Spec
from vijax.sites import Factor, SitePosterior, Sites


def mover(
    spec: Spec, state: PGState, batch: Batch, factor: Factor, moments: Moments, m: Array, key: PRNGKeyArray
) -> Callable[[Float[Array, ""]], Trial]:
    """rho -> the sites after a step of that size."""
    if spec.inner_steps > 1:
        return _block_mover(spec, state, batch, factor, m, key)
    land = memory_target if spec.memory else minibatch_target

    def move(rho: Float[Array, ""]) -> Trial:
        center = m if spec.mean == "current" else _exact_mean(state, batch, moments, rho)
        target = land(state.posterior, batch, site_message(moments, center))
        q = SitePosterior(state.posterior, state.prior)
        proposal, _ = spec.update.propose(q, SitePosterior(target, state.prior), rho, ())
        return retract(proposal.sites, state.posterior, target, state.prior, rho)

    return move


def _block_mover(
    spec: Spec, state: PGState, batch: Batch, factor: Factor, m: Array, key: PRNGKeyArray
) -> Callable[[Float[Array, ""]], Trial]:
    """rho -> the sites after `inner_steps` steps of that size on the batch's."""
    cov = state.prior.covariance(factor, batch.rows)
    lik = spec.model.likelihood(state.hyper)
    expect = lambda m, v: spec.expectation(lik, batch.y, m, v, key)

    def move(rho: Float[Array, ""]) -> Trial:
        proposal = block.ascend(state.posterior, batch, m, cov, expect, rho, spec.inner_steps)
        return retract(proposal, state.posterior, proposal, state.prior, rho)

    return move


def _exact_mean(state: PGState, batch: Batch, moments: Moments, rho: Float[Array, ""]) -> Float[Array, " batch"]:
    """m' = (K^-1 + (1 - rho) diag g)^-1 ((1 - rho) a - rho alpha): appendix D.3. With the message linearised at m' in
    place of m, the sites' step (1 - rho) a + rho (gamma m' - alpha) has exactly this mean."""
    slope = minibatch_target(state.posterior, batch, Sites(moments.slope, jnp.zeros_like(moments.slope)))
    sites = tree.mix(rho, state.posterior, slope)
    return state.prior.marginals(state.prior.condition(sites), batch.rows)[0]
