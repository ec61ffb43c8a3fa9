"""Smooth functions of one column over the values of training, at draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.data.formulas.smooths import SmoothTerm
from vijax.models.formulas.draws import Draws
from vijax.models.formulas.formula import Design, name_at_level

GRID = 61
"""Places of a curve."""


class Curve(NamedTuple):
    """A smooth function of one column, on the scale of the link: the straight part about the middle
    of the values, and the part that bends.

    Attributes:
      name: the name of the function: "s(x)", "s(x):g[a]", "sigma_s(x)", "s(x)[b]" of a category.
      column: the column.
      x: places, (G,).
      values: the function at draws, (S, G).
    """

    name: str
    column: str
    x: Float[np.ndarray, " G"]
    values: Float[np.ndarray, "S G"]


def curves(design: Design, draws: Draws) -> list[Curve]:
    """The smooth functions of one column, from the least to the largest value of training."""
    all_curves = []
    for slot, (prefix, learnt) in enumerate(zip(design.prefixes, design.learnt, strict=True)):
        for term in learnt.smooths:
            if len(term.covariates) > 1:
                continue
            x = np.linspace(term.low[0], term.high[0], GRID)
            for place, level in enumerate(design.against or (None,)):
                for name, values in _functions(term, x, draws, prefix, level, slot + place):
                    curve_name = name_at_level(prefix + name, level)
                    all_curves.append(Curve(curve_name, str(term.covariates[0]), x, values))
    return all_curves


def _functions(
    term: SmoothTerm, x: np.ndarray, draws: Draws, prefix: str, level: str | None, predictor: int
) -> list[tuple[str, Float[np.ndarray, "S G"]]]:
    """The functions of a term in one predictor, with their names: one, or one for each level of
    `by`."""
    straight, bends = term.function_columns(x[:, None])
    names = term.names()
    straight_names = np.array(term.straight_names()).reshape(len(names), straight.shape[1])
    coefficients = term.coefficients(draws.smooths, prefix)
    functions = []
    for name, labels in zip(names, straight_names, strict=True):
        values = coefficients[name][..., predictor] @ bends.T
        for label, column in zip(labels, straight.T, strict=True):
            beta = np.asarray(draws.named[name_at_level(prefix + label, level)], float)
            values = values + beta[:, None] * column
        functions.append((name, values))
    return functions
