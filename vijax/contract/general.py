"""The model of which programs are compiled: hyperparameters and priors are arguments of a program,
and no part of it.

Models that are made by one constructor, and differ in these values alone, share their programs: a
second fit with another `alpha` compiles nothing."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp

from vijax import tree
from vijax.contract.model import PRIOR, Hyper, Model, PriorFunctions
from vijax.xla.by_value import NotComparableError, structure_key

_SHARED: weakref.WeakValueDictionary[Hashable, Model] = weakref.WeakValueDictionary()


def constants(model: Model) -> dict[str, Any]:
    """The arguments of its programs beside its hyperparameters."""
    return (
        tree.as_arrays({PRIOR: model.prior.prior})
        if isinstance(model.prior, PriorFunctions)
        else {}
    )


def general(model: Model) -> Model:
    """The model with shapes in the place of hyperparameters and priors: one object for all models
    that differ in their values alone. Its programs are given both; one that reads the model's own
    raises an error."""
    if (known := model.__dict__.get("_general")) is not None:
        return known
    shapes = jax.eval_shape(lambda: {**tree.as_arrays(model.hyper), **constants(model)})
    fields = {field.name: getattr(model, field.name) for field in dataclasses.fields(Model)}
    fields |= {
        "hyper": shapes,
        "queries": {},
        "form": dataclasses.replace(model.form, check=None, enough=None),
    }
    given = model.prior.prior if isinstance(model.prior, PriorFunctions) else None
    prior = model.prior if given is None else dataclasses.replace(model.prior, prior={})  # type: ignore[type-var]
    made = Model(**{**fields, "prior": prior})
    try:
        key = structure_key([jax.config.jax_enable_x64, fields], given)  # type: ignore[attr-defined]
        made = _SHARED.setdefault(key, made)
    except (NotComparableError, TypeError, ValueError):  # it equals itself alone
        pass
    object.__setattr__(model, "_general", made)
    return made


def with_points(state: Any, points: Hyper) -> Any:
    """A state, or the stacked states of several runs, with more points; each run has all of
    them."""
    runs = jnp.shape(state.step)
    more = jax.tree.map(lambda x: jnp.broadcast_to(x, (*runs, *jnp.shape(x))), dict(points))
    return state._replace(hyper={**state.hyper, **more})


def without_points(state: Any, points: Hyper) -> Any:
    """A state without these points."""
    return state._replace(hyper={name: x for name, x in state.hyper.items() if name not in points})
