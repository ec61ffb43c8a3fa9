"""Fits of log densities of many groups: first to a sample of groups, then to all groups at once, or
in passes of minibatches.

The fit to a sample, its likelihood scaled to all groups, gives the modes and the width of q: the
mode of all groups lies on the same hill, some standard deviations away because of the sample's
error. From each mode of the sample a search in the frame of this fit, where the density is near
N(0, I), finds the mode of all groups by some ten gradients. The curvature there and steps in a
trust region, on few draws because their noise is small, give q.

If these do not settle (`AT_ONCE_LIMIT`), and if the user asks for minibatches, natural-gradient
steps on minibatches follow, in the frame of q. In a pass over B batches the steps have the sizes
1 / (c B + 1), ..., 1 / (c B + B), so that after the pass

    lambda  =  (c lambda_before + mean of the pass's messages) / (c + 1).

Every batch has the same weight, and the differences between batches cancel, except for the small
move of q within a pass."""

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

SAMPLE = 2_000  # rows of the sample, at least
PER_VARIABLE = 20  # groups of the sample for each variable, at least
MOST_CLIMB = 100  # largest number of steps of a search on all groups
DRAWS = 4  # draws of the fit to the sample at which searches begin too
WIDER = 2.0  # factor of their distances from the mean
AT_ONCE_LIMIT = 16  # sets of draws for all groups at once, after which minibatches follow


class Sample(NamedTuple):
    """Some groups, and the ratio of the number of all groups to the number of these."""

    data: PyTree
    scale: float


def draw_sample(data: PyTree, dim: int, seed: int) -> Sample:
    """Random groups to begin with."""
    total = int(np.shape(jax.tree.leaves(data)[0])[0])
    size = min(total, max(SAMPLE * total // count_rows(data), PER_VARIABLE * dim))
    rows = np.sort(np.random.default_rng([seed, 3]).permutation(total)[:size])
    return Sample(jax.tree.map(lambda x: np.asarray(x)[rows], data), total / size)


# --- all groups at once ---------------------------------------------------------------------------
def climb_all_groups(
    run: Run, begin: Gaussian, candidates: list[Candidate], seed: int
) -> tuple[Gaussian, list[Candidate]]:
    """The best normal at a mode of all groups, and their modes, from a fit to a sample (`begin`)
    and its modes.

    Searches begin at the mean of that fit, at other modes of the sample, and at a few draws: modes
    that are distinct for all groups may be one mode of a sample. No search begins at a start from
    which the density rises all the way to a known mode."""
    target = run.target
    away = [x for x in candidates[:MOST_JUDGED] if not begin.has_near(x.mode.x)]
    num_away = sum(x.num_starts for x in away)
    num_near = sum(x.num_starts for x in candidates) - num_away
    draws = begin.from_noise(WIDER * draw_noise(DRAWS, target.dim, [seed, 17]))
    x = np.stack([begin.mean, *(candidate.mode.x for candidate in away), *draws])
    counts = [num_near, *(candidate.num_starts for candidate in away), *[0] * len(draws)]
    starts = [
        Candidate(Mode(point, float(value), begin.sds), count)
        for point, value, count in zip(x, target.values(x), counts, strict=True)
    ]
    ends: list[Candidate] = []
    while starts:
        start, *starts = starts
        mode = _climb(run, begin, start.mode.x)
        if mode is None:
            continue
        count = start.num_starts
        place = _find_hill(target, mode, ends)
        if place == len(ends):
            ends.append(Candidate(mode, 0))
            rising = _rise(target, [x.mode for x in starts], mode)
            pairs = list(zip(starts, rising, strict=True))
            count += sum(x.num_starts for x, does_rise in pairs if does_rise)
            starts = [x for x, does_rise in pairs if not does_rise]
        ends[place] = ends[place]._replace(num_starts=ends[place].num_starts + count)
    if not ends:
        return begin, candidates
    ends.sort(key=lambda candidate: -candidate.mode.value)
    candidates, best = with_bounds(target, ends, seed)
    return best, candidates


def _find_hill(target: Target, mode: Mode, ends: list[Candidate]) -> int:
    """Index of the first mode on the same hill; the number of modes if there is none."""
    for i, end in enumerate(ends):
        if _rise(target, [mode], end.mode)[0]:
            return i
    return len(ends)


def _rise(target: Target, points: list[Mode], mode: Mode) -> list[bool]:
    """True for each point from which the density does not fall on the way to a mode."""
    if not points:
        return []
    paths = np.stack([point.x + BETWEEN[:, None] * (mode.x - point.x) for point in points])
    between = target.values(paths.reshape(-1, target.dim)).reshape(len(points), -1)
    first = [point.value for point in points]
    values = np.column_stack([first, between, np.full(len(points), mode.value)])
    falls = np.maximum.accumulate(values, 1) - values
    return list(falls.max(1) <= DIP + 10 * target.epsilon * abs(mode.value))


def _climb(run: Run, frame: Gaussian, x: Float[np.ndarray, " D"]) -> Mode | None:
    """The mode that a search from a point reaches, by steps in a frame; None where the density is
    zero."""

    def framed_slopes(noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, slopes = run.target.slopes(frame.from_noise(noise))
        return values, slopes @ frame.scale

    stopped = lambda: run.stopped() or not run.affords(1)
    ends = maximise(framed_slopes, frame.whiten(x[None]), MOST_CLIMB, ARRIVED / 10, stopped)
    if not ends:
        return None
    point = frame.from_noise(ends[0].x[None])[0]
    return Mode(point, ends[0].value, np.sqrt(frame.scale**2 @ ends[0].sds ** 2))


def fit_at_once(run: Run, begin: Gaussian, seed: int, max_draws: int) -> Gaussian:
    """The normal of all groups at once, from a normal nearby; on few draws at first."""
    sitting = Sitting.begin(begin)
    sitting = sitting._replace(size=min(sitting.size, max(32, 2 * (run.target.dim + 1))))
    limit = min(run.max_gradients, run.target.num_gradients + AT_ONCE_LIMIT * sitting.size)
    return trust_region.fit(run._replace(max_gradients=limit), sitting, seed, max_draws)


# --- minibatches ----------------------------------------------------------------------------------
MOST_PASSES = 60  # largest number of passes over all groups
FEWEST_AT_ONCE = 16  # steps in a chunk, after which the end of a pass is checked, at least
MOST_AT_ONCE = 64  # steps in a chunk, at most
LEAST_PASSES = 2  # passes for which the posterior before a pass counts (c above), at first
FIRST_PASSES = 12  # passes for which that holds; then c grows by one a pass
# A fit has converged when less is left, in nats, for up to ten variables; in proportion for more.
LEFT = 0.02


def fit_all(
    model: Model, data: PyTree, start: Gaussian, batch_size: int, key: PRNGKeyArray
) -> Gaussian:
    """The normal of all groups, in passes from the fit to a sample (`start`), until a pass changes
    q by next to nothing."""
    dim = model.log_density.variables.dim
    framed_model = with_guide(model, guides.full_rank(), is_framed=True)
    groups = int(np.shape(jax.tree.leaves(data)[0])[0])
    size, steps, chunk = even_batches(groups, batch_size)
    alg = ngvi(
        framed_model,
        num_samples=max(32, 2 * (dim + 1)),
        step_size=by_passes(steps),
        nats=float(max(1, dim)),
    )
    key_init, _, _ = keys.run_keys(key)
    frame = start.frame(framed_model.log_density)
    watch = _Watch()
    last_fit = fit(
        alg,
        data,
        key=key,
        state=alg.init(key_init)._replace(hyper={"frame": frame}),
        num_epochs=MOST_PASSES,
        batch_size=size,
        steps_per_chunk=chunk,
        callbacks=[watch],
    )
    q: Any = last_fit.posterior[Z]
    mean = np.asarray(q.mean(), np.float64)
    cov = np.asarray(q.cov, np.float64)
    end = Ended.CONVERGED if watch.has_settled else Ended.PASSES
    if last_fit.status is Status.INTERRUPTED:
        end = Ended.INTERRUPTED
    return Gaussian(
        start.mean + start.scale @ mean,
        start.scale @ np.linalg.cholesky(cov),
        np.nan,
        end,
        trace=tuple(float(x) for x in last_fit.trace["elbo"]),
    )


def even_batches(groups: int, most: int) -> tuple[int, int, int]:
    """The size of batches (`vijax.fit` makes them even), their number, and a divisor of the number:
    chunks of so many steps end where passes end.

    >>> even_batches(1605, 100), even_batches(1_000_000, 500)
    ((95, 17, 17), (500, 2000, 50))
    """
    least = -(-groups // most)
    for count in range(least, 2 * least + 64):
        size = -(-groups // count)
        steps = -(-groups // size)
        chunk = max(d for d in range(1, min(steps, MOST_AT_ONCE) + 1) if steps % d == 0)
        if chunk >= min(steps, FEWEST_AT_ONCE):
            return size, steps, chunk
    return most, least, 1


@dataclasses.dataclass(frozen=True)
class by_passes:
    """The step size rho_t = 1 / (c B + 1 + t mod B), see above. c is `LEAST_PASSES` for
    `FIRST_PASSES` passes, each of which divides the error of the start by 1 + 1 / c. Then it grows
    by one a pass, which averages the remaining noise.

    Args:
      steps: B, the steps in a pass.

    >>> [round(1 / float(by_passes(3)(t))) for t in (0, 1, 2, 3)]
    [7, 8, 9, 7]
    """

    steps: int

    def __call__(self, t: Any) -> Float[Array, ""]:
        """rho_t."""
        passes, place = jnp.divmod(t, self.steps)
        return 1.0 / (prior_passes(passes) * self.steps + place + 1)


def prior_passes(passes: Any) -> Any:
    """c, the number of passes for which the posterior before a pass counts."""
    return LEAST_PASSES + jnp.maximum(passes - FIRST_PASSES, 0)


class _Watch:
    """Stops a fit after a pass whose change, extrapolated, leads no further than `LEFT`."""

    def __init__(self) -> None:
        self.has_settled = False
        self._last: MultivariateNormal | None = None
        self._passes = 0

    def __call__(self, progress: Progress) -> bool:
        passes, remainder = divmod(progress.step, progress.steps_per_epoch)
        if remainder or passes == self._passes:
            return False
        q: Any = jax.tree.map(jnp.copy, progress.state.posterior[Z])
        if self._last is not None:
            nats = float(q.kl(self._last)) * float(1 + prior_passes(passes)) ** 2
            self.has_settled = passes >= FIRST_PASSES and nats < LEFT * max(1.0, q.dim / 10)
        self._last = q
        self._passes = passes
        return self.has_settled
