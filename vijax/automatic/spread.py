"""Places to begin searches for modes at that lie as far apart as the prior is wide.

The prior of a coordinate, all others at zero, is known by its values along a line: its middle and its spread are those
of the quantiles of one standard deviation. A density whose prior is not apart, or says nothing of a coordinate, is
looked at further and further out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from vijax.automatic.ascent import Place
from vijax.automatic.target import Target

BOX = 2.0
"""Half the width of the box in which half of all searches begin."""
LINE = np.concatenate([-(2.0 ** np.arange(34, -4, -1)), [0.0], 2.0 ** np.arange(-3, 35)])
"""Where a prior is looked at: its spread is known to a small factor, up to 1e10."""
FINE = np.interp(np.arange(8 * len(LINE) - 7) / 8, np.arange(len(LINE)), LINE)
"""Between these points its logarithm is taken to be straight."""
AT_EDGE = 0.02
"""Share of its mass at the ends of the line from which on a prior is not known."""
OUT = 1.0, 3.0, 9.0
"""Where the prior is not known, so many times as far as the density itself, or the box, reaches: each for a third."""
CANDIDATES, TRIED = 16, 4
"""Points, for each start, of which the highest are tried, so many for each: whether they are on a hill of their own."""
BETWEEN = np.array([0.0625, 0.25, 0.5, 0.75])
"""Where between two points a valley is looked for."""
DIP = 0.1
"""Nats that it must be deep."""


class Spread(NamedTuple):
    """Of each coordinate, by its prior.

    Attributes:
      middle: (D,).
      width: (D,), standard deviations.
      is_known: (D,), false where the prior says nothing: the middle is then 0, the width that of the box.
      is_prior: whether it is of a prior; false of a density that is one function.
    """

    middle: Float[np.ndarray, " D"]
    width: Float[np.ndarray, " D"]
    is_known: Bool[np.ndarray, " D"]
    is_prior: bool


def spread(target: Target) -> Spread:
    """How wide the prior is."""
    dim = target.dim
    at = np.zeros((len(LINE), dim, dim))
    at[:, np.arange(dim), np.arange(dim)] = LINE[:, None]
    values = target.log_priors(at.reshape(-1, dim)).reshape(len(LINE), dim)
    found = [_of_line(column) for column in values.T]
    is_known = np.array([one is not None for one in found])
    middle, width = np.array([one or (0.0, BOX) for one in found]).T
    return Spread(middle, width, is_known, target.has_prior)


def _of_line(values: Float[np.ndarray, " points"]) -> tuple[float, float] | None:
    """Middle and half distance of the quantiles of one standard deviation; None where the mass is at the ends.

    >>> middle, width = _of_line(-0.5 * ((LINE - 3) / 8) ** 2)
    >>> print(f"{middle:.0f} {width:.0f}")
    3 8
    >>> _of_line(0 * LINE) is None
    True
    """
    from scipy import interpolate  # here, for it takes long to import

    known = np.isfinite(values)
    if not known.any():
        return None
    heights = np.maximum(np.where(known, values, -np.inf) - values[known].max(), -700.0)
    heights = np.exp(interpolate.PchipInterpolator(LINE, heights)(FINE))
    total = np.concatenate([[0.0], np.cumsum(0.5 * (heights[1:] + heights[:-1]) * np.diff(FINE))])
    low, high = np.interp(LINE[[1, -2]], FINE, total)
    if low + total[-1] - high > AT_EDGE * total[-1]:
        return None
    low, high = np.interp([0.16, 0.84], total / total[-1], FINE)
    return 0.5 * (low + high), max(0.5 * (high - low), 1e-6)


def starts(target: Target, of: Spread, count: int, seed: int) -> Float[np.ndarray, "count D"]:
    """Of points as far apart as the prior is wide, some high ones on hills of their own, and others at random."""
    rng = np.random.default_rng([seed, 5])
    middle, width = _scales(of, CANDIDATES * count, rng)
    x = middle + width * rng.normal(size=(CANDIDATES * count, target.dim))
    values = target.values(x)
    order = np.argsort(-values, kind="stable")
    order = order[np.isfinite(values[order])]
    chosen: list[int] = []
    place = lambda i: Place(x[i], float(values[i]), 0.0)
    for i in order[: TRIED * count]:
        apart = (((x[chosen] - x[i]) / width[i]) ** 2).sum(1)
        near = [chosen[k] for k in np.argsort(apart, kind="stable")[:2]]
        if len(chosen) < count and not any(on_one_hill(target, place(i), place(j)) for j in near):
            chosen.append(int(i))
    rest = [int(i) for i in rng.permutation(order) if i not in chosen]
    return x[[*chosen, *rest][:count]]


def _scales(of: Spread, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Middle and width of each point and coordinate."""
    further = np.asarray(OUT)[rng.permutation(size) % len(OUT)][:, None]
    if of.is_prior:
        return np.broadcast_to(of.middle, (size, len(of.middle))), np.where(of.is_known, of.width, BOX * further)
    return np.broadcast_to(of.middle, (size, len(of.middle))), np.maximum(of.width, BOX) * further


def on_one_hill(target: Target, low: Place, high: Place) -> bool:
    """Whether there is no valley on the way from the lower of two points to the higher one (Ursem 1999)."""
    between = low.x + BETWEEN[:, None] * (high.x - low.x)
    rounding = 10 * target.epsilon * abs(high.value)
    return bool(target.values(between).min() >= low.value - DIP - rounding)
