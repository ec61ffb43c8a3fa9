"""Linear regression with automatic relevance determination on the command line."""

from __future__ import annotations

from typing import Any

import numpy as np

from vijax import models
from vijax.app.drawing import views
from vijax.app.drawing.blocks import Block, Scatter, Table
from vijax.app.rows.by_row import TARGETS, RowScore
from vijax.app.settings.options import build_from_section, model_section
from vijax.app.settings.sections import EnergyAlgorithm
from vijax.app.settings.typed_toml import setting
from vijax.app.settings.units import table_units
from vijax.app.sources import offsets
from vijax.app.sources.listing import FittedRun, Listing, RowResults, Tell
from vijax.app.sources.tables import TABLES, design, pairs

Settings = model_section(
    models.ard_regression,
    "linear regression with automatic relevance determination",
    without=("dim",),
    intercept=setting(True, "whether a column of ones is added"),
    offset=offsets.SETTING,
)


def predictive(run: FittedRun, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Location, scale and degrees of freedom of the Student-t law of y at the rows of x."""
    q = run.posterior["coefficients"]
    location, shape, rate = (np.asarray(part, np.float64) for part in (q.location, q.shape, q.rate))
    cov = np.linalg.inv(np.asarray(q.strength, np.float64))
    spread = 1 + np.einsum("nd,de,ne->n", x, cov, x, optimize=True)
    return x @ location, np.sqrt(spread * rate / shape), float(2 * shape)


def score(run: FittedRun) -> RowScore:
    """Log predictive density, Student-t, of each row."""
    from scipy import stats  # slow to import

    x, y = pairs(run.data.test, run.settings)
    location, scale, degrees = predictive(run, x)
    error = np.sqrt(np.mean((y - location) ** 2))
    remark = (
        f"root mean square error {error:.4g}, R2 {1 - error**2 / max(float(np.var(y)), 1e-300):.3f}"
    )
    return RowScore.of(stats.t.logpdf(y, degrees, location, scale), "row", remark)


def describe(run: FittedRun) -> list[Block]:
    """Coefficients with their deviations, relevance, noise, and predictions beside data."""
    q = run.posterior["coefficients"]
    columns = list(run.data.names) + ["intercept"] * run.settings.intercept
    shape, rate = float(q.shape), float(q.rate)
    location = np.asarray(q.location, float)
    turn = table_units(run.data.train).coefficients(run.settings.intercept)
    mean = turn @ location
    mean[len(run.data.names) :] += offsets.get_offset(run.settings)
    inverse = np.linalg.inv(np.asarray(q.strength, np.float64))
    cov = turn @ inverse @ turn.T * rate / max(shape - 1, 1e-6)
    prior = np.diag(turn) / np.sqrt(np.asarray(run.posterior["relevance"].mean(), float))
    x, y = pairs(run.data.train, run.settings)
    fitted = x @ location
    offset = offsets.get_offset(run.settings)
    deviation = np.sqrt(rate / max(shape - 1, 1e-6))
    scales = table_units(run.data.train).spread(np.std(run.data.train.x, axis=0))
    return [
        *views.coefficients("Coefficients", columns, mean, np.sqrt(np.diag(cov)), scales),
        Table("Relevance", ["", "prior deviation"], list(zip(columns, prior, strict=True))),
        Table("Noise", ["", "value"], [["standard deviation", float(deviation)]]),
        Scatter(
            "Fit",
            "predicted",
            f"observed {run.data.train.target}",
            fitted + offset,
            y + offset,
            np.zeros(len(y), int),
        ),
    ]


def transform(run: FittedRun, table: Any, tell: Tell) -> RowResults:
    """The prediction of each row, and the central 90 % of its Student-t law."""
    from scipy import stats  # slow to import

    location, scale, degrees = predictive(run, design(table, run.settings))
    tell(len(location))
    reach = scale * stats.t.ppf(0.95, degrees)
    results = {"prediction": location, "low": location - reach, "high": location + reach}
    return offsets.add_offset(results, run.settings)


LISTING = Listing(
    Settings,
    TABLES,
    EnergyAlgorithm,
    describe,
    pairs,
    score,
    target=lambda settings: "real",
    transform=transform,
    predicts="prediction",
    manner=lambda settings: "each" if settings.intercept else None,
    drawing=TARGETS,
    build=lambda settings, data: build_from_section(
        settings, data, dim=len(data.names) + settings.intercept
    ),
)
