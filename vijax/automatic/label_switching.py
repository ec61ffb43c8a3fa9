"""Label switching: finds orders of the entries of variables that leave the density as it is.

A mixture is the same under any order of its components. Its posterior has then as many copies of each mode as there are
orders, and the mean of an entry over all of them is that of every other: q describes one labelling. Two entries are
exchanged in all variables that have an axis of that length, or in some of them, and the density is compared at random
points. Where it differs at one of them the entries may not be exchanged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.automatic.target import Target
from vijax.constrain import correlation_cholesky, ordered, positive_definite, simplex, unit_interval
from vijax.contract.variables import Free, Variables

MOST, MOST_SETS, MOST_ORDERS = 12, 64, 120
"""Longest axis whose entries are taken for labels; number of sets of variables that are tried, the largest ones first;
and of orders under which copies of a mode are looked for."""
POINTS = 4
"""Number of points at which the density is compared."""
SAME = 100.0
"""Values that differ by less than so many times their rounding are the same."""
ELSEWHERE = 1.0
"""Standard deviations by which an exchange must move some coordinate of a mode, to be one of labels."""


class Axes(NamedTuple):
    """Axes of a variable along which entries are exchanged."""

    leaf: int
    axes: tuple[int, ...]


class Exchange(NamedTuple):
    """Entries that may be exchanged.

    Attributes:
      names: of the variables.
      along: their axes.
      size: number of entries.
      pairs: of entries that may be exchanged.
    """

    names: tuple[str, ...]
    along: tuple[Axes, ...]
    size: int
    pairs: tuple[tuple[int, int], ...]

    def copies(self, variables: Variables, x: Float[np.ndarray, "points D"]) -> list[Float[np.ndarray, "points D"]]:
        """Returns points under all other orders that exchanges lead to; at most `MOST_ORDERS`."""
        orders = [tuple(range(self.size))]
        for order in orders:
            for i, j in self.pairs:
                if len(orders) >= MOST_ORDERS:
                    break
                new = list(order)
                new[i], new[j] = new[j], new[i]
                if tuple(new) not in orders:
                    orders.append(tuple(new))
        return [_reordered(variables, self.along, np.array(order), x) for order in orders[1:]]


def exchanges(
    target: Target, mode: Float[np.ndarray, " D"], sds: Float[np.ndarray, " D"], seed: int = 0
) -> list[Exchange]:
    """Finds the labels that may be exchanged.

    Args:
      target: the density.
      mode: a mode of it; entries whose exchange moves it less than `ELSEWHERE` are no labels.
      sds: of q.
      seed: of the points.
    """
    variables, found = target.variables, []
    points = mode + 2 * sds * np.random.default_rng([seed, 13]).normal(size=(POINTS, target.dim))
    before = target.values(points)
    if not np.isfinite(before).all():
        return []
    rounding = SAME * target.epsilon * np.maximum(np.abs(before), 1.0)
    for size in sorted({n for leaf in variables.leaves for n in (*leaf.shape, 2) if 2 <= n <= MOST}):
        for along in _sets(variables, size):
            same = []
            for pair in itertools.pairwise(range(size)):
                order = np.arange(size)
                order[list(pair)] = pair[::-1]
                moved = np.abs(_reordered(variables, along, order, mode[None])[0] - mode) / sds
                if moved.max() <= ELSEWHERE:
                    continue
                gaps = np.abs(target.values(_reordered(variables, along, order, points)) - before)
                if np.all(gaps <= rounding):
                    same.append(pair)
            if same:
                names = variables.names_at(_coordinates(variables, along))
                found.append(Exchange(tuple(names), along, size, tuple(same)))
                break
    return found


def _sets(variables: Variables, size: int) -> Iterator[tuple[Axes, ...]]:
    """Yields sets of variables with axes of this length: the largest ones first, with all such axes or the first
    alone."""
    able = [(i, axes) for i, leaf in enumerate(variables.leaves) if (axes := _axes(leaf, size))]
    sets = (some for n in range(len(able), 0, -1) for some in itertools.combinations(able, n))
    for some in itertools.islice(sets, MOST_SETS):
        yield tuple(Axes(i, axes) for i, axes in some)
        if any(len(axes) > 1 for _, axes in some):
            yield tuple(Axes(i, axes[:1]) for i, axes in some)


def _axes(leaf: Free, size: int) -> tuple[int, ...]:
    """Returns axes along which entries can be exchanged; -1 of a share, whose two entries are itself and the rest."""
    inside = {simplex: 0, ordered: 1, positive_definite: 2, correlation_cholesky: 2}.get(type(leaf.support), 0)
    axes = tuple(axis for axis, n in enumerate(leaf.shape[: len(leaf.shape) - inside]) if n == size)
    return axes or (-1,) * (size == 2 and leaf.support == unit_interval())


def _reordered(
    variables: Variables, along: tuple[Axes, ...], order: np.ndarray, x: Float[np.ndarray, "points D"]
) -> Float[np.ndarray, "points D"]:
    """Returns the coordinates of points with their entries in another order."""
    x = x.copy()
    for (i, axes), (begin, end) in zip(along, _places(variables, along), strict=True):
        leaf = variables.leaves[i]
        part = x[:, begin:end].reshape(len(x), *leaf.free_shape)
        for axis in axes:
            if axis < 0:
                part = -part
            elif isinstance(leaf.support, simplex) and axis == len(leaf.shape) - 1:
                logits = np.concatenate([part, np.zeros((*part.shape[:-1], 1))], -1)[..., order]
                part = (logits - logits[..., -1:])[..., :-1]
            else:
                part = np.take(part, order, axis + 1)
        x[:, begin:end] = part.reshape(len(x), -1)
    return x


def _places(variables: Variables, along: tuple[Axes, ...]) -> list[tuple[int, int]]:
    """Returns where the coordinates of these variables begin and end."""
    ends = np.cumsum([0, *(math.prod(leaf.free_shape) for leaf in variables.leaves)])
    return [(int(ends[i]), int(ends[i + 1])) for i, _ in along]


def _coordinates(variables: Variables, along: tuple[Axes, ...]) -> np.ndarray:
    """Returns which coordinates are of these variables."""
    chosen = np.zeros(variables.dim, bool)
    for begin, end in _places(variables, along):
        chosen[begin:end] = True
    return chosen
