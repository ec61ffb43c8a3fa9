"""Run folders of earlier versions, in which some settings had another meaning: they are read with
that meaning.

`gp` and `glm` with a gaussian or student_t likelihood once had a noise of one if none was set; now
the noise is learnt. The checkpoint tells which it was: it holds the law of the noise, or does not.
"""

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
EARLIER_NOISE = 1.0
"""The noise of a run that set none."""


def with_earlier_noise(folder: Path, config: Config) -> Config:
    """The configuration of a run, with the noise that it had if its settings name none."""
    likelihood = getattr(config.model, "likelihood", None)
    scale = SCALES.get(getattr(likelihood, "name", ""))
    if scale is None or getattr(likelihood, scale) is not None or not _had_fixed_noise(folder):
        return config
    fixed: Any = dataclasses.replace(likelihood, **{scale: EARLIER_NOISE})  # type: ignore[type-var]
    return dataclasses.replace(config, model=dataclasses.replace(config.model, likelihood=fixed))


def earlier_noise(folder: Path, settings: Mapping[str, Any]) -> dict[str, float]:
    """The setting of noise that the settings of a checkpoint leave out, with its value then."""
    scale = SCALES.get(str(settings.get(f"{LIKELIHOOD}.name")))
    key = f"{LIKELIHOOD}.{scale}"
    if scale is None or settings.get(key) is not None or not _had_fixed_noise(folder):
        return {}
    return {key: EARLIER_NOISE}


def _had_fixed_noise(folder: Path) -> bool:
    """True if the newest checkpoint has predictors, but no law of their noise."""
    places = latest_places(folder / "checkpoints")
    has_predictors = any("['z']" in place for place in places)
    has_noise = any("['noise']" in place for place in places)
    return has_predictors and not has_noise
