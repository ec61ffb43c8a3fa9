"""Topics with covariates on the command line: documents with the columns beside their text."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from vijax.app.catalogue.topics import (
    OF_DOCUMENTS,
    CtmAlgorithm,
    correlations,
    of_shares,
    topics_block,
)
from vijax.app.drawing import blocks
from vijax.app.drawing.blocks import Block, Curves, Intervals, Table
from vijax.app.settings.options import model_section, section_arguments
from vijax.app.settings.progress import Counter
from vijax.app.settings.sections import DescribedData
from vijax.app.settings.typed_toml import setting
from vijax.app.sources.documents import DOCUMENTS, side_columns, source_section
from vijax.app.sources.listing import Data, FittedRun, Listing, New, RowResults, Tell
from vijax.app.sources.topic_names import SEED_SETTINGS, build_with_seeds
from vijax.data.corpora.corpus import Corpus, split_ids
from vijax.data.read import WRITTEN_BY_PEOPLE
from vijax.data.reading.checks import DataError
from vijax.data.schema.missing_words import (
    IF_NAMES,
    MissingWords,
    missing_words,
    said_of_words,
    without_words,
)
from vijax.data.schema.typed_columns import TypedColumn, TypedTable
from vijax.data.tables.columns import strip_blanks
from vijax.evaluate import frex
from vijax.models.structural.covariates import Covariates
from vijax.models.structural.effects import Effects
from vijax.models.structural.stm import Stm, stm

Settings = model_section(
    stm,
    "topics with covariates (structural topic model)",
    without=("corpus", "table", "seed"),
    num_topics=20,
    prevalence=(str, setting("~ 1", 'covariates of the shares, as "~ party + bs(day, df=4)"')),
    **SEED_SETTINGS,
)
NUM_WORDS = 8
"""Words of a topic that are named by group."""
LEAST_VALUES, NUM_PLACES = 5, 41
"""Different numbers of a column along which shares are drawn, at least; places where they are."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Described(Corpus):
    """Documents with the columns beside their text."""

    beside: TypedTable = dataclasses.field(default_factory=lambda: TypedTable({}, 0))

    def __getitem__(self, rows: Any) -> Corpus:
        kept = self.beside.rows(np.arange(self.num_documents)[rows])
        return dataclasses.replace(super().__getitem__(rows), beside=kept)  # type: ignore[call-arg]


def _described(corpus: Corpus, table: TypedTable, covariates: Covariates) -> Described:
    """The documents with these columns and the covariates made of them."""
    corpus = covariates.of(corpus, table)
    return Described(
        **{field.name: getattr(corpus, field.name) for field in dataclasses.fields(Corpus)},
        beside=table,
    )


def _table_of(columns: Mapping[str, Sequence[Any]], num_documents: int, section: Any) -> TypedTable:
    """Columns of a file as they are written, without words for missing cells; of none a table of as
    many rows as there are documents."""
    written_by_people = getattr(columns, "format", None) in WRITTEN_BY_PEOPLE
    words = missing_words(section.missing_words, written_by_people)
    typed = {name: _column_of(name, values, words) for name, values in columns.items()}
    return TypedTable(typed, num_documents, getattr(columns, "rows", None))


def _column_of(name: str, values: Sequence[Any], words: MissingWords) -> TypedColumn:
    cleared = without_words(strip_blanks(values), words, are_names=False)
    cells = np.empty(len(values), object)
    cells[:] = cleared.cells
    return TypedColumn(name, cells, from_file=True, written=cleared.written)


@contextlib.contextmanager
def _saying_words(*parts: TypedTable) -> Iterator[None]:
    """Adds to an error on cells that columns lack the words in them that were read as missing."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        named = [
            name
            for name in parts[0].columns
            if f"none of {name!r}" in text or f"each row of {name!r}" in text
        ]
        said = [sentence for name in named if (sentence := _said_missing(parts, name))]
        if not said:
            raise
        raise DataError(" ".join([text, *said])) from error


def _said_missing(parts: Sequence[TypedTable], name: str) -> str:
    """Sentences on the words of a column that were read as missing, in all parts of a table."""
    columns = [part.columns[name] for part in parts]
    missing = np.concatenate([column.missing for column in columns])
    said = said_of_words(name, np.concatenate([column.as_written() for column in columns]), missing)
    return f"{said}{IF_NAMES}" if said else ""


# --- data -----------------------------------------------------------------------------------------
def load(config: Any) -> Data:
    """The documents, split, with columns and covariates."""
    found = DOCUMENTS.load(config)
    parts = _columns_of_parts(config.data, found)
    with _saying_words(*parts):
        covariates = Covariates.read(config.model.prevalence, config.model.content, parts[0])
        train, *test = (
            _described(*both, covariates) for both in zip(found.parts, parts, strict=True)
        )
    return Data(train, test[0] if test else None)


def _columns_of_parts(section: Any, data: Data) -> list[TypedTable]:
    """The columns of each part. What a column is, all rows of the file say."""
    if section.path == "docstrings":
        return [
            _table_of(side_columns(section, part), part.num_documents, section)
            for part in data.parts
        ]
    number = sum(part.num_documents for part in data.parts)
    whole = _table_of(side_columns(section, data.train), number, section)
    if data.test is None:
        return [whole]
    return [whole.rows(own) for own in split_ids(number, section.held_out, section.split_seed)]


def other(config: Any, data: Data, path: str, column: str | None) -> Corpus:
    """Other documents, with their columns."""
    return new(config, data, path, column).data


def new(config: Any, data: Data, source: Any, column: str | None) -> New:
    """Documents to infer the topics of, with the columns beside their text."""
    found = DOCUMENTS.new(config, data, source, column)
    section = config.data if source is None else source_section(config, source, column)
    table = _table_of(side_columns(section, found.data, source), found.data.num_documents, section)
    with _saying_words(table):
        described = _described(found.data, table, of_corpus(config.model, data.train).covariates)
    return found._replace(data=described)


def digest(data: Data) -> Iterator[Any]:
    """The bytes of documents and covariates."""
    yield from DOCUMENTS.digest(data)
    for part in data.parts:
        yield np.ascontiguousarray(part.covariates).data


SOURCE = DOCUMENTS._replace(section=DescribedData, load=load, other=other, new=new, digest=digest)


# --- the model ------------------------------------------------------------------------------------
def of_corpus(settings: Any, corpus: Described) -> Stm:
    """The model of documents."""
    return _remembered(settings, corpus, jnp.result_type(float))


@functools.lru_cache(maxsize=2)
def _remembered(settings: Any, corpus: Described, dtype: Any) -> Stm:
    make: Any = lambda settings, data: stm(
        corpus=corpus,
        table=corpus.beside,
        prevalence=settings.prevalence,
        **section_arguments(settings),
    )
    return build_with_seeds(settings, Data(corpus, None), make)


def describe(run: FittedRun) -> list[Block]:
    """The topics; effects of the covariates on their shares; words by group; which topics go
    together."""
    model = of_corpus(run.settings, run.data.train)
    topics = topics_block(
        run, lambda sample, rows: run.fit.transform(model.data[rows], key=run.key)
    )
    called = {topic.number: topic.full_label for topic in topics.topics}
    shown: list[Block] = [topics, *_effects(model, run, called)]
    if model.covariates.groups:
        shown.append(_words_by_group(model, run, called))
    return [*shown, *correlations(run, topics)]


def _effects(model: Stm, run: FittedRun, called: Mapping[int, str]) -> Iterator[Block]:
    """Shares along columns of numbers; then a table and a drawing of each column's effects. Those
    of splines are left out: they mean nothing by themselves."""
    told = Counter(run.say, "sweeps for the effects of covariates")
    effects, names, order = (
        model.effects(run.fit, key=run.key, callback=told),
        list(called.values()),
        list(called),
    )
    each = [x[order] for x in (effects.mean, effects.sd, effects.low, effects.high)]
    by = f"On the share of each topic, by {effects.design.formula.partition('~')[2].strip()}."
    note = " ".join([by, *effects.notes])  # once
    for block in _curves(effects, run.data.train.beside, called):
        yield block._replace(note=f"{block.note} {note}")
        note = by
    for j, (label, is_category) in enumerate(
        zip(effects.labels, effects.design.categorical, strict=True)
    ):
        if label == "Intercept" or (label.endswith("]") and not is_category):
            continue
        rows = [
            [name, *map(float, numbers)]
            for name, *numbers in zip(names, *(x[:, j] for x in each), strict=True)
        ]
        yield Table(f"Effect of {label}", ["", "mean", "sd", "5 %", "95 %"], rows, note)
        yield Intervals(
            f"Effect of {label}, drawn",
            names,
            each[0][:, j],
            each[1][:, j],
            "Bars reach two sds.",
            0,
        )
        note = by


def _curves(effects: Effects, beside: TypedTable, called: Mapping[int, str]) -> Iterator[Curves]:
    """The shares of topics along each column of numbers that the formula names, the others held."""
    named = effects.design.common.columns
    held = {name: _middle(beside.columns[name]) for name in named}
    for name in named:
        if beside.columns[name].kind not in ("number", "truth") or name in _labels_in(effects):
            continue
        values = beside.columns[name].numbers()
        if len(np.unique(values)) < LEAST_VALUES:
            continue
        x = np.linspace(values.min(), values.max(), NUM_PLACES)
        rows = {other: np.repeat(np.array([held[other]], object), len(x)) for other in named}
        found = effects.at({**rows, name: x})
        mean, low, high = (part[list(called)] for part in (found.mean, found.low, found.high))
        others = ", ".join(
            f"{other} = {blocks.show_number(held[other])}" for other in named if other != name
        )
        note = f"Expected shares, with 90 % intervals{f'; {others}' if others else ''}."
        yield Curves(f"Shares along {name}", name, list(called.values()), x, mean, low, high, note)


def _labels_in(effects: Effects) -> set[str]:
    """The columns of numbers that the formula takes for categories."""
    return {category.column.name for category in effects.design.common.categories.values()}


def _middle(column: TypedColumn) -> Any:
    """The median of numbers, the most frequent label."""
    if column.kind in ("number", "truth"):
        return float(np.median(column.numbers()))
    labels = column.labels()
    return labels.names[int(np.bincount(labels.codes[labels.codes >= 0]).argmax())]


def _words_by_group(model: Stm, run: FittedRun, called: Mapping[int, str]) -> Table:
    """The words that are frequent in a topic and exclusive to a group, of each topic and group."""
    words, names = model.words(run.fit), run.data.names
    rows = []
    for k in called:
        leading = np.argsort(-frex(words[:, k]), axis=1, kind="stable")[:, :NUM_WORDS]
        rows.append([called[k], *(" ".join(names[v] for v in own) for own in leading)])
    return Table(f"Words by {model.covariates.content}", ["", *model.covariates.groups], rows)


def transform(run: FittedRun, corpus: Any, tell: Tell) -> RowResults:
    """The topics of documents: the largest of each, and the shares of all."""
    return of_shares(run.fit.transform(corpus, key=run.key, progress=tell))


LISTING = Listing(
    Settings,
    SOURCE,
    CtmAlgorithm,
    describe,
    build=lambda settings, data: of_corpus(settings, data.train),
    transform=transform,
    needs_rows=True,
    **OF_DOCUMENTS,
)
