"""One model for equal programs: a loop or a notebook that converts the same model of another
library again compiles nothing again.

Programs are compiled for a model, and other libraries give new functions at every call. Two of them
are equal if they compute the same: their programs are compared, with derivatives and data. A
function that reads a variable which has changed meanwhile has another program."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from vijax.contract.model import Model
from vijax.xla.by_value import NotComparableError, structure_key

Values = Mapping[str, Any]
MOST_NUMBERS = 1 << 22
"""Models with more numbers of data are never reused: writing the numbers out would take seconds."""
_in_use: weakref.WeakValueDictionary[Hashable, Model] = weakref.WeakValueDictionary()
_last: list[Model] = []  # keeps the last model alive when nobody else holds it


def reuse_model(
    log_density: Callable,
    functions: Sequence[Callable | None],
    values: Values,
    facts: Any,
    make: Callable[[], Model],
) -> Model:
    """An earlier model with the same programs, if somebody still holds it or it was the last one;
    else a new model by `make`.

    Args:
      log_density: the log density of the values of the variables; its derivatives count too.
      functions: other functions of the values; None for one that the model does not have.
      values: values of the variables, by name, for their shapes and types.
      facts: all else that the model is made of, comparable by `vijax.xla.by_value.structure_key`.
      make: makes the model.
    """
    try:
        programs = [
            _program(jax.value_and_grad(log_density), values),
            *(_program(function, values) for function in functions),
        ]
        key = jax.config.jax_enable_x64, tuple(programs), structure_key(facts)  # type: ignore[attr-defined]
    except Exception:
        # It has no derivative, for example, or cannot be compared: the model or its fit says so.
        return make()
    model = _in_use.get(key)
    if model is None:
        model = make()
        _in_use[key] = model
    _last[:] = [model]
    return model


def _program(function: Callable | None, values: Values) -> str:
    """A digest of a function's program with all its constants."""
    if function is None:
        return ""
    floats = {
        name: jnp.asarray(value, jnp.result_type(float, value)) for name, value in values.items()
    }
    traced = jax.jit(function).trace(floats)
    if sum(getattr(constant, "size", 0) for constant in traced.jaxpr.consts) > MOST_NUMBERS:
        raise NotComparableError
    text = traced.lower().as_text()
    if "callback" in text:  # into Python, where anything may happen
        raise NotComparableError
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()
