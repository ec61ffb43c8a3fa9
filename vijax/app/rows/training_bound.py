"""The fit of a run to its training data: its bound, where nothing was held out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vijax.app.comparing.comparison import (
    UNUSABLE,
    Compared,
    Comparison,
    check_same_data,
    ending,
    keys_that_differ,
    values_of,
)
from vijax.app.runs.run_folder import read_run_config
from vijax.app.settings.config import Config, ConfigError
from vijax.evaluate import Difference, metrics

POINTS = ("em", "map")
"""Algorithms that find points."""


class TrainingBound(NamedTuple):
    """The bound on the log evidence of the training data, nats, averaged over the last pass.

    Attributes:
      mean: mean per word (row, step).
      per: name of this unit.

    >>> print(TrainingBound(-2.5, "row"))
    -2.500 nats per row (bound on the training data)
    """

    mean: float
    per: str

    @property
    def standard_error(self) -> float:
        """NaN: it is not known, because the bound is on the training data."""
        return float("nan")

    def __str__(self) -> str:
        return f"{self.mean:.3f} nats per {self.per} (bound on the training data)"


def training_bound(folder: Path, config: Config) -> TrainingBound:
    """The training bound of a run, from the records of its steps.

    Raises:
      ConfigError: the run has written none.
    """
    curves = metrics.read_curves(folder / "metrics.jsonl")
    finite = np.flatnonzero(np.isfinite(curves.elbo))
    if not len(finite):
        raise ConfigError(f"{folder}: no step of it has a bound, so that there is nothing to compare")
    return TrainingBound(float(metrics.over_a_pass(curves)[finite[-1]]), config.listing.per)


def compare_by_training(folders: Sequence[Path]) -> Comparison:
    """Compares runs by their bounds on the training data, where none can be held out.

    Args:
      folders: folders of two runs or more, of the same data.

    Raises:
      ConfigError: fewer than two; runs of other data, or whose bounds are per other things; nothing was written yet.
    """
    configs = [read_run_config(folder) for folder in folders]
    check_same_data(folders)
    found = [training_bound(folder, config) for folder, config in zip(folders, configs, strict=True)]
    if len({bound.per for bound in found}) > 1:
        raise ConfigError(f"their bounds are per {' and per '.join(sorted({b.per for b in found}))}: not comparable")
    usable = [i for i, folder in enumerate(folders) if ending(folder) != UNUSABLE]
    if not usable:
        raise ConfigError(f"{folders[0]} and the others are not to be used: their verdicts say why")
    best = max(usable, key=lambda i: found[i].mean)
    keys = keys_that_differ(configs)
    runs = [
        Compared(folder, values_of(config, keys), bound, _by_means(found, i, best), None, _remark(folder, config))
        for i, (folder, config, bound) in enumerate(zip(folders, configs, found, strict=True))
    ]
    return Comparison(keys, tuple(runs), best, training=True)


def _by_means(found: Sequence[TrainingBound], i: int, best: int) -> Difference | None:
    return None if i == best else Difference(found[best].mean - found[i].mean, float("nan"))


def _remark(folder: Path, config: Config) -> str:
    """The end of a run, and "point estimates": a likelihood at a point is no bound on the evidence."""
    return ", ".join(filter(None, [ending(folder), "point estimates" if config.algorithm.name in POINTS else ""]))
