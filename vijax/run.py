"""A run: started, gone on with after any kind of end, and seen to its result."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

from vijax import checkpoint, metrics
from vijax.assemble import Data, batch_size, load_data, make_algorithm
from vijax.config import Config, ConfigError
from vijax.fit import Status, fit
from vijax.pages import write_pages
from vijax.progress import Printer
from vijax.recorder import Recorder
from vijax.result import Fit
from vijax.run_end import write_end
from vijax.run_folder import (
    Say,
    check_same_data,
    latest_checkpoint,
    locked,
    new_folder,
    read_run_config,
    write_beginning,
)
from vijax.typed_toml import flatten


class Outcome(NamedTuple):
    """How a sitting ended: the folder, why it stopped, and the last held-out score (None if nothing was held out)."""

    folder: Path
    status: Status
    score: Any


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
    data = _read(config, say)
    algorithm = make_algorithm(config, len(data.vocabulary))
    batch_size(config, data.train.num_documents)  # fails here, if it does, rather than with the folder made
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
    with locked(folder):
        data = _read(config, say)
        check_same_data(folder, data)
        algorithm = make_algorithm(config, len(data.vocabulary))
        checkpoint.remove_leftovers(folder / "checkpoints")
        found = latest_checkpoint(folder, config, algorithm, say)
        metrics.truncate(folder / "metrics.jsonl", found.step if found else 0)
        say(f"Going on with {folder} from step {found.step if found else 0}")
        return _sit(folder, config, data, algorithm, found, say)


def _absolute(config: Config) -> Config:
    """The configuration with paths that hold from any working directory."""

    def absolute(path: str | None) -> str | None:
        exists = path is not None and Path(path).expanduser().exists()
        return str(Path(path).expanduser().resolve()) if path is not None and exists else path

    path, vocabulary = absolute(config.data.path) or "", absolute(config.data.vocabulary)
    return dataclasses.replace(config, data=dataclasses.replace(config.data, path=path, vocabulary=vocabulary))


def _read(config: Config, say: Say) -> Data:
    data = load_data(config.data)
    train, test = data
    held_out = f", and {test.num_documents:,} held out" if test is not None else ""
    words = f"{train.num_tokens:,} words of {len(data.vocabulary):,} kinds"
    say(f"Data: {train.num_documents:,} documents, {words}{held_out}")
    for note in train.notes:
        say(f"Note: {note}")
    return data


# --- a sitting ----------------------------------------------------------------------------------------------------
def _sit(
    folder: Path, config: Config, data: Data, algorithm: Any, found: checkpoint.Checkpoint | None, say: Say
) -> Outcome:
    """Fits from where the run stands to its end, or until it is stopped; then writes what it came to."""
    key = jax.random.key(config.fit.seed)
    score_key, read_key = jax.random.split(jax.random.fold_in(key, 1))
    size = batch_size(config, data.train.num_documents)

    def score(seen: Any) -> Any:
        return Fit(algorithm, seen.state, {}, None).score(data.test, key=score_key)

    recorder = Recorder(
        folder,
        flatten(config),
        score=score if data.test is not None else None,
        evaluate_every=_evaluate_every(config, data, size),
        checkpoint_every_s=config.fit.checkpoint_every_s,
        warn=lambda message: say(f"Warning: {message}"),
        seconds=metrics.seconds(folder / "metrics.jsonl"),
    )
    printer = Printer(config.fit.progress_every_s, lambda: recorder.latest_score, lambda: recorder.spent)
    with _terminable():
        result = fit(
            algorithm,
            data.train,
            key=key,
            num_epochs=config.fit.num_epochs,
            batch_size=size,
            state=found.tree if found else None,
            callbacks=(recorder, printer),
            throw=False,
        )
    if data.test is not None and recorder.score_step != int(result.state.step):
        recorder.latest_score = score(result)
    try:
        write_end(folder, result, data, recorder.latest_score, recorder.seconds, read_key)
        write_pages(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = f"the checkpoints are kept: make room, then: vijax resume {folder}"
        raise OSError(f"{folder}: the results could not be written ({reason}); {remedy}") from error
    return Outcome(folder, result.status, recorder.latest_score)


def _evaluate_every(config: Config, data: Data, size: int | None) -> int:
    if config.fit.evaluate_every is not None:
        return config.fit.evaluate_every
    per_epoch = 1 if size is None else max(1, round(data.train.num_documents / size))
    return max(1, round(config.fit.num_epochs * per_epoch / 6))


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM counts as Ctrl-C: the fit ends its chunk, saves, and stops."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
