"""The fit of a run folder, finished or not. Code in the folder needs the permission of the user."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax

from vijax.app.folder.at_once import kept_algorithm
from vijax.app.folder.run_folder import (
    check_same_data,
    latest_checkpoint,
    read_data_files,
    version_hint,
)
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import Config, ConfigError, absolute_path
from vijax.app.plan.plan import Plan
from vijax.app.settings.quoting import quote
from vijax.app.sources.listing import FittedRun
from vijax.data.reading.checks import DataError
from vijax.fitting.checkpoint import CheckpointError, OtherTreeError
from vijax.fitting.restarts import best_state, runs_to_average
from vijax.fitting.result import Fit

REMEDY = (
    " Put them back; or say where they are now, as `vijax transform` and `evaluate` take it: "
    "--training PATH (vijax.load(..., training=PATH))."
)


def restore_run(folder: Path, config: Config, moved: str | None = None) -> FittedRun:
    """The fit in the newest checkpoint of a run.

    The words or columns that the run has kept are enough to make its model, unless the model or its
    state are made of the data: then the data are read again, from `moved` if they have moved.
    """
    plan = _stand_in_plan(folder, config) or reread_plan(folder, config, moved)
    return restore(folder, plan)


def restore(folder: Path, plan: Plan) -> FittedRun:
    """The fit in the newest checkpoint of a run, on data that have been read."""
    config = plan.config
    algorithm = kept_algorithm(folder, plan)
    try:
        like = plan.state_like(algorithm)
        newest = latest_checkpoint(folder, config, like, say=lambda message: None)
    except OtherTreeError as error:
        damage_hint = (
            ". Or what it has kept of its data is damaged: write that again, vijax resume "
            f"{folder}."
        )
        raise ConfigError(f"{error}{version_hint(folder) or damage_hint}") from error
    except CheckpointError as error:
        raise ConfigError(f"{error}{version_hint(folder)}") from error
    if newest is None:
        raise ConfigError(
            f"{folder}: nothing was saved yet; go on with it: vijax resume {quote(folder)}"
        )
    words = tuple(plan.data.names) if config.listing.of_documents else None
    runs = runs_to_average(newest.tree, config.fit.use_of_runs)
    fit = Fit(algorithm, best_state(newest.tree), {}, None, vocabulary=words, runs=runs)
    return FittedRun(fit, plan.data, config.model, jax.random.key(config.fit.seed))


def _stand_in_plan(folder: Path, config: Config) -> Plan | None:
    """The plan of a run on data that stand in for its own; None if these are not enough."""
    listing = config.listing
    if listing.needs_rows:
        return None
    data = read_data_files(folder, config)
    if data is None:
        return None
    plan = Plan(config, data)
    if listing.reads_documents and plan.state_needs_data:
        return None
    return plan


def reread_plan(folder: Path, config: Config, moved: str | None = None) -> Plan:
    """The plan of a run on its data, which are read again and checked to be the same."""
    try:
        plan = Plan(config, load_data(with_data_path(config, moved)))
    except (DataError, OSError) as error:
        reason = "this needs the training data of the run"
        if config.listing.needs_rows:
            reason = f"what {config.listing.name} says of new data rests on its training data"
        raise ConfigError(
            f"{folder}: {reason}, and these cannot be read: {error}{REMEDY}"
        ) from error
    check_same_data(folder, plan)
    return plan


def with_data_path(config: Any, path: str | None) -> Config:
    """The settings with the data at another path; unchanged for None."""
    if path is None:
        return config
    return dataclasses.replace(
        config, data=dataclasses.replace(config.data, path=absolute_path(path))
    )
