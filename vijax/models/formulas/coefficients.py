"""Coefficients of a `Glmm` for readers: ratios behind a log or a logit link, and standardised."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.data.formulas.row_statistics import mean_and_spread
from vijax.models.formulas.draws import Draws
from vijax.models.formulas.formula import name_at_level
from vijax.models.formulas.laws import Law

Named = dict[str, Float[np.ndarray, " S"]]


def ratios(model: Any, draws: Draws) -> Named:
    """exp of each coefficient but the intercept, at draws; `ratios_title` names the quantity that
    they are ratios of."""
    remedy = "Its coefficients are differences already: see standardised."
    if model.law.is_circular:
        remedy = "model.comparisons has differences of directions."
    require(
        model.law.has_ratios,
        "family",
        "a law with a log or a logit link",
        repr(model.law.name),
        remedy,
    )
    return {name: np.exp(draws.named[name]) for name, *_ in _slopes(model)}


def ratios_title(law: Law, base: str = "") -> str:
    """Title of `ratios`. For counts that are cut off at zero they are not ratios of means.

    >>> from vijax.models.formulas.laws import LAWS
    >>> ratios_title(LAWS["poisson"]), ratios_title(LAWS["categorical"], "red")
    ('Ratios of means', 'Ratios of odds against red')
    """
    if law.link == "log":
        if law.is_cut:
            return "Ratios of means before the cut at zero"
        return "Ratios of means"
    if base:
        return f"Ratios of odds against {base}"
    return "Ratios of odds"


def standardise(model: Any, draws: Draws) -> Named:
    """Change of the predictor by one sd of each column, at draws; in sds of the response where the
    link is the identity (Gelman, Hill and Vehtari 2020, section 12.2). Columns that code categories
    are left out. The sds are weighted."""
    spread = lambda column: float(mean_and_spread(column, model.weights)[1])
    unit = spread(model.design.y) if model.law.link == "identity" else 1.0
    return {
        name: draws.named[name] * (spread(x) / unit)
        for name, x, is_code in _slopes(model)
        if not is_code
    }


def _slopes(model: Any) -> list[tuple[str, np.ndarray, bool]]:
    """(name, column, True if it codes categories) of each coefficient of the response but the
    intercept."""
    design = model.design
    is_own = [True, *(terms.step is not None for terms in design.further)]
    columns = zip(design.labels, design.rows.x.T, design.categorical, design.slots, strict=True)
    return [
        (name_at_level(label, level), x, is_code)
        for label, x, is_code, slot in columns
        if label != "Intercept" and is_own[slot]
        for level in design.against or (None,)
    ]
