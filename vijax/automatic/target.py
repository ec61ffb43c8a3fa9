"""A log density on the host: evaluated at many points, as arrays of float64, in programs of few shapes.

Many groups are evaluated block by block: a block and what is computed of it stay in the processor's cache. The sums of
the blocks are added on the host in float64, so that less is lost to rounding, too.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from vijax.contract.batch import rows_in
from vijax.contract.model import Model
from vijax.fitting.loader import all_groups
from vijax.models.energies.density import LogDensity
from vijax.models.energies.free_part import GivenOthers
from vijax.tree import on_device
from vijax.xla.compiler import kept, step_jit, training_jit

AT_ONCE = 8  # points in one call: half as many as there are starts, so that these and all draws share a program
MANY_ROWS, BLOCK = 50_000, 2048  # rows from which on groups are evaluated in blocks; and rows of a block, about
DEAR_BLOCKS = 100  # blocks from which on fusion emitters, which halve the time of gradients, are worth compiling


OfFree = LogDensity | GivenOthers
"""A function of free coordinates: a density, or the bound of an energy along its free variables."""


class Target:
    """log p of free coordinates. The likelihood of the groups counts `scale` times; `given` is all that the density
    reads beside its data."""

    def __init__(self, model: OfFree, data: PyTree, scale: float = 1.0, given: tuple[PyTree, ...] = ()):
        self.dim, self.variables = model.variables.dim, model.variables
        self.num_gradients = 0  # points at which a gradient was evaluated so far
        self.epsilon = float(np.finfo(jnp.result_type(float)).eps)  # relative rounding of values
        self.groups = jax.tree.map(on_device, data)  # the data, groups leading
        self._model, self._given = model, given
        self._data = np.asarray(scale, jnp.result_type(float)), self.groups, given
        self._blocks = _blocks_of(self.num_groups, self.num_rows) if self.num_rows >= MANY_ROWS else 1
        self.epsilon /= self._blocks**0.5  # their errors are independent

    @classmethod
    def of(cls, model: Model, data: Any) -> Target:
        """Takes data as `vijax.fit` does, all in one batch without padding. Raises ValueError: the model does not read
        such data."""
        return cls(model.log_density, all_groups(data, model))

    @property
    def num_groups(self) -> int:
        """The number of groups, N."""
        return int(np.shape(jax.tree.leaves(self.groups)[0])[0])

    @property
    def num_rows(self) -> int:
        """The number of rows of all groups; 1 of a density of all the data at once."""
        return rows_in(self.groups) if self._model.has_groups else self.num_groups

    def slopes(
        self, x: Float[np.ndarray, "points D"]
    ) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, "points D"]]:
        """Returns values and gradients. A value that is not finite becomes -inf, with a gradient of zero."""
        self.num_gradients += len(x)
        values, slopes = self.asked(x)
        bad = ~(np.isfinite(values) & np.isfinite(slopes).all(1))
        return np.where(bad, -np.inf, values), np.where(bad[:, None], 0.0, slopes)

    def asked(self, x: Float[np.ndarray, "points D"]) -> tuple[np.ndarray, np.ndarray]:
        """Returns values and gradients as they come, not counted."""
        return self._over(jax.value_and_grad, x)

    def values(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Returns values alone; NaN and +inf become -inf."""
        values = self._over(_itself, x)
        return np.where(values < np.inf, values, -np.inf)

    @property
    def has_prior(self) -> bool:
        """False where no part of the density is known to be a prior."""
        return self._model.reads_data or self._model.prior_part is not None

    def log_priors(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Returns the log prior: the part that does not depend on groups, all of it where no part is known. NaN and
        +inf become -inf."""
        if not self.has_prior:
            return self.values(x)
        program = kept(self._model, _priors, lambda model: step_jit(_priors(model)))
        values = np.asarray(program(np.asarray(x, jnp.result_type(float)), self._given), np.float64)
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

    def _over(self, ask: Callable, *x: np.ndarray) -> Any:
        """Returns values or derivatives of log p at all points, by a program that takes `AT_ONCE` of them."""
        blocks = self._blocks
        jitted = training_jit if ask is jax.value_and_grad and blocks >= DEAR_BLOCKS else step_jit
        program = kept(self._model, (ask, blocks), lambda model: jitted(_at_points(ask, model, blocks)))
        parts = []
        for start in range(0, len(x[0]), AT_ONCE):
            some = [a[start : start + AT_ONCE] for a in x]
            padded = [np.concatenate([a, np.repeat(a[:1], AT_ONCE - len(a), 0)]) for a in some]
            parts.append(program(self._data, *(np.asarray(a, jnp.result_type(float)) for a in padded)))
        summed = lambda a: np.asarray(a, np.float64).sum(0) if blocks > 1 else np.asarray(a, np.float64)
        joined = lambda *each: np.concatenate([summed(a) for a in each])[: len(x[0])]
        return jax.tree.map(joined, *parts)


Data = tuple[Array, PyTree, tuple[PyTree, ...]]
"""Scale of the likelihood, groups, and all that is given beside them."""


def _at_points(ask: Callable, of: weakref.ref[OfFree], blocks: int) -> Callable[..., Any]:
    """Returns a program for values or derivatives at points; of several blocks for the parts of them, to be summed."""

    def asked(data: Data, *x: Array) -> Any:
        model, (scale, groups, given) = _model_of(of), data
        log_p = lambda z: model.log_prior_at(z, *given) + scale * jnp.sum(model.log_liks_at(z, groups, *given))
        return jax.vmap(ask(log_p))(*x)

    def asked_in_blocks(data: Data, *x: Array) -> Any:
        model, (scale, groups, given) = _model_of(of), data
        total = len(jax.tree.leaves(groups)[0])
        size = total // blocks

        def of_some(some: PyTree) -> Any:
            return jax.vmap(ask(lambda z: scale * jnp.sum(model.log_liks_at(z, some, *given))))(*x)

        block = lambda i: jax.tree.map(lambda a: jax.lax.dynamic_slice_in_dim(a, i * size, size), groups)
        parts = jax.lax.map(lambda i: of_some(block(i)), jnp.arange(blocks))
        ends = [jax.vmap(ask(lambda z: model.log_prior_at(z, *given)))(*x)]
        if total > blocks * size:
            ends.append(of_some(jax.tree.map(lambda a: a[blocks * size :], groups)))
        return jax.tree.map(lambda part, *more: jnp.concatenate([part, jnp.stack(more)]), parts, *ends)

    return asked if blocks == 1 else asked_in_blocks


def _blocks_of(groups: int, rows: int) -> int:
    """The number of blocks. Where blocks of one length can hold all groups, no rest has to be compiled."""
    about = min(rows // BLOCK, groups)
    even = [n for n in range(about // 2 + 1, min(2 * about, groups + 1)) if groups % n == 0]
    return min(even, key=lambda n: abs(n - about), default=about)


def _itself(log_p: Callable) -> Callable:
    return log_p


def _product(log_p: Callable) -> Callable:
    return lambda z, v: jax.jvp(jax.grad(log_p), (z,), (v,))[1]


def _priors(of: weakref.ref[OfFree]) -> Callable[..., Any]:
    return lambda x, given: jax.vmap(lambda z: _model_of(of).prior_part_at(z, *given))(x)


def _model_of(of: weakref.ref[OfFree]) -> Any:
    return of()
