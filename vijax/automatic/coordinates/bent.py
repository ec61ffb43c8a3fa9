"""Bends the coordinates of a normal along which the posterior is skewed, and fits the normal again.

With r = log p - log q, small, the posterior is about q (1 + r), and its third cumulant in the
standardised coordinate z_i of q is by Stein's identity

    E_q[He_3(z_i) r] = E_q[He_2(z_i) d r / d z_i],    d / d z_i being along  Sigma e_i / sd_i,

which has little noise, because the slopes of r are small. It is what a normal misses: about k^2 /
12 nats for each coordinate. A noise of that skewness (`vijax.models.energies.bend`) has it."""

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
FEWEST_DRAWS, A_VARIABLE = (
    256,
    4,
)  # draws by which skewness is known; or so many for each variable, if that is more
SURE = 3.0  # standard errors from which on a skewness counts
MUCH = 0.03  # nats that skewness must make to be worth a first bend: with less a normal is close
WORTH = 0.01  # nats that it must make to be worth another one, and that any must gain
JUDGED = 512  # draws on which two bounds are compared
# standard deviations at a mode by which coordinates are moved, to see how much wider they are
STEP = 0.1


class Bent(NamedTuple):
    """A normal of bent coordinates."""

    q: Gaussian
    target: Target  # in these coordinates


def fit_bent(
    run: Run, q: Gaussian, seed: int, max_draws: int, misfits: Callable[[Gaussian, float], bool]
) -> Bent | None:
    """Returns the normal of bent coordinates, if its bound is higher; None where nothing is gained,
    or the run was stopped. `misfits` is asked as by `trust_region.fit`."""
    best = None
    target = run.target
    for turn in range(ROUNDS):
        within = run._replace(target=target)
        count = max(FEWEST_DRAWS, A_VARIABLE * target.dim)
        if not within.affords(count + 2 * Sitting.first_size(target.dim)):
            break
        skewness = _skewness(target, q, count, [seed, 55, turn])
        run.target.num_gradients = target.num_gradients
        if (skewness**2).sum() / 12 < (MUCH if best is None else WORTH):
            break
        bend = _more(target.bend, q, skewness)
        there = target.with_coordinates(target.reference, bend)
        begin = Gaussian(q.mean, q.scale, q.elbo)
        then = fit_normal(
            within._replace(target=there), Sitting.begin(begin), seed, max_draws, misfits=misfits
        )
        run.target.num_gradients = there.num_gradients
        if then.ended is Ended.INTERRUPTED:
            return None
        if then.ended is Ended.UNBOUNDED:
            break
        noise = draw_noise(JUDGED, target.dim, [seed, 56, turn])
        if rough_bound(there, then, noise) < rough_bound(target, q, noise) + WORTH:
            break
        target, q = there, then
        best = Bent(q, target)
    if best is not None:
        best.target.num_gradients = run.target.num_gradients
    return best


def _skewness(target: Target, q: Gaussian, count: int, seed: list[int]) -> Float[np.ndarray, " D"]:
    """Returns the third cumulant of each standardised coordinate; zero where it is not known."""
    x = q.from_noise(draw_noise(count, target.dim, seed))
    values, slopes = target.slopes(x)
    if not np.isfinite(values).all():
        return np.zeros(target.dim)
    covariance = q.scale @ q.scale.T
    z = (x - q.mean) / q.sds
    along = slopes @ covariance / q.sds + z  # of log q it is -z
    cumulants = (z * z - 1) * along
    mean, error = cumulants.mean(0), cumulants.std(0) / np.sqrt(len(x))
    return np.where(np.abs(mean) > SURE * error, mean, 0.0)


def _more(bend: Bend | None, q: Gaussian, skewness: Float[np.ndarray, " D"]) -> Bend:
    """Returns a bend about the means of q, with so much more skewness."""
    before = Bend.none(len(skewness)) if bend is None else bend
    if not np.any(before.amount):
        before = before._replace(center=q.mean, width=q.sds)
    amount = np.clip(before.amount + skewness / SKEWNESS, -MOST_BENT, MOST_BENT)
    dtype = Bend.none(1).amount.dtype
    return Bend(*(np.asarray(part, dtype) for part in before._replace(amount=amount)))


def move_search(searched: SearchResult, before: Target, now: Target) -> SearchResult:
    """Returns what the searches found, in other coordinates."""
    modes = [one.mode for one in searched.candidates]
    x = np.stack([mode.x for mode in modes])
    at = now.coordinates(before.to_free(x))
    beside = now.coordinates(before.to_free(x + STEP * np.stack([mode.sds for mode in modes])))
    values = now.values(at)
    moved = [
        one._replace(
            mode=one.mode._replace(x=place, value=float(value), sds=np.abs(other - place) / STEP)
        )
        for one, place, value, other in zip(searched.candidates, at, values, beside, strict=True)
    ]
    return searched._replace(candidates=moved)
