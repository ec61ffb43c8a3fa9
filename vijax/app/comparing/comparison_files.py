"""A comparison of runs as files: comparison.txt, comparison.csv, comparison.png."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np

from vijax.app.comparing.comparison import Comparison
from vijax.app.comparing.comparison_table import table
from vijax.app.page import blocks
from vijax.app.page.exports import csv_text
from vijax.evaluate.plots import BLUE, INK, SOFT, Figure, bare, new_figure, plain
from vijax.files import own_folder, write_atomically, write_text

MOST_NAMED = 24
"""Letters of a run's name below a figure."""


def write_comparison(folder: Path, found: Comparison) -> None:
    """Writes the three files.

    Raises:
      OSError: the folder cannot be written to.
    """
    shown = table(found)
    rows = [[_six(cell) for cell in row] for row in shown.rows]
    write_text(own_folder(folder) / "comparison.csv", csv_text(shown.header, rows))
    write_text(folder / "comparison.txt", comparison_text(found) + "\n")
    write_atomically(folder / "comparison.png", functools.partial(figure(found).savefig, format="png"))


def comparison_text(found: Comparison) -> str:
    """The table for the screen."""
    return blocks.text([table(found)], most=len(found.runs))


def _six(cell: Any) -> Any:
    return float(f"{cell:.6g}") if isinstance(cell, float) else cell


def figure(found: Comparison) -> Figure:
    """Scores with their errors, the distance from the best with two errors of the difference, and coherence."""
    panels = 2 + any(run.coherence for run in found.runs)
    drawn = new_figure(4.2 * panels, 3.6)
    axes = drawn.subplots(1, panels)
    places = np.arange(len(found.runs))
    scores = [(np.nan, 0.0) if r.score is None else (r.score.mean, r.score.standard_error) for r in found.runs]
    behind = [
        (0.0 if i == found.best else np.nan, 0.0) if r.behind is None else r.behind for i, r in enumerate(found.runs)
    ]
    title = "bound on the training data, NOT held out" if found.training else "held-out score, with one standard error"
    _bars(axes[0], places, scores, 1, title)
    errors = "" if found.training else ", with two standard errors"
    _bars(axes[1], places, [(-mean, error) for mean, error in behind], 2, f"behind the best{errors}")
    for ax in axes[:2]:
        ax.set_ylabel(_unit(found), fontsize=9)
    axes[1].axhline(0, color=SOFT, linewidth=0.8)
    if panels == 3:
        coherence = [(np.nan, 0.0) if r.coherence is None else r.coherence[:2] for r in found.runs]
        _bars(axes[2], places, coherence, 1, "NPMI of topics, with one standard error")
    labels = [_label(found, i) for i in range(len(found.runs))]
    for ax in axes:
        slanted = max(map(len, labels)) > 6
        ax.set_xticks(places, labels, rotation=30 if slanted else 0, ha="right" if slanted else "center", fontsize=8)
        ax.set_xlabel(plain(", ".join(found.keys)) if _by_values(found) else "run", fontsize=9)
    return drawn


def _unit(found: Comparison) -> str:
    """The unit of scores, as the best score gives it."""
    return "nats" + str(found.runs[found.best].score).partition(" nats")[2].partition(" (")[0]


def _bars(ax: Any, places: np.ndarray, points: Any, errors: int, title: str) -> None:
    mean, error = np.array([[float(m), float(e)] for m, e in points]).T
    error = np.where(np.isfinite(error), error, 0.0)
    ax.errorbar(
        places, mean, errors * error, color=BLUE, marker="o", markersize=5, capsize=3, linewidth=0, elinewidth=1.4
    )
    ax.set_title(title, fontsize=9, loc="left", color=INK)
    ax.margins(x=0.15)
    bare(ax, keep=("left", "bottom"))


def _by_values(found: Comparison) -> bool:
    """True where the settings that differ distinguish all runs."""
    return 0 < len(found.keys) <= 2 and len({run.values for run in found.runs}) == len(found.runs)


def _label(found: Comparison, i: int) -> str:
    run = found.runs[i]
    return plain(", ".join(map(str, run.values)) if _by_values(found) else run.folder.name, MOST_NAMED)
