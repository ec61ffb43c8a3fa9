"""The log prior of the unknowns of a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.models.formulas.form.correlations import correlation_factor
from vijax.models.formulas.form.form import Form
from vijax.models.formulas.form.parts import STEPS
from vijax.models.formulas.priors import log_prob


def log_prior(form: Form, values: Mapping[str, Any]) -> Float[Array, ""]:
    """Log prior of the unknowns, with the Jacobian of their units."""
    by_name = prior_arguments(form, values)
    total = jnp.asarray(form.constant, jnp.result_type(float))
    for name, prior in dict(form.priors).items():
        if name.startswith("corr|"):
            term = next(term for term in form.effects if f"corr|{term.name}" == name)
            for block in term.correlated_blocks():
                factor, log_det = correlation_factor(values[block.unknown], block.size)
                total += log_prob(prior, factor) + log_det
        else:
            total += log_prob(prior, by_name[name])
    return total


def prior_arguments(form: Form, values: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of which the priors are, by name: unknowns, but intercepts and cutpoints at
    the means of all columns."""
    by_name = form.named(values) | intercepts_at_centre(form, values)
    for i in range(form.cutpoints):
        by_name[f"threshold[{i}]"] = form.aux(values)["threshold"][i]
    return by_name | {term.name: values[STEPS + term.label] for term in form.monotone}


def intercepts_at_centre(form: Form, values: Mapping[str, Any]) -> dict[str, Any]:
    """The predictors at the means of all columns, where the priors of intercepts hold."""
    names = {"Intercept", *(f"{name}_Intercept" for name in form.parameters)}
    intercepts = [i for i, x in enumerate(form.labels) if x.partition("[")[0] in names]
    if not intercepts:
        return {}
    beta = form.per_predictor(form.coefficients(values))
    columns = {i // form.predictors for i in intercepts}
    centre = list(form.centre)
    for column in columns:
        centre[column] = 1.0
    at_centre = jnp.asarray(centre, beta.dtype) @ beta
    if form.monotone:
        steps = form.per_predictor(form.excess_steps(values), form.step_slots)
        at_centre += form.step_centre() @ steps
    return {form.labels[i]: at_centre[form.slots[i] + i % form.predictors] for i in intercepts}
