"""A log density on the host: evaluated at many points, as arrays of float64, in programs of few
shapes.

Many groups are evaluated in blocks: a block and its intermediate values stay in the processor's
cache. The host adds the sums of the blocks in float64, which also loses less to rounding."""

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

GRADIENTS_OF_CURVATURE = 3  # cost of a gradient with a Hessian times a vector, in gradients
CALLS_OF_POINTS = 64  # `AT_ONCE` times so many points are mapped between coordinates in one call
MOST_NUMBERS = 1 << 22  # numbers of the points at which a prior is evaluated in one call
# Points in one call: half of the starts, so that starts and all draws share a program.
AT_ONCE = 8
MORE_AT_ONCE = 32
"""Points in one call where rows times variables are many: their products then read the data once
for all of these points, in less than half the time."""
MANY_PRODUCTS = 1 << 20, 1 << 24
"""Rows times variables for which this is so, and beyond which it might take too much memory."""
DIRECTIONS = 64  # vectors that a Hessian is multiplied by in one call
MANY_ROWS = 50_000  # rows from which on groups are evaluated in blocks
BLOCK = 2048  # rows of a block, about
REDUCED = 100.0  # nats, about, of a density less its level
FINEST = 2e-10  # the least relative rounding in float32
# Blocks from which on fusion emitters are worth their compilation: they halve the time of
# gradients.
DEAR_BLOCKS = 100


FreeFunction = LogDensity | GivenOthers
"""A function of free coordinates: a density, or the bound of an energy along its free variables."""


class Target:
    """log p as a function of coordinates, evaluated on the host.

    Attributes:
      dim: the number of coordinates, D.
      variables: the free variables.
      groups: the data, groups leading.
      reference: reference of the coordinates of a hierarchy; None for the free coordinates.
      bend: bend of these coordinates; None without one.
      is_double: True if it is computed in float64, whatever the working precision is.
      level: a constant of the density that is added on the host, in float64.
      epsilon: relative rounding of values.
      num_gradients: points at which a gradient was evaluated so far.
    """

    def __init__(
        self,
        model: FreeFunction,
        data: PyTree,
        scale: float = 1.0,
        given: tuple[PyTree, ...] = (),
        reference: Reference | None = None,
        bend: Bend | None = None,
        is_double: bool = False,
        level: float = 0.0,
    ):
        """The likelihood of the groups counts `scale` times; `given` are the arguments of the
        density beside its data."""
        self.dim = model.variables.dim
        self.variables = model.variables
        self.num_gradients = 0
        self.is_double = is_double
        with self._precision():
            self.epsilon = float(np.finfo(jnp.result_type(float)).eps)
            self.groups = jax.tree.map(to_device, data)
            device_scale = np.asarray(scale, jnp.result_type(float))
        self._model = model
        self._given = given
        self.reference = reference
        self.bend = bend
        self._place = Place(reference, bend)
        self._scale = scale
        self.level = level
        self._data = device_scale, self.groups, given, self._place
        self._blocks = 1
        if self.num_rows >= MANY_ROWS:
            self._blocks = _count_blocks(self.num_groups, self.num_rows)
        self.epsilon /= self._blocks**0.5  # the errors of blocks are independent
        if abs(level) > REDUCED:  # the density less its level is rounded
            self.epsilon = max(self.epsilon * REDUCED / abs(level), min(self.epsilon, FINEST))

    @classmethod
    def from_data(cls, model: Model, data: Any, is_double: bool = False) -> Target:
        """The density of a model at data, as `vijax.fit` takes them, all in one batch without
        padding. Raises ValueError: the model does not read this kind of data."""
        with _precision(is_double):
            if is_double:
                model = cached_program(model, make_again, lambda model_ref: make_again(model_ref()))
            return cls(model.log_density, all_groups(data, model), is_double=is_double)

    @classmethod
    def from_nearby(cls, nearby: Nearby, is_double: bool = False) -> Target:
        """A density that approximates a model's density near its mode."""
        with _precision(is_double):
            return cls(nearby.density, nearby.data, is_double=is_double, level=nearby.level)

    def with_coordinates(self, reference: Reference | None, bend: Bend | None = None) -> Target:
        """The same density in bent coordinates of its hierarchy; `reference` None stands for its
        free coordinates, `bend` None for no bend."""
        if reference is None and bend is None and self.is_free:
            return self
        target = Target(
            self._model,
            self.groups,
            self._scale,
            self._given,
            reference,
            bend,
            self.is_double,
            self.level,
        )
        target.num_gradients = self.num_gradients
        return target

    @property
    def is_free(self) -> bool:
        """True where the coordinates are the free coordinates."""
        return self.reference is None and (self.bend is None or not np.any(self.bend.amount))

    @property
    def file_reference(self) -> Reference | None:
        """The reference that files have: the identity for free coordinates of a density with a
        hierarchy."""
        if self.reference is None and getattr(self._model, "hierarchy", None) is not None:
            return Reference.identity(self.dim)
        return self.reference

    def to_free(self, z: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D"]:
        """The free coordinates of points."""
        if self.is_free:
            return z
        program = cached_program(
            self._model, _bind_to_free, lambda model_ref: step_jit(_bind_to_free(model_ref))
        )
        return self._map_points(program, z)

    def coordinates(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D"]:
        """The coordinates of points given by their free coordinates."""
        if self.is_free:
            return x
        program = cached_program(
            self._model,
            _bind_coordinates,
            lambda model_ref: step_jit(_bind_coordinates(model_ref)),
        )
        return self._map_points(program, x)

    def less_laws(
        self, z: Float[np.ndarray, "points D"], v: Float[np.ndarray, "points D"]
    ) -> tuple[Float[np.ndarray, "points D"], Float[np.ndarray, "points D"]]:
        """Gradients, and Hessians times vectors, of the log density less the laws of the variables
        that keep their free coordinates; each point counts as `GRADIENTS_OF_CURVATURE`
        gradients."""
        self.num_gradients += GRADIENTS_OF_CURVATURE * len(z)
        program = cached_program(
            self._model, _bind_less_laws, lambda model_ref: step_jit(_bind_less_laws(model_ref))
        )
        pairs = zip(_chunks(z, AT_ONCE), _chunks(v, AT_ONCE), strict=True)
        with self._precision():
            parts = [program(self._data, *pair) for pair in pairs]
        slopes = np.concatenate([np.asarray(part[0], np.float64) for part in parts])
        products = np.concatenate([np.asarray(part[1], np.float64) for part in parts])
        return slopes[: len(z)], products[: len(z)]

    def _map_points(self, program: Any, x: np.ndarray) -> Float[np.ndarray, "points D"]:
        """The images of points under a map between coordinates."""
        chunks = _chunks(x, AT_ONCE * CALLS_OF_POINTS)
        with self._precision():
            images = [np.asarray(program(chunk, self._place), np.float64) for chunk in chunks]
        return np.concatenate(images)[: len(x)]

    def _precision(self) -> contextlib.AbstractContextManager:
        """The precision in which programs are compiled and run."""
        return _precision(self.is_double)

    @property
    def num_groups(self) -> int:
        """The number of groups, N."""
        return int(np.shape(jax.tree.leaves(self.groups)[0])[0])

    @property
    def num_rows(self) -> int:
        """The number of rows of all groups; 1 for a density of all data at once."""
        return count_rows(self.groups) if self._model.has_groups else self.num_groups

    def slopes(
        self, x: Float[np.ndarray, "points D"]
    ) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, "points D"]]:
        """Values and gradients. A value that is not finite becomes -inf, with a gradient of
        zero."""
        self.num_gradients += len(x)
        values, slopes = self.raw_slopes(x)
        bad = ~(np.isfinite(values) & np.isfinite(slopes).all(1))
        return np.where(bad, -np.inf, values), np.where(bad[:, None], 0.0, slopes)

    def raw_slopes(self, x: Float[np.ndarray, "points D"]) -> tuple[np.ndarray, np.ndarray]:
        """Values and gradients, finite or not; `num_gradients` does not count them."""
        values, slopes = self._evaluate(jax.value_and_grad, x)
        return values + self.level, slopes

    def values(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Values alone; NaN and +inf become -inf."""
        values = self._evaluate(_itself, x) + self.level
        return np.where(values < np.inf, values, -np.inf)

    @property
    def has_prior(self) -> bool:
        """False where no part of the density is known to be a prior."""
        return self._model.reads_data or self._model.prior_part is not None

    def log_priors(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """The log prior: the part that does not depend on groups; the whole density if no part is
        known to be a prior. NaN and +inf become -inf."""
        if not self.has_prior:
            return self.values(x)
        program = cached_program(
            self._model, _bind_prior, lambda model_ref: step_jit(_bind_prior(model_ref))
        )
        size = 1 << max(len(x) - 1, 0).bit_length()  # the next power of two
        chunks = _chunks(x, min(max(MOST_NUMBERS // self.dim, 1), size))
        with self._precision():
            parts = [
                np.asarray(program(chunk, self._given, self._place), np.float64) for chunk in chunks
            ]
        values = np.concatenate(parts)[: len(x)]
        return np.where(values < np.inf, values, -np.inf)

    def hessians(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D D"]:
        """Second derivatives."""
        return self._evaluate(jax.hessian, x)

    def products(
        self, x: Float[np.ndarray, "points D"], v: Float[np.ndarray, "points D"]
    ) -> Float[np.ndarray, "points D"]:
        """Hessians times vectors, each of which counts as two gradients."""
        self.num_gradients += 2 * len(x)
        return self._evaluate(_product, x, v)

    def curvatures(
        self, x: Float[np.ndarray, " D"], directions: Float[np.ndarray, "C D"]
    ) -> Float[np.ndarray, "C D"]:
        """Products of the Hessian at one point with many vectors, each of which counts as two
        gradients."""
        self.num_gradients += 2 * len(directions)
        program = self._program(_curvatures, step_jit)
        parts = []
        with self._precision():
            point = np.asarray(x[None], jnp.result_type(float))
            for chunk in _chunks(directions, DIRECTIONS):
                products = np.asarray(program(self._data, point, chunk[None]), np.float64)
                parts.append(products.reshape(-1, *chunk.shape).sum(0))
        return np.concatenate(parts)[: len(directions)]

    def _program(self, operator: Callable, jit: Callable) -> Callable:
        """The compiled program of an operator (values, derivatives) on log p."""
        blocks = self._blocks
        return cached_program(
            self._model,
            (operator, blocks),
            lambda model_ref: jit(_bind_operator(operator, model_ref, blocks)),
        )

    @property
    def has_many_products(self) -> bool:
        """True where rows times variables are many, and all groups are evaluated in one block."""
        limits = MANY_PRODUCTS
        products = self.num_rows * self.dim
        is_many = self._model.has_groups and limits[0] <= products <= limits[1]
        return is_many and self._blocks == 1

    def _points_at_once(self, num_points: int) -> int:
        """The number of points in one call."""
        if self.has_many_products and num_points >= MORE_AT_ONCE:
            return MORE_AT_ONCE
        return AT_ONCE

    def _evaluate(self, operator: Callable, *x: np.ndarray) -> Any:
        """Values or derivatives of log p at all points, by a program that takes `AT_ONCE` of
        them."""
        is_dear = operator is jax.value_and_grad and self._blocks >= DEAR_BLOCKS
        program = self._program(operator, training_jit if is_dear else step_jit)
        chunk_size = self._points_at_once(len(x[0]))
        parts = []
        with self._precision():
            for chunk in zip(*(_chunks(a, chunk_size) for a in x), strict=True):
                parts.append(program(self._data, *chunk))

        def join(*leaves: Any) -> np.ndarray:
            arrays = [np.asarray(leaf, np.float64) for leaf in leaves]
            if self._blocks > 1:
                arrays = [array.sum(0) for array in arrays]
            return np.concatenate(arrays)[: len(x[0])]

        return jax.tree.map(join, *parts)


def _precision(is_double: bool) -> contextlib.AbstractContextManager:
    return enable_x64(True) if is_double else contextlib.nullcontext()


def _chunks(x: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Points in chunks of one size, in the working precision; the first point of the last chunk
    fills it up."""
    for start in range(0, len(x), size):
        chunk = x[start : start + size]
        full_chunk = np.concatenate([chunk, np.repeat(chunk[:1], size - len(chunk), 0)])
        yield np.asarray(full_chunk, jnp.result_type(float))


class Place(NamedTuple):
    """The place of coordinates relative to the free coordinates; empty for these themselves."""

    reference: Reference | None = None
    bend: Bend | None = None


Data = tuple[Array, PyTree, tuple[PyTree, ...], Place]
"""Scale of the likelihood, groups, other arguments of the density, and the place of the
coordinates."""


def _bind_operator(
    operator: Callable, model_ref: weakref.ref[FreeFunction], blocks: int
) -> Callable[..., Any]:
    """A program for values or derivatives at points; for several blocks it returns the parts of the
    blocks, to be summed."""

    def evaluate(data: Data, *x: Array) -> Any:
        model: Any = model_ref()
        scale, groups, given, place = data

        def log_p(z: Array) -> Array:
            x, volume = _to_free(model, place, z)
            log_prior = model.log_prior_at(x, *given) + volume
            return log_prior + scale * jnp.sum(model.log_liks_at(x, groups, *given))

        return jax.vmap(operator(log_p))(*x)

    def evaluate_blocks(data: Data, *x: Array) -> Any:
        model: Any = model_ref()
        scale, groups, given, place = data
        total = len(jax.tree.leaves(groups)[0])
        size = total // blocks

        def likelihood_part(block: PyTree) -> Any:
            def log_lik(z: Array) -> Array:
                x, _ = _to_free(model, place, z)
                return scale * jnp.sum(model.log_liks_at(x, block, *given))

            return jax.vmap(operator(log_lik))(*x)

        def log_prior(z: Array) -> Array:
            x, volume = _to_free(model, place, z)
            return model.log_prior_at(x, *given) + volume

        def block_part(i: Array) -> Any:
            slice_block = lambda a: jax.lax.dynamic_slice_in_dim(a, i * size, size)
            return likelihood_part(jax.tree.map(slice_block, groups))

        parts = jax.lax.map(block_part, jnp.arange(blocks))
        ends = [jax.vmap(operator(log_prior))(*x)]
        if total > blocks * size:
            remainder = jax.tree.map(lambda a: a[blocks * size :], groups)
            ends.append(likelihood_part(remainder))
        join = lambda part, *leaves: jnp.concatenate([part, jnp.stack(leaves)])
        return jax.tree.map(join, parts, *ends)

    return evaluate if blocks == 1 else evaluate_blocks


def _count_blocks(groups: int, rows: int) -> int:
    """The number of blocks: one that divides the groups if it can, so that no program for a
    remainder has to be compiled."""
    about = min(rows // BLOCK, groups)
    divisors = [n for n in range(about // 2 + 1, min(2 * about, groups + 1)) if groups % n == 0]
    return min(divisors, key=lambda n: abs(n - about), default=about)


def _itself(log_p: Callable) -> Callable:
    return log_p


def _product(log_p: Callable) -> Callable:
    """The function (z, v) -> Hessian at z times v."""
    return lambda z, v: jax.jvp(jax.grad(log_p), (z,), (v,))[1]


def _curvatures(log_p: Callable) -> Callable:
    """The function (z, vectors) -> Hessian at z times each vector; XLA computes what depends only
    on z once."""
    return lambda z, vectors: jax.vmap(lambda v: _product(log_p)(z, v))(vectors)


def _to_free(model: Any, place: Place, z: Array) -> tuple[Array, Any]:
    """Free coordinates, and the log volume of the map."""
    if place.reference is None and place.bend is None:
        return z, 0.0
    return model.to_free(*place, z)


def _bind_to_free(model_ref: weakref.ref[FreeFunction]) -> Callable[..., Any]:
    return lambda x, place: jax.vmap(lambda z: _to_free(model_ref(), place, z)[0])(x)


def _bind_less_laws(model_ref: weakref.ref[FreeFunction]) -> Callable[..., Any]:
    def evaluate(data: Data, z: Array, v: Array) -> Any:
        model: Any = model_ref()
        scale, groups, given, place = data

        def less_laws(z: Array) -> Array:
            point = model.hierarchy.to_free(place.reference, z)
            log_prior = model.log_prior_at(point.free, *given) + point.log_volume - point.log_law
            return log_prior + scale * jnp.sum(model.log_liks_at(point.free, groups, *given))

        return jax.vmap(lambda z, v: jax.jvp(jax.grad(less_laws), (z,), (v,)))(z, v)

    return evaluate


def _bind_coordinates(model_ref: weakref.ref[FreeFunction]) -> Callable[..., Any]:
    def evaluate(x: Array, place: Place) -> Array:
        model: Any = model_ref()
        return jax.vmap(lambda x: model.coordinates(*place, x))(x)

    return evaluate


def _bind_prior(model_ref: weakref.ref[FreeFunction]) -> Callable[..., Any]:
    def evaluate(x: Array, given: tuple[PyTree, ...], place: Place) -> Array:
        model: Any = model_ref()

        def log_prior(z: Array) -> Array:
            x, volume = _to_free(model, place, z)
            return model.prior_part_at(x, *given) + volume

        return jax.vmap(log_prior)(x)

    return evaluate
