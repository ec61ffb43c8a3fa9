"""Several processes at one run (`vijax fit --distributed`): process 0 keeps its folder, the others
only fit with it."""

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

from vijax.app.folder.run_end import what_is_saved
from vijax.app.folder.run_folder import Say
from vijax.app.plan.config import Config
from vijax.fitting.checkpoint import with_stored_rows
from vijax.fitting.interrupt import say_at_once
from vijax.scale import initialize, mesh
from vijax.scale.processes import WAIT_S, any_process, is_joined, texts
from vijax.scale.watch import LOST, Watch, call_before_abort

Result = TypeVar("Result")
SIGNS = "processes"
"""Folder of a run with the signs of life of its processes, while they are at work."""
FIRST, A_DAY = ".vijax-", 86_400.0
"""Beginning of the name of the folder of these signs before the run has one; the age at which one
is left over."""
BROKEN = threading.Event()
"""Set where this process is the only one that has a fault, or another is lost."""


class Alone:
    """One process, which is a run's only one.

    Args:
      devices: devices of the fit; None takes those of the configuration.
    """

    is_first = True
    """True where this process keeps the run's folder."""

    def __init__(self, devices: int | None = None):
        self.devices = devices

    def mesh(self, config: Config) -> Mesh | None:
        """The devices of the fit."""
        devices = config.fit.devices if self.devices is None else self.devices
        return None if devices is None else mesh(devices)

    def agreed(self, asked: bool) -> bool:
        """True where any process asks it."""
        return asked

    def stored(self, folder: Path, step: int, state: Any) -> Any:
        """A state of which all is in files that only several processes can write
        (`checkpoint.with_stored_rows`)."""
        return state

    def slowest(self) -> str:
        """The process that the others wait for, in words; empty where it is none."""
        return ""

    @contextlib.contextmanager
    def at_work(self, folder: Path | None, step: int, say: Say) -> Iterator[tuple[Path, int]]:
        """The fit, and what follows it, go on inside. Gives the folder of the run, which process 0
        knows, and its step."""
        assert folder is not None
        yield folder, step


class OtherError(ValueError):
    """Another process could not begin."""


class LostError(OSError):
    """Another process was lost while the run began."""


class Over(Exception):
    """There is nothing left to fit."""


class Team(Alone):
    """Several processes: they begin together or not at all, end together, and watch each other in
    between.

    Args:
      coordinator: see `vijax.scale.initialize`.
      num_processes: the same.
      process_id: the same.
      devices: devices of each process; None takes those of the configuration, on resume all.
      initialization_timeout: see `vijax.scale.initialize`.
      near: a folder that all see, for signs of life before the run has one.
    """

    def __init__(
        self,
        coordinator: str | None,
        num_processes: int | None,
        process_id: int | None,
        devices: int | None = None,
        initialization_timeout: int = WAIT_S,
        near: Path | None = None,
    ):
        initialize(coordinator, num_processes, process_id, initialization_timeout)
        with _nothing_printed():  # the line in which gloo says that it is connected
            self.agreed(False)
        given = [
            ("coordinator", coordinator),
            ("num-processes", num_processes),
            ("process-id", process_id),
        ]
        self.options = "".join(f" --{name} {value}" for name, value in given if value is not None)
        self.process, self.total = jax.process_index(), jax.process_count()
        self.is_first, self.devices = self.process == 0, devices
        self._begun = False
        self._watch = self._at_first(Path() if near is None else near)

    def configured(self, load: Callable[[tuple[str, ...]], Config]) -> Config:
        """The configuration of a new run, with the number of devices of each process, so that the
        run can go on alone with the same draws."""
        config = load(() if self.devices is None else (f"fit.devices={self.devices}",))
        if config.fit.devices is None:
            config = load((f"fit.devices={jax.local_device_count()}",))
        self.devices = config.fit.devices
        return config

    def mesh(self, config: Config) -> Mesh | None:
        """Those of all processes."""
        return mesh(self.devices)

    def agreed(self, asked: bool) -> bool:
        """See `Alone`."""
        return any_process(asked) if is_joined() else asked

    def stored(self, folder: Path, step: int, state: Any) -> Any:
        """See `Alone`."""
        return with_stored_rows(folder, step, state)

    def slowest(self) -> str:
        """See `Alone`."""
        return "" if self._watch is None else self._watch.slowest()

    # --- together ---------------------------------------------------------------------------------
    def do(self, work: Callable[[], Result]) -> Result | None:
        """The result of `work`; None where there was nothing to fit. Before `at_work` begins, an
        error of one process is an error of all."""
        undo = call_before_abort(self._hold)
        try:
            found = work()
            self._meet(over=True)
            return found
        except Over:
            return None
        except BaseException as error:
            if not self._begun and not isinstance(error, OtherError):
                with contextlib.suppress(OtherError):
                    self._meet(fault=_said(error))
            raise
        finally:
            undo()
            self._end_of_first()

    @contextlib.contextmanager
    def at_work(self, folder: Path | None, step: int, say: Say) -> Iterator[tuple[Path, int]]:
        """See `Alone`."""
        if folder is not None:
            _clear(folder / SIGNS)
        told = self._meet(folder=str(folder), step=step)
        folder, step = Path(told["folder"]), told["step"]
        watch = self._watching(folder, say)
        self._end_of_first()
        self._begun, self._watch = True, watch
        try:
            yield folder, step
            self._meet()  # all wait until process 0 has written its pages
        except BaseException as error:
            BROKEN.set()
            if self._watch is not None:
                if is_of_others(error):
                    self._watch.wait()
                self._watch.end(_said(error))
            raise
        if self._watch is not None:
            self._watch.end()

    def _meet(self, **said: Any) -> dict[str, Any]:
        """The words of process 0, once all have come. Raises: `OtherError`, another process has a
        fault; `Over`, process 0 has nothing to fit; `LostError`, another is lost."""
        if not is_joined() or (self._begun and said.get("over")):
            return said
        try:
            heard = [json.loads(text) for text in texts(json.dumps(said, ensure_ascii=True))]
        except Exception as error:
            BROKEN.set()
            if self._begun or not is_of_others(error):
                raise
            if self._watch is not None:
                self._watch.wait()
            raise LostError(
                f"another process was lost while the run began ({error}); start all of them again"
            ) from error
        faults = [
            f"process {k} of {self.total}: {x['fault']}"
            for k, x in enumerate(heard)
            if "fault" in x
        ]
        if faults and "fault" not in said:
            raise OtherError(faults[0])
        if heard[0].get("over") and not said.get("over"):
            raise Over
        return heard[0]

    def _at_first(self, near: Path) -> Watch | None:
        """The watch before the run has a folder; None where the processes do not share the one that
        is near."""
        if not is_joined():
            return None
        if self.is_first:
            _remove_left(near)
        folder = near / f"{FIRST}{texts(secrets.token_hex(4))[0]}"
        watch = Watch(
            folder, self.process, self.total, lambda: "Start all of them again", say_at_once
        )
        watch.write()
        self.agreed(False)
        if self.agreed(len(watch.signs()) < self.total):
            _remove(folder)
            return None
        watch.begin()
        return watch

    def _end_of_first(self) -> None:
        if not self._begun and self._watch is not None:
            self._watch.end()
            self._watch = None

    def _watching(self, folder: Path, say: Say) -> Watch | None:
        """The watch; None where the processes do not share the run's folder."""
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
        every = ", in every process with its own number" if self.options else ", in every process"
        return (
            f"The run {what_is_saved(folder)} --distributed{self.options}{every} (of any number "
            "of processes)"
        )

    def _hold(self) -> None:
        """Waits before this process is ended by native code, until it is known who is lost."""
        if self._watch is not None:
            self._watch.wait()
        watch = self._watch if self._begun else None
        remedy = "Start all of them again" if watch is None else self._remedy(watch.folder.parent)
        say_at_once(f"vijax: another process is lost. {remedy}")
        os._exit(LOST)


@contextlib.contextmanager
def _nothing_printed() -> Iterator[None]:
    """Keeps what native code prints off standard output, where results go."""
    sys.stdout.flush()
    before = os.dup(1)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(before, 1)
            os.close(before)


def leave(code: int) -> None:
    """Ends this process at once where the others are gone: JAX would wait for them."""
    if BROKEN.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def is_of_others(error: BaseException) -> bool:
    """True for an error by which the loss of another process shows: of a sum over processes."""
    text = str(error)
    native = isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in text
    return native or "Gloo" in text


def _said(error: BaseException) -> str:
    """An error in a line."""
    if isinstance(error, KeyboardInterrupt):
        return "it was stopped"
    return " ".join(str(error).split())[:300] or type(error).__name__


def _clear(folder: Path) -> None:
    """Removes the signs of an earlier sitting, or those in a folder that nobody else sees."""
    _remove(folder if folder.name == SIGNS else folder / SIGNS)
    if folder.name != SIGNS:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove(signs: Path) -> None:
    with contextlib.suppress(OSError):
        for path in signs.glob("*.json"):
            path.unlink()
        signs.rmdir()


def _remove_left(near: Path) -> None:
    """Removes signs of life of processes that began a day ago, and were lost."""
    with contextlib.suppress(OSError):
        for signs in near.glob(f"{FIRST}*"):
            if all(time.time() - path.stat().st_mtime > A_DAY for path in signs.glob("*.json")):
                _remove(signs)
