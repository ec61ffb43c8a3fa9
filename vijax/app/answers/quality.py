"""Remarks on how good a fit is: its score beside a plain alternative, its course, its topics."""

from __future__ import annotations

from typing import Any

import numpy as np

from vijax.app.answers.measures import held_out_measures
from vijax.app.answers.plain import NoPlain, plain_alternative
from vijax.app.drawing import blocks
from vijax.app.folder.loaded import Run
from vijax.app.folder.restored import reread_plan
from vijax.app.folder.run_folder import Say
from vijax.app.settings.typed_toml import ConfigError
from vijax.app.sources.listing import FittedRun
from vijax.evaluate import Difference, paired_difference
from vijax.evaluate.metrics import Curves
from vijax.evaluate.units import read_unit
from vijax.numerals import format_number

NO_CURVES = Curves(*[np.zeros(0)] * 5)
NOT_COMPARED = "There is no plain alternative with which the held-out score could be compared"
SAME = 0.2
"""Jensen-Shannon distance below which two topics count as the same."""


def quality(
    run: FittedRun, score: Any, curves: Curves, shown: list[Any]
) -> tuple[list[blocks.Block], list[str]]:
    """A block for the page, and warnings to print: a fit no better than the plain alternative, a
    score that fell, topics that repeat."""
    warnings = [*_score_fell(curves), *_repeated_topics(shown)]
    plain = None
    if score is not None and np.isfinite(score.mean):
        plain = plain_alternative(run, score)
    if plain is None or isinstance(plain, NoPlain):
        return _remarks(plain, warnings), warnings
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
    rows: list[list[Any]] = [
        [_name_of_model(run), score.mean],
        [plain.name, plain.score.mean],
        ["difference", better.mean],
    ]
    return [blocks.Table(blocks.TITLE_OF_QUALITY, ["held-out score", unit], rows, note)], warnings


def _name_of_model(run: Any) -> str:
    """The name of what was scored: one fit, or several whose predictions are averaged."""
    if run.fit.runs is None:
        return "this model"
    return f"this model ({len(run.fit.members)} fits, averaged)"


def _remarks(plain: NoPlain | None, warnings: list[str]) -> list[blocks.Block]:
    """A table of warnings, and of why there is no plain alternative; none for no sentence."""
    rows: list[list[Any]] = [[warning] for warning in warnings]
    if plain is not None:
        rows = [[f"{NOT_COMPARED}: {plain.reason}."], *rows]
    if not rows:
        return []
    return [blocks.Table(blocks.TITLE_OF_QUALITY, ["remark"], rows)]


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
