"""The text of `repr` for models, algorithms and fits: names, sizes and settings, in a few lines."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from vijax import tree
from vijax.contract.per_variable import PerVariable

LONGEST = 120


def model_text(model: Any) -> str:
    """Its globals and hyperparameters, one a line."""
    words = model.form.documents
    kind = "Model" if words is None else f"Model of documents over {words.vocab_size} words"
    return _block(
        kind, _variables(jax.eval_shape(model.prior, dict(model.hyper))), _hyper(model.hyper)
    )


def algorithm_text(alg: Any) -> str:
    """Its name, its settings, and its model."""
    around = [f"  in {setting(wrapper)}" for wrapper in alg.wrappers]
    return "\n".join([f"Algorithm: {alg.spec.name}", *around, spec_text(alg.spec)])


def spec_text(spec: Any) -> str:
    """The settings that are on, and the model."""
    given = {name: value for name, value in spec._asdict().items() if name not in ("model", "name")}
    on = {
        name: value
        for name, value in given.items()
        if not (value is None or value is False or value == ())
    }
    settings = _wrapped([f"{name}={setting(value)}" for name, value in on.items()])
    return "\n".join([*settings, *(f"  {line}" for line in repr(spec.model).splitlines())])


def fit_text(fit: Any) -> str:
    """The algorithm, the outcome, and the globals that were found."""
    elbo = fit.trace.get("elbo", ())
    end = f"; objective {float(elbo[-1]):.6g} at the last" if len(elbo) else ""
    around = "".join(f", {wrapper.name}" for wrapper in fit.alg.wrappers if wrapper.stores_globals)
    how = f"Fit by {fit.alg.spec.name}{around}: {getattr(fit, 'outcome', fit.status)}"
    done = f"{int(fit.state.step)} steps{end}"
    return _block(how, [done], _verdict(fit), _variables(fit.posterior), _hyper(fit.state.hyper))


def _verdict(fit: Any) -> list[str]:
    """The verdict, if it is known or quick to have; else the way to have it."""
    if fit.report is not None or (fit.judge is not None and fit.judge.is_quick(fit)):
        return textwrap.wrap(f"verdict: {fit.verdict}", LONGEST, subsequent_indent="  ")
    return [] if fit.judge is None else ["verdict: not judged yet; fit.verdict does"]


def setting(value: Any) -> str:
    """The text of a setting, without addresses: a function by its maker and the numbers that it was
    made with.

    >>> from vijax.inference.step_size import robbins_monro
    >>> setting(robbins_monro(kappa=0.6))
    'robbins_monro(scale=1.0, offset=1.0, kappa=0.6)'
    """
    if inspect.isfunction(value):
        maker = value.__qualname__.partition(".<locals>")[0]
        known = sorted(inspect.getclosurevars(value).nonlocals.items())
        numbers = [f"{name}={x}" for name, x in known if isinstance(x, int | float)]
        return f"{maker}({', '.join(numbers)})" if numbers else maker
    if isinstance(value, PerVariable):
        named = [f"{name}: {setting(choice)}" for name, choice in value.named]
        return ", ".join([setting(value.default), *named])
    is_instance = dataclasses.is_dataclass(value) and not isinstance(value, type)
    if is_instance and type(value).__dataclass_params__.repr:  # type: ignore[attr-defined]
        given = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(f'{name}={setting(x)}' for name, x in given)})"
    if isinstance(value, tuple):  # one with names is an optimiser of optax
        return (
            type(value).__name__
            if hasattr(value, "_fields")
            else f"({', '.join(map(setting, value))})"
        )
    return re.sub(
        r" at 0x[0-9a-f]+", "", str(value) if np.ndim(value) == 0 else f"shape {np.shape(value)}"
    )


def _variables(globals_: Any) -> list[str]:
    """A line for each global: family, batch shape, and the count of its numbers."""
    lines = []
    for name, q in globals_.items():
        numbers = sum(int(np.prod(np.shape(leaf))) for leaf in tree.parameters(q))
        batch = f", batch shape {q.batch_shape}" if q.batch_shape else ""
        lines.append(f"{name}: {type(q).__name__}{batch}, {numbers:,} numbers")
    return lines


def _hyper(hyper: Mapping[str, Any]) -> list[str]:
    values = [_point(name, x) for name, x in hyper.items()]
    return [f"hyperparameters: {', '.join(values)}"] if values else []


def _point(name: str, x: Any) -> str:
    """The value of a scalar, the shape of an array, the count of the numbers in a tree of
    arrays."""
    leaves = jax.tree.leaves(x)
    if len(leaves) != 1 or leaves[0] is not x:
        return f"{name} of {sum(int(np.size(leaf)) for leaf in leaves):,} numbers"
    return f"{name}={float(x):.6g}" if np.ndim(x) == 0 else f"{name} of shape {np.shape(x)}"


def _block(head: str, *parts: Iterable[str]) -> str:
    return "\n".join([head, *(f"  {line}" for part in parts for line in part)])


def _wrapped(parts: Iterable[str]) -> list[str]:
    """The parts with commas between, in lines of bounded length."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 2 <= LONGEST:
            lines[-1] += f", {part}"
        else:
            lines.append(f"  {part}")
    return lines
