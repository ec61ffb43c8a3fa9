"""`vijax fit --distributed` and `vijax resume --distributed`: the same commands, run by several
processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from vijax.app.folder.run_folder import read_run_config
from vijax.app.folder.team import Team
from vijax.app.plan.config import load_config
from vijax.app.runs.run import Outcome, follow, named, resume, start
from vijax.app.settings.progress import say_to_stderr
from vijax.fitting.status import Status

Cluster = tuple[str | None, int | None, int | None, int | None, int]
"""Coordinator, number of processes, number of this one, devices of each, seconds to wait for the
others."""
Ended = tuple[Outcome | Status, bool]
"""What process 0 has found, or in others the end of the fit; and whether this is process 0."""


def fit_together(
    config: Path, overrides: tuple[str, ...], data: str | None, out: Path | None, of: Cluster
) -> Ended:
    """A new run."""

    def work(team: Team) -> Any:
        found = team.configured(lambda more: load_config(config, (*overrides, *more), data))
        return (
            start(found, out, say_to_stderr, team) if team.is_first else follow(named(found), team)
        )

    return _done(Team(*of, near=Path() if out is None else out.parent), work)


def resume_together(folder: Path, of: Cluster) -> Ended:
    """A run that goes on, from its newest checkpoint, on this number of processes."""

    def work(team: Team) -> Any:
        if team.is_first:
            return resume(folder, say_to_stderr, team=team)
        return follow(read_run_config(folder), team)

    return _done(Team(*of, near=folder.parent), work)


def _done(team: Team, work: Callable[[Team], Any]) -> Ended:
    found = team.do(lambda: work(team))
    return Status.FINISHED if found is None else found, team.is_first
