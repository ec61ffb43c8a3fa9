"""A log density on the host: evaluated at many points, as arrays of float64, in programs of few
shapes.

Many groups are evaluated block by block: a block and what is computed of it stay in the processor's
cache. The sums of the blocks are added on the host in float64, so that less is lost to rounding,
too."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from vijax.contract.batch import Nearby, count_rows
from vijax.contract.model import Model
from vijax.data.loader import all_groups
from vijax.models.energies.bend import Bend
from vijax.models.energies.density import LogDensity
from vijax.models.energies.free_part import GivenOthers
from vijax.models.energies.reference import Reference
from vijax.tree import to_device
from vijax.xla.by_value import make_again
from vijax.xla.compiler import cached_program, step_jit, training_jit
from vijax.xla.precision import enable_x64

GRADIENTS_OF_CURVATURE = 3  # that a gradient with a Hessian times a vector costs
MOVED = 64  # calls' points that are moved between coordinates at once
MOST_NUMBERS = 1 << 22  # numbers of the points at which a prior is evaluated in one call
# points in one call: half as many as there are starts, so that these and all draws share a program
AT_ONCE = 8
DIRECTIONS = 64  # vectors that a Hessian is multiplied by in one call
MANY_ROWS, BLOCK = (
    50_000,
    2048,
)  # rows from which on groups are evaluated in blocks; and rows of a block, about
LEFT, FINEST = (
    100.0,
    2e-10,
)  # nats of a density less its level, about; and the least relative rounding in float32
# blocks from which on fusion emitters, which halve the time of gradients, are worth compiling
DEAR_BLOCKS = 100


OfFree = LogDensity | GivenOthers
"""A function of free coordinates: a density, or the bound of an energy along its free variables."""


class Target:
    """log p of free coordinates. The likelihood of the groups counts `scale` times; `given` is all
    that the density reads beside its data; `level` is added to it on the host."""

    def __init__(
        self,
        model: OfFree,
        data: PyTree,
        scale: float = 1.0,
        given: tuple[PyTree, ...] = (),
        reference: Reference | None = None,
        bend: Bend | None = None,
        is_double: bool = False,
        level: float = 0.0,
    ):
        self.dim, self.variables = model.variables.dim, model.variables
        self.num_gradients = 0  # points at which a gradient was evaluated so far
        self.is_double = is_double  # computed in float64, whatever the working precision is
        with self._in_precision():
            self.epsilon = float(
                np.finfo(jnp.result_type(float)).eps
            )  # relative rounding of values
            self.groups = jax.tree.map(to_device, data)  # the data, groups leading
            scale_there = np.asarray(scale, jnp.result_type(float))
        self._model, self._given = model, given
        self.reference = (
            reference  # of coordinates of a hierarchy; None for the free coordinates themselves
        )
        self.bend = bend  # of these coordinates; None where they are as they are
        self._place = Place(reference, bend)
        self._scale = scale
        self.level = level  # a constant of the density that is added here, in float64
        self._data = scale_there, self.groups, given, self._place
        self._blocks = (
            _blocks_of(self.num_groups, self.num_rows) if self.num_rows >= MANY_ROWS else 1
        )
        self.epsilon /= self._blocks**0.5  # their errors are independent
        if abs(level) > LEFT:  # what is rounded is the density less its level
            self.epsilon = max(self.epsilon * LEFT / abs(level), min(self.epsilon, FINEST))

    @classmethod
    def of(cls, model: Model, data: Any, is_double: bool = False) -> Target:
        """Takes data as `vijax.fit` does, all in one batch without padding. Raises ValueError: the
        model does not read such data."""
        with _precision(is_double):
            own = (
                cached_program(model, make_again, lambda of: make_again(of()))
                if is_double
                else model
            )
            return cls(own.log_density, all_groups(data, own), is_double=is_double)

    @classmethod
    def near(cls, nearby: Nearby, is_double: bool = False) -> Target:
        """A density that is like a model's near its mode."""
        with _precision(is_double):
            return cls(nearby.density, nearby.data, is_double=is_double, level=nearby.level)

    def within(self, reference: Reference | None, bend: Bend | None = None) -> Target:
        """The same density in coordinates of its hierarchy, None for its free coordinates; and with
        these bent."""
        if reference is None and bend is None and self.is_free:
            return self
        other = Target(
            self._model,
            self.groups,
            self._scale,
            self._given,
            reference,
            bend,
            self.is_double,
            self.level,
        )
        other.num_gradients = self.num_gradients
        return other

    @property
    def is_free(self) -> bool:
        """True where the coordinates are the free ones themselves."""
        return self.reference is None and (self.bend is None or not np.any(self.bend.amount))

    @property
    def kept_reference(self) -> Reference | None:
        """The reference that a file has: of free coordinates too, where the density has a
        hierarchy."""
        if self.reference is None and getattr(self._model, "hierarchy", None) is not None:
            return Reference.identity(self.dim)
        return self.reference

    def free(self, z: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D"]:
        """The free coordinates at points."""
        if self.is_free:
            return z
        program = cached_program(self._model, _free_at, lambda model: step_jit(_free_at(model)))
        return self._moved(program, z)

    def coordinates(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D"]:
        """The points at free coordinates."""
        if self.is_free:
            return x
        program = cached_program(
            self._model, _coordinates_at, lambda model: step_jit(_coordinates_at(model))
        )
        return self._moved(program, x)

    def less_laws(
        self, z: Float[np.ndarray, "points D"], v: Float[np.ndarray, "points D"]
    ) -> tuple[Float[np.ndarray, "points D"], Float[np.ndarray, "points D"]]:
        """Returns gradients of the log density less the laws of the variables that are their own
        coordinates, and Hessians times vectors; each point counts as `GRADIENTS_OF_CURVATURE`
        gradients."""
        self.num_gradients += GRADIENTS_OF_CURVATURE * len(z)
        program = cached_program(self._model, _less_laws, lambda model: step_jit(_less_laws(model)))
        pairs = zip(_in_turn(z, AT_ONCE), _in_turn(v, AT_ONCE), strict=True)
        with self._in_precision():
            parts = [program(self._data, *some) for some in pairs]
        slopes, pushed = (
            np.concatenate([np.asarray(x, np.float64) for x in part])
            for part in zip(*parts, strict=True)
        )
        return slopes[: len(z)], pushed[: len(z)]

    def _moved(self, program: Any, x: np.ndarray) -> Float[np.ndarray, "points D"]:
        some = _in_turn(x, AT_ONCE * MOVED)
        with self._in_precision():
            moved = [np.asarray(program(part, self._place), np.float64) for part in some]
        return np.concatenate(moved)[: len(x)]

    def _in_precision(self) -> contextlib.AbstractContextManager:
        """The precision in which programs are compiled and run."""
        return _precision(self.is_double)

    @property
    def num_groups(self) -> int:
        """The number of groups, N."""
        return int(np.shape(jax.tree.leaves(self.groups)[0])[0])

    @property
    def num_rows(self) -> int:
        """The number of rows of all groups; 1 of a density of all the data at once."""
        return count_rows(self.groups) if self._model.has_groups else self.num_groups

    def slopes(
        self, x: Float[np.ndarray, "points D"]
    ) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, "points D"]]:
        """Returns values and gradients. A value that is not finite becomes -inf, with a gradient of
        zero."""
        self.num_gradients += len(x)
        values, slopes = self.asked(x)
        bad = ~(np.isfinite(values) & np.isfinite(slopes).all(1))
        return np.where(bad, -np.inf, values), np.where(bad[:, None], 0.0, slopes)

    def asked(self, x: Float[np.ndarray, "points D"]) -> tuple[np.ndarray, np.ndarray]:
        """Returns values and gradients as they come, not counted."""
        values, slopes = self._over(jax.value_and_grad, x)
        return values + self.level, slopes

    def values(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Returns values alone; NaN and +inf become -inf."""
        values = self._over(_itself, x) + self.level
        return np.where(values < np.inf, values, -np.inf)

    @property
    def has_prior(self) -> bool:
        """False where no part of the density is known to be a prior."""
        return self._model.reads_data or self._model.prior_part is not None

    def log_priors(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Returns the log prior: the part that does not depend on groups, all of it where no part
        is known. NaN and +inf become -inf."""
        if not self.has_prior:
            return self.values(x)
        program = cached_program(self._model, _priors, lambda model: step_jit(_priors(model)))
        fewest = 1 << max(len(x) - 1, 0).bit_length()  # a program of a size that fits
        some = _in_turn(x, min(max(MOST_NUMBERS // self.dim, 1), fewest))
        with self._in_precision():
            parts = [
                np.asarray(program(part, self._given, self._place), np.float64) for part in some
            ]
        values = np.concatenate(parts)[: len(x)]
        return np.where(values < np.inf, values, -np.inf)

    def hessians(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D D"]:
        """Returns second derivatives."""
        return self._over(jax.hessian, x)

    def products(
        self, x: Float[np.ndarray, "points D"], v: Float[np.ndarray, "points D"]
    ) -> Float[np.ndarray, "points D"]:
        """Returns Hessians times vectors, each of which counts as two gradients."""
        self.num_gradients += 2 * len(x)
        return self._over(_product, x, v)

    def curvatures(
        self, x: Float[np.ndarray, " D"], directions: Float[np.ndarray, "C D"]
    ) -> Float[np.ndarray, "C D"]:
        """Returns products of the Hessian at one point with many vectors, each of which counts as
        two gradients."""
        self.num_gradients += 2 * len(directions)
        blocks = self._blocks
        program = cached_program(
            self._model,
            (_curvatures, blocks),
            lambda model: step_jit(_at_points(_curvatures, model, blocks)),
        )
        parts = []
        with self._in_precision():
            at = np.asarray(x[None], jnp.result_type(float))
            for some in _in_turn(directions, DIRECTIONS):
                found = np.asarray(program(self._data, at, some[None]), np.float64)
                parts.append(found.reshape(-1, *some.shape).sum(0))
        return np.concatenate(parts)[: len(directions)]

    def _over(self, ask: Callable, *x: np.ndarray) -> Any:
        """Returns values or derivatives of log p at all points, by a program that takes `AT_ONCE`
        of them."""
        blocks = self._blocks
        jitted = training_jit if ask is jax.value_and_grad and blocks >= DEAR_BLOCKS else step_jit
        program = cached_program(
            self._model, (ask, blocks), lambda model: jitted(_at_points(ask, model, blocks))
        )
        parts = []
        with self._in_precision():
            for some in zip(*(_in_turn(a, AT_ONCE) for a in x), strict=True):
                parts.append(program(self._data, *some))
        summed = lambda a: (
            np.asarray(a, np.float64).sum(0) if blocks > 1 else np.asarray(a, np.float64)
        )
        joined = lambda *each: np.concatenate([summed(a) for a in each])[: len(x[0])]
        return jax.tree.map(joined, *parts)


def _precision(is_double: bool) -> contextlib.AbstractContextManager:
    return enable_x64(True) if is_double else contextlib.nullcontext()


def _in_turn(x: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Points, so many at a time, in the working precision; the last part is filled up by its first
    point."""
    for start in range(0, len(x), size):
        some = x[start : start + size]
        padded = np.concatenate([some, np.repeat(some[:1], size - len(some), 0)])
        yield np.asarray(padded, jnp.result_type(float))


class Place(NamedTuple):
    """The place of coordinates relative to free ones; of free ones nothing."""

    reference: Reference | None = None
    bend: Bend | None = None


Data = tuple[Array, PyTree, tuple[PyTree, ...], Place]
"""Scale of the likelihood, groups, all that is given beside them, and the place of the
coordinates."""


def _at_points(ask: Callable, of: weakref.ref[OfFree], blocks: int) -> Callable[..., Any]:
    """Returns a program for values or derivatives at points; of several blocks for the parts of
    them, to be summed."""

    def asked(data: Data, *x: Array) -> Any:
        model, (scale, groups, given, place) = _model_of(of), data

        def log_p(z: Array) -> Array:
            x, volume = _placed(model, place, z)
            return (
                model.log_prior_at(x, *given)
                + volume
                + scale * jnp.sum(model.log_liks_at(x, groups, *given))
            )

        return jax.vmap(ask(log_p))(*x)

    def asked_in_blocks(data: Data, *x: Array) -> Any:
        model, (scale, groups, given, place) = _model_of(of), data
        total = len(jax.tree.leaves(groups)[0])
        size = total // blocks

        def of_some(some: PyTree) -> Any:
            at = lambda z: _placed(model, place, z)[0]
            return jax.vmap(ask(lambda z: scale * jnp.sum(model.log_liks_at(at(z), some, *given))))(
                *x
            )

        def prior(z: Array) -> Array:
            x, volume = _placed(model, place, z)
            return model.log_prior_at(x, *given) + volume

        block = lambda i: jax.tree.map(
            lambda a: jax.lax.dynamic_slice_in_dim(a, i * size, size), groups
        )
        parts = jax.lax.map(lambda i: of_some(block(i)), jnp.arange(blocks))
        ends = [jax.vmap(ask(prior))(*x)]
        if total > blocks * size:
            ends.append(of_some(jax.tree.map(lambda a: a[blocks * size :], groups)))
        return jax.tree.map(
            lambda part, *more: jnp.concatenate([part, jnp.stack(more)]), parts, *ends
        )

    return asked if blocks == 1 else asked_in_blocks


def _blocks_of(groups: int, rows: int) -> int:
    """The number of blocks. Where blocks of one length can hold all groups, no rest has to be
    compiled."""
    about = min(rows // BLOCK, groups)
    even = [n for n in range(about // 2 + 1, min(2 * about, groups + 1)) if groups % n == 0]
    return min(even, key=lambda n: abs(n - about), default=about)


def _itself(log_p: Callable) -> Callable:
    return log_p


def _product(log_p: Callable) -> Callable:
    return lambda z, v: jax.jvp(jax.grad(log_p), (z,), (v,))[1]


def _curvatures(log_p: Callable) -> Callable:
    """Products at one point: what is computed of the point alone is computed once."""
    return lambda z, vectors: jax.vmap(lambda v: _product(log_p)(z, v))(vectors)


def _placed(model: Any, place: Place, z: Array) -> tuple[Array, Any]:
    """Free coordinates, and the log volume of the map."""
    if place.reference is None and place.bend is None:
        return z, 0.0
    return model.to_free(*place, z)


def _free_at(of: weakref.ref[OfFree]) -> Callable[..., Any]:
    return lambda x, place: jax.vmap(lambda z: _placed(_model_of(of), place, z)[0])(x)


def _less_laws(of: weakref.ref[OfFree]) -> Callable[..., Any]:
    def asked(data: Data, z: Array, v: Array) -> Any:
        model, (scale, groups, given, place) = _model_of(of), data

        def less_laws(z: Array) -> Array:
            placed = model.hierarchy.to_free(place.reference, z)
            log_prior = model.log_prior_at(placed.free, *given) + placed.log_volume - placed.log_law
            return log_prior + scale * jnp.sum(model.log_liks_at(placed.free, groups, *given))

        return jax.vmap(lambda z, v: jax.jvp(jax.grad(less_laws), (z,), (v,)))(z, v)

    return asked


def _coordinates_at(of: weakref.ref[OfFree]) -> Callable[..., Any]:
    return lambda x, place: jax.vmap(lambda x: _model_of(of).coordinates(*place, x))(x)


def _priors(of: weakref.ref[OfFree]) -> Callable[..., Any]:
    def priors(x: Array, given: tuple[PyTree, ...], place: Place) -> Array:
        def prior(z: Array) -> Array:
            x, volume = _placed(_model_of(of), place, z)
            return _model_of(of).prior_part_at(x, *given) + volume

        return jax.vmap(prior)(x)

    return priors


def _model_of(of: weakref.ref[OfFree]) -> Any:
    return of()
