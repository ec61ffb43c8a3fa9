"""What is to be known of a run before it is used: that it has not ended, or not well, or is of another version."""

from __future__ import annotations

from pathlib import Path

from vijax.app.runs.run_end import end_of
from vijax.app.runs.run_folder import Say
from vijax.app.runs.versions import made_by_another
from vijax.fitting.status import Status

WELL = (Status.FINISHED, Status.CONVERGED)


def say_remarks(folder: Path, say: Say) -> None:
    """Tells all of them."""
    for remark in remarks_on(folder):
        say(f"Note: {remark}")


def remarks_on(folder: Path) -> list[str]:
    """None of a run that has ended as it should, of this version."""
    made = made_by_another(folder)
    return [remark for remark in (_ending(folder), made and f"{folder} {made}") if remark]


def _ending(folder: Path) -> str:
    ended = end_of(folder)
    if ended is None:
        return f"{folder} is unfinished; this is as of its last checkpoint. Go on: vijax resume {folder}"
    if not ended["usable"]:
        return f"the verdict on {folder} is not to use this fit. Why: vijax summary {folder}"
    status = ended["status"]
    if status == Status.INTERRUPTED:
        return f"{folder} stopped early. Go on: vijax resume {folder}"
    return "" if status in map(str, WELL) else f"{folder} ended so: {status}"
