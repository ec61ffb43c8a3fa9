"""Several processes fit one run (`vijax fit --distributed`): process 0 keeps its folder."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import jax
from jax.sharding import Mesh

from vijax.app.folder.run_end import progress_text
from vijax.app.folder.run_folder import Say
from vijax.app.plan.config import Config
from vijax.fitting.checkpoint import with_stored_rows
from vijax.fitting.interrupt import say_at_once
from vijax.scale import initialize, mesh
from vijax.scale.devices import parse_mesh
from vijax.scale.processes import WAIT_S, any_process, is_joined, texts
from vijax.scale.watch import LOST, Watch, call_before_abort

Result = TypeVar("Result")
SIGNS = "processes"
"""Folder inside a run in which its processes leave signs of life while they work."""
EARLY_SIGNS = ".vijax-"
"""Prefix of the folder of these signs before the run has a folder."""
A_DAY = 86_400.0
"""Age in seconds from which a folder of signs is a leftover."""
BROKEN = threading.Event()
"""Set if another process is lost, or this one alone has a fault."""


class Alone:
    """The only process of a run.

    Args:
      devices: devices of the fit; None takes the number in the configuration.
    """

    is_first = True
    """True if this process keeps the run's folder."""

    def __init__(self, devices: int | str | None = None):
        self.devices = devices

    def mesh(self, config: Config) -> Mesh | None:
        """The devices of the fit."""
        devices = config.fit.devices if self.devices is None else self.devices
        if devices is None:
            return None
        count, topics = parse_mesh(devices)
        return mesh(count, topics=topics)

    def any_asks(self, asked: bool) -> bool:
        """True if any process asks."""
        return asked

    def with_stored_tables(self, folder: Path, step: int, state: Any) -> Any:
        """The state with all its tables in files, which only several processes write
        (`with_stored_rows`)."""
        return state

    def slowest(self) -> str:
        """The process that delays the others, in words; "" if none does."""
        return ""

    @contextlib.contextmanager
    def work_session(self, folder: Path | None, step: int, say: Say) -> Iterator[tuple[Path, int]]:
        """The context of the fit and of what follows it. Gives the folder of the run, which process
        0 knows, and its step."""
        assert folder is not None
        yield folder, step


class OtherError(ValueError):
    """Another process could not start."""


class LostError(OSError):
    """Another process was lost while the run started."""


class NothingToFit(Exception):
    """Nothing is left to fit."""


class Team(Alone):
    """Several processes: they start together or not at all, end together, and watch each other in
    between.

    Args:
      coordinator: see `vijax.scale.initialize`.
      num_processes: see `vijax.scale.initialize`.
      process_id: see `vijax.scale.initialize`.
      devices: devices of each process; None takes the number in the configuration, on resume all.
      initialization_timeout: see `vijax.scale.initialize`.
      near: a folder visible to all, for signs of life before the run has a folder.
    """

    def __init__(
        self,
        coordinator: str | None,
        num_processes: int | None,
        process_id: int | None,
        devices: int | str | None = None,
        initialization_timeout: int = WAIT_S,
        near: Path | None = None,
    ):
        initialize(coordinator, num_processes, process_id, initialization_timeout)
        with _silence_stdout():  # gloo prints a line when it connects
            self.any_asks(False)
        options = [
            ("coordinator", coordinator),
            ("num-processes", num_processes),
            ("process-id", process_id),
        ]
        self.options = "".join(f" --{name} {value}" for name, value in options if value is not None)
        self.process = jax.process_index()
        self.total = jax.process_count()
        self.is_first = self.process == 0
        self.devices = devices
        self._begun = False
        self._watch = self._watch_before_run(Path() if near is None else near)

    def load_config_for_team(self, load: Callable[[tuple[str, ...]], Config]) -> Config:
        """The configuration of a new run, with the number of devices of each process, so that one
        process can resume it with the same draws."""
        override = () if self.devices is None else (f"fit.devices={self.devices}",)
        config = load(override)
        if config.fit.devices is None:
            config = load((f"fit.devices={jax.local_device_count()}",))
        self.devices = config.fit.devices
        return config

    def mesh(self, config: Config) -> Mesh | None:
        """The devices of all processes."""
        count, topics = parse_mesh(self.devices)
        return mesh(count, topics=topics)

    def any_asks(self, asked: bool) -> bool:
        """See `Alone`."""
        return any_process(asked) if is_joined() else asked

    def with_stored_tables(self, folder: Path, step: int, state: Any) -> Any:
        """See `Alone`."""
        return with_stored_rows(folder, step, state)

    def slowest(self) -> str:
        """See `Alone`."""
        return "" if self._watch is None else self._watch.slowest()

    # --- together ---------------------------------------------------------------------------------
    def do(self, work: Callable[[], Result]) -> Result | None:
        """The result of `work`; None if there was nothing to fit. Before `work_session` begins, an
        error of one process is raised in all."""
        stop_holding = call_before_abort(self._hold)
        try:
            result = work()
            self._meet(over=True)
            return result
        except NothingToFit:
            return None
        except BaseException as error:
            if not self._begun and not isinstance(error, OtherError):
                with contextlib.suppress(OtherError):
                    self._meet(fault=_error_line(error))
            raise
        finally:
            stop_holding()
            self._end_early_watch()

    @contextlib.contextmanager
    def work_session(self, folder: Path | None, step: int, say: Say) -> Iterator[tuple[Path, int]]:
        """See `Alone`."""
        if folder is not None:
            _clear(folder / SIGNS)
        first = self._meet(folder=str(folder), step=step)
        folder, step = Path(first["folder"]), first["step"]
        watch = self._watch_folder(folder, say)
        self._end_early_watch()
        self._begun = True
        self._watch = watch
        try:
            yield folder, step
            self._meet()  # all wait until process 0 has written its pages
        except BaseException as error:
            BROKEN.set()
            if self._watch is not None:
                if shows_lost_process(error):
                    self._watch.wait()
                self._watch.end(_error_line(error))
            raise
        if self._watch is not None:
            self._watch.end()

    def _meet(self, **words: Any) -> dict[str, Any]:
        """The words of process 0, once all processes have sent theirs.

        Raises:
          OtherError: another process has a fault.
          NothingToFit: process 0 has nothing to fit.
          LostError: another process is lost.
        """
        if not is_joined() or (self._begun and words.get("over")):
            return words
        try:
            answers = [json.loads(text) for text in texts(json.dumps(words, ensure_ascii=True))]
        except Exception as error:
            BROKEN.set()
            if self._begun or not shows_lost_process(error):
                raise
            if self._watch is not None:
                self._watch.wait()
            raise LostError(
                f"another process was lost while the run began ({error}); start all of them again"
            ) from error
        faults = [
            f"process {number} of {self.total}: {answer['fault']}"
            for number, answer in enumerate(answers)
            if "fault" in answer
        ]
        if faults and "fault" not in words:
            raise OtherError(faults[0])
        if answers[0].get("over") and not words.get("over"):
            raise NothingToFit
        return answers[0]

    def _watch_before_run(self, near: Path) -> Watch | None:
        """The watch before the run has a folder; None unless the processes share `near`."""
        if not is_joined():
            return None
        if self.is_first:
            _remove_leftovers(near)
        folder = near / f"{EARLY_SIGNS}{texts(secrets.token_hex(4))[0]}"
        watch = Watch(
            folder, self.process, self.total, lambda: "Start all of them again", say_at_once
        )
        watch.write()
        self.any_asks(False)
        if self.any_asks(len(watch.signs()) < self.total):
            _remove(folder)
            return None
        watch.begin()
        return watch

    def _end_early_watch(self) -> None:
        if not self._begun and self._watch is not None:
            self._watch.end()
            self._watch = None

    def _watch_folder(self, folder: Path, say: Say) -> Watch | None:
        """The watch; None if the processes do not share the run's folder."""
        if not is_joined():
            return None
        watch = Watch(
            folder / SIGNS, self.process, self.total, lambda: self._remedy(folder), say_at_once
        )
        watch.write()
        self._meet()
        if any_process(len(watch.signs()) < self.total):
            if self.is_first:
                say(
                    f"Note: the processes do not all see {folder}, so nobody watches whether one "
                    "of them is lost"
                )
            else:
                _clear(folder)
            return None
        watch.begin()
        return watch

    def _remedy(self, folder: Path) -> str:
        scope = ", in every process"
        if self.options:
            scope += " with its own number"
        return (
            f"The run {progress_text(folder)} --distributed{self.options}{scope} (of any number "
            "of processes)"
        )

    def _hold(self) -> None:
        """Waits until it is known who is lost, before native code ends this process."""
        if self._watch is not None:
            self._watch.wait()
        watch = self._watch if self._begun else None
        remedy = "Start all of them again" if watch is None else self._remedy(watch.folder.parent)
        say_at_once(f"vijax: another process is lost. {remedy}")
        os._exit(LOST)


@contextlib.contextmanager
def _silence_stdout() -> Iterator[None]:
    """Keeps what native code prints off standard output, where results go."""
    sys.stdout.flush()
    stdout = os.dup(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(stdout, 1)
            os.close(stdout)


def leave(code: int) -> None:
    """Ends this process at once if others are gone: JAX would wait for them."""
    if BROKEN.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def shows_lost_process(error: BaseException) -> bool:
    """True for errors that show the loss of another process: failed sums over processes."""
    text = str(error)
    native = isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in text
    return native or "Gloo" in text


def _error_line(error: BaseException) -> str:
    """An error as one line."""
    if isinstance(error, KeyboardInterrupt):
        return "it was stopped"
    return " ".join(str(error).split())[:300] or type(error).__name__


def _clear(folder: Path) -> None:
    """Removes the signs of an earlier session, or a folder of signs that no other process sees."""
    _remove(folder if folder.name == SIGNS else folder / SIGNS)
    if folder.name != SIGNS:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove(signs: Path) -> None:
    with contextlib.suppress(OSError):
        for path in signs.glob("*.json"):
            path.unlink()
        signs.rmdir()


def _remove_leftovers(near: Path) -> None:
    """Removes signs of life of processes that were lost more than a day ago."""
    with contextlib.suppress(OSError):
        for signs in near.glob(f"{EARLY_SIGNS}*"):
            if all(time.time() - path.stat().st_mtime > A_DAY for path in signs.glob("*.json")):
                _remove(signs)
