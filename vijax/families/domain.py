"""Checks that a family that was passed in is a density: its raw constructor takes natural parameters unchecked."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from vijax import tree
from vijax.checks import brief
from vijax.families.base import Family, as_float
from vijax.xla.compiler import quick_jit


def require_proper(argument: str, q: Any) -> None:
    """Raises ValueError unless the natural parameters of a family are arrays inside their domain; traced values pass,
    and so does what is no `Family`. In a mapping of families each is checked.

    >>> from vijax.families import Normal
    >>> require_proper("prior", Normal(0.0, 1.0))
    Traceback (most recent call last):
    ...
    ValueError: prior: expected natural parameters inside their domain, got Normal(0.0, 1.0). Did you mean \
Normal.from_mean_variance(0.0, 1.0)? A family called by its bare name takes natural parameters.
    """
    if isinstance(q, Mapping):
        for name, factor in q.items():
            require_proper(f"{argument}[{name!r}]", factor)
        return
    if not isinstance(q, Family) or any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(q)):
        return
    arrays = all(isinstance(value, _NUMERIC) for value in _values(q, static=False))
    if arrays and _is_inside(q):
        return
    expected = "natural parameters inside their domain" if arrays else "natural parameters that are arrays"
    raise ValueError(
        f"{argument}: expected {expected}, got {_shown(q)}. Did you mean {_meant(q)}? "
        "A family called by its bare name takes natural parameters."
    )


_NUMERIC = (jax.Array, np.ndarray, np.generic, int, float)


def _is_inside(q: Family) -> bool:
    # A prior of constants may be made inside a trace too.
    return bool(_is_proper_jitted(tree.apply(as_float, q)))


def is_proper(q: Family) -> Bool[Array, ""]:
    """True where all natural parameters of a family are in their domain."""
    return jnp.all(jnp.array([jnp.all(mask) for mask in tree.parameters(q.in_domain())]))


_is_proper_jitted = quick_jit(is_proper)


def _values(q: Family, static: bool) -> list[Any]:
    """The values of a family's fields that are no context, static ones too where asked for."""
    own = [field for field in dataclasses.fields(q) if not field.metadata.get("context")]  # type: ignore[arg-type]
    return [getattr(q, field.name) for field in own if static or not field.metadata.get("static")]


def _meant(q: Family) -> str:
    """Constructors that take as many parameters as were given; all of them where none does."""
    found = inspect.getmembers(type(q), inspect.ismethod)
    makers = [name for name, method in found if name.startswith("from_") and name in vars(type(q))]
    makers.sort(key=list(vars(type(q))).index)
    values = [brief(value) for value in _values(q, static=True)]
    fitting = {name: list(inspect.signature(getattr(type(q), name)).parameters) for name in makers}
    same = {name: names for name, names in fitting.items() if len(names) == len(values)} or fitting
    calls = []
    for name, names in same.items():
        short = len(names) == len(values) and all(len(value) <= 30 for value in values)
        calls.append(f"{type(q).__name__}.{name}({', '.join(values if short else names)})")
    return " or ".join(calls)


def _shown(q: Family) -> str:
    return f"{type(q).__name__}({', '.join(map(brief, _values(q, static=True)))})"
