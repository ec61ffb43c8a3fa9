"""The numbers of a density that its verdict speaks of, at free coordinates, as in `fit.summary`:
those of its variables whose names do not begin with "_", and those that it derives from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from vijax.models.energies.density import LogDensity
from vijax.xla.compiler import cached_program, quick_jit

BLOCK = 512  # points of one call, so that any number of them shares a program
MOST = 1024  # derived numbers of a point, at most; what is larger is left out
# units of rounding that a derived number varies by, at least: it is computed in the density's
# precision
LEAST = 1e3


def shown_numbers(
    density: LogDensity, x: Float[np.ndarray, "points D"]
) -> tuple[list[str], Float[np.ndarray, "points M"]]:
    """The numbers by name: those of all variables where nothing is derived that can be told apart
    from rounding."""
    chosen = _small_leaves(density)
    if not chosen:
        return density.variables.numbers(x)
    names = [
        f"{name}[{', '.join(map(str, i))}]" if i else name
        for name, shape in chosen
        for i in np.ndindex(shape)
    ]
    wanted = {name for name, _ in chosen}
    program = cached_program(density, "derived", lambda of: quick_jit(_derived_program(of, wanted)))
    padded = np.concatenate([x, np.broadcast_to(x[:1], (-len(x) % BLOCK, x.shape[1]))])
    dtype = jnp.result_type(float)
    parts = [
        np.asarray(program(padded[i : i + BLOCK].astype(dtype)))
        for i in range(0, len(padded), BLOCK)
    ]
    found = np.concatenate(parts)[: len(x)].astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        told = ~(found.std(0) <= LEAST * np.finfo(dtype).eps * np.abs(found.mean(0)))
    names, found = (
        [name for name, is_told in zip(names, told, strict=True) if is_told],
        found[:, told],
    )
    if all(name.startswith("_") for name in density.variables.names):
        return (names, found) if names else density.variables.numbers(x)
    own, values = density.variables.numbers(x)
    seen = np.array([not name.startswith("_") for name in own])
    return [name for name, is_seen in zip(own, seen, strict=True) if is_seen] + names, np.c_[
        values[:, seen], found
    ]


def _small_leaves(density: LogDensity) -> list[tuple[str, tuple[int, ...]]]:
    """The derived leaves that are not too large, with their shapes."""
    derived = density.derived
    if derived is None:
        return []
    x = jax.ShapeDtypeStruct((density.variables.dim,), jnp.result_type(float))
    chosen, total = [], 0
    for name, leaf in _leaves_by_path(jax.eval_shape(lambda x: derived(density.values_at(x)), x)):
        if total + leaf.size <= MOST:
            chosen.append((name, leaf.shape))
            total += leaf.size
    return chosen


def _derived_program(of: Callable[[], Any], wanted: set[str]) -> Callable[..., Any]:
    """Returns a program from points to their derived numbers, (points, M)."""

    def at(x: Any) -> Any:
        found = _leaves_by_path(of().derived(of().values_at(x)))
        return jnp.concatenate(
            [jnp.ravel(leaf).astype(x.dtype) for name, leaf in found if name in wanted]
        )

    return jax.vmap(at)


def _leaves_by_path(values: PyTree) -> list[tuple[str, Any]]:
    paths, _ = jax.tree_util.tree_flatten_with_path(dict(values))
    return [(jax.tree_util.keystr(path, simple=True, separator="."), leaf) for path, leaf in paths]
