"""The stage of a fit by `vijax.auto` or `vijax.dadvi` that was stopped, in the folder of its run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vijax.app.runs.run_folder import latest_checkpoint
from vijax.app.settings.options import settings_taken
from vijax.app.settings.typed_toml import flatten
from vijax.automatic.auto import MOST_FULL, NUM_STARTS
from vijax.automatic.trust_region import Stage, stage_like
from vijax.fitting import checkpoint
from vijax.fitting.result import Fit
from vijax.fitting.status import Status

FOLDER = "stage"


def read_stage(folder: Path, config: Any, algorithm: Any, say: Callable[[str], None]) -> Stage | None:
    """Where a fit that was stopped goes on; None where there is nothing to go on from.

    Raises:
      ConfigError: it is of other settings.
    """
    is_auto, dim = config.algorithm.name == "auto", algorithm.spec.model.free.variables.dim
    starts = (settings_taken(config.algorithm).get("num_starts") if is_auto else None) or NUM_STARTS
    found = latest_checkpoint(folder, config, stage_like(dim, starts, is_auto and dim <= MOST_FULL), say, FOLDER)
    return None if found is None else found.tree


def keep_stage(folder: Path, config: Any, fit: Fit) -> None:
    """Writes the stage of a fit that was stopped; one that has ended leaves none."""
    if fit.report.stage is not None:
        checkpoint.save(folder / FOLDER, 0, fit.report.stage, flatten(config))
    elif fit.status is not Status.INTERRUPTED:
        shutil.rmtree(folder / FOLDER, ignore_errors=True)
