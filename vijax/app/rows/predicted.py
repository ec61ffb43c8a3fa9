"""Draws of data from a run, in the units of its data: means, intervals, single draws, files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from vijax.app.rows.by_row import new_rows, rows_ahead
from vijax.app.rows.transformed import Transformed
from vijax.app.settings.typed_toml import ConfigError
from vijax.app.settings.units import table_units
from vijax.app.sources.listing import FittedRun, New
from vijax.app.sources.offsets import get_offset
from vijax.checks import require
from vijax.data.tables.table import naming_rows


@dataclasses.dataclass(frozen=True, repr=False)
class Draws:
    """Draws of a table from the posterior predictive distribution.

    >>> draws = Draws(np.array([[[1.0]], [[3.0]]]), ("height",), {"row": [0]})
    >>> draws.mean().tolist(), draws.interval(0.5)[0].tolist()
    ([[2.0]], [[1.5]])
    >>> list(draws.summary().columns())
    ['row', 'height_mean', 'height_sd', 'height_low', 'height_high']
    """

    # (draws, rows, columns), in the units of the data; -1 and +1 for two classes, NaN for rows that
    # lack a cell
    values: Float[np.ndarray, "draws N D"]
    names: tuple[str, ...]  # names of the columns
    # columns that are passed through, by name: identifiers, groups, number of steps ahead
    beside: Mapping[str, Any]
    classes: tuple[str, str] | None = None  # names of the two classes of a target
    notes: tuple[str, ...] = ()  # notes for the reader

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        count, rows, _ = self.values.shape
        return (
            f"Draws({count:,} of {rows:,} rows of {', '.join(self.names)}; beside: "
            f"{', '.join(self.beside)})"
        )

    def mean(self) -> Float[np.ndarray, "N D"]:
        """Means over the draws."""
        return self.values.mean(axis=0)

    def std(self) -> Float[np.ndarray, "N D"]:
        """Standard deviations over the draws."""
        return self.values.std(axis=0)

    def quantile(self, p: Any) -> np.ndarray:
        """Quantiles over the draws, for each number of `p` first."""
        return np.quantile(self.values, p, axis=0)

    def interval(
        self, level: float = 0.9
    ) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N D"]]:
        """Low and high ends of central intervals that hold a value with probability `level`."""
        require(0 < level < 1, "level", "a probability between 0 and 1", level)
        low, high = self.quantile([0.5 - 0.5 * level, 0.5 + 0.5 * level])
        return low, high

    def summary(self, level: float = 0.9) -> Transformed:
        """Mean, standard deviation and interval of each column for each row; for a target of two
        classes the probability of the second class."""
        if self.classes is not None:
            target = self.values[..., 0]
            chance = np.where(np.isnan(target).any(axis=0), np.nan, (target > 0).mean(axis=0))
            return Transformed({f"probability_{self.classes[1]}": chance}, self.beside, self.notes)
        low, high = self.interval(level)
        statistics = {"mean": self.mean(), "sd": self.std(), "low": low, "high": high}
        columns = {}
        for d, name in enumerate(self.names):
            for part, x in statistics.items():
                columns[f"{name}_{part}"] = x[:, d]
        return Transformed(columns, self.beside, self.notes)

    def each(self) -> Transformed:
        """A row for each row of each draw."""
        count, rows, _ = self.values.shape
        beside = {
            name: np.tile(np.asarray(values, object), count) for name, values in self.beside.items()
        }
        columns = self.values.reshape(count * rows, -1).T
        results: dict[str, np.ndarray] = dict(zip(self.names, columns, strict=True))
        if self.classes is not None:
            classes = np.array([*self.classes, ""], object)
            place = lambda x: np.where(np.isnan(x), -1, x > 0).astype(int)
            results = {name: classes[place(x)] for name, x in results.items()}
        return Transformed(
            results, {"draw": np.repeat(np.arange(count), rows), **beside}, self.notes
        )


def draw_like(
    run: FittedRun, listing: Any, new: New, key: PRNGKeyArray, num_draws: int, groups: str
) -> Draws:
    """Draws of a table like `new`: see `vijax.app.folder.loaded.Run.predictive`."""
    with naming_rows(new.data):
        values = listing.drawing.draw(run, new.data, key, num_draws, groups)
    if new.places is not None:
        all_rows = np.full((len(values), len(new.beside["row"]), values.shape[-1]), np.nan)
        all_rows[:, new.places] = values
        values = all_rows
    return _draws(run, listing, values, new.beside, new.notes)


def draw_new(run: FittedRun, listing: Any, key: PRNGKeyArray, num_draws: int, sizes: Any) -> Draws:
    """Draws of new rows, or of new sequences of these sizes."""
    if listing.drawing.of_target:
        raise ConfigError(
            f"a run of {listing.name} draws its target given the other columns: name a table of "
            "those columns"
        )
    return _draws(run, listing, *new_rows(run, key, num_draws, sizes))


def draw_ahead(
    run: FittedRun, listing: Any, new: New, key: PRNGKeyArray, num_draws: int, num_steps: int
) -> Draws:
    """Draws of the next steps of each sequence."""
    with naming_rows(new.data):
        data = listing.arrange(new.data, run.settings)
        ahead = rows_ahead(run, new.data, data, key, num_draws, num_steps)
    return _draws(run, listing, *ahead, new.notes)


def check_has_forecasts(listing: Any) -> None:
    """Raises a `ConfigError` if the data of a model have no next steps."""
    if listing.drawing is None or not listing.drawing.of_steps:
        raise ConfigError(
            f"{listing.name} has no order of time, so that nothing can be forecast. Forecasts are "
            "for hmm, "
            "hdp_hmm, factorial_hmm, arhmm, slds, recurrent_slds, state_space and dynamic_svae"
        )


def _draws(
    run: FittedRun, listing: Any, values: np.ndarray, beside: Mapping[str, Any], notes: Any = ()
) -> Draws:
    train = run.data.train
    if listing.drawing.of_target:
        if not train.classes:
            values = np.asarray(values, float) + get_offset(run.settings)
        return Draws(values, (train.target,), beside, train.classes, tuple(notes))
    if listing.drawing.is_scaled(run.settings):
        values = table_units(train).points(values)
    return Draws(values, train.columns, beside, None, tuple(notes))
