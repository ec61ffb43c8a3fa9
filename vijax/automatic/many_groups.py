"""Fits of log densities of many groups: to a sample of them first, then to all at once, or in
passes of minibatches.

The fit to a sample, its likelihood scaled to all groups, says where modes are and how wide q is:
the mode of all groups lies some standard deviations away, for the sample's error, on the same hill.
From each mode of the sample a search in the frame of that fit, in which the density is near N(0,
I), finds the mode of all groups by some ten gradients. The curvature there and steps in a trust
region, on few draws because their noise is small, give q.

Where these do not settle (`AT_ONCE_LIMIT`), and where minibatches are asked for, natural-gradient
steps on minibatches follow, in the frame of q. Those of a pass over B batches have the sizes 1 / (c
B + 1), ..., 1 / (c B + B), after which

    lambda  =  (c lambda_before + mean of the pass's messages) / (c + 1):

every batch counts alike, and the differences between batches cancel, but for the little that q
moves within a pass."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.automatic import trust_region
from vijax.automatic.gaussian import Gaussian, draw_noise
from vijax.automatic.modes import ARRIVED, BETWEEN, DIP, MOST_JUDGED, Candidate, with_bounds
from vijax.automatic.trust_region import Run, Sitting
from vijax.contract.batch import count_rows
from vijax.contract.model import Model
from vijax.families import MultivariateNormal
from vijax.fitting.fit import Progress, fit
from vijax.fitting.status import Status
from vijax.free_algorithms import ngvi
from vijax.inference import guides
from vijax.inference.guides import Z
from vijax.lbfgs import Mode, maximise
from vijax.models.energies.density import with_guide
from vijax.verdict.report import Ended
from vijax.verdict.target import Target
from vijax.xla import keys

SAMPLE, PER_VARIABLE = 2_000, 20  # rows of the sample, and groups a variable: at least so many
MOST_CLIMB = 100  # largest number of steps of a search on all groups
DRAWS, WIDER = (
    4,
    2.0,
)  # draws of the fit to the sample where searches begin too, and how many times as far out
AT_ONCE_LIMIT = 16  # sets of draws of all groups at once, after which minibatches follow


class Sample(NamedTuple):
    """Some groups, and the ratio of the number of all groups to theirs."""

    data: PyTree
    scale: float


def draw_sample(data: PyTree, dim: int, seed: int) -> Sample:
    """Returns random groups to begin with."""
    total = int(np.shape(jax.tree.leaves(data)[0])[0])
    size = min(total, max(SAMPLE * total // count_rows(data), PER_VARIABLE * dim))
    rows = np.sort(np.random.default_rng([seed, 3]).permutation(total)[:size])
    return Sample(jax.tree.map(lambda x: np.asarray(x)[rows], data), total / size)


# --- all groups at once ---------------------------------------------------------------------------
def climb_all_groups(
    run: Run, begin: Gaussian, found: list[Candidate], seed: int
) -> tuple[Gaussian, list[Candidate]]:
    """Returns the best normal at a mode of all groups, and their modes, from a fit to a sample and
    its modes on.

    Searches begin at the mean of that fit, at other modes of the sample, and at a few draws: modes
    that all groups tell apart may be one in a sample. A start from which no valley leads to a mode
    that was found before has none of its own."""
    target = run.target
    away = [one for one in found[:MOST_JUDGED] if not begin.has_near(one.mode.x)]
    own = sum(one.num_starts for one in found) - sum(one.num_starts for one in away)
    draws = begin.from_noise(WIDER * draw_noise(DRAWS, target.dim, [seed, 17]))
    x = np.stack([begin.mean, *(one.mode.x for one in away), *draws])
    counts = [own, *(one.num_starts for one in away), *[0] * len(draws)]
    waiting = [
        (Mode(start, float(value), begin.sds), count)
        for start, value, count in zip(x, target.values(x), counts, strict=True)
    ]
    ends: list[Candidate] = []
    while waiting:
        (start, count), *waiting = waiting
        mode = _climb(run, begin, start.x)
        if mode is None:
            continue
        place = next(
            (i for i, one in enumerate(ends) if _rise(target, [mode], one.mode)[0]), len(ends)
        )
        if place == len(ends):
            ends.append(Candidate(mode, 0))
            rising = _rise(target, [at for at, _ in waiting], mode)
            count += sum(more for (_, more), is_on in zip(waiting, rising, strict=True) if is_on)
            waiting = [one for one, is_on in zip(waiting, rising, strict=True) if not is_on]
        ends[place] = ends[place]._replace(num_starts=ends[place].num_starts + count)
    if not ends:
        return begin, found
    judged, best = with_bounds(target, sorted(ends, key=lambda one: -one.mode.value), seed)
    return best, judged


def _rise(target: Target, points: list[Mode], mode: Mode) -> list[bool]:
    """Says of each point whether it is on one hill with a mode: the density does not fall on the
    way there."""
    if not points:
        return []
    ways = np.stack([at.x + BETWEEN[:, None] * (mode.x - at.x) for at in points])
    between = target.values(ways.reshape(-1, target.dim)).reshape(len(points), -1)
    values = np.column_stack(
        [[at.value for at in points], between, np.full(len(points), mode.value)]
    )
    falls = np.maximum.accumulate(values, 1) - values
    return list(falls.max(1) <= DIP + 10 * target.epsilon * abs(mode.value))


def _climb(run: Run, frame: Gaussian, x: Float[np.ndarray, " D"]) -> Mode | None:
    """Returns the mode that a search from a point reaches, by steps in a frame; None where the
    density is zero."""

    def framed(noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, slopes = run.target.slopes(frame.from_noise(noise))
        return values, slopes @ frame.scale

    stopped = lambda: run.stopped() or not run.affords(1)
    ends = maximise(framed, frame.whiten(x[None]), MOST_CLIMB, ARRIVED / 10, stopped)
    if not ends:
        return None
    return Mode(
        frame.from_noise(ends[0].x[None])[0],
        ends[0].value,
        np.sqrt(frame.scale**2 @ ends[0].sds ** 2),
    )


def fit_at_once(run: Run, begin: Gaussian, seed: int, max_draws: int) -> Gaussian:
    """Fits all groups at once, from a normal near by on: on few draws at first."""
    sitting = Sitting.begin(begin)
    sitting = sitting._replace(size=min(sitting.size, max(32, 2 * (run.target.dim + 1))))
    limit = min(run.max_gradients, run.target.num_gradients + AT_ONCE_LIMIT * sitting.size)
    return trust_region.fit(run._replace(max_gradients=limit), sitting, seed, max_draws)


# --- minibatches ----------------------------------------------------------------------------------
MOST_PASSES = 60  # largest number of passes over all groups
FEWEST_AT_ONCE, MOST_AT_ONCE = (
    16,
    64,
)  # steps between two checks of whether a pass has ended, at least and at most
LEAST_PASSES, FIRST_PASSES = 2, 12
"""The posterior before a pass counts for `LEAST_PASSES` passes (c above) during the first
`FIRST_PASSES` passes, then for one more a pass."""
# a fit has converged where less is left, in nats, of up to ten variables; in proportion for more
LEFT = 0.02


def fit_all(
    model: Model, data: PyTree, start: Gaussian, batch_size: int, key: PRNGKeyArray
) -> Gaussian:
    """Fits all groups from a fit to a sample on, in passes, until a pass changes q by next to
    nothing."""
    dim = model.log_density.variables.dim
    framed = with_guide(model, guides.full_rank(), is_framed=True)
    groups = int(np.shape(jax.tree.leaves(data)[0])[0])
    size, steps, chunk = even_batches(groups, batch_size)
    schedule = by_passes(steps)
    alg = ngvi(
        framed, num_samples=max(32, 2 * (dim + 1)), step_size=schedule, nats=float(max(1, dim))
    )
    key_init, _, _ = keys.run_keys(key)
    begin = alg.init(key_init)._replace(hyper={"frame": start.frame(framed.log_density)})
    watch = _Watch()
    done = fit(
        alg,
        data,
        key=key,
        state=begin,
        num_epochs=MOST_PASSES,
        batch_size=size,
        steps_per_chunk=chunk,
        callbacks=[watch],
    )
    q: Any = done.posterior[Z]
    mean, cov = np.asarray(q.mean(), np.float64), np.asarray(q.cov, np.float64)
    ended = Ended.CONVERGED if watch.settled else Ended.PASSES
    ended = Ended.INTERRUPTED if done.status is Status.INTERRUPTED else ended
    moved = Gaussian(
        start.mean + start.scale @ mean, start.scale @ np.linalg.cholesky(cov), np.nan, ended
    )
    return moved._replace(trace=tuple(float(x) for x in done.trace["elbo"]))


def even_batches(groups: int, most: int) -> tuple[int, int, int]:
    """Returns the size of batches (`vijax.fit` makes them even), their number, and a divisor of it:
    in chunks of so many steps a run can be watched at the ends of passes.

    >>> even_batches(1605, 100), even_batches(1_000_000, 500)
    ((95, 17, 17), (500, 2000, 50))
    """
    least = -(-groups // most)
    for more in range(least, 2 * least + 64):
        size = -(-groups // more)
        steps = -(-groups // size)
        chunk = max(d for d in range(1, min(steps, MOST_AT_ONCE) + 1) if steps % d == 0)
        if chunk >= min(steps, FEWEST_AT_ONCE):
            return size, steps, chunk
    return most, least, 1


@dataclasses.dataclass(frozen=True)
class by_passes:
    """The step size rho_t = 1 / (c B + 1 + t mod B), see above. c is `LEAST_PASSES` for
    `FIRST_PASSES` passes, in which the error of the start falls by 1 + 1 / c each, and then grows
    by one a pass, which averages the noise that is left.

    Args:
      steps: B, in a pass.

    >>> [round(1 / float(by_passes(3)(t))) for t in (0, 1, 2, 3)]
    [7, 8, 9, 7]
    """

    steps: int

    def __call__(self, t: Any) -> Float[Array, ""]:
        """Returns rho_t."""
        passes, place = jnp.divmod(t, self.steps)
        return 1.0 / (counts_for(passes) * self.steps + place + 1)


def counts_for(passes: Any) -> Any:
    """Returns c, the number of passes for which the posterior before a pass counts."""
    return LEAST_PASSES + jnp.maximum(passes - FIRST_PASSES, 0)


class _Watch:
    """Stops a fit after a pass whose change, carried on, leads no further than `LEFT`."""

    def __init__(self) -> None:
        self.settled = False
        self._last: MultivariateNormal | None = None
        self._passes = 0

    def __call__(self, progress: Progress) -> bool:
        passes, inside = divmod(progress.step, progress.steps_per_epoch)
        if inside or passes == self._passes:
            return False
        q: Any = jax.tree.map(jnp.copy, progress.state.posterior[Z])
        if self._last is not None:
            left = float(q.kl(self._last)) * float(1 + counts_for(passes)) ** 2
            self.settled = passes >= FIRST_PASSES and left < LEFT * max(1.0, q.dim / 10)
        self._last, self._passes = q, passes
        return self.settled
