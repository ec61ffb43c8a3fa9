"""Step sizes rho_t and data-set ramps N_t, as functions of the step t = 0, 1, 2, ... (Hoffman and Blei 2015, Algorithm
1).

How small a step may be is a matter of precision. A step changes a natural parameter by rho times what it lacks, and a
change below half a unit of its last digit is lost. So in float32 a parameter stops within 2e-7 / rho of where it should
be, relatively: 2e-4 at rho = 1e-3, 2e-3 at rho = 1e-4 (in float64 4e-16 / rho). The noise of minibatches carries it
further, as dither does; but where steps fall below 1e-4, as (t + 1)^-0.9 does at t = 30,000, and means are wanted to
more than three digits, use float64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from vijax.families.base import require, require_integers, require_positive
from vijax.families.construction import on_host

Schedule = Callable[[Int[Array, ""]], Float[Array, ""]]
Ramp = Callable[[Int[Array, ""], Float[Array, ""], Float[Array, ""]], Float[Array, ""]]


def check_schedule(step_size: Any, takes_beta: bool = False) -> None:
    """Raises ValueError on what is no function of the step number, a bare number above all; and on a first step above
    1, unless it is for a geometry that `takes_beta`."""
    remedy = "vijax.step_size.constant(rho) holds it at rho."
    require(callable(step_size), "step_size", "a schedule of vijax.step_size", step_size, remedy)
    first = step_size(0)
    known = takes_beta or isinstance(first, jax.core.Tracer)
    remedy = "Larger ones are for geometries whose step size is beta (vijax.geometry)."
    require(known or np.asarray(first) <= 1, "step_size", "steps of at most 1", first, remedy)


def constant(rho: float = 1.0) -> Schedule:
    """rho_t = rho."""
    require(0.0 < rho <= 1.0, "rho", "a number in (0, 1]", rho)

    def schedule(t: Any) -> Any:
        xp, t = on_host(t)
        return xp.full(xp.shape(t), rho, jnp.result_type(float))

    return schedule


def beta(scale: float, schedule: Schedule | None = None) -> Schedule:
    """beta_t = scale schedule(t): for geometries whose step size is beta, which may exceed 1 (`vijax.geometry`).

    Args:
      scale: a positive number. A full step of `symmetric_kl` is 2; `euclidean` and `mirror` want the order of
        1 / F, for Dirichlet counts of a thousand some thousand.
      schedule: how it changes, a schedule of this module; None holds it at `scale`.

    Raises:
      ValueError: `scale` not positive.

    >>> [round(float(beta(1000.0, robbins_monro(kappa=1.0))(t)), 1) for t in (0, 1, 9)]
    [1000.0, 500.0, 100.0]
    """
    require(scale > 0, "scale", "a positive number", scale)
    shape = schedule or constant()
    return lambda t: scale * shape(t)


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
    require_positive(scale=scale)
    require(offset >= 1, "offset", "a number >= 1", offset)
    require(0 <= kappa <= 1, "kappa", "a number in [0, 1]", kappa)

    def schedule(t: Any) -> Any:
        xp, t = on_host(t)
        return xp.minimum(1.0, scale * (_real(t) + offset) ** -kappa)

    return schedule


def hold_then_decay(hold: int, rho: float = 1.0, kappa: float = 0.5) -> Schedule:
    """rho_t = rho for t < hold, then rho (t - hold + 1)^-kappa: SSVI-A on full data wants large first steps.

    >>> [round(float(hold_then_decay(200)(t)), 3) for t in (0, 199, 200, 203)]
    [1.0, 1.0, 1.0, 0.5]
    """
    require(hold >= 0, "hold", "a number of steps >= 0", hold)
    require(0.0 < rho <= 1.0, "rho", "a number in (0, 1]", rho)
    require(0 <= kappa <= 1, "kappa", "a number in [0, 1]", kappa)

    def schedule(t: Any) -> Any:
        xp, t = on_host(t)
        return rho * xp.maximum(_real(t) - hold + 1.0, 1.0) ** -kappa

    return schedule


def _real(t: Any) -> Float[Array, ""]:
    """The step number in the working precision, float64 where x64 is on: a schedule rounded to float32 would move the
    fixed point of float64 steps by 1e-7."""
    return t.astype(jnp.result_type(float))


def no_ramp() -> Ramp:
    """N_t = N."""
    return lambda t, total, batch: total


def ramp(sweeps: float = 1.0) -> Ramp:
    """N_t grows in proportion to the groups seen, up to N after `sweeps` passes: min(t, N) of Hoffman and Blei 2015,
    Algorithm 1.

    Args:
      sweeps: passes over the data until N_t = N.
    """
    require_positive(sweeps=sweeps)
    return lambda t, total, batch: jnp.minimum((t + 1) * batch / sweeps, total)


def proximal(beta: float | Schedule) -> Schedule:
    """rho_t = beta_t / (1 + beta_t): the step size beta of the proximal step (Khan et al. 2016, eq. 9), for KL
    geometry.

    Proposition 1 takes beta = alpha / L, for a divergence of strong convexity alpha and an f whose gradient has
    Lipschitz constant L.

    Args:
      beta: a positive number, or a schedule of them.

    Raises:
      ValueError: beta not positive.

    >>> float(proximal(3.0)(0))
    0.75
    """
    if callable(beta):
        return lambda t: beta(t) / (1.0 + beta(t))
    require_positive(beta=beta)
    return lambda t: jnp.full(jnp.shape(t), beta / (1.0 + beta))


@dataclasses.dataclass(frozen=True)
class Backtracking:
    """A step size found by trying: see `backtracking`."""

    initial: float
    shrink: float
    grow: float
    max_trials: int


def backtracking(initial: float = 0.5, shrink: float = 0.5, grow: float = 2.0, max_trials: int = 30) -> Backtracking:
    """Starts from the last step's size, enlarged if its first trial served, and shrinks until the ELBO does not fall.

    On full data with an exact expectation the ELBO never decreases. With minibatches, or Monte Carlo under the step's
    one key, it is the step's own estimate of the ELBO that must not.

    Args:
      initial: rho of the first trial, in (0, 1).
      shrink: factor on beta = rho / (1 - rho) after a failed trial, in (0, 1).
      grow: factor on beta after a step whose first trial served, >= 1.
      max_trials: after so many the step is not taken.
    """
    require(0 < initial < 1, "initial", "a number in (0, 1)", initial)
    require(0 < shrink < 1, "shrink", "a number in (0, 1)", shrink)
    require(grow >= 1, "grow", "a number >= 1", grow)
    require_integers(max_trials=max_trials)
    return Backtracking(initial, shrink, grow, max_trials)


def scale_beta(rho: Float[Array, ""], factor: float) -> Float[Array, ""]:
    """The rho of `factor` times the beta of this rho.

    >>> round(float(scale_beta(jnp.float32(0.5), 3.0)), 6)
    0.75
    """
    return factor * rho / (1.0 + (factor - 1.0) * rho)
