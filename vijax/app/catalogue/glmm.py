"""Regressions by a formula on the command line, of tables whose columns may be text."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import special

from vijax.app.kinds.density_algorithm import DensityAlgorithm
from vijax.app.kinds.listing import Data, Found, Listing, New, Seen, Tell
from vijax.app.kinds.tables import TABLES
from vijax.app.page.blocks import Block, Intervals, Table
from vijax.app.rows.by_row import RowScore
from vijax.app.settings.options import given, model_section
from vijax.app.settings.sections import dialect_of
from vijax.app.settings.typed_toml import ConfigError, Entry, setting
from vijax.data.reading.checks import Notes, fail
from vijax.data.tables.columns import Columns, columns_of
from vijax.data.tables.table_files import read_columns
from vijax.models.formulas import coefficients, formula
from vijax.models.formulas.glmm import Glmm, glmm
from vijax.models.formulas.laws import LAWS

Settings = model_section(
    glmm,
    "regression by a formula, with effects of groups",
    without=("table", "priors", "weights"),
    formula=(str, setting("y ~ x", "the formula: response ~ terms, group effects as in (x | g)")),
    weights=(str | None, setting(None, "column of weights: a row of weight 2 counts as two rows")),
    priors=(
        tuple[str, ...],
        setting((), 'priors in place of the usual ones, as ["x: normal 0 1", "1|g_sigma: half_normal 2"]'),
    ),
    num_draws=setting(1000, "draws of the posterior for tables, predictions and scores"),
)
MOST_SHOWN = 40
"""Groups whose effects are drawn."""


@dataclasses.dataclass(frozen=True)
class Frame:
    """A table of columns of numbers and of text.

    Attributes:
      found: the columns by name.
      y: the response; None of rows to predict.
      train: the rows of training, where these are held out.
      notes: remarks on the way in which the file is written.
    """

    found: Columns
    y: np.ndarray | None = None
    train: Frame | None = None
    notes: tuple[str, ...] = ()
    classes: None = None
    groups: None = None

    @property
    def x(self) -> np.ndarray:
        """The numbers of its rows, (N, 1): their places. Columns may be text."""
        return np.arange(self.num_rows, dtype=float)[:, None]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.found)

    @property
    def num_rows(self) -> int:
        """N."""
        return len(next(iter(self.found.values())))

    def __len__(self) -> int:
        return self.num_rows

    def rows(self, places: np.ndarray) -> dict[str, np.ndarray]:
        """Columns of some of the rows."""
        return {name: values[places] for name, values in self.found.items()}


# --- data ------------------------------------------------------------------------------------------------------------
def _read(config: Any, path: str, seen: bool = True) -> Frame:
    """The table of a file; rows to predict (`seen` False) need no response."""
    own, text = config.data, config.model.formula
    rows, digest = (own.num_rows, own.sha256) if path == own.path else (None, None)
    notes = Notes()
    found = read_columns(path, own.synthetic_seed, rows, dialect_of(own), digest, notes=notes)
    formula.require_whole(formula.frame_of(found), text if seen else text.rpartition("~")[2])  # while lines are known
    return Frame(dict(found), notes=notes.texts())


def load(config: Any) -> Data:
    """The table in two parts, rows of each at random."""
    frame, share = _read(config, config.data.path), config.data.held_out
    order = np.random.default_rng(config.data.split_seed).permutation(frame.num_rows)
    number = round(share * frame.num_rows)
    if share and not 0 < number < frame.num_rows:
        raise fail(config.data.path, "rows for both parts", f"{frame.num_rows} rows", "set data.held_out=0")
    found = frame.rows(np.sort(order[number:]))
    design = formula.read(config.model.formula, found, LAWS[config.model.family], config.model.base)
    train = Frame(found, design.y, notes=frame.notes)
    if not number:
        return Data(train, None)
    test = frame.rows(np.sort(order[:number]))
    return Data(train, Frame(test, design.seen(test)[0], train))


def check(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on settings [data] that the formula takes the place of."""
    for name in ("columns", "target", "group", "standardise"):
        if getattr(config.data, name):
            raise ConfigError(f"{entries[f'data.{name}'].origin}: data.{name}: the formula says it: model.formula")
    if config.data.hold_out == "entries":
        raise ConfigError(f'{entries["data.hold_out"].origin}: data.hold_out: expected "rows" for a formula')


def facts(data: Data) -> dict[str, Any]:
    """The sizes of the table."""
    held_out = 0 if data.test is None else data.test.num_rows
    return {"rows": data.train.num_rows, "columns": list(data.train.columns), "held_out": held_out}


def tiles(facts: dict[str, Any]) -> dict[str, str]:
    """The tiles of the table."""
    named = ", ".join(facts["columns"][:4]) + (", ..." if len(facts["columns"]) > 4 else "")
    return {
        "Rows": f"{facts['rows']:,} | and {facts['held_out']:,} held out",
        "Columns": f"{len(facts['columns'])} | {named}",
    }


def digest(data: Data) -> Iterator[Any]:
    """The bytes of all columns."""
    for frame in data.parts:
        for name, values in frame.found.items():
            yield name.encode()
            yield "\n".join(map(str, values)).encode() if values.dtype == object else np.ascontiguousarray(values).data


def described(data: Data) -> str:
    """The table in a line."""
    found = facts(data)
    return f"{found['rows']:,} rows of {len(found['columns'])} columns, {found['held_out']:,} rows held out"


def new(config: Any, data: Data, source: Any, column: str | None) -> New:
    """Rows to predict; all columns are carried through."""
    if column is not None:
        raise ConfigError("--column: for models of documents; a table must have the columns of the formula")
    if source is None or isinstance(source, str):
        frame = _read(config, config.data.path if source is None else source, seen=False)
    else:
        frame = Frame(dict(columns_of(source)))
    return New(frame, {"row": np.arange(frame.num_rows), **{k: v.tolist() for k, v in frame.found.items()}})


SOURCE = TABLES._replace(
    load=load,
    other=lambda config, data, path, column: _read(config, path),
    facts=facts,
    tiles=tiles,
    digest=digest,
    describe=described,
    check=check,
    keep=lambda folder, data: None,
    kept=lambda folder: None,
    new=new,
)


# --- the model -------------------------------------------------------------------------------------------------------
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
    priors, found = _priors(settings.priors), dict(of.frame.found)
    try:
        return glmm(settings.formula, found, weights=settings.weights, priors=priors, **given(settings))
    except ValueError as error:
        if not str(error).startswith("priors: "):
            raise
        raise ConfigError(f"model.{error}") from error


def _priors(lines: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """Priors by name, from lines such as "x: normal 0 1". Names may have colons, as those of interactions have.

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
            raise ConfigError(f'model.priors: expected lines such as "x: normal 0 1", got {line!r}') from error
    return found


def arrange(frame: Frame, settings: Any) -> dict[str, np.ndarray]:
    """Rows of training by group."""
    return of_frame(settings, frame.train or frame).data


def score(seen: Seen) -> RowScore:
    """Log predictive density of each held-out row, by draws."""
    model, frame = of_frame(seen.settings, seen.data.train), dict(seen.data.test.found)
    each = model.log_lik(seen.fit, seen.key, seen.settings.num_draws, table=frame)
    return RowScore.of(special.logsumexp(each, axis=0) - np.log(len(each)), "row")


ENDS = ["", "5 %", "50 %", "95 %"]
FOR_ONE_SD = "For one sd of the column, on the scale of the link."


def describe(seen: Seen) -> list[Block]:
    """The verdict; all unknowns by name; the effects of groups."""
    model = of_frame(seen.settings, seen.data.train)
    draws = model.draws(seen.fit, seen.key, seen.settings.num_draws)
    quantiles = lambda x: [*map(float, np.quantile(x, [0.05, 0.5, 0.95]))]
    of = [(name, draws.named[name]) for name in model.names]
    rows = [[name, float(x.mean()), float(x.std(ddof=1)), *quantiles(x)] for name, x in of]
    note = (
        f"Of {seen.settings.num_draws:,} draws of q. {model.design.formula}, {model.law.name} ({model.law.link} link)."
    )
    blocks: list[Block] = [
        Table("Verdict", ["", ""], [["verdict", seen.fit.verdict]]),
        Table("Unknowns", ["", "mean", "sd", "5 %", "50 %", "95 %"], rows, note),
    ]
    if model.law.link != "identity" and (found := coefficients.ratios(model, draws)):
        base = model.design.levels[0] if model.design.against else ""
        title, note = coefficients.ratios_of(model.law, base), "For one more of the column, all else equal."
        blocks.append(Table(title, ENDS, [[name, *quantiles(x)] for name, x in found.items()], note))
    if found := coefficients.standardised(model, draws):
        note = "For one sd of the column; in sds of the response." if model.law.link == "identity" else FOR_ONE_SD
        blocks.append(Table("Standardised effects", ENDS, [[name, *quantiles(x)] for name, x in found.items()], note))
    for factor in model.design.factors:
        u, names = draws.effects[factor.name], list(factor.levels)[:MOST_SHOWN]
        labels = [(label, level) for level in model.design.against or (None,) for label in factor.labels]
        for i, (label, level) in enumerate(labels):
            shown = u[:, : len(names), i]
            title = f"{formula.at_level('Intercept' if label == '1' else label, level)}, by {factor.name}"
            blocks.append(Intervals(title, names, shown.mean(0), shown.std(0), "Bars reach two sds.", 8))
    return blocks


def transform(seen: Seen, frame: Frame, tell: Tell) -> Found:
    """Predictions of rows, with intervals of 90 % of their mean and of the response; of categories the number of the
    likeliest one, and the probability of each by its name."""
    model = of_frame(seen.settings, seen.data.train)
    found = model.predict(seen.fit, dict(frame.found), key=seen.key, num_draws=seen.settings.num_draws)
    tell(frame.num_rows)
    levels = model.design.levels
    if not levels:
        return {name: getattr(found, name) for name in ("mean", "sd", "low", "high", "lowest", "highest")}
    named = {"mean": found.mean, "low": found.low, "high": found.high}
    own = {f"{name}[{level}]": x[:, i] for name, x in named.items() for i, level in enumerate(levels)}
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
)
