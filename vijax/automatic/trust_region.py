"""The loops that fit a normal to a log density: steps on fixed draws in a trust region, then a running mean of steps.

No step size is to be chosen. On fixed draws (as in Burroni et al. 2024) natural-gradient steps are taken inside a trust
region in nats that widens and narrows with the gain of the steps (as in Arenz et al. 2023), until the noise of the
draws is all that is left; then there are four times as many draws. Once that noise is worth less than `NEAR` nats, or
there may be no more draws, steps on draws that are fresh each time are averaged. A fit is repeatable to the bit.

The steps are those of `vijax.ngvi`, which ends at the same normal after as many gradients where the posterior is near
normal. It does not know how many draws and steps that takes, nor when no normal will do: the loops here add that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from jaxtyping import Float

from vijax.automatic.gaussian import Evaluated, FullCovariance, Gaussian, evaluate, noise_of, step
from vijax.automatic.improper import ASKED, grows_along
from vijax.automatic.lbfgs import never
from vijax.automatic.report import Ended
from vijax.automatic.stage import Sitting
from vijax.automatic.target import Target

NATS, SDS = 2e-3, 0.015
"""A fit has converged where the noise of its draws makes less of a step: nats, and standard deviations of the mean."""
WIDEST = 10.0
"""Largest radius, in nats."""
SLOW = 0.3
"""Where a step gains less than this share of the gap, most of the gap is one of shape."""
FEWEST_STEPS = 4
"""More fixed draws are taken only if gradients are left for so many evaluations of them."""
NEAR = 0.3
"""Nats of noise in a step below which fresh draws are averaged: the steps are then nearly linear in q."""


class Run(NamedTuple):
    """The limits of a fit.

    Attributes:
      target: the density.
      max_gradients: of the target, those evaluated before included.
      stopped: asked before each step; where it says True the fit ends as it stands.
    """

    target: Target
    max_gradients: int
    stopped: Callable[[], bool] = never

    def affords(self, gradients: int) -> bool:
        """Says whether so many gradients are left."""
        return self.target.num_gradients + gradients <= self.max_gradients


class Seen(Protocol):
    """A normal evaluated on draws: its bound there, and whatever else a family's steps need."""

    @property
    def elbo(self) -> float:
        """The bound on these draws."""


S = TypeVar("S", bound=Seen)


class Family(Protocol[S]):
    """A family of normals, as the loops need it."""

    def look(self, target: Target, q: Gaussian, noise: Float[np.ndarray, "draws D"], /) -> S | None:
        """Evaluates q on draws, one gradient each; None where the draws say nothing."""

    def moved(self, seen: S, radius: float, rho: float, /) -> Gaussian:
        """Takes a natural-gradient step of size rho, no further than the radius."""


def averaged(
    run: Run,
    family: Family[S],
    q: Gaussian,
    size: int,
    seed: list[int],
    first: int,
    radius: Callable[[int], float],
    after: Callable[[Gaussian, S, int], tuple[Gaussian, Ended | None]],
) -> Gaussian:
    """Takes steps of size 1 / t, each on fresh draws: the running mean of the steps that all draws ask for, whose noise
    falls with all draws taken, and none is evaluated twice (Robbins and Monro 1951).

    Args:
      run: its limits.
      family: of q.
      q: where to begin.
      size: draws of a step.
      seed: of the draws.
      first: t of the step before the first.
      radius: of step t, in nats.
      after: takes q, what was seen before the step, and t; returns q with what is known of its error, and why the fit
        ends, or None.
    """
    for count in itertools.count(first + 1):
        if run.stopped():
            return q._replace(ended=Ended.INTERRUPTED)
        if not run.affords(size):
            break
        seen = family.look(run.target, q, noise_of(size, len(q.mean), [*seed, count]))
        if seen is None:
            continue
        q, ended = after(family.moved(seen, radius(count), 1 / count), seen, count)
        if ended is not None:
            return q._replace(ended=ended)
    return q._replace(ended=Ended.LIMITED)


# --- normals of full covariance ---------------------------------------------------------------------------------------
def fit(
    run: Run,
    begin: Sitting,
    seed: int,
    max_draws: int,
    note: Callable[[Sitting], None] = lambda sitting: None,
    misfits: Callable[[Gaussian, float], bool] = lambda q, gap: False,
) -> Gaussian:
    """Returns the normal nearest to the target, by the ELBO.

    Args:
      run: the limits; no step is taken, and no set of draws begun, that needs more gradients.
      begin: where to begin.
      seed: of the draws.
      max_draws: largest number of fixed draws.
      note: called with the place to go on from, at each new set of draws.
      misfits: called with a normal and its gap, less the part that the noise of draws makes of it; where that noise is
        all that is left, or a step gains little beside the gap. True says that no normal will do: the fit ends.
    """
    trace: list[float] = []
    while not begin.averaged:
        now, begin, ended = _on_fixed_draws(run, begin, [seed, begin.level], trace, misfits)
        doubt, error = now.asked.nats, float(now.asked.sds.max())
        if ended is None and misfits(now.at, now.gap - doubt):
            ended = Ended.LIMITED
        if ended is not None:
            return now.at._replace(elbo=now.elbo, ended=ended, trace=tuple(trace), error=error)
        begin = begin._replace(mean=now.at.mean, scale=now.at.scale, elbo=now.elbo)
        more = min(4 * begin.size, max_draws)
        if doubt < NEAR or more <= begin.size or not run.affords(FEWEST_STEPS * more):
            begin = begin._replace(averaged=1, doubt=doubt, error=error)
        else:
            begin = begin._replace(size=more, level=begin.level + 1)
            note(begin)
    return _on_fresh_draws(run, begin, [seed, begin.level], note, misfits)._replace(trace=tuple(trace))


def _on_fixed_draws(
    run: Run, begin: Sitting, seed: list[int], trace: list[float], misfits: Callable[[Gaussian, float], bool]
) -> tuple[Evaluated, Sitting, Ended | None]:
    """Takes steps on one set of draws until their noise is all that is left. Returns the last normal, scales of the
    density as they are known then, and why the fit ends, if it does."""
    noise = noise_of(begin.size, len(begin.mean), seed)
    begin = begin._replace(size=len(noise))
    now, radius, refused = evaluate(run.target, begin.q, noise), 1.0, 0
    while True:
        if run.stopped():
            return now, begin, Ended.INTERRUPTED
        doubt = now.asked.nats
        trial = step(now.at, now.asked.slope, now.asked.curvature, radius)
        if trial.is_whole and trial.nats < max(0.5 * doubt, 1e-7):  # nothing but noise
            is_sure = doubt < NATS and now.asked.sds.max() < SDS
            return now._replace(at=trial.to), begin, Ended.CONVERGED if is_sure else None
        if not run.affords(len(noise)):
            return now, begin, Ended.LIMITED if trial.nats < doubt else Ended.SPENT
        then = evaluate(run.target, trial.to, noise)
        if not then.elbo >= now.elbo - 1e-3 * trial.nats - 10 * run.target.epsilon * now.size:
            refused, radius = refused + 1, trial.nats / 4
            if refused > 3 or radius < doubt:
                return now, begin, None
            continue
        if not trial.is_whole or trial.nats > 0.25 * radius:
            radius = min(2 * radius, WIDEST)
        gain, now, refused = then.elbo - now.elbo, then, 0
        trace.append(now.elbo)
        if _is_far(now.at, begin):
            if grows_along(run.target, now.at.at(noise_of(ASKED, len(begin.mean), [seed[0], 98]))).any():
                return now, begin, Ended.UNBOUNDED
            begin = begin._replace(wide=now.at.sds, origin=now.at.mean)  # proper, and of another size
        if gain < SLOW * (now.gap - doubt) and misfits(now.at, now.gap - doubt):
            return now, begin, Ended.SPENT


def _on_fresh_draws(
    run: Run,
    begin: Sitting,
    seed: list[int],
    note: Callable[[Sitting], None],
    misfits: Callable[[Gaussian, float], bool],
) -> Gaussian:
    """Averages steps on fresh draws, the fixed ones before counted as the first. The radius is NEAR / t nats: else a
    set with a draw far out, where slopes are steep, would undo many before it."""

    def after(q: Gaussian, seen: Evaluated, count: int) -> tuple[Gaussian, Ended | None]:
        elbo, error = seen.at.elbo + (seen.elbo - seen.at.elbo) / count, float(begin.error / np.sqrt(count))
        q = q._replace(elbo=elbo, error=error)
        note(begin._replace(mean=q.mean, scale=q.scale, elbo=q.elbo, averaged=count))
        if begin.doubt / count < NATS and begin.error < SDS * np.sqrt(count):
            return q, Ended.CONVERGED
        is_asked = not count & (count - 1)  # seldom: each time is a chance to err
        return q, Ended.LIMITED if is_asked and misfits(q, seen.gap - begin.doubt / count) else None

    q = begin.q._replace(error=float(begin.error / np.sqrt(begin.averaged)))
    return averaged(run, FullCovariance(), q, begin.size, seed, begin.averaged, lambda t: NEAR / t, after)


def _is_far(q: Gaussian, begin: Sitting) -> bool:
    """Says whether a variance, or a distance gone, is beyond all scales of the start: the density is of another size,
    or improper."""
    scales = np.maximum(begin.wide, 1e-12)
    far, wide = np.abs(q.mean - begin.origin) / scales, q.sds / scales
    return bool(max(far.max(), wide.max()) > 1e6)
