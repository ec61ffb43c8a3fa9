"""A comparison of runs as a table with conclusions, and as files: comparison.txt, comparison.csv,
comparison.png."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vijax.app.answers.comparison import Compared, Comparison
from vijax.app.drawing import blocks
from vijax.app.drawing.exports import csv_text
from vijax.evaluate.plots import BLUE, INK, SOFT, Figure, bare, new_figure, plain
from vijax.evaluate.units import unit_of
from vijax.files import own_folder, write_atomically, write_text

LEAST = 0.02
"""Least difference of NPMI or NMI that is worth a remark."""
MOST_NAMED = 24
"""Letters of a run's name below a figure."""


def write_comparison(folder: Path, found: Comparison) -> None:
    """Writes the three files."""
    shown = table(found)
    rows = [
        [float(f"{cell:.6g}") if isinstance(cell, float) else cell for cell in row]
        for row in shown.rows
    ]
    write_text(own_folder(folder) / "comparison.csv", csv_text(shown.header, rows))
    write_text(folder / "comparison.txt", comparison_text(found) + "\n")
    write_atomically(
        folder / "comparison.png", functools.partial(figure(found).savefig, format="png")
    )


def comparison_text(found: Comparison) -> str:
    """The table for the screen."""
    return blocks.text([table(found)], most=len(found.runs))


def figure(found: Comparison) -> Figure:
    """Scores with their errors, the distance from the best with two errors of the difference, and
    coherence."""
    panels = 2 + any(run.coherence for run in found.runs)
    drawn = new_figure(4.2 * panels, 3.6)
    axes = drawn.subplots(1, panels)
    places = np.arange(len(found.runs))
    scores = [
        (np.nan, 0.0) if r.score is None else (r.score.mean, r.score.standard_error)
        for r in found.runs
    ]
    behind = [
        (0.0 if i == found.best else np.nan, 0.0) if r.behind is None else r.behind
        for i, r in enumerate(found.runs)
    ]
    title = (
        "bound on the training data, NOT held out"
        if found.training
        else "held-out score, with one standard error"
    )
    _bars(axes[0], places, scores, 1, title)
    errors = "" if found.training else ", with two standard errors"
    _bars(
        axes[1], places, [(-mean, error) for mean, error in behind], 2, f"behind the best{errors}"
    )
    unit = unit_of(str(found.runs[found.best].score))
    for ax in axes[:2]:
        ax.set_ylabel(unit, fontsize=9)
    axes[1].axhline(0, color=SOFT, linewidth=0.8)
    if panels == 3:
        coherence = [(np.nan, 0.0) if r.coherence is None else r.coherence[:2] for r in found.runs]
        _bars(axes[2], places, coherence, 1, "NPMI of topics, with one standard error")
    by_values = 0 < len(found.keys) <= 2 and len({run.values for run in found.runs}) == len(
        found.runs
    )
    named = [
        ", ".join(map(str, run.values)) if by_values else run.folder.name for run in found.runs
    ]
    labels = [plain(name, MOST_NAMED) for name in named]
    for ax in axes:
        slanted = max(map(len, labels)) > 6
        ax.set_xticks(
            places,
            labels,
            rotation=30 if slanted else 0,
            ha="right" if slanted else "center",
            fontsize=8,
        )
        ax.set_xlabel(plain(", ".join(found.keys)) if by_values else "run", fontsize=9)
    return drawn


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


def table(found: Comparison) -> blocks.Table:
    """A row for each run."""
    has_topics = any(run.coherence for run in found.runs)
    has_remarks = any(run.remark for run in found.runs)
    header = [
        "run",
        *(key.rpartition(".")[2] for key in found.keys),
        "score",
        "error",
        "behind",
        "its error",
    ]
    if found.training:
        header = [name for name in header if "error" not in name]
    header += (
        ["NPMI"] * has_topics + [f"NMI with {found.by}"] * bool(found.by) + ["remark"] * has_remarks
    )

    def row(run: Compared) -> list[Any]:
        score = (
            [None, None]
            if run.score is None
            else [float(run.score.mean), float(run.score.standard_error)]
        )
        behind = [None, None] if run.behind is None else [float(x) for x in run.behind]
        topics = [None if run.coherence is None else float(run.coherence.mean)] * has_topics
        topics += [None if run.agreement is None else run.agreement.mean] * bool(found.by)
        values = [v if isinstance(v, int | float | str) else str(v) for v in run.values]
        if found.training:
            score, behind = score[:1], behind[:1]
        return [run.folder.name, *values, *score, *behind, *topics, *[run.remark] * has_remarks]

    title = (
        "Runs on the data they were fitted to (NOT held out)"
        if found.training
        else "Runs on the same held-out data"
    )
    return blocks.Table(title, header, [row(run) for run in found.runs], note(found))


def _plain(found: Comparison) -> str:
    """A remark on the score of the plain alternative."""
    if found.plain is None:
        return ""
    name, mean, better = found.plain
    if not np.isfinite(better.standard_error) or better.mean > 2 * better.standard_error:
        return f"Beside them, {name}: {mean:.3f}. "
    return (
        f"No run is better than {name}, which would have {mean:.3f}: what they find may be chance. "
    )


def _edge(found: Comparison) -> str:
    """A remark where the best of numbers that a setting had is the least or the largest of them."""
    values = [run.values[0] for run in found.runs if len(run.values) == 1]
    if len(values) < max(3, len(found.runs)) or not all(
        type(value) in (int, float) for value in values
    ):
        return ""
    best = values[found.best]
    if best not in (min(values), max(values)):
        return ""
    which, further = ("largest", "larger") if best == max(values) else ("smallest", "smaller")
    return f"It has the {which} {found.keys[0]} that was tried, {best:g}: try {further} ones too. "


def _other(
    found: Comparison, of: Callable[[Compared], Any], what: str, measure: str, advice: str
) -> str:
    known = [run for run in found.runs if of(run)]
    best, most = found.runs[found.best], max(known, key=lambda run: of(run).mean, default=None)
    if most is None or not of(best):
        return ""
    gain, error = (
        of(most).mean - of(best).mean,
        np.hypot(of(most).standard_error, of(best).standard_error),
    )
    if not gain > max(2 * error, LEAST):
        return ""
    said = f"{of(most).mean:.3f} for {of(best).mean:.3f}"
    groups = "topics" if most.coherence else "groups"
    return (
        f"The scores disagree: {best.folder.name} predicts best, and the {groups} of "
        f"{most.folder.name} {what} ({measure} {said}). {advice}"
    )


def note(found: Comparison) -> str:
    """The meaning of the columns, and the conclusions."""
    best = found.runs[found.best]
    if found.training:
        return (
            f"The best is {best.folder.name}, {best.score}; higher is better. Nothing was held "
            "out: this is the bound on the log evidence of the training data, the mean of the last "
            "pass. It counts what a model could explain but need not, so that more parts do not "
            "always win; for point estimates (em, map) they do. No standard errors are known."
        )
    close = [found.runs[i].folder.name for i in found.as_good if i != found.best]
    said = (
        f"The best is {best.folder.name}, {best.score}; higher is better. "
        f"{_plain(found)}{_edge(found)}"
    )
    coherent = (
        "have the more coherent words",
        "NPMI",
        "Take the first to predict, the second to read. ",
    )
    advice = "More groups may predict better and split what a label holds together. "
    near = f"are nearer to {found.by}", "NMI", advice
    said += _other(found, lambda run: run.coherence, *coherent) + _other(
        found, lambda run: run.agreement, *near
    )
    said += "behind: how much worse a run is, with the standard error of this difference, which is paired by unit. "
    if close:
        return said + f"Not clearly worse (by no more than two such errors): {', '.join(close)}."
    return said + "All others are clearly worse (by more than two such errors)."
