"""Forecasts on the page of a run of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vijax.app.drawing.blocks import Block, Curves
from vijax.app.drawing.cuts import first_note
from vijax.app.rows.times import sequence_times
from vijax.app.settings.units import table_units
from vijax.app.sources.listing import FittedRun
from vijax.app.sources.tables import padded_sequences

PAST = 60
"""Steps that are drawn before the end of a sequence."""
AHEAD = 20
"""Steps that are drawn after the end of a sequence."""
NUM_DRAWS = 400
LEVEL = 0.9
MOST_SEQUENCES = 12
"""Number of first sequences of which the longest is drawn."""
MOST_COLUMNS = 4
"""Number of columns that are drawn."""


def longest_of_first(number: int, most: int) -> str:
    """A note on which sequence is drawn; "" for a single one.

    >>> longest_of_first(60, 12), longest_of_first(5, 12), longest_of_first(1, 12)
    (' The longest of the first 12 of 60 sequences.', ' The longest of 5 sequences.', '')
    """
    if number == 1:
        return ""
    first = f"the first {most:,} of " if number > most else ""
    return f" The longest of {first}{number:,} sequences."


def _title(columns: Sequence[str], sequence: str) -> str:
    """The title of forecasts of some columns; `sequence` is "" where there is one alone.

    >>> _title(["sales"], ""), _title(["x", "y"], "b")
    ('Forecast of sales', 'Forecasts of sequence b')
    """
    if len(columns) > 1:
        return f"Forecasts of sequence {sequence}" if sequence else "Forecasts"
    title = f"Forecast of {columns[0]}"
    if sequence:
        title += f", sequence {sequence}"
    return title


def forecasts(run: FittedRun, data: Any = None, is_scaled: bool = True) -> list[Block]:
    """The next steps of the longest of the first sequences; none if they need inputs, which are
    unknown.

    Args:
      run: the fit with its data.
      data: the sequences as the model reads them.
      is_scaled: True if they are in units of standardised columns.
    """
    if getattr(run.settings, "num_inputs", 0):
        return []
    y, mask = padded_sequences(run.data.train) if data is None else data
    longest = int(mask[:MOST_SEQUENCES].sum(axis=1).argmax())
    steps = int(mask[longest].sum())
    sequence = y[longest : longest + 1, :steps], mask[longest : longest + 1, :steps]
    draws = np.asarray(run.fit.forecast(run.key, NUM_DRAWS, sequence, AHEAD), float)[:, 0]
    ends = np.quantile(draws, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL], axis=0)
    past = np.asarray(y[longest, max(0, steps - PAST) : steps], float)
    unknown = np.full(past.shape, np.nan)
    to_units = table_units(run.data.train).points if is_scaled else np.asarray
    parts = [(past, draws.mean(0)), *((unknown, end) for end in ends)]
    mean, low, high = (to_units(np.concatenate(part)).T[:MOST_COLUMNS] for part in parts)
    name = (run.data.train.group_names or ("",))[longest]
    times = sequence_times(run.data.train, longest)
    x = times.with_ahead(AHEAD)[steps - len(past) :]
    note = (
        f"The last steps, then means of the next {AHEAD}, with {100 * LEVEL:.0f} % of what the "
        "model expects."
    )
    note += longest_of_first(len(mask), MOST_SEQUENCES)
    note = first_note(
        note,
        MOST_COLUMNS,
        run.data.names,
        "columns",
        "the table of `vijax predict RUN --steps 20`",
    )
    columns = run.data.names[:MOST_COLUMNS]
    title = _title(columns, name)
    return [Curves(title, times.label, columns, x, mean, low, high, note)]
