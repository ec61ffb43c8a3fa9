"""The end of a run: its posterior in an open format, the blocks of its page, and remarks on how it
ended."""

from __future__ import annotations

import dataclasses
import math
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from vijax.app.drawing import blocks
from vijax.app.folder.run_folder import (
    OF_DATA,
    Say,
    checksum,
    made_by_another,
    noted_settings,
    read_json,
    read_run_config,
    write_json,
)
from vijax.app.plan.config import Config, differing_keys
from vijax.app.settings.typed_toml import DamagedError
from vijax.files import check_declared_sizes, write_arrays
from vijax.fitting import checkpoint
from vijax.fitting.result import Fit
from vijax.fitting.status import Status

RUN = "run"
"""The entry of result.json that says of which run it is: its settings, and the checksums of its
data and posterior."""
OF_POSTERIOR = "sha256 of posterior.npz"


def write_end(
    folder: Path,
    config: Config,
    shown: Iterable[blocks.Block],
    result: Fit,
    score: Any,
    seconds: float,
) -> None:
    """Writes posterior.npz, and result.json: of which run it is, status, steps, seconds, score,
    whether the verdict allows its use, and the blocks of the page."""
    arrays = posterior_arrays(result.state)
    write_arrays(folder / "posterior.npz", arrays)
    write_json(
        folder / "result.json",
        {
            RUN: {
                **noted_settings(folder, config),
                OF_POSTERIOR: checksum(folder / "posterior.npz"),
            },
            "status": str(result.status),
            "step": int(result.state.step),
            "skipped": result.num_skipped,
            "usable": result.usable,
            "seconds": round(seconds, 2),
            "score": score
            and [
                float(x) if math.isfinite(x) else None for x in (score.mean, score.standard_error)
            ],
            "score_text": None if score is None else str(score),
            "blocks": blocks.to_json(shown),
        },
    )


def end_of(folder: Path) -> dict[str, Any] | None:
    """The contents of result.json, its blocks as they were; None while there is no end yet."""
    path = folder / "result.json"
    if not path.is_file():
        return None
    found = {"skipped": 0, "usable": True} | read_json(path, _again(folder))
    _check_same_run(folder, found.get(RUN))
    try:
        return {name: read(found[name]) for name, read in END.items()}
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise DamagedError(
            f"{path}: damaged ({type(error).__name__}: {error})", _again(folder)
        ) from error


def _check_same_run(folder: Path, noted: Any) -> None:
    """Raises a `DamagedError` where result.json is that of another run, by its settings or its
    data; that of an earlier version does not say."""
    if noted is None:
        return
    path = folder / "result.json"
    if not isinstance(noted, dict):
        raise DamagedError(f"{path}: damaged: it does not say of which run it is", _again(folder))
    now = noted_settings(folder, read_run_config(folder))
    # Later versions know more settings, and the data may lie elsewhere by now.
    both = [key for key in now if key in noted and key not in ("data.path", OF_DATA)]
    differing = differing_keys({key: noted[key] for key in both}, {key: now[key] for key in both})
    if differing:
        key, (then, here) = next(iter(differing.items()))
        fault = f"{path}: the file of another run: its {key} is {then!r}, and {here!r} here"
        raise DamagedError(fault, _again(folder))
    if noted.get(OF_DATA, now[OF_DATA]) != now[OF_DATA]:
        raise DamagedError(
            f"{path}: the file of another run: it is of other data than data.json", _again(folder)
        )


def whole_end_of(folder: Path, say: Say) -> dict[str, Any] | None:
    """As `end_of`, but None where a file of the end is damaged, which is said: the run writes it
    again."""
    try:
        ended = end_of(folder)
        if ended is not None:
            read_posterior(folder)
        return ended
    except DamagedError as error:
        say(f"Warning: {error.fault}; it is written again")
        return None


def read_posterior(folder: Path) -> dict[str, np.ndarray]:
    """The arrays of posterior.npz."""
    path = folder / "posterior.npz"
    try:
        with path.open("rb") as file:
            check_declared_sizes(file)
            with np.load(file, allow_pickle=False) as arrays:
                found = {name: arrays[name] for name in arrays.files}
    except (
        OSError,
        ValueError,
        EOFError,
        AttributeError,
        MemoryError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        why = type(error).__name__  # NumPy's own words tell the reader to trust the file
        raise DamagedError(f"{path}: missing or damaged ({why})", _again(folder)) from error
    _check_same_posterior(folder)
    return found


def _check_same_posterior(folder: Path) -> None:
    """Raises a `DamagedError` where posterior.npz is another one than that of result.json, which
    says so if it is not of an earlier version."""
    path = folder / "posterior.npz"
    if not path.is_file() or not (folder / "result.json").is_file():
        return
    noted = read_json(folder / "result.json", _again(folder)).get(RUN)
    own = checksum(path)
    if isinstance(noted, dict) and noted.get(OF_POSTERIOR, own) != own:
        raise DamagedError(
            f"{path}: changed, or the file of another run than result.json", _again(folder)
        )


def _again(folder: Path) -> str:
    return f"write it again: vijax resume {folder}"


def _seconds(value: Any) -> float:
    if not math.isfinite(float(value)):
        raise ValueError("seconds are not finite")
    return float(value)


def _score(value: Any) -> list[float] | None:
    if value is None:
        return None
    mean, error = value
    return [math.nan if number is None else float(number) for number in (mean, error)]


END: dict[str, Callable[[Any], Any]] = {
    "status": str,
    "step": int,
    "skipped": int,
    "usable": bool,
    "seconds": _seconds,
    "score": _score,
    "score_text": lambda value: None if value is None else str(value),
    "blocks": blocks.from_json,
}
"""The reader of each entry of result.json; the file may come from anybody."""


def what_is_saved(folder: Path) -> str:
    """A sentence on a run that was stopped at once: what is saved, and how to go on."""
    found = checkpoint.checkpoint_files(folder / "checkpoints")
    if not (folder / "config.toml").exists():
        return "stopped before anything was saved"
    if (folder / "result.json").exists():
        return f"stopped; the result is saved. Write its page: vijax report {folder}"
    if not found:
        return f"stopped before the first checkpoint. Begin again: vijax resume {folder}"
    return (
        f"stopped; saved up to step {int(found[0].stem.rpartition('_')[2]):,}. Go on: vijax "
        f"resume {folder}"
    )


def posterior_arrays(state: Any) -> dict[str, np.ndarray]:
    """Natural parameters by variable and name (topics/concentration), and hyperparameters and
    networks as they stand, by their place in a tree (hyper/decoder/0/weights)."""
    parts = {
        f"{name}/{field.name}": getattr(family, field.name)
        for name, family in state.posterior.plain().items()
        for field in dataclasses.fields(family)  # type: ignore[arg-type]
        if not field.metadata.get("context")
        # Parameters, and numbers that go with them; not the places of blocks, which other parts say
        # too.
        and (
            isinstance(getattr(family, field.name), int | float) or not field.metadata.get("static")
        )
    }
    leaves, _ = jax.tree_util.tree_flatten_with_path(parts | {"hyper": dict(state.hyper)})
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(value)
        for path, value in leaves
    }


WELL = (Status.FINISHED, Status.CONVERGED)


def say_remarks(folder: Path, say: Say) -> None:
    """Says what a reader should know before using a run: that it has not ended, or not well; that
    another version of vijax made it."""
    made = made_by_another(folder)
    for remark in (_ending(folder), made and f"{folder} {made}"):
        if remark:
            say(f"Note: {remark}")


def _ending(folder: Path) -> str:
    ended = end_of(folder)
    if ended is None:
        return (
            f"{folder} is unfinished; this is as of its last checkpoint. Go on: vijax resume "
            f"{folder}"
        )
    if not ended["usable"]:
        return f"the verdict on {folder} is not to use this fit. Why: vijax summary {folder}"
    status = ended["status"]
    if status == Status.INTERRUPTED:
        return f"{folder} stopped early. Go on: vijax resume {folder}"
    return "" if status in map(str, WELL) else f"{folder} ended so: {status}"
