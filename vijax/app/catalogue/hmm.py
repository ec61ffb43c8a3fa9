"""Hidden Markov models on the command line, of one chain and of several (factorial)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from vijax import models
from vijax.app.catalogue.parts import emissions
from vijax.app.catalogue.parts.emissions import EmissionConfig
from vijax.app.catalogue.parts.stays import stay_lengths
from vijax.app.catalogue.parts.widened import deviations_of_rows
from vijax.app.drawing.blocks import Block, Course, Heat, Strips, Table
from vijax.app.drawing.cuts import first_note
from vijax.app.rows.by_row import (
    SEQUENCES,
    RowScore,
    bounds,
    check_data,
    read_sequences_in_blocks,
    sequences,
)
from vijax.app.rows.forecasts import forecasts, longest_of_first
from vijax.app.rows.times import sequence_times
from vijax.app.settings.options import build_from_section, model_section
from vijax.app.settings.sections import grow
from vijax.app.settings.typed_toml import section, setting
from vijax.app.settings.units import log_scales, table_units
from vijax.app.sources.listing import Data, FittedRun, RowResults, Tell
from vijax.app.sources.tables import padded_sequences, sequence_model, sequence_sums
from vijax.arguments import integer

MOST_SHOWN = 12
"""Number of sequences whose states are drawn, for each chain."""
MOST_STEPS = 400
MOST_COLUMNS = 4
"""Steps and columns of the sequence that is drawn with its columns."""
STAYING = (
    "From the state of the row to that of the column; staying, on the diagonal, has no colour."
)

Settings = model_section(
    models.hmm,
    "hidden Markov model of sequences",
    without=("prior_as_point",),
    num_states=setting(3, "K, how many states", integer()),
    emission=section(EmissionConfig),
)


def build(settings: Any, data: Data, incomplete: bool = False) -> Any:
    """The model; of steps in which cells may be missing."""
    size = settings.num_states
    emission = emissions.make(settings.emission, size, len(data.names), incomplete)
    return build_from_section(settings, data, emission=emission)


def score(run: FittedRun) -> RowScore:
    """Log probability of sequences, per step, in the units of the data."""
    y, mask = padded_sequences(run.data.test)
    lengths = mask.sum(axis=1)
    row_score = run.fit.score((y, mask), key=run.key)
    logs = row_score.log_probs - sequence_sums(run.data.test, log_scales(run.data.test))
    return RowScore.of(logs, "step", sequences(len(lengths)), lengths)


likeliest_paths = jax.jit(jax.vmap(lambda z: z.mode()))
"""The likeliest path of each sequence (Viterbi)."""


def describe(run: FittedRun) -> list[Block]:
    """States, the transition matrix, paths and the rows by state."""
    name = run.settings.emission.name
    columns = run.data.names
    y, mask = padded_sequences(run.data.train)
    z = run.fit.locals((y, mask), key=run.key)["z"]
    paths = np.where(mask, np.asarray(likeliest_paths(z)), -1)
    is_observed = mask & np.isfinite(y).all(axis=-1)
    size = run.settings.num_states
    share = np.bincount(paths[mask], minlength=size) / mask.sum()
    transition = np.asarray(run.point("transition"), float)
    stay = stay_lengths(transition)
    occupied = np.flatnonzero(share)
    states = [str(k) for k in occupied]
    leading = {"share": share, "steps at a time": stay}
    names = run.data.train.group_names or ("all",)
    within = deviations_of_rows(y[is_observed], np.asarray(z.probs)[is_observed][:, :size])
    return [
        *emissions.component_blocks(
            "States", name, run, columns, leading, share * mask.sum(), "step", within=within
        ),
        *forecasts(run),
        Heat("Transitions", states, states, transition[np.ix_(occupied, occupied)], STAYING, True),
        *course(run, y, mask, paths, np.asarray(z.probs)),
        strips("Likeliest paths", names, paths),
        emissions.picture(
            "Steps by state", name, run, y[is_observed], columns, paths[is_observed], share
        ),
    ]


LIKELIEST = "The likeliest states of all steps together (Viterbi), a colour for each state."


def strips(title: str, names: Sequence[str], paths: np.ndarray, note: str = LIKELIEST) -> Strips:
    """The paths of the first sequences."""
    full_note = first_note(note, MOST_SHOWN, names, "sequences", "transformed.csv")
    return Strips(title, names[:MOST_SHOWN], paths[:MOST_SHOWN], full_note)


def course(
    run: FittedRun, y: np.ndarray, mask: np.ndarray, paths: np.ndarray, probs: np.ndarray
) -> list[Block]:
    """The longest of the first sequences, with its states beneath it."""
    longest_place = int(mask[:MOST_SHOWN].sum(axis=1).argmax())
    steps = min(int(mask[longest_place].sum()), MOST_STEPS)
    name = (run.data.train.group_names or ("all",))[longest_place]
    columns = run.data.names[:MOST_COLUMNS]
    values = table_units(run.data.train).points(y[longest_place, :steps])
    note = (
        "The path is behind the columns; below, the probability of each state given the whole "
        "sequence."
    )
    note += longest_of_first(len(mask), MOST_SHOWN)
    all_steps = range(int(mask[longest_place].sum()))
    note = first_note(note, steps, all_steps, "steps", "transformed.csv")
    note = first_note(note, MOST_COLUMNS, run.data.names, "columns", "transformed.csv")
    course_values = (
        values.T[:MOST_COLUMNS],
        paths[longest_place, :steps],
        probs[longest_place, :steps].T,
    )
    times = sequence_times(run.data.train, longest_place)
    return [
        Course(
            f"States of sequence {name}",
            columns,
            *course_values,
            note,
            times.label,
            times.at[:steps],
        )
    ]


def transform(run: FittedRun, table: Any, tell: Tell) -> RowResults:
    """The state of each step on the likeliest path of its sequence (Viterbi), and the probabilities
    of all states given the whole sequence."""

    def read(data: Any) -> RowResults:
        z = run.fit.locals(data, key=run.key)["z"]
        return {"state": np.asarray(likeliest_paths(z)), "probability": np.asarray(z.probs)}

    return read_sequences_in_blocks(read, table, check_data(run, padded_sequences(table)), tell)


BY_STATE: dict[str, Any] = {
    "build": build,
    "transform": transform,
    "predicts": "state",
    "drawing": SEQUENCES,
    "manner": emissions.manner,
    "unseen": True,
    "takes_missing": emissions.takes_missing,
}
LISTING = sequence_model(Settings, describe, score, **BY_STATE)


# --- learnt weights at the top --------------------------------------------------------------------
HdpSettings = model_section(
    models.hdp_hmm,
    "sticky hidden Markov model of a hierarchical Dirichlet process",
    num_states=setting(10, "K, how many states may be used", integer(2)),
    grow=grow("states", "num_states"),
    emission=section(EmissionConfig),
)
HDP = sequence_model(HdpSettings, describe, score, **BY_STATE)


# --- several chains -------------------------------------------------------------------------------
FactorialSettings = model_section(
    models.factorial_hmm,
    "hidden Markov model of several chains",
    width="dim",
    num_chains=2,
    num_states=2,
)


def factorial_score(run: FittedRun) -> RowScore:
    """Bound on the log density of held-out sequences, per step, in the units of the data."""
    y, mask = padded_sequences(run.data.test)
    scales = sequence_sums(run.data.test, log_scales(run.data.test))
    logs = bounds(run.fit, (y, mask), run.key) - scales
    return RowScore.of(logs, "step", f"a bound; {sequences(len(logs))}", mask.sum(axis=1))


def factorial_describe(run: FittedRun) -> list[Block]:
    """The contribution and duration of each state of each chain, and the likeliest paths."""
    settings = run.settings
    columns = list(run.data.names)
    point = run.point("contributions")
    shape = settings.num_chains, settings.num_states, len(columns)
    contributions = np.asarray(point.coefficients, float).T.reshape(shape)
    transition = np.asarray(run.point("transition"), float)
    units = table_units(run.data.train)
    noise = units.spread(1 / np.sqrt(np.maximum(np.asarray(point.precision, float), 1e-30)))
    y, mask = padded_sequences(run.data.train)
    paths = run.fit.locals((y, mask), key=run.key)
    blocks: list[Block] = []
    for m in range(settings.num_chains):
        rows = [f"chain {m + 1}, state {k}" for k in range(settings.num_states)]
        stay = stay_lengths(transition[m])
        # A constant may move from chain to chain.
        centred = units.spread(contributions[m] - contributions[m].mean(axis=0))
        table = [
            [row, float(n), *map(float, values)]
            for row, n, values in zip(rows, stay, centred, strict=True)
        ]
        blocks.append(
            Table(f"Chain {m + 1}: what a state adds", ["", "steps at a time", *columns], table)
        )
    blocks.append(Table("Noise", ["", "deviation"], list(zip(columns, noise, strict=True))))
    for m in range(settings.num_chains):
        states = np.asarray(likeliest_paths(paths[f"z{m + 1}"]))
        names = run.data.train.group_names or ("all",)
        state_paths = np.where(mask, states, -1)
        title = f"Chain {m + 1}: likeliest paths"
        blocks.append(strips(title, names, state_paths, "A colour a state."))
        labels = [str(k) for k in range(settings.num_states)]
        title = f"Chain {m + 1}: transitions"
        blocks.append(Heat(title, labels, labels, transition[m], STAYING, True))
    return [*forecasts(run), *blocks]


def factorial_transform(run: FittedRun, table: Any, tell: Tell) -> RowResults:
    """For each chain its states on the likeliest path, and the probabilities of all its states."""
    names = [f"z{m + 1}" for m in range(run.settings.num_chains)]

    def read(data: Any) -> RowResults:
        local = run.fit.locals(data, key=run.key)
        states = np.stack([np.asarray(likeliest_paths(local[name])) for name in names], axis=-1)
        probs = {
            f"probability_of_chain_{m}": np.asarray(local[name].probs)
            for m, name in enumerate(names)
        }
        return {"state_of_chain": states, **probs}

    return read_sequences_in_blocks(read, table, check_data(run, padded_sequences(table)), tell)


FACTORIAL = sequence_model(
    FactorialSettings,
    factorial_describe,
    factorial_score,
    transform=factorial_transform,
    predicts="state_of_chain",
    unseen=True,
    manner=lambda settings: "each",
    drawing=SEQUENCES,
)
