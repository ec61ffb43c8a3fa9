"""Coefficients of a `Glmm` as people read them: as ratios behind a logarithm or a logit, and by the
spread of their columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.models.formulas.draws import Draws
from vijax.models.formulas.formula import name_at_level
from vijax.models.formulas.laws import Law
from vijax.models.formulas.weighted import mean_and_spread

Named = dict[str, Float[np.ndarray, " S"]]


def ratios(model: Any, draws: Draws) -> Named:
    """exp of each coefficient but the intercept, at draws: `ratios_title` says of which numbers they
    are ratios."""
    remedy = "Its coefficients are differences already: see standardised."
    require(
        model.law.link != "identity",
        "family",
        "a law with a log or a logit link",
        repr(model.law.name),
        remedy,
    )
    return {name: np.exp(draws.named[name]) for name, *_ in _slopes(model)}


def ratios_title(law: Law, base: str = "") -> str:
    """Title of `ratios`. They are no ratios of the means of counts that are cut off at zero.

    >>> from vijax.models.formulas.laws import LAWS
    >>> ratios_title(LAWS["poisson"]), ratios_title(LAWS["categorical"], "red")
    ('Ratios of means', 'Ratios of odds against red')
    """
    if law.link == "log":
        return "Ratios of means before the cut at zero" if law.is_cut else "Ratios of means"
    return f"Ratios of odds against {base}" if base else "Ratios of odds"


def standardise(model: Any, draws: Draws) -> Named:
    """Change of the predictor by one sd of each column, at draws; in sds of the response where the
    link is the identity (Gelman, Hill and Vehtari 2020, section 12.2). Columns that code categories
    have none. Spreads count weights."""
    spread = lambda column: float(mean_and_spread(column, model.weights)[1])
    unit = spread(model.design.y) if model.law.link == "identity" else 1.0
    columns = {name: (column, codes) for name, column, codes in _slopes(model)}
    return {
        name: draws.named[name] * (spread(x) / unit)
        for name, (x, codes) in columns.items()
        if not codes
    }


def _slopes(model: Any) -> list[tuple[str, np.ndarray, bool]]:
    """Name, column, and whether it codes categories, of each coefficient but the intercept."""
    design = model.design
    columns = zip(design.labels, design.rows.x.T, design.categorical, strict=True)
    own = [column for column in columns if column[0] != "Intercept"]
    return [
        (name_at_level(label, level), x, codes)
        for label, x, codes in own
        for level in design.against or (None,)
    ]
