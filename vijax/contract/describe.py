"""What `repr` says of models, algorithms and fits: names, sizes and settings, in a few lines."""

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


def of_model(model: Any) -> str:
    """Its globals and hyperparameters, one a line."""
    words = model.form.documents
    kind = "Model" if words is None else f"Model of documents over {words.vocab_size} words"
    return _block(kind, [*_variables(jax.eval_shape(model.prior, dict(model.hyper))), *_hyper(model.hyper)])


def of_algorithm(alg: Any) -> str:
    """Its name, its settings, and its model."""
    around = [f"  in {setting(wrapper)}" for wrapper in alg.wrappers]
    return "\n".join([f"Algorithm: {_name(alg.spec)}", *around, of_spec(alg.spec)])


def of_spec(spec: Any) -> str:
    """The settings, those that are off left out, and the model."""
    given = {name: value for name, value in spec._asdict().items() if name not in ("model", "name")}
    on = {name: value for name, value in given.items() if not (value is None or value is False or value == ())}
    settings = _wrapped([f"{name}={setting(value)}" for name, value in on.items()])
    return "\n".join([*settings, *(f"  {line}" for line in repr(spec.model).splitlines())])


def of_fit(fit: Any) -> str:
    """How it ended, what was found, and by which algorithm."""
    elbo = fit.trace.get("elbo", ())
    end = f"; objective {float(elbo[-1]):.6g} at the last" if len(elbo) else ""
    around = "".join(f", {wrapper.name}" for wrapper in fit.alg.wrappers if wrapper.stores_globals)
    how = f"Fit by {_name(fit.alg.spec)}{around}: {getattr(fit, 'outcome', fit.status)}"
    done = f"{int(fit.state.step)} steps{end}"
    return _block(how, [done, *_verdict(fit), *_variables(fit.posterior), *_hyper(fit.state.hyper)])


def _verdict(fit: Any) -> list[str]:
    """Of what brings a verdict, or is judged quickly; of large data how to have it."""
    if fit.report is not None or (fit.judge is not None and fit.judge.is_quick(fit)):
        return _lines(f"verdict: {fit.verdict}")
    return [] if fit.judge is None else ["verdict: not judged yet; fit.verdict does"]


def setting(value: Any) -> str:
    """A setting, without addresses: a function by its maker and the numbers it was made with.

    >>> from vijax.inference.step_size import robbins_monro
    >>> setting(robbins_monro(kappa=0.6))
    'robbins_monro(scale=1.0, offset=1.0, kappa=0.6)'
    """
    if inspect.isfunction(value):
        maker = value.__qualname__.partition(".<locals>")[0]
        numbers = {name: x for name, x in inspect.getclosurevars(value).nonlocals.items() if isinstance(x, int | float)}
        return f"{maker}({', '.join(f'{name}={x}' for name, x in sorted(numbers.items()))})" if numbers else maker
    if isinstance(value, PerVariable):
        named = [f"{name}: {setting(choice)}" for name, choice in value.named]
        return ", ".join([setting(value.default), *named])
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and _prints_fields(value):
        given = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(f'{name}={setting(x)}' for name, x in given)})"
    if isinstance(value, tuple):  # one with names is an optimiser of optax
        return type(value).__name__ if hasattr(value, "_fields") else f"({', '.join(map(setting, value))})"
    return re.sub(r" at 0x[0-9a-f]+", "", str(value) if np.ndim(value) == 0 else f"shape {np.shape(value)}")


def _prints_fields(value: Any) -> bool:
    """Whether a dataclass has no `repr` of its own."""
    return bool(type(value).__dataclass_params__.repr)


def _name(spec: Any) -> str:
    """What the literature calls it."""
    return spec.name


def _variables(globals_: Any) -> list[str]:
    """A line for each global: family, batch shape, how many numbers."""
    lines = []
    for name, q in globals_.items():
        numbers = sum(int(np.prod(np.shape(leaf))) for leaf in tree.parameters(q))
        batch = f", batch shape {q.batch_shape}" if q.batch_shape else ""
        lines.append(f"{name}: {type(q).__name__}{batch}, {numbers:,} numbers")
    return lines


def _hyper(hyper: Mapping[str, Any]) -> list[str]:
    """One line of hyperparameters: a scalar's value, an array's shape."""
    values = [_point(name, x) for name, x in hyper.items()]
    return [f"hyperparameters: {', '.join(values)}"] if values else []


def _point(name: str, x: Any) -> str:
    """A scalar's value, an array's shape, how many numbers a tree of them holds."""
    leaves = jax.tree.leaves(x)
    if len(leaves) != 1 or leaves[0] is not x:
        return f"{name} of {sum(int(np.size(leaf)) for leaf in leaves):,} numbers"
    return f"{name}={float(x):.6g}" if np.ndim(x) == 0 else f"{name} of shape {np.shape(x)}"


def _block(head: str, lines: Iterable[str]) -> str:
    return "\n".join([head, *(f"  {line}" for line in lines)])


def _lines(text: str) -> list[str]:
    """Of bounded length, all but the first set in."""
    return textwrap.wrap(text, LONGEST, subsequent_indent="  ")


def _wrapped(parts: Iterable[str]) -> list[str]:
    """Comma-separated, in lines of bounded length."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 2 <= LONGEST:
            lines[-1] += f", {part}"
        else:
            lines.append(f"  {part}")
    return lines
