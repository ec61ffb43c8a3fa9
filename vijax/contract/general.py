"""The model for which programs are compiled. Hyperparameters and priors are arguments of a program,
and no part of it.

Models of one constructor that differ only in these values share their programs: a second fit with
another `alpha` compiles nothing."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp

from vijax import tree
from vijax.contract.model import PRIOR, Hyper, Model, PriorFunctions
from vijax.xla import by_value

_SHARED: weakref.WeakValueDictionary[Hashable, Model] = weakref.WeakValueDictionary()


def constants(model: Model) -> dict[str, Any]:
    """The arguments of the programs of a model beside its hyperparameters."""
    if not isinstance(model.prior, PriorFunctions):
        return {}
    return tree.as_arrays({PRIOR: model.prior.prior})


def general(model: Model) -> Model:
    """The model with shapes instead of hyperparameters and priors: one object for all models that
    differ only in these values. Both are arguments of its programs; a program that reads those of
    the model raises an error."""
    memo = by_value.kept_with(model)
    if general not in memo:
        memo[general] = _general(model)
    return memo[general]


def _general(model: Model) -> Model:
    shapes = jax.eval_shape(lambda: {**tree.as_arrays(model.hyper), **constants(model)})
    fields = {field.name: getattr(model, field.name) for field in dataclasses.fields(Model)}
    fields |= {
        "hyper": shapes,
        "queries": {},
        "form": dataclasses.replace(model.form, check=None, enough=None),
    }
    prior: Any = model.prior
    constant = None
    if isinstance(prior, PriorFunctions):
        constant = prior.prior
        prior = dataclasses.replace(prior, prior={})
    shared = Model(**{**fields, "prior": prior})
    try:
        x64 = jax.config.jax_enable_x64  # type: ignore[attr-defined]
        key = by_value.structure_key([x64, fields], constant)
        shared = _SHARED.setdefault(key, shared)
    except (
        by_value.NotComparableError,
        TypeError,
        ValueError,
    ):  # the model is equal to itself only
        pass
    return shared


def with_points(state: Any, points: Hyper) -> Any:
    """A state, or the stacked states of several runs, with more points; each run has all
    points."""
    runs = jnp.shape(state.step)
    repeat = lambda x: jnp.broadcast_to(x, (*runs, *jnp.shape(x)))
    return state._replace(hyper={**state.hyper, **jax.tree.map(repeat, dict(points))})


def drop_points(state: Any, points: Hyper) -> Any:
    """A state without these points."""
    return state._replace(hyper={name: x for name, x in state.hyper.items() if name not in points})
