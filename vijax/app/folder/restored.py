"""The fit of a run folder, finished or not. No code in the folder is executed unless its user
allows it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax

from vijax.app.folder.at_once import as_kept
from vijax.app.folder.run_folder import check_same_data, latest_checkpoint, other_version, read_kept
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import Config, ConfigError, resolved
from vijax.app.plan.plan import Plan
from vijax.app.sources.listing import FittedRun
from vijax.data.reading.checks import DataError
from vijax.fitting.checkpoint import CheckpointError, OtherTreeError
from vijax.fitting.restarts import best_state
from vijax.fitting.result import Fit

REMEDY = (
    " Put them back; or say where they are now, as `vijax transform` and `evaluate` take it: "
    "--training PATH (vijax.load(..., training=PATH))."
)


def restore_run(folder: Path, config: Config, moved: str | None = None) -> FittedRun:
    """The fit that the newest checkpoint of a run holds. The words or columns that the run has kept
    are enough to make its model again, unless the model or its state are made of the data
    themselves: then these are read once more, from `moved` where they have another place now."""
    return restore(folder, _kept(folder, config) or again(folder, config, moved))


def restore(folder: Path, plan: Plan) -> FittedRun:
    """The fit that the newest checkpoint of a run holds, on data that have been read."""
    config = plan.config
    algorithm = as_kept(folder, plan)
    try:
        found = latest_checkpoint(
            folder, config, plan.state_like(algorithm), say=lambda message: None
        )
    except OtherTreeError as error:
        lost = (
            ". Or what it has kept of its data is damaged: write that again, vijax resume "
            f"{folder}."
        )
        raise ConfigError(f"{error}{other_version(folder) or lost}") from error
    except CheckpointError as error:
        raise ConfigError(f"{error}{other_version(folder)}") from error
    if found is None:
        raise ConfigError(f"{folder}: nothing was saved yet; go on with it: vijax resume {folder}")
    words = tuple(plan.data.names) if config.listing.of_documents else None
    fit = Fit(algorithm, best_state(found.tree), {}, None, vocabulary=words)
    return FittedRun(fit, plan.data, config.model, jax.random.key(config.fit.seed))


def _kept(folder: Path, config: Config) -> Plan | None:
    """The plan of a run on data that stand in for its own; None where these are not enough."""
    listing = config.listing
    kept = None if listing.needs_rows else read_kept(folder, config)
    if kept is None:
        return None
    plan = Plan(config, kept)
    return None if listing.reads_documents and plan.state_needs_data else plan


def again(folder: Path, config: Config, moved: str | None = None) -> Plan:
    """The plan of a run on its data, which are read again, and checked to be the same."""
    try:
        plan = Plan(config, load_data(at(config, moved)))
    except (DataError, OSError) as error:
        own = f"what {config.listing.name} says of new data rests on its training data"
        why = own if config.listing.needs_rows else "this needs the training data of the run"
        raise ConfigError(f"{folder}: {why}, and these cannot be read: {error}{REMEDY}") from error
    check_same_data(folder, plan)
    return plan


def at(config: Any, path: str | None) -> Config:
    """The settings with the data at another path; as they are for None."""
    if path is None:
        return config
    return dataclasses.replace(config, data=dataclasses.replace(config.data, path=resolved(path)))
