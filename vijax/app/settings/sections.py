# ruff: noqa: RUF009  (setting() and section() are field specifiers: they return dataclasses.field)
"""The sections [data], [algorithm] and [fit]: settings with their defaults, meanings and limits.

Models of documents, of tables and of Gaussian predictors differ in [data] and [algorithm]; which of them a model has,
its listing in `vijax.app.catalogue` says. Its own section, [model], stands there too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from vijax.app.settings.options import Chooser, Option
from vijax.app.settings.typed_toml import FRACTION, POSITIVE, Check, at_least, between, section, setting
from vijax.inference import estep, step_size

Format = Literal["auto", "text-folder", "text-lines", "jsonl", "csv", "parquet", "npz", "matrix-market", "lda-c", "uci"]


# --- [data] ----------------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class DocumentData:
    """[data]: the documents, and how text becomes words."""

    path: str = setting("docstrings", 'file, folder or URL; "docstrings" is the documentation of installed packages')
    format: Format = setting("auto", "how the data is stored; auto goes by the name and the first bytes")
    column: str | None = setting(
        None, "name of the column that holds the text (jsonl, csv, parquet); a column title names the documents"
    )
    vocabulary: str | None = setting(None, "file of words, one per line: names of word ids, or the words to keep")
    sha256: str | None = setting(None, "of the file at a URL; unset: that of the first download must stay")
    held_out: float = setting(0.1, "share of the documents kept out of training, for the score", between(0.0, 1.0))
    split_seed: int = setting(0, "seed of the split into training and held-out documents", at_least(0))
    encoding: str = setting("utf-8", "of text files")
    lowercase: bool = setting(True, "whether case is ignored")
    token_pattern: str = setting(r"(?u)[^\W\d_]{3,}", "regular expression of a word")
    stop_words: str | tuple[str, ...] = setting(
        "english", 'words to drop: a language ("english", "german"), "none", a file with a word on each line, a list'
    )
    ngrams: int = setting(1, "the longest phrase, in words, that counts as a word: 2 adds pairs", between(1, 6))
    min_df: int | float | None = setting(
        None, "least documents a word is in: a number or a share; unset: 5", at_least(0)
    )
    max_df: int | float = setting(0.5, "most documents a word is in: a number or a share", POSITIVE)
    max_vocabulary: int = setting(10_000, "keep at most so many words, the most frequent", at_least(1))


@dataclasses.dataclass(frozen=True)
class TableData:
    """[data]: a table of numbers, and which of its columns are what."""

    path: str = setting(
        "synthetic:clusters",
        "file or URL (.csv, .tsv, .parquet, .npy, .npz), sklearn:NAME (iris, wine, breast_cancer, diabetes, digits) or "
        "synthetic:NAME (clusters, line, counts, binary, profiles, sequences, oscillations, switches, factors, "
        "ratings, regression, schools, clinics, rings, rate, speech, bent)",
    )
    columns: tuple[str, ...] | None = setting(None, "columns to use; unset: all of numbers but target and group")
    target: str | None = setting(None, "column to predict, of models that predict one")
    group: str | None = setting(None, "column that says to which sequence (or group) a row belongs; unset: all to one")
    num_rows: int | None = setting(None, "how many rows to generate; of others, to keep of the first", at_least(1))
    synthetic_seed: int = setting(0, "seed of a synthetic table", at_least(0))
    standardise: bool = setting(False, "bring columns (not the target) to mean 0 and deviation 1 in training rows")
    held_out: float = setting(0.1, "share kept out of training, for the score", between(0.0, 1.0))
    hold_out: Literal["rows", "entries"] = setting(
        "rows", "what is held out: rows (whole sequences or groups), or single entries, where some may be missing"
    )
    split_seed: int = setting(0, "seed of the split into training and held-out parts", at_least(0))
    encoding: str = setting("utf-8", "of text files")
    sha256: str | None = setting(None, "of the file at a URL; unset: that of the first download must stay")


@dataclasses.dataclass(frozen=True)
class GraphData:
    """[data]: a graph, as an edge list or as an adjacency matrix."""

    path: str = setting(
        "synthetic:links",
        "file or URL (.csv, .tsv, .parquet, .npy, .npz) of edges, a row each, or of a square matrix with one column a "
        "node; or synthetic:links",
    )
    source: str = setting("source", "edge list: column of the node at which an edge begins")
    target: str = setting("target", "edge list: column of the node at which it ends")
    weight: str = setting(
        "weight", "edge list: column of weights, if there is one; 0: no edge; missing: the pair was not observed"
    )
    num_rows: int | None = setting(None, "how many edges to generate; of files, rows to keep of the first", at_least(1))
    synthetic_seed: int = setting(0, "seed of a synthetic graph", at_least(0))
    held_out: float = setting(0.1, "share of the pairs kept out of training, for the score", between(0.0, 1.0))
    split_seed: int = setting(0, "seed of the split into training and held-out pairs", at_least(0))
    encoding: str = setting("utf-8", "of text files")
    sha256: str | None = setting(None, "of the file at a URL; unset: that of the first download must stay")


# --- [algorithm] -----------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class DocumentEstep(Chooser):
    """[algorithm.estep]: how a document's topics are inferred."""

    name: Literal["gibbs", "cvb0", "mean_field"] = setting("cvb0", "the method")
    num_sweeps: int | None = setting(None, "gibbs: sweeps that are averaged", at_least(1))
    burn_in: int | None = setting(None, "gibbs: sweeps before those", at_least(0))
    max_iters: int | None = setting(None, "cvb0, mean_field: most iterations per document", at_least(1))
    tol: float | None = setting(None, "cvb0, mean_field: stop below this mean change of topic counts", POSITIVE)
    OPTIONS: ClassVar[Mapping[str, Option]] = {
        "gibbs": Option(estep.gibbs, ("num_sweeps", "burn_in")),
        "cvb0": Option(estep.cvb0, ("max_iters", "tol")),
        "mean_field": Option(estep.mean_field, ("max_iters", "tol")),
    }


@dataclasses.dataclass(frozen=True)
class EnergyEstep(Chooser):
    """[algorithm.estep]: how the local variables of a row (or sequence) are treated."""

    name: Literal["mean_field", "gibbs"] = setting("mean_field", "optimised (exactly, if there is one), or drawn")
    num_sweeps: int | None = setting(None, "gibbs: sweeps that are averaged", at_least(1))
    burn_in: int | None = setting(None, "gibbs: sweeps before those", at_least(0))
    max_iters: int | None = setting(None, "mean_field: most iterations, where locals depend on each other", at_least(1))
    tol: float | None = setting(None, "mean_field: stop those below this change", POSITIVE)
    OPTIONS: ClassVar[Mapping[str, Option]] = {
        "mean_field": Option(estep.mean_field, ("max_iters", "tol")),
        "gibbs": Option(estep.gibbs, ("num_sweeps", "burn_in")),
    }


@dataclasses.dataclass(frozen=True)
class StepSizeConfig(Chooser):
    """[algorithm.step_size]: rho_t, the weight of step t's message."""

    name: Literal["default", "robbins_monro", "constant", "hold_then_decay"] = setting("default", "the schedule")
    scale: float | None = setting(None, "robbins_monro: s of s (t + tau)^-kappa", POSITIVE)
    offset: float | None = setting(None, "robbins_monro: tau; damps the first steps", at_least(1))
    kappa: float | None = setting(None, "robbins_monro, hold_then_decay: the power; 0.5 to 1", between(0.0, 1.0001))
    hold: int | None = setting(None, "hold_then_decay: steps at rho before the decay", at_least(0))
    rho: float | None = setting(None, "constant, hold_then_decay: the step size", FRACTION)
    OPTIONS: ClassVar[Mapping[str, Option]] = {
        "default": Option(lambda: None),
        "robbins_monro": Option(step_size.robbins_monro, ("scale", "offset", "kappa")),
        "constant": Option(step_size.constant, ("rho",)),
        "hold_then_decay": Option(step_size.hold_then_decay, ("hold", "rho", "kappa")),
    }


@dataclasses.dataclass(frozen=True)
class ProximalStepSize(Chooser):
    """[algorithm.step_size]: rho_t, how far step t moves the sites to their messages."""

    name: Literal["default", "backtracking", "proximal", "constant", "robbins_monro"] = setting(
        "default", "the schedule; default: backtracking on full data, decaying steps with minibatches"
    )
    initial: float | None = setting(None, "backtracking: the first trial's rho", between(1e-9, 1.0))
    shrink: float | None = setting(None, "backtracking: factor after a failed trial", between(1e-9, 1.0))
    beta: float | None = setting(None, "proximal: rho = beta / (1 + beta)", POSITIVE)
    rho: float | None = setting(None, "constant: the step size", FRACTION)
    scale: float | None = setting(None, "robbins_monro: s of s (t + tau)^-kappa", POSITIVE)
    offset: float | None = setting(None, "robbins_monro: tau; damps the first steps", at_least(1))
    kappa: float | None = setting(None, "robbins_monro: the power; 0.5 to 1", between(0.0, 1.0001))
    OPTIONS: ClassVar[Mapping[str, Option]] = {
        "default": Option(lambda: None),
        "backtracking": Option(step_size.backtracking, ("initial", "shrink")),
        "proximal": Option(step_size.proximal, ("beta",)),
        "constant": Option(step_size.constant, ("rho",)),
        "robbins_monro": Option(step_size.robbins_monro, ("scale", "offset", "kappa")),
    }


Name = Literal["ssvi_a", "ssvi", "svi", "map", "em", "cavi"]
RAMP: Any = ("passes over the data until the full data size counts; 0: at once", at_least(0))
DAMPING: Any = (
    "ssvi: weight of V, 0 (as ssvi_a) to 1 (undamped)",
    Check(lambda x: 0 <= x <= 1, "a number from 0 to 1"),
)
LAZY: Any = (
    "svi, ssvi_a: steps that cost what the words of their batch do; unset: where a batch holds less than half of all",
)
ACTIVE: Any = ("lda by svi or ssvi_a: so many topics a document at a step, for many topics; unset: all", at_least(1))
LEFT_OUT: Any = (
    "with active_topics: no more of them than leave this share of a document's words to others",
    between(0, 1),
)
WARM: Any = ("begin the E-step of each document (row, sequence) where it ended when it was last seen",)


@dataclasses.dataclass(frozen=True)
class DocumentAlgorithm:
    """[algorithm]: one row of the table of algorithms, by its name in the literature."""

    name: Name = setting("ssvi_a", "the message to the topics")
    ramp: float | None = setting(None, *RAMP)
    damping: float | None = setting(None, *DAMPING)
    warm_starts: bool = setting(False, *WARM)
    lazy: bool | None = setting(None, *LAZY)
    active_topics: int | None = setting(None, *ACTIVE)
    left_out: float | None = setting(None, *LEFT_OUT)
    estep: DocumentEstep = section(DocumentEstep)
    step_size: StepSizeConfig = section(StepSizeConfig)


@dataclasses.dataclass(frozen=True)
class EnergyAlgorithm:
    """[algorithm]: one row of the table of algorithms, by its name in the literature."""

    name: Name = setting("cavi", "the message to the globals")
    ramp: float | None = setting(None, *RAMP)
    damping: float | None = setting(None, *DAMPING)
    warm_starts: bool = setting(False, *WARM)
    points: tuple[str, ...] = setting((), "cavi, svi: globals of which only the posterior mode is found")
    estep: EnergyEstep = section(EnergyEstep)
    step_size: StepSizeConfig = section(StepSizeConfig)


@dataclasses.dataclass(frozen=True)
class ProximalAlgorithm:
    """[algorithm]: proximal-gradient steps on models of Gaussian predictors."""

    name: Literal["pg_svi"] = setting("pg_svi", "the algorithm")
    memory: bool = setting(False, "keep every site's last message: large steps with small batches then converge")
    inner_steps: int = setting(1, "with memory: steps on the batch's sites before all is factorised again", at_least(1))
    mean: Literal["current", "exact"] = setting("current", "linearise in mean parameters, or in (m, V) with m exact")
    average_after: int | None = setting(None, "keep the mean of the sites from this step on", at_least(0))
    learn_rate: float = setting(0.01, "of Adam, for hyperparameters that are learnt", POSITIVE)
    step_size: ProximalStepSize = section(ProximalStepSize)


# --- [fit] -----------------------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class FitConfig:
    """[fit]: how long, how often, and from which seed."""

    num_epochs: int | float = setting(10, "passes over the training data", POSITIVE)
    batch_size: int | None = setting(
        None,
        "documents (rows, sequences) per step; unset: 256; documents by svi: 65,536 words, at most half of them, "
        "at least 256; all of them for em, map, cavi, pg_svi",
        at_least(1),
    )
    seed: int = setting(0, "seed of everything random: start, batches, draws", at_least(0))
    precision: Literal["float32", "float64"] = setting("float32", "of all numbers; Gaussian processes may need float64")
    restarts: int = setting(1, "runs from different starts, side by side, of which the best is kept", at_least(1))
    convergence: float | None = setting(
        None,
        "stop when the bound still gains less, relatively: 1e-6 or more on all data, 1e-3 on minibatches",
        POSITIVE,
    )
    evaluate_every: int | None = setting(
        None, "steps between held-out scores; 0: only the last; unset: about six", at_least(0)
    )
    checkpoint_every_s: float = setting(60.0, "seconds between checkpoints; 0: at every chance", at_least(0))
    progress_every_s: float = setting(5.0, "seconds between lines of progress (a terminal gets a bar)", at_least(0.1))
