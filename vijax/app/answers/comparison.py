"""Comparison of runs on the same held-out data (scores, paired differences, coherence of topics),
or by their bounds on the training data."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vijax.app.answers.plain import Plain, plain_alternative
from vijax.app.answers.results import results_paths
from vijax.app.drawing.exports import unguard_formula
from vijax.app.folder.restored import reread_plan, restore
from vijax.app.folder.run_end import read_end
from vijax.app.folder.run_folder import KEPT, UNITS, Say, read_facts, read_run_config
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import Config, ConfigError
from vijax.app.plan.plan import Plan
from vijax.app.settings.quoting import quote
from vijax.app.settings.typed_toml import flatten
from vijax.app.sources.doc_topics import user_columns
from vijax.app.sources.listing import Data, FittedRun, held_out_score_key
from vijax.evaluate import (
    Agreement,
    Coherence,
    c_v,
    exclusivity,
    metrics,
    nmi,
    npmi,
    paired_difference,
)
from vijax.evaluate.score import Difference
from vijax.families import Dirichlet

SILENT = ("name", "algorithm.lazy", "page.names")
"""Settings whose difference tells nothing about runs."""
SCALING = "standardise"
"""The setting of [data] in which runs of one table may differ."""
UNUSABLE = "do not use this fit (see its verdict)"
"""Remark on a run whose verdict is not to use it: it is not scored, however high its bound."""
NUM_WORDS = 10
"""Number of leading words of a topic for its coherence."""


class ComparedRun(NamedTuple):
    """A run in a comparison."""

    folder: Path  # folder of the run
    values: tuple[
        Any, ...
    ]  # its settings that differ between runs, in the order of `Comparison.keys`
    # held-out score; None if there is none, if the run diverged, or if its verdict is not to use it
    score: Any
    # advantage of the best run; None for the best run itself and for a run without a score
    behind: Difference | None
    # NPMI of the topics over the training documents; None for models without topics
    coherence: Coherence | None
    remark: str  # further facts: how it ended, why there is no score
    # NMI of the groups that it finds with a column of labels; None without a column
    agreement: Agreement | None = None
    c_v: Coherence | None = None  # C_V of the topics over the training documents
    exclusivity: Coherence | None = None  # mean FREX of the leading words of the topics


class TopicQuality(NamedTuple):
    """Measures of the leading words of topics; empty for models without topics."""

    coherence: Coherence | None = None
    c_v: Coherence | None = None
    exclusivity: Coherence | None = None


class Comparison(NamedTuple):
    """Several runs."""

    keys: tuple[str, ...]  # settings that differ between the runs
    runs: tuple[ComparedRun, ...]  # the runs, in the order in which they were named
    best: int  # the place of the run with the best score
    # True if the scores are bounds on the training data, and nothing was held out
    training: bool = False
    by: str = ""  # name of the column of labels
    # the plain alternative, its score, and how much better the best run is; None if there is none
    plain: tuple[str, float, Difference] | None = None

    @property
    def unusable(self) -> list[str]:
        """Names of runs whose verdict is not to use them."""
        return [run.folder.name for run in self.runs if UNUSABLE in run.remark]

    @property
    def as_good(self) -> list[int]:
        """The places of runs within two standard errors of the best, which is included."""
        close = [
            run.behind and run.behind.mean <= 2 * run.behind.standard_error for run in self.runs
        ]
        return [i for i, is_close in enumerate(close) if i == self.best or is_close]


def compare(
    folders: Sequence[Path], say: Say, data: Data | None = None, by: str = ""
) -> Comparison:
    """Scores two or more runs on the held-out data that they share, with one key, so that documents
    are cut into the same halves.

    Args:
      folders: folders of the runs.
      say: prints a line.
      data: the data, if they have been read.
      by: a column of the data with which the groups that runs find are compared; "" for none.
    """
    configs = [read_run_config(folder) for folder in folders]
    # If only some runs have standardised their columns, scores in the units of the data compare.
    scales = {getattr(config.data, SCALING, None) for config in configs} - {None}
    check_same_data(folders, configs if len(scales) > 1 else None)
    read = [data] * len(folders) if data is not None else _read(folders, configs)
    if read[0].test is None:
        raise ConfigError(
            f"{folders[0]}: nothing was held out, and so there is nothing to compare; set "
            "data.held_out, or compare bounds on the training data: vijax compare --training"
        )
    agreements: list[Agreement | None] = [None] * len(folders)
    if by:
        pairs = zip(folders, configs, strict=True)
        agreements = [agreement(folder, config, by) for folder, config in pairs]
    results = []
    for number, (folder, config, run_data) in enumerate(
        zip(folders, configs, read, strict=True), 1
    ):
        say(f"Scoring {folder} ({number} of {len(folders)})")
        results.append(_score_run(folder, Plan(config, run_data)))
    scores = [score for score, _, _ in results]
    best = _best(folders, scores)
    keys = keys_that_differ(configs)
    runs = []
    for i, (folder, config, (score, words, remark)) in enumerate(
        zip(folders, configs, results, strict=True)
    ):
        behind = None if i == best or score is None else paired_difference(scores[best], score)
        values = setting_values(config, keys)
        marks = agreements[i], words.c_v, words.exclusivity
        runs.append(ComparedRun(folder, values, score, behind, words.coherence, remark, *marks))
    plain = _plain(configs[best], read[best], scores[best])
    return Comparison(keys, tuple(runs), best, by=by, plain=plain)


def _plain(config: Config, data: Data, score: Any) -> tuple[str, float, Difference] | None:
    with config.in_precision():
        run = FittedRun(None, data, config.model, None)  # type: ignore[arg-type]
        plain = plain_alternative(run, score)
    if not isinstance(plain, Plain):
        return None
    return plain.name, float(plain.score.mean), paired_difference(score, plain.score)


def agreement(folder: Path, config: Config, by: str) -> Agreement:
    """NMI of what a run finds for each document or row with a column of the data; rows without a
    label are left out."""
    path, _ = results_paths(folder, config)
    predicts = config.listing.predicts
    if not path.is_file():
        command = f"vijax transform {quote(folder)} --out {quote(path)}"
        raise ConfigError(f"--by: {path}: there is no such file; make it: {command}")
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    names = [*map(unguard_formula, header)]
    if by not in names or predicts not in names:
        columns = ", ".join(user_columns(names)) or "none"
        expected = (
            f"a column beside those that {config.listing.name} uses, of a model that finds groups"
        )
        raise ConfigError(f"--by {by}: {path}: expected {expected}; its columns are: {columns}")
    places = names.index(by), names.index(predicts)
    labels, groups = zip(*([row[i] for i in places] for row in rows if row[places[0]]), strict=True)
    return nmi(labels, groups)


def ending(folder: Path) -> str:
    """The end of a run in a word or two if it did not finish as it should; else empty."""
    end = read_end(folder)
    if end is None:
        return "unfinished"
    if not end["usable"]:
        return UNUSABLE
    status = end["status"].partition(";")[0].partition(":")[0]
    return "" if status in ("finished", "converged") else status


def _read(folders: Sequence[Path], configs: Sequence[Config]) -> list[Data]:
    """The data of each run, the same for all runs with the same scaling; each is checked against
    the data that the run began with."""
    data_by_scaling: dict[bool, Data] = {}
    for folder, config in zip(folders, configs, strict=True):
        scaled = getattr(config.data, SCALING, False)
        if scaled not in data_by_scaling:
            data_by_scaling[scaled] = reread_plan(folder, config).data
    return [data_by_scaling[getattr(config.data, SCALING, False)] for config in configs]


def check_same_data(folders: Sequence[Path], configs: Sequence[Config] | None = None) -> None:
    """Raises ConfigError on fewer than two runs, or runs of other data. The data are compared, not
    their settings; with `configs`, as they were before columns were standardised."""
    if len({folder.resolve() for folder in folders}) < max(2, len(folders)):
        raise ConfigError(
            "vijax compare: expected two different runs or more: vijax compare RUN RUN"
        )
    all_facts = [_data_facts(read_facts(folder)) for folder in folders]
    if configs is not None:
        all_facts = [
            _without_scaling(facts, config)
            for facts, config in zip(all_facts, configs, strict=True)
        ]
    first = all_facts[0]
    for folder, facts in zip(folders, all_facts, strict=True):
        changed = [key for key in {**first, **facts} if first.get(key) != facts.get(key)]
        if changed:
            differences = ", ".join(
                f"{key}: {_cut(first.get(key))} and {_cut(facts.get(key))}" for key in changed
            )
            raise ConfigError(
                f"{folders[0]} and {folder} are of other data, on which scores cannot be compared "
                f"({differences}); fit both to the same data with the same split"
            )


def _cut(fact: Any) -> str:
    """The beginning of a fact; long lists end in dots."""
    text = str(fact)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _without_scaling(facts: dict[str, Any], config: Config) -> dict[str, Any]:
    """Facts of the data of a run, with the checksum of the columns before standardising."""
    if not getattr(config.data, SCALING, False):
        return facts
    raw = dataclasses.replace(config, data=dataclasses.replace(config.data, **{SCALING: False}))
    plan = Plan(raw, load_data(raw))
    return {**facts, "sha256": plan.fingerprint, UNITS: plan.units_fingerprint}


def _data_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts in data.json of the data, without the checksums of the run's files."""
    return {key: value for key, value in facts.items() if key != KEPT}


def _score_run(folder: Path, plan: Plan) -> tuple[Any, TopicQuality, str]:
    """The score, the measures of topics, and a remark."""
    config = plan.config
    remark = ending(folder)
    if remark == UNUSABLE:
        return None, TopicQuality(), remark
    with config.in_precision():
        run = restore(folder, plan)._replace(key=held_out_score_key())
        if not config.listing.has_score(run.model):
            raise ConfigError(
                f"{folder}: {config.listing.name} has no held-out score to compare; by its bound "
                "on the training data: vijax compare --training"
            )
        try:
            score = config.listing.score_test_data(run)
            return (score if math.isfinite(score.mean) else None), _topic_quality(run), remark
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            if not remark:
                raise
            return None, TopicQuality(), f"{remark}; no score: {error}"


def _topic_quality(run: FittedRun) -> TopicQuality:
    topics = run.fit.topic_words
    if not isinstance(topics, Dirichlet) or topics.concentration.shape[1] < 2:
        return TopicQuality()
    concentration = np.maximum(np.asarray(topics.concentration, np.float64), 1e-10)
    probs = concentration / concentration.sum(axis=1, keepdims=True)
    number = min(NUM_WORDS, probs.shape[1])
    documents = run.data.train
    return TopicQuality(
        npmi(probs, documents, num_words=number),
        c_v(probs, documents, num_words=number),
        exclusivity(probs, num_words=number),
    )


def _best(folders: Sequence[Path], scores: Sequence[Any]) -> int:
    candidates = [i for i, score in enumerate(scores) if score is not None]
    if not candidates:
        raise ConfigError(
            f"{folders[0]} and the others have no score: all of them diverged, or are not to be "
            "used"
        )
    first = scores[candidates[0]]
    for i in candidates:
        is_comparable = type(scores[i]) is type(first) and np.array_equal(
            scores[i].parts[1], first.parts[1]
        )
        if not is_comparable:
            raise ConfigError(
                f"{folders[candidates[0]]} and {folders[i]} have scores that measure other things, "
                f"and cannot be compared: {first}; {scores[i]}"
            )
    return max(candidates, key=lambda i: scores[i].mean)


def keys_that_differ(configs: Sequence[Config]) -> tuple[str, ...]:
    """The settings that differ; for different models only their names."""
    flat = [flatten(config) for config in configs]
    if len({values["model.name"] for values in flat}) > 1:
        return ("model.name",)
    is_compared = lambda key: not key.startswith("data.") or key == f"data.{SCALING}"
    keys = [key for key in flat[0] if key not in SILENT and is_compared(key)]
    return tuple(key for key in keys if any(values[key] != flat[0][key] for values in flat))


def setting_values(config: Config, keys: Sequence[str]) -> tuple[Any, ...]:
    """The values of settings."""
    flat = flatten(config)
    return tuple(flat[key] for key in keys)


# --- by bounds on the training data ---------------------------------------------------------------
POINTS = ("em", "map")
"""Algorithms that find points."""


class TrainingBound(NamedTuple):
    """The bound on the log evidence of the training data, nats, averaged over the last pass.

    >>> print(TrainingBound(-2.5, "row"))
    -2.500 nats per row (bound on the training data)
    """

    mean: float  # mean per word (row, step)
    per: str  # name of this unit

    @property
    def standard_error(self) -> float:
        """NaN: it is not known, because the bound is on the training data."""
        return float("nan")

    def __str__(self) -> str:
        return f"{self.mean:.3f} nats per {self.per} (bound on the training data)"


def training_bound(folder: Path, config: Config) -> TrainingBound:
    """The training bound of a run, from the records of its steps."""
    curves = metrics.read_curves(folder / "metrics.jsonl")
    finite = np.flatnonzero(np.isfinite(curves.elbo))
    if not len(finite):
        raise ConfigError(
            f"{folder}: no step of it has a bound, so that there is nothing to compare"
        )
    return TrainingBound(float(metrics.average_last_pass(curves)[finite[-1]]), config.listing.per)


def compare_by_training(folders: Sequence[Path]) -> Comparison:
    """Compares two or more runs of the same data by their bounds on the training data, if nothing
    can be held out."""
    configs = [read_run_config(folder) for folder in folders]
    check_same_data(folders)
    run_bounds = [
        training_bound(folder, config) for folder, config in zip(folders, configs, strict=True)
    ]
    if len({bound.per for bound in run_bounds}) > 1:
        raise ConfigError(
            f"their bounds are per {' and per '.join(sorted({b.per for b in run_bounds}))}: not "
            "comparable"
        )
    usable = [i for i, folder in enumerate(folders) if ending(folder) != UNUSABLE]
    if not usable:
        raise ConfigError(f"{folders[0]} and the others are not to be used: their verdicts say why")
    best = max(usable, key=lambda i: run_bounds[i].mean)
    keys = keys_that_differ(configs)
    runs = []
    for i, (folder, config, bound) in enumerate(zip(folders, configs, run_bounds, strict=True)):
        behind = None if i == best else Difference(run_bounds[best].mean - bound.mean, float("nan"))
        # A likelihood at a point is no bound on the evidence.
        remarks = [ending(folder), "point estimates" if config.algorithm.name in POINTS else ""]
        remark = ", ".join(filter(None, remarks))
        values = setting_values(config, keys)
        runs.append(ComparedRun(folder, values, bound, behind, None, remark))
    return Comparison(keys, tuple(runs), best, training=True)
