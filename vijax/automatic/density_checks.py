"""Checks of a log density: whether it has a gradient, which labels may be exchanged, and whether
float32 holds it.

*Label switching.* A mixture is the same under any order of its components. Its posterior has then
as many copies of each mode as there are orders, and the mean of an entry over all of them is that
of every other: q describes one labelling. Two entries are exchanged in all variables that have an
axis of that length, or in some of them, and the density is compared at random points. If it differs
at one of them, the entries may not be exchanged."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from vijax.automatic.gaussian import Gaussian, draw_noise
from vijax.checks import require
from vijax.constrain import correlation_cholesky, ordered, positive_definite, simplex, unit_interval
from vijax.contract.variables import Free, Variables
from vijax.verdict.target import Target

NOT_FINITE = (
    "jnp.where with a branch that is no number has none: make its argument safe first. sqrt and "
    "norms have none at 0."
)
NOT_DIFFERENTIABLE = (
    "jnp.round, jnp.floor, integers and stop_gradient have none. vijax.bbvi needs none."
)


def check_slopes(
    target: Target, variables: Variables, starts: Float[np.ndarray, "starts D"]
) -> None:
    """Raises ValueError where the density is finite at starts, but its gradient at none of them; or
    where the density depends on a variable in which its gradient is zero at all of them."""
    values, slopes = target.raw_slopes(starts)
    usable = np.isfinite(values)
    if not usable.any():
        return  # said elsewhere
    lacking = ~np.isfinite(slopes[usable])
    if lacking.any(1).all():
        names = variables.names_where(lacking.any(0))
        require(
            False,
            "log_density",
            "a finite gradient at any of the starts",
            f"none in {names}",
            NOT_FINITE,
        )
    flat = usable.any() & (slopes[usable] == 0).all(0)
    moved = _depends(target, starts[usable], values[usable], flat)
    require(
        not moved.any(),
        "log_density",
        "a gradient",
        f"none in {variables.names_where(moved)}",
        NOT_DIFFERENTIABLE,
    )


def _depends(
    target: Target, starts: np.ndarray, values: np.ndarray, flat: np.ndarray
) -> Bool[np.ndarray, " D"]:
    """Returns those coordinates of a zero gradient on which the density depends all the same."""
    if not flat.any():
        return flat
    noise = np.random.default_rng(0).uniform(-2, 2, starts.shape)
    there = target.values(np.where(flat, noise, starts))
    known = np.isfinite(there)
    rounding = 100 * target.epsilon * np.maximum(np.abs(values), 1.0)
    return flat & bool((np.abs(there - values) > rounding)[known].any())


# --- label switching ------------------------------------------------------------------------------
MOST_LABELS, MOST_SETS, MOST_ORDERS = 12, 64, 120
"""Longest axis whose entries are taken for labels; number of sets of variables that are tried, the
largest ones first; and of orders under which copies of a mode are looked for."""
POINTS, FIRST = (
    16,
    4,
)  # number of points at which the density is compared, and of those that most pairs are refused at
SAME = 100.0  # values that differ by less than so many times their rounding are the same
# standard deviations by which an exchange must move some coordinate of a mode, to be one of labels
ELSEWHERE = 1.0


class Axes(NamedTuple):
    """Axes of a variable, the `leaf`-th one, along which entries are exchanged."""

    leaf: int
    axes: tuple[int, ...]


class Exchange(NamedTuple):
    """Entries that may be exchanged."""

    names: tuple[str, ...]  # of the variables
    along: tuple[Axes, ...]  # their axes
    size: int  # number of entries
    pairs: tuple[tuple[int, int], ...]  # of entries that may be exchanged

    def copies(
        self, variables: Variables, x: Float[np.ndarray, "points D"]
    ) -> list[Float[np.ndarray, "points D"]]:
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
    """Finds the labels that may be exchanged. Entries whose exchange moves the mode by less than
    `ELSEWHERE` standard deviations of q (`sds`) are no labels; nor are those of a sphere, whose
    turns leave the density as it is too."""
    variables, found = target.variables, []
    points = mode + 2 * sds * np.random.default_rng([seed, 13]).normal(size=(POINTS, target.dim))
    before = functools.cache(lambda: target.values(points))  # dear, and seldom asked for

    def differs(x: np.ndarray, part: slice) -> bool:
        known = before()[part]
        rounding = SAME * target.epsilon * np.maximum(np.abs(known), 1.0)
        return bool(np.any(np.abs(target.values(x[part]) - known) > rounding))

    for size in sorted(
        {n for leaf in variables.leaves for n in (*leaf.shape, 2) if 2 <= n <= MOST_LABELS}
    ):
        for along in _sets(variables, size):
            same = []
            for pair in itertools.pairwise(range(size)):
                order = np.arange(size)
                order[list(pair)] = pair[::-1]
                moved = np.abs(_reordered(variables, along, order, mode[None])[0] - mode) / sds
                if moved.max() <= ELSEWHERE:
                    continue
                if not np.isfinite(before()).all():
                    return []
                other = _reordered(variables, along, order, points)
                if differs(other, slice(FIRST)) or differs(other, slice(FIRST, None)):
                    continue
                turned = _turned(variables, along, pair, points)
                if np.array_equal(turned, points) or differs(turned, slice(None)):
                    same.append(pair)
            if same:
                names = variables.names_where(_coordinates_of(variables, along))
                found.append(Exchange(tuple(names), along, size, tuple(same)))
                break
    return found


def _sets(variables: Variables, size: int) -> Iterator[tuple[Axes, ...]]:
    """Yields sets of variables with axes of this length: the largest ones first, with all such axes
    or the first alone."""
    able = [(i, axes) for i, leaf in enumerate(variables.leaves) if (axes := _axes(leaf, size))]
    sets = (some for n in range(len(able), 0, -1) for some in itertools.combinations(able, n))
    for some in itertools.islice(sets, MOST_SETS):
        yield tuple(Axes(i, axes) for i, axes in some)
        if any(len(axes) > 1 for _, axes in some):
            yield tuple(Axes(i, axes[:1]) for i, axes in some)


def _axes(leaf: Free, size: int) -> tuple[int, ...]:
    """Returns axes along which entries can be exchanged; -1 of a share, whose two entries are
    itself and the rest."""
    inside = {simplex: 0, ordered: 1, positive_definite: 2, correlation_cholesky: 2}.get(
        type(leaf.support), 0
    )
    axes = tuple(axis for axis, n in enumerate(leaf.shape[: len(leaf.shape) - inside]) if n == size)
    return axes or (-1,) * (size == 2 and leaf.support == unit_interval())


def _reordered(
    variables: Variables,
    along: tuple[Axes, ...],
    order: np.ndarray,
    x: Float[np.ndarray, "points D"],
) -> Float[np.ndarray, "points D"]:
    """Returns the coordinates of points with their entries in another order."""
    x = x.copy()
    for (i, axes), (begin, end) in zip(along, _spans(variables, along), strict=True):
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


def _turned(
    variables: Variables,
    along: tuple[Axes, ...],
    pair: tuple[int, int],
    x: Float[np.ndarray, "points D"],
) -> Float[np.ndarray, "points D"]:
    """Returns the coordinates of points, turned by 45 degrees in the plane of two entries; shares
    stay."""
    x, turn = x.copy(), np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2.0)
    for (i, axes), (begin, end) in zip(along, _spans(variables, along), strict=True):
        leaf = variables.leaves[i]
        part = x[:, begin:end].reshape(len(x), *leaf.free_shape)
        for axis in axes:
            if axis >= 0 and not (
                isinstance(leaf.support, simplex) and axis == len(leaf.shape) - 1
            ):
                entries = np.moveaxis(part, axis + 1, -1)  # a view
                entries[..., list(pair)] = entries[..., list(pair)] @ turn
        x[:, begin:end] = part.reshape(len(x), -1)
    return x


def _spans(variables: Variables, along: tuple[Axes, ...]) -> list[tuple[int, int]]:
    """Returns where the coordinates of these variables begin and end."""
    ends = np.cumsum([0, *(math.prod(leaf.free_shape) for leaf in variables.leaves)])
    return [(int(ends[i]), int(ends[i + 1])) for i, _ in along]


def _coordinates_of(variables: Variables, along: tuple[Axes, ...]) -> np.ndarray:
    """Returns which coordinates are of these variables."""
    chosen = np.zeros(variables.dim, bool)
    for begin, end in _spans(variables, along):
        chosen[begin:end] = True
    return chosen


# --- precision ------------------------------------------------------------------------------------
COMPARED = 16
"""Draws at which gradients of both precisions are compared."""
FAR_AWAY = 1e18
"""Coordinates beyond which squares are infinite in float32: an improper density, of which the fit
says so."""


def float32_error(
    target: Target, make_double: Callable[[], Target], q: Gaussian, seed: int
) -> float:
    """Returns by how many standard deviations a normal fitted in float32 would be off in its means,
    or in proportion in its sds: roughly, by one step of Newton's from the differences of gradients
    at draws of q. Infinite where float32 has none at a draw where float64 has, NaN where the
    density cannot be traced in float64. The gradients of this are not counted.

    Rounding of a sum is seen in values that jump. But where a probability is rounded to one, or is
    cut off before that so that its logarithm is finite, values are smooth and wrong."""
    noise = draw_noise(COMPARED, target.dim, [seed, 71])
    x = q.from_noise(noise)
    if np.abs(x).max() > FAR_AWAY:
        return 0.0
    values, slopes = target.raw_slopes(x)
    try:
        true_values, true_slopes = (
            make_double().with_coordinates(target.reference, target.bend).raw_slopes(x)
        )
    except Exception:  # JAX may have read the density's constants in float32 for good
        return np.nan
    is_finite = np.isfinite(true_values) & np.isfinite(true_slopes).all(1)
    if not is_finite.any():
        return 0.0
    if not (np.isfinite(values) & np.isfinite(slopes).all(1))[is_finite].all():
        return np.inf
    change = ((true_slopes - slopes) @ q.scale)[is_finite]
    of_means = change.mean(0)
    of_sds = (change * noise[is_finite]).mean(0)
    return float(max(np.abs(of_means).max(), np.abs(of_sds).max()))


def double_sentence(moved: float) -> str:
    """Returns the sentence on a fit that was computed in float64."""
    if not np.isfinite(moved):
        return "Computed in float64: in float32 the log density is not finite at draws of q."
    return (
        "Computed in float64: in float32 the log density is so rounded that means or sds are off "
        f"by {moved:.2g} sd."
    )
