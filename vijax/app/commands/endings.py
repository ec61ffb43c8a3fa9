"""The last screen of a command that fits, and its exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

UNUSABLE = 4
"""Exit code of a run whose verdict is "Do not use this fit", and of a sweep with such a run."""


def end(outcome: Any) -> int:
    """Prints the last screen: results, score, the path of the page, and how to resume."""
    from vijax.app.report.pages import summary_path
    from vijax.fitting.status import Status

    is_finished = outcome.status in (Status.FINISHED, Status.CONVERGED)
    print(summary_path(outcome.folder).read_text(encoding="utf-8"))
    if outcome.score is not None:
        print(f"Held-out score ({_name_of_measure(outcome.score)}): {outcome.score}")
    print(f"Report: {(outcome.folder / 'report.html').resolve()}")
    if outcome.skipped:
        print(
            f"Warning: {outcome.skipped}. Look for extreme values in the data, or try "
            "data.standardise=true."
        )
    if not outcome.usable and (is_finished or outcome.status is Status.UNBOUNDED):
        print("Do not use this fit: the verdict above says why.")
        return UNUSABLE
    if is_finished:
        return 0
    return _end_early(outcome)


def _name_of_measure(score: Any) -> str:
    from vijax.evaluate import Ranking, Score

    if isinstance(score, Score):
        return "document completion"
    if isinstance(score, Ranking):
        return "ranking"
    return "log predictive density"


def _end_early(outcome: Any) -> int:
    """Says why a run is not finished, and how it goes on."""
    from vijax.app.settings.quoting import quote
    from vijax.fitting.status import Status

    if outcome.status is Status.MOSTLY_SKIPPED:
        print(
            "The run failed: what it found rests on the few other steps. Smaller steps: "
            "algorithm.step_size."
        )
        return 3
    if outcome.status is Status.DIVERGED:
        print(
            "The run stopped early: diverged. Correct the data, or take smaller steps: "
            "algorithm.step_size."
        )
        return 3
    status = outcome.status.name.lower()
    print(f"The run stopped early: {status}. Go on: vijax resume {quote(outcome.folder)}")
    return 130


def end_of_sweep(folder: Path, comparison: Any) -> int:
    """Prints the table of a sweep."""
    from vijax.app.answers.comparison_files import comparison_text

    print(comparison_text(comparison))
    print(
        f"Table and figure: {(folder / 'comparison.csv').resolve()}, "
        f"{(folder / 'comparison.png').resolve()}"
    )
    if comparison.unusable:
        print(
            f"Do not use: {', '.join(comparison.unusable)}. The verdict of each says why: vijax "
            f"summary {folder}/NAME"
        )
        return UNUSABLE
    return 0


def end_of_team(outcome: Any, is_first: bool) -> int:
    """The exit code of one of several processes; only the first prints."""
    from vijax.fitting.status import FAILED, Status

    if is_first:
        return end(outcome)
    if outcome in FAILED:
        return 3
    return 130 if outcome is Status.INTERRUPTED else 0
