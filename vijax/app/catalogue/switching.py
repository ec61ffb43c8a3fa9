"""Switching dynamics on the command line: autoregressive HMMs, switching linear systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from vijax import models
from vijax.app.catalogue import hmm, state_space
from vijax.app.catalogue.parts.stays import stay_lengths
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


def num_outputs(settings: Any, columns: Any) -> int:
    """The number of columns that are not inputs; a `ConfigError` if none is left."""
    dim = len(columns) - settings.num_inputs
    if dim < 1:
        raise ConfigError(
            f"model.num_inputs: expected fewer than the {len(columns)} columns, the last of which "
            f"are inputs, got {settings.num_inputs}"
        )
    return dim


def build(settings: Any, data: Data) -> Any:
    """The model."""
    return build_from_section(settings, data, dim=num_outputs(settings, data.names))


def score(run: FittedRun) -> RowScore:
    """Log probability of sequences, per step that the dynamics explain, in units of the data."""
    row_score = run.fit.score(padded_sequences(run.data.test), key=run.key)
    dim = num_outputs(run.settings, run.data.names)
    logs = np.log(table_units(run.data.test).deviation[:dim]).sum()
    totals = row_score.log_probs - logs * row_score.num_tokens
    return RowScore.of(totals, "step", sequences(len(totals)), row_score.num_tokens)


def transition_shares(paths: np.ndarray, num_states: int) -> np.ndarray:
    """Shares of the states that follow each state on paths (-1: padding), for models in which
    switching depends on the path."""
    previous, following = paths[:, :-1], paths[:, 1:]
    is_step = (previous >= 0) & (following >= 0)
    counts = np.zeros((num_states, num_states))
    np.add.at(counts, (previous[is_step], following[is_step]), 1.0)
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)


def motion_blocks(
    run: FittedRun, names: list[str], rows: list[str], paths: np.ndarray, scaled: bool
) -> tuple[Table, Heat, Heat]:
    """Each state's share, duration, modes and noise; transitions; coefficients of the dynamics."""
    on_path = paths[paths >= 0]
    share = np.bincount(on_path, minlength=run.settings.num_states) / max(len(on_path), 1)
    point = run.point("dynamics")
    units = table_units(run.data.train)
    coefficients = np.array(point.coefficients, float)
    if coefficients.shape[1] > len(names):
        coefficients[:, : len(names)] += run.settings.persistence * np.eye(len(names))
    variances = np.diagonal(to_covariance(point.precision), axis1=-2, axis2=-1)
    noise = np.sqrt(np.maximum(variances, 0.0))
    if scaled and units.scaled:
        noise = noise * units.deviation[: noise.shape[-1]]
    if "transition" in run.posterior:
        transition = np.asarray(run.point("transition"), float)
    else:
        transition = transition_shares(paths, run.settings.num_states)
    stay = stay_lengths(transition)
    states = [str(k) for k in range(len(stay))]
    table = []
    for k in range(len(stay)):
        mode = _mode(coefficients[k])
        table.append([f"state {k}", float(share[k]), float(stay[k]), *mode, *map(float, noise[k])])
    heading = ["", "share", "steps at a time", "modulus", "steps a turn"]
    heading += [f"noise of {name}" for name in names]
    flat = coefficients.transpose(0, 2, 1).reshape(-1, coefficients.shape[1])
    row_names = [f"state {k}: {name}" for k in states for name in names]
    note = units.note("Of each column on the step before, and a constant.")
    return (
        Table("States", heading, table),
        Heat("Transitions", states, states, transition, hmm.STAYING, True),
        Heat("Dynamics", row_names, rows, flat, note),
    )


def _mode(coefficients: np.ndarray) -> list[Any]:
    """Modulus of the slowest mode, and steps of a full turn, by the companion matrix."""
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
    settings = run.settings
    columns = list(run.data.names)
    dim = num_outputs(settings, columns)
    y, mask = padded_sequences(run.data.train)
    z = run.fit.locals((y, mask), key=run.key)["z"]
    paths = np.where(mask, np.asarray(hmm.likeliest_paths(z)), -1)
    rows = [
        f"{name}, {lag} before" for lag in range(1, settings.num_lags + 1) for name in columns[:dim]
    ]
    names = run.data.train.group_names or ("all",)
    return [
        *forecasts(run),
        *motion_blocks(run, columns[:dim], [*rows, *columns[dim:], "constant"], paths, True),
        *hmm.course(run, y, mask, paths, np.asarray(z.probs)),
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
    table = run.data.test
    dim = num_outputs(run.settings, run.data.names)
    y, mask = padded_sequences(table)
    is_known = np.isfinite(table.x[:, :dim])
    scales = np.where(is_known, np.log(table_units(table).deviation[:dim]), 0.0).sum(axis=1)
    logs = bounds(run.fit, (y, mask), run.key) - sequence_sums(table, scales)
    return RowScore.of(logs, "step", f"a bound; {sequences(len(logs))}", mask.sum(axis=1))


def slds_describe(run: FittedRun) -> list[Block]:
    """States with their dynamics, loadings and noise, courses and paths."""
    settings = run.settings
    columns = list(run.data.names)
    dim = num_outputs(settings, columns)
    size = settings.latent_dim
    y, mask = padded_sequences(run.data.train)
    z = run.fit.locals((y, mask), key=run.key)["z"]
    paths = np.where(mask, np.asarray(hmm.likeliest_paths(z)), -1)
    observation = run.point("observation")
    units = table_units(run.data.train)
    loadings = np.asarray(observation.coefficients, float)
    noise = 1 / np.sqrt(np.maximum(np.asarray(observation.precision, float), 1e-30))
    axes = [f"path {q + 1}" for q in range(size)]
    scale = np.ones(dim)
    middle = loadings[:, -1]
    if units.scaled:
        scale = units.deviation[:dim]
        middle = loadings[:, -1] * scale + units.mean[:dim]
    names = run.data.train.group_names or ("all",)
    note = units.note("Of each column on each coordinate of the path: up to an affine map.")
    terms = [*(f"{axis}, before" for axis in axes), *columns[dim:], "constant"]
    outputs = list(zip(columns, middle, noise * scale, strict=False))
    return [
        *forecasts(run),
        *motion_blocks(run, axes, terms, paths, False),
        Heat("Loadings", columns[:dim], axes, loadings[:, :size], note),
        Table("Columns", ["", "mean", "noise deviation"], outputs),
        *hmm.course(run, y, mask, paths, np.asarray(z.probs)),
        *state_space.courses(run, loadings, noise),
        hmm.strips("Likeliest paths", names, paths),
    ]


def slds_transform(run: FittedRun, table: Any, tell: Tell) -> RowResults:
    """The state of each step on the likeliest path of its sequence, and the probabilities of all
    states; the expected columns with the deviation of an observation, also for missing cells; and
    the smoothed path."""

    def read(data: Any) -> RowResults:
        local = run.fit.locals(data, key=run.key)
        states = {
            "state": np.asarray(hmm.likeliest_paths(local["z"])),
            "probability": np.asarray(local["z"].probs),
        }
        expected, sd, path, path_sd = state_space.expected_columns(run, local["x"])
        return states | {"expected": expected, "sd": sd, "path": path, "path_sd": path_sd}

    results = read_sequences_in_blocks(read, table, check_data(run, padded_sequences(table)), tell)
    units = table_units(table)
    dim = num_outputs(run.settings, run.data.names)
    if units.scaled:
        results["expected"] = results["expected"] * units.deviation[:dim] + units.mean[:dim]
        results["sd"] = results["sd"] * units.deviation[:dim]
    return results


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


# --- switching by the path ------------------------------------------------------------------------
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
