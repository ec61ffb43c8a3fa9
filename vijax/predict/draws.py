"""Draws from what was fitted."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import PRNGKeyArray, PyTree

from vijax.contract.model import Hyper, Model
from vijax.families import Family, Product
from vijax.inference.spec import Spec
from vijax.xla.compiler import kept, quick_jit


def of_globals(spec: Spec, hyper: Hyper, posterior: Product, key: PRNGKeyArray, num_draws: int) -> dict[str, Any]:
    """Values of the globals by name, draws leading; of points the same value each time."""
    points = tuple(name for name in posterior if spec.is_point(name))
    program = kept(spec.model, "draws", lambda model: quick_jit(_bind(model), static_argnums=(0, 1)))
    return program(points, num_draws, hyper, posterior, key)


def _bind(of: weakref.ref[Model]) -> Callable[..., Any]:
    def draw(
        points: tuple[str, ...], num_draws: int, hyper: Hyper, posterior: Product, key: PRNGKeyArray
    ) -> dict[str, Any]:
        model: Any = of()
        keys = dict(zip(posterior, jax.random.split(key, len(posterior)), strict=True))
        repeated = lambda x: jnp.broadcast_to(x, (num_draws, *jnp.shape(x)))
        one = lambda name, q: jax.tree.map(repeated, q.mode()) if name in points else q.sample(keys[name], (num_draws,))
        drawn = {name: one(name, q) for name, q in posterior.items()}
        return drawn if model.values is None else model.values(hyper, drawn)

    return draw


def of_locals(factors: PyTree, key: PRNGKeyArray, num_draws: int) -> dict[str, Any]:
    """Values of each local by name: draws leading, then groups.

    Raises:
      ValueError: they are no families by name.
    """
    named = isinstance(factors, dict) and all(isinstance(q, Family) for q in factors.values())
    if not named:
        raise ValueError(
            "locals_of: expected a model whose locals are families by name (vijax.energy_model, and the ready models "
            "made by it), got one whose locals are arrays of its own. See fit.locals(data, key=key)."
        )
    keys = dict(zip(factors, jax.random.split(key, len(factors)), strict=True))
    return {name: q.sample(keys[name], (num_draws,)) for name, q in factors.items()}
