"""Topics with covariates on the command line: documents with other columns beside their text."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from vijax.app.catalogue.topics import (
    DOCUMENT_LISTING,
    CtmAlgorithm,
    correlations,
    topic_results,
    topics_block,
)
from vijax.app.drawing import blocks
from vijax.app.drawing.blocks import BARS, Block, Curves, Intervals, Table
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
    clear_words,
    missing_words,
    said_of_words,
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
"""Words of a topic that are listed for each group."""
LEAST_VALUES = 5
"""Least number of different numbers of a column along which shares are drawn."""
NUM_PLACES = 41
"""Number of places at which they are drawn."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class DocumentsWithColumns(Corpus):
    """Documents with the columns beside their text."""

    beside: TypedTable = dataclasses.field(default_factory=lambda: TypedTable({}, 0))

    def __getitem__(self, rows: Any) -> Corpus:
        table = self.beside.rows(np.arange(self.num_documents)[rows])
        part = super().__getitem__(rows)
        return dataclasses.replace(part, beside=table)  # type: ignore[call-arg]


def _with_columns(
    corpus: Corpus, table: TypedTable, covariates: Covariates
) -> DocumentsWithColumns:
    """The documents with these columns and the covariates made from them."""
    corpus = covariates.attach(corpus, table)
    fields = {field.name: getattr(corpus, field.name) for field in dataclasses.fields(Corpus)}
    return DocumentsWithColumns(**fields, beside=table)


def _to_table(columns: Mapping[str, Sequence[Any]], num_documents: int, section: Any) -> TypedTable:
    """Columns of a file as they are written, without words for missing cells; without columns a
    table with a row for each document."""
    written_by_people = getattr(columns, "format", None) in WRITTEN_BY_PEOPLE
    words = missing_words(section.missing_words, written_by_people)
    typed = {name: _to_column(name, values, words) for name, values in columns.items()}
    return TypedTable(typed, num_documents, getattr(columns, "rows", None))


def _to_column(name: str, values: Sequence[Any], words: MissingWords) -> TypedColumn:
    cleared = clear_words(strip_blanks(values), words, are_names=False)
    cells = np.empty(len(values), object)
    cells[:] = cleared.cells
    return TypedColumn(name, cells, from_file=True, written=cleared.written)


@contextlib.contextmanager
def _explain_missing_words(*parts: TypedTable) -> Iterator[None]:
    """Adds to an error on missing cells the words that were read as missing."""
    try:
        yield
    except ValueError as error:
        text = str(error)
        is_named = lambda name: f"none of {name!r}" in text or f"each row of {name!r}" in text
        names = filter(is_named, parts[0].columns)
        notes = list(filter(None, (_missing_words_note(parts, name) for name in names)))
        if not notes:
            raise
        raise DataError(" ".join([text, *notes])) from error


def _missing_words_note(parts: Sequence[TypedTable], name: str) -> str:
    """Sentences on the words of a column that were read as missing, in all parts of a table."""
    columns = [part.columns[name] for part in parts]
    missing = np.concatenate([column.missing for column in columns])
    note = said_of_words(
        name, np.concatenate([column.original_cells() for column in columns]), missing
    )
    return f"{note}{IF_NAMES}" if note else ""


# --- data -----------------------------------------------------------------------------------------
def load(config: Any) -> Data:
    """The documents, split, with columns and covariates."""
    data = DOCUMENTS.load(config)
    parts = _columns_of_parts(config.data, data)
    with _explain_missing_words(*parts):
        covariates = Covariates.read(config.model.prevalence, config.model.content, parts[0])
        pairs = zip(data.parts, parts, strict=True)
        train, *test = (_with_columns(corpus, table, covariates) for corpus, table in pairs)
    return Data(train, test[0] if test else None)


def _columns_of_parts(section: Any, data: Data) -> list[TypedTable]:
    """The columns of each part. All rows of the file decide the kind of a column."""
    if section.path == "docstrings":
        return [
            _to_table(side_columns(section, part), part.num_documents, section)
            for part in data.parts
        ]
    number = sum(part.num_documents for part in data.parts)
    table = _to_table(side_columns(section, data.train), number, section)
    if data.test is None:
        return [table]
    return [table.rows(ids) for ids in split_ids(number, section.held_out, section.split_seed)]


def other(config: Any, data: Data, path: str, column: str | None) -> Corpus:
    """Other documents, with their columns."""
    return new(config, data, path, column).data


def new(config: Any, data: Data, source: Any, column: str | None) -> New:
    """Documents whose topics are inferred, with the columns beside their text."""
    new_data = DOCUMENTS.new(config, data, source, column)
    section = config.data if source is None else source_section(config, source, column)
    table = _to_table(
        side_columns(section, new_data.data, source), new_data.data.num_documents, section
    )
    with _explain_missing_words(table):
        documents = _with_columns(
            new_data.data, table, make_model(config.model, data.train).covariates
        )
    return new_data._replace(data=documents)


def digest(data: Data) -> Iterator[Any]:
    """The bytes of documents and covariates."""
    yield from DOCUMENTS.digest(data)
    for part in data.parts:
        yield np.ascontiguousarray(part.covariates).data


SOURCE = DOCUMENTS._replace(section=DescribedData, load=load, other=other, new=new, digest=digest)


# --- the model ------------------------------------------------------------------------------------
def make_model(settings: Any, corpus: DocumentsWithColumns) -> Stm:
    """The model of documents."""
    return _cached_model(settings, corpus, jnp.result_type(float))


@functools.lru_cache(maxsize=2)
def _cached_model(settings: Any, corpus: DocumentsWithColumns, dtype: Any) -> Stm:
    make: Any = lambda settings, data: stm(
        corpus=corpus,
        table=corpus.beside,
        prevalence=settings.prevalence,
        **section_arguments(settings),
    )
    return build_with_seeds(settings, Data(corpus, None), make)


def describe(run: FittedRun) -> list[Block]:
    """The topics; effects of covariates on their shares; words by group; correlations."""
    model = make_model(run.settings, run.data.train)
    proportions = lambda sample, rows: run.fit.transform(model.data[rows], key=run.key)
    topics = topics_block(run, proportions)
    labels = {topic.number: topic.full_label for topic in topics.topics}
    page_blocks: list[Block] = [topics, *_effects(model, run, labels)]
    if model.covariates.groups:
        page_blocks.append(_words_by_group(model, run, labels))
    return [*page_blocks, *correlations(run, topics)]


def _effects(model: Stm, run: FittedRun, labels: Mapping[int, str]) -> Iterator[Block]:
    """Shares along columns of numbers; then a table and a drawing of each column's effects. Effects
    of splines are left out: they mean nothing alone."""
    counter = Counter(run.say, "sweeps for the effects of covariates")
    effects = model.effects(run.fit, key=run.key, callback=counter)
    names = list(labels.values())
    order = list(labels)
    statistics = [x[order] for x in (effects.mean, effects.sd, effects.low, effects.high)]
    formula_note = (
        f"On the share of each topic, by {effects.design.formula.partition('~')[2].strip()}."
    )
    note = " ".join([formula_note, *effects.notes])  # once
    for block in _curves(effects, run.data.train.beside, labels):
        yield block._replace(note=f"{block.note} {note}")
        note = formula_note
    for j, (label, is_category) in enumerate(
        zip(effects.labels, effects.design.categorical, strict=True)
    ):
        if label == "Intercept" or (label.endswith("]") and not is_category):
            continue
        numbers = np.stack([x[:, j] for x in statistics], axis=1)
        rows = [[name, *map(float, row)] for name, row in zip(names, numbers, strict=True)]
        yield Table(f"Effect of {label}", ["", "mean", "sd", "5 %", "95 %"], rows, note)
        yield Intervals(
            f"Effect of {label}, drawn",
            names,
            statistics[0][:, j],
            statistics[1][:, j],
            BARS,
            0,
        )
        note = formula_note


def _curves(effects: Effects, beside: TypedTable, labels: Mapping[int, str]) -> Iterator[Curves]:
    """The shares of topics along each column of numbers in the formula, with the others fixed."""
    columns = effects.design.common.columns
    fixed = {name: _middle(beside.columns[name]) for name in columns}
    for name in columns:
        if beside.columns[name].kind not in ("number", "truth") or name in _category_columns(
            effects
        ):
            continue
        values = beside.columns[name].numbers()
        if len(np.unique(values)) < LEAST_VALUES:
            continue
        x = np.linspace(values.min(), values.max(), NUM_PLACES)
        rows = {column: np.repeat(np.array([fixed[column]], object), len(x)) for column in columns}
        shares = effects.at({**rows, name: x})
        mean, low, high = (part[list(labels)] for part in (shares.mean, shares.low, shares.high))
        fixed_columns = [column for column in columns if column != name]
        fixed_text = ", ".join(
            f"{column} = {blocks.show_number(fixed[column])}" for column in fixed_columns
        )
        note = "Expected shares, with 90 % intervals."
        if fixed_columns:
            note = f"Expected shares, with 90 % intervals; {fixed_text}."
        yield Curves(f"Shares along {name}", name, list(labels.values()), x, mean, low, high, note)


def _category_columns(effects: Effects) -> set[str]:
    """The columns of numbers that the formula takes for categories."""
    return {category.column.name for category in effects.design.common.categories.values()}


def _middle(column: TypedColumn) -> Any:
    """The median of numbers, the most frequent label."""
    if column.kind in ("number", "truth"):
        return float(np.median(column.numbers()))
    labels = column.labels()
    return labels.names[int(np.bincount(labels.codes[labels.codes >= 0]).argmax())]


def _words_by_group(model: Stm, run: FittedRun, labels: Mapping[int, str]) -> Table:
    """The words frequent in a topic and exclusive to a group, for each topic and group."""
    words = model.words(run.fit)
    names = run.data.names
    rows = []
    for k in labels:
        leading = np.argsort(-frex(words[:, k]), axis=1, kind="stable")[:, :NUM_WORDS]
        by_group = [" ".join(names[v] for v in places) for places in leading]
        rows.append([labels[k], *by_group])
    return Table(f"Words by {model.covariates.content}", ["", *model.covariates.groups], rows)


def transform(run: FittedRun, corpus: Any, tell: Tell) -> RowResults:
    """The topics of documents: the largest of each, and the shares of all."""
    return topic_results(run.fit.transform(corpus, key=run.key, progress=tell))


LISTING = Listing(
    Settings,
    SOURCE,
    CtmAlgorithm,
    describe,
    build=lambda settings, data: make_model(settings, data.train),
    transform=transform,
    needs_rows=True,
    **DOCUMENT_LISTING,
)
