"""A run: started, gone on with after any kind of end, and seen to its result."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from vijax import checkpoint, metrics
from vijax.app.assemble import batch_size, load_data, make_algorithm, num_groups, state_like
from vijax.app.config import Config, ConfigError
from vijax.app.documents import DOCUMENTS
from vijax.app.listing import Data, Seen
from vijax.app.pages import write_pages
from vijax.app.recorder import Recorder
from vijax.app.run_end import end_of, write_end
from vijax.app.run_folder import (
    Say,
    check_same_data,
    latest_checkpoint,
    locked,
    new_folder,
    read_run_config,
    write_beginning,
)
from vijax.app.tables import held_out_entries
from vijax.app.typed_toml import flatten
from vijax.fit import Status, fit
from vijax.progress import Printer
from vijax.result import Fit
from vijax.status import SkippedStepsWarning, skipped_text


class Outcome(NamedTuple):
    """How a sitting ended: the folder, why it stopped, the last held-out score (None if nothing was held out), and how
    many steps were skipped, in words (empty if none were)."""

    folder: Path
    status: Status
    score: Any
    skipped: str = ""


def say_to_stderr(message: str) -> None:
    """Prints a line that is not a result."""
    print(message, file=sys.stderr, flush=True)


# --- starting and going on ----------------------------------------------------------------------------------------
def start(config: Config, folder: Path | None = None, say: Say = say_to_stderr) -> Outcome:
    """Begins a run in a new folder (runs/NAME-1, -2, ... if none is named) and sees it to its end.

    Raises:
      ConfigError: the folder exists.
      ValueError: data or settings that cannot be used; nothing is left behind.
    """
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists: name another folder with --out, or go on with it: vijax resume {folder}")
    config = _absolute(config)
    with config.in_precision():
        data = _read(config, say)
        algorithm = make_algorithm(config, data)
        _check_beforehand(config, algorithm, data)
        if data.test is not None and not config.listing.has_score(algorithm.spec.model):
            say(f"Note: {config.listing.name} has no held-out score; data.held_out=0 learns from all of the data")
        folder = new_folder(config.name) if folder is None else folder
        write_beginning(folder, config, data)
        say(f"Run folder: {folder}")
        with locked(folder):
            return _sit(folder, config, data, algorithm, None, say)


def resume(folder: Path, say: Say = say_to_stderr) -> Outcome:
    """Goes on with a run from its newest whole checkpoint, to the result an unbroken run would have had, bit for bit.

    Raises:
      ConfigError: not a run folder; other data or other settings than it began with; another process is at it.
      CheckpointError: no checkpoint can be read.
    """
    config = read_run_config(folder)
    with locked(folder), config.in_precision():
        data = _read(config, say)
        check_same_data(folder, config, data)
        algorithm = make_algorithm(config, data)
        checkpoint.remove_leftovers(folder / "checkpoints")
        found = latest_checkpoint(folder, config, state_like(config, algorithm, data), say)
        ended = end_of(folder)
        if found is not None and ended is not None and _has_converged(config, found, ended):
            say(f"{folder} has converged; to go on, lower fit.convergence in {folder / 'config.toml'}")
            write_pages(folder)
            skipped = skipped_text(ended.get("skipped", 0), ended["step"])
            return Outcome(folder, Status.CONVERGED, ended["score_text"], skipped)
        metrics.truncate(folder / "metrics.jsonl", found.step if found else 0)
        say(f"Going on with {folder} from step {found.step if found else 0}")
        return _sit(folder, config, data, algorithm, found, say)


def _has_converged(config: Config, found: checkpoint.Checkpoint, ended: dict[str, Any]) -> bool:
    """Whether the run has stopped by itself, and would again: no step is left to take."""
    same = found.config.get("fit.convergence") == config.fit.convergence and ended["step"] == found.step
    return same and ended["status"] == str(Status.CONVERGED)


def _check_beforehand(config: Config, algorithm: Any, data: Data) -> None:
    """What would fail once the folder is there fails here, and leaves nothing behind."""
    batch_size(config, num_groups(config, data))
    check = algorithm.spec.model.check_data
    if check is None:
        return
    documents = config.listing.source is DOCUMENTS
    parts = {"training": data.train}
    if data.test is not None and not documents and not held_out_entries(data):
        parts["held-out"] = data.test
    for name, part in parts.items():
        try:
            check(config.listing.arrange(part, config.model))
        except ValueError as error:
            where = f"{name} {'documents' if documents else 'rows'}, counted from 0 within them"
            raise ValueError(f"{config.data.path}, {where}: {error}") from error


def _absolute(config: Config) -> Config:
    """The configuration with paths that hold from any working directory."""

    def absolute(path: str | None) -> str | None:
        exists = path is not None and Path(path).expanduser().exists()
        return str(Path(path).expanduser().resolve()) if path is not None and exists else path

    names = [name for name in ("path", "vocabulary") if hasattr(config.data, name)]
    paths: dict[str, Any] = {name: absolute(getattr(config.data, name)) for name in names}
    return dataclasses.replace(config, data=dataclasses.replace(config.data, **paths))


def _read(config: Config, say: Say) -> Data:
    data = load_data(config)
    say(f"Data: {config.listing.source.describe(data)}")
    for note in getattr(data.train, "notes", ()):
        say(f"Note: {note}")
    return data


# --- a sitting ----------------------------------------------------------------------------------------------------
def _sit(
    folder: Path, config: Config, data: Data, algorithm: Any, found: checkpoint.Checkpoint | None, say: Say
) -> Outcome:
    """Fits from where the run stands to its end, or until it is stopped; then writes what it came to."""
    key, listing = jax.random.key(config.fit.seed), config.listing
    score_key, read_key = jax.random.split(jax.random.fold_in(key, 1))
    size = batch_size(config, num_groups(config, data))

    def score(seen: Any) -> Any:
        return listing.scored(Seen(Fit(algorithm, seen.state, {}, None), data, config.model, score_key))

    scores = data.test is not None and listing.has_score(algorithm.spec.model)
    recorder = Recorder(
        folder,
        flatten(config),
        score=score if scores else None,
        evaluate_every=_evaluate_every(config, data, size),
        checkpoint_every_s=config.fit.checkpoint_every_s,
        warn=lambda message: say(f"Warning: {message}"),
        seconds=metrics.seconds(folder / "metrics.jsonl"),
    )
    unit = {"document": "docs"}.get(listing.unit, f"{listing.unit}s")
    printer = Printer(
        config.fit.progress_every_s, lambda: recorder.latest_score, lambda: recorder.spent, unit=unit, per=listing.per
    )
    with _terminable(), warnings.catch_warnings():
        warnings.simplefilter("ignore", SkippedStepsWarning)  # the last lines say it
        result = fit(
            algorithm,
            listing.arrange(data.train, config.model),
            key=key,
            num_epochs=config.fit.num_epochs,
            batch_size=size,
            state=found.tree if found else None,
            restarts=config.fit.restarts,
            tol=config.fit.convergence,
            callbacks=(recorder, printer),
            throw=False,
        )
    if scores and recorder.score_step != int(result.state.step):
        recorder.latest_score = score(result)
    try:
        seen = Seen(result, data, config.model, read_key)
        write_end(folder, listing.describe(seen), result, recorder.latest_score, recorder.seconds)
        write_pages(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = f"the checkpoints are kept: make room, then: vijax resume {folder}"
        raise OSError(f"{folder}: the results could not be written ({reason}); {remedy}") from error
    return Outcome(
        folder, result.status, recorder.latest_score, skipped_text(result.num_skipped, int(result.state.step))
    )


def _evaluate_every(config: Config, data: Data, size: int | None) -> int:
    if config.fit.evaluate_every is not None:
        return config.fit.evaluate_every
    per_epoch = 1 if size is None else max(1, -(-num_groups(config, data) // size))
    return max(1, round(config.fit.num_epochs * per_epoch / 6))


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM counts as Ctrl-C: the fit ends its chunk, saves, and stops."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
