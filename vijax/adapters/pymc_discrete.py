"""Discrete variables of a PyMC model, summed out by pymc_extras."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from vijax.checks import require
from vijax.extras import require_extra

SUMMED_OUT = (
    "Summed out: {names}; pymc_extras.recover_marginals(trace, "
    "model=pymc_extras.marginalize(model, [{names}])) draws from the posterior, where trace is "
    "vijax.adapters.to_inference_data(fit, model, key)."
)
BY_HAND = (
    "Sum it out by hand: pymc.Mixture for classes of rows, or the logarithm of the sum as a "
    "pymc.Potential."
)


def sum_discrete_variables(model: Any) -> tuple[Any, str]:
    """The model without its discrete variables, and their names with commas between, "" for none.

    Raises:
      ValueError: naming a variable that cannot be summed out.
      ImportError: pymc_extras is not installed.
    """
    variables = [x for x in model.free_RVs if not np.issubdtype(np.dtype(x.dtype), np.floating)]
    if not variables:
        return model, ""
    names = ", ".join(repr(variable.name) for variable in variables)
    expected = "a continuous unknown, whose posterior is fitted"
    has_continuous = len(variables) < len(model.free_RVs)
    remedy = "pymc.sample draws discrete variables alone."
    require(has_continuous, "model", expected, f"discrete ones alone, {names}", remedy)
    marginalize = _load_marginalize(names)
    for variable in variables:
        model = _marginalize(model, variable.name, marginalize)
    return model, names


def _load_marginalize(names: str) -> Any:
    """The function of pymc_extras; ImportError that names what needs it."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return require_extra("pymc_extras", "pymc").marginalize
    except ImportError as error:
        text = (
            f"model: variable {names}: expected a continuous variable, got a discrete one. "
            "It can be summed out by pymc-extras: pip install pymc-extras. Or sum it out by hand: "
            "pymc.Mixture for classes of rows."
        )
        raise ImportError(text) from error


def _marginalize(model: Any, name: str, marginalize: Any) -> Any:
    """The model without one of its variables; ValueError with the words of pymc_extras."""
    try:
        return marginalize(model, [name])
    except Exception as error:  # of several kinds, by the law and by how the variable is used
        text = str(error).strip().partition("\n")[0]
        actual = f"another: pymc_extras says {type(error).__name__}: {text}"
        argument = f"model: discrete variable {name!r}"
        message = f"{argument}: expected one that can be summed out, got {actual}. {BY_HAND}"
        raise ValueError(message) from error
