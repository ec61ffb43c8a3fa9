"""Responses drawn for the rows of training of a regression by a formula, for the same groups or for
new groups of the same sizes."""

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
from vijax.models.formulas.form import Form, draw_effects, draw_response, eta_without_effects
from vijax.models.formulas.formula import Design
from vijax.models.formulas.weighted import row_copies


def responses(
    form: Form, design: Design, rows: Mapping[str, Any], data: Mapping[str, Any]
) -> Generative:
    """The `Generative` of a regression. A row of weight w has w responses.

    Args:
      form: its density.
      design: the formula as read.
      rows: the rows of training in units of size one, one by one.
      data: the same rows as the density reads them.
    """
    law = form.response_law
    copies = functools.cache(lambda: row_copies(np.asarray(rows["weight"], float)))
    base = None
    if law.is_location_scale:
        location = np.array(form.units.location)[design.is_main]
        base = design.main_offset + design.rows.x[:, design.is_main] @ location

    def layout(like: Any) -> Any:
        _check_same_data(like, data)
        expected = "a response that is not censored, for draws of the rows of training"
        remedy = "fit.predict(key=key) has the law of the response before it is censored."
        require("status" not in form.facts, "formula", expected, repr(design.formula), remedy)
        copied_rows = {name: values[copies()] for name, values in rows.items()}
        return {"rows": copied_rows, "data": dict(like)}

    def new_effects(hyper: Any, values: Any, layout: Any, key: Any) -> dict[str, Any]:
        # Smooth terms are no groups: their coefficients stay those of training.
        pairs = zip(form.effects, jax.random.split(key, max(len(form.effects), 1)), strict=False)
        return {
            term.name: _new_group_effects(form, values, i, key)
            for i, (term, key) in enumerate(pairs)
        }

    def draw(hyper: Any, values: Any, local: Any, layout: Any, key: Any) -> Float[Array, " N"]:
        key_effects, key_data = jax.random.split(key)
        effects = dict(local)
        if any(term.name not in effects for term in form.terms):
            training_effects = _training_effects(form)(values, layout["data"], key_effects)
            names = [term.name for term in form.terms]
            effects = {**dict(zip(names, training_effects, strict=True)), **effects}
        eta = eta_without_effects(form, values, layout["rows"])
        for i, term in enumerate(form.terms):
            u = effects[term.name] / jnp.asarray(form.effect_units(i), eta.dtype)
            u = form.effects_per_predictor(u[layout["rows"][f"group{i}"]], i)
            eta = eta + jnp.einsum("nd,ndc->nc", layout["rows"][f"z{i}"], u).reshape(eta.shape)
        if law.is_named:  # one predictor, of two categories, has an axis too
            eta = eta.reshape(len(eta), form.predictors)
        y = draw_response(form, form.aux(values), layout["rows"], key_data, eta)
        if base is None:
            return y
        return jnp.asarray(base[copies()], y.dtype) + form.units.size * y

    observed = lambda layout, data: jnp.asarray(design.y[copies()], jnp.result_type(float))
    no_families = dict[str, Any]()  # effects of known groups are drawn with the responses
    families = lambda stats, local: no_families
    return Generative(layout, draw, new_effects, observed, families, from_sizes=False)


def _check_same_data(like: Any, data: Mapping[str, Any]) -> None:
    """Raises ValueError unless `like` equals the data of the model, in float32."""
    has_same_names = isinstance(like, Mapping) and like.keys() == data.keys()
    is_equal = lambda name: np.array_equal(
        np.asarray(like[name], np.float32), np.asarray(data[name], np.float32)
    )
    is_same = has_same_names and all(map(is_equal, data))
    actual = "others" if isinstance(like, Mapping) else type(like).__name__
    remedy = (
        "Responses of other rows: fit.predict(table, key=key) has their means, sds and intervals."
    )
    require(is_same, "data", "those of the model, model.data", actual, remedy)


def _training_effects(form: Form) -> Callable[..., Any]:
    """Effects of the groups of training. Draws of the unknowns are taken one after another, since
    all at once would fill the memory."""
    return jax.custom_batching.sequential_vmap(
        lambda values, data, key: draw_effects(form, values, data, key)
    )


def _new_group_effects(form: Form, values: Any, i: int, key: Any) -> Float[Array, "J d"]:
    """Effects of new groups of a factor, as many as training has, in the units of the data."""
    term = form.effects[i]
    factor = form.factor(values, i)
    v = jax.random.normal(key, (term.groups, len(term.labels)), factor.dtype)
    return jnp.asarray(form.effect_units(i), factor.dtype) * (v @ factor.T)
