"""Dirichlet-process mixtures on the command line."""

from __future__ import annotations

import numpy as np

from vijax import models
from vijax.app.catalogue import mixture
from vijax.app.kinds import emissions
from vijax.app.kinds.emissions import EmissionConfig, InitConfig
from vijax.app.kinds.listing import Listing, Seen
from vijax.app.kinds.tables import TABLES, values
from vijax.app.page.blocks import Block, Table
from vijax.app.rows.drawing import ROWS
from vijax.app.rows.scores import RowScore
from vijax.app.settings.options import model_section
from vijax.app.settings.sections import EnergyAlgorithm
from vijax.app.settings.typed_toml import section, setting
from vijax.app.settings.units import log_scales
from vijax.arguments import whole
from vijax.families.discrete import stick_breaking

Settings = model_section(
    models.dp_mixture,
    "Dirichlet-process mixture by stick breaking",
    learn=("concentration",),
    without=("prior_as_point",),
    num_components=setting(20, "T, where sticks are truncated", whole()),
    emission=section(EmissionConfig),
    init=section(InitConfig),
)


def score(seen: Seen) -> RowScore:
    """Log predictive density of each row, in the units of the data."""
    found = seen.fit.score(values(seen.data.test), key=seen.key)
    return RowScore.of(found.log_densities - log_scales(seen.data.test), "row", f"{used(seen)} components in use")


def used(seen: Seen) -> int:
    """Components that account for at least half a row."""
    weights = np.asarray(stick_breaking.mean_weights(seen.fit.estimates["sticks"]))
    return int(np.sum(weights[: seen.settings.num_components] * seen.data.train.num_rows >= 0.5))


def describe(seen: Seen) -> list[Block]:
    """Components in use, largest first, and the rows by component."""
    name, columns, x = seen.settings.emission.name, seen.data.names, values(seen.data.train)
    weights = np.asarray(stick_breaking.mean_weights(seen.fit.estimates["sticks"]), float)
    probs = np.asarray(seen.fit.locals(x, key=seen.key)["z"].probs)
    size = seen.settings.num_components
    labels = np.minimum(probs.argmax(axis=1), size - 1)
    table = emissions.table_of_components(
        "Components", name, seen, columns, {"weight": weights[:size], "rows": probs.sum(axis=0)[:size]}
    )
    concentration = float(np.asarray(seen.fit.state.hyper["concentration"]))
    facts = Table(
        "Truncation",
        ["", "value"],
        [["components in use", used(seen)], ["truncation", size], ["concentration", concentration]],
    )
    return [facts, *table, emissions.picture("Clusters", name, seen, x, columns, labels, weights[:size])]


LISTING = Listing(
    Settings,
    TABLES,
    EnergyAlgorithm,
    describe,
    values,
    score,
    transform=mixture.transform,
    predicts="component",
    drawing=ROWS,
    build=mixture.build,
)
