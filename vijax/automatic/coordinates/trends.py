"""Learns how what the data say of a variable moves with the variables without a law (`Trends`).

These are moved, over draws of the fit before, while all others stay where they are: slope and
curvature there say how log J and h / J change with them, by least squares, which leave nothing over
where the data are normal with an unknown noise, or have a regression beside their groups. And the
coordinates themselves are moved to either side: by the change of J they are bent, as counts are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.models.energies.coordinates import Hierarchy
from vijax.models.energies.reference import LARGEST_GROWTH, NUM_DRIVERS, Reference, Trends
from vijax.verdict.target import GRADIENTS_OF_CURVATURE, Target

# coordinates without a law by which what the data say may move; beyond them the smallest variables
MOST_OTHERS = 40
# relative difference of curvatures with other signs, up to which entries do not depend on each
# other
APART = 0.01
BESIDE = 16  # draws of the others at which coordinates are moved to either side
SMALL = 1e-3  # a combination of others that moves less than this is none


class _Seen(NamedTuple):
    """The information of data on coordinates while the variables without a law move, over draws."""

    place: Float[np.ndarray, " D"]  # of the coordinates themselves
    slopes: Float[np.ndarray, "draws D"]
    curvatures: Float[np.ndarray, "2 draws D"]  # two estimates of J
    skew: Float[np.ndarray, " D"]  # third derivative relative to J

    @property
    def information(self) -> Float[np.ndarray, "draws D"]:
        """J."""
        return self.curvatures.mean(0)

    @property
    def linear(self) -> Float[np.ndarray, "draws D"]:
        """h."""
        return self.slopes + self.information * self.place

    def of(self, rows: np.ndarray) -> _Seen:
        """The information on some coordinates."""
        return _Seen(
            self.place[rows], self.slopes[:, rows], self.curvatures[:, :, rows], self.skew[rows]
        )

    def is_alone(self) -> np.ndarray:
        """Tells for which coordinates J is known, because it does not depend on the signs, and is
        positive."""
        apart = np.abs(self.curvatures[0] - self.curvatures[1]).max(0)
        return (apart <= APART * np.abs(self.information).min(0)) & (self.information > 0).all(0)


class _Parts(NamedTuple):
    """A fixed part, one that moves with standardised others, and how skewed both are."""

    linear: Float[np.ndarray, " n"]
    information: Float[np.ndarray, " n"]
    moving_linear: Float[np.ndarray, " n"]
    moving_information: Float[np.ndarray, " n"]
    growth: Float[np.ndarray, "n others"]
    shift: Float[np.ndarray, "n others"]
    skew: Float[np.ndarray, " n"]

    def given(self, t: Float[np.ndarray, "draws others"]) -> tuple[np.ndarray, np.ndarray]:
        """h and J at values of the others."""
        factor = np.exp(np.clip(t @ self.growth.T, -LARGEST_GROWTH, LARGEST_GROWTH))
        moving = factor * (self.moving_linear + self.moving_information * (t @ self.shift.T))
        return self.linear + moving, self.information + factor * self.moving_information

    def with_those_of(self, rows: np.ndarray, some: _Parts) -> _Parts:
        """Returns the parts with others for these coordinates."""
        joined = [np.array(part) for part in self]
        for whole, part in zip(joined, some, strict=True):
            whole[rows] = part
        return _Parts(*joined)


def gradients_of_trends(draws: int) -> int:
    """Returns the number of gradients that the trends of one level take."""
    return GRADIENTS_OF_CURVATURE * (2 * draws + 2 * min(BESIDE, draws))


def with_trends(
    target: Target,
    hierarchy: Hierarchy,
    reference: Reference,
    draws: Float[np.ndarray, "draws D"],
    slopes: Float[np.ndarray, "draws D"],
    seed: int,
) -> Reference:
    """Returns the same coordinates, in which what the data say moves with the variables without a
    law. `slopes` are f' at the draws."""
    others = _that_move(hierarchy)
    if not len(others):
        return reference
    center, sds = draws[:, others].mean(0), np.maximum(draws[:, others].std(0), 1e-30)
    moved = (draws[:, others] - center) / sds
    linear, information = (np.asarray(part, np.float64) for part in reference[:2])
    none, wide = np.zeros(target.dim), np.zeros((target.dim, len(others)))
    parts = _Parts(linear, information, none, none, wide, wide, none)
    for level in reversed(hierarchy.levels):
        seen = _moved_others(target, hierarchy, reference, draws, others, level, seed)
        if seen is None:
            continue
        moves = (information > 0) & np.isfinite(slopes).all(0)
        is_alone = seen.is_alone()
        for name in level:
            rows = np.arange(target.dim)[hierarchy.places[name][1]]
            for trends_of, mask in ((_own_trends, is_alone), (_shared_trends, ~is_alone)):
                own = rows[(mask & moves)[rows]]
                made = trends_of(seen.of(own), information[own], moved) if len(own) else None
                if made is not None:
                    fitting = _in_the_mean(
                        made, information[own], slopes[:, own], draws[:, own], moved
                    )
                    parts = parts.with_those_of(own, fitting)
    return _as_reference(parts, reference, others, center, sds)


def _in_the_mean(
    parts: _Parts,
    information: Float[np.ndarray, " n"],
    slopes: Float[np.ndarray, "draws n"],
    x: Float[np.ndarray, "draws n"],
    moved: Float[np.ndarray, "draws others"],
) -> _Parts:
    """Returns parts, scaled and shifted such that in the mean over draws J is what was learnt, and
    f' = h - J x: this counts where the data are not normal."""
    ratio = information / parts.given(moved)[1].mean(0)
    parts = parts._replace(**{name: ratio * getattr(parts, name) for name in _Parts._fields[:4]})
    h, j = parts.given(moved)
    return parts._replace(linear=parts.linear + (slopes + j * x - h).mean(0))


def _own_trends(
    seen: _Seen,
    learnt_information: Float[np.ndarray, " n"],
    moved: Float[np.ndarray, "draws others"],
) -> _Parts:
    """Returns parts of coordinates whose h and J are known at each draw: J = A + B exp(growth t),
    and h is a constant and B exp(growth t) times an affine function."""
    information = seen.information
    fixed, growth, constant = _floor_and_growth(information, moved)
    # Least squares for h of each coordinate, in units of the posterior's standard deviations.
    affine = np.concatenate([np.ones_like(moved[:, :1]), moved], 1)
    moving = (information - fixed).T[:, :, None] * affine
    constants = np.broadcast_to(
        (fixed > 0)[:, None, None], moving[:, :, :1].shape
    )  # no part of h without one of J
    design = np.concatenate([constants, moving], 2) / np.sqrt(information).T[:, :, None]
    target = (seen.linear / np.sqrt(information)).T
    fitted = np.stack(
        [np.linalg.lstsq(a, b, rcond=1e-10)[0] for a, b in zip(design, target, strict=True)]
    )
    moving_information = np.exp(constant)
    moving_linear = moving_information * fitted[:, 1]
    return _Parts(
        fitted[:, 0], fixed, moving_linear, moving_information, growth, fitted[:, 2:], seen.skew
    )


FLOORS = 1 - np.geomspace(1, 1e-3, 40)
"""Parts of the smallest J that may be the fixed one."""


def _floor_and_growth(
    information: Float[np.ndarray, "draws n"], moved: Float[np.ndarray, "draws others"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns A, growth and log B of J = A + B exp(growth t) for each coordinate: A is none of it
    unless that halves what is left over."""
    design = np.concatenate([np.ones((len(moved), 1)), moved], 1)
    least = information.min(0)
    tried = []
    for part in FLOORS:
        y = np.log(information - part * least)
        slopes = np.linalg.lstsq(design, y, rcond=None)[0]
        left = np.log(part * least + np.exp(design @ slopes)) - np.log(information)
        tried.append((np.sqrt((left**2).mean(0)), slopes))
    left = np.stack([one for one, _ in tried])
    best = np.where(left.min(0) < 0.5 * left[0] - 1e-4, left.argmin(0), 0)
    slopes = np.stack([slopes for _, slopes in tried])[best, :, np.arange(len(best))]
    return FLOORS[best] * least, slopes[:, 1:], slopes[:, 0]


def _shared_trends(
    seen: _Seen,
    learnt_information: Float[np.ndarray, " n"],
    moved: Float[np.ndarray, "draws others"],
) -> _Parts | None:
    """Returns parts of coordinates that depend on each other: they share one growth of J, beside
    the J that was learnt, and h / J stays. None where their curvatures have no sign in common."""
    shared = (seen.information / learnt_information).mean(1)
    if not (shared > 0).all():
        return None
    design = np.concatenate([np.ones((len(moved), 1)), moved], 1)
    growth = np.linalg.lstsq(design, np.log(shared), rcond=None)[0][1:]
    none = np.zeros_like(learnt_information)
    each = len(learnt_information), len(growth)
    return _Parts(
        none,
        none,
        seen.linear.mean(0),
        learnt_information,
        np.broadcast_to(growth, each),
        np.zeros(each),
        none,
    )


def _that_move(hierarchy: Hierarchy) -> np.ndarray:
    """Returns coordinates of variables without a law, the smallest variables first."""
    with_law = {name for level in hierarchy.levels for name in level}
    rows = [
        np.arange(part.start, part.stop)
        for name, (_, part) in hierarchy.places.items()
        if name not in with_law
    ]
    chosen: list[int] = []
    for some in sorted(rows, key=len):
        if len(chosen) + len(some) <= MOST_OTHERS:
            chosen.extend(some)
    return np.array(chosen, int)


def _moved_others(
    target: Target,
    hierarchy: Hierarchy,
    reference: Reference,
    draws: Float[np.ndarray, "draws D"],
    others: np.ndarray,
    level: tuple[str, ...],
    seed: int,
) -> _Seen | None:
    """Returns what the data say of a level while the others are as in draws; the variables that
    depend on the level are at the middle of their law given it and the data."""
    mask = hierarchy.coordinate_mask(level)
    mixed = target.with_coordinates(
        reference._replace(information=np.where(mask, np.inf, reference.information))
    )
    place = draws.mean(0)
    points = np.broadcast_to(place, draws.shape).copy()
    points[:, others] = draws[:, others]
    z = np.array(mixed.coordinates(points))
    deeper = hierarchy.levels[hierarchy.levels.index(level) + 1 :]
    z[:, hierarchy.coordinate_mask(tuple(name for names in deeper for name in names))] = 0.0
    signs = np.random.default_rng([seed, 32]).choice([-1.0, 1.0], size=(2, target.dim))
    ask = lambda at, row: mixed.less_laws(at, np.broadcast_to(np.where(mask, row, 0.0), at.shape))
    seen = [ask(z, row) for row in signs]
    # J at a standard deviation to either side of all coordinates of the level.
    beside = np.where(mask, draws.std(0), 0.0)
    few = z[:BESIDE]
    right, left = (-signs[0] * ask(few + sign * beside, signs[0])[1] for sign in (1, -1))
    target.num_gradients = mixed.num_gradients
    curvatures = np.stack([-row * pushed for row, (_, pushed) in zip(signs, seen, strict=True)])
    slopes = seen[0][0]
    if not all(np.isfinite(part).all() for part in (slopes, curvatures, right, left)):
        return None
    change = (left - right).mean(0) / np.maximum(2 * beside, 1e-30)
    middle = 0.5 * (right + left).mean(0)
    skew = np.where(middle > 0, change / np.where(middle > 0, middle, 1.0), 0.0)
    return _Seen(place, slopes, curvatures, skew)


def _as_reference(
    parts: _Parts, reference: Reference, others: np.ndarray, center: np.ndarray, sds: np.ndarray
) -> Reference:
    """Returns parts as a reference, with the few combinations of the others that move most."""
    own = Trends(*(np.array(part) for part in Trends.none(len(parts.linear))))
    root = np.sqrt(parts.information + parts.moving_information)
    moves = np.concatenate([parts.growth, parts.shift * root[:, None]])
    _, sizes, directions = np.linalg.svd(moves, full_matrices=False)
    directions = directions[:NUM_DRIVERS][sizes[:NUM_DRIVERS] > SMALL]
    count = len(directions)
    own.linear[:], own.information[:] = parts.moving_linear, parts.moving_information
    own.drivers[:count, others] = directions / sds
    own.center[:count] = directions / sds @ center
    own.growth[:, :count] = parts.growth @ directions.T
    own.shift[:, :count] = parts.shift @ directions.T
    dtype = reference.linear.dtype
    linear, information, skew = (
        part.astype(dtype) for part in (parts.linear, parts.information, parts.skew)
    )
    return Reference(linear, information, skew, own)
