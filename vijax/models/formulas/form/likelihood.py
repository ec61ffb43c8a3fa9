"""The log likelihood of a form: of rows given predictors, and with effects integrated out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.models.formulas.effects import crossed, crossed_normal, integrals, interpolated
from vijax.models.formulas.form.effect_columns import (
    columns_of_all_factors,
    columns_of_one_factor,
    normal_scales,
)
from vijax.models.formulas.form.form import Form, FormFunction
from vijax.models.formulas.form.parts import SDS
from vijax.models.formulas.laws import partly_known


class ScaledRows(NamedTuple):
    """Rows of a normal law, divided by their sigmas: residuals (n,), columns of effects (n, d), and
    the logarithms of sigmas (n,)."""

    r: Float[Array, " n"]
    b: Float[Array, "n d"]
    log_sigmas: Float[Array, " n"]


def eta_without_effects(
    form: Form, values: Mapping[str, Any], rows: Mapping[str, Any]
) -> Float[Array, " n *C"]:
    """eta without effects, in units of size one."""
    offset = rows["offset"]  # (n, C) where parameters have formulas
    if form.predictors > 1:
        offset = jnp.broadcast_to(offset[:, None], (len(offset), form.predictors))
    if not form.labels:
        return offset
    b = form.row_coefficients(values)
    slots = (*form.slots, *form.step_slots)
    return offset + rows["x"] @ form.per_predictor(b, slots).reshape(-1, *offset.shape[1:])


def row_log_liks(
    form: Form, parameters: tuple[Any, Mapping[str, Any]], eta: Float[Array, " n *C"]
) -> Float[Array, " n"]:
    """Log likelihoods of rows, each times its weight, in units of size one."""
    aux, rows = parameters
    columns = {name: rows[name] for name in ("y", "trials", *form.facts)}
    log_liks = jax.vmap(lambda row, eta: row_log_prob(form, aux, row, eta))(columns, eta)
    return rows["weight"] * log_liks


def row_parameters(
    form: Form, aux: Mapping[str, Any], row: Mapping[str, Any], eta: Any
) -> tuple[Any, dict[str, Any]]:
    """The predictor of the response, and all parameters of its law, in rows."""
    main, by_row = form.split_predictors(eta)
    return main, partly_known.with_known_errors({**aux, **by_row}, row, jnp)


def row_log_prob(form: Form, aux: Mapping[str, Any], row: Mapping[str, Any], eta: Any) -> Any:
    """The log likelihood of a row (y, trials, facts) with the predictors eta, a number or
    (C,)."""
    main, parameters = row_parameters(form, aux, row, eta)
    return partly_known.log_prob(form.response_law, parameters, row, main)


def draw_response(
    form: Form, aux: Mapping[str, Any], row: Mapping[str, Any], key: Any, eta: Any
) -> Any:
    """A draw of the response of a row (trials, facts) with the predictors eta, a number or
    (C,)."""
    main, parameters = row_parameters(form, aux, row, eta)
    sample = lambda key: form.response_law.sample(parameters, row["trials"], key, main)
    return partly_known.draw(sample, row, key)


def interpolated_log_lik(
    form: Form, values: Mapping[str, Any], rows: Mapping[str, Any]
) -> Float[Array, ""]:
    """Log likelihood of all rows near its mode, less a constant; `rows` are the rows that
    `interpolated.near_mode` returns."""
    sigma = form.aux(values).get("sigma", 1.0)
    ratios = jnp.concatenate([values[SDS + term.name] for term in form.effects]) / sigma
    return interpolated.log_lik(rows, form.orthogonal_coefficients(values), sigma, ratios)


def log_lik(form: Form, values: Mapping[str, Any], rows: Mapping[str, Any]) -> Float[Array, ""]:
    """Log likelihood of a group with its effects integrated out; for several factors the log
    likelihood of all rows."""
    if form.is_summed:
        return crossed_normal.log_integral(
            rows, form.row_coefficients(values), normal_scales(form, values)
        )
    a = eta_without_effects(form, values, rows)
    aux = form.aux(values)
    row_function = FormFunction(form, row_log_liks)
    if len(form.terms) > 1:
        z = columns_of_all_factors(form, values, rows)
        return crossed.laplace(row_function, (aux, rows), a, z)
    b = columns_of_one_factor(form, values, rows)
    if "count" in rows:
        return integrals.normal_integral(rows["y"] - a, b, aux["sigma"], rows["count"])
    if form.is_normal_given_sigmas:
        scaled = divide_by_sigmas(form, aux, rows, a, b)
        unit, count = jnp.ones((), a.dtype), jnp.sum(rows["weight"])
        of_scaled = integrals.normal_integral(scaled.r, scaled.b, unit, count)
        return of_scaled - jnp.sum(rows["weight"] * scaled.log_sigmas)
    return integrals.quadrature(row_function, (aux, rows), a, b, form.nodes, form.may_be_convex)


def divide_by_sigmas(
    form: Form, aux: Mapping[str, Any], rows: Mapping[str, Any], a: Array, b: Float[Array, "n *C d"]
) -> ScaledRows:
    """Residuals and columns of effects divided by the sigma of each row, times the root of its
    weight."""
    main, parameters = row_parameters(form, aux, rows, a)
    sigmas = parameters["sigma"]
    scale = jnp.sqrt(rows["weight"]) / sigmas
    residuals = scale * (rows["y"] - main)
    columns = b.reshape(len(b), math.prod(b.shape[1:]))[:, : b.shape[-1]]  # those of the mean
    return ScaledRows(residuals, scale[:, None] * columns, jnp.log(sigmas))
