# ruff: noqa: RUF009  (setting() and section() are field specifiers: they return dataclasses.field)
"""The sections [data], [algorithm], [fit] and [page]: settings with defaults, meanings and limits.

Models of documents, of tables and of Gaussian predictors differ in [data] and [algorithm]. The
listing of a model in `vijax.app.catalogue` names its sections, and holds [model].
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from vijax.algorithms import pg_svi
from vijax.app.settings.options import argument_setting, chooser, section_class
from vijax.app.settings.typed_toml import section, setting
from vijax.arguments import POSITIVE, Limit, integer, interval, minimum
from vijax.data.tables.formats import Decimal, Dialect, Separator
from vijax.data.tables.table_files import KNOWN
from vijax.data.texts.text import TextSettings
from vijax.fitting.fit import fit
from vijax.inference import estep, estimator, step_size
from vijax.scale.devices import is_mesh

ENCODING = "encoding of text files; UTF-16 and UTF-32 are known by their mark"
SEPARATOR = "what divides the cells of a csv; unset: found in its first lines"
DECIMAL = (
    "decimal sign of text files; unset: a comma where a column has it and cells are not divided "
    "by commas"
)
SHEET = "sheet of a spreadsheet; unset: the first"
MISSING_WORDS = (
    "words for a missing cell in columns of names (groups, categories, users), beside cells with "
    "nothing in them; unset: NA, N/A, #N/A, NaN, null, ? and <NA> in text files and spreadsheets, "
    "none in files with types; []: none. Columns of numbers know all of these"
)
SHA256 = "checksum of the file at a URL; unset: that of the first download must stay"
Format = Literal[
    "auto",
    "text-folder",
    "text-lines",
    "jsonl",
    "csv",
    "parquet",
    "sheet",
    "npz",
    "matrix-market",
    "lda-c",
    "uci",
    "shards",
    "ratings",
]

MESH = Limit(is_mesh, 'an integer >= 1, or two such as "2x4"')


def read_dialect(section: Any) -> Dialect:
    """The way the file of a section [data] is written."""
    names = [name for name in Dialect._fields if hasattr(section, name)]
    return Dialect(**{name: getattr(section, name) for name in names})


# --- [data] ---------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class DocumentData:
    """[data]: the documents, and how text becomes words."""

    path: str = setting(
        "docstrings",
        'file, folder, URL or address in a store; "docstrings" is the documentation of installed '
        "packages",
    )
    format: Format = setting(
        "auto", "format of the data; auto goes by the name and the first bytes"
    )
    column: str | None = setting(
        None,
        "name of the column that holds the text (jsonl, csv, parquet, sheet); a column title "
        "names the documents",
    )
    vocabulary: str | None = setting(
        None, "file of words, one per line: names of word ids, or the words to keep"
    )
    sha256: str | None = setting(None, SHA256)
    held_out: float = setting(
        0.1, "share of the documents kept out of training, for the score", interval("[0, 1)")
    )
    split_seed: int = setting(
        0, "seed of the split into training and held-out documents", integer(0)
    )
    sample: int = setting(
        100_000,
        "shards: documents that are held of more than so many, for the page and for the score; the "
        "rest are read by parts, without a copy",
        integer(),
    )
    held_mb: int = setting(
        256, "megabytes of documents that are held while they are read by parts", integer()
    )
    encoding: str = setting("utf-8", ENCODING)
    separator: Separator | None = setting(None, SEPARATOR)
    sheet: str | None = setting(None, SHEET)
    lowercase: bool = argument_setting(TextSettings, "lowercase")
    token_pattern: str | None = argument_setting(
        TextSettings,
        "token_pattern",
        suffix="; unset: words of three letters or more of any script, without HTML, web and "
        "e-mail addresses",
    )
    language: str | None = argument_setting(
        TextSettings, "language", suffix="; unset: found by these"
    )
    stop_words: str | tuple[str, ...] = setting(
        "auto",
        'words to drop: "auto" (of the language), "german" say, "none", a file with a word on '
        "each line, a list",
    )
    ngrams: int = argument_setting(TextSettings, "ngrams")
    min_df: int | float | None = argument_setting(
        TextSettings, "min_df", suffix="; unset: 5, or 1 % of the documents if that is fewer"
    )
    max_df: int | float = argument_setting(TextSettings, "max_df")
    max_vocabulary: int = argument_setting(TextSettings, "max_vocabulary")


@dataclasses.dataclass(frozen=True)
class DescribedData(DocumentData):
    """[data]: documents with other columns that a model reads."""

    missing_words: tuple[str, ...] | None = setting(None, MISSING_WORDS)


@dataclasses.dataclass(frozen=True)
class DatedData(DocumentData):
    """[data]: documents with a column of times."""

    time: str | None = setting(
        None,
        'column of dates or numbers by which topics move; "order": documents are in the order of '
        "time; unset: the only column of dates or years",
    )
    slices: str | float = setting(
        "auto",
        '"year", "quarter", "month", "week" or "day": slices of dates; a number: the width of '
        "slices of numbers; auto: each number, and of dates the longest period with five slices",
    )


@dataclasses.dataclass(frozen=True)
class RatingData(DocumentData):
    """[data]: who took what, as documents and their words, and features of users and items."""

    missing_words: tuple[str, ...] | None = setting(None, MISSING_WORDS)
    vocabulary: str | None = setting(None, "file of items, one per line: those to keep")
    held_out: float = setting(
        0.1, "share of the users kept out of training, for the score", interval("[0, 1)")
    )
    split_seed: int = setting(0, "seed of the split into training and held-out users", integer(0))
    user: str | None = setting(
        None, "column of users; unset: one called user, userId, customer_id and the like"
    )
    item: str | None = setting(
        None, "column of items; unset: one called item, movieId, product_id and the like"
    )
    count: str | None = setting(
        None,
        "column of how often an item was taken; none: each row counts once; unset: one called "
        "count, plays, quantity "
        "and the like, else each row counts once; ratings must be said to be counts",
    )
    time: str | None = setting(
        None,
        "with least: column of the time of each row, since the last rating of an item counts; "
        "unset: as above",
    )
    least: float | None = setting(
        None, "rating from which an item counts as taken; unset: ratings are not compared"
    )
    user_features: str | None = setting(
        None,
        "table of numbers that are known of users, for those who took little or nothing: a column "
        "user, and a row for each; csv, parquet, ...",
    )
    item_features: str | None = setting(
        None,
        "table of numbers that are known of items, a column item and a row for each; items that "
        "nobody took in training are recommended by them",
    )


@dataclasses.dataclass(frozen=True)
class TableData:
    """[data]: a table of numbers, and the roles of its columns."""

    path: str = setting("synthetic:clusters", f"file: {KNOWN}")
    columns: tuple[str, ...] | None = setting(
        None,
        "columns to use; unset: all columns of numbers but target and group",
        Limit(
            lambda names: names != (),
            "one column or more; leave it out to use all columns of numbers",
        ),
    )
    target: str | None = setting(None, "column to predict, for models that predict one")
    group: str | None = setting(
        None, "column with the sequence (or group) of each row; unset: all rows are one"
    )
    order: str | tuple[str, ...] | None = setting(
        None,
        "models of sequences: the column of the time of each row, or several as year and month, "
        "the coarsest first; "
        'unset: found by name, dates or counting; "none": rows as they lie',
        Limit(lambda names: names != (), 'one column or more, or "none" to take rows as they lie'),
    )
    missing: Literal["refuse", "drop", "model"] = setting(
        "refuse",
        "what becomes of missing cells where the model has no law for them: drop leaves their rows "
        "out, of sequences leaves the step, unseen; model, for mixtures and hidden Markov models: "
        "each row counts by the cells that it has",
    )
    num_rows: int | None = setting(
        None,
        "rows to generate of a synthetic table; of other tables, rows to keep from the start",
        integer(),
    )
    synthetic_seed: int = setting(0, "seed of a synthetic table", integer(0))
    sample: int = setting(
        1_000_000,
        "most rows that are held of a folder of Parquet files, or of an address; more are read by "
        "parts, and the page and the score are of so many",
        integer(),
    )
    held_mb: int = setting(
        256, "megabytes of rows that are held while they are read by parts", integer()
    )
    standardise: bool | Literal["together", "centre"] | None = setting(
        None,
        "bring columns (not the target) to mean 0 and deviation 1 in training rows; together: by "
        "one deviation for all; centre: to mean 0; unset: as the model's priors need it. Results "
        "are in the units of the data",
    )
    held_out: float = setting(0.1, "share kept out of training, for the score", interval("[0, 1)"))
    hold_out: Literal["rows", "entries"] = setting(
        "rows",
        "held out are rows (whole sequences or groups), or single entries, for models of missing "
        "entries",
    )
    split_seed: int = setting(0, "seed of the split into training and held-out parts", integer(0))
    encoding: str = setting("utf-8", ENCODING)
    separator: Separator | None = setting(None, SEPARATOR)
    decimal: Decimal | None = setting(None, DECIMAL)
    sheet: str | None = setting(None, SHEET)
    missing_words: tuple[str, ...] | None = setting(None, MISSING_WORDS)
    sha256: str | None = setting(None, SHA256)


@dataclasses.dataclass(frozen=True)
class GraphData:
    """[data]: a graph, as an edge list or as an adjacency matrix."""

    path: str = setting(
        "synthetic:links",
        "file or URL (.csv, .tsv, .xlsx, .parquet, .npy, .npz) of edges, a row each, or of a "
        "square matrix with one column a node; or synthetic:links",
    )
    source: str = setting("source", "edge list: column of the node at which an edge begins")
    target: str = setting("target", "edge list: column of the node at which it ends")
    weight: str = setting(
        "weight",
        "edge list: column of weights, if there is one; 0: no edge; missing: the pair was not "
        "observed",
    )
    num_rows: int | None = setting(
        None,
        "edges to generate of a synthetic graph; of files, rows to keep from the start",
        integer(),
    )
    synthetic_seed: int = setting(0, "seed of a synthetic graph", integer(0))
    held_out: float = setting(
        0.1, "share of the pairs kept out of training, for the score", interval("[0, 1)")
    )
    split_seed: int = setting(0, "seed of the split into training and held-out pairs", integer(0))
    encoding: str = setting("utf-8", ENCODING)
    separator: Separator | None = setting(None, SEPARATOR)
    decimal: Decimal | None = setting(None, DECIMAL)
    sheet: str | None = setting(None, SHEET)
    missing_words: tuple[str, ...] | None = setting(None, MISSING_WORDS)
    sha256: str | None = setting(None, SHA256)


# --- [algorithm] ----------------------------------------------------------------------------------
DocumentEstep = chooser(
    "[algorithm.estep]: how a document's topics are inferred.",
    "cvb0",
    "the method",
    gibbs=estep.gibbs,
    cvb0=estep.cvb0,
    mean_field=estep.mean_field,
)
EnergyEstep = chooser(
    "[algorithm.estep]: how the local variables of a row (or sequence) are treated.",
    "mean_field",
    "optimised (exactly, if there is one), or drawn",
    without=("tokens",),
    mean_field=estep.mean_field,
    gibbs=estep.gibbs,
)
StepSizeConfig = chooser(
    "[algorithm.step_size]: rho_t, the weight of step t's message.",
    "default",
    "the schedule",
    default=lambda: None,
    robbins_monro=step_size.robbins_monro,
    constant=step_size.constant,
    hold_then_decay=step_size.hold_then_decay,
)
ProximalStepSize = chooser(
    "[algorithm.step_size]: rho_t, how far step t moves the sites to their messages.",
    "default",
    "the schedule; default: backtracking on full data, decaying steps with minibatches",
    default=lambda: None,
    backtracking=step_size.backtracking,
    proximal=step_size.proximal,
    constant=step_size.constant,
    robbins_monro=step_size.robbins_monro,
)


def row_section(default: str, meaning: str, estep: Any, **more: Any) -> Any:
    """[algorithm] of models in conjugate form: one row of the table of algorithms, by its name in
    the literature.

    Args:
      default: the row if none is named.
      meaning: the meaning of the setting `name`.
      estep: the section of E-steps.
      **more: settings of these models only, as for `section_class`.
    """
    ramp = setting(
        None, "passes over the data until the full data size counts; 0: at once", minimum(0)
    )
    return section_class(
        "[algorithm]: one row of the table of algorithms, by its name in the literature.",
        name=(
            Literal["ssvi_a", "ssvi", "svi", "sgrld", "map", "em", "cavi"],
            setting(default, meaning),
        ),
        ramp=(float | None, ramp),
        damping=(float | None, argument_setting(estimator.ssvi, "damping", None, "ssvi: ")),
        warm_starts=setting(
            False, "begin the E-step of each document (row, sequence) where its last one ended"
        ),
        **more,
        estep=section(estep),
        step_size=section(StepSizeConfig),
    )


def grow(things: str, most: str) -> Any:
    """The setting of moves before the first step."""
    return setting(
        False,
        f"find the number of {things}, at most {most}, by births, merges and deletes, before the "
        "first step",
    )


def lazy() -> tuple[Any, Any]:
    """The setting of steps of a few words, for `row_section`."""
    unset = "; unset: where a batch holds less than half of all"
    return bool | None, setting(
        None, f"svi, ssvi_a: steps that cost what the words of their batch do{unset}"
    )


DocumentAlgorithm = row_section(
    "ssvi_a",
    "the message to the topics",
    DocumentEstep,
    lazy=lazy(),
    active_topics=(
        int | None,
        setting(
            None,
            "lda by svi or ssvi_a: so many topics a document at a step, for many topics; unset: "
            "all",
            integer(),
        ),
    ),
    left_out=(
        float | None,
        setting(
            None,
            "with active_topics: no more of them than leave this share of a document's words to "
            "others",
            interval("[0, 1)"),
        ),
    ),
)
EnergyAlgorithm = row_section(
    "cavi",
    "the message to the globals",
    EnergyEstep,
    points=(
        tuple[str, ...],
        setting((), "cavi, svi: globals of which only the posterior mode is found"),
    ),
)
ProximalAlgorithm = section_class(
    "[algorithm]: proximal-gradient steps on models of Gaussian predictors.",
    name=(Literal["pg_svi"], setting("pg_svi", "the algorithm")),
    memory=argument_setting(pg_svi, "memory"),
    inner_steps=argument_setting(pg_svi, "inner_steps"),
    mean=(Literal["current", "exact"], argument_setting(pg_svi, "mean")),
    average_after=(
        int | None,
        setting(None, "keep the mean of the sites from this step on", integer(0)),
    ),
    learn_rate=setting(0.01, "rate of Adam, for hyperparameters that are learnt", POSITIVE),
    step_size=section(ProximalStepSize),
)


# --- [fit] ----------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class FitConfig:
    """[fit]: how long, how often, and from which seed."""

    num_epochs: int | float = argument_setting(fit, "num_epochs", 10)
    batch_size: int | None = argument_setting(
        fit,
        "batch_size",
        suffix=", which are documents, rows or sequences; unset: 256; documents by svi: 65,536 "
        "words, at most half of them, at least 256; all of them for em, map, cavi, pg_svi",
    )
    seed: int = setting(0, "seed of everything random: start, batches, draws", integer(0))
    precision: Literal["float32", "float64"] = setting(
        "float32", "precision of all numbers; Gaussian processes may need float64"
    )
    restarts: int = argument_setting(fit, "restarts")
    combine: Literal["best", "average"] = setting(
        "best",
        "what restarts are for: the best is kept; or, for lda, all are kept: scores and shares of "
        "topics are averages over them, and topics those of the best",
    )
    devices: int | str | None = setting(
        None,
        'devices over which each batch is split; "2x4" splits batches in 2 and tables of topics in '
        "4; unset: one",
        MESH,
    )
    convergence: float | None = argument_setting(
        fit, "tol", suffix=": 1e-6 or more on all data, 1e-3 on minibatches"
    )
    evaluate_every: int | None = setting(
        None, "steps between held-out scores; 0: only the last; unset: about six", integer(0)
    )
    checkpoint_every_s: float = setting(
        60.0, "seconds between checkpoints; 0: at every chance", minimum(0)
    )
    progress_every_s: float = setting(
        5.0, "seconds between lines of progress (a terminal gets a bar)", minimum(0.1)
    )

    @property
    def use_of_runs(self) -> Literal["best", "average"]:
        """The use of the runs, as `vijax.fit(combine=)` takes it: one alone is the best."""
        if self.restarts == 1:
            return "best"
        return self.combine


@dataclasses.dataclass(frozen=True)
class DocumentPage:
    """[page]: what report.html shows, beside the topics. To change it later, edit config.toml and
    run vijax report."""

    by: tuple[str, ...] | None = setting(
        None,
        "columns to show topics by, such as a year or a section; unset: up to four columns of "
        "dates or of few values",
    )
    names: tuple[str, ...] = setting(
        (), 'names of topics, as ["0: politics", "7: film"], in the place of their words'
    )
    every: Literal["auto", "year", "quarter", "month", "week", "day"] = setting(
        "auto", "length of time of a group, for a column of dates"
    )
    documents: int = setting(5_000, "most documents that can be searched on the page", integer(0))
    words: int = setting(
        20_000, "most words that can be searched on the page, the most frequent", integer()
    )
    excerpts: bool = setting(
        True, "whether the run folder and the page hold how each document begins"
    )
