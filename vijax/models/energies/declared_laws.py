"""Laws declared by `vijax.free(..., loc=, scale=)`, sorted so that each reads only earlier
variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from vijax.checks import require, traceable
from vijax.contract.variables import DeclaredLaw, Free, Variables
from vijax.models.energies.coordinates import Hierarchy, Visit


class _Reads(Mapping[str, Any]):
    """Values by name; reading an unknown name raises `_NotYetError`."""

    def __init__(self, values: Mapping[str, Any]):
        self._values = values

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise _NotYetError(name)
        return self._values[name]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class _NotYetError(KeyError):
    """A law reads a variable that comes after it."""


def declared_hierarchy(variables: Variables) -> Hierarchy | None:
    """The hierarchy of variables with `vijax.free(..., loc=, scale=)`; None without such variables.

    Raises:
      ValueError: laws that depend on each other in a circle, or read an unknown name; shapes that
        do not fit.
    """
    leaves = variables.structure.unflatten(variables.leaves)
    laws = {
        name: leaf.law
        for name, leaf in leaves.items()
        if isinstance(leaf, Free) and leaf.law is not None
    }
    in_trees = [
        leaf
        for name in leaves
        if not isinstance(leaves[name], Free)
        for leaf in jax.tree.leaves(leaves[name])
    ]
    remedy = "Give it a name of its own."
    require(
        all(leaf.law is None for leaf in in_trees),
        "loc, scale",
        "none inside a tree of variables",
        "some",
        remedy,
    )
    if not laws:
        return None
    order, levels = _sort_by_level(variables, leaves, laws)

    def walk(visit: Visit) -> None:
        values: dict[str, Any] = {}
        for name in leaves:
            if name not in laws and isinstance(leaves[name], Free):
                values[name] = visit(name, None)
        for name in order:
            values[name] = visit(name, laws[name].evaluate(values))

    return Hierarchy(variables, walk, levels)


def _sort_by_level(
    variables: Variables, leaves: Mapping[str, Any], laws: Mapping[str, DeclaredLaw]
) -> tuple[list[str], tuple[tuple[str, ...], ...]]:
    """The variables with a law, each after those that it depends on; and their levels."""
    shapes = jax.eval_shape(
        lambda x: variables.values(x)[0], jax.ShapeDtypeStruct((variables.dim,), jnp.float32)
    )
    shapes_of_sorted = {name: shapes[name] for name in leaves if name not in laws}
    levels: list[tuple[str, ...]] = []
    while len(shapes_of_sorted) < len(leaves):
        level = tuple(
            name
            for name in laws
            if name not in shapes_of_sorted
            and _is_ready(name, laws[name], shapes_of_sorted, leaves)
        )
        waiting = [name for name in laws if name not in shapes_of_sorted]
        remedy = "Let one of them depend on others alone."
        require(
            bool(level),
            "loc, scale",
            "laws that do not depend on each other in a circle",
            waiting,
            remedy,
        )
        shapes_of_sorted |= {name: shapes[name] for name in level}
        levels.append(level)
    return [name for level in levels for name in level], tuple(levels)


def _is_ready(
    name: str, declared_law: DeclaredLaw, known: Mapping[str, Any], leaves: Mapping[str, Any]
) -> bool:
    """True if all variables that a law reads are known; ValueError if it reads an unknown name or
    has a wrong shape."""
    argument = f"loc, scale of {name!r}"
    try:
        with traceable(argument):
            law = jax.eval_shape(lambda values: declared_law.evaluate(_Reads(values)), dict(known))
    except _NotYetError as error:
        (unknown,) = error.args
        is_other = unknown in leaves and unknown != name
        require(
            is_other,
            argument,
            f"functions of the other variables, {[n for n in leaves if n != name]}",
            unknown,
        )
        return False
    shape = leaves[name].free_shape
    _check_shape(argument, "loc", jnp.shape(law.loc), shape)
    of_scale = jnp.shape(law.scale)
    if len(of_scale) == len(shape) + 1:
        is_square = of_scale[-1] == of_scale[-2] == shape[-1]
        require(
            is_square, argument, f"a factor of shape {(*shape, shape[-1])}", f"one of {of_scale}"
        )
    else:
        _check_shape(argument, "scale", of_scale, shape)
    return True


def _check_shape(
    argument: str, part: str, found_shape: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    fits = len(found_shape) <= len(shape) and all(
        n in (1, m) for n, m in zip(found_shape[::-1], shape[::-1], strict=False)
    )
    require(
        fits,
        argument,
        f"a {part} that broadcasts to the coordinates, {shape}",
        f"one of shape {found_shape}",
    )
