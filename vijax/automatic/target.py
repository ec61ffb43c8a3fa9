"""A log density on the host: evaluated at many points, as arrays of float64, in programs of one shape."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PyTree

from vijax.checks import require
from vijax.contract.model import Model
from vijax.contract.variables import Variables
from vijax.fitting.loader import all_groups
from vijax.tree import on_device
from vijax.xla.compiler import kept, step_jit

AT_ONCE = 8
"""Points in one call: half as many as there are starts, so that these and all draws share a program."""


class OfFree(Protocol):
    """A function of free coordinates: a density, or the bound of an energy
    (`vijax.models.energies.free_part.GivenOthers`)."""

    @property
    def variables(self) -> Variables:
        """The variables of these coordinates."""

    @property
    def reads_data(self) -> bool:
        """False where there are no groups: then it is a prior alone."""

    def log_prior_at(self, x: Float[Array, " D"], *given: PyTree) -> Float[Array, ""]:
        """Returns the part that does not depend on groups."""

    def log_liks_at(self, x: Float[Array, " D"], data: PyTree, *given: PyTree) -> Float[Array, " groups"]:
        """Returns the terms of groups, whose sum counts."""


class Target:
    """log p of free coordinates; of some of the groups, their likelihood times `scale`; of a density that depends on
    more than its data, with that fixed (`given`).

    Attributes:
      dim: D.
      variables: the variables of these coordinates.
      groups: the data, groups leading.
      num_gradients: points at which a gradient was evaluated so far.
      epsilon: relative rounding of its values.
    """

    def __init__(self, model: OfFree, data: PyTree, scale: float = 1.0, given: tuple[PyTree, ...] = ()):
        self.dim, self.variables = model.variables.dim, model.variables
        self.num_gradients = 0
        self.epsilon = float(np.finfo(jnp.result_type(float)).eps)
        self.groups = jax.tree.map(on_device, data)
        self._model, self._given = model, given
        self._data = np.asarray(scale, jnp.result_type(float)), self.groups, given

    @classmethod
    def of(cls, model: Model, data: Any) -> Target:
        """Takes data as `vijax.fit` does, all in one batch without padding.

        Raises:
          ValueError: the model does not read such data.
        """
        return cls(model.log_density, all_groups(data, model))

    @property
    def num_groups(self) -> int:
        """N."""
        return int(np.shape(jax.tree.leaves(self.groups)[0])[0])

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
        values, slopes = self._over(_slopes, x)
        return values, slopes

    def values(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Returns values alone; NaN and +inf become -inf."""
        (values,) = self._over(_values, x)
        return np.where(values < np.inf, values, -np.inf)

    @property
    def has_prior(self) -> bool:
        """False where all terms are of groups, so that no part of the density is a prior."""
        return self._model.reads_data

    def log_priors(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, " points"]:
        """Returns the log prior: the part that does not depend on groups; of a density without groups all of it. NaN
        and +inf become -inf."""
        if not self.has_prior:
            return self.values(x)
        program = kept(self._model, _priors, lambda model: step_jit(_priors(model)))
        values = np.asarray(program(np.asarray(x, jnp.result_type(float)), self._given), np.float64)
        return np.where(values < np.inf, values, -np.inf)

    def hessians(self, x: Float[np.ndarray, "points D"]) -> Float[np.ndarray, "points D D"]:
        """Returns second derivatives."""
        (found,) = self._over(_hessians, x)
        return found

    def products(
        self, x: Float[np.ndarray, "points D"], v: Float[np.ndarray, "points D"]
    ) -> Float[np.ndarray, "points D"]:
        """Returns Hessians times vectors, each of which counts as two gradients."""
        self.num_gradients += 2 * len(x)
        (found,) = self._over(_products, x, v)
        return found

    def _over(self, ask: Callable, *x: np.ndarray) -> list[np.ndarray]:
        program = kept(self._model, ask, lambda model: step_jit(ask(model)))
        parts = []
        for start in range(0, len(x[0]), AT_ONCE):
            some = [a[start : start + AT_ONCE] for a in x]
            padded = [np.concatenate([a, np.repeat(a[:1], AT_ONCE - len(a), 0)]) for a in some]
            parts.append(program(*(np.asarray(a, jnp.result_type(float)) for a in padded), self._data))
        return [
            np.concatenate([np.asarray(part[i], np.float64) for part in parts])[: len(x[0])]
            for i in range(len(parts[0]))
        ]


def _slopes(of: weakref.ref[OfFree]) -> Callable[..., Any]:
    return lambda x, data: jax.vmap(jax.value_and_grad(lambda z: _total(of, z, data)))(x)


def _values(of: weakref.ref[OfFree]) -> Callable[..., Any]:
    return lambda x, data: (jax.vmap(lambda z: _total(of, z, data))(x),)


def _priors(of: weakref.ref[OfFree]) -> Callable[..., Any]:
    return lambda x, given: jax.vmap(lambda z: _model_of(of).log_prior_at(z, *given))(x)


def _hessians(of: weakref.ref[OfFree]) -> Callable[..., Any]:
    return lambda x, data: (jax.vmap(jax.hessian(lambda z: _total(of, z, data)))(x),)


def _products(of: weakref.ref[OfFree]) -> Callable[..., Any]:
    def product(z: Array, v: Array, data: PyTree) -> Array:
        return jax.jvp(jax.grad(lambda z: _total(of, z, data)), (z,), (v,))[1]

    return lambda x, v, data: (jax.vmap(product, (0, 0, None))(x, v, data),)


def _total(of: weakref.ref[OfFree], z: Array, rest: tuple[Array, PyTree, tuple[PyTree, ...]]) -> Float[Array, ""]:
    model, (scale, data, given) = _model_of(of), rest
    return model.log_prior_at(z, *given) + scale * jnp.sum(model.log_liks_at(z, data, *given))


def _model_of(of: weakref.ref[OfFree]) -> Any:
    return of()


# --- densities without gradients --------------------------------------------------------------------------------------
NOT_FINITE = (
    "jnp.where with a branch that is no number has none: make its argument safe first. sqrt and norms have none at 0."
)
NOT_DIFFERENTIABLE = "jnp.round, jnp.floor, integers and stop_gradient have none. vijax.bbvi needs none."


def check_slopes(target: Target, variables: Variables, starts: Float[np.ndarray, "starts D"]) -> None:
    """Raises ValueError where the density is finite at starts, but its gradient at none of them; or where the density
    depends on a variable in which its gradient is zero at all of them."""
    values, slopes = target.asked(starts)
    usable = np.isfinite(values)
    if not usable.any():
        return  # said elsewhere
    lacking = ~np.isfinite(slopes[usable])
    if lacking.any(1).all():
        names = variables.names_at(lacking.any(0))
        require(False, "log_density", "a finite gradient at any of the starts", f"none in {names}", NOT_FINITE)
    flat = usable.any() & (slopes[usable] == 0).all(0)
    moved = _depends(target, starts[usable], values[usable], flat)
    require(not moved.any(), "log_density", "a gradient", f"none in {variables.names_at(moved)}", NOT_DIFFERENTIABLE)


def _depends(target: Target, starts: np.ndarray, values: np.ndarray, flat: np.ndarray) -> Bool[np.ndarray, " D"]:
    """Returns those coordinates of a zero gradient on which the density depends all the same."""
    if not flat.any():
        return flat
    noise = np.random.default_rng(0).uniform(-2, 2, starts.shape)
    there = target.values(np.where(flat, noise, starts))
    known = np.isfinite(there)
    rounding = 100 * target.epsilon * np.maximum(np.abs(values), 1.0)
    return flat & bool((np.abs(there - values) > rounding)[known].any())
