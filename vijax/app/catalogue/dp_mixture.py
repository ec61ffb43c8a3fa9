# ruff: noqa: RUF009
"""Dirichlet-process mixtures on the command line."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from vijax import models
from vijax.app.catalogue import mixture
from vijax.app.kinds import emissions
from vijax.app.kinds.emissions import EmissionConfig, InitConfig
from vijax.app.kinds.listing import Data, Listing, Seen
from vijax.app.kinds.tables import TABLES, values
from vijax.app.page.blocks import Block, Table
from vijax.app.rows.drawing import ROWS
from vijax.app.rows.scores import RowScore
from vijax.app.settings.options import chosen
from vijax.app.settings.sections import EnergyAlgorithm
from vijax.app.settings.typed_toml import POSITIVE, at_least, section, setting
from vijax.app.settings.units import log_scales
from vijax.families.discrete import stick_breaking


@dataclasses.dataclass(frozen=True)
class Settings:
    """[model]: the generative story."""

    name: Literal["dp_mixture"] = setting("dp_mixture", "Dirichlet-process mixture by stick breaking")
    num_components: int = setting(20, "T, where sticks are truncated", at_least(1))
    concentration: float = setting(1.0, "of the process: about that times log(1 + N / that) components", POSITIVE)
    truncation: Literal["finite", "tied"] = setting(
        "finite", "finite: the last stick takes all (Blei and Jordan); tied: the prior beyond T (Kurihara et al.)"
    )
    learn: tuple[Literal["concentration"], ...] = setting((), 'whether the concentration is learnt: ["concentration"]')
    emission: EmissionConfig = section(EmissionConfig)
    init: InitConfig = section(InitConfig)


def build(settings: Settings, data: Data) -> Any:
    """The model."""
    emission = emissions.make(settings.emission, settings.num_components, len(data.names))
    return models.dp_mixture(emission, settings.concentration, settings.truncation, chosen(settings.init))


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
    build,
    describe,
    values,
    score,
    transform=mixture.transform,
    predicts="component",
    drawing=ROWS,
)
