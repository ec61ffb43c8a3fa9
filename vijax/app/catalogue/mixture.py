"""Mixtures on the command line: finite mixtures, and mixtures of a Dirichlet process."""

from __future__ import annotations

from typing import Any

import numpy as np

from vijax import models
from vijax.app.catalogue.parts import emissions
from vijax.app.catalogue.parts.emissions import EmissionConfig, InitConfig
from vijax.app.catalogue.parts.widened import deviations_of_rows
from vijax.app.drawing.blocks import Block, Table
from vijax.app.rows.by_row import ROWS, RowScore, check_data, read_in_blocks
from vijax.app.settings.options import build_from_section, make_option, model_section
from vijax.app.settings.sections import EnergyAlgorithm, grow
from vijax.app.settings.typed_toml import section, setting
from vijax.app.settings.units import log_scales
from vijax.app.sources.listing import Data, FittedRun, Listing, RowResults, Tell
from vijax.app.sources.tables import TABLES, values
from vijax.arguments import integer
from vijax.families.discrete import stick_breaking

GROW = grow("components", "num_components")
Settings = model_section(
    models.mixture,
    "mixture model: clusters of rows",
    without=("prior_as_point",),
    num_components=setting(5, "K, how many components", integer()),
    grow=GROW,
    emission=section(EmissionConfig),
    init=section(InitConfig),
)


def build(settings: Any, data: Data, incomplete: bool = False) -> Any:
    """The model; of rows in which cells may be missing."""
    size = settings.num_components
    emission = emissions.make(settings.emission, size, len(data.names), incomplete)
    return build_from_section(settings, data, emission=emission, init=make_option(settings.init))


def score(run: FittedRun) -> RowScore:
    """Log predictive density of each row, in the units of the data; of a point fit at the point."""
    row_score = run.fit.score(values(run.data.test), key=run.key)
    return RowScore.of(row_score.log_densities - log_scales(run.data.test), "row")


def describe(run: FittedRun) -> list[Block]:
    """Components that hold rows, largest first, and the rows by component."""
    return _clusters(run, np.asarray(run.point("weights"), float))


def _clusters(run: FittedRun, weights: np.ndarray) -> list[Block]:
    name = run.settings.emission.name
    columns = run.data.names
    x = values(run.data.train)
    # A Dirichlet process has more weight beyond its truncation.
    size = run.settings.num_components
    weights = weights[:size]
    probs = np.asarray(run.fit.locals(x, key=run.key)["z"].probs)
    labels = np.minimum(probs.argmax(axis=1), size - 1)
    rows = probs.sum(axis=0)[:size]
    within = deviations_of_rows(run.data.train.x, probs[:, :size])
    leading = {"weight": weights, "rows": rows}
    table = emissions.component_blocks(
        "Components", name, run, columns, leading, rows, within=within
    )
    return [*table, emissions.picture("Clusters", name, run, x, columns, labels, weights)]


def transform(run: FittedRun, table: Any, tell: Tell) -> RowResults:
    """The likeliest component of each row, and the probabilities of all."""

    def read(x: np.ndarray) -> RowResults:
        probs = np.asarray(run.fit.locals(x, key=run.key)["z"].probs)
        return {"component": probs.argmax(axis=1), "probability": probs}

    return read_in_blocks(read, check_data(run, values(table)), tell)


BY_ROW: dict[str, Any] = {
    "build": build,
    "transform": transform,
    "predicts": "component",
    "drawing": ROWS,
    "manner": emissions.manner,
    "takes_missing": emissions.takes_missing,
}
LISTING = Listing(Settings, TABLES, EnergyAlgorithm, describe, values, score, **BY_ROW)


# --- of a Dirichlet process -----------------------------------------------------------------------
DpSettings = model_section(
    models.dp_mixture,
    "Dirichlet-process mixture by stick breaking",
    learn=("concentration",),
    without=("prior_as_point",),
    num_components=setting(20, "T, where sticks are truncated", integer()),
    grow=GROW,
    emission=section(EmissionConfig),
    init=section(InitConfig),
)


def dp_score(run: FittedRun) -> RowScore:
    """The score of a mixture, with the number of components in use."""
    return score(run)._replace(remarks=f"{num_in_use(run)} components in use")


def num_in_use(run: FittedRun) -> int:
    """The number of components with at least half a row: a stick has its beta less the prior as
    rows; a last component without a stick has the rows of the last beta."""
    q = run.posterior["sticks"]
    prior = float(np.asarray(run.fit.state.hyper["concentration"]))
    rows = np.append(np.asarray(q.alpha) - 1, np.asarray(q.beta)[-1:] - prior)
    return int(np.sum(rows[: run.settings.num_components] >= emissions.LEAST_ROWS_HELD))


def dp_describe(run: FittedRun) -> list[Block]:
    """The truncation, and the blocks of `describe`."""
    weights = np.asarray(stick_breaking.mean_weights(run.fit.estimates["sticks"]), float)
    concentration = float(np.asarray(run.fit.state.hyper["concentration"]))
    size = ["truncation", run.settings.num_components]
    rows = [["components in use", num_in_use(run)], size, ["concentration", concentration]]
    return [Table("Truncation", ["", "value"], rows), *_clusters(run, weights)]


DP_MIXTURE = Listing(DpSettings, TABLES, EnergyAlgorithm, dp_describe, values, dp_score, **BY_ROW)
