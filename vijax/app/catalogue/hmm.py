"""Hidden Markov models on the command line."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from vijax import models
from vijax.app.kinds import emissions
from vijax.app.kinds.emissions import EmissionConfig
from vijax.app.kinds.listing import Data, Found, Seen, Tell
from vijax.app.kinds.tables import by_sequence, padded_sequences, sequence_model
from vijax.app.page.blocks import Block, Course, Heat, Strips
from vijax.app.rows.by_row import checked, in_blocks_of_sequences
from vijax.app.rows.drawing import SEQUENCES
from vijax.app.rows.scores import RowScore, sequences
from vijax.app.settings.options import built, model_section
from vijax.app.settings.typed_toml import section, setting
from vijax.app.settings.units import log_scales, units_of
from vijax.arguments import whole

MOST_SHOWN = 12
"""Sequences whose states are drawn."""
MOST_STEPS, MOST_COLUMNS = 400, 4
"""Of the one that is drawn with its columns."""
STAYING = "From the state of the row to that of the column; staying, on the diagonal, has no colour."

Settings = model_section(
    models.hmm,
    "hidden Markov model of sequences",
    without=("prior_as_point",),
    num_states=setting(3, "K, how many states", whole()),
    emission=section(EmissionConfig),
)


def build(settings: Any, data: Data) -> Any:
    """The model."""
    return built(settings, data, emission=emissions.make(settings.emission, settings.num_states, len(data.names)))


def score(seen: Seen) -> RowScore:
    """Log probability of sequences, per step, in the units of the data; at a point, of the point."""
    y, mask = padded_sequences(seen.data.test)
    lengths = mask.sum(axis=1)
    found = seen.fit.score((y, mask), key=seen.key)
    logs = found.log_probs - by_sequence(seen.data.test, log_scales(seen.data.test))
    return RowScore.of(logs, "step", sequences(len(lengths)), lengths)


likeliest_paths = jax.jit(jax.vmap(lambda z: z.mode()))
"""Viterbi's, of a chain a sequence."""


def describe(seen: Seen) -> list[Block]:
    """States, the transition matrix, paths and the rows by state."""
    name, columns = seen.settings.emission.name, seen.data.names
    y, mask = padded_sequences(seen.data.train)
    z = seen.fit.locals((y, mask), key=seen.key)["z"]
    paths = np.where(mask, np.asarray(likeliest_paths(z)), -1)
    size = seen.settings.num_states
    share = np.bincount(paths[mask], minlength=size) / mask.sum()
    transition = np.asarray(seen.point("transition"), float)
    stay = 1 / np.maximum(1 - np.diag(transition), 1e-6)
    states = [str(k) for k in range(size)]
    leading = {"share": share, "steps at a time": stay}
    names = seen.data.train.group_names or ("all",)
    return [
        *emissions.table_of_components("States", name, seen, columns, leading),
        Heat("Transitions", states, states, transition, STAYING, True),
        *_course(seen, y, mask, paths, np.asarray(z.probs)),
        Strips("Likeliest paths", names[:MOST_SHOWN], paths[:MOST_SHOWN], "Viterbi; a colour a state."),
        emissions.picture("Steps by state", name, seen, y[mask], columns, paths[mask], share),
    ]


def _course(seen: Seen, y: np.ndarray, mask: np.ndarray, paths: np.ndarray, probs: np.ndarray) -> list[Block]:
    """The longest of the first sequences with its states beneath it."""
    chosen = int(mask[:MOST_SHOWN].sum(axis=1).argmax())
    steps = min(int(mask[chosen].sum()), MOST_STEPS)
    name = (seen.data.train.group_names or ("all",))[chosen]
    columns, values = seen.data.names[:MOST_COLUMNS], units_of(seen.data.train).points(y[chosen, :steps])
    note = "The path is behind the columns; below, the probability of each state given the whole sequence."
    more = f" The first {steps:,} steps." if steps < mask[chosen].sum() else ""
    some = f" The first {MOST_COLUMNS} columns." if len(seen.data.names) > MOST_COLUMNS else ""
    shown = values.T[:MOST_COLUMNS], paths[chosen, :steps], probs[chosen, :steps].T
    return [Course(f"States of sequence {name}", columns, *shown, f"{note}{more}{some}")]


def transform(seen: Seen, table: Any, tell: Tell) -> Found:
    """The state of each step on the likeliest path of its sequence (Viterbi), and the probabilities of all states given
    the whole sequence."""

    def read(data: Any) -> Found:
        z = seen.fit.locals(data, key=seen.key)["z"]
        return {"state": np.asarray(likeliest_paths(z)), "probability": np.asarray(z.probs)}

    data = checked(seen, padded_sequences(table))
    return in_blocks_of_sequences(read, table, data, tell)


LISTING = sequence_model(
    Settings,
    describe,
    score,
    build=build,
    transform=transform,
    predicts="state",
    drawing=SEQUENCES,
)
