"""Draws of the effects of a form given its unknowns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.models.formulas.effects import crossed, crossed_normal, integrals
from vijax.models.formulas.form.effect_columns import (
    columns_of_all_factors,
    columns_of_one_factor,
    normal_scales,
)
from vijax.models.formulas.form.form import Form, FormFunction
from vijax.models.formulas.form.likelihood import (
    divide_by_sigmas,
    eta_without_effects,
    row_log_liks,
)

CANDIDATES = 16
"""Normal draws of the effects of a group among which one is picked by importance."""


def draw_effects(
    form: Form, values: Mapping[str, Any], rows: Mapping[str, Any], key: Any
) -> list[Float[Array, "J d"]]:
    """A draw of the effects of all groups of each factor given all else, in units of the data.

    For a normal law the draw is exact. For another law with one factor it is one of
    `CANDIDATES` normal draws about the mode, picked by importance (Rubin 1987); with several
    factors it is a normal draw about the mode."""
    if len(form.terms) == 1:
        keys = jax.random.split(key, form.effects[0].groups)
        draw_group = lambda rows, key: _draw_group(form, values, rows, key)
        v = [jax.vmap(draw_group)(rows, keys)]
    else:
        all_rows = {name: x[0] for name, x in rows.items()}
        first, flat = _draw_jointly(form, values, all_rows, key)
        shapes = [(term.groups, len(term.labels)) for term in form.terms[1:]]
        ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
        parts = zip(jnp.split(flat, ends), shapes, strict=True)
        v = [first, *(x.reshape(shape) for x, shape in parts)]
    effects = []
    for i, x in enumerate(v):
        units = jnp.asarray(form.effect_units(i), x.dtype)[None]
        effects.append(units * (x @ form.factor(values, i).T))
    return effects


def _draw_jointly(
    form: Form, values: Mapping[str, Any], rows: Mapping[str, Any], key: Any
) -> crossed.Effects:
    if form.is_summed:
        return crossed_normal.draw(
            rows, form.row_coefficients(values), normal_scales(form, values), key
        )
    a = eta_without_effects(form, values, rows)
    z = columns_of_all_factors(form, values, rows)
    return crossed.draw(FormFunction(form, row_log_liks), (form.aux(values), rows), a, z, key)


def _draw_group(
    form: Form, values: Mapping[str, Any], rows: Mapping[str, Any], key: Any
) -> Float[Array, " d"]:
    a = eta_without_effects(form, values, rows)
    b = columns_of_one_factor(form, values, rows)
    aux = form.aux(values)
    key_draw, key_pick = jax.random.split(key)
    if "count" in rows:
        law_of_effects = integrals.law_of_normal(rows["y"] - a, b, aux["sigma"])
        return _draw_normal(*law_of_effects, key_draw)
    if form.is_normal_given_sigmas:
        scaled = divide_by_sigmas(form, aux, rows, a, b)
        unit = jnp.ones((), a.dtype)
        return _draw_normal(*integrals.law_of_normal(scaled.r, scaled.b, unit), key_draw)
    row_function = FormFunction(form, row_log_liks)
    mean, factor = integrals.find_mode(row_function, (aux, rows), a, b, form.may_be_convex)
    noise = jax.random.normal(key_draw, (CANDIDATES, *mean.shape), mean.dtype)
    candidates = mean[None] + jax.vmap(lambda t: integrals.backward(factor, t))(noise)
    log_joint_at = lambda v: integrals.joint(row_function, (aux, rows), a, b, v)
    log_joint = jax.vmap(log_joint_at)(candidates)
    return candidates[jax.random.categorical(key_pick, log_joint + 0.5 * jnp.sum(noise**2, -1))]


def _draw_normal(
    mean: Float[Array, " d"], factor: Float[Array, "d d"], key: Any
) -> Float[Array, " d"]:
    """A normal draw with the factor of its precision."""
    noise = jax.random.normal(key, mean.shape, mean.dtype)
    return mean + integrals.backward(factor, noise)
