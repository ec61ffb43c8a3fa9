"""One model for equal programs: a model of another library that is made again, in a loop or a
notebook, compiles nothing again.

Programs are compiled for a model, and other libraries give new functions at every call. Whether two
of them are one can only be said by what they compute: by their programs, derivatives and data among
them. A function that reads a variable which has changed meanwhile has another program."""

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
"""Models with more numbers of data than this are made anew: to write them out would take
seconds."""
_in_use: weakref.WeakValueDictionary[Hashable, Model] = weakref.WeakValueDictionary()
_last: list[Model] = []  # the model that was asked for last, alive while nobody else holds it


def once(
    log_density: Callable,
    others: Sequence[Callable | None],
    values: Values,
    facts: Any,
    make: Callable[[], Model],
) -> Model:
    """The model that was made before of functions with these programs, if somebody still holds it
    or it was the last; else that which `make` makes now.

    Args:
      log_density: of the values of the variables; its derivatives count too.
      others: functions of the values; None for one that the model does not have.
      values: values of the variables, by name, for their shapes and types.
      facts: all else that the model is made of, comparable by `vijax.xla.by_value.structure_key`.
      make: makes the model.
    """
    try:
        programs = [
            _program(jax.value_and_grad(log_density), values),
            *(_program(function, values) for function in others),
        ]
        key = jax.config.jax_enable_x64, tuple(programs), structure_key(facts)  # type: ignore[attr-defined]
    # it has no derivative, say, or cannot be compared: then the model or its fit says what is wrong
    except Exception:
        return make()
    made = _in_use.get(key)
    if made is None:
        made = _in_use[key] = make()
    _last[:] = [made]
    return made


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
