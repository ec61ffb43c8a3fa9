"""Regressions by a formula on the command line, of tables whose columns may be text."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import special

from vijax.app.catalogue.parts.density_algorithm import NOT_BY_PARTS, DensityAlgorithm
from vijax.app.drawing.blocks import Block, Intervals, Table
from vijax.app.rows.by_row import RowScore
from vijax.app.settings.options import model_section, section_arguments
from vijax.app.settings.sections import read_dialect
from vijax.app.settings.typed_toml import ConfigError, Entry, setting
from vijax.app.sources.listing import Data, FittedRun, Listing, New, RowResults, Tell
from vijax.app.sources.tables import AS_IN_TRAINING, TABLES, AllBut, check_no_column
from vijax.data.corpora.corpus import split_ids
from vijax.data.formulas.parser import parse
from vijax.data.reading.checks import Notes, fail
from vijax.data.schema.schema import Schema
from vijax.data.schema.typed_columns import TypedTable, table_of_file, typed_table
from vijax.data.tables.table_files import read_columns
from vijax.files import write_text
from vijax.models.formulas import coefficients, formula, modelled
from vijax.models.formulas.glmm import glmm
from vijax.models.formulas.glmm_model import Glmm
from vijax.models.formulas.laws import LAWS

Settings = model_section(
    glmm,
    "regression by a formula, with effects of groups",
    without=("table", "priors", "weights", "functions"),
    formula=(str, setting("y ~ x", "the formula: response ~ terms, group effects as in (x | g)")),
    weights=(str | None, setting(None, "column of weights: a row of weight 2 counts as two rows")),
    priors=(
        tuple[str, ...],
        setting(
            (),
            'priors in place of the usual ones, as ["x: normal 0 1", "1|g_sigma: half_normal 2"]',
        ),
    ),
    num_draws=setting(1000, "draws of the posterior for tables, predictions and scores"),
)
SCHEMA = "schema.json"
NO_COLUMNS = Schema(())
MOST_DRAWN = 200
"""Groups whose effects are drawn; of more a table has all of them."""
MOST_PRINTED = 8
"""Groups that the screen shows, and says how many more there are."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """A table of columns of any kind.

    Attributes:
      table: the columns.
      y: the response; None of rows to predict.
      train: the rows of training, where these are held out.
      notes: remarks on the way in which the file is written, and on what is modelled.
      schema: what each column was taken for, of rows of training.
      num_dropped: how many rows were left out for a missing cell.
      places: of rows to predict, the places in `every` of those that lack no cell; None where all
          are here.
      every: the table of all rows to predict, where some lack a cell.
    """

    table: TypedTable
    y: np.ndarray | None = None
    train: Frame | None = None
    notes: tuple[str, ...] = ()
    schema: Schema = NO_COLUMNS
    num_dropped: int = 0
    places: np.ndarray | None = None
    every: TypedTable | None = None
    classes: None = None
    groups: None = None

    @property
    def x(self) -> np.ndarray:
        """The numbers of its rows, (N, 1): their places. Columns may be text."""
        return np.arange(self.num_rows, dtype=float)[:, None]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.table.columns)

    @property
    def num_rows(self) -> int:
        """N."""
        return len(self.table)

    def __len__(self) -> int:
        return self.num_rows


# --- data -----------------------------------------------------------------------------------------
def _read(config: Any, path: str, is_training: bool = True, schema: Schema | None = None) -> Frame:
    """The table of a file; rows to predict (`seen` False) need no response, and words that are
    levels of training (`schema`) are no missing cells. Names of groups, and columns that the
    formula does not name, are the exact text of the file."""
    own = config.data
    rows, digest = (own.num_rows, own.sha256) if path == own.path else (None, None)
    notes = Notes()
    parsed = parse(config.model.formula, "model.formula")
    is_dropped = own.missing == "drop" or path != own.path
    family = config.model.family
    roles = formula.column_roles(parsed, family is not None and bool(LAWS[family].categories))
    read = functools.partial(
        read_columns, path, own.synthetic_seed, rows, read_dialect(own), digest, notes=notes
    )
    # What the formula does not read as numbers is exact text; where it reads both there is the text
    # beside the number.
    exact = AllBut(tuple(name for name in roles.numbers if name not in roles.labels))
    table = table_of_file(read, exact, roles.numbers)
    if schema is not None:
        table = table.with_levels(schema)
    return _whole_rows(table, parsed, is_training, path, is_dropped, notes)


def _in_memory(config: Any, source: Any, is_training: bool = True) -> Frame:
    """A table in memory, whose rows that lack a cell are left out, or have empty results, as those
    of a file."""
    parsed = parse(config.model.formula, "model.formula")
    return _whole_rows(typed_table(source), parsed, is_training, "data", True, Notes())


def _whole_rows(
    table: TypedTable, parsed: Any, is_training: bool, where: str, is_dropped: bool, notes: Notes
) -> Frame:
    """The rows of a table that lack no cell of the formula. An error where others may not be left
    out, or are all."""
    lacking = _lacking(table, formula.named_columns(parsed, is_training))  # while lines are known
    if not lacking:
        return Frame(table, notes=notes.texts())
    whole = np.flatnonzero(~np.any(list(lacking.values()), axis=0))
    if not is_dropped or not len(whole):
        raise _missing_cells(table, lacking, where)
    notes.add(_said_dropped(table, lacking, is_training))
    for name in lacking:
        if said := table.columns[name].said_missing(*(() if is_training else (AS_IN_TRAINING,))):
            notes.add(said)
    kept = table.rows(whole)
    if is_training:
        return Frame(kept, notes=notes.texts(), num_dropped=len(table) - len(whole))
    return Frame(kept, notes=notes.texts(), places=whole, every=table)


def _lacking(table: TypedTable, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Masks of the rows that lack a cell, by the columns of the formula of which some do."""
    masks = {name: table.column("table", name).missing for name in dict.fromkeys(names)}
    return {name: mask for name, mask in masks.items() if mask.any()}


def _missing_cells(table: TypedTable, lacking: Mapping[str, np.ndarray], path: str) -> ValueError:
    """The error of a table of which rows lack a cell of the formula."""
    places = {
        name: table.rows_named(np.flatnonzero(mask).tolist()) for name, mask in lacking.items()
    }
    got = " and ".join(f"none of {name!r} in {rows}" for name, rows in places.items())
    remedy = "fill them in; or leave those rows out, --set data.missing=drop"
    said = " ".join(said for name in lacking if (said := table.columns[name].said_missing()))
    return fail(
        path,
        "values in all columns of the formula",
        got,
        f"{remedy}. {said.rstrip('.')}" if said else remedy,
    )


def _said_dropped(table: TypedTable, lacking: Mapping[str, np.ndarray], is_training: bool) -> str:
    """The note on rows that lack a cell of the formula."""
    rows = table.rows_named(np.flatnonzero(np.any(list(lacking.values()), axis=0)).tolist())
    counts = ", ".join(f"{name!r} {int(mask.sum()):,}" for name, mask in lacking.items())
    what = "are left out (data.missing)" if is_training else "have empty results"
    return (
        f"Rows that lack a cell of the formula {what}: {rows}. Missing cells by column: {counts}."
    )


def load(config: Any) -> Data:
    """The table in two parts, rows of each at random."""
    frame, share = _read(config, config.data.path), config.data.held_out
    number = round(share * frame.num_rows)
    if share and not 0 < number < frame.num_rows:
        raise fail(
            config.data.path, "rows for both parts", f"{frame.num_rows} rows", "set data.held_out=0"
        )
    train_rows, test_rows = np.arange(frame.num_rows), np.arange(0)
    if number:
        train_rows, test_rows = split_ids(frame.num_rows, share, config.data.split_seed, "rows")
    table = frame.table.rows(train_rows)
    family = config.model.family or formula.usual_family(config.model.formula, frame.table)
    design = formula.read(config.model.formula, table, LAWS[family], config.model.base)
    notes = (*frame.notes, modelled.sentence(design, LAWS[family]))
    train = Frame(table, design.y, notes=notes, schema=design.schema, num_dropped=frame.num_dropped)
    if not number:
        return Data(train, None)
    test = frame.table.rows(test_rows)
    try:
        design.read_rows(test)
    except ValueError as error:
        remedy = (
            "Another data.split_seed divides the rows otherwise; data.held_out=0 holds none out."
        )
        raise ConfigError(f"{config.data.path}: of the rows held out: {error} {remedy}") from error
    return Data(train, Frame(test, design.response_and_trials(test)[0], train))


def check(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on settings [data] that the formula takes the place of."""
    for name in ("columns", "target", "group", "standardise"):
        if getattr(config.data, name):
            raise ConfigError(
                f"{entries[f'data.{name}'].origin}: data.{name}: the formula says it: model.formula"
            )
    if config.data.order:
        raise ConfigError(
            f"{entries['data.order'].origin}: data.order: rows of a formula have no order"
        )
    if config.data.hold_out == "entries":
        raise ConfigError(
            f'{entries["data.hold_out"].origin}: data.hold_out: expected "rows" for a formula'
        )


def facts(data: Data) -> dict[str, Any]:
    """The sizes of the table."""
    held_out = 0 if data.test is None else data.test.num_rows
    dropped = data.train.num_dropped
    outline = {
        "rows": data.train.num_rows,
        "columns": list(data.train.columns),
        "held_out": held_out,
    }
    return {**outline, "dropped": dropped} if dropped else outline


def tiles(facts: dict[str, Any]) -> dict[str, str]:
    """The tiles of the table."""
    named = ", ".join(facts["columns"][:4]) + (", ..." if len(facts["columns"]) > 4 else "")
    shown = {
        "Rows": f"{facts['rows']:,} | and {facts['held_out']:,} held out",
        "Columns": f"{len(facts['columns'])} | {named}",
    }
    if facts.get("dropped"):
        shown["Rows left out"] = f"{facts['dropped']:,} | they lack a cell"
    return shown


def digest(data: Data) -> Iterator[Any]:
    """The bytes of all columns."""
    for frame in data.parts:
        for name, column in frame.table.columns.items():
            values = column.values
            yield name.encode()
            yield (
                "\n".join(map(str, values)).encode()
                if values.dtype == object
                else np.ascontiguousarray(values).data
            )


def described(data: Data) -> str:
    """The table in a line."""
    found = facts(data)
    return (
        f"{found['rows']:,} rows of {len(found['columns'])} columns, {found['held_out']:,} rows "
        "held out"
    )


def new(config: Any, data: Data, source: Any, column: str | None) -> New:
    """Rows to predict; all columns are carried through."""
    if column is not None:
        raise ConfigError(
            "--column: for models of documents; a table must have the columns of the formula"
        )
    if source is None or isinstance(source, str):
        path = config.data.path if source is None else source
        frame = _read(config, path, is_training=False, schema=data.train.schema)
    else:
        frame = _in_memory(config, source, is_training=False)
    every = frame.every or frame.table
    beside = {name: column.as_written().tolist() for name, column in every.columns.items()}
    return New(
        frame,
        {"row": np.arange(len(every)), **beside},
        _notes_on(frame, data, config),
        frame.places,
    )


def other(config: Any, data: Data, source: Any, column: str | None) -> Frame:
    """Another table with the response, whose rows are scored."""
    check_no_column(column)
    is_path = isinstance(source, str)
    frame = (
        _read(config, source, schema=data.train.schema) if is_path else _in_memory(config, source)
    )
    y = of_frame(config.model, data.train).design.response_and_trials(frame.table)[0]
    return dataclasses.replace(frame, y=y, train=data.train, notes=_notes_on(frame, data, config))


def _notes_on(frame: Frame, data: Data, config: Any) -> tuple[str, ...]:
    """Notes on rows to predict: groups that training does not have, splines that go on."""
    rows = of_frame(config.model, data.train).design.read_rows(frame.table)
    strangers = [
        f"{levels}: their effects are drawn from the law of groups." for levels in rows.new_levels
    ]
    return (*frame.notes, *strangers, *rows.notes)


def _keep(folder: Path, data: Data) -> None:
    """Writes schema.json: the columns that the formula names, what each was taken for, and its
    levels."""
    outline = json.dumps(data.train.schema.to_json(), ensure_ascii=False, indent=1)
    write_text(folder / SCHEMA, outline + "\n")


SOURCE = TABLES._replace(
    load=load,
    other=other,
    facts=facts,
    tiles=tiles,
    digest=digest,
    describe=described,
    check=check,
    keep=_keep,
    kept_files=(SCHEMA,),
    units=lambda data: iter(()),  # its digest is of the columns as they are
    kept=lambda folder: None,
    new=new,
)


# --- the model ------------------------------------------------------------------------------------
def of_frame(settings: Any, frame: Frame) -> Glmm:
    """The model of a table."""
    return _remembered(settings, _ByIdentity(frame), jnp.result_type(float))


@dataclasses.dataclass(frozen=True, eq=False)
class _ByIdentity:
    frame: Frame

    def __hash__(self) -> int:
        return id(self.frame)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.frame is other.frame


@functools.lru_cache(maxsize=2)
def _remembered(settings: Any, of: _ByIdentity, dtype: Any) -> Glmm:
    priors = _priors(settings.priors)
    try:
        return glmm(
            settings.formula,
            of.frame.table,
            weights=settings.weights,
            priors=priors,
            **section_arguments(settings),
        )
    except ValueError as error:
        if not str(error).startswith("priors: "):
            raise
        raise ConfigError(f"model.{error}") from error


def _priors(lines: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Priors by name, from lines such as "x: normal 0 1". Names may have colons, as those of
    interactions have.

    >>> _priors(["x:z: normal 0 1"])
    {'x:z': ('normal', 0.0, 1.0)}
    """
    found = {}
    for line in lines:
        name, _, law = line.rpartition(":")
        try:
            kind, *numbers = law.split()
            found[name.strip()] = (kind, *map(float, numbers))
        except ValueError as error:
            raise ConfigError(
                f'model.priors: expected lines such as "x: normal 0 1", got {line!r}'
            ) from error
    return found


def arrange(frame: Frame, settings: Any) -> dict[str, np.ndarray]:
    """Rows of training by group."""
    return of_frame(settings, frame.train or frame).data


def score(run: FittedRun) -> RowScore:
    """Log predictive density of each held-out row, by draws."""
    model = of_frame(run.settings, run.data.train)
    each = model.log_lik(run.fit, run.key, run.settings.num_draws, table=run.data.test.table)
    return RowScore.of(special.logsumexp(each, axis=0) - np.log(len(each)), "row")


ENDS = ["", "5 %", "50 %", "95 %"]
FOR_ONE_SD = "For one sd of the column, on the scale of the link."


def describe(run: FittedRun) -> list[Block]:
    """The verdict; all unknowns by name; the effects of groups."""
    model = of_frame(run.settings, run.data.train)
    draws = model.draws(run.fit, run.key, run.settings.num_draws)
    quantiles = lambda x: [*map(float, np.quantile(x, [0.05, 0.5, 0.95]))]
    of = [(name, draws.named[name]) for name in model.names]
    rows = [[name, float(x.mean()), float(x.std(ddof=1)), *quantiles(x)] for name, x in of]
    what = f"{model.design.formula}, {model.law.name} ({model.law.link} link)."
    note = (
        f"Of {run.settings.num_draws:,} draws of q. {what} "
        f"{modelled.sentence(model.design, model.law)}"
    )
    blocks: list[Block] = [
        Table("Verdict", ["", ""], [["verdict", run.fit.verdict]]),
        Table("Unknowns", ["", "mean", "sd", "5 %", "50 %", "95 %"], rows, note),
    ]
    if model.law.link != "identity" and (found := coefficients.ratios(model, draws)):
        base = model.design.levels[0] if model.design.against else ""
        title, note = (
            coefficients.ratios_title(model.law, base),
            "For one more of the column, all else equal.",
        )
        blocks.append(
            Table(title, ENDS, [[name, *quantiles(x)] for name, x in found.items()], note)
        )
    if found := coefficients.standardise(model, draws):
        note = (
            "For one sd of the column; in sds of the response."
            if model.law.link == "identity"
            else FOR_ONE_SD
        )
        blocks.append(
            Table(
                "Standardised effects",
                ENDS,
                [[name, *quantiles(x)] for name, x in found.items()],
                note,
            )
        )
    for factor in model.design.factors:
        u, names = draws.effects[factor.name], list(factor.levels)
        labels = [
            (label, level) for level in model.design.against or (None,) for label in factor.labels
        ]
        for i, (label, level) in enumerate(labels):
            title = (
                f"{formula.name_at_level('Intercept' if label == '1' else label, level)}, by "
                f"{factor.name}"
            )
            blocks += _by_group(title, names, u[:, :, i])
    return blocks


def _by_group(title: str, names: list[str], draws: np.ndarray) -> list[Block]:
    """The effects of all groups: drawn where they can be told apart, else as a table."""
    mean, sd = draws.mean(0), draws.std(0)
    if len(names) <= MOST_DRAWN:
        return [Intervals(title, names, mean, sd, "Bars reach two sds.", MOST_PRINTED)]
    ends = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
    rows = [
        [name, *map(float, numbers)] for name, *numbers in zip(names, mean, sd, *ends, strict=True)
    ]
    return [
        Table(title, ["", "mean", "sd", "5 %", "50 %", "95 %"], rows, "All groups, in their order.")
    ]


def transform(run: FittedRun, frame: Frame, tell: Tell) -> RowResults:
    """Predictions of rows, with intervals of 90 % of their mean and of the response; of categories
    the number of the likeliest one, and the probability of each by its name."""
    model = of_frame(run.settings, run.data.train)
    found = model.predict(run.fit, frame.table, key=run.key, num_draws=run.settings.num_draws)
    tell(frame.num_rows)
    levels = model.design.levels
    if not levels:
        return {
            name: getattr(found, name)
            for name in ("mean", "sd", "low", "high", "lowest", "highest")
        }
    named = {"mean": found.mean, "low": found.low, "high": found.high}
    own = {
        f"{name}[{level}]": x[:, i] for name, x in named.items() for i, level in enumerate(levels)
    }
    likeliest = found.mean.argmax(1).astype(float)
    ends = {} if found.lowest is None else {"lowest": found.lowest, "highest": found.highest}
    return {"mean": likeliest, **own, **ends}


LISTING = Listing(
    Settings,
    SOURCE,
    DensityAlgorithm,
    describe,
    arrange,
    score,
    build=lambda settings, data: of_frame(settings, data.train),
    unit="group",
    per="group",
    transform=transform,
    predicts="mean",
    needs_rows=True,
    not_by_parts=NOT_BY_PARTS,
)
