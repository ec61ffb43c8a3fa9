# ruff: noqa: RUF009
"""Hierarchical regressions, linear, probit and logistic, on the command line."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np

from vijax import models
from vijax.app.blocks import Block, Intervals, Table
from vijax.app.listing import Data, Listing, Seen
from vijax.app.options import Chooser, Option, chosen
from vijax.app.scores import RowScore, bounds
from vijax.app.sections import EnergyAlgorithm
from vijax.app.tables import TABLES, grouped
from vijax.app.typed_toml import POSITIVE, section, setting

MOST_SHOWN = 40
"""Groups whose coefficients are drawn."""
MOST_TOLD = 8
"""Groups whose coefficients are on the screen."""
BARS = "Bars reach two standard deviations."


@dataclasses.dataclass(frozen=True)
class ResponseConfig(Chooser):
    """[model.response]: the law of the target given its predictor."""

    name: Literal["linear", "probit", "logistic"] = setting("linear", "the law; the last two of two classes")
    shape: float | None = setting(None, "linear: of the gamma prior of the noise precision; unset: 1", POSITIVE)
    rate: float | None = setting(None, "linear: its rate; unset: 1", POSITIVE)
    OPTIONS: ClassVar[Mapping[str, Option]] = {
        "linear": Option(models.hierarchical_linear_regression, ("shape", "rate")),
        "probit": Option(models.hierarchical_probit_regression),
        "logistic": Option(models.multilevel_logistic_regression),
    }


@dataclasses.dataclass(frozen=True)
class Settings:
    """[model]: the generative story."""

    name: Literal["hierarchical_regression"] = setting(
        "hierarchical_regression", "regressions of many groups, their coefficients from one population"
    )
    intercept: bool = setting(True, "whether a column of ones is added: intercepts that vary")
    covariance: Literal["full", "diagonal"] = setting("full", "of the population of coefficients")
    spread: float = setting(1.0, "deviation of the groups' coefficients, by the prior", POSITIVE)
    strength: float = setting(0.01, "how many groups the prior mean of the population is worth", POSITIVE)
    response: ResponseConfig = section(ResponseConfig)


def build(settings: Settings, data: Data) -> Any:
    """The model."""
    population = {name: getattr(settings, name) for name in ("covariance", "spread", "strength")}
    return chosen(settings.response, len(data.names) + settings.intercept, **population)


def score(seen: Seen) -> RowScore:
    """Bound on the log density of held-out groups, per row."""
    data = grouped(seen.data.test, seen.settings)
    sizes = data[2].sum(axis=1)
    return RowScore.of(bounds(seen.fit, data, seen.key), "row", f"a bound; {len(sizes)} groups", sizes)


def describe(seen: Seen) -> list[Block]:
    """The population of coefficients, and those of each group with their deviations."""
    train = seen.data.train
    columns = list(seen.data.names) + ["intercept"] * seen.settings.intercept
    mean, deviation = _population(seen)
    q = seen.fit.locals(grouped(train, seen.settings), key=seen.key)["coefficients"]
    value, spread = np.asarray(q.mean(), float), np.sqrt(np.asarray(jnp.diagonal(q.cov, axis1=1, axis2=2), float))
    names = list(train.group_names or ("all",))[:MOST_SHOWN]
    blocks: list[Block] = [
        Table("Population", ["", "mean", "deviation of groups"], list(zip(columns, mean, deviation, strict=True)))
    ]
    for d, column in enumerate(columns):
        title, shown = f"{column}, by {train.group or 'group'}", slice(len(names))
        blocks.append(Intervals(title, names, value[shown, d], spread[shown, d], BARS, MOST_TOLD))
    return blocks


def _population(seen: Seen) -> tuple[np.ndarray, np.ndarray]:
    """Mean of the groups' coefficients, and their standard deviations."""
    point = seen.point("population")
    precision = np.asarray(point.precision, float)
    cov = np.linalg.pinv(precision) if precision.ndim == 2 else np.diag(1 / np.maximum(precision, 1e-30))
    return np.asarray(point.mean, float), np.sqrt(np.diag(cov))


LISTING = Listing(
    Settings,
    TABLES,
    EnergyAlgorithm,
    build,
    describe,
    grouped,
    score,
    unit="group",
    per="group",
    target=lambda settings: "real" if settings.response.name == "linear" else "binary",
    wants_group=True,
)
