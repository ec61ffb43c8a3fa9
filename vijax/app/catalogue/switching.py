"""Switching dynamics on the command line: autoregressive hidden Markov models, switching linear
dynamical systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from vijax import models
from vijax.app.catalogue import hmm, state_space
from vijax.app.drawing.blocks import Block, Heat, Table
from vijax.app.rows.by_row import (
    SEQUENCES,
    RowScore,
    bounds,
    check_data,
    read_sequences_in_blocks,
    sequences,
)
from vijax.app.rows.forecasts import forecasts
from vijax.app.settings.options import build_from_section, model_section
from vijax.app.settings.typed_toml import ConfigError
from vijax.app.settings.units import table_units, to_covariance
from vijax.app.sources.listing import Data, FittedRun, RowResults, Tell
from vijax.app.sources.tables import padded_sequences, sequence_model, sequence_sums

Settings = model_section(
    models.arhmm, "autoregressive hidden Markov model of sequences", without=("dim",), num_states=4
)


def dim_of(settings: Any, columns: Any) -> int:
    """The number of columns that are no inputs; a `ConfigError` where none is left."""
    dim = len(columns) - settings.num_inputs
    if dim < 1:
        raise ConfigError(
            f"model.num_inputs: expected fewer than the {len(columns)} columns, the last of which "
            f"are inputs, got {settings.num_inputs}"
        )
    return dim


def build(settings: Any, data: Data) -> Any:
    """The model."""
    return build_from_section(settings, data, dim=dim_of(settings, data.names))


def score(run: FittedRun) -> RowScore:
    """Log probability of sequences, per step that the dynamics explain, in the units of the
    data."""
    found = run.fit.score(padded_sequences(run.data.test), key=run.key)
    logs = np.log(
        table_units(run.data.test).deviation[: dim_of(run.settings, run.data.names)]
    ).sum()
    totals = found.log_probs - logs * found.num_tokens
    return RowScore.of(totals, "step", sequences(len(totals)), found.num_tokens)


def moves_of(paths: np.ndarray, num_states: int) -> np.ndarray:
    """Shares of the states that follow each state on paths (-1: padding), where switching depends
    on the path."""
    before, after = paths[:, :-1], paths[:, 1:]
    real = (before >= 0) & (after >= 0)
    counts = np.zeros((num_states, num_states))
    np.add.at(counts, (before[real], after[real]), 1.0)
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)


def motion_blocks(
    run: FittedRun, names: list[str], rows: list[str], paths: np.ndarray, scaled: bool
) -> tuple[Table, Heat, Heat]:
    """Each state's share, duration, modes and noise; transitions; and the coefficients of its
    dynamics."""
    real = paths[paths >= 0]
    share = np.bincount(real, minlength=run.settings.num_states) / max(len(real), 1)
    point, units = run.point("dynamics"), table_units(run.data.train)
    coefficients = np.array(point.coefficients, float)
    if coefficients.shape[1] > len(names):
        coefficients[:, : len(names)] += run.settings.persistence * np.eye(len(names))
    noise = np.sqrt(
        np.maximum(np.diagonal(to_covariance(point.precision), axis1=-2, axis2=-1), 0.0)
    )
    noise = noise * units.deviation[: noise.shape[-1]] if scaled and units.scaled else noise
    known = "transition" in run.posterior
    transition = (
        np.asarray(run.point("transition"), float)
        if known
        else moves_of(paths, run.settings.num_states)
    )
    stay = 1 / np.maximum(1 - np.diag(transition), 1e-6)
    states = [str(k) for k in range(len(stay))]
    table = [
        [
            f"state {k}",
            float(share[k]),
            float(stay[k]),
            *_mode(coefficients[k]),
            *map(float, noise[k]),
        ]
        for k in range(len(stay))
    ]
    heading = [
        "",
        "share",
        "steps at a time",
        "modulus",
        "steps a turn",
        *(f"noise of {name}" for name in names),
    ]
    flat = coefficients.transpose(0, 2, 1).reshape(-1, coefficients.shape[1])
    of = [f"state {k}: {name}" for k in states for name in names]
    note = units.note("Of each column on the step before, and a constant.")
    return (
        Table("States", heading, table),
        Heat("Transitions", states, states, transition, hmm.STAYING, True),
        Heat("Dynamics", of, rows, flat, note),
    )


def _mode(coefficients: np.ndarray) -> list[Any]:
    """Modulus of the slowest mode, and steps that a turn of it takes: eigenvalues of the companion
    matrix."""
    dim = coefficients.shape[1]
    lags = (len(coefficients) - 1) // dim
    if not lags:
        return [None, None]
    companion = np.eye(lags * dim, k=-dim)
    companion[:dim] = coefficients[: lags * dim].T
    slowest = max(np.linalg.eigvals(companion), key=abs)
    turn = abs(np.angle(slowest))
    return [float(abs(slowest)), float(2 * np.pi / turn) if turn > 1e-9 else None]


def describe(run: FittedRun) -> list[Block]:
    """States with their dynamics, the transition matrix, and paths."""
    settings, columns = run.settings, list(run.data.names)
    dim = dim_of(settings, columns)
    y, mask = padded_sequences(run.data.train)
    z = run.fit.locals((y, mask), key=run.key)["z"]
    paths = np.where(mask, np.asarray(hmm.likeliest_paths(z)), -1)
    rows = [
        f"{name}, {lag} before" for lag in range(1, settings.num_lags + 1) for name in columns[:dim]
    ]
    names = run.data.train.group_names or ("all",)
    return [
        *motion_blocks(run, columns[:dim], [*rows, *columns[dim:], "constant"], paths, True),
        *hmm.course(run, y, mask, paths, np.asarray(z.probs)),
        *forecasts(run),
        hmm.strips("Likeliest paths", names, paths),
    ]


LISTING = sequence_model(
    Settings,
    describe,
    score,
    build=build,
    missing=True,
    manner=lambda settings: "each",
    transform=hmm.transform,
    predicts="state",
    drawing=SEQUENCES,
)


# --- behind noise ---------------------------------------------------------------------------------
SldsSettings = model_section(
    models.slds,
    "switching linear dynamical system of sequences",
    without=("dim", "estep"),
    num_states=3,
    latent_dim=2,
)


def slds_score(run: FittedRun) -> RowScore:
    """Bound on the log density of held-out sequences, per step, in the units of the data."""
    table, dim = run.data.test, dim_of(run.settings, run.data.names)
    y, mask = padded_sequences(table)
    logs = np.where(
        np.isfinite(table.x[:, :dim]), np.log(table_units(table).deviation[:dim]), 0.0
    ).sum(axis=1)
    found = bounds(run.fit, (y, mask), run.key) - sequence_sums(table, logs)
    return RowScore.of(found, "step", f"a bound; {sequences(len(found))}", mask.sum(axis=1))


def slds_describe(run: FittedRun) -> list[Block]:
    """States with their dynamics, loadings and noise, courses and paths."""
    settings, columns = run.settings, list(run.data.names)
    dim, size = dim_of(settings, columns), settings.latent_dim
    y, mask = padded_sequences(run.data.train)
    z = run.fit.locals((y, mask), key=run.key)["z"]
    paths = np.where(mask, np.asarray(hmm.likeliest_paths(z)), -1)
    observation, units = run.point("observation"), table_units(run.data.train)
    loadings = np.asarray(observation.coefficients, float)
    noise = 1 / np.sqrt(np.maximum(np.asarray(observation.precision, float), 1e-30))
    axes = [f"path {q + 1}" for q in range(size)]
    scale = units.deviation[:dim] if units.scaled else np.ones(dim)
    middle = loadings[:, -1] * scale + (units.mean[:dim] if units.scaled else 0.0)
    names = run.data.train.group_names or ("all",)
    note = units.note("Of each column on each coordinate of the path: up to an affine map.")
    return [
        *motion_blocks(
            run,
            axes,
            [*(f"{axis}, before" for axis in axes), *columns[dim:], "constant"],
            paths,
            False,
        ),
        Heat("Loadings", columns[:dim], axes, loadings[:, :size], note),
        Table(
            "Columns",
            ["", "mean", "noise deviation"],
            list(zip(columns, middle, noise * scale, strict=False)),
        ),
        *hmm.course(run, y, mask, paths, np.asarray(z.probs)),
        *forecasts(run),
        *state_space.courses(run, loadings, noise),
        hmm.strips("Likeliest paths", names, paths),
    ]


def slds_transform(run: FittedRun, table: Any, tell: Tell) -> RowResults:
    """The state of each step on the likeliest path of its sequence and the probabilities of all
    states; the expected columns with the deviation of an observation, also where they are missing;
    and the smoothed path."""

    def read(data: Any) -> RowResults:
        local = run.fit.locals(data, key=run.key)
        states = {
            "state": np.asarray(hmm.likeliest_paths(local["z"])),
            "probability": np.asarray(local["z"].probs),
        }
        expected, sd, path, path_sd = state_space.seen_through(run, local["x"])
        return states | {"expected": expected, "sd": sd, "path": path, "path_sd": path_sd}

    found = read_sequences_in_blocks(read, table, check_data(run, padded_sequences(table)), tell)
    units, dim = table_units(table), dim_of(run.settings, run.data.names)
    if units.scaled:
        found["expected"] = found["expected"] * units.deviation[:dim] + units.mean[:dim]
        found["sd"] = found["sd"] * units.deviation[:dim]
    return found


SLDS = sequence_model(
    SldsSettings,
    slds_describe,
    slds_score,
    build=build,
    missing=True,
    manner=lambda settings: "each",
    transform=slds_transform,
    predicts="state",
    drawing=SEQUENCES,
)


# --- switching where the path is ------------------------------------------------------------------
RecurrentSettings = model_section(
    models.recurrent_slds,
    "linear dynamical system that switches where its path is",
    without=("dim", "estep"),
    num_states=3,
    latent_dim=2,
)
RECURRENT_SLDS = sequence_model(
    RecurrentSettings,
    slds_describe,
    slds_score,
    build=build,
    missing=True,
    manner=lambda settings: "each",
    transform=slds_transform,
    predicts="state",
    drawing=SEQUENCES,
)
