"""The catalogue of the command line: a `Listing` for each model, a `Source` for kinds of data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.app.settings.options import build_from_section
from vijax.data.tables.table import Manner, TargetKind, naming_rows
from vijax.fitting.result import Fit


class Data(NamedTuple):
    """The training and the held-out data of a run (None without): corpora, tables or graphs."""

    train: Any
    test: Any

    @property
    def parts(self) -> tuple[Any, ...]:
        """The training data, and the held-out data if there are any."""
        if self.test is None:
            return (self.train,)
        return (self.train, self.test)

    @property
    def whole(self) -> Any:
        """All training data: `train`, or the data of which it is a sample (`sampled`,
        `sampled_documents`)."""
        return getattr(self.train, "whole", self.train)

    @property
    def names(self) -> tuple[str, ...]:
        """The words of a corpus; the columns of a table; the nodes of a graph."""
        if hasattr(self.train, "vocabulary"):
            return tuple(self.train.vocabulary or ())
        return self.train.columns


class New(NamedTuple):
    """Data that a fitted run is applied to."""

    data: Any  # a corpus, a table without a target, or a graph
    # columns that are passed through: names of documents or nodes, columns unused by the model
    beside: Mapping[str, Any]
    notes: tuple[str, ...] = ()  # notes for the reader, such as the number of unknown words
    # the rows of `beside` that are in `data`, in order; None if all are (others lack needed cells)
    places: np.ndarray | None = None


Tell = Callable[[int], None]
"""Called with the number of rows (documents, sequences) done."""
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
    # facts -> tiles of the page by name; small print after a "|"
    tiles: Callable[[dict[str, Any]], dict[str, str]]
    # data -> the bytes of both parts, piece by piece, for a checksum
    digest: Callable[[Data], Iterator[Any]]
    describe: Callable[[Data], str]  # data -> a line for the screen
    # (config, entries) raises `ConfigError` on settings that do not go together
    check: Callable[[Any, Any], None]
    # (run folder, data) writes what a run keeps of its data: no more than words, columns and sizes
    keep: Callable[[Path, Data], None]
    # the names of files that `keep` may write; their checksums are kept as well
    kept_files: tuple[str, ...]
    # run folder -> data that stand in for the run's and suffice to make its model; None without any
    kept: Callable[[Path], Data | None]
    # (config, data of the run, path or object or None for the run's own, column or None) -> `New`
    new: Callable[[Any, Data, Any, str | None], New]
    results: str  # the name, without ending, of the file of results for the run's own data
    # for documents: the columns of the results that name a document, and count what is in it
    columns: tuple[str, str] = ("document", "words")
    page: type = NoPage  # the settings of [page]
    # data -> the beginning of each document, kept for the page; None for other data
    excerpts: Callable[[Any], Sequence[str]] | None = None
    # data -> the bytes of means and scales of columns, and of the times of rows, for a checksum
    units: Callable[[Data], Iterator[Any]] = lambda data: iter(())


class FittedRun(NamedTuple):
    """A fit with its data, its settings [model], and a key for draws, as a listing describes it."""

    fit: Fit
    data: Data
    settings: Any
    key: Any
    say: Callable[[str], None] = lambda message: None  # prints the progress of long work

    def point(self, name: str) -> Any:
        """A single value of a global: the mode if the algorithm finds a point, else the mean. JAX
        computes it, also of a posterior that was read from a file: NumPy may round otherwise."""
        return jax.tree.map(jnp.asarray, self.fit.estimates[name]).mean()

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

    # (`FittedRun`, table, key, number of draws, "new" or "same" groups) -> (draws, rows, columns),
    # with rows in the order of the table
    draw: Callable[[FittedRun, Any, Any, int, str], np.ndarray]
    of_target: bool = False  # True if the target alone is drawn, given the columns
    of_steps: bool = False  # True if rows are steps of sequences, which have a future
    # [model] -> True if draws are in units of standardised columns
    is_scaled: Callable[[Any], bool] = lambda settings: True


def as_read(data: Any, settings: Any) -> Any:
    """The data unchanged, for models that read a corpus."""
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
      score_unit: the unit of scores that are no log probabilities.
      target: [model] -> the kind of the target column; None for a model without a target.
      missing: True if entries may be missing.
      takes_missing: [model] -> True if its rows keep missing cells with data.missing=model.
      wants_group: True if the model uses a column of groups.
      in_time: True if rows are steps in time, ordered by a column of numbers or dates.
      unseen: True if steps with missing cells may count as unobserved.
      manner: [model] -> how columns are standardised if `data.standardise` is unset, so that priors
        fit; None reads columns unchanged.
      transform: (`FittedRun`, data of `New`, `Tell`) -> the results for each row; None if the model
        has none for single rows.
      predicts: the entry of these results that is the prediction, or "".
      no_transform: the remedy if there is no `transform`.
      drawing: how it draws tables; None for models of documents and graphs, and for densities.
      needs_rows: True if the model, or its results for new data, are made of the training rows.
      not_by_parts: why its rows cannot be read by parts; "" if they can.
      learns: ([model], data) -> the points that are learnt, for `learn` of an algorithm; by default
        the names in the setting `learn`.
    """

    settings: type
    source: Source
    algorithm: type
    describe: Callable[[FittedRun], Sequence[Any]]
    arrange: Callable[[Any, Any], Any] = as_read
    score: Callable[[FittedRun], Any] | None = None
    build: Callable[..., Any] = build_from_section
    unit: str = "row"
    per: str = "row"
    score_unit: str = ""
    target: Callable[[Any], TargetKind] | None = None
    missing: bool = False
    takes_missing: Callable[[Any], bool] = lambda settings: False
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

    def keeps_missing(self, config: Any) -> bool:
        """True if missing cells stay in the rows of this configuration."""
        if self.missing:
            return True
        return getattr(config.data, "missing", "") == "model" and self.takes_missing(config.model)

    def build_model(self, config: Any, data: Data, settings: Any = None) -> Any:
        """The model of a configuration, or with other settings of [model]."""
        settings = settings or config.model
        if self.keeps_missing(config) and not self.missing:
            return self.build(settings, data, incomplete=True)
        return self.build(settings, data)

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
        """True if the model reads the corpus; then the words suffice to make it."""
        return self.arrange is as_read

    @property
    def of_documents(self) -> bool:
        """True if its data are documents."""
        return self.source.excerpts is not None

    def has_score(self, model: Any) -> bool:
        """True if there is a score: the listing's own, or the model's."""
        return self.score is not None or "score" in model.queries

    def score_test_data(self, run: FittedRun) -> Any:
        """The score of the test data, with its standard error."""
        with naming_rows(run.data.test):
            if self.score is not None:
                return self.score(run)
            return run.fit.score(self.arrange(run.data.test, run.settings), key=run.key)


def held_out_score_key() -> PRNGKeyArray:
    """The key of held-out scores, the same for all runs and seeds. Documents are then cut into the
    same halves, so a run has the same score at its end, in comparisons, in sweeps and in `vijax
    evaluate`."""
    return jax.random.key(0)
