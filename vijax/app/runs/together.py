"""`vijax fit --distributed` and `vijax resume --distributed`: runs of several processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vijax.app.folder.run_folder import read_run_config
from vijax.app.folder.team import Team
from vijax.app.plan.config import load_config
from vijax.app.runs.run import Outcome, follow, prepare_config, resume, start
from vijax.app.settings.progress import say_to_stderr
from vijax.fitting.status import Status

Cluster = tuple[str | None, int | None, int | None, int | str | None, int]
"""Coordinator, number of processes, number of this one, devices of each, seconds to wait."""
EndOfFit = tuple[Outcome | Status, bool]
"""The outcome of process 0, or in others the status of the fit; and True if this is process 0."""


def fit_together(
    config: Path, overrides: tuple[str, ...], data: str | None, out: Path | None, cluster: Cluster
) -> EndOfFit:
    """Fits a new run."""

    def work(team: Team) -> Any:
        loaded = team.load_config_for_team(
            lambda more: load_config(config, (*overrides, *more), data)
        )
        if team.is_first:
            return start(loaded, out, say_to_stderr, team)
        return follow(prepare_config(loaded), team)

    return _outcome(Team(*cluster, near=Path() if out is None else out.parent), work)


def resume_together(folder: Path, cluster: Cluster) -> EndOfFit:
    """Resumes a run from its newest checkpoint, on this number of processes."""

    def work(team: Team) -> Any:
        if team.is_first:
            return resume(folder, say_to_stderr, team=team)
        return follow(read_run_config(folder), team)

    return _outcome(Team(*cluster, near=folder.parent), work)


def _outcome(team: Team, work: Callable[[Team], Any]) -> EndOfFit:
    outcome = team.do(lambda: work(team))
    return Status.FINISHED if outcome is None else outcome, team.is_first
