"""The entries of the command line's catalogue: a `Listing` for each model, a `Source` for each kind
of data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.app.settings.options import build_from_section
from vijax.data.tables.table import Manner, TargetKind, naming_rows
from vijax.fitting.result import Fit


class Data(NamedTuple):
    """The training and the held-out data of a run (None if nothing was held out): corpora, tables
    or graphs."""

    train: Any
    test: Any

    @property
    def parts(self) -> tuple[Any, ...]:
        """The training data, and the held-out data where there are any."""
        return (self.train,) if self.test is None else (self.train, self.test)

    @property
    def whole(self) -> Any:
        """All training data, where `train` is a sample of them (`sampled`, `sampled_documents`);
        else `train`."""
        return getattr(self.train, "whole", self.train)

    @property
    def names(self) -> tuple[str, ...]:
        """The words of a corpus; the columns of a table; the nodes of a graph."""
        return (
            tuple(self.train.vocabulary or ())
            if hasattr(self.train, "vocabulary")
            else self.train.columns
        )


class New(NamedTuple):
    """Data that a fitted run is applied to."""

    data: Any  # a corpus, a table without a target, or a graph
    # Columns that are carried through: names of documents or nodes, columns that the model does not
    # use
    beside: Mapping[str, Any]
    notes: tuple[str, ...] = ()  # notes for the reader, such as the number of unknown words
    # the rows of `beside` that `data` has, in order, where others lack cells that the model needs;
    # None for all of them
    places: np.ndarray | None = None


Tell = Callable[[int], None]
"""Called with the number of rows (documents, sequences) that are done."""
RowResults = dict[str, np.ndarray]
"""The results of a model for rows: vectors (N,) and matrices (N, K), by name."""


@dataclasses.dataclass(frozen=True)
class NoPage:
    """[page] for data whose page has no settings."""


class Source(NamedTuple):
    """A kind of data."""

    section: type  # the settings of [data]
    load: Callable[[Any], Data]  # config -> `Data`
    # (config, data of the run, path, column or None) -> other data, to score the run on
    other: Callable[[Any, Data, str, str | None], Any]
    facts: Callable[[Data], dict[str, Any]]  # data -> sizes, for data.json
    tiles: Callable[
        [dict[str, Any]], dict[str, str]
    ]  # facts -> tiles of the page by name; small print after a "|"
    digest: Callable[
        [Data], Iterator[Any]
    ]  # data -> the bytes of both parts, piece by piece, for a checksum
    describe: Callable[[Data], str]  # data -> a line for the screen
    check: Callable[
        [Any, Any], None
    ]  # (config, entries) raises `ConfigError` on settings that do not go together
    # (run folder, data) writes what a run keeps of its data: no more than words, columns and sizes
    keep: Callable[[Path, Data], None]
    kept_files: tuple[
        str, ...
    ]  # the names of files that `keep` may write; their checksums are kept as well
    # run folder -> data that stand in for the run's, enough to make its model; None where there are
    # none
    kept: Callable[[Path], Data | None]
    # (config, data of the run, path or object or None for the run's own, column or None) -> `New`
    new: Callable[[Any, Data, Any, str | None], New]
    results: str  # the name, without ending, of the file of results for the run's own data
    # of documents, the names of a document and of what is counted in it, as columns of the results
    columns: tuple[str, str] = ("document", "words")
    page: type = NoPage  # the settings of [page]
    # data -> the beginning of each document, kept for the page; None for other data
    excerpts: Callable[[Any], Sequence[str]] | None = None
    # data -> the bytes of what standardising takes out of columns, and of the times of rows, for a
    # checksum
    units: Callable[[Data], Iterator[Any]] = lambda data: iter(())


class FittedRun(NamedTuple):
    """A fit as a listing describes it: with its data, its settings [model], and a key for draws."""

    fit: Fit
    data: Data
    settings: Any
    key: Any
    say: Callable[[str], None] = lambda message: None  # where long work says how far it is

    def point(self, name: str) -> Any:
        """A single value of a global for a reader: the mode where the algorithm finds a point, else
        the mean."""
        return self.fit.estimates[name].mean()

    @property
    def model(self) -> Any:
        """The model of the fit."""
        return self.fit.alg.spec.model

    @property
    def posterior(self) -> Any:
        """q of the globals."""
        return self.fit.posterior


class Drawing(NamedTuple):
    """The way in which a model draws tables."""

    # (`FittedRun`, table, key, number of draws, "new" or "same" groups) -> (draws, rows, columns), rows
    # ordered as in the table
    draw: Callable[[FittedRun, Any, Any, int, str], np.ndarray]
    of_target: bool = False  # True where the target alone is drawn, given the columns
    of_steps: bool = False  # True where rows are steps of sequences, which have a future
    # [model] -> True where columns that the run has standardised are drawn so
    is_scaled: Callable[[Any], bool] = lambda settings: True


def as_read(data: Any, settings: Any) -> Any:
    """The data themselves, for models that read a corpus."""
    return data


@dataclasses.dataclass(frozen=True)
class Listing:
    """A model on the command line.

    Attributes:
      settings: a dataclass of the settings of [model], as
        `vijax.app.settings.options.model_section` makes it of a constructor; the default and the
        help of its first field, `name`, are the model's name and title.
      source: the kind of its data: `documents.DOCUMENTS`, `tables.TABLES` or `graphs.GRAPHS`.
      algorithm: a dataclass of the settings of [algorithm] (`vijax.app.settings.sections`).
      describe: `FittedRun` -> blocks of the page (`vijax.app.drawing.blocks`).
      arrange: (training or other data, [model]) -> what `vijax.fit` and `Fit.score` read.
      score: `FittedRun` -> score of its test data; None takes `Fit.score`.
      build: ([model], data) -> the model; by default what a section of
        `vijax.app.settings.options.model_section` describes.
      unit: the name of one datum, in the singular.
      per: the unit of scores and bounds.
      score_unit: the unit of scores where they are no log probabilities.
      target: [model] -> the kind of the target column; None for a model without a target.
      missing: True where entries may be missing.
      wants_group: True where the model uses a column of groups.
      in_time: True where rows are steps in time, so that a column which numbers or dates them
          orders them.
      unseen: True where steps with missing cells may stand as ones that were not seen.
      manner: [model] -> how columns are standardised unless `data.standardise` says it, for priors
        of one place and scale; None for models that are to read columns as they are.
      transform: (`FittedRun`, data as of `New`, `Tell`) -> the results for each row; None without
          results for single rows.
      predicts: the entry of these results that is the prediction; empty without one.
      no_transform: the remedy where there is no `transform`.
      drawing: the way in which it draws tables; None for models of documents and graphs, and for
          densities.
      needs_rows: True where the model, or its results for new data, are made of the training rows
          themselves.
      not_by_parts: why its rows cannot be read by parts, where they cannot.
      learns: ([model], data) -> the points that are learnt, as `learn` of an algorithm takes them;
        by default those that the setting `learn` names.
    """

    settings: type
    source: Source
    algorithm: type
    describe: Callable[[FittedRun], Sequence[Any]]
    arrange: Callable[[Any, Any], Any] = as_read
    score: Callable[[FittedRun], Any] | None = None
    build: Callable[[Any, Data], Any] = build_from_section
    unit: str = "row"
    per: str = "row"
    score_unit: str = ""
    target: Callable[[Any], TargetKind] | None = None
    missing: bool = False
    wants_group: bool = False
    in_time: bool = False
    unseen: bool = False
    manner: Callable[[Any], Manner | None] = lambda settings: None
    transform: Callable[[FittedRun, Any, Tell], RowResults] | None = None
    predicts: str = ""
    no_transform: str = ""
    drawing: Drawing | None = None
    needs_rows: bool = False
    not_by_parts: str = ""
    learns: Callable[[Any, Data], Any] = lambda settings, data: getattr(settings, "learn", ())

    @property
    def name(self) -> str:
        """The name, as in `model.name`."""
        return str(dataclasses.fields(self.settings)[0].default)

    @property
    def title(self) -> str:
        """The title, a few words."""
        return str(dataclasses.fields(self.settings)[0].metadata["help"])

    @property
    def reads_documents(self) -> bool:
        """True where the model reads the corpus itself; then the words are enough to make it."""
        return self.arrange is as_read

    @property
    def of_documents(self) -> bool:
        """True where its data are documents."""
        return self.source.excerpts is not None

    def has_score(self, model: Any) -> bool:
        """True where there is a score: the listing's own, or the model's."""
        return self.score is not None or "score" in model.queries

    def scored(self, run: FittedRun) -> Any:
        """The score of the test data, with its standard error."""
        with naming_rows(run.data.test):
            if self.score is not None:
                return self.score(run)
            return run.fit.score(self.arrange(run.data.test, run.settings), key=run.key)


def held_out_score_key() -> PRNGKeyArray:
    """The key of held-out scores: one of all runs, whatever their seed. Documents are cut into the
    same halves, so the score of a run is one number, at its end, in a comparison, in the table of a
    sweep and by `vijax evaluate`."""
    return jax.random.key(0)
