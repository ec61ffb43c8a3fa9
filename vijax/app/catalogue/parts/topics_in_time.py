"""Topics that move in time on the command line: documents with a column of dates or numbers."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from vijax import models
from vijax.app.drawing.blocks import IN_YEARS, NINETY, Block, Curves, Table
from vijax.app.settings.options import model_section, section_arguments
from vijax.app.settings.sections import DatedData
from vijax.app.settings.typed_toml import ConfigError
from vijax.app.sources.documents import DOCUMENTS, side_columns, source_section
from vijax.app.sources.listing import Data, FittedRun, New
from vijax.data.corpora.corpus import Corpus, split_ids
from vijax.data.tables.periods import are_years, read_days
from vijax.evaluate.score import ratio_estimate

Settings = model_section(
    models.dtm,
    "topics whose words move in time (dynamic topic model)",
    without=("corpus", "times", "every"),
    learn=("alpha", "drift", "spread"),
    listed=("alpha", "drift"),
    num_topics=20,
)
ORDER = "order"
"""The value of `data.time` for documents that are in the order of time, without dates."""
NUM_PARTS = 10
"""Slices of documents in order."""
NUM_WORDS = 6
"""Words of a topic that are listed for each slice."""
MOST_SLICES = 8
"""Slices that are listed."""
MOST_MOVING = 8
"""Words that are drawn: those that move most."""
YEARS: Mapping[Any, float] = {
    "year": 1.0,
    "quarter": 4.0,
    "month": 12.0,
    "week": 365.25 / 7,
    "day": 365.25,
}
"""Periods in a year."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class DatedDocuments(Corpus):
    """Documents with their times, and the slices of the column that has them."""

    times: tuple[str, ...] = ()
    slices: Any = None
    column: str = ""

    def __getitem__(self, rows: Any) -> Corpus:
        places = np.arange(self.num_documents)[rows]
        part = super().__getitem__(rows)
        times = tuple(self.times[row] for row in np.atleast_1d(places))
        return dataclasses.replace(part, times=times)  # type: ignore[call-arg]


def _with_times(corpus: Corpus, times: Sequence[str], slices: Any, column: str) -> DatedDocuments:
    fields = {field.name: getattr(corpus, field.name) for field in dataclasses.fields(Corpus)}
    return DatedDocuments(**fields, times=tuple(times), slices=slices, column=column)


# --- data -----------------------------------------------------------------------------------------
def load(config: Any) -> Data:
    """The documents, split, with their times and slices."""
    data = DOCUMENTS.load(config)
    section = config.data
    number = sum(part.num_documents for part in data.parts)
    columns = side_columns(section, data.train)
    name = time_column(section.time, columns)
    times = _times_of_file(name, columns, number)
    parts = [np.arange(number)]
    if data.test is not None:
        parts = [*split_ids(number, section.held_out, section.split_seed)]
    pairs = zip(data.parts, parts, strict=True)
    slices = models.Slices.read(times, _slice_width(section.slices))  # of held-out documents too
    dated = [_with_times(corpus, [times[i] for i in ids], slices, name) for corpus, ids in pairs]
    model = make_model(config.model, dated[0])
    train, *test = (_number_slices(model, corpus) for corpus in dated)
    return Data(train, next(iter(test), None))


def _number_slices(model: Any, corpus: DatedDocuments) -> DatedDocuments:
    """Documents with the numbers of the slices of the model."""
    if corpus is model.data:
        return corpus
    placed_corpus = model.with_times(corpus, corpus.times)
    return _with_times(placed_corpus, corpus.times, corpus.slices, corpus.column)


def _times_of_file(name: str, columns: Mapping[str, Sequence[Any]], number: int) -> list[str]:
    """The times of the rows of a file, as they are written."""
    if name == ORDER and name not in columns:
        return [str(NUM_PARTS * row // number) for row in range(number)]
    if len(columns[name]) != number:
        raise ConfigError(
            f"data.time: expected a row of the file for each of {number:,} documents, got "
            f"{len(columns[name]):,}: the file has changed since it was read; read it again"
        )
    return [str(value).strip() for value in columns[name]]  # None is read as a missing time


def time_column(name: str | None, columns: Mapping[str, Sequence[Any]]) -> str:
    """The column of times: the one that is named, or the only one of dates or years."""
    listed = ", ".join(map(repr, columns)) or "none"
    order = f"{ORDER!r} takes documents in the order of the file, in {NUM_PARTS} slices"
    advice = f"known: {listed}; {order}"
    if name is not None:
        if name not in columns and name != ORDER:
            raise ConfigError(
                f"data.time: expected a column of the documents, got {name!r}; {advice}"
            )
        return name
    names = [key for key, values in columns.items() if read_days(values) or are_years(values)]
    if len(names) != 1:
        actual = ", ".join(map(repr, names)) or "none"
        raise ConfigError(
            f"data.time: expected one column of dates or years, got {actual}; name it: --set "
            f"data.time=COLUMN; {advice}"
        )
    return names[0]


def _slice_width(every: str | float) -> Any:
    """The argument `every` of the model: a period, a width, or None for "auto"."""
    if every == "auto":
        return None
    try:
        return float(every)
    except ValueError:
        return every


def other(config: Any, data: Data, path: str, column: str | None) -> Corpus:
    """Other documents, with their slices."""
    return new(config, data, path, column).data


def new(config: Any, data: Data, source: Any, column: str | None) -> New:
    """Documents whose topics are inferred, with the columns beside their text."""
    new_data = DOCUMENTS.new(config, data, source, column)
    section = config.data
    if source is not None:
        section = source_section(config, source, column)
    columns = side_columns(section, new_data.data, source)
    number = new_data.data.num_documents
    name = time_column(data.train.column, columns)
    if source is not None and name == ORDER and ORDER not in columns:
        times = [str(NUM_PARTS)] * number  # after all documents of training
    else:
        times = _times_of_file(name, columns, number)
    model = make_model(config.model, data.train)
    placed_corpus = model.with_times(new_data.data, times)
    documents = _with_times(placed_corpus, times, data.train.slices, name)
    return new_data._replace(data=documents)


def digest(data: Data) -> Iterator[Any]:
    """The bytes of documents and slices. The mark of the slices has their gaps."""
    yield from DOCUMENTS.digest(data)
    yield data.train.described_by.encode()
    for part in data.parts:
        yield np.ascontiguousarray(part.covariates).data


SOURCE = DOCUMENTS._replace(section=DatedData, load=load, other=other, new=new, digest=digest)


# --- the model ------------------------------------------------------------------------------------
def make_model(settings: Any, corpus: DatedDocuments) -> Any:
    """The model of documents."""
    return _cached_model(settings, corpus, jnp.result_type(float))


@functools.lru_cache(maxsize=2)
def _cached_model(settings: Any, corpus: DatedDocuments, dtype: Any) -> Any:
    arguments = section_arguments(settings)
    return models.dtm(corpus=corpus, times=corpus.times, every=corpus.slices, **arguments)


def blocks_in_time(run: FittedRun, model: Any, labels: Mapping[int, str]) -> list[Block]:
    """The words of topics by slice; the words that move most; the shares of topics by slice."""
    if len(model.slices) < 2:
        return []
    moving = model.words(run.fit)
    shares = np.asarray(run.fit.transform(model.data, key=run.key), float)
    return [
        _shares_by_slice(model, shares, labels),
        _moving_words(model, moving, run.data.names, labels),
        _words_by_slice(model.slices, moving, run.data.names, labels),
    ]


def _words_by_slice(
    slices: Any, moving: Any, names: Sequence[str], labels: Mapping[int, str]
) -> Table:
    """The most probable words of each topic in some slices."""
    number = len(moving.slices)
    places = np.unique(np.linspace(0, number - 1, min(number, MOST_SLICES)).astype(int))
    rows = []
    for k, label in labels.items():
        leading = np.argsort(-moving.mean[k, places], axis=1, kind="stable")[:, :NUM_WORDS]
        rows.append([label, *(" ".join(names[v] for v in words) for words in leading)])
    note = "The most probable words of each topic, by slice."
    if isinstance(slices.period, float):
        note += f" A slice is {slices.period:g} long, and named by its beginning."
    if len(places) < number:
        note += f" {len(places)} of {number} slices are listed."
    header = ["", *(moving.slices[t] for t in places)]
    return Table("Words of topics in time", header, rows, note)


def _moving_words(
    model: Any, moving: Any, names: Sequence[str], labels: Mapping[int, str]
) -> Curves:
    """The words whose probabilities move most, of all topics together."""
    order = list(labels)
    ranges = np.ptp(moving.mean[order], axis=1)
    leading = np.argsort(-ranges.ravel(), kind="stable")[:MOST_MOVING]
    pairs = [(order[i // ranges.shape[1]], i % ranges.shape[1]) for i in leading.tolist()]
    name, x = _axis(model)
    curves = [
        np.array([100 * part[k, :, v] for k, v in pairs])
        for part in (moving.mean, moving.low, moving.high)
    ]
    note = (
        "Per cent of the words of the topic, with 90 % intervals; each word has its own scale. "
        "After the last slice the words are forecast to stay, with wider intervals."
    )
    title = "Words that move most"
    captions = [f"{names[v]} in {labels[k]}" for k, v in pairs]
    mean, low, high = curves
    return Curves(title, name, captions, x, mean, low, high, note)


def _shares_by_slice(model: Any, theta: np.ndarray, labels: Mapping[int, str]) -> Curves:
    """The shares of topics in the words of the documents of each slice."""
    tokens = np.asarray(model.data.tokens, float)
    index = np.asarray(model.data.covariates)[:, 0].astype(int)
    shares = np.full((2, len(labels), len(model.slices)), np.nan)
    for t in range(len(model.slices)):
        rows = np.flatnonzero((index == t) & (tokens > 0))
        words = tokens[rows]
        if not len(rows):  # a slice of held-out documents alone
            continue
        for place, k in enumerate(labels):
            shares[:, place, t] = ratio_estimate(words * theta[rows, k], words)
    share, error = shares
    wide = np.where(np.isfinite(error), NINETY * error, np.nan)
    ends = np.clip(share - wide, 0, 1), np.clip(share + wide, 0, 1)
    name, x = _axis(model)
    note = (
        "Per cent of the words of the documents of a slice, with 90 % intervals over documents. "
        "Each topic has its own scale."
    )
    mean, low, high = (100 * part for part in (share, *ends))
    title = "Shares of topics in time"
    return Curves(title, name, [*labels.values()], x, mean, low, high, note)


def _axis(model: Any) -> tuple[str, np.ndarray]:
    """The name of the axis of time, and the places of slices on it."""
    slices = model.slices
    name = getattr(model.data, "column", "") or "time"
    if name == ORDER:
        name = "place in the file, in tenths"
    if not slices.dates:
        return name, slices.places
    origin = 0.0
    if slices.period in ("week", "day"):
        origin = 1970.0
    return f"{name}{IN_YEARS}", origin + slices.places / YEARS[slices.period]
