"""Linear-Gaussian state-space models on the command line."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from vijax import models
from vijax.app.drawing.blocks import NINETY, Block, Heat, Lines, Table
from vijax.app.drawing.cuts import first_note
from vijax.app.rows.by_row import (
    SEQUENCES,
    RowScore,
    check_data,
    read_sequences_in_blocks,
    sequences,
)
from vijax.app.rows.forecasts import forecasts
from vijax.app.rows.times import sequence_times
from vijax.app.settings.options import model_section
from vijax.app.settings.units import log_scales, table_units
from vijax.app.sources.listing import FittedRun, RowResults, Tell
from vijax.app.sources.tables import (
    holds_out_entries,
    padded_sequences,
    sequence_model,
    sequence_sums,
)

MOST_COLUMNS = 4
"""Number of columns whose smoothed course is drawn."""

Settings = model_section(
    models.linear_gaussian_state_space,
    "linear-Gaussian state-space model of sequences",
    name="state_space",
    width="dim",
    num_states=2,
)


def score(run: FittedRun) -> RowScore:
    """Log density at the posterior means, by the Kalman filter, in the units of the data: for
    held-out sequences, per step; for held-out entries given the others of their sequences, per
    entry."""
    if holds_out_entries(run.data):
        return _score_entries(run)
    row_score = run.fit.score(padded_sequences(run.data.test), key=run.key)
    logs = row_score.log_probs - sequence_sums(run.data.test, log_scales(run.data.test))
    return RowScore.of(logs, "step", sequences(len(row_score.log_probs)), row_score.num_tokens)


def _score_entries(run: FittedRun) -> RowScore:
    """log p(all entries) - log p(training entries), for each sequence."""
    train, test = run.data.train, run.data.test
    full_table = dataclasses.replace(train, x=np.where(np.isfinite(train.x), train.x, test.x))
    log_all = run.fit.score(padded_sequences(full_table), key=run.key).log_probs
    log_train = run.fit.score(padded_sequences(train), key=run.key).log_probs
    number = [int(np.isfinite(part).sum()) for part in test.sequences()]
    logs = log_all - log_train - sequence_sums(test, log_scales(test))
    return RowScore.of(logs, "entry", sequences(len(number)), number)


def describe(run: FittedRun) -> list[Block]:
    """Modes of the dynamics, loadings and noise, and smoothed courses of the first sequence."""
    columns = list(run.data.names)
    size = run.settings.num_states
    dynamics, observation = (run.point(name) for name in ("dynamics", "observation"))
    loadings = np.asarray(observation.coefficients, float)
    noise = 1 / np.sqrt(np.maximum(np.asarray(observation.precision, float), 1e-30))
    states = [f"state {k + 1}" for k in range(size)]
    units = table_units(run.data.train)
    rows = list(zip(columns, units.points(loadings[:, -1]), units.spread(noise), strict=True))
    note = units.note("Of each column on each state: up to a linear map.")
    modes = _modes(np.asarray(dynamics.coefficients, float))
    return [
        *forecasts(run),
        *courses(run, loadings, noise),
        Table("Columns", ["", "mean", "noise deviation"], rows),
        Table("Modes of the dynamics", ["", "modulus", "steps a turn"], modes, ABOUT_MODES),
        Heat("Loadings", columns, states, loadings[:, :size], note),
    ]


ABOUT_MODES = (
    "Parts of the motion: the modulus is the share of a swing that is left a step later, and a "
    "turn is the length of a cycle."
)


def _modes(dynamics: np.ndarray) -> list[list[Any]]:
    """Eigenvalues, one of each complex pair: modulus, and the steps of a full turn."""
    values = np.linalg.eigvals(dynamics)
    modes = sorted(values[values.imag >= 0], key=lambda v: -abs(v))
    turns = [2 * np.pi / abs(np.angle(v)) if abs(np.angle(v)) > 1e-9 else None for v in modes]
    return [
        [f"mode {i + 1}", float(abs(v)), turn]
        for i, (v, turn) in enumerate(zip(modes, turns, strict=True))
    ]


def courses(run: FittedRun, loadings: np.ndarray, noise: np.ndarray) -> list[Block]:
    """Each column of the first sequence as the smoothed state predicts it, with two deviations."""
    y, mask = (part[:1] for part in padded_sequences(run.data.train))
    steps = int(mask.sum())
    value, cov = (part[0, :steps] for part in moments(run.fit.locals((y, mask), key=run.key)["x"]))
    times = sequence_times(run.data.train, 0)
    units = table_units(run.data.train)
    time = times.at
    sequence_names = run.data.train.group_names or ("all",)
    columns = run.data.names[: len(loadings)]
    note = "Smoothed, with 90 % intervals of an observation."
    note = first_note(note, 1, sequence_names, "sequences", "transformed.csv")
    note = first_note(note, MOST_COLUMNS, columns, "columns", "transformed.csv")
    blocks: list[Block] = []
    for d, column in enumerate(columns[:MOST_COLUMNS]):
        c = loadings[d, :-1]
        mean = value @ c + loadings[d, -1]
        deviation = np.sqrt(np.einsum("k,tkj,j->t", c, cov, c) + noise[d] ** 2)
        is_known = np.isfinite(y[0, :steps, d])
        reach = NINETY * deviation
        parts = mean, mean - reach, mean + reach, y[0, :steps, d][is_known]
        mean, low, high, points = (part * units.deviation[d] + units.mean[d] for part in parts)
        title = f"{column}, smoothed"
        if run.data.train.group_names:
            title = f"{column}, first sequence"
        blocks.append(
            Lines(title, times.label, column, time, mean, low, high, time[is_known], points, note)
        )
    return blocks


def transform(run: FittedRun, table: Any, tell: Tell) -> RowResults:
    """The expected columns of each step given the whole sequence, with the standard deviation of an
    observation, also for missing cells (rows of missing values at the end are forecasts); and the
    smoothed states, with their standard deviations."""

    def read(data: Any) -> RowResults:
        expected, sd, state, state_sd = expected_columns(
            run, run.fit.locals(data, key=run.key)["x"]
        )
        return {"expected": expected, "sd": sd, "state": state, "state_sd": state_sd}

    results = read_sequences_in_blocks(read, table, check_data(run, padded_sequences(table)), tell)
    units = table_units(table)
    return results | {
        "expected": units.points(results["expected"]),
        "sd": units.spread(results["sd"]),
    }


def expected_columns(
    run: FittedRun, x: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Expected columns of paths with law `x`, the deviation of an observation, smoothed paths and
    their deviations."""
    observation = run.point("observation")
    loadings = np.asarray(observation.coefficients, float)
    noise = 1 / np.maximum(np.asarray(observation.precision, float), 1e-30)
    value, cov = moments(x)
    c = loadings[:, :-1]
    spread = np.einsum("dk,ntkj,dj->ntd", c, cov, c, optimize=True)
    return value @ c.T + loadings[:, -1], np.sqrt(spread + noise), value, deviations(cov)


def moments(x: Any) -> tuple[np.ndarray, np.ndarray]:
    """Means, (sequences, steps, Q), and covariances, (sequences, steps, Q, Q), of each step of
    paths with law `x`."""
    stats = x.expected_stats()
    value, outer = np.asarray(stats.value, float), np.asarray(stats.outer, float)
    return value, outer - value[..., :, None] * value[..., None, :]


def deviations(cov: np.ndarray) -> np.ndarray:
    """Standard deviations of each coordinate."""
    return np.sqrt(np.maximum(np.diagonal(cov, axis1=-2, axis2=-1), 0.0))


LISTING = sequence_model(
    Settings,
    describe,
    score,
    missing=True,
    transform=transform,
    predicts="expected",
    drawing=SEQUENCES,
    manner=lambda settings: "each",
)
