"""Finite mixtures on the command line."""

from __future__ import annotations

from typing import Any

import numpy as np

from vijax import models
from vijax.app.kinds import emissions
from vijax.app.kinds.emissions import EmissionConfig, InitConfig
from vijax.app.kinds.listing import Data, Found, Listing, Seen, Tell
from vijax.app.kinds.tables import TABLES, values
from vijax.app.page.blocks import Block
from vijax.app.rows.by_row import checked, in_blocks
from vijax.app.rows.drawing import ROWS
from vijax.app.rows.scores import RowScore
from vijax.app.settings.options import built, chosen, model_section
from vijax.app.settings.sections import EnergyAlgorithm
from vijax.app.settings.typed_toml import section, setting
from vijax.app.settings.units import log_scales
from vijax.arguments import whole

Settings = model_section(
    models.mixture,
    "finite mixture of any exponential family",
    without=("prior_as_point",),
    num_components=setting(5, "K, how many components", whole()),
    emission=section(EmissionConfig),
    init=section(InitConfig),
)


def build(settings: Any, data: Data) -> Any:
    """The model."""
    emission = emissions.make(settings.emission, settings.num_components, len(data.names))
    return built(settings, data, emission=emission, init=chosen(settings.init))


def score(seen: Seen) -> RowScore:
    """Log predictive density of each row, in the units of the data; at a point, of the point."""
    found = seen.fit.score(values(seen.data.test), key=seen.key)
    return RowScore.of(found.log_densities - log_scales(seen.data.test), "row")


def describe(seen: Seen) -> list[Block]:
    """Components, largest first, and the rows by component."""
    name, columns, x = seen.settings.emission.name, seen.data.names, values(seen.data.train)
    weights = np.asarray(seen.point("weights"), float)
    labels = np.asarray(seen.fit.locals(x, key=seen.key)["z"].probs).argmax(axis=1)
    table = emissions.table_of_components("Components", name, seen, columns, {"weight": weights})
    return [*table, emissions.picture("Clusters", name, seen, x, columns, labels, weights)]


def transform(seen: Seen, table: Any, tell: Tell) -> Found:
    """The likeliest component of each row, and the probabilities of all."""

    def read(x: np.ndarray) -> Found:
        probs = np.asarray(seen.fit.locals(x, key=seen.key)["z"].probs)
        return {"component": probs.argmax(axis=1), "probability": probs}

    return in_blocks(read, checked(seen, values(table)), tell)


LISTING = Listing(
    Settings,
    TABLES,
    EnergyAlgorithm,
    describe,
    values,
    score,
    transform=transform,
    predicts="component",
    drawing=ROWS,
    build=build,
)
