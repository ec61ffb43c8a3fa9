# ruff: noqa: RUF009
"""Generalised linear models, logistic regression among them, on the command line."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from vijax import models
from vijax.app.kinds import predictors
from vijax.app.kinds.listing import Data, Listing, Seen
from vijax.app.kinds.predictors import LikelihoodConfig, settled
from vijax.app.kinds.tables import TABLES, design, sites, target
from vijax.app.page.blocks import Block, Intervals
from vijax.app.rows.drawing import TARGETS
from vijax.app.settings.options import chosen
from vijax.app.settings.sections import ProximalAlgorithm
from vijax.app.settings.typed_toml import POSITIVE, section, setting
from vijax.app.settings.units import units_of

Form = Literal["auto", "weights", "kernel"]


@dataclasses.dataclass(frozen=True)
class GlmSettings:
    """[model]: the generative story."""

    name: Literal["glm"] = setting("glm", "generalised linear model")
    intercept: bool = setting(True, "whether a column of ones is added")
    prior_scale: float = setting(1.0, "standard deviation of the weights", POSITIVE)
    learn: tuple[Literal["prior_scale"], ...] = setting((), 'whether it is learnt: ["prior_scale"]')
    form: Form = setting("auto", "work with weights or with the kernel; auto: by shape")
    likelihood: LikelihoodConfig = section(LikelihoodConfig)


@dataclasses.dataclass(frozen=True)
class LogisticSettings:
    """[model]: the generative story."""

    name: Literal["logistic_regression"] = setting("logistic_regression", "Bayesian logistic regression")
    intercept: bool = setting(True, "whether a column of ones is added")
    prior_scale: float = setting(1.0, "standard deviation of the weights", POSITIVE)
    learn: tuple[Literal["prior_scale"], ...] = setting((), 'whether it is learnt: ["prior_scale"]')
    bound: Literal["exact", "jaakkola_jordan"] = setting("exact", "the Gaussian expectation itself, or a bound on it")
    form: Form = setting("auto", "work with weights or with the kernel; auto: by shape")


def build_glm(settings: GlmSettings, data: Data) -> Any:
    """The model, of the training rows."""
    x, y = design(data.train, settings), target(data.train)
    return models.glm(x, y, chosen(settings.likelihood), settings.prior_scale, _form(settings))


def build_logistic(settings: LogisticSettings, data: Data) -> Any:
    """The model, of the training rows."""
    x, y = design(data.train, settings), target(data.train)
    return models.logistic_regression(x, y, settings.prior_scale, settings.bound, _form(settings))


def _form(settings: Any) -> str | None:
    return None if settings.form == "auto" else settings.form


def describe(seen: Seen) -> list[Block]:
    """Weights with their deviations, errors of classes, hyperparameters."""
    model: Any = seen.fit.alg.spec.model
    found, _ = settled(seen)
    names = list(seen.data.names) + ["intercept"] * seen.settings.intercept
    rows = units_of(seen.data.train).coefficients(seen.settings.intercept)
    mean, variance = model.predict(found, jnp.asarray(rows, jnp.result_type(float)))
    weights = Intervals(
        "Weights", names, np.asarray(mean), np.sqrt(np.asarray(variance)), "Bars reach two standard deviations."
    )
    return [weights, *predictors.confusion(seen), predictors.hyper_table(seen)]


GLM = Listing(
    GlmSettings,
    TABLES,
    ProximalAlgorithm,
    build_glm,
    describe,
    sites,
    predictors.score,
    target=lambda settings: predictors.kind_of(settings.likelihood.name),
    transform=predictors.transform,
    predicts="prediction",
    drawing=TARGETS,
    needs_rows=True,
)
LOGISTIC = Listing(
    LogisticSettings,
    TABLES,
    ProximalAlgorithm,
    build_logistic,
    describe,
    sites,
    predictors.score,
    target=lambda settings: "binary",
    transform=predictors.transform,
    predicts="prediction",
    drawing=TARGETS,
    needs_rows=True,
)
