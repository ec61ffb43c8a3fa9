"""Checks of a log density: its gradient, labels that may be exchanged, and precision in float32.

*Label switching.* A mixture is the same for any order of its components. Its posterior then has as
many copies of each mode as there are orders, and over all copies all entries have the same mean: q
describes one labelling. To find labels, two entries are exchanged in all variables that have an
axis of that length, or in some of them, and the density is compared at random points. If it differs
at one point, the entries may not be exchanged."""

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
    is_finite = np.isfinite(values)
    if not is_finite.any():
        return  # the search for modes raises an error
    lacks_slope = ~np.isfinite(slopes[is_finite])
    if lacks_slope.any(1).all():
        names = variables.names_where(lacks_slope.any(0))
        expected = "a finite gradient at any of the starts"
        require(False, "log_density", expected, f"none in {names}", NOT_FINITE)
    is_flat = is_finite.any() & (slopes[is_finite] == 0).all(0)
    varies = _depends(target, starts[is_finite], values[is_finite], is_flat)
    actual = f"none in {variables.names_where(varies)}"
    require(not varies.any(), "log_density", "a gradient", actual, NOT_DIFFERENTIABLE)


def _depends(
    target: Target, starts: np.ndarray, values: np.ndarray, is_flat: np.ndarray
) -> Bool[np.ndarray, " D"]:
    """The flat coordinates if the density depends on them all the same; else none."""
    if not is_flat.any():
        return is_flat
    noise = np.random.default_rng(0).uniform(-2, 2, starts.shape)
    new_values = target.values(np.where(is_flat, noise, starts))
    is_finite = np.isfinite(new_values)
    rounding = 100 * target.epsilon * np.maximum(np.abs(values), 1.0)
    return is_flat & bool((np.abs(new_values - values) > rounding)[is_finite].any())


# --- label switching ------------------------------------------------------------------------------
MOST_LABELS = 12  # longest axis whose entries may be labels
MOST_SETS = 64  # sets of variables that are tried, the largest first
MOST_ORDERS = 120  # orders of labels for which copies of a mode are made
POINTS = 16  # points at which the density is compared
FIRST = 4  # points that are compared first, and reject most pairs
SAME = 100.0  # values are the same up to this multiple of their rounding
# Standard deviations by which an exchange of labels moves some coordinate of a mode, at least
ELSEWHERE = 1.0


class Axes(NamedTuple):
    """Axes of a variable, the `leaf`-th one, along which entries are exchanged."""

    leaf: int
    axes: tuple[int, ...]


class Exchange(NamedTuple):
    """Entries that may be exchanged."""

    names: tuple[str, ...]  # names of the variables
    along: tuple[Axes, ...]  # their axes
    size: int  # number of entries
    pairs: tuple[tuple[int, int], ...]  # pairs of entries that may be exchanged

    def copies(
        self, variables: Variables, x: Float[np.ndarray, "points D"]
    ) -> list[Float[np.ndarray, "points D"]]:
        """Points in all other orders that exchanges lead to; at most `MOST_ORDERS`."""
        orders = [tuple(range(self.size))]
        for order in orders:
            for i, j in self.pairs:
                if len(orders) >= MOST_ORDERS:
                    break
                new = list(order)
                new[i], new[j] = new[j], new[i]
                if tuple(new) not in orders:
                    orders.append(tuple(new))
        return [_reorder(variables, self.along, np.array(order), x) for order in orders[1:]]


def exchanges(
    target: Target, mode: Float[np.ndarray, " D"], sds: Float[np.ndarray, " D"], seed: int = 0
) -> list[Exchange]:
    """The labels that may be exchanged. Entries whose exchange moves the mode by less than
    `ELSEWHERE` standard deviations of q (`sds`) are no labels; nor are entries of a sphere, where
    rotations leave the density as it is too."""
    variables = target.variables
    comparison = _Comparison(target, mode, sds, seed)
    lengths = {n for leaf in variables.leaves for n in (*leaf.shape, 2)}
    labels = []
    for size in sorted(n for n in lengths if 2 <= n <= MOST_LABELS):
        for along in _sets(variables, size):
            pairs = []
            for pair in itertools.pairwise(range(size)):
                if not comparison.moves(along, pair, size):
                    continue
                if not comparison.has_values():
                    return []
                if comparison.is_exchangeable(along, pair, size):
                    pairs.append(pair)
            if pairs:
                names = variables.names_where(_coordinate_mask(variables, along))
                labels.append(Exchange(tuple(names), along, size, tuple(pairs)))
                break
    return labels


class _Comparison:
    """A density at random points around a mode, and at the same points with entries exchanged."""

    def __init__(self, target: Target, mode: np.ndarray, sds: np.ndarray, seed: int):
        noise = np.random.default_rng([seed, 13]).normal(size=(POINTS, target.dim))
        self._target = target
        self._mode = mode
        self._sds = sds
        self._points = mode + 2 * sds * noise
        # They are expensive, and seldom needed.
        self._values = functools.cache(lambda: target.values(self._points))

    def moves(self, along: tuple[Axes, ...], pair: tuple[int, int], size: int) -> bool:
        """True where an exchange moves the mode far enough to be one of labels."""
        order = _exchange_order(pair, size)
        mode = _reorder(self._target.variables, along, order, self._mode[None])[0]
        distances = np.abs(mode - self._mode) / self._sds
        return not distances.max() <= ELSEWHERE

    def has_values(self) -> bool:
        """True where the density is finite at all points."""
        return bool(np.isfinite(self._values()).all())

    def is_exchangeable(self, along: tuple[Axes, ...], pair: tuple[int, int], size: int) -> bool:
        """True where an exchange leaves the density as it is, but a rotation does not."""
        variables = self._target.variables
        exchanged = _reorder(variables, along, _exchange_order(pair, size), self._points)
        if self._differs(exchanged, slice(FIRST)) or self._differs(exchanged, slice(FIRST, None)):
            return False
        rotated = _rotate(variables, along, pair, self._points)
        return np.array_equal(rotated, self._points) or self._differs(rotated, slice(None))

    def _differs(self, x: np.ndarray, part: slice) -> bool:
        values = self._values()[part]
        rounding = SAME * self._target.epsilon * np.maximum(np.abs(values), 1.0)
        return bool(np.any(np.abs(self._target.values(x[part]) - values) > rounding))


def _exchange_order(pair: tuple[int, int], size: int) -> np.ndarray:
    order = np.arange(size)
    order[list(pair)] = pair[::-1]
    return order


def _sets(variables: Variables, size: int) -> Iterator[tuple[Axes, ...]]:
    """Sets of variables with axes of this length: the largest sets first, with all these axes of
    each variable or only the first."""
    with_axes = [(i, _axes(leaf, size)) for i, leaf in enumerate(variables.leaves)]
    with_axes = [(i, axes) for i, axes in with_axes if axes]
    counts = range(len(with_axes), 0, -1)
    sets = (subset for n in counts for subset in itertools.combinations(with_axes, n))
    for subset in itertools.islice(sets, MOST_SETS):
        yield tuple(Axes(i, axes) for i, axes in subset)
        if any(len(axes) > 1 for _, axes in subset):
            yield tuple(Axes(i, axes[:1]) for i, axes in subset)


def _axes(leaf: Free, size: int) -> tuple[int, ...]:
    """Axes along which entries can be exchanged; -1 for a share, whose two entries are itself and
    the remainder."""
    event_ndims = {simplex: 0, ordered: 1, positive_definite: 2, correlation_cholesky: 2}
    num_axes = len(leaf.shape) - event_ndims.get(type(leaf.support), 0)
    axes = tuple(axis for axis, n in enumerate(leaf.shape[:num_axes]) if n == size)
    return axes or (-1,) * (size == 2 and leaf.support == unit_interval())


def _reorder(
    variables: Variables,
    along: tuple[Axes, ...],
    order: np.ndarray,
    x: Float[np.ndarray, "points D"],
) -> Float[np.ndarray, "points D"]:
    """The coordinates of points with their entries in another order."""
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


def _rotate(
    variables: Variables,
    along: tuple[Axes, ...],
    pair: tuple[int, int],
    x: Float[np.ndarray, "points D"],
) -> Float[np.ndarray, "points D"]:
    """The coordinates of points, rotated by 45 degrees in the plane of two entries; shares stay."""
    x = x.copy()
    rotation = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2.0)
    for (i, axes), (begin, end) in zip(along, _spans(variables, along), strict=True):
        leaf = variables.leaves[i]
        part = x[:, begin:end].reshape(len(x), *leaf.free_shape)
        for axis in axes:
            is_share = isinstance(leaf.support, simplex) and axis == len(leaf.shape) - 1
            if axis >= 0 and not is_share:
                entries = np.moveaxis(part, axis + 1, -1)  # a view
                entries[..., list(pair)] = entries[..., list(pair)] @ rotation
        x[:, begin:end] = part.reshape(len(x), -1)
    return x


def _spans(variables: Variables, along: tuple[Axes, ...]) -> list[tuple[int, int]]:
    """First coordinate of each of these variables, and the one after its last."""
    ends = np.cumsum([0, *(math.prod(leaf.free_shape) for leaf in variables.leaves)])
    return [(int(ends[i]), int(ends[i + 1])) for i, _ in along]


def _coordinate_mask(variables: Variables, along: tuple[Axes, ...]) -> np.ndarray:
    """True for the coordinates of these variables."""
    mask = np.zeros(variables.dim, bool)
    for begin, end in _spans(variables, along):
        mask[begin:end] = True
    return mask


# --- precision ------------------------------------------------------------------------------------
COMPARED = 16
"""Draws at which gradients of both precisions are compared."""
SOUGHT = 128
"""Draws among which those without a value in float32 are sought."""
FAR_AWAY = 1e18
"""Coordinates beyond which squares are infinite in float32: the density is improper, and the fit
reports that."""


def float32_error(
    target: Target, make_double: Callable[[], Target], q: Gaussian, seed: int
) -> float:
    """The error of a normal fitted in float32: of its means in standard deviations, or of its sds
    in proportion. It is rough: one Newton step from the differences of gradients at draws of q.
    Infinite if float32 has no value or gradient at a draw where float64 has one, NaN if the density
    cannot be traced in float64. Its gradients are not counted.

    Rounding of a sum makes values jump. But if a probability is rounded to one, or cut off before
    one so that its logarithm is finite, values are smooth and wrong."""
    noise = draw_noise(COMPARED, target.dim, [seed, 71])
    x = q.from_noise(noise)
    if np.abs(x).max() > FAR_AWAY:
        return 0.0
    values, slopes = target.raw_slopes(x)
    try:
        double = make_double().with_coordinates(target.reference, target.bend)
        true_values, true_slopes = double.raw_slopes(x)
    except Exception:  # JAX may have read the density's constants in float32 for good
        return np.nan
    is_finite = np.isfinite(true_values) & np.isfinite(true_slopes).all(1)
    if not is_finite.any():
        return 0.0
    if not (np.isfinite(values) & np.isfinite(slopes).all(1))[is_finite].all():
        return np.inf
    points = q.from_noise(draw_noise(SOUGHT, target.dim, [seed, 72]))
    without_value = points[~np.isfinite(target.values(points))][:COMPARED]
    if len(without_value) and np.isfinite(double.values(without_value)).any():
        return np.inf
    change = ((true_slopes - slopes) @ q.scale)[is_finite]
    mean_errors = change.mean(0)
    sd_errors = (change * noise[is_finite]).mean(0)
    return float(max(np.abs(mean_errors).max(), np.abs(sd_errors).max()))


def double_sentence(error: float) -> str:
    """The sentence on a fit that was computed in float64, for an error of `float32_error`."""
    if not np.isfinite(error):
        return "Computed in float64: in float32 the log density is not finite at draws of q."
    return (
        "Computed in float64: in float32 the log density is so rounded that means or sds are off "
        f"by {error:.2g} sd."
    )
