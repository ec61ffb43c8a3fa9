"""Draws of the unknowns of a regression, and programs over all of them at once: effects of groups,
log likelihoods and responses of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from vijax.models.formulas.form import Form, FormFunction, draw_effects, draw_response, row_log_prob


class Draws(NamedTuple):
    """Draws of all unknowns of a regression.

    Attributes:
      named: coefficients, standard deviations, correlations and parameters of the law by name, (S,)
          each.
      effects: effects of the groups by the name of the factor, (S, groups, effects). For categories
        with a base: all effects of the first category, then of the second, and so on.
      values: the same unknowns in units of size one, as the density has them.
      smooths: coefficients of the columns of each block of smooth terms, (S, q, C), by its name; C
        is 1 where there is one predictor.
    """

    named: dict[str, Float[np.ndarray, " S"]]
    effects: dict[str, Float[np.ndarray, "S J d"]]
    values: dict[str, Any]
    smooths: Mapping[str, Float[np.ndarray, "S q C"]] = MappingProxyType({})


class GroupEffects(NamedTuple):
    """Draws of the effects of groups, with the labels that ArviZ gives to axes; names are Bambi's.

    Attributes:
      values: by name, "1|g" or "x|g": (S, groups), or (S, groups, C) where each of C categories has
          a predictor.
      dims: the names of these axes, by the same name.
      coords: names of the groups, and of the categories, by the name of the axis.
    """

    values: dict[str, Float[np.ndarray, "S J *C"]]
    dims: dict[str, list[str]]
    coords: dict[str, np.ndarray]


# --- programs of all draws ------------------------------------------------------------------------
def effects_of_groups(form: Form) -> Callable[..., Any]:
    """(values, data, key) -> the effects of the groups of each factor, (S, groups, effects)."""

    def effects(values: Any, data: Any, key: Any) -> Any:
        keys = jax.random.split(key, len(jax.tree.leaves(values)[0]))
        draw = lambda values_and_key: draw_effects(form, values_and_key[0], data, values_and_key[1])
        return jax.lax.map(draw, (values, keys))

    return effects


def log_likelihoods(form: Form) -> Callable[..., Any]:
    """(parameters, predictors, numbers of rows by draw, those of all draws) -> log likelihoods of
    rows, (S, N)."""
    by_row = jax.vmap(FormFunction(form, row_log_prob), (None, 0, 0))

    def log_liks(aux: Any, eta: Any, moved: Any, shared: Any) -> Any:
        by_draw = jax.vmap(lambda aux, eta, moved: by_row(aux, {**shared, **moved}, eta))
        return by_draw(aux, eta, moved)

    return log_liks


def draw_responses(form: Form) -> Callable[..., Any]:
    """(parameters, predictors, key, numbers of rows) -> responses of rows, (S, N). All rows of a
    draw share one key, so that a row has the same draws alone and among others."""
    by_row = jax.vmap(FormFunction(form, draw_response), (None, 0, None, 0))

    def responses(aux: Any, eta: Any, key: Any, facts: Any) -> Any:
        by_draw = jax.vmap(lambda aux, key, eta: by_row(aux, facts, key, eta))
        return by_draw(aux, jax.random.split(key, len(eta)), eta)

    return responses


def plus_products(
    eta: np.ndarray, x: Float[np.ndarray, "N p"], beta: np.ndarray
) -> Float[np.ndarray, "S N C"]:
    """eta plus the sum of columns times coefficients, (S, 1 or N, p, C). It adds column by column:
    the order in which a matrix product adds depends on the number of rows."""
    for j in range(x.shape[1]):
        eta = eta + x[:, j, None] * beta[:, :, j]
    return eta
