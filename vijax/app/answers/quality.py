"""Remarks on how good a fit is: its held-out score beside that of a plain alternative, its course,
its topics."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

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
from vijax.evaluate.units import is_of_rankings, unit_of
from vijax.numerals import format_number

NO_CURVES = Curves(*[np.zeros(0)] * 5)
SAME = 0.2
"""Jensen-Shannon distance below which two topics are called the same."""
TITLE = "Is it any good?"


class Plain(NamedTuple):
    """A plain alternative to a model: its name, and its score of the same held-out data."""

    name: str
    score: Any


def plain_of(run: FittedRun, score: Any) -> Plain | None:
    """The plain alternative to the model of a fit; None where there is none for its data."""
    train, test = run.data.train, run.data.test
    if is_of_rankings(unit_of(str(score))):
        return None  # its own table compares it with popularity
    if isinstance(train, Corpus):
        return _of_words(train, test, score)
    if not isinstance(score, RowScore):
        return None
    if isinstance(train, Graph):
        rows, columns = np.nonzero(test.pairs)
        y = test.x[rows, columns]
        name = "the share of linked pairs" if y.max() <= 1 else "the mean count of all pairs"
        return _summed(name, test, _log_density(train.x[train.pairs], y), np.ones(len(y)), score)
    if train.y is not None:
        name = "the share of each class" if train.classes else "the mean of the target"
        known, y = (train.y > 0, test.y > 0) if train.classes else (train.y, test.y)
        return _summed(
            name, test, _log_density(known.astype(float), y.astype(float)), np.ones(len(y)), score
        )
    logs = np.stack(
        [
            _log_density(known, x)
            for known, x in zip(_in_units(train).T, _in_units(test).T, strict=True)
        ],
        1,
    )
    known = np.isfinite(test.x)
    if score.per != "entry":
        name = "one component of independent columns"
        name = "independent columns without the order of steps" if score.per == "step" else name
        return _summed(name, test, np.nansum(logs, axis=1), np.ones(len(logs)), score)
    if len(score.parts[0]) == score.number:
        return Plain("the mean of each column", RowScore.of(logs[known], "entry"))
    return _summed(
        "the mean of each column", test, np.where(known, logs, 0.0).sum(1), known.sum(1), score
    )


def _summed(
    name: str, table: Any, logs: np.ndarray, sizes: np.ndarray, score: RowScore
) -> Plain | None:
    """An alternative from the log density of each row, added up within groups where a score is of
    whole groups; None where the score is of other units."""
    if len(score.parts[0]) != len(logs):
        logs, sizes = sequence_sums(table, logs), sequence_sums(table, sizes)
    same = np.array_equal(sizes, score.parts[1])
    return Plain(name, RowScore.of(logs, score.per, sizes=sizes)) if same else None


def _of_words(train: Corpus, test: Corpus, score: Any) -> Plain | None:
    name = "the frequencies of words alone (unigram)"
    found = unigram_score(train, test)
    if isinstance(score, Score):
        # Of halves that were drawn at random, each is expected to have the mean of its document.
        per_word = np.zeros(test.num_documents)
        per_word[found.rows] = found.log_probs / found.num_tokens
        return Plain(name, Score.of(per_word[score.rows] * score.num_tokens, score.num_tokens))
    return Plain(name, found) if np.array_equal(found.parts[1], score.parts[1]) else None


def _in_units(table: Any) -> np.ndarray:
    return np.asarray(table_units(table).points(table.x), float)


def _log_density(known: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log density of x under the Bernoulli, Poisson or normal law that known numbers have; NaN
    where x is missing."""
    from scipy import stats  # slow to import

    known = known[np.isfinite(known)]
    mean = known.mean()
    if np.isin(known, (0.0, 1.0)).all():
        chance = (known.sum() + 0.5) / (len(known) + 1)
        return np.where(x > 0, np.log(chance), np.log1p(-chance)) + 0 * x
    deviation = max(known.std(), 1e-12)
    counts = (known >= 0).all() and (known == np.floor(known)).all()
    if counts and deviation < max(
        3.0, 2 * np.sqrt(mean)
    ):  # others are far wider than a Poisson law
        return stats.poisson.logpmf(x, mean)
    return stats.norm.logpdf(x, mean, deviation)


# --- remarks --------------------------------------------------------------------------------------
def quality(
    run: FittedRun, score: Any, curves: Curves, shown: list[Any]
) -> tuple[list[blocks.Block], list[str]]:
    """A block for the page, and warnings to say: a fit no better than the plain alternative, a
    score that fell, topics that repeat."""
    warnings = [*_fell(curves), *_repeated(shown)]
    plain = None if score is None or not np.isfinite(score.mean) else plain_of(run, score)
    if plain is None:
        return (
            [blocks.Table(TITLE, ["remark"], [[warning] for warning in warnings])]
            if warnings
            else []
        ), warnings
    unit = unit_of(str(score))
    better = paired_difference(score, plain.score)
    error = f" ± {better.standard_error:.3f}" if np.isfinite(better.standard_error) else ""
    said = f"{format_number(abs(better.mean), least=3)}{error} {unit}"
    if not error:
        warnings = [
            f"The error of the difference from {plain.name}, {said}, is not known: one group is "
            "held out.",
            *warnings,
        ]
    elif not better.mean > 2 * better.standard_error:
        by = _compared(plain.name, better, said)
        warnings = [
            f"The model predicts held-out data {by}. What it finds may be chance: try a smaller "
            "model, more passes or more data, or take it that the data have no such structure.",
            *warnings,
        ]
    times = (
        f": each {unit.rpartition(' ')[2]} is {np.exp(better.mean):.3g} times as probable"
        if better.mean < 7
        else ""
    )
    note = " ".join(warnings) or f"The model is better than {plain.name} by {said}{times}."
    note += " A nat is a unit of log probability, a factor of 2.72."
    rows = [["this model", score.mean], [plain.name, plain.score.mean], ["difference", better.mean]]
    return [blocks.Table(TITLE, ["held-out score", unit], rows, note)], warnings


def _compared(name: str, better: Difference, said: str) -> str:
    """Better or worse than the plain alternative, the difference with its sign, and whether it is
    more than its errors."""
    if better.mean == 0:
        return f"no better than {name}: the scores are the same"
    errors = "less" if abs(better.mean) <= 2 * better.standard_error else "more"
    close = f"{errors} than two standard errors"
    if better.mean > 0:
        return f"better than {name} by {said}, {close}"
    return f"worse than {name}: the difference is -{said}, {close}"


def _fell(curves: Curves) -> list[str]:
    scores = curves.held_out_score
    if len(scores) < 2 or not np.isfinite(scores).all():
        return []
    best, error = int(np.argmax(scores)), float(curves.held_out_error[-1])
    if not scores[best] - scores[-1] > error:
        return []
    return [
        f"The held-out score fell during the run, from {scores[best]:.3f} after "
        f"{curves.held_out_epoch[best]:.3g} passes to {scores[-1]:.3f}: the fit learns what is of "
        "the training data alone. Try fewer passes (fit.num_epochs), a smaller model, or more data."
    ]


def _repeated(shown: list[Any]) -> list[str]:
    """Topics that are the same, of those that have words."""
    said = []
    for block in shown:
        if isinstance(block, blocks.Topics):
            used = [topic.number for topic in block.topics if topic.words]
            distances = np.asarray(block.distances)[np.ix_(used, used)] + np.eye(len(used))
            same = int((distances.min(axis=1, initial=1.0) < SAME).sum())
            if same:
                said.append(
                    f"{same} of {len(used)} topics are nearly the same as another one. Try fewer: "
                    "model.num_topics."
                )
    return said


def evaluated(run: Run, source: str, column: str | None, seed: int, say: Say) -> str:
    """The score of a run on other data, and beside it that of the plain alternative, which the
    training data say."""
    fitted_run, score = run.scored(source, column, seed, lambda note: say(f"Note: {note}"))
    try:
        is_whole = run.config.listing.needs_rows
        data = (
            fitted_run.data if is_whole else reread_plan(run.folder, run.config, run.training).data
        )
    except ConfigError as error:
        say(f"Note: the score of a plain alternative is left out: {error}")
        return str(score)
    shown, _ = quality(
        fitted_run._replace(data=fitted_run.data._replace(train=data.train)), score, NO_CURVES, []
    )
    return f"{score}\n\n{blocks.text(shown)}".rstrip()
