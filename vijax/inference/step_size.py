"""Step sizes rho_t and data-set ramps N_t, as functions of the step t = 0, 1, 2, ... (Hoffman and
Blei 2015, Algorithm 1).

The precision limits how small a step may be. A step changes a natural parameter by rho times its
distance to the target, and a change below half a unit of the last digit is lost. So in float32 a
parameter stops at a relative distance of 2e-7 / rho from the target: 2e-4 at rho = 1e-3, 2e-3 at
rho = 1e-4 (in float64 4e-16 / rho). The noise of minibatches carries it further, as dither does.
But use float64 if steps fall below 1e-4, as (t + 1)^-0.9 does at t = 30,000, and you want means to
more than three digits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import Annotated, Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from vijax import tree
from vijax.arguments import Count, Positive, Size, check_arguments, interval, minimum
from vijax.checks import require
from vijax.families.construction import numpy_or_jax

T = TypeVar("T")
Schedule = Callable[[Int[Array, ""]], Float[Array, ""]]
Ramp = Callable[[Int[Array, ""], Float[Array, ""], Float[Array, ""]], Float[Array, ""]]


def check_schedule(step_size: Any, sizes: Collection[str] = ("rho",)) -> None:
    """Raises ValueError at a step size that is no function of the step number, such as a bare
    number; and at a first step above 1, unless all updates read a beta
    (`vijax.update.Update.size`)."""
    remedy = "vijax.step_size.constant(rho) holds it at rho."
    require(callable(step_size), "step_size", "a schedule of vijax.step_size", step_size, remedy)
    first = step_size(0)
    is_free = "rho" not in sizes or isinstance(first, jax.core.Tracer)
    remedy = "Larger ones are for updates whose step size is beta (vijax.update)."
    require(is_free or np.asarray(first) <= 1, "step_size", "steps of at most 1", first, remedy)


@check_arguments
@dataclasses.dataclass(frozen=True)
class constant:
    """rho_t = rho.

    Args:
      rho: the step size.
    """

    rho: Annotated[float, interval("(0, 1]")] = 1.0

    def __call__(self, t: Any) -> Float[Array, ""]:
        xp, t = numpy_or_jax(t)
        return xp.full(xp.shape(t), self.rho, jnp.result_type(float))


@check_arguments
@dataclasses.dataclass(frozen=True)
class beta:
    """beta_t = scale schedule(t): for updates whose step size is beta, which may exceed 1
    (`vijax.update`).

    Args:
      scale: a positive number. A full step of `symmetric_kl` is 2; `euclidean` and `mirror` want
        the order of 1 / F, for Dirichlet counts of a thousand some thousand.
      schedule: how it changes, a schedule of this module; None holds it at `scale`.

    >>> [round(float(beta(1000.0, robbins_monro(kappa=1.0))(t)), 1) for t in (0, 1, 9)]
    [1000.0, 500.0, 100.0]
    """

    scale: Positive
    schedule: Schedule | None = None

    def __call__(self, t: Any) -> Float[Array, ""]:
        return self.scale * (self.schedule or constant())(t)


@check_arguments
@dataclasses.dataclass(frozen=True)
class robbins_monro:
    """rho_t = min(1, scale (t + offset)^-kappa).

    Args:
      scale: factor s of s (t + tau)^-kappa.
      offset: tau, which damps the first steps.
      kappa: the power; 0.5 to 1. That is for almost-sure convergence: smaller values are allowed
          and forget faster.

    >>> rho = robbins_monro(kappa=0.75)
    >>> [round(float(rho(t)), 4) for t in (0, 1, 15)]
    [1.0, 0.5946, 0.125]
    """

    scale: Positive = 1.0
    offset: Annotated[float, minimum(1)] = 1.0
    kappa: Annotated[float, interval("[0, 1]")] = 0.75

    def __call__(self, t: Any) -> Float[Array, ""]:
        xp, t = numpy_or_jax(t)
        return xp.minimum(1.0, self.scale * (_real(t) + self.offset) ** -self.kappa)


@check_arguments
@dataclasses.dataclass(frozen=True)
class by_odds:
    """rho_t = l / (1 + l) with l = first / (t + 1), the weights of `vijax.bam` (Cai et al. 2024,
    section 5).

    Args:
      first: l at the first step, a positive number.

    >>> [round(float(by_odds(3.0)(t)), 2) for t in (0, 2)]
    [0.75, 0.5]
    """

    first: Positive

    def __call__(self, t: Any) -> Float[Array, ""]:
        _, t = numpy_or_jax(t)
        return self.first / (self.first + 1 + _real(t))


@check_arguments
@dataclasses.dataclass(frozen=True)
class hold_then_decay:
    """rho_t = rho for t < hold, then rho (t - hold + 1)^-kappa: SSVI-A on full data wants large
    first steps.

    Args:
      hold: steps at rho before the decay.
      rho: the step size.
      kappa: the power; 0.5 to 1.

    >>> [round(float(hold_then_decay(200)(t)), 3) for t in (0, 199, 200, 203)]
    [1.0, 1.0, 1.0, 0.5]
    """

    hold: Count
    rho: Annotated[float, interval("(0, 1]")] = 1.0
    kappa: Annotated[float, interval("[0, 1]")] = 0.5

    def __call__(self, t: Any) -> Float[Array, ""]:
        xp, t = numpy_or_jax(t)
        return self.rho * xp.maximum(_real(t) - self.hold + 1.0, 1.0) ** -self.kappa


def _real(t: Any) -> Float[Array, ""]:
    """The step number in the working precision, float64 under x64: a schedule rounded to float32
    would move the fixed point of float64 steps by 1e-7."""
    return t.astype(jnp.result_type(float))


@dataclasses.dataclass(frozen=True)
class no_ramp:
    """N_t = N."""

    def __call__(self, t: Any, total: Array, batch: Array) -> Array:
        return total


@check_arguments
@dataclasses.dataclass(frozen=True)
class ramp:
    """N_t grows in proportion to the groups read so far, up to N after `sweeps` passes: min(t, N)
    of Hoffman and Blei 2015, Algorithm 1.

    Args:
      sweeps: passes over the data until N_t = N.
    """

    sweeps: Positive = 1.0

    def __call__(self, t: Any, total: Array, batch: Array) -> Array:
        return jnp.minimum((t + 1) * batch / self.sweeps, total)


@check_arguments
@dataclasses.dataclass(frozen=True)
class proximal:
    """rho_t = beta_t / (1 + beta_t): the step size beta of the proximal step (Khan et al. 2016, eq.
    9), for KL updates.

    Proposition 1 takes beta = alpha / L, for a divergence of strong convexity alpha and an f whose
    gradient has Lipschitz constant L.

    Args:
      beta: step size of the proximal step, rho = beta / (1 + beta). A positive number, or a
          schedule of them.

    >>> float(proximal(3.0)(0))
    0.75
    """

    beta: Positive | Schedule

    def __call__(self, t: Any) -> Float[Array, ""]:
        size = self.beta(t) if callable(self.beta) else jnp.full(jnp.shape(t), self.beta)
        return size / (1.0 + size)


@check_arguments
@dataclasses.dataclass(frozen=True)
class backtracking:
    """A step size found by trials. The first trial has the size of the last step, enlarged if that
    needed no second trial; the size shrinks until the ELBO does not fall.

    On full data with an exact expectation the ELBO never decreases. With minibatches, or with draws
    (one key for all trials of a step), the step's own estimate of the ELBO must not fall. Each
    trial costs one more E-step.

    Args:
      initial: rho of the first trial.
      shrink: factor on beta = rho / (1 - rho) after a failed trial.
      grow: factor on beta after a step whose first trial succeeded.
      max_trials: number of trials after which the step is not taken.
      max_nats: radius of a trust region: a trial beyond KL(q' || q) = `max_nats` shrinks too.
    """

    initial: Annotated[float, interval("(0, 1)")] = 0.5
    shrink: Annotated[float, interval("(0, 1)")] = 0.5
    grow: Annotated[float, minimum(1)] = 2.0
    max_trials: Size = 30
    max_nats: Positive | None = None

    def first(self, last: Float[Array, ""], step: Int[Array, ""]) -> Float[Array, ""]:
        """The size of the first trial: `initial` at step 0, then `next` of the last step."""
        return jnp.where(step == 0, jnp.asarray(self.initial, last.dtype), last)

    def next(self, used: Float[Array, ""], refused: Int[Array, ""]) -> Float[Array, ""]:
        """The first size of the next search, after a step of size `used` with `refused` failed
        trials."""
        return jnp.where(refused == 0, jnp.minimum(scale_beta(used, self.grow), 1.0 - 1e-6), used)

    def search(
        self,
        step: Callable[[Array], T],
        serves: Callable[[T], Bool[Array, ""]],
        stay: T,
        rho: Float[Array, ""],
    ) -> tuple[T, Float[Array, ""], Int[Array, ""]]:
        """Shrinks a step until it serves; after `max_trials` trials there is no step.

        Args:
          step: rho -> the result of a step of this size.
          serves: result -> True if it may be accepted; False if it is not finite.
          stay: the result of no step.
          rho: size of the first trial.

        Returns:
          The accepted result, its step size, and the number of refused trials.
        """

        # The loop makes the first trial too, so that the program has one trial only.
        def attempt(carry: tuple) -> tuple:
            _, rho, _, count = carry
            rho = jnp.where(count < 0, rho, scale_beta(rho, self.shrink))
            trial = step(rho)
            return trial, rho, ~serves(trial), count + 1

        carry = (stay, rho, jnp.array(True), jnp.int32(-1))
        trial, rho, refused, count = jax.lax.while_loop(
            lambda c: c[2] & (c[3] < self.max_trials), attempt, carry
        )
        return tree.select(refused, stay, trial), rho, count


def no_lower(value: Float[Array, ""], start: Float[Array, ""]) -> Bool[Array, ""]:
    """True if an objective is not below its start by more than rounding; False if it is NaN."""
    return value >= start - 8 * jnp.finfo(start.dtype).eps * jnp.abs(start)


@dataclasses.dataclass(frozen=True, repr=False)
class by_share:
    """One rule for steps that read all the data, and another for steps that read a share of it.

    Args:
      whole: the rule for all the data.
      part: share -> the schedule for this share, 0 < share < 1.
    """

    whole: Schedule | backtracking
    part: Callable[[float], Schedule]

    def __repr__(self) -> str:
        names = [getattr(rule, "__name__", type(rule).__name__) for rule in (self.whole, self.part)]
        return f"by_share({', '.join(names)})"

    def choose(self, share: float) -> Schedule | backtracking:
        """The rule for steps that read this share of the data."""
        return self.whole if share >= 1 else self.part(share)


@dataclasses.dataclass(frozen=True)
class third_of_the_way:
    """rho_t = share (1 + share t)^-0.6 / 3, where share t is the number of passes over the data.

    It moves the sites of each batch a third of the way to their messages, which are scaled by 1 /
    share."""

    share: float

    def __call__(self, t: Any) -> Float[Array, ""]:
        return self.share / 3 * (1.0 + self.share * t) ** -0.6


def scale_beta(rho: Float[Array, ""], factor: float) -> Float[Array, ""]:
    """The rho whose beta is `factor` times the beta of this rho.

    >>> round(float(scale_beta(jnp.float32(0.5), 3.0)), 6)
    0.75
    """
    return factor * rho / (1.0 + (factor - 1.0) * rho)
