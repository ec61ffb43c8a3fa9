"""Regressions by a formula on the command line, for tables with columns of text too."""

from __future__ import annotations

import dataclasses
import functools
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import special

from vijax.app.catalogue.parts.density_algorithm import NOT_BY_PARTS, DensityAlgorithm
from vijax.app.drawing.blocks import BARS, TITLE_OF_VERDICT, Block, Intervals, Lines, Table
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
from vijax.models.formulas.glmm import (
    ALL,
    OnlyPriorWarning,
    add_precisions,
    glmm,
    prior_notes,
    read_precisions,
    read_weights,
    with_positive_weight,
)
from vijax.models.formulas.glmm_model import Glmm
from vijax.models.formulas.laws import LAWS, find_law
from vijax.numerals import natural_key
from vijax.trust.priors import prior_influence

Settings = model_section(
    glmm,
    "regression by a formula, with effects of groups",
    without=(
        "table",
        "priors",
        "weights",
        "functions",
        "missing",
        "order",
        "formulas",
        "precisions",
    ),
    formula=(str, setting("y ~ x", "the formula: response ~ terms, group effects as in (x | g)")),
    weights=(str | None, setting(None, "column of weights: a row of weight 2 counts as two rows")),
    precisions=(str | None, setting(None, "column of precisions w: the variance is sigma^2 / w")),
    order=(
        tuple[str, ...],
        setting((), "ordered categories as they rise, where they are text"),
    ),
    priors=(
        tuple[str, ...],
        setting(
            (),
            'priors in place of the usual ones: ["x: normal 0 1"]; ["flat"] for flat ones',
        ),
    ),
    formulas=(
        tuple[str, ...],
        setting((), 'formulas of parameters of the law, as ["sigma ~ x + (1 | g)"]'),
    ),
    num_draws=setting(1000, "draws of the posterior for tables, predictions and scores"),
)
SCHEMA = "schema.json"
NO_COLUMNS = Schema(())
MOST_AVERAGED = 5000
"""Most rows over which effects are averaged for the page."""
MOST_DRAWN = 200
"""Most groups whose effects are drawn; of more there is a table."""
MOST_PRINTED = 8
"""Most groups on the screen."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """A table of columns of any kind.

    Attributes:
      table: the columns.
      y: the response; None for rows to predict.
      train: the training rows, if these rows are held out.
      notes: remarks on the format of the file, and on the model.
      schema: the kind of each column, for training rows.
      num_dropped: number of rows left out for a missing cell.
      places: for rows to predict, the places in `every` of those with all cells; None if all have.
      every: the table of all rows to predict, if some lack a cell.
      weights: the weights of the rows, in a score too; None if each counts once.
    """

    table: TypedTable
    y: np.ndarray | None = None
    train: Frame | None = None
    notes: tuple[str, ...] = ()
    schema: Schema = NO_COLUMNS
    num_dropped: int = 0
    places: np.ndarray | None = None
    every: TypedTable | None = None
    weights: np.ndarray | None = None
    classes: None = None
    groups: None = None

    @property
    def x(self) -> np.ndarray:
        """The numbers of its rows, (N, 1), in place of columns, which may be text."""
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


def _weights(config: Any, table: TypedTable) -> np.ndarray | None:
    """The weights of the rows of a table; None where the model has no column of them."""
    name = config.model.weights
    return None if name is None else read_weights(name, table)


def _parse(config: Any) -> Any:
    """The formula, with the terms of the formulas of parameters."""
    parsed = parse(config.model.formula, "model.formula")
    return formula.merge(parsed, [parse(text, "model.formulas") for text in config.model.formulas])


# --- data -----------------------------------------------------------------------------------------
def _read(config: Any, path: str, is_training: bool = True, schema: Schema | None = None) -> Frame:
    """The table of a file. Rows to predict (`is_training` False) need no response, and levels of
    training (`schema`) are no missing cells. Names of groups, and columns outside the formula, are
    the exact text of the file."""
    section = config.data
    rows, digest = (section.num_rows, section.sha256) if path == section.path else (None, None)
    notes = Notes()
    parsed = _parse(config)
    is_dropped = section.missing == "drop" or path != section.path
    family = config.model.family
    roles = formula.column_roles(parsed, family is not None and bool(LAWS[family].categories))
    read = functools.partial(
        read_columns, path, section.synthetic_seed, rows, read_dialect(section), digest, notes=notes
    )
    # Columns that the formula does not read as numbers are exact text; some are read as both.
    exact = AllBut(tuple(name for name in roles.numbers if name not in roles.labels))
    table = table_of_file(read, exact, roles.numbers)
    if schema is not None:
        table = table.with_levels(schema)
    names = _read_names(config, parsed, table, is_training)
    return _whole_rows(table, names, is_training, path, is_dropped, notes)


def _read_memory(config: Any, source: Any, is_training: bool = True) -> Frame:
    """A table in memory; rows that lack a cell are left out, or have empty results."""
    table = typed_table(source)
    names = _read_names(config, _parse(config), table, is_training)
    return _whole_rows(table, names, is_training, "data", True, Notes())


def _read_names(config: Any, parsed: Any, table: TypedTable, is_training: bool) -> tuple[str, ...]:
    """The columns whose cells are read: those of the formula, of precisions, and of the weights of
    training. Who reads these two has the error where the table lacks them."""
    of_rows = [config.model.precisions]
    if is_training:
        of_rows.append(config.model.weights)
    names = formula.named_columns(parsed, is_training)
    return (*names, *(name for name in of_rows if name is not None and name in table))


def _whole_rows(
    table: TypedTable,
    names: Iterable[str],
    is_training: bool,
    where: str,
    is_dropped: bool,
    notes: Notes,
) -> Frame:
    """The rows of a table with all cells of these columns. Raises an error if other rows may not be
    left out, or no row is complete."""
    lacking = _lacking(table, names)  # while lines are known
    if not lacking:
        return Frame(table, notes=notes.texts())
    rows = np.flatnonzero(~np.any(list(lacking.values()), axis=0))
    if not is_dropped or not len(rows):
        raise _missing_cells(table, lacking, where)
    notes.add(_dropped_note(table, lacking, is_training))
    remarks = () if is_training else (AS_IN_TRAINING,)
    for name in lacking:
        note = table.columns[name].said_missing(*remarks)
        if note:
            notes.add(note)
    table_kept = table.rows(rows)
    if is_training:
        return Frame(table_kept, notes=notes.texts(), num_dropped=len(table) - len(rows))
    return Frame(table_kept, notes=notes.texts(), places=rows, every=table)


def _lacking(table: TypedTable, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Masks of the rows that lack a cell, by the columns of the formula with missing cells."""
    masks = {name: table.column("table", name).missing for name in dict.fromkeys(names)}
    return {name: mask for name, mask in masks.items() if mask.any()}


def _missing_cells(table: TypedTable, lacking: Mapping[str, np.ndarray], path: str) -> ValueError:
    """The error on a table with missing cells in columns of the formula."""
    rows_lacking = {
        name: table.list_rows(np.flatnonzero(mask).tolist()) for name, mask in lacking.items()
    }
    places_text = " and ".join(f"none of {name!r} in {rows}" for name, rows in rows_lacking.items())
    remedy = "fill them in; or leave those rows out, --set data.missing=drop"
    words = " ".join(words for name in lacking if (words := table.columns[name].said_missing()))
    return fail(
        path,
        "values in all columns of the formula",
        places_text,
        f"{remedy}. {words.rstrip('.')}" if words else remedy,
    )


def _dropped_note(table: TypedTable, lacking: Mapping[str, np.ndarray], is_training: bool) -> str:
    """The note on rows that lack a cell of the formula."""
    rows = table.list_rows(np.flatnonzero(np.any(list(lacking.values()), axis=0)).tolist())
    counts = ", ".join(f"{name!r} {int(mask.sum()):,}" for name, mask in lacking.items())
    effect = "are left out (data.missing)" if is_training else "have empty results"
    return (
        f"Rows that lack a cell of the formula {effect}: {rows}. Missing cells by column: {counts}."
    )


def load(config: Any) -> Data:
    """The table in two parts, rows of each at random."""
    frame = _read(config, config.data.path)
    share = config.data.held_out
    number = round(share * frame.num_rows)
    if share and not 0 < number < frame.num_rows:
        raise fail(
            config.data.path, "rows for both parts", f"{frame.num_rows} rows", "set data.held_out=0"
        )
    train_rows, test_rows = np.arange(frame.num_rows), np.arange(0)
    if number:
        train_rows, test_rows = split_ids(frame.num_rows, share, config.data.split_seed, "rows")
    table = frame.table.rows(train_rows)
    notes = list(frame.notes)
    weights = _weights(config, table)
    if weights is not None and not weights.all():
        notes.append(f"{int((weights == 0).sum()):,} rows of weight 0 are left out.")
        table, weights = with_positive_weight(table, weights)
    family = config.model.family or formula.usual_family(config.model.formula, frame.table)
    law = find_law(family, config.model.quantile)
    design = formula.read(
        config.model.formula,
        table,
        law,
        config.model.base,
        order=config.model.order or None,
        further=config.model.formulas,
        weights=weights,
    )
    precisions = config.model.precisions
    if precisions is not None:
        design = add_precisions(design, law, precisions, read_precisions(precisions, table))
    notes.append(modelled.sentence(design, law))
    notes += prior_notes(design, law, weights)
    train = Frame(
        table,
        design.y,
        notes=tuple(notes),
        schema=design.schema,
        num_dropped=frame.num_dropped,
        weights=weights,
    )
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
    y = design.response_and_trials(test)[0]
    return Data(train, Frame(test, y, train, weights=_weights(config, test)))


def check(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on settings [data] that the formula replaces."""
    for name in ("columns", "target", "group", "standardise"):
        if getattr(config.data, name):
            raise ConfigError(
                f"{entries[f'data.{name}'].origin}: data.{name}: the formula says it: model.formula"
            )
    if config.data.order:
        raise ConfigError(
            f"{entries['data.order'].origin}: data.order: rows of a formula have no order"
        )
    if config.data.missing == "model":
        raise ConfigError(
            f'{entries["data.missing"].origin}: data.missing: expected "refuse" or "drop" for a '
            "formula"
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
    names = ", ".join(facts["columns"][:4]) + (", ..." if len(facts["columns"]) > 4 else "")
    page_tiles = {
        "Rows": f"{facts['rows']:,} | and {facts['held_out']:,} held out",
        "Columns": f"{len(facts['columns'])} | {names}",
    }
    if facts.get("dropped"):
        page_tiles["Rows left out"] = f"{facts['dropped']:,} | they lack a cell"
    return page_tiles


def digest(data: Data) -> Iterator[Any]:
    """The bytes of all columns."""
    for frame in data.parts:
        for name, column in frame.table.columns.items():
            values = column.values
            yield name.encode()
            if values.dtype == object:
                yield "\n".join(map(str, values)).encode()
            else:
                yield np.ascontiguousarray(values).data


def describe_data(data: Data) -> str:
    """The table in a line."""
    sizes = facts(data)
    return (
        f"{sizes['rows']:,} rows of {len(sizes['columns'])} columns, {sizes['held_out']:,} rows "
        "held out"
    )


def new(config: Any, data: Data, source: Any, column: str | None) -> New:
    """Rows to predict; all columns are passed through."""
    if column is not None:
        raise ConfigError(
            "--column: for models of documents; a table must have the columns of the formula"
        )
    if source is None or isinstance(source, str):
        path = config.data.path if source is None else source
        frame = _read(config, path, is_training=False, schema=data.train.schema)
    else:
        frame = _read_memory(config, source, is_training=False)
    all_rows = frame.every or frame.table
    beside = {name: column.original_cells().tolist() for name, column in all_rows.columns.items()}
    return New(
        frame,
        {"row": np.arange(len(all_rows)), **beside},
        _prediction_notes(frame, data, config),
        frame.places,
    )


def other(config: Any, data: Data, source: Any, column: str | None) -> Frame:
    """Another table with the response, to be scored."""
    check_no_column(column)
    is_path = isinstance(source, str)
    schema = data.train.schema
    frame = _read(config, source, schema=schema) if is_path else _read_memory(config, source)
    y = make_model(config.model, data.train).design.response_and_trials(frame.table)[0]
    return dataclasses.replace(
        frame,
        y=y,
        train=data.train,
        notes=_prediction_notes(frame, data, config),
        weights=_weights(config, frame.table),
    )


def _prediction_notes(frame: Frame, data: Data, config: Any) -> tuple[str, ...]:
    """Notes on rows to predict: groups that are not in training, splines beyond their ends."""
    rows = make_model(config.model, data.train).design.read_rows(frame.table)
    strangers = [
        f"{levels}: their effects are drawn from the law of groups." for levels in rows.new_levels
    ]
    return (*frame.notes, *strangers, *rows.notes)


def _keep(folder: Path, data: Data) -> None:
    """Writes schema.json: the columns of the formula, their kinds and levels."""
    outline = json.dumps(data.train.schema.to_json(), ensure_ascii=False, indent=1)
    write_text(folder / SCHEMA, outline + "\n")


SOURCE = TABLES._replace(
    load=load,
    other=other,
    facts=facts,
    tiles=tiles,
    digest=digest,
    describe=describe_data,
    check=check,
    keep=_keep,
    kept_files=(SCHEMA,),
    units=lambda data: iter(()),  # its digest is of the columns as they are
    kept=lambda folder: None,
    new=new,
)


# --- the model ------------------------------------------------------------------------------------
def make_model(settings: Any, frame: Frame) -> Glmm:
    """The model of a table."""
    return _cached_model(settings, _ByIdentity(frame), jnp.result_type(float))


@dataclasses.dataclass(frozen=True, eq=False)
class _ByIdentity:
    frame: Frame

    def __hash__(self) -> int:
        return id(self.frame)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and self.frame is other.frame


@functools.lru_cache(maxsize=2)
def _cached_model(settings: Any, key: _ByIdentity, dtype: Any) -> Glmm:
    priors = read_priors(settings.priors)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OnlyPriorWarning)  # said by `load`
            return glmm(
                settings.formula,
                key.frame.table,
                weights=settings.weights,
                precisions=settings.precisions,
                priors=priors,
                order=settings.order or None,
                formulas=settings.formulas,
                **section_arguments(settings),
            )
    except ValueError as error:
        if not str(error).startswith("priors: "):
            raise
        raise ConfigError(f"model.{error}") from error


def read_priors(lines: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Priors by name, from lines such as "x: normal 0 1". Names may have colons, as interactions
    do.

    >>> read_priors(["x:z: normal 0 1"])
    {'x:z': ('normal', 0.0, 1.0)}
    >>> read_priors(["flat", "1|g_sigma: half_flat"])
    {'*': ('flat',), '1|g_sigma': ('half_flat',)}
    """
    priors: dict[str, tuple[Any, ...]] = {}
    for line in lines:
        if line.strip() == "flat":
            priors[ALL] = ("flat",)
            continue
        name, _, law = line.rpartition(":")
        try:
            kind, *numbers = law.split()
            priors[name.strip()] = (kind, *map(float, numbers))
        except ValueError as error:
            raise ConfigError(
                f'model.priors: expected lines such as "x: normal 0 1", got {line!r}'
            ) from error
    return priors


def arrange(frame: Frame, settings: Any) -> dict[str, np.ndarray]:
    """Training rows by group."""
    return make_model(settings, frame.train or frame).data


def score(run: FittedRun) -> RowScore:
    """Log predictive density of each held-out row, by draws."""
    model = make_model(run.settings, run.data.train)
    log_liks = model.log_lik(run.fit, run.key, run.settings.num_draws, table=run.data.test.table)
    logs = special.logsumexp(log_liks, axis=0) - np.log(len(log_liks))
    return weighted_score(logs, run.data.test)


def weighted_score(logs: np.ndarray, frame: Frame) -> RowScore:
    """The score of rows of a frame from their log densities: a row of weight 2 counts as two, one
    of weight 0 does not count.

    >>> frame = Frame(typed_table({"y": [1.0, 2.0, 9.0]}), weights=np.array([2.0, 1.0, 0.0]))
    >>> print(weighted_score(np.array([-1.0, -4.0, -99.0]), frame))
    -2.000 ± 1.333 nats per row (3 rows)
    """
    if frame.weights is None:
        return RowScore.of(logs, "row")
    counts = frame.weights > 0
    sizes = frame.weights[counts]
    return RowScore.of(sizes * logs[counts], "row", sizes=sizes)


ENDS = ["", "5 %", "50 %", "95 %"]
ESTIMATES = (
    "Each is an estimate (mean) with its standard deviation (sd); it is between the columns 5 % "
    "and 95 % with a probability of 90 %."
)
FOR_ONE_SD = "For one sd of the column, on the scale of the link."


def describe(run: FittedRun) -> list[Block]:
    """All unknowns by name; the effects of groups; the verdict."""
    model = make_model(run.settings, run.data.train)
    draws = model.draws(run.fit, run.key, run.settings.num_draws)
    rows = []
    for name in model.names:
        x = draws.named[name]
        rows.append([name, float(x.mean()), float(x.std(ddof=1)), *_quantiles(x)])
    law_text = f"{model.design.all_formulas}, {model.law.name} ({model.law.link} link)."
    note = f"{law_text} {modelled.sentence(model.design, model.law)} {ESTIMATES}"
    if model.design.factors:
        note += " Names with _sigma are standard deviations between groups."
    return [
        Table("Unknowns", ["", "mean", "sd", "5 %", "50 %", "95 %"], rows, note),
        *_effect_tables(model, draws),
        *_smooth_curves(model, draws),
        *_all_group_effects(model, draws),
        *_answer_tables(model, run, draws),
        Table(TITLE_OF_VERDICT, ["", ""], [["verdict", run.fit.verdict], _prior_row(run)]),
    ]


def _quantiles(x: Any) -> list[float]:
    return [*map(float, np.quantile(x, [0.05, 0.5, 0.95]))]


def _effect_tables(model: Glmm, draws: Any) -> Iterator[Block]:
    """Ratios, for links other than the identity, and standardised effects."""
    if model.law.has_ratios:
        ratios = coefficients.ratios(model, draws)
        if ratios:
            base = model.design.levels[0] if model.design.against else ""
            title = coefficients.ratios_title(model.law, base)
            rows = [[name, *_quantiles(x)] for name, x in ratios.items()]
            yield Table(title, ENDS, rows, "For one more of the column, all else equal.")
    effects = coefficients.standardise(model, draws)
    if effects:
        note = FOR_ONE_SD
        if model.law.link == "identity":
            note = "For one sd of the column; in sds of the response."
        rows = [[name, *_quantiles(x)] for name, x in effects.items()]
        yield Table("Standardised effects", ENDS, rows, note)


def _smooth_curves(model: Glmm, draws: Any) -> Iterator[Block]:
    """The smooth functions of one column, with bands."""
    for name, column, x, values in model.smooth_curves(draws):
        low, high = np.quantile(values, [0.05, 0.95], axis=0)
        note = "On the scale of the link, with a band of 90 %."
        yield Lines(f"Function {name}", column, name, x, values.mean(0), low, high, note=note)


def _prior_row(run: FittedRun) -> list[str]:
    """The row of the verdict on estimates that their prior moved."""
    draws = run.settings.num_draws
    influence = prior_influence(run.fit, key=run.key, num_draws=draws)
    return ["priors", " ".join(influence.sentences())]


def _answer_tables(model: Glmm, run: FittedRun, draws: Any) -> Iterator[Block]:
    """Effects of columns in the units of the response, and the variance explained; for many rows
    `vijax effects` has them."""
    if run.data.train.num_rows > MOST_AVERAGED:
        return
    if any(columns.columns for columns in model.design.learnt):
        title = "Average effects, in the units of the response"
        yield _answer_block(title, lambda: model.comparisons(draws, key=run.key))
    # The variance of "t" may be infinite; known errors alone leave nothing to explain.
    if model.law.has_variance and model.law.name != "t" and not model.density_form.knows_sigma:
        explain = lambda: model.explained_variance(draws, key=run.key)
        yield _answer_block("Variance explained", explain)


def _answer_block(title: str, ask: Callable[[], Any]) -> Table:
    """The table of an answer. One that the model does not have, as of log(1 - x) at one more of x,
    is told in its place: the page has all else."""
    try:
        answer = ask()
    except ValueError as error:
        reason = str(error).partition("\n")[0]
        return Table(title, ["", ""], [["no answer", f"{reason} See: vijax effects RUN."]])
    columns = {name: x.tolist() for name, x in answer.columns().items()}
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    return Table(title, list(columns), rows, " ".join(answer.notes))


def _all_group_effects(model: Glmm, draws: Any) -> list[Block]:
    """The effects of the groups of each factor, for each of its terms."""
    blocks: list[Block] = []
    for factor in model.design.factors:
        u = draws.effects[factor.name]
        names = list(factor.levels)
        levels = model.design.against or (None,)
        labels = [(label, level) for level in levels for label in factor.labels]
        for i, (label, level) in enumerate(labels):
            term = formula.name_at_level("Intercept" if label == "1" else label, level)
            blocks += _group_effects(f"{term}, by {factor.name}", names, u[:, :, i])
    return blocks


def _group_effects(title: str, names: list[str], draws: np.ndarray) -> list[Block]:
    """The effects of all groups: drawn if they can be told apart, else a table; numbers in names
    are in the order of numbers."""
    order = sorted(range(len(names)), key=lambda i: natural_key(names[i]))
    names, draws = [names[i] for i in order], draws[:, order]
    mean, sd = draws.mean(0), draws.std(0)
    if len(names) <= MOST_DRAWN:
        return [Intervals(title, names, mean, sd, BARS, MOST_PRINTED)]
    ends = np.quantile(draws, [0.05, 0.5, 0.95], axis=0)
    numbers = zip(names, mean, sd, *ends, strict=True)
    rows = [[name, *map(float, row)] for name, *row in numbers]
    header = ["", "mean", "sd", "5 %", "50 %", "95 %"]
    return [Table(title, header, rows, "All groups, by name.")]


def transform(run: FittedRun, frame: Frame, tell: Tell) -> RowResults:
    """Predictions of rows, with intervals of 90 % for their mean and the response; for categories
    the number of the likeliest, and the probability of each by name."""
    model = make_model(run.settings, run.data.train)
    prediction = model.predict(run.fit, frame.table, key=run.key, num_draws=run.settings.num_draws)
    tell(frame.num_rows)
    levels = model.design.levels
    if not levels:
        names = ("mean", "sd", "low", "high", "lowest", "highest")
        return {name: getattr(prediction, name) for name in names}
    by_level = {}
    for name in ("mean", "low", "high"):
        for i, level in enumerate(levels):
            by_level[f"{name}[{level}]"] = getattr(prediction, name)[:, i]
    likeliest = prediction.mean.argmax(1).astype(float)
    results = {"mean": likeliest, **by_level}
    if prediction.lowest is not None:
        results |= {"lowest": prediction.lowest, "highest": prediction.highest}
    return results


LISTING = Listing(
    Settings,
    SOURCE,
    DensityAlgorithm,
    describe,
    arrange,
    score,
    build=lambda settings, data: make_model(settings, data.train),
    unit="group",
    per="group",
    transform=transform,
    predicts="mean",
    needs_rows=True,
    not_by_parts=NOT_BY_PARTS,
)
