"""The numbers of a density for its verdict, at free coordinates, as in `fit.summary`: those of
variables whose names do not begin with "_", and derived ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from vijax.models.energies.density import LogDensity
from vijax.xla.compiler import cached_program, quick_jit

BLOCK = 512
"""Points of one call, so that any number of points shares a program."""
MOST = 1024
"""Most derived numbers of a point; larger leaves are left out."""
LEAST = 1e3
"""Least variation of a derived number, in units of rounding: it is computed in the precision of the
density."""


def shown_numbers(
    density: LogDensity, x: Float[np.ndarray, "points D"]
) -> tuple[list[str], Float[np.ndarray, "points M"]]:
    """The names and the numbers of visible variables and of derived values; the numbers of all
    variables if no derived value varies by more than rounding."""
    leaves = _small_leaves(density)
    if not leaves:
        return density.variables.numbers(x)
    derived_names = [
        f"{name}[{', '.join(map(str, i))}]" if i else name
        for name, shape in leaves
        for i in np.ndindex(shape)
    ]
    numbers = _derived_numbers(density, {name for name, _ in leaves}, x)
    with np.errstate(invalid="ignore", over="ignore"):
        rounding = LEAST * np.finfo(jnp.result_type(float)).eps * np.abs(numbers.mean(0))
        varies = ~(numbers.std(0) <= rounding)
    derived_names = [name for name, keep in zip(derived_names, varies, strict=True) if keep]
    numbers = numbers[:, varies]
    if all(name.startswith("_") for name in density.variables.names):
        if derived_names:
            return derived_names, numbers
        return density.variables.numbers(x)
    variable_names, values = density.variables.numbers(x)
    is_visible = np.array([not name.startswith("_") for name in variable_names])
    names = [name for name, keep in zip(variable_names, is_visible, strict=True) if keep]
    return names + derived_names, np.c_[values[:, is_visible], numbers]


def _derived_numbers(
    density: LogDensity, names: set[str], x: Float[np.ndarray, "points D"]
) -> Float[np.ndarray, "points M"]:
    """The numbers of these derived leaves, in blocks of points."""
    program = cached_program(density, "derived", lambda of: quick_jit(_derived_program(of, names)))
    padded = np.concatenate([x, np.broadcast_to(x[:1], (-len(x) % BLOCK, x.shape[1]))])
    dtype = jnp.result_type(float)
    blocks = [padded[i : i + BLOCK].astype(dtype) for i in range(0, len(padded), BLOCK)]
    parts = [np.asarray(program(block)) for block in blocks]
    return np.concatenate(parts)[: len(x)].astype(np.float64)


def _small_leaves(density: LogDensity) -> list[tuple[str, tuple[int, ...]]]:
    """The derived leaves that are not too large, with their shapes."""
    derived = density.derived
    if derived is None:
        return []
    x = jax.ShapeDtypeStruct((density.variables.dim,), jnp.result_type(float))
    leaves, total = [], 0
    for name, leaf in _leaves_by_path(jax.eval_shape(lambda x: derived(density.values_at(x)), x)):
        if total + leaf.size <= MOST:
            leaves.append((name, leaf.shape))
            total += leaf.size
    return leaves


def _derived_program(of: Callable[[], Any], names: set[str]) -> Callable[..., Any]:
    """A program from points to their derived numbers, (points, M)."""

    def numbers(x: Any) -> Any:
        leaves = _leaves_by_path(of().derived(of().values_at(x)))
        return jnp.concatenate(
            [jnp.ravel(leaf).astype(x.dtype) for name, leaf in leaves if name in names]
        )

    return jax.vmap(numbers)


def _leaves_by_path(values: PyTree) -> list[tuple[str, Any]]:
    paths, _ = jax.tree_util.tree_flatten_with_path(dict(values))
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in paths]
