"""A comparison of runs as a table with conclusions, and as comparison.txt, .csv and .png."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vijax.app.answers.comparison import ComparedRun, Comparison
from vijax.app.drawing import blocks
from vijax.app.drawing.exports import csv_text
from vijax.evaluate.plots import BLUE, INK, SOFT, Figure, bare, new_figure, plain
from vijax.evaluate.units import read_unit
from vijax.files import own_folder, write_atomically, write_text

LEAST = 0.02
"""Smallest difference of NPMI or NMI that is worth a remark."""
MOST_NAMED = 24
"""Letters of a run's name below a figure."""


def write_comparison(folder: Path, comparison: Comparison) -> None:
    """Writes the three files."""
    runs_table = table(comparison)
    rows = [
        [float(f"{cell:.6g}") if isinstance(cell, float) else cell for cell in row]
        for row in runs_table.rows
    ]
    write_text(own_folder(folder) / "comparison.csv", csv_text(runs_table.header, rows))
    write_text(folder / "comparison.txt", comparison_text(comparison) + "\n")
    write_atomically(
        folder / "comparison.png", functools.partial(figure(comparison).savefig, format="png")
    )


def comparison_text(comparison: Comparison) -> str:
    """The table for the screen."""
    return blocks.text([table(comparison)], most=len(comparison.runs))


def figure(comparison: Comparison) -> Figure:
    """Scores, distances from the best, and coherence, each with its errors."""
    panels = 2 + any(run.coherence for run in comparison.runs)
    picture = new_figure(4.2 * panels, 3.6)
    axes = picture.subplots(1, panels)
    places = np.arange(len(comparison.runs))
    scores = [_score_and_error(run) for run in comparison.runs]
    behind = [run.behind or (np.nan, 0.0) for run in comparison.runs]
    if comparison.runs[comparison.best].behind is None:
        behind[comparison.best] = (0.0, 0.0)
    title = "held-out score, with one standard error"
    errors = ", with two standard errors"
    if comparison.training:
        title = "bound on the training data, NOT held out"
        errors = ""
    _bars(axes[0], places, scores, 1, title)
    distances = [(-mean, error) for mean, error in behind]
    _bars(axes[1], places, distances, 2, f"behind the best{errors}")
    unit = read_unit(str(comparison.runs[comparison.best].score))
    for ax in axes[:2]:
        ax.set_ylabel(unit, fontsize=9)
    axes[1].axhline(0, color=SOFT, linewidth=0.8)
    if panels == 3:
        coherence = [
            (np.nan, 0.0) if r.coherence is None else r.coherence[:2] for r in comparison.runs
        ]
        _bars(axes[2], places, coherence, 1, "NPMI of topics, with one standard error")
    has_distinct_values = len({run.values for run in comparison.runs}) == len(comparison.runs)
    if 0 < len(comparison.keys) <= 2 and has_distinct_values:
        names = [", ".join(map(str, run.values)) for run in comparison.runs]
        x_label = plain(", ".join(comparison.keys))
    else:
        names = [run.folder.name for run in comparison.runs]
        x_label = "run"
    labels = [plain(name, MOST_NAMED) for name in names]
    is_slanted = max(map(len, labels)) > 6
    style: dict[str, Any] = {"rotation": 30, "ha": "right"} if is_slanted else {"rotation": 0}
    for ax in axes:
        ax.set_xticks(places, labels, fontsize=8, **({"ha": "center"} | style))
        ax.set_xlabel(x_label, fontsize=9)
    return picture


def _mean(measure: Any) -> float | None:
    if measure is None:
        return None
    return float(measure.mean)


def _score_and_error(run: ComparedRun) -> tuple[float, float]:
    if run.score is None:
        return np.nan, 0.0
    return run.score.mean, run.score.standard_error


def _bars(ax: Any, places: np.ndarray, points: Any, errors: int, title: str) -> None:
    mean, error = np.array([[float(m), float(e)] for m, e in points]).T
    error = np.where(np.isfinite(error), error, 0.0)
    ax.errorbar(
        places,
        mean,
        errors * error,
        color=BLUE,
        marker="o",
        markersize=5,
        capsize=3,
        linewidth=0,
        elinewidth=1.4,
    )
    ax.set_title(title, fontsize=9, loc="left", color=INK)
    ax.margins(x=0.15)
    bare(ax, keep=("left", "bottom"))


def table(comparison: Comparison) -> blocks.Table:
    """A row for each run."""
    has_topics = any(run.coherence for run in comparison.runs)
    has_remarks = any(run.remark for run in comparison.runs)
    header = [
        "run",
        *(key.rpartition(".")[2] for key in comparison.keys),
        "score",
        "error",
        "behind",
        "its error",
    ]
    if comparison.training:
        header = [name for name in header if "error" not in name]
    if has_topics:
        header += ["NPMI", "C_V", "exclusivity"]
    if comparison.by:
        header.append(f"NMI with {comparison.by}")
    if has_remarks:
        header.append("remark")

    def row(run: ComparedRun) -> list[Any]:
        score: list[float | None] = [None, None]
        if run.score is not None:
            score = [float(run.score.mean), float(run.score.standard_error)]
        behind = [None, None] if run.behind is None else [float(x) for x in run.behind]
        if comparison.training:  # no errors are known
            score, behind = score[:1], behind[:1]
        values = [v if isinstance(v, int | float | str) else str(v) for v in run.values]
        cells: list[Any] = [run.folder.name, *values, *score, *behind]
        if has_topics:
            cells += [_mean(measure) for measure in (run.coherence, run.c_v, run.exclusivity)]
        if comparison.by:
            cells.append(None if run.agreement is None else run.agreement.mean)
        if has_remarks:
            cells.append(run.remark)
        return cells

    title = "Runs on the same held-out data"
    if comparison.training:
        title = "Runs on the data they were fitted to (NOT held out)"
    return blocks.Table(title, header, [row(run) for run in comparison.runs], note(comparison))


def _plain(comparison: Comparison) -> str:
    """A remark on the score of the plain alternative."""
    if comparison.plain is None:
        return ""
    name, mean, better = comparison.plain
    if not np.isfinite(better.standard_error) or better.mean > 2 * better.standard_error:
        return f"Beside them, {name}: {mean:.3f}. "
    return (
        f"No run is better than {name}, which would have {mean:.3f}: what they find may be chance. "
    )


def _edge(comparison: Comparison) -> str:
    """A remark if the best value of a numeric setting is the smallest or largest that was tried."""
    values = [run.values[0] for run in comparison.runs if len(run.values) == 1]
    are_numbers = all(type(value) in (int, float) for value in values)
    if len(values) < max(3, len(comparison.runs)) or not are_numbers:
        return ""
    best = values[comparison.best]
    if best not in (min(values), max(values)):
        return ""
    which, further = ("largest", "larger") if best == max(values) else ("smallest", "smaller")
    name = comparison.keys[0]
    return f"It has the {which} {name} that was tried, {best:g}: try {further} ones too. "


def _disagreement(
    comparison: Comparison,
    measure_of: Callable[[ComparedRun], Any],
    claim: str,
    measure: str,
    advice: str,
) -> str:
    """A remark if another run than the best has a clearly higher measure of its groups."""
    measured = [run for run in comparison.runs if measure_of(run)]
    best = comparison.runs[comparison.best]
    highest = max(measured, key=lambda run: measure_of(run).mean, default=None)
    if highest is None or not measure_of(best):
        return ""
    gain = measure_of(highest).mean - measure_of(best).mean
    error = np.hypot(measure_of(highest).standard_error, measure_of(best).standard_error)
    if not gain > max(2 * error, LEAST):
        return ""
    values = f"{measure_of(highest).mean:.3f} for {measure_of(best).mean:.3f}"
    groups = "topics" if highest.coherence else "groups"
    return (
        f"The scores disagree: {best.folder.name} predicts best, and the {groups} of "
        f"{highest.folder.name} {claim} ({measure} {values}). {advice}"
    )


TOPIC_MEASURES = (
    "NPMI and C_V are high where the leading words of topics stand in the same documents, "
    "exclusivity (mean FREX) where other topics lack them; more topics tend to lower the first and "
    "raise the last. "
)


def note(comparison: Comparison) -> str:
    """The meaning of the columns, and the conclusions."""
    best = comparison.runs[comparison.best]
    if comparison.training:
        return (
            f"The best is {best.folder.name}, {best.score}; higher is better. Nothing was held "
            "out: this is the bound on the log evidence of the training data, the mean of the last "
            "pass. It counts what a model could explain but need not, so that more parts do not "
            "always win; for point estimates (em, map) they do. No standard errors are known."
        )
    as_good = [comparison.runs[i].folder.name for i in comparison.as_good if i != comparison.best]
    text = (
        f"The best is {best.folder.name}, {best.score}; higher is better. "
        f"{_plain(comparison)}{_edge(comparison)}"
    )
    coherent = (
        "have the more coherent words",
        "NPMI",
        "Take the first to predict, the second to read. ",
    )
    advice = "More groups may predict better and split what a label holds together. "
    agreeing = f"are nearer to {comparison.by}", "NMI", advice
    text += _disagreement(comparison, lambda run: run.coherence, *coherent)
    text += _disagreement(comparison, lambda run: run.agreement, *agreeing)
    text += (
        "behind: how much worse a run is, with the standard error of this difference, which is "
        "paired by unit. "
    )
    if any(run.exclusivity for run in comparison.runs):
        text += TOPIC_MEASURES
    if as_good:
        return text + f"Not clearly worse (by no more than two such errors): {', '.join(as_good)}."
    return text + "All others are clearly worse (by more than two such errors)."
