"""Bends the coordinates of a normal along which the posterior is skewed, and fits the normal again.

With r = log p - log q, small, the posterior is about q (1 + r), and its third cumulant in the
standardised coordinate z_i of q is by Stein's identity

    E_q[He_3(z_i) r] = E_q[He_2(z_i) d r / d z_i],    d / d z_i along  Sigma e_i / sd_i,

which has little noise, because the slopes of r are small. A normal has no third cumulant k, which
costs about k^2 / 12 nats for each coordinate. A noise of this skewness
(`vijax.models.energies.bend`) has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.automatic.gaussian import Gaussian, draw_noise
from vijax.automatic.modes import SearchResult, rough_bound
from vijax.automatic.trust_region import Run, Sitting
from vijax.automatic.trust_region import fit as fit_normal
from vijax.models.energies.bend import MOST_BENT, SKEWNESS, Bend
from vijax.verdict.report import Ended
from vijax.verdict.target import Target

ROUNDS = 2  # times that coordinates are bent
FEWEST_DRAWS = 256  # draws that measure skewness, at least
A_VARIABLE = 4  # these draws for each variable, if that is more
SURE = 3.0  # standard errors beyond which a skewness is no noise
MUCH = 0.03  # cost of skewness in nats that is worth a first bend: below it a normal is close
WORTH = 0.01  # cost that is worth another bend, and gain that any bend must have
JUDGED = 512  # draws on which two bounds are compared
# Standard deviations at a mode by which coordinates are moved, to measure their new widths
STEP = 0.1


class Bent(NamedTuple):
    """A normal of bent coordinates."""

    q: Gaussian
    target: Target  # in these coordinates


def fit_bent(
    run: Run, q: Gaussian, seed: int, max_draws: int, misfits: Callable[[Gaussian, float], bool]
) -> Bent | None:
    """The normal of bent coordinates, if its bound is higher; None if nothing is gained, or the run
    was stopped. `misfits` is an argument of `trust_region.fit`."""
    best = None
    target = run.target
    for turn in range(ROUNDS):
        bent_run = run._replace(target=target)
        count = max(FEWEST_DRAWS, A_VARIABLE * target.dim)
        if not bent_run.affords(count + 2 * Sitting.first_size(target.dim)):
            break
        skewness = _skewness(target, q, count, [seed, 55, turn])
        run.target.num_gradients = target.num_gradients
        if (skewness**2).sum() / 12 < (MUCH if best is None else WORTH):
            break
        bend = _bend_further(target.bend, q, skewness)
        new_target = target.with_coordinates(target.reference, bend)
        begin = Sitting.begin(Gaussian(q.mean, q.scale, q.elbo))
        new_run = bent_run._replace(target=new_target)
        new_q = fit_normal(new_run, begin, seed, max_draws, misfits=misfits)
        run.target.num_gradients = new_target.num_gradients
        if new_q.ended is Ended.INTERRUPTED:
            return None
        if new_q.ended is Ended.UNBOUNDED:
            break
        noise = draw_noise(JUDGED, target.dim, [seed, 56, turn])
        if rough_bound(new_target, new_q, noise) < rough_bound(target, q, noise) + WORTH:
            break
        target = new_target
        q = new_q
        best = Bent(q, target)
    if best is not None:
        best.target.num_gradients = run.target.num_gradients
    return best


def _skewness(target: Target, q: Gaussian, count: int, seed: list[int]) -> Float[np.ndarray, " D"]:
    """The third cumulant of each standardised coordinate; zero where it is not known."""
    x = q.from_noise(draw_noise(count, target.dim, seed))
    values, slopes = target.slopes(x)
    if not np.isfinite(values).all():
        return np.zeros(target.dim)
    covariance = q.scale @ q.scale.T
    z = (x - q.mean) / q.sds
    slopes_of_r = slopes @ covariance / q.sds + z  # the slope of log q is -z
    cumulants = (z * z - 1) * slopes_of_r
    mean, error = cumulants.mean(0), cumulants.std(0) / np.sqrt(len(x))
    return np.where(np.abs(mean) > SURE * error, mean, 0.0)


def _bend_further(bend: Bend | None, q: Gaussian, skewness: Float[np.ndarray, " D"]) -> Bend:
    """A bend about the means of q, with this skewness added."""
    if bend is None:
        bend = Bend.none(len(skewness))
    if not np.any(bend.amount):
        bend = bend._replace(center=q.mean, width=q.sds)
    amount = np.clip(bend.amount + skewness / SKEWNESS, -MOST_BENT, MOST_BENT)
    dtype = Bend.none(1).amount.dtype
    return Bend(*(np.asarray(part, dtype) for part in bend._replace(amount=amount)))


def move_search(search: SearchResult, before: Target, after: Target) -> SearchResult:
    """The modes of a search in other coordinates."""
    modes = [candidate.mode for candidate in search.candidates]
    x = np.stack([mode.x for mode in modes])
    steps = STEP * np.stack([mode.sds for mode in modes])
    points = after.coordinates(before.to_free(x))
    neighbours = after.coordinates(before.to_free(x + steps))
    values = after.values(points)
    sds = np.abs(neighbours - points) / STEP
    candidates = [
        candidate._replace(mode=candidate.mode._replace(x=point, value=float(value), sds=sd))
        for candidate, point, value, sd in zip(search.candidates, points, values, sds, strict=True)
    ]
    return search._replace(candidates=candidates)
