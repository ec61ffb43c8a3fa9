"""Responses drawn for the rows of training of a regression by a formula: the groups once more, or
groups like them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.checks import require
from vijax.contract.queries import Generative
from vijax.models.formulas.form import Form
from vijax.models.formulas.formula import Design
from vijax.models.formulas.laws import LAWS
from vijax.models.formulas.weighted import row_copies


def responses(
    form: Form, design: Design, rows: Mapping[str, Any], data: Mapping[str, Any]
) -> Generative:
    """The `Generative` of a regression. A row has as many responses as its weight says.

    Args:
      form: its density.
      design: the formula as read.
      rows: the rows of training in units of size one, one by one.
      data: the same as the density reads them.
    """
    law = LAWS[form.law]
    copies = functools.cache(lambda: row_copies(np.asarray(rows["weight"], float)))
    base = None
    if law.is_location_scale:
        base = design.rows.offset + design.rows.x @ np.array(form.units.location)

    def layout(like: Any) -> Any:
        remedy = (
            "Responses of other rows: fit.predict(table, key=key) has their means, sds and "
            "intervals."
        )
        same = isinstance(like, Mapping) and like.keys() == data.keys()
        alike = lambda name: np.array_equal(
            np.asarray(like[name], np.float32), np.asarray(data[name], np.float32)
        )
        actual = "others" if isinstance(like, Mapping) else type(like).__name__
        require(
            same and all(map(alike, data)), "data", "those of the model, model.data", actual, remedy
        )
        return {
            "rows": {name: values[copies()] for name, values in rows.items()},
            "data": dict(like),
        }

    def new_effects(hyper: Any, values: Any, layout: Any, key: Any) -> dict[str, Any]:
        each = zip(form.effects, jax.random.split(key, max(len(form.effects), 1)), strict=False)
        return {
            own.name: _new_group_effects(form, values, i, key) for i, (own, key) in enumerate(each)
        }

    def drawn(hyper: Any, values: Any, local: Any, layout: Any, key: Any) -> Float[Array, " N"]:
        key_effects, key_data = jax.random.split(key)
        effects = dict(local)
        if form.effects and not effects:
            known = _training_effects(form)(values, layout["data"], key_effects)
            effects = {own.name: u for own, u in zip(form.effects, known, strict=True)}
        eta = form.eta(values, layout["rows"])
        for i, own in enumerate(form.effects):
            u = effects[own.name] * jnp.asarray(own.sizes, eta.dtype) / form.units.size
            u = u[layout["rows"][f"group{i}"]].reshape(len(eta), form.predictors, -1)
            eta = eta + jnp.einsum("nd,ncd->nc", layout["rows"][f"z{i}"], u).reshape(eta.shape)
        y = law.likelihood(form.aux(values), layout["rows"]["trials"]).sample(key_data, eta)  # type: ignore[misc]
        return y if base is None else jnp.asarray(base[copies()], y.dtype) + form.units.size * y

    observed = lambda layout, data: jnp.asarray(design.y[copies()], jnp.result_type(float))
    none = dict[str, Any]()  # families of known effects: they are drawn with the responses
    return Generative(
        layout, drawn, new_effects, observed, lambda stats, local: none, from_sizes=False
    )


def _training_effects(form: Form) -> Callable[..., Any]:
    """Effects of the groups of training, one draw of the unknowns after another: their programs
    fill memory."""
    return jax.custom_batching.sequential_vmap(
        lambda values, data, key: form.draw_effects(values, data, key)
    )


def _new_group_effects(form: Form, values: Any, i: int, key: Any) -> Float[Array, "J d"]:
    """Effects of so many new groups of a factor, in the units of the data."""
    own = form.effects[i]
    factor = form.factor(values, i)
    v = jax.random.normal(key, (own.groups, len(own.labels)), factor.dtype)
    return form.units.size / jnp.asarray(own.sizes, factor.dtype) * (v @ factor.T)
