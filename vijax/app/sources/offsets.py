"""The number from which a target is measured: near 2,020,000 float32 has steps of an eighth, and
priors are about 0.

A run keeps it as `model.offset`, so that later rows have the same offset. Models of counts and of
classes have none, and regressions without an intercept neither, for which zero is special.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from vijax.app.settings.typed_toml import setting
from vijax.checks import require

SETTING = (
    float | None,
    setting(
        None,
        "number that is subtracted from a target of numbers for the fit, and added to what is "
        "predicted; unset: the mean of the training rows, where there is an intercept",
    ),
)
"""The setting, for a section of a model."""


MOVABLE = ("gaussian", "student_t")
"""Laws of a target whose mean is the predictor: it may be measured from any number."""


def get_offset(settings: Any) -> float:
    """The offset of a model's target; 0 without one.

    >>> import types
    >>> get_offset(types.SimpleNamespace(offset=7.5)), get_offset(None)
    (7.5, 0.0)
    """
    offset = getattr(settings, "offset", None)
    return 0.0 if offset is None else float(offset)


def with_offset(settings: Any, kind: str, train: Any) -> Any:
    """The settings, with the offset if the user has left it open.

    Args:
      settings: the section of the model.
      kind: kind of its target, "real" for numbers.
      train: the training rows.

    Raises:
      ValueError: an offset of counts, classes or positive numbers.
    """
    if not hasattr(settings, "offset"):
        return settings
    y = getattr(train, "y", None)
    law = getattr(getattr(settings, "likelihood", None), "name", "gaussian")
    may_move = kind == "real" and law in MOVABLE
    if settings.offset is not None:
        require(
            may_move or settings.offset == 0,
            "model.offset",
            f"none, for a target of {law}",
            settings.offset,
        )
        return settings
    if not may_move or not getattr(settings, "intercept", True) or y is None or not len(y):
        return settings
    mean = float(np.mean(np.asarray(y, float)))
    return dataclasses.replace(settings, offset=mean if np.isfinite(mean) else 0.0)


def add_offset(predictions: dict[str, Any], settings: Any) -> dict[str, Any]:
    """Predictions of a target with its offset added; with no offset (classes, counts) unchanged."""
    offset = get_offset(settings)
    if offset == 0:
        return predictions
    return {name: np.asarray(values, float) + offset for name, values in predictions.items()}
