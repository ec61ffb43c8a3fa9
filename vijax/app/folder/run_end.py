"""The end of a run: its posterior in an open format, the blocks of its page, closing remarks."""

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
    DATA_CHECKSUMS,
    Say,
    checksum,
    noted_settings,
    read_json,
    read_run_config,
    version_remark,
    write_json,
)
from vijax.app.plan.config import Config, differing_keys
from vijax.app.settings.quoting import quote
from vijax.app.settings.typed_toml import DamagedError
from vijax.files import check_declared_sizes, write_arrays
from vijax.fitting import checkpoint
from vijax.fitting.result import Fit
from vijax.fitting.status import Status

RUN = "run"
"""The entry of result.json that identifies the run: settings, checksums of data and posterior."""
POSTERIOR_CHECKSUM = "sha256 of posterior.npz"


def write_end(
    folder: Path,
    config: Config,
    shown: Iterable[blocks.Block],
    result: Fit,
    score: Any,
    seconds: float,
) -> None:
    """Writes posterior.npz and result.json.

    result.json holds the run's identity, status, steps, seconds, score, whether the verdict allows
    its use, and the blocks of the page.
    """
    write_arrays(folder / "posterior.npz", posterior_arrays(result.state))
    sums = {POSTERIOR_CHECKSUM: checksum(folder / "posterior.npz")}
    contents = {
        RUN: {**noted_settings(folder, config), **sums},
        "status": str(result.status),
        "step": int(result.state.step),
        "skipped": result.num_skipped,
        "usable": result.usable,
        "seconds": round(seconds, 2),
        "score": _score_numbers(score),
        "score_text": None if score is None else str(score),
        "blocks": blocks.to_json(shown),
    }
    write_json(folder / "result.json", contents)


def _score_numbers(score: Any) -> Any:
    """Mean and standard error of a score, for JSON, which has no infinite numbers."""
    if not score:
        return score
    return [float(x) if math.isfinite(x) else None for x in (score.mean, score.standard_error)]


def read_end(folder: Path) -> dict[str, Any] | None:
    """The contents of result.json, its blocks as objects; None if the run has not ended."""
    path = folder / "result.json"
    if not path.is_file():
        return None
    contents = read_json(path, _rewrite_remedy(folder))
    _check_same_run(folder, contents.get(RUN))
    try:
        return {name: read(contents[name]) for name, read in END.items()}
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise DamagedError(
            f"{path}: damaged ({type(error).__name__}: {error})", _rewrite_remedy(folder)
        ) from error


def _check_same_run(folder: Path, noted: Any) -> None:
    """Raises a `DamagedError` if result.json is of another run, by its settings or data."""
    path = folder / "result.json"
    if not isinstance(noted, dict):
        raise DamagedError(
            f"{path}: damaged: it does not say of which run it is", _rewrite_remedy(folder)
        )
    settings = noted_settings(folder, read_run_config(folder))
    # Later versions have more settings, and the data may have moved.
    shared_keys = [
        key for key in settings if key in noted and key not in ("data.path", DATA_CHECKSUMS)
    ]
    differing = differing_keys(
        {key: noted[key] for key in shared_keys}, {key: settings[key] for key in shared_keys}
    )
    if differing:
        key, (run_value, other_value) = next(iter(differing.items()))
        fault = (
            f"{path}: the file of another run: its {key} is {run_value!r}, and {other_value!r} here"
        )
        raise DamagedError(fault, _rewrite_remedy(folder))
    if noted.get(DATA_CHECKSUMS) != settings[DATA_CHECKSUMS]:
        raise DamagedError(
            f"{path}: the file of another run: it is of other data than data.json",
            _rewrite_remedy(folder),
        )


def read_whole_end(folder: Path, say: Say) -> dict[str, Any] | None:
    """As `read_end`, but a damaged file gives a warning and None: the run writes it again."""
    try:
        end = read_end(folder)
        if end is not None:
            read_posterior(folder)
        return end
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
                posterior = {name: arrays[name] for name in arrays.files}
    except (
        OSError,
        ValueError,
        EOFError,
        AttributeError,
        MemoryError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        error_name = type(error).__name__  # NumPy's own words tell the reader to trust the file
        raise DamagedError(
            f"{path}: missing or damaged ({error_name})", _rewrite_remedy(folder)
        ) from error
    _check_same_posterior(folder)
    return posterior


def _check_same_posterior(folder: Path) -> None:
    """Raises a `DamagedError` if posterior.npz is not the one of result.json. Files of earlier
    versions do not tell."""
    path = folder / "posterior.npz"
    if not path.is_file() or not (folder / "result.json").is_file():
        return
    noted = read_json(folder / "result.json", _rewrite_remedy(folder)).get(RUN)
    current_sum = checksum(path)
    if isinstance(noted, dict) and noted.get(POSTERIOR_CHECKSUM, current_sum) != current_sum:
        raise DamagedError(
            f"{path}: changed, or the file of another run than result.json", _rewrite_remedy(folder)
        )


def _rewrite_remedy(folder: Path) -> str:
    return f"write it again: vijax resume {quote(folder)}"


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


def progress_text(folder: Path) -> str:
    """A sentence on a run that was stopped at once: what is saved, and how to resume."""
    checkpoints = checkpoint.checkpoint_files(folder / "checkpoints")
    if not (folder / "config.toml").exists():
        return "stopped before anything was saved"
    if (folder / "result.json").exists():
        return f"stopped; the result is saved. Write its page: vijax report {quote(folder)}"
    if not checkpoints:
        return f"stopped before the first checkpoint. Begin again: vijax resume {quote(folder)}"
    return (
        f"stopped; saved up to step {int(checkpoints[0].stem.rpartition('_')[2]):,}. Go on: vijax "
        f"resume {folder}"
    )


def posterior_arrays(state: Any) -> dict[str, np.ndarray]:
    """The arrays of posterior.npz: natural parameters by variable and name (topics/concentration),
    and hyperparameters and networks by their place in a tree (hyper/decoder/0/weights)."""
    parts = {}
    for name, family in state.posterior.plain().items():
        for field in dataclasses.fields(family):
            value = getattr(family, field.name)
            # Static fields (places of blocks) are in other parts too, unless they are numbers.
            is_parameter = isinstance(value, int | float) or not field.metadata.get("static")
            if is_parameter and not field.metadata.get("context"):
                parts[f"{name}/{field.name}"] = value
    leaves, _ = jax.tree_util.tree_flatten_with_path(parts | {"hyper": dict(state.hyper)})
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(value)
        for path, value in leaves
    }


GOOD_ENDS = (Status.FINISHED, Status.CONVERGED)


def say_remarks(folder: Path, say: Say) -> None:
    """Says what a reader should know before using a run: that it has not ended, or not well; that
    another version of vijax made it."""
    version = version_remark(folder)
    for remark in (_ending(folder), version and f"{folder} {version}"):
        if remark:
            say(f"Note: {remark}")


def _ending(folder: Path) -> str:
    end = read_end(folder)
    if end is None:
        return (
            f"{folder} is unfinished; this is as of its last checkpoint. Go on: vijax resume "
            f"{folder}"
        )
    if not end["usable"]:
        return f"the verdict on {folder} is not to use this fit. Why: vijax summary {quote(folder)}"
    status = end["status"]
    if status == Status.INTERRUPTED:
        return f"{folder} stopped early. Go on: vijax resume {quote(folder)}"
    if status in map(str, GOOD_ENDS):
        return ""
    return f"{folder} ended so: {status}"
