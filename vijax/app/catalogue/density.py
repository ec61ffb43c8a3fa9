# ruff: noqa: RUF009
"""Log densities on the command line, defined by a Python file of the user
(`vijax.app.settings.user_code`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from vijax.app.catalogue.parts.density_algorithm import NOT_BY_PARTS, DensityAlgorithm, model_rows
from vijax.app.drawing.blocks import BARS, TITLE_OF_VERDICT, Block, Intervals, Table
from vijax.app.drawing.cuts import first_note
from vijax.app.settings.typed_toml import ConfigError, Entry, setting
from vijax.app.settings.units import table_units
from vijax.app.settings.user_code import execute_file, locate_errors
from vijax.app.sources.listing import Data, FittedRun, Listing
from vijax.app.sources.tables import TABLES, load_table, target, values
from vijax.arguments import integer
from vijax.contract.model import Model
from vijax.data.tables.table import Table as Rows
from vijax.data.tables.table import TargetKind
from vijax.fitting.status import FAILED
from vijax.models.energies.density import LogDensity
from vijax.verdict.on_draws import judge_on_data

NOTHING = "none"
"""`data.path` of a density without data."""
MOST_ENTRIES = 20_000
"""Most numbers in the table of variables."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """[model]: the Python file that defines the density."""

    name: Literal["density"] = setting("density", "log density of your own, in a Python file")
    file: str | None = setting(
        None,
        "Python file with a function model(data) that returns a vijax.density; it is executed. "
        "Beside this file",
    )
    sha256: str | None = setting(None, "checksum of that file; unset: as it is when the run begins")
    target_kind: TargetKind = setting(
        "real", "kind of data.target; binary is -1 and +1 in data['y']"
    )
    num_draws: int = setting(
        4000, "draws of the posterior for the table of variables", integer(100)
    )


# --- data -----------------------------------------------------------------------------------------
def arrange(table: Rows, settings: Settings) -> dict[str, np.ndarray]:
    """The data for the file's `model`, and by group for `log_lik`: x, and y and group if any."""
    arrays = {"x": values(table)}
    if table.y is not None:
        arrays["y"] = target(table)
    if table.groups is not None:
        arrays["group"] = np.asarray(table.groups, np.int32)
    return arrays


def load(config: Any) -> Data:
    """The table in two parts; a row without columns for a density without data."""
    if config.data.path != NOTHING:
        return load_table(config)
    return Data(Rows((), np.zeros((1, 0))), None)


def check(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on settings that a density cannot use, and if no file is named."""
    origin = entries["model.name"].origin if "model.name" in entries else "settings"
    section = config.data
    if config.model.file is None:
        raise ConfigError(
            f"{origin}: model.file: name the Python file of the density, as in model.file = "
            '"mine.py"'
        )
    if section.group is not None and section.held_out > 0:
        raise ConfigError(
            f"{origin}: data.group: a density knows the groups of its training rows alone, and so "
            "none of them can be held out; set data.held_out=0"
        )
    if section.hold_out == "entries":
        raise ConfigError(
            f'{origin}: data.hold_out: expected "rows" for a density, which reads whole rows'
        )


def tiles(facts: dict[str, Any]) -> dict[str, str]:
    """The tiles of a table; or a tile that tells of no data."""
    if facts["columns"]:
        return TABLES.tiles(facts)
    return {"Data": "none | the density reads none"}


SOURCE = TABLES._replace(load=load, check=check, tiles=tiles)


# --- the model ------------------------------------------------------------------------------------
def build(settings: Settings, data: Data) -> Model:
    """The model that the file's function `model` makes from the training data."""
    path = str(settings.file)
    make = getattr(execute_file(path, settings.sha256, "model.file"), "model", None)
    if not callable(make):
        raise ConfigError(
            f"{path}: expected a function model(data) that returns a vijax.density, got none"
        )
    rows = arrange(data.train, settings)
    with locate_errors(path):
        model = make(rows)
        density = model.log_density if isinstance(model, Model) else None
        if density is not None:
            _try(density, rows)
    if density is None:
        raise ConfigError(
            f"{path}: model: expected it to return a vijax.density, got {type(model).__name__}"
        )
    return model


def _try(density: LogDensity, rows: Mapping[str, np.ndarray]) -> None:
    """Traces the density without computing it, to find errors of the file."""
    x = jax.ShapeDtypeStruct((density.variables.dim,), jnp.result_type(float))
    groups = jax.tree.map(lambda a: a[None], dict(rows)) if density.is_whole else dict(rows)
    try:
        jax.eval_shape(lambda x: density.log_liks_at(x, groups), x)
    except KeyError as error:
        names = f"variables {density.variables.names}, data {sorted(rows)}"
        raise ValueError(f"expected names that there are ({names}), got {error}") from error


# --- the page -------------------------------------------------------------------------------------
def describe(run: FittedRun) -> list[Block]:
    """The verdict; means, deviations and quantiles of every number of the variables."""
    draws = run.fit.sample(run.key, run.settings.num_draws)
    names, x = _entries(draws)
    values_shown = x[:, :MOST_ENTRIES]
    quantiles = np.quantile(values_shown, [0.05, 0.5, 0.95], axis=0)
    columns = [values_shown.mean(0), values_shown.std(0, ddof=1), *quantiles]
    rows = [[name, *map(float, row)] for name, *row in zip(names, *columns, strict=False)]
    about = f"Of {run.settings.num_draws:,} draws of q."
    note = table_units(run.data.train).note(
        first_note(about, MOST_ENTRIES, names, "numbers", "posterior.npz")
    )
    table = Table("Variables", ["", "mean", "sd", "5 %", "50 %", "95 %"], rows, note)
    picture = Intervals("Posterior", names[:MOST_ENTRIES], columns[0], columns[1], BARS, 0)
    return [_trust(run), table, picture]


def _entries(draws: Mapping[str, Any]) -> tuple[list[str], np.ndarray]:
    """Every number of the variables by name and place, w[0, 2], and its draws as a column."""
    names: list[str] = []
    columns = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(dict(draws))[0]:
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        x = np.asarray(leaf, float)
        names += [
            f"{name}[{', '.join(map(str, place))}]" if place else name
            for place in np.ndindex(*x.shape[1:])
        ]
        columns.append(x.reshape(len(x), -1))
    return names, np.concatenate(columns, axis=1)


def _trust(run: FittedRun) -> Table:
    """The verdict with its numbers: from the report of `auto` or `dadvi`, or computed for other
    fits, or fits from a checkpoint."""
    fit = run.fit
    judgement: Any = fit.report
    note = ""
    if judgement is not None:
        modes = [f"{mode.log_density:.2f} ({mode.num_starts} starts)" for mode in judgement.modes]
        details = [
            ["modes: log density", ", ".join(modes) or "none"],
            ["gradients", f"{judgement.num_gradients:,}"],
        ]
    else:
        judgement = _judge_steps(run)
        if judgement is None:
            return Table(TITLE_OF_VERDICT, ["", ""], [["verdict", fit.verdict]])
        drift = "too few steps" if judgement.drift is None else str(judgement.drift)
        details = [["bound of the last quarter of the steps, less that before", drift]]
        note = f"Judged on {judgement.num_draws} draws of q."
    rows = [
        ["verdict", judgement.verdict],
        ["bound (ELBO)", str(judgement.elbo)],
        ["nats from the posterior, at least", f"{max(judgement.gap, 0.0):.3f}"],
        ["k-hat", f"{judgement.khat:.2f}"],
        *details,
    ]
    return Table(TITLE_OF_VERDICT, ["", ""], rows, note)


def _judge_steps(run: FittedRun) -> Any:
    """The judgement of a fit by steps; None for a failed fit."""
    rows = model_rows(run.model, arrange(run.data.train, run.settings))
    if run.fit.status in FAILED:
        return None
    if run.fit.judge is not None:
        return run.fit.judge.judgement(run.fit)
    return judge_on_data(run.fit, rows, run.key)


LISTING = Listing(
    Settings,
    SOURCE,
    DensityAlgorithm,
    describe,
    arrange,
    build=build,
    target=lambda settings: settings.target_kind,
    no_transform="what it predicts is in the Python file alone: draw from it with vijax.load(RUN, "
    "allow_code=True).sample(key, n), and apply the file's own functions to the draws",
    needs_rows=True,
    not_by_parts=NOT_BY_PARTS,
)
