"""Laws that are declared, `vijax.free(..., loc=, scale=)`: the order in which they are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from vijax.checks import require, traceable
from vijax.contract.variables import DeclaredLaw, Free, Variables
from vijax.models.energies.coordinates import Hierarchy, Visit


class _Reads(Mapping[str, Any]):
    """Values by name that remembers which were asked for and are not known yet."""

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
    """The hierarchy of variables with `vijax.free(..., loc=, scale=)`; None where there are none.

    Raises:
      ValueError: laws that depend on each other in a circle, or read a name that is no variable;
        shapes that do not fit.
    """
    leaves = variables.structure.unflatten(variables.leaves)
    named = {
        name: leaf.law
        for name, leaf in leaves.items()
        if isinstance(leaf, Free) and leaf.law is not None
    }
    inside = [
        leaf
        for name in leaves
        if not isinstance(leaves[name], Free)
        for leaf in jax.tree.leaves(leaves[name])
    ]
    remedy = "Give it a name of its own."
    require(
        all(leaf.law is None for leaf in inside),
        "loc, scale",
        "none inside a tree of variables",
        "some",
        remedy,
    )
    if not named:
        return None
    order, levels = _sort_by_level(variables, leaves, named)

    def walk(visit: Visit) -> None:
        values: dict[str, Any] = {}
        for name in leaves:
            if name not in named and isinstance(leaves[name], Free):
                values[name] = visit(name, None)
        for name in order:
            values[name] = visit(name, named[name].evaluate(values))

    return Hierarchy(variables, walk, levels)


def _sort_by_level(
    variables: Variables, leaves: Mapping[str, Any], named: Mapping[str, DeclaredLaw]
) -> tuple[list[str], tuple[tuple[str, ...], ...]]:
    """The variables with a law, those that others depend on first; and their levels."""
    shapes = jax.eval_shape(
        lambda x: variables.values(x)[0], jax.ShapeDtypeStruct((variables.dim,), jnp.float32)
    )
    known = {name: shapes[name] for name in leaves if name not in named}
    levels: list[tuple[str, ...]] = []
    while len(known) < len(leaves):
        level = tuple(
            name
            for name in named
            if name not in known and _is_ready(name, named[name], known, leaves)
        )
        waiting = [name for name in named if name not in known]
        remedy = "Let one of them depend on others alone."
        require(
            bool(level),
            "loc, scale",
            "laws that do not depend on each other in a circle",
            waiting,
            remedy,
        )
        known |= {name: shapes[name] for name in level}
        levels.append(level)
    return [name for level in levels for name in level], tuple(levels)


def _is_ready(
    name: str, own: DeclaredLaw, known: Mapping[str, Any], leaves: Mapping[str, Any]
) -> bool:
    """Tells whether all that a law reads is known; ValueError where it reads what is no variable,
    or does not fit."""
    argument = f"loc, scale of {name!r}"
    try:
        with traceable(argument):
            law = jax.eval_shape(lambda values: own.evaluate(_Reads(values)), dict(known))
    except _NotYetError as error:
        (other,) = error.args
        is_other = other in leaves and other != name
        require(
            is_other,
            argument,
            f"functions of the other variables, {[n for n in leaves if n != name]}",
            other,
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


def _check_shape(argument: str, part: str, got: tuple[int, ...], shape: tuple[int, ...]) -> None:
    fits = len(got) <= len(shape) and all(
        n in (1, m) for n, m in zip(got[::-1], shape[::-1], strict=False)
    )
    require(
        fits,
        argument,
        f"a {part} that broadcasts to the coordinates, {shape}",
        f"one of shape {got}",
    )
