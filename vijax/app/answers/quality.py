"""Remarks on how good a fit is: its score beside a plain alternative, its course, its topics."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from vijax.app.answers.measures import held_out_measures, row_weights
from vijax.app.drawing import blocks
from vijax.app.folder.loaded import Run
from vijax.app.folder.restored import reread_plan
from vijax.app.folder.run_folder import Say
from vijax.app.rows.by_row import RowScore
from vijax.app.settings.typed_toml import ConfigError
from vijax.app.settings.units import table_units
from vijax.app.sources.listing import FittedRun
from vijax.app.sources.tables import sequence_sums
from vijax.data.corpora.corpus import Corpus
from vijax.data.tables.graph import Graph
from vijax.evaluate import Difference, Score, paired_difference, unigram_score
from vijax.evaluate.metrics import Curves
from vijax.evaluate.units import is_ranking, read_unit
from vijax.numerals import format_number

NO_CURVES = Curves(*[np.zeros(0)] * 5)
SAME = 0.2
"""Jensen-Shannon distance below which two topics count as the same."""


class Plain(NamedTuple):
    """A plain alternative to a model: its name, and its score on the same held-out data."""

    name: str
    score: Any


def plain_alternative(run: FittedRun, score: Any) -> Plain | None:
    """The plain alternative to the model of a fit; None if there is none for its data."""
    train, test = run.data.train, run.data.test
    if is_ranking(read_unit(str(score))):
        return None  # its own table compares it with popularity
    if isinstance(train, Corpus):
        return _unigram(train, test, score)
    if not isinstance(score, RowScore):
        return None
    if isinstance(train, Graph):
        rows, columns = np.nonzero(test.pairs)
        y = test.x[rows, columns]
        name = "the share of linked pairs" if y.max() <= 1 else "the mean count of all pairs"
        return _from_rows(name, test, _log_density(train.x[train.pairs], y), np.ones(len(y)), score)
    if train.y is not None:
        return _target_alternative(train, test, score)
    return _column_alternative(train, test, score)


def _target_alternative(train: Any, test: Any, score: RowScore) -> Plain | None:
    """For regressions: the law of the target without columns."""
    if train.classes:
        name = "the share of each class"
        training, held_out = train.y > 0, test.y > 0
    else:
        name = "the mean of the target"
        training, held_out = train.y, test.y
    weights, sizes = row_weights(train), row_weights(test)
    logs = _log_density(training.astype(float), held_out.astype(float), weights)
    counts = sizes > 0
    sizes = sizes[counts]
    return _from_rows(name, test, sizes * logs[counts], sizes, score)


def _column_alternative(train: Any, test: Any, score: RowScore) -> Plain | None:
    """For tables without a target: the law of each column for itself."""
    columns = zip(_to_units(train).T, _to_units(test).T, strict=True)
    logs = np.stack([_log_density(training, x) for training, x in columns], 1)
    is_known = np.isfinite(test.x)
    if score.per != "entry":
        name = "one component of independent columns"
        if score.per == "step":
            name = "independent columns without the order of steps"
        return _from_rows(name, test, np.nansum(logs, axis=1), np.ones(len(logs)), score)
    if len(score.parts[0]) == score.number:
        return Plain("the mean of each column", RowScore.of(logs[is_known], "entry"))
    logs = np.where(is_known, logs, 0.0).sum(1)
    return _from_rows("the mean of each column", test, logs, is_known.sum(1), score)


def _from_rows(
    name: str, table: Any, logs: np.ndarray, sizes: np.ndarray, score: RowScore
) -> Plain | None:
    """An alternative from the log density of each row, added up within groups if the score is of
    whole groups; None if the score has other units."""
    if len(score.parts[0]) != len(logs):
        logs, sizes = sequence_sums(table, logs), sequence_sums(table, sizes)
    has_same_units = np.array_equal(sizes, score.parts[1])
    if not has_same_units:
        return None
    return Plain(name, RowScore.of(logs, score.per, sizes=sizes))


def _unigram(train: Corpus, test: Corpus, score: Any) -> Plain | None:
    name = "the frequencies of words alone (unigram)"
    unigram = unigram_score(train, test)
    if isinstance(score, Score):
        # A random half of a document is expected to have the mean of the document.
        per_word = np.zeros(test.num_documents)
        per_word[unigram.rows] = unigram.log_probs / unigram.num_tokens
        return Plain(name, Score.of(per_word[score.rows] * score.num_tokens, score.num_tokens))
    if not np.array_equal(unigram.parts[1], score.parts[1]):
        return None
    return Plain(name, unigram)


def _to_units(table: Any) -> np.ndarray:
    return np.asarray(table_units(table).points(table.x), float)


def _log_density(
    training: np.ndarray, x: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Log density of x under the law of weighted training values; NaN if x is missing."""
    from scipy import stats  # slow to import

    weights = np.ones(training.shape) if weights is None else weights
    counts_one = np.isfinite(training) & (weights > 0)
    training, weights = training[counts_one], weights[counts_one]
    mean = np.average(training, weights=weights)
    if np.isin(training, (0.0, 1.0)).all():
        chance = (weights @ training + 0.5) / (weights.sum() + 1)
        return np.where(x > 0, np.log(chance), np.log1p(-chance)) + 0 * x
    deviation = max(np.sqrt(np.average((training - mean) ** 2, weights=weights)), 1e-12)
    counts = (training >= 0).all() and (training == np.floor(training)).all()
    if counts and deviation < max(3.0, 2 * np.sqrt(mean)):  # wider counts are no Poisson law
        return stats.poisson.logpmf(x, mean)
    return stats.norm.logpdf(x, mean, deviation)


# --- remarks --------------------------------------------------------------------------------------
def quality(
    run: FittedRun, score: Any, curves: Curves, shown: list[Any]
) -> tuple[list[blocks.Block], list[str]]:
    """A block for the page, and warnings to print: a fit no better than the plain alternative, a
    score that fell, topics that repeat."""
    warnings = [*_score_fell(curves), *_repeated_topics(shown)]
    plain = None
    if score is not None and np.isfinite(score.mean):
        plain = plain_alternative(run, score)
    if plain is None and not warnings:
        return [], []
    if plain is None:
        rows: list[list[Any]] = [[warning] for warning in warnings]
        return [blocks.Table(blocks.TITLE_OF_QUALITY, ["remark"], rows)], warnings
    unit = read_unit(str(score))
    better = paired_difference(score, plain.score)
    error = f" ± {better.standard_error:.3f}" if np.isfinite(better.standard_error) else ""
    difference = f"{format_number(abs(better.mean), least=3)}{error} {unit}"
    if not error:
        warnings = [
            f"The error of the difference from {plain.name}, {difference}, is not known: one group "
            "is held out.",
            *warnings,
        ]
    elif not better.mean > 2 * better.standard_error:
        by = _difference_text(plain.name, better, difference)
        warnings = [
            f"The model predicts held-out data {by}. What it finds may be chance: try a smaller "
            "model, more passes or more data, or take it that the data have no such structure.",
            *warnings,
        ]
    times = ""
    if better.mean < 7:
        times = f": each {unit.rpartition(' ')[2]} is {np.exp(better.mean):.3g} times as probable"
    note = " ".join(warnings) or f"The model is better than {plain.name} by {difference}{times}."
    note += " A nat is a unit of log probability, a factor of 2.72."
    rows = [["this model", score.mean], [plain.name, plain.score.mean], ["difference", better.mean]]
    return [blocks.Table(blocks.TITLE_OF_QUALITY, ["held-out score", unit], rows, note)], warnings


def _difference_text(name: str, better: Difference, difference: str) -> str:
    """The difference from the plain alternative, with its sign and its size beside its errors."""
    if better.mean == 0:
        return f"no better than {name}: the scores are the same"
    errors = "less" if abs(better.mean) <= 2 * better.standard_error else "more"
    close = f"{errors} than two standard errors"
    if better.mean > 0:
        return f"better than {name} by {difference}, {close}"
    return f"worse than {name}: the difference is -{difference}, {close}"


def _score_fell(curves: Curves) -> list[str]:
    scores = curves.held_out_score
    if len(scores) < 2 or not np.isfinite(scores).all():
        return []
    best = int(np.argmax(scores))
    error = float(curves.held_out_error[-1])
    if not scores[best] - scores[-1] > error:
        return []
    return [
        f"The held-out score fell during the run, from {scores[best]:.3f} after "
        f"{curves.held_out_epoch[best]:.3g} passes to {scores[-1]:.3f}: the fit learns what is of "
        "the training data alone. Try fewer passes (fit.num_epochs), a smaller model, or more data."
    ]


def _repeated_topics(shown: list[Any]) -> list[str]:
    """Warnings of topics that are nearly the same; topics without words do not count."""
    warnings = []
    for block in shown:
        if isinstance(block, blocks.Topics):
            used = [topic.number for topic in block.topics if topic.words]
            distances = np.asarray(block.distances)[np.ix_(used, used)] + np.eye(len(used))
            num_repeated = int((distances.min(axis=1, initial=1.0) < SAME).sum())
            if num_repeated:
                warnings.append(
                    f"{num_repeated} of {len(used)} topics are nearly the same as another one. Try "
                    "fewer: model.num_topics."
                )
    return warnings


def evaluate_run(run: Run, source: str, column: str | None, seed: int, say: Say) -> str:
    """The score of a run on other data, and the score of the plain alternative there."""
    fitted_run, score = run.score_with_data(source, column, seed, lambda note: say(f"Note: {note}"))
    try:
        data = fitted_run.data
        if not run.config.listing.needs_rows:
            data = reread_plan(run.folder, run.config, run.training).data
    except ConfigError as error:
        say(f"Note: the score of a plain alternative is left out: {error}")
        return str(score)
    with_training = fitted_run.data._replace(train=data.train)
    fitted_run = fitted_run._replace(data=with_training)
    page, _ = quality(fitted_run, score, NO_CURVES, [])
    page = [*held_out_measures(run.config.listing, fitted_run), *page]
    return f"{score}\n\n{blocks.text(page)}".rstrip()
