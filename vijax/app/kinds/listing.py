"""What the command line knows of a model and of its data: a `Listing` a model, a `Source` a kind of data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vijax.app.settings.options import built
from vijax.data.tables.table import TargetKind, rows_of
from vijax.fitting.result import Fit


class Data(NamedTuple):
    """What a run learns from and is scored on (None if nothing was held out): both corpora, tables or graphs."""

    train: Any
    test: Any

    @property
    def names(self) -> tuple[str, ...]:
        """The words of a corpus; the columns of a table; the nodes of a graph."""
        return tuple(self.train.vocabulary or ()) if hasattr(self.train, "vocabulary") else self.train.columns


class New(NamedTuple):
    """Data that a fitted run is applied to.

    Attributes:
      data: a corpus, a table without a target, or a graph.
      beside: what is carried through: names of documents or nodes, columns that the model does not use.
      notes: what the reader should be told, such as how many words are not known.
    """

    data: Any
    beside: Mapping[str, Any]
    notes: tuple[str, ...] = ()


Tell = Callable[[int], None]
"""Is called with the number of rows (documents, sequences) that are done."""
Found = dict[str, np.ndarray]
"""What a model says of rows: vectors (N,) and matrices (N, K), by name."""


@dataclasses.dataclass(frozen=True)
class NoPage:
    """[page] of data of which the page asks nothing."""


class Source(NamedTuple):
    """A kind of data.

    Attributes:
      section: the settings of [data].
      load: config -> `Data`.
      other: (config, data of the run, path, column or None) -> other data, to score the run on.
      facts: data -> sizes, for data.json.
      tiles: facts -> what the page says of them, by name; small print after a "|".
      digest: data -> bytes of all that a run learns from and is scored on, piece by piece, for a checksum.
      describe: data -> a line for the screen.
      check: (config, entries) raises `ConfigError` on settings that do not go together.
      keep: (run folder, data) writes what a run keeps of its data, which is no more than words, columns and sizes.
      kept: run folder -> data that stand in for the run's, of which its model can be made; None where there are none.
      new: (config, data of the run, path or object or None for the run's own, column or None) -> `New`.
      results: the name of the file, without its ending, of what a model says of the run's own data.
      page: the settings of [page].
      excerpts: data -> how each document begins, kept for the page; None of other data.
    """

    section: type
    load: Callable[[Any], Data]
    other: Callable[[Any, Data, str, str | None], Any]
    facts: Callable[[Data], dict[str, Any]]
    tiles: Callable[[dict[str, Any]], dict[str, str]]
    digest: Callable[[Data], Iterator[Any]]
    describe: Callable[[Data], str]
    check: Callable[[Any, Any], None]
    keep: Callable[[Path, Data], None]
    kept: Callable[[Path], Data | None]
    new: Callable[[Any, Data, Any, str | None], New]
    results: str
    page: type = NoPage
    excerpts: Callable[[Any], Sequence[str]] | None = None


class Seen(NamedTuple):
    """What a listing's description may read: the fit, its data, its settings [model], and a key for draws."""

    fit: Fit
    data: Data
    settings: Any
    key: Any

    def point(self, name: str) -> Any:
        """A global where a reader wants it: the mode, where the algorithm finds a point, else the mean."""
        return self.fit.estimates[name].mean()

    @property
    def posterior(self) -> Any:
        """q of the globals."""
        return self.fit.posterior


class Drawing(NamedTuple):
    """How a model draws tables.

    Attributes:
      draw: (`Seen`, table, key, number of draws, "new" or "same" groups) -> (draws, rows, columns), rows ordered as in
        the table.
      of_target: whether it is the target alone that is drawn, given the columns.
      of_steps: whether rows are steps of sequences, which have a future.
      is_scaled: [model] -> whether columns that the run has standardised are drawn so.
    """

    draw: Callable[[Seen, Any, Any, int, str], np.ndarray]
    of_target: bool = False
    of_steps: bool = False
    is_scaled: Callable[[Any], bool] = lambda settings: True


def as_read(data: Any, settings: Any) -> Any:
    """The data themselves: of models that read a corpus."""
    del settings
    return data


@dataclasses.dataclass(frozen=True)
class Listing:
    """A model on the command line.

    Attributes:
      settings: a dataclass of the settings of [model], as `vijax.app.settings.options.model_section` makes it of a
        constructor; the default and the help of its first field, `name`, are the model's name and title.
      source: the kind of its data: `documents.DOCUMENTS`, `tables.TABLES` or `graphs.GRAPHS`.
      algorithm: a dataclass of the settings of [algorithm] (`vijax.app.settings.sections`).
      describe: `Seen` -> blocks of the page (`vijax.app.page.blocks`).
      arrange: (training or other data, [model]) -> what `vijax.fit` and `Fit.score` read.
      score: `Seen` -> score of its test data; None takes `Fit.score`.
      build: ([model], data) -> the model; by default what a section of `vijax.app.settings.options.model_section`
        describes.
      unit: what one datum is called, in the singular.
      per: what scores and bounds are per.
      target: [model] -> of which kind the target column must be; None for a model that has none.
      missing: whether entries may be missing.
      wants_group: whether a column of groups means something to it.
      transform: (`Seen`, data as of `New`, `Tell`) -> what the model says of each of its rows; None where it says
        nothing of single rows.
      predicts: which entry of that is the prediction; empty of models that predict nothing.
      no_transform: of models without, what to use instead.
      drawing: how it draws tables; None of models of documents and graphs, and of densities.
      needs_rows: whether the model, or what it says of new data, is made of the training rows themselves.
    """

    settings: type
    source: Source
    algorithm: type
    describe: Callable[[Seen], Sequence[Any]]
    arrange: Callable[[Any, Any], Any] = as_read
    score: Callable[[Seen], Any] | None = None
    build: Callable[[Any, Data], Any] = built
    unit: str = "row"
    per: str = "row"
    target: Callable[[Any], TargetKind] | None = None
    missing: bool = False
    wants_group: bool = False
    transform: Callable[[Seen, Any, Tell], Found] | None = None
    predicts: str = ""
    no_transform: str = ""
    drawing: Drawing | None = None
    needs_rows: bool = False

    @property
    def _first(self) -> dataclasses.Field:
        return dataclasses.fields(self.settings)[0]

    @property
    def name(self) -> str:
        """As in `model.name`."""
        return str(self._first.default)

    @property
    def title(self) -> str:
        """A few words."""
        return str(self._first.metadata["help"])

    @property
    def reads_documents(self) -> bool:
        """Whether the model reads the corpus itself, of which it need know the words only."""
        return self.arrange is as_read

    def has_score(self, model: Any) -> bool:
        """Whether there is a score to take: the listing's own, or the model's."""
        return self.score is not None or "score" in model.queries

    def scored(self, seen: Seen) -> Any:
        """The score of the test data, with its standard error."""
        with rows_of(seen.data.test):
            if self.score is not None:
                return self.score(seen)
            return seen.fit.score(self.arrange(seen.data.test, seen.settings), key=seen.key)
