"""Hierarchical regressions, linear, probit and logistic, on the command line."""

from __future__ import annotations

from typing import Any

import numpy as np

from vijax import models
from vijax.app.kinds.listing import Data, Found, Listing, Seen, Tell
from vijax.app.kinds.predictors import PREDICTED, predictions
from vijax.app.kinds.tables import TABLES, design, grouped
from vijax.app.page.blocks import Block, Intervals, Table
from vijax.app.rows.by_row import in_blocks
from vijax.app.rows.hierarchical_draws import DRAWING, LAWS, group_numbers
from vijax.app.rows.scores import RowScore, bounds
from vijax.app.settings.options import chooser, chosen, given, model_section
from vijax.app.settings.sections import EnergyAlgorithm
from vijax.app.settings.typed_toml import section, setting
from vijax.app.settings.units import covariance_of, units_of
from vijax.inference import likelihood

MOST_SHOWN = 40
"""Groups whose coefficients are drawn."""
MOST_TOLD = 8
"""Groups whose coefficients are on the screen."""
BARS = "Bars reach two standard deviations."


ResponseConfig = chooser(
    "[model.response]: the law of the target given its predictor.",
    "linear",
    "the law; the last two of two classes",
    without=("dim", "covariance"),
    linear=models.hierarchical_linear_regression,
    probit=models.hierarchical_probit_regression,
    logistic=models.multilevel_logistic_regression,
)
Settings = model_section(
    models.population,
    "regressions of many groups, their coefficients from one population",
    name="hierarchical_regression",
    without=("dim", "location", "degrees"),
    covariance="full",
    intercept=setting(True, "whether a column of ones is added: intercepts that vary"),
    response=section(ResponseConfig),
)


def build(settings: Any, data: Data) -> Any:
    """The model."""
    return chosen(settings.response, len(data.names) + settings.intercept, **given(settings))


def score(seen: Seen) -> RowScore:
    """Bound on the log density of held-out groups, per row."""
    data = grouped(seen.data.test, seen.settings)
    sizes = data[2].sum(axis=1)
    return RowScore.of(bounds(seen.fit, data, seen.key), "row", f"a bound; {len(sizes)} groups", sizes)


def describe(seen: Seen) -> list[Block]:
    """The population of coefficients, and those of each group with their deviations."""
    train = seen.data.train
    columns = list(seen.data.names) + ["intercept"] * seen.settings.intercept
    turn = units_of(train).coefficients(seen.settings.intercept)
    centre, cov = _law_of_groups(seen)
    mean, deviation = turn @ centre, _deviations(turn, cov)
    q = seen.fit.locals(grouped(train, seen.settings), key=seen.key)["coefficients"]
    value, spread = np.asarray(q.mean(), float) @ turn.T, _deviations(turn, np.asarray(q.cov, float))
    names = list(train.group_names or ("all",))[:MOST_SHOWN]
    blocks: list[Block] = [
        Table("Population", ["", "mean", "deviation of groups"], list(zip(columns, mean, deviation, strict=True)))
    ]
    for d, column in enumerate(columns):
        title, shown = f"{column}, by {train.group or 'group'}", slice(len(names))
        blocks.append(Intervals(title, names, value[shown, d], spread[shown, d], BARS, MOST_TOLD))
    return blocks


def _deviations(turn: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """Standard deviations of the coefficients `turn` makes of those of covariance `cov`."""
    return np.sqrt(np.maximum(np.einsum("pd,...de,pe->...p", turn, cov, turn), 0.0))


def _law_of_groups(seen: Seen) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the coefficients of a group of which nothing is known."""
    point = seen.point("population")
    precision = np.asarray(point.precision, float)
    cov = covariance_of(precision) if precision.ndim == 2 else np.diag(1 / np.maximum(precision, 1e-30))
    return np.asarray(point.mean, float), cov


def transform(seen: Seen, table: Any, tell: Tell) -> Found:
    """The prediction of each row by the coefficients of its group, of a group that training has not seen by those of
    the population, and an interval; see `vijax.app.kinds.predictors.predictions`."""
    train = seen.data.train
    q = seen.fit.locals(grouped(train, seen.settings), key=seen.key)["coefficients"]
    mean, cov = _law_of_groups(seen)
    means = np.concatenate([np.asarray(q.mean(), float), mean[None]])
    covs = np.concatenate([np.asarray(q.cov, float), cov[None]])
    law, classes = _response(seen), train.classes

    def read(data: Any) -> Found:
        x, group = data
        m = np.einsum("nd,nd->n", x, means[group])
        return predictions(law, m, np.einsum("nd,nde,ne->n", x, covs[group], x, optimize=True), classes)

    return in_blocks(
        read, (design(table, seen.settings), np.minimum(group_numbers(train, table), len(means) - 1)), tell, PREDICTED
    )


def _response(seen: Seen) -> Any:
    """p(y | x' b)."""
    if seen.settings.response.name == "linear":
        return likelihood.gaussian(1 / float(seen.point("noise")))
    return LAWS[seen.settings.response.name]()


LISTING = Listing(
    Settings,
    TABLES,
    EnergyAlgorithm,
    describe,
    grouped,
    score,
    unit="group",
    per="group",
    target=lambda settings: "real" if settings.response.name == "linear" else "binary",
    wants_group=True,
    transform=transform,
    predicts="prediction",
    drawing=DRAWING,
    needs_rows=True,
    build=build,
)
