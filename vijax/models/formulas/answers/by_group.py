"""Effects of groups in a table: best predictors, their intervals, and how far they are shrunk."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.models.formulas.answers.table import AnswerTable, join, summarise
from vijax.models.formulas.draws import Draws
from vijax.models.formulas.formula import name_at_level

NOTE = (
    "Largest first. `shrunk`: the variance of the effect given the data, divided by that of the "
    "law of groups: 0 where the group's own rows decide, 1 where the law of groups does."
)


def effects_table(model: Any, draws: Draws, total: bool, level: float) -> AnswerTable:
    """The table of `Glmm.effects_by_group`."""
    tables = []
    for i, factor in enumerate(model.design.factors):
        rows = np.bincount(model.design.rows.groups[i], model.weights, minlength=len(factor.levels))
        term = model.density_form.effects[i]
        for j, label in enumerate(term.labels):
            effects = np.asarray(draws.effects[factor.name][:, :, j], float)
            name = name_at_level(_coefficient(model, label, term.slots[j]), term.levels[j])
            law = np.asarray(draws.named[term.sd_names()[j]], float)
            shrunk = np.minimum(effects.var(0) / np.mean(law**2), 1)
            if total and name in draws.named:
                effects = effects + np.asarray(draws.named[name])[:, None]
            order = np.argsort(-effects.mean(0), kind="stable")
            titles = {"factor": factor.name, "effect": name}
            labels = {key: np.array([text] * len(order), object) for key, text in titles.items()}
            labels["group"] = np.array(factor.levels, object)[order]
            labels |= {"rows": whole_numbers(rows[order]), "shrunk": shrunk[order]}
            tables.append(summarise(labels, effects[:, order], level, 0.0))
    words = "Effects of groups, as differences from the common coefficient."
    if total:
        words = "Effects of groups, with the common coefficient where the formula has it."
    return join(tables, (words, NOTE))


def _coefficient(model: Any, label: str, slot: int) -> str:
    """The name of the coefficient of the same column: "Intercept" for "1", "sigma_Intercept" for
    "sigma_1"."""
    prefix = model.design.prefixes[slot]
    if label == f"{prefix}1":
        return f"{prefix}Intercept"
    return label


def whole_numbers(x: Float[np.ndarray, " J"]) -> np.ndarray:
    """Numbers of rows as integers; as they are where weights make them fractions."""
    if np.array_equal(x, np.round(x)):
        return x.astype(int)
    return x
