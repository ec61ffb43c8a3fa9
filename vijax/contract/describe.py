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
    """The globals and hyperparameters of a model, one a line."""
    documents = model.form.documents
    kind = "Model"
    if documents is not None:
        kind = f"Model of documents over {documents.vocab_size} words"
    prior = jax.eval_shape(model.prior, dict(model.hyper))
    return _block(kind, _variables(prior), _hyper(model.hyper))


def algorithm_text(alg: Any) -> str:
    """The name, the settings and the model of an algorithm."""
    wrappers = [f"  in {setting(wrapper)}" for wrapper in alg.wrappers]
    return "\n".join([f"Algorithm: {alg.spec.name}", *wrappers, spec_text(alg.spec)])


def spec_text(spec: Any) -> str:
    """The settings that are on, and the model."""
    is_off = lambda value: value is None or value is False or value == ()
    settings = [
        f"{name}={setting(value)}"
        for name, value in spec._asdict().items()
        if name not in ("model", "name") and not is_off(value)
    ]
    model = [f"  {line}" for line in repr(spec.model).splitlines()]
    return "\n".join([*_wrap(settings), *model])


def fit_text(fit: Any) -> str:
    """The algorithm, the outcome, and the globals of a fit."""
    elbo = fit.trace.get("elbo", ())
    end = f"; objective {float(elbo[-1]):.6g} at the last" if len(elbo) else ""
    wrappers = [f", {wrapper.name}" for wrapper in fit.alg.wrappers if wrapper.stores_globals]
    outcome = getattr(fit, "outcome", fit.status)
    head = f"Fit by {fit.alg.spec.name}{''.join(wrappers)}: {outcome}"
    members = ""
    if fit.runs is not None:
        number = len(fit.runs.recent)
        members = f"the best of {number} runs, over which score and transform average"
    lines = [f"{int(fit.state.step)} steps{end}", members, getattr(fit, "data_place", "")]
    return _block(
        head,
        filter(None, lines),
        _verdict(fit),
        _variables(fit.posterior),
        _hyper(fit.state.hyper),
    )


def _verdict(fit: Any) -> list[str]:
    """The verdict, if it is known or quickly computed; else the way to get it."""
    if fit.report is not None or (fit.judge is not None and fit.judge.is_quick(fit)):
        return textwrap.wrap(f"verdict: {fit.verdict}", LONGEST, subsequent_indent="  ")
    return [] if fit.judge is None else ["verdict: not judged yet; fit.verdict does"]


def setting(value: Any) -> str:
    """The text of a setting, without addresses. A function is written as its maker, with the
    numbers of the call.

    >>> from vijax.inference.step_size import robbins_monro
    >>> setting(robbins_monro(kappa=0.6))
    'robbins_monro(scale=1.0, offset=1.0, kappa=0.6)'
    """
    if inspect.isfunction(value):
        return _function_text(value)
    if isinstance(value, PerVariable):
        choices = [f"{name}: {setting(choice)}" for name, choice in value.named]
        return ", ".join([setting(value.default), *choices])
    is_instance = dataclasses.is_dataclass(value) and not isinstance(value, type)
    if is_instance and type(value).__dataclass_params__.repr:  # type: ignore[attr-defined]
        names = [field.name for field in dataclasses.fields(value)]
        fields = [f"{name}={setting(getattr(value, name))}" for name in names]
        return f"{type(value).__name__}({', '.join(fields)})"
    if hasattr(value, "_fields") and isinstance(value, tuple):  # an optimiser of optax
        return type(value).__name__
    if isinstance(value, tuple):
        return f"({', '.join(map(setting, value))})"
    text = str(value) if np.ndim(value) == 0 else f"shape {np.shape(value)}"
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def _function_text(function: Any) -> str:
    """The maker of a function, with the numbers that the function reads."""
    maker = function.__qualname__.partition(".<locals>")[0]
    variables = sorted(inspect.getclosurevars(function).nonlocals.items())
    numbers = [f"{name}={x}" for name, x in variables if isinstance(x, int | float)]
    return f"{maker}({', '.join(numbers)})" if numbers else maker


def _variables(globals_: Any) -> list[str]:
    """A line for each global: its family, batch shape and number of parameters."""
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
    """A point as text: the value of a scalar, the shape of an array, the size of a tree of
    arrays."""
    leaves = jax.tree.leaves(x)
    if len(leaves) != 1 or leaves[0] is not x:
        return f"{name} of {sum(int(np.size(leaf)) for leaf in leaves):,} numbers"
    return f"{name}={float(x):.6g}" if np.ndim(x) == 0 else f"{name} of shape {np.shape(x)}"


def _block(head: str, *parts: Iterable[str]) -> str:
    return "\n".join([head, *(f"  {line}" for part in parts for line in part)])


def _wrap(parts: Iterable[str]) -> list[str]:
    """The parts with commas between, in lines of bounded length."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 2 <= LONGEST:
            lines[-1] += f", {part}"
        else:
            lines.append(f"  {part}")
    return lines
