"""Columns of the effects that are integrated out, and their scales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxtyping import Array, Float

from vijax.models.formulas.effects import crossed, crossed_normal, integrals
from vijax.models.formulas.form.form import Form


def normal_scales(form: Form, values: Mapping[str, Any]) -> crossed_normal.Scales:
    """The sizes of effects and errors, in units of size one."""
    factors = [form.factor(values, i) for i in range(len(form.terms))]
    return crossed_normal.Scales(
        factors, tuple(term.groups for term in form.terms), form.aux(values)["sigma"]
    )


def columns_of_one_factor(
    form: Form, values: Mapping[str, Any], rows: Mapping[str, Any]
) -> Float[Array, "n *C d"]:
    """Columns of the effects v ~ N(0, I) of one factor."""
    if not form.effects:
        return rows["z0"]
    z = rows["z0"]
    if form.predictors > 1 or form.parameters:
        z = repeated_columns(form, z, 0)
    return z @ form.factor(values, 0)


def repeated_columns(form: Form, z: Float[Array, "n d"], i: int) -> Float[Array, "n C d"]:
    """Columns of factor i for each predictor."""
    if form.parameters:
        return z[:, None] * form.slot_codes(form.terms[i].slots, z).swapaxes(1, 2)
    return integrals.repeat_blocks(z, form.predictors)


def columns_of_all_factors(
    form: Form, values: Mapping[str, Any], rows: Mapping[str, Any]
) -> crossed.Columns:
    """Columns of the effects of several factors."""
    columns = [
        repeated_columns(form, rows[f"z{i}"], i) @ form.factor(values, i)
        for i in range(len(form.terms))
    ]
    counts = tuple(term.groups for term in form.terms)
    return crossed.all_columns(columns, rows, counts, form.may_be_convex)
