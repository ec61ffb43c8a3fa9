"""Step sizes rho_t and data-set ramps N_t, as functions of the step t = 0, 1, 2, ... (seed 000, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from vijax.families.base import require

Schedule = Callable[[Int[Array, ""]], Float[Array, ""]]
Ramp = Callable[[Int[Array, ""], Float[Array, ""], Float[Array, ""]], Float[Array, ""]]


def constant(rho: float = 1.0) -> Schedule:
    """rho_t = rho."""
    require(0.0 < rho <= 1.0, "rho", "a number in (0, 1]", rho)
    return lambda t: jnp.full(jnp.shape(t), rho)


def robbins_monro(scale: float = 1.0, offset: float = 1.0, kappa: float = 0.75) -> Schedule:
    """rho_t = min(1, scale (t + offset)^-kappa).

    Args:
      scale: s > 0.
      offset: tau >= 1, which damps the first steps.
      kappa: in (0.5, 1] for almost-sure convergence; smaller values, down to 0, are allowed and forget faster.

    >>> rho = robbins_monro(kappa=0.75)
    >>> [round(float(rho(t)), 4) for t in (0, 1, 15)]
    [1.0, 0.5946, 0.125]
    """
    require(scale > 0, "scale", "a positive number", scale)
    require(offset >= 1, "offset", "a number >= 1", offset)
    require(0 <= kappa <= 1, "kappa", "a number in [0, 1]", kappa)
    return lambda t: jnp.minimum(1.0, scale * (t + jnp.float32(offset)) ** -kappa)


def hold_then_decay(hold: int, rho: float = 1.0, kappa: float = 0.5) -> Schedule:
    """rho_t = rho for t < hold, then rho (t - hold + 1)^-kappa: SSVI-A on full data wants large first steps.

    >>> [round(float(hold_then_decay(200)(t)), 3) for t in (0, 199, 200, 203)]
    [1.0, 1.0, 1.0, 0.5]
    """
    require(hold >= 0, "hold", "a number of steps >= 0", hold)
    require(0.0 < rho <= 1.0, "rho", "a number in (0, 1]", rho)
    require(0 <= kappa <= 1, "kappa", "a number in [0, 1]", kappa)
    return lambda t: rho * jnp.maximum(t - hold + jnp.float32(1.0), 1.0) ** -kappa


def no_ramp() -> Ramp:
    """N_t = N."""
    return lambda t, total, batch: total


def ramp(sweeps: float = 1.0) -> Ramp:
    """N_t grows in proportion to the groups seen, up to N after `sweeps` passes: min(t, N) of seed 000, Algorithm 1.

    Args:
      sweeps: passes over the data until N_t = N.
    """
    require(sweeps > 0, "sweeps", "a positive number", sweeps)
    return lambda t, total, batch: jnp.minimum((t + 1) * batch / sweeps, total)
