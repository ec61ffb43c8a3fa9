"""Searches for parts of the posterior at the same place as q, but of another width: a spike inside
a slab, or a slab around a spike. No search for modes ends there, and no draw of q reaches it.

Each component N of q is made c times as wide, in all coordinates or in one. Its bound is then

    E[log p(m + S (x - m))] + log |S| + entropy of N,    S = c I or with one entry c,

on draws x of N. If the posterior has one width, this falls as c moves away from 1, on either side.
If it rises again, to a bound near that of q, and q is far below p there, q misses a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import special

from vijax.automatic.gaussian import Gaussian, draw_noise
from vijax.automatic.mixture import Mixture
from vijax.verdict import limits
from vijax.verdict.target import Target

TIMES = np.array([3.0, 10.0, 30.0, 100.0, 300.0, 1000.0])
"""Widths that are tried, and their inverses."""
DRAWS = 16
MOST_SCALED = 50  # variables up to which each is also scaled alone
MOST_PARTS = 3  # components of a mixture that are scaled, the heaviest
RISES = 0.5  # nats by which a bound must rise again
ROUGH = 10.0  # nats that a width between those tried may gain
FINER = np.geomspace(0.3, 3.0, 12)
"""Widths near one at which the bound rises."""
IMPOSSIBLE = -1e30  # log density where it is zero


class Width(NamedTuple):
    """A part of another width.

    Attributes:
      coordinate: the coordinate of this width; None for all together.
      times: the width in units of a component of q.
      elbo: bound of the normal of that width.
      normal: this normal.
    """

    coordinate: int | None
    times: float
    elbo: float
    normal: Gaussian

    def name(self, target: Target) -> str:
        """The name of its coordinate, with the place in its variable; "" for all together."""
        if self.coordinate is None:
            return ""
        names = target.variables.names_of_coordinates
        name = names[self.coordinate]
        place = self.coordinate - names.index(name)
        return f"{name}[{place}]" if names.count(name) > 1 else name


def other_widths(target: Target, q: Gaussian | Mixture, elbo: float, seed: int) -> list[Width]:
    """Parts of other widths that q does not describe, the one with the highest bound first; at most
    one for each coordinate. `elbo` is the bound of q."""
    parts = [q] if isinstance(q, Gaussian) else []
    if isinstance(q, Mixture):
        parts = [q.parts[k] for k in np.argsort(-q.weights)[:MOST_PARTS]]
    best: dict[int | None, Width] = {}
    for part in parts:
        scaled = _ScaledPart(target, part, seed)
        for width in scaled.widths(elbo - limits.RIVAL):
            rival = best.get(width.coordinate)
            is_lower = rival is not None and rival.elbo >= width.elbo
            if not is_lower and _is_missed(target, q, width.normal, scaled.noise, elbo):
                best[width.coordinate] = width
    return sorted(best.values(), key=lambda width: -width.elbo)


def share_beside(widths: Sequence[Width], elbo: float) -> float:
    """The share of the posterior in these parts, by their bounds and that of q."""
    if not widths:
        return 0.0
    return float(1 - special.softmax([elbo, *(width.elbo for width in widths)])[0])


def _is_missed(
    target: Target,
    q: Gaussian | Mixture,
    normal: Gaussian,
    noise: Float[np.ndarray, "draws D"],
    elbo: float,
) -> bool:
    """True where p is far above q at draws of a normal."""
    x = normal.from_noise(noise)
    return bool((target.values(x) - q.log_prob(x)).mean() - elbo > limits.BEYOND)


class _ScaledPart:
    """A component in other widths."""

    def __init__(self, target: Target, part: Gaussian, seed: int):
        noise = draw_noise(DRAWS, target.dim, [seed, 12])
        # At other widths the bound depends on the squares, so their noise is removed.
        self.noise = noise / np.sqrt((noise**2).mean(0))
        self._target = target
        self._part = part

    def widths(self, threshold: float) -> list[Width]:
        """The widths at which the bound rises again, above a threshold."""
        dim = self._target.dim
        coordinates: list[int | None] = [None]
        if 1 < dim <= MOST_SCALED:
            coordinates += range(dim)
        widths = []
        for times in (TIMES, 1 / TIMES):
            bounds = self._bounds(coordinates, np.concatenate([[1.0], times]))
            for coordinate, row in zip(coordinates, bounds, strict=True):
                place = _find_rise(row)
                if place is not None and row[place] > threshold - ROUGH:
                    widths.append(self._refine(coordinate, float(times[place - 1])))
        return [width for width in widths if width.elbo > threshold]

    def _refine(self, coordinate: int | None, times: float) -> Width:
        """The width near `times` with the highest bound."""
        grid = times * FINER
        bounds = self._bounds([coordinate], grid)[0]
        place = int(np.argmax(bounds))
        elbo = float(bounds[place])
        scale = self._factors(coordinate, grid[place])[:, None] * self._part.scale
        normal = self._part._replace(scale=scale, elbo=elbo)
        return Width(coordinate, float(grid[place]), elbo, normal)

    def _factors(self, coordinate: int | None, times: float) -> Float[np.ndarray, " D"]:
        factors = np.ones(self._target.dim)
        factors[slice(None) if coordinate is None else coordinate] = times
        return factors

    def _bounds(
        self, coordinates: Sequence[int | None], times: Float[np.ndarray, " widths"]
    ) -> Float[np.ndarray, "coordinates widths"]:
        """The bounds of the component with each coordinate `times` as wide."""
        factors = np.stack(
            [[self._factors(coordinate, c) for c in times] for coordinate in coordinates]
        )
        offsets = self._part.from_noise(self.noise) - self._part.mean
        x = self._part.mean + factors[:, :, None] * offsets
        values = self._target.values(x.reshape(-1, x.shape[-1])).reshape(x.shape[:-1])
        log_p = np.where(np.isfinite(values), values, IMPOSSIBLE).mean(-1)
        return log_p + np.log(factors).sum(-1) + self._part.entropy()


def _find_rise(bounds: Float[np.ndarray, " widths"]) -> int | None:
    """Index of the best width after the first, if a bound before it is clearly lower; else None."""
    place = 1 + int(np.argmax(bounds[1:]))
    return place if bounds[place] > bounds[:place].min() + RISES else None
