"""Run folders of earlier versions, whose settings meant something else: they are read as they were
written.

Runs of `gp` and `glm` whose likelihood is gaussian or student_t had a noise of one where none was
set; now it is learnt. Which of both a run did, its checkpoint says: it holds the law of the noise,
or does not."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vijax.app.plan.config import Config
from vijax.fitting.checkpoint import latest_places

SCALES = {"gaussian": "variance", "student_t": "scale"}
"""The setting of the noise of each likelihood."""
LIKELIHOOD = "model.likelihood"
AS_IT_WAS = 1.0
"""The noise of a run that set none."""


def with_noise_of_then(folder: Path, config: Config) -> Config:
    """The configuration of a run, with the noise that it had where its settings name none."""
    likelihood = getattr(config.model, "likelihood", None)
    scale = SCALES.get(getattr(likelihood, "name", ""))
    if scale is None or getattr(likelihood, scale) is not None or not _had_its_noise_given(folder):
        return config
    known: Any = dataclasses.replace(likelihood, **{scale: AS_IT_WAS})  # type: ignore[type-var]
    return dataclasses.replace(config, model=dataclasses.replace(config.model, likelihood=known))


def noise_of_then(folder: Path, settings: Mapping[str, Any]) -> dict[str, float]:
    """The setting of noise that the settings of a checkpoint leave out, with what it meant."""
    scale = SCALES.get(str(settings.get(f"{LIKELIHOOD}.name")))
    key = f"{LIKELIHOOD}.{scale}"
    if scale is None or settings.get(key) is not None or not _had_its_noise_given(folder):
        return {}
    return {key: AS_IT_WAS}


def _had_its_noise_given(folder: Path) -> bool:
    """True where the newest checkpoint has predictors, but no law of their noise."""
    places = latest_places(folder / "checkpoints")
    return any("['z']" in place for place in places) and not any(
        "['noise']" in place for place in places
    )
