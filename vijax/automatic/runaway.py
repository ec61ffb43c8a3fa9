"""Along which directions the bound grows however far draws of q are moved: where it does, the density is improper.

With draws s times as far from a point that stays, along a unit vector, the bound changes by

    E[log p(x_s)] - E[log p(x)] + log s,

which falls for s large enough if the density is proper along there, however wide its prior is, and wherever it lies.
Along a direction that is no coordinate rounding lets this be seen up to a distance of a million only. A bound that is
no number before s = 10,000 (an exponential that overflows) says nothing, unless q is 1e15 out already.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float

from vijax.automatic.target import Target

WIDE = 10.0
"""Standard deviations, and means, of free coordinates from which on q is looked at: fits begin at less than 2."""
DRAWS, ASKED, MOST = 16, 256, 8
"""Draws that are moved, and that q is known by; and along how many coordinates and directions at most, the widest ones
first."""
FURTHER = 10.0 ** np.array([1, 2, 4, 6, 8, 10, 12, 14])
FARTHEST = 1e6
"""s, of coordinates; and how far draws go along other directions at most: float32 still knows their sums there."""
FEWEST, OUT = 3, 1e15
"""Values of s at which the bound must be known; and how far out draws are where squares of ten times that are too large
for float32."""
FAR, MOST_DIM, ALONE = 100.0, 300, 0.999
"""Standard deviations along a direction that is no coordinate, and variables up to which such are looked for; the
largest entry of one that is."""


def grows_along(target: Target, x: Float[np.ndarray, "draws D"]) -> Bool[np.ndarray, " D"]:
    """The coordinates along which, or along directions of which, the bound grows without limit; none where it is not
    known to.

    Args:
      target: the density.
      x: draws of q, `ASKED` of them or more.
    """
    found = np.zeros(target.dim, bool)
    if not np.isfinite(x).all() or max(x.std(0).max(), np.abs(x.mean(0)).max()) < WIDE:
        return found
    values = target.values(x[:DRAWS])
    if not np.isfinite(values).all():
        return found
    for along, still, further in (*_coordinates(x), *_flat(target, x)):
        if _grows(target, x[:DRAWS], values.mean(), along, still, further):
            found |= np.abs(along) > 0.3 * np.abs(along).max()
    return found


Way = tuple[np.ndarray, np.ndarray, np.ndarray]
"""A unit vector along which q is wide or far, a point that stays where it is as draws move along it, and how far."""


def _coordinates(x: Float[np.ndarray, "draws D"]) -> Iterator[Way]:
    mean, sds = x.mean(0), x.std(0)
    eye = np.eye(len(mean))
    for sizes, still in ((sds, mean), (np.abs(mean), np.zeros_like(mean))):
        for i in np.argsort(-sizes)[:MOST]:
            if sizes[i] >= WIDE:
                yield eye[i], still, FURTHER


def _flat(target: Target, x: Float[np.ndarray, "draws D"]) -> Iterator[Way]:
    """Directions of no curvature at the mean, where the draws of q are wide along them; and that to the mean."""
    mean = x.mean(0)
    if np.linalg.norm(mean) >= WIDE:
        yield mean / np.linalg.norm(mean), np.zeros_like(mean), FURTHER
    if target.dim > MOST_DIM:
        return
    hessian = target.hessians(mean[None])[0]
    if not np.isfinite(hessian).all():
        return
    curvatures, ways = np.linalg.eigh(hessian)
    for i in np.argsort(np.abs(curvatures))[:MOST]:
        size = float((x @ ways[:, i]).std())
        if FAR <= size <= FARTHEST / 10 and np.abs(ways[:, i]).max() < ALONE:
            yield ways[:, i], mean, np.geomspace(10, FARTHEST / size, FEWEST + 1)


def _grows(
    target: Target, x: np.ndarray, value: float, along: np.ndarray, still: np.ndarray, further: np.ndarray
) -> bool:
    """Whether the bound rises however far the draws move, as far as it is a number; where they are so far out already
    that it is none any further, whether it has risen on all the way there."""
    gains = _gains(target, x, value, along, still, further)
    known = gains[np.isfinite(gains).cumprod().astype(bool)]
    if len(known) >= FEWEST:
        return bool(np.all(known > 0))
    if len(known) > 0 or np.abs((x - still) @ along).mean() < OUT:
        return False
    return bool(np.all(np.diff(_gains(target, x, value, along, still, 1 / further[::-1])) > 0))


def _gains(
    target: Target, x: np.ndarray, value: float, along: np.ndarray, still: np.ndarray, times: np.ndarray
) -> Float[np.ndarray, " times"]:
    """Of the bound, with draws so many times as far."""
    way = ((x - still) @ along)[:, None] * along
    moved = np.concatenate([x + (s - 1) * way for s in times])
    return target.values(moved).reshape(len(times), -1).mean(1) - value + np.log(times)
