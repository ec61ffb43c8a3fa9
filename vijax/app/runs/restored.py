"""From a run folder back to the fit, finished or not: nothing in it is executed but what its user allows."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax

from vijax.app.kinds.assemble import load_data, make_algorithm, state_like, state_needs_data
from vijax.app.kinds.listing import Data, Seen
from vijax.app.runs.kept_mixture import as_kept
from vijax.app.runs.run_folder import check_same_data, latest_checkpoint
from vijax.app.runs.versions import other_version
from vijax.app.settings.config import Config, ConfigError
from vijax.data.reading.checks import DataError
from vijax.fitting.checkpoint import CheckpointError, OtherTreeError
from vijax.fitting.restarts import best_state
from vijax.fitting.result import Fit


def restore(folder: Path, config: Config, data: Data | None = None, moved: str | None = None) -> Seen:
    """The fit that the newest checkpoint of a run holds. What the run has kept of its data, words or columns, is enough
    to make its model again, unless the model or its state are of the data themselves: those are read once more.

    Args:
      folder: of the run.
      config: its settings.
      data: its data, where they have been read already.
      moved: where its data are now, if that is not where they were.

    Raises:
      ConfigError: nothing was saved yet; the data are needed, and are gone or have changed; another version of vijax
        has left something that this one cannot read.
    """
    data = data or _kept(folder, config) or again(folder, config, moved)
    algorithm = as_kept(folder, config, make_algorithm(config, data))
    try:
        found = latest_checkpoint(folder, config, state_like(config, algorithm, data), say=lambda message: None)
    except OtherTreeError as error:
        lost = f". Or what it has kept of its data is damaged: write that again, vijax resume {folder}."
        raise ConfigError(f"{error}{other_version(folder) or lost}") from error
    except CheckpointError as error:
        raise ConfigError(f"{error}{other_version(folder)}") from error
    if found is None:
        raise ConfigError(f"{folder}: nothing was saved yet; go on with it: vijax resume {folder}")
    fit = Fit(algorithm, best_state(found.tree), {}, None)
    return Seen(fit, data, config.model, jax.random.key(config.fit.seed))


def _kept(folder: Path, config: Config) -> Data | None:
    """What stands in for the data; None where it is not enough."""
    listing = config.listing
    kept = None if listing.needs_rows else listing.source.kept(folder)
    if kept is None or (listing.reads_documents and state_needs_data(config, make_algorithm(config, kept))):
        return None
    return kept


def again(folder: Path, config: Config, moved: str | None = None) -> Data:
    """The data of a run, read again, and known to be the same.

    Raises:
      ConfigError: they are gone, or have changed.
    """
    try:
        data = load_data(at(config, moved))
    except (DataError, OSError) as error:
        raise ConfigError(f"{folder}: {_why(config)}, and these cannot be read: {error}{_REMEDY}") from error
    check_same_data(folder, config, data)
    return data


_REMEDY = (
    " Put them back; or say where they are now, as `vijax transform` and `evaluate` take it: --training PATH "
    "(vijax.load(..., training=PATH))."
)


def _why(config: Config) -> str:
    if config.listing.needs_rows:
        return f"what {config.listing.name} says of new data rests on its training data"
    return "this needs the training data of the run"


def at(config: Any, path: str | None) -> Config:
    """The settings with the data elsewhere; as they are if nothing is said of where."""
    if path is None:
        return config
    resolved = str(Path(path).expanduser().resolve()) if Path(path).expanduser().exists() else path
    return dataclasses.replace(config, data=dataclasses.replace(config.data, path=resolved))
