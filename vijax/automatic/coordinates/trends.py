"""Learns how the data's information on a variable depends on the variables without a law
(`Trends`).

These variables (the drivers) take their values at draws of an earlier fit, while all others are
fixed. Slope and curvature there give the dependence of log J and h / J on the drivers, by least
squares. It is exact for normal data with an unknown noise, and for groups beside a regression. The
coordinates themselves are moved to either side: the change of J gives their skewness, as counts
have it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.models.energies.coordinates import Hierarchy
from vijax.models.energies.reference import LARGEST_GROWTH, NUM_DRIVERS, Reference, Trends
from vijax.verdict.target import GRADIENTS_OF_CURVATURE, Target

MOST_OTHERS = 40  # coordinates of drivers, at most; the smallest variables come first
# Relative difference of curvatures with different signs, up to which entries are independent
APART = 0.01
BESIDE = 16  # draws of the drivers at which coordinates are moved to either side
SMALL = 1e-3  # a combination of drivers with a smaller effect is dropped


class _Information(NamedTuple):
    """The information of data on coordinates at draws of the drivers."""

    place: Float[np.ndarray, " D"]  # the fixed values of the coordinates
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

    def select(self, rows: np.ndarray) -> _Information:
        """The information on some coordinates."""
        return _Information(
            self.place[rows], self.slopes[:, rows], self.curvatures[:, :, rows], self.skew[rows]
        )

    def is_independent(self) -> np.ndarray:
        """True for coordinates whose J is known: it does not depend on the signs, and is
        positive."""
        differences = np.abs(self.curvatures[0] - self.curvatures[1]).max(0)
        is_same = differences <= APART * np.abs(self.information).min(0)
        return is_same & (self.information > 0).all(0)


class _Parts(NamedTuple):
    """Information with a fixed part and a part that depends on the standardised drivers, and its
    skewness."""

    linear: Float[np.ndarray, " n"]
    information: Float[np.ndarray, " n"]
    moving_linear: Float[np.ndarray, " n"]
    moving_information: Float[np.ndarray, " n"]
    growth: Float[np.ndarray, "n others"]
    shift: Float[np.ndarray, "n others"]
    skew: Float[np.ndarray, " n"]

    def evaluate(self, t: Float[np.ndarray, "draws others"]) -> tuple[np.ndarray, np.ndarray]:
        """h and J at values of the standardised drivers."""
        factor = np.exp(np.clip(t @ self.growth.T, -LARGEST_GROWTH, LARGEST_GROWTH))
        moving = factor * (self.moving_linear + self.moving_information * (t @ self.shift.T))
        return self.linear + moving, self.information + factor * self.moving_information

    def with_rows(self, rows: np.ndarray, parts: _Parts) -> _Parts:
        """The parts with new ones for these coordinates."""
        tables = [np.array(table) for table in self]
        for table, values in zip(tables, parts, strict=True):
            table[rows] = values
        return _Parts(*tables)


def gradients_of_trends(draws: int) -> int:
    """The number of gradients that the trends of one level take."""
    return GRADIENTS_OF_CURVATURE * (2 * draws + 2 * min(BESIDE, draws))


def with_trends(
    target: Target,
    hierarchy: Hierarchy,
    reference: Reference,
    draws: Float[np.ndarray, "draws D"],
    slopes: Float[np.ndarray, "draws D"],
    seed: int,
) -> Reference:
    """The same coordinates with trends: the data's information depends on the variables without a
    law. `slopes` are f' at the draws."""
    others = _choose_drivers(hierarchy)
    if not len(others):
        return reference
    center = draws[:, others].mean(0)
    sds = np.maximum(draws[:, others].std(0), 1e-30)
    drivers = (draws[:, others] - center) / sds
    linear, information = (np.asarray(part, np.float64) for part in reference[:2])
    zeros = np.zeros(target.dim)
    zero_table = np.zeros((target.dim, len(others)))
    parts = _Parts(linear, information, zeros, zeros, zero_table, zero_table, zeros)
    is_known = (information > 0) & np.isfinite(slopes).all(0)
    for level in reversed(hierarchy.levels):
        observed = _observe(target, hierarchy, reference, draws, others, level, seed)
        if observed is None:
            continue
        is_independent = observed.is_independent()
        for name in level:
            rows = np.arange(target.dim)[hierarchy.places[name][1]]
            for fit, mask in (
                (_separate_trends, is_independent),
                (_shared_trends, ~is_independent),
            ):
                subset = rows[(mask & is_known)[rows]]
                if not len(subset):
                    continue
                new = fit(observed.select(subset), information[subset], drivers)
                if new is not None:
                    new = _match_means(
                        new, information[subset], slopes[:, subset], draws[:, subset], drivers
                    )
                    parts = parts.with_rows(subset, new)
    return _as_reference(parts, reference, others, center, sds)


def _match_means(
    parts: _Parts,
    information: Float[np.ndarray, " n"],
    slopes: Float[np.ndarray, "draws n"],
    x: Float[np.ndarray, "draws n"],
    drivers: Float[np.ndarray, "draws others"],
) -> _Parts:
    """Parts, scaled and shifted so that in the mean over draws J is as learnt before, and
    f' = h - J x. This matters if the data are not normal."""
    ratio = information / parts.evaluate(drivers)[1].mean(0)
    parts = parts._replace(**{name: ratio * getattr(parts, name) for name in _Parts._fields[:4]})
    h, j = parts.evaluate(drivers)
    return parts._replace(linear=parts.linear + (slopes + j * x - h).mean(0))


def _separate_trends(
    observed: _Information,
    mean_information: Float[np.ndarray, " n"],
    drivers: Float[np.ndarray, "draws others"],
) -> _Parts:
    """Parts of coordinates whose h and J are known at each draw: J = A + B exp(growth t), and h is
    a constant plus B exp(growth t) times an affine function."""
    information = observed.information
    fixed, growth, constant = _floor_and_growth(information, drivers)
    # Least squares for h of each coordinate, in units of the posterior's standard deviations.
    affine = np.concatenate([np.ones_like(drivers[:, :1]), drivers], 1)
    moving = (information - fixed).T[:, :, None] * affine
    # Without a fixed part of J, h has none.
    constants = np.broadcast_to((fixed > 0)[:, None, None], moving[:, :, :1].shape)
    design = np.concatenate([constants, moving], 2) / np.sqrt(information).T[:, :, None]
    target = (observed.linear / np.sqrt(information)).T
    coefficients = np.stack(
        [np.linalg.lstsq(a, b, rcond=1e-10)[0] for a, b in zip(design, target, strict=True)]
    )
    moving_information = np.exp(constant)
    return _Parts(
        linear=coefficients[:, 0],
        information=fixed,
        moving_linear=moving_information * coefficients[:, 1],
        moving_information=moving_information,
        growth=growth,
        shift=coefficients[:, 2:],
        skew=observed.skew,
    )


FLOORS = 1 - np.geomspace(1, 1e-3, 40)
"""Shares of the smallest J that are tried as the fixed part."""


def _floor_and_growth(
    information: Float[np.ndarray, "draws n"], drivers: Float[np.ndarray, "draws others"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A, growth and log B of J = A + B exp(growth t) for each coordinate. A is 0 unless another A
    halves the residuals."""
    design = np.concatenate([np.ones((len(drivers), 1)), drivers], 1)
    smallest = information.min(0)
    all_errors = []
    all_slopes = []
    for share in FLOORS:
        y = np.log(information - share * smallest)
        slopes = np.linalg.lstsq(design, y, rcond=None)[0]
        residuals = np.log(share * smallest + np.exp(design @ slopes)) - np.log(information)
        all_errors.append(np.sqrt((residuals**2).mean(0)))
        all_slopes.append(slopes)
    errors = np.stack(all_errors)
    best = np.where(errors.min(0) < 0.5 * errors[0] - 1e-4, errors.argmin(0), 0)
    slopes = np.stack(all_slopes)[best, :, np.arange(len(best))]
    return FLOORS[best] * smallest, slopes[:, 1:], slopes[:, 0]


def _shared_trends(
    observed: _Information,
    mean_information: Float[np.ndarray, " n"],
    drivers: Float[np.ndarray, "draws others"],
) -> _Parts | None:
    """Parts of coordinates that depend on each other: the J learnt before grows by one common
    factor, and h / J is constant. None where their curvatures have no common sign."""
    factors = (observed.information / mean_information).mean(1)
    if not (factors > 0).all():
        return None
    design = np.concatenate([np.ones((len(drivers), 1)), drivers], 1)
    growth = np.linalg.lstsq(design, np.log(factors), rcond=None)[0][1:]
    zeros = np.zeros_like(mean_information)
    shape = len(mean_information), len(growth)
    return _Parts(
        linear=zeros,
        information=zeros,
        moving_linear=observed.linear.mean(0),
        moving_information=mean_information,
        growth=np.broadcast_to(growth, shape),
        shift=np.zeros(shape),
        skew=zeros,
    )


def _choose_drivers(hierarchy: Hierarchy) -> np.ndarray:
    """Coordinates of variables without a law, the smallest variables first."""
    with_law = {name for level in hierarchy.levels for name in level}
    variables = [
        np.arange(part.start, part.stop)
        for name, (_, part) in hierarchy.places.items()
        if name not in with_law
    ]
    drivers: list[int] = []
    for rows in sorted(variables, key=len):
        if len(drivers) + len(rows) <= MOST_OTHERS:
            drivers.extend(rows)
    return np.array(drivers, int)


def _observe(
    target: Target,
    hierarchy: Hierarchy,
    reference: Reference,
    draws: Float[np.ndarray, "draws D"],
    others: np.ndarray,
    level: tuple[str, ...],
    seed: int,
) -> _Information | None:
    """The data's information on a level at draws of the drivers. Variables that depend on the level
    are in the middle of their law given the level and the data."""
    mask = hierarchy.coordinate_mask(level)
    # In these coordinates the variables of the level are free.
    level_target = target.with_coordinates(
        reference._replace(information=np.where(mask, np.inf, reference.information))
    )
    place = draws.mean(0)
    points = np.broadcast_to(place, draws.shape).copy()
    points[:, others] = draws[:, others]
    z = np.array(level_target.coordinates(points))
    deeper = hierarchy.levels[hierarchy.levels.index(level) + 1 :]
    z[:, hierarchy.coordinate_mask(tuple(name for names in deeper for name in names))] = 0.0
    signs = np.random.default_rng([seed, 32]).choice([-1.0, 1.0], size=(2, target.dim))

    def less_laws(z: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        vectors = np.broadcast_to(np.where(mask, row, 0.0), z.shape)
        return level_target.less_laws(z, vectors)

    slopes, products = less_laws(z, signs[0])
    _, other_products = less_laws(z, signs[1])
    # J at a standard deviation to either side of all coordinates of the level.
    step = np.where(mask, draws.std(0), 0.0)
    few = z[:BESIDE]
    above = -signs[0] * less_laws(few + step, signs[0])[1]
    below = -signs[0] * less_laws(few - step, signs[0])[1]
    target.num_gradients = level_target.num_gradients
    curvatures = np.stack([-signs[0] * products, -signs[1] * other_products])
    if not all(np.isfinite(part).all() for part in (slopes, curvatures, above, below)):
        return None
    change = (below - above).mean(0) / np.maximum(2 * step, 1e-30)
    middle = 0.5 * (above + below).mean(0)
    skew = np.where(middle > 0, change / np.where(middle > 0, middle, 1.0), 0.0)
    return _Information(place, slopes, curvatures, skew)


def _as_reference(
    parts: _Parts, reference: Reference, others: np.ndarray, center: np.ndarray, sds: np.ndarray
) -> Reference:
    """Parts as a reference, with the combinations of drivers that have the largest effects."""
    trends = Trends(*(np.array(part) for part in Trends.none(len(parts.linear))))
    root = np.sqrt(parts.information + parts.moving_information)
    effects = np.concatenate([parts.growth, parts.shift * root[:, None]])
    _, sizes, directions = np.linalg.svd(effects, full_matrices=False)
    directions = directions[:NUM_DRIVERS][sizes[:NUM_DRIVERS] > SMALL]
    count = len(directions)
    trends.linear[:] = parts.moving_linear
    trends.information[:] = parts.moving_information
    trends.drivers[:count, others] = directions / sds
    trends.center[:count] = directions / sds @ center
    trends.growth[:, :count] = parts.growth @ directions.T
    trends.shift[:, :count] = parts.shift @ directions.T
    dtype = reference.linear.dtype
    return Reference(
        parts.linear.astype(dtype),
        parts.information.astype(dtype),
        parts.skew.astype(dtype),
        trends,
    )
