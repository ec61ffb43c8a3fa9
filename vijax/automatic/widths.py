"""Looks for parts of the posterior about the same place as q, but of another width: a spike inside
a slab, or a slab about a spike. No search for modes ends there, and no draw of q reaches it.

Each component N of q is made c times as wide, in all coordinates or in one. Its bound is then

    E[log p(m + S (x - m))] + log |S| + entropy of N,    S = c I or with one entry c,

on draws x of N. Where the posterior has one width, this falls as c leaves 1, on either side. Where
it rises again, to a bound near that of q, and q is far below p there, there is a part that q does
not describe."""

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
MOST_SCALED = 50  # variables up to which each is scaled by itself
MOST_PARTS = 3  # components of a mixture that are scaled, the heaviest
RISES = 0.5  # nats by which a bound must rise again
ROUGH = 10.0  # nats that a width between those tried may gain
FINER = np.geomspace(0.3, 3.0, 12)
"""Widths near one at which the bound rises."""
IMPOSSIBLE = -1e30  # log density where it is zero


class Width(NamedTuple):
    """A part of another width.

    Attributes:
      coordinate: the one that has it; None for all together.
      times: how many times as wide as a component of q.
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


def other_widths(target: Target, q: Gaussian | Mixture, own: float, seed: int) -> list[Width]:
    """Returns parts of other widths that q does not describe, the weightiest first; at most one for
    each coordinate. `own` is the bound of q."""
    parts = (
        [q]
        if isinstance(q, Gaussian)
        else [q.parts[k] for k in np.argsort(-q.weights)[:MOST_PARTS]]
    )
    best: dict[int | None, Width] = {}
    for part in parts:
        look = _Look(target, part, seed)
        for one in look.widths(own - limits.RIVAL):
            is_lower = one.coordinate in best and best[one.coordinate].elbo >= one.elbo
            if not is_lower and _is_beyond(target, q, one.normal, look.noise, own):
                best[one.coordinate] = one
    return sorted(best.values(), key=lambda one: -one.elbo)


def share_beside(widths: Sequence[Width], own: float) -> float:
    """Returns the share of the posterior that such parts hold, by their bounds."""
    return float(1 - special.softmax([own, *(one.elbo for one in widths)])[0]) if widths else 0.0


def _is_beyond(
    target: Target,
    q: Gaussian | Mixture,
    normal: Gaussian,
    noise: Float[np.ndarray, "draws D"],
    own: float,
) -> bool:
    """Tells whether p is above q at draws of a normal."""
    x = normal.from_noise(noise)
    return bool((target.values(x) - q.log_prob(x)).mean() - own > limits.BEYOND)


class _Look:
    """A component, made wider and narrower."""

    def __init__(self, target: Target, part: Gaussian, seed: int):
        noise = draw_noise(DRAWS, target.dim, [seed, 12])
        self.noise = noise / np.sqrt(
            (noise**2).mean(0)
        )  # at other widths squares count, and their noise would
        self._target, self._part = target, part

    def widths(self, least: float) -> list[Width]:
        """Returns the widths at which the bound rises again, to at least so much."""
        dim = self._target.dim
        each: list[int | None] = [None, *range(dim)] if 1 < dim <= MOST_SCALED else [None]
        widths = []
        for times in (TIMES, 1 / TIMES):
            bounds = self._bounds(each, np.concatenate([[1.0], times]))
            for coordinate, row in zip(each, bounds, strict=True):
                place = _that_rises(row)
                if place is not None and row[place] > least - ROUGH:
                    widths.append(self._refined(coordinate, float(times[place - 1])))
        return [one for one in widths if one.elbo > least]

    def _refined(self, coordinate: int | None, times: float) -> Width:
        """Returns the width nearby whose bound is highest."""
        near = times * FINER
        bounds = self._bounds([coordinate], near)[0]
        place = int(np.argmax(bounds))
        normal = self._part._replace(
            scale=self._factors(coordinate, near[place])[:, None] * self._part.scale
        )
        return Width(
            coordinate,
            float(near[place]),
            float(bounds[place]),
            normal._replace(elbo=float(bounds[place])),
        )

    def _factors(self, coordinate: int | None, times: float) -> Float[np.ndarray, " D"]:
        factors = np.ones(self._target.dim)
        factors[slice(None) if coordinate is None else coordinate] = times
        return factors

    def _bounds(
        self, each: Sequence[int | None], times: Float[np.ndarray, " widths"]
    ) -> Float[np.ndarray, "coordinates widths"]:
        """Returns the bounds of the component with coordinates that are so many times as wide."""
        factors = np.stack(
            [[self._factors(coordinate, one) for one in times] for coordinate in each]
        )
        apart = self._part.from_noise(self.noise) - self._part.mean
        x = self._part.mean + factors[:, :, None] * apart
        values = self._target.values(x.reshape(-1, x.shape[-1])).reshape(x.shape[:-1])
        log_p = np.where(np.isfinite(values), values, IMPOSSIBLE).mean(-1)
        return log_p + np.log(factors).sum(-1) + self._part.entropy()


def _that_rises(bounds: Float[np.ndarray, " widths"]) -> int | None:
    """Returns the best width after the first, before which the bound is lower; None where it only
    falls."""
    place = 1 + int(np.argmax(bounds[1:]))
    return place if bounds[place] > bounds[:place].min() + RISES else None
