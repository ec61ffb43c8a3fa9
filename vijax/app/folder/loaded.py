"""A run folder as an object of Python: its fit, applied to new data."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.app.drawing.words import WordOrder, word_order
from vijax.app.folder.restored import reread_plan, restore_run, with_data_path
from vijax.app.folder.run_end import read_end
from vijax.app.folder.run_folder import read_run_config, version_remark
from vijax.app.plan.config import Config, ConfigError
from vijax.app.rows.predicted import Draws, check_has_forecasts, draw_ahead, draw_like, draw_new
from vijax.app.rows.transformed import (
    Transformed,
    check_transforms,
    join_results,
    transform_parts,
    transform_rows,
)
from vijax.app.sources.listing import Data, FittedRun, New, Tell
from vijax.app.sources.sampled_documents import SampledDocuments
from vijax.app.sources.topic_names import topic_names, words_per_topic
from vijax.contract.queries import is_size, is_sizes
from vijax.families import Dirichlet
from vijax.fitting.result import Fit
from vijax.topics import TopicTree, topic_tree
from vijax.topics.summary import Topic, summarise


@dataclasses.dataclass(frozen=True, repr=False)
class Run:
    """A run of `vijax fit`, made by `vijax.load`.

    E-steps that draw use the seed of the run, so that equal questions get equal answers.

    Attributes:
      folder: its folder.
      config: its settings.
      seen: its fit, with the known facts of its data.
      training: path of its training data now, if one was given.
    """

    folder: Path
    config: Config
    seen: FittedRun
    training: str | None = None

    @property
    def fit(self) -> Fit:
        """The fit; `run.fit.posterior` is q of the globals."""
        return self.seen.fit

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The words of a run on documents, by id.

        Raises:
          ConfigError: it is a run on a table or graph.
        """
        self._check_documents(True, "words", "columns")
        return self.seen.data.names

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a run on a table reads; the nodes of a graph.

        Raises:
          ConfigError: it is a run on documents.
        """
        self._check_documents(False, "columns", "vocabulary")
        return self.seen.data.names

    def transform(
        self, new: Any = None, *, column: str | None = None, tell: Tell = lambda done: None
    ) -> Transformed:
        """The results of the model for new documents, rows, steps or nodes: topic shares,
        probabilities of components, paths of states, predictions with intervals, factors.

        Args:
          new: a path, a URL or an object: documents as `vijax.data.read` takes them; or a table, as
            a table of pandas, Arrow or polars, a mapping of columns, or a matrix in the order of
            `run.columns`. None: all data of the run, with the held-out data, which are read again;
            shards are read by parts: all results are held in memory, the documents are not.
          column: the column of the text in a table of documents; None: as in the run.
          tell: called from time to time with the number of rows done.

        Returns:
          A `Transformed`: `found["share"]` is a matrix, `found.columns()` are columns for pandas,
          `found.write("shares.csv")` writes them.

        Raises:
          ConfigError: the model has no results for single rows.
          ValueError: data that cannot be read, or are unlike the run's.
        """
        check_transforms(self.config.listing)
        with self.config.in_precision():
            fitted_run = self._with_own_data() if new is None else self.seen
            if new is None and isinstance(fitted_run.data.train, SampledDocuments):
                return join_results(transform_parts(self.config, fitted_run, tell))
            return transform_rows(self.config, self.seen, self._new(new, column, fitted_run), tell)

    def predict(self, new: Any, *, column: str | None = None) -> np.ndarray:
        """The prediction among the results of `transform`: the target of a regression; the number
        of the most probable component, state or block; the number of the largest topic.

        Raises:
          ConfigError: the model predicts nothing.
          ValueError: see `transform`.
        """
        name = self.config.listing.predicts
        if not name:
            listing = self.config.listing
            remedy = "use transform" if listing.transform else listing.no_transform
            raise ConfigError(f"predict: {listing.name} predicts nothing of rows; {remedy}")
        return self.transform(new, column=column).found[name]

    def score(
        self,
        new: Any,
        *,
        column: str | None = None,
        seed: int = 0,
        say: Callable[[str], Any] = warnings.warn,
    ) -> Any:
        """The score of the run on other data, with its standard error: for documents document
        completion (the first half of each predicts the other half), else the log predictive
        density.

        Args:
          new: a path or URL; for documents also any argument of `vijax.data.read`, for tables what
            `transform` takes. A table must have the run's target.
          column: see `transform`.
          seed: seed of the split of documents in halves, and of draws.
          say: called with each note for the reader, such as the number of unknown words.

        Raises:
          ConfigError: the model has no score.
          ValueError: data that cannot be read, or are unlike the run's.
        """
        return self.score_with_data(new, column, seed, say)[1]

    def score_with_data(
        self, new: Any, column: str | None, seed: int, say: Callable[[str], Any]
    ) -> tuple[FittedRun, Any]:
        """The fit with other data as its test data, and its `score` of them."""
        listing = self.config.listing
        if not listing.has_score(self.seen.model):
            raise ConfigError(f"score: {listing.name} has no held-out score")
        with self.config.in_precision():
            source = str(new) if isinstance(new, Path) else new
            test_data = listing.source.other(self.config, self.seen.data, source, column)
            for note in getattr(test_data, "notes", ()):
                say(note)
            data = Data(self.seen.data.train, test_data)
            fitted_run = self.seen._replace(data=data, key=jax.random.key(seed))
            return fitted_run, listing.score_test_data(fitted_run)

    def sample(self, key: PRNGKeyArray, num_draws: int) -> dict[str, Any]:
        """Independent draws of the globals, see `vijax.Fit.sample`."""
        with self.config.in_precision():
            return self.fit.sample(key, num_draws)

    def predictive(
        self,
        key: PRNGKeyArray,
        num_draws: int,
        like: Any = None,
        *,
        groups: Literal["new", "same"] = "new",
        column: str | None = None,
    ) -> Any:
        """Data drawn from the run: the posterior predictive distribution, in the units of its data.

        Args:
          key: random key of the draws.
          num_draws: number of draws.
          like: a table as `transform` takes it, whose target a regression draws, and other models
            all columns; or sizes, as in `Fit.predictive`: a number of rows or nodes, a list of
            lengths of sequences or documents. None: as the run's own data.
          groups: "new" rows or sequences, or the "same" again, see `Fit.predictive`; with "same",
            missing entries are drawn given the other entries of their row.
          column: see `transform`.

        Returns:
          `Draws` for tables: `draws.values` is (num_draws, rows, columns), `draws.mean()`,
          `draws.interval(0.9)`, `draws.summary().write("predicted.csv")`. For documents, graphs and
          densities the draws of `Fit.predictive`.

        Raises:
          ValueError: data that cannot be read, or are unlike the run's; a model that draws no data;
            sizes for a regression, which needs columns.
        """
        listing = self.config.listing
        with self.config.in_precision():
            is_sizes_alone = is_size(like) or is_sizes(like)
            if listing.drawing is None:
                data = like
                if listing.of_documents and not is_sizes_alone:
                    data = self._new(like, column).data
                return self.fit.predictive(key, num_draws, data, groups=groups)
            if is_sizes_alone:
                return draw_new(self.seen, listing, key, num_draws, like)
            return draw_like(self.seen, listing, self._new(like, column), key, num_draws, groups)

    def forecast(self, key: PRNGKeyArray, num_draws: int, num_steps: int, new: Any = None) -> Draws:
        """The next steps of sequences, in the units of the data; see `Fit.forecast`.

        Args:
          key: random key of the draws.
          num_draws: number of draws.
          num_steps: number of steps after the last one of each sequence.
          new: a table of sequences, as `transform` takes it. None: the run's own.

        Returns:
          `Draws`, whose rows are the steps `ahead` of each sequence in turn.

        Raises:
          ConfigError: a model without an order of time.
          ValueError: data that cannot be read, or are unlike the run's.
        """
        check_has_forecasts(self.config.listing)
        with self.config.in_precision():
            return draw_ahead(
                self.seen, self.config.listing, self._new(new), key, num_draws, num_steps
            )

    def topics(self, num_words: int = 10, words: WordOrder = "probability") -> list[Topic]:
        """The topics, largest first: number, share of all words, leading words with their
        probabilities. Topics that a model with growth leaves empty have no words.

        Args:
          num_words: number of words of each topic.
          words: which words lead: the most probable; by relevance (at weight 0.6), frex, lift or
            score, which prefer words that other topics lack.

        Raises:
          ConfigError: the model has no topics.
        """
        topics = self._topics()
        names = topic_names(self.config)
        vocabulary = self.seen.data.names
        concentration = np.asarray(topics.concentration)
        scores = None
        if words != "probability":
            scores = word_order(concentration, words)
        topic_summaries = summarise(
            concentration,
            vocabulary,
            num_words,
            held=words_per_topic(self.seen),
            scores=scores,
        )
        return [topic._replace(name=names.get(topic.number, "")) for topic in topic_summaries]

    def tree(self) -> TopicTree:
        """The tree of the topics: `run.tree().text(labels)`, `run.tree().groups(10)`; see
        `vijax.topics.topic_tree`.

        Raises:
          ConfigError: the model has no topics.
        """
        weights = np.maximum(np.asarray(self._topics().concentration, np.float64), 1e-10)
        return topic_tree(weights, weights.sum(1))

    def tree_text(self) -> str:
        """The tree with numbers and labels of the topics."""
        labels = {topic.number: topic.full_label for topic in self.topics(3) if topic.words}
        weights = np.maximum(np.asarray(self._topics().concentration, np.float64), 1e-10)
        order = sorted(labels)
        if len(order) < 2:
            return "\n".join(labels.values())
        tree = topic_tree(weights[order], weights[order].sum(1))
        return tree.text([labels[k] for k in order])

    def _topics(self) -> Dirichlet:
        topics = self.seen.fit.topic_words
        if not isinstance(topics, Dirichlet):
            name = self.config.listing.name
            raise ConfigError(
                f"{self.folder}: a run of {name}, which has no topics; see: vijax summary "
                f"{self.folder}"
            )
        return topics

    def __repr__(self) -> str:
        names = self.seen.data.names
        columns = ", ".join(names[:6])
        if len(names) > 6:
            columns += f", ... ({len(names):,} in all)"
        kind = "vocabulary" if self.config.listing.reads_documents else "columns"
        end = read_end(self.folder)
        version = version_remark(self.folder)
        version = f"  {version}\n" if version else ""
        progress = "unfinished, as of its last checkpoint"
        score = ""
        if end:
            progress = end["status"].partition(";")[0]
            if end["score_text"]:
                score = f"; held-out score {end['score_text']}"
        return (
            f"Run {self.folder}: {self.config.listing.title} ({self.config.model.name})\n  "
            f"{progress}, {int(self.fit.state.step):,} steps by "
            f"{self.config.algorithm.name}{score}\n{version}  {kind}: {columns}\n  posterior: "
            f"{', '.join(self.seen.posterior)}"
        )

    def _with_own_data(self) -> FittedRun:
        """The fit with the run's own data, which are read again."""
        return self.seen._replace(data=reread_plan(self.folder, self.config, self.training).data)

    def _new(
        self, source: Any, column: str | None = None, fitted_run: FittedRun | None = None
    ) -> New:
        """A source as new data; None: all of the run's own data, which are read again."""
        if fitted_run is None:
            fitted_run = self._with_own_data() if source is None else self.seen
        source = str(source) if isinstance(source, Path) else source
        config = with_data_path(self.config, self.training if source is None else None)
        return config.listing.source.new(config, fitted_run.data, source, column)

    def _check_documents(self, wanted: bool, name: str, other: str) -> None:
        if self.config.listing.of_documents is not wanted:
            raise ConfigError(
                f"{name}: a run of {self.config.listing.name} has none; see run.{other}"
            )


def open_run(folder: Path, training: str | None = None, allow_code: bool = False) -> Run:
    """See `vijax.load`."""
    config = read_run_config(folder)
    file = getattr(config.model, "file", None)
    if file is not None and not allow_code:
        raise ConfigError(
            f"{folder}: this run names Python code, {file}, which loading does not execute. Read "
            "that file; if you trust it: vijax.load(..., allow_code=True)"
        )
    with config.in_precision():
        return Run(folder, config, restore_run(folder, config, training), training)
