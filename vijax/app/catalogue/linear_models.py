"""Generalised linear models, logistic regression among them, on the command line."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from vijax import models
from vijax.app.kinds import predictors
from vijax.app.kinds.listing import Data, Seen
from vijax.app.kinds.predictors import LikelihoodConfig, settled
from vijax.app.kinds.tables import design, target
from vijax.app.page.blocks import Block, Intervals
from vijax.app.settings.options import built, chosen, model_section
from vijax.app.settings.typed_toml import section, setting
from vijax.app.settings.units import units_of

GlmSettings = model_section(
    models.glm,
    "generalised linear model",
    learn=("prior_scale",),
    intercept=setting(True, "whether a column of ones is added"),
    likelihood=section(LikelihoodConfig),
)


LogisticSettings = model_section(
    models.logistic_regression,
    "Bayesian logistic regression",
    learn=("prior_scale",),
    intercept=setting(True, "whether a column of ones is added"),
)


def build_glm(settings: Any, data: Data) -> Any:
    """A generalised linear model of the training rows."""
    return built(settings, data, likelihood=chosen(settings.likelihood), **_rows(settings, data))


def build_logistic(settings: Any, data: Data) -> Any:
    """Logistic regression of the training rows."""
    return built(settings, data, **_rows(settings, data))


def _rows(settings: Any, data: Data) -> dict[str, Any]:
    return {"x": design(data.train, settings), "y": target(data.train)}


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


GLM = predictors.predictor_model(GlmSettings, describe, build_glm)
LOGISTIC = predictors.predictor_model(LogisticSettings, describe, build_logistic, lambda settings: "binary")
