"""Several processes at one run (`vijax fit --distributed`): process 0 keeps its folder, the others only fit with it."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import jax
from jax.sharding import Mesh

from vijax.app.runs.run_end import what_is_saved
from vijax.app.runs.run_folder import Say
from vijax.app.settings.config import Config
from vijax.fitting.interrupt import say_at_once
from vijax.scale import initialize, mesh
from vijax.scale.arrays import gathered
from vijax.scale.processes import agreed, is_joined, texts
from vijax.scale.watch import LOST, Watch, at_abort

Result = TypeVar("Result")
SIGNS = "processes"
"""Folder of a run with the signs of life of its processes, while they are at work."""
BROKEN = threading.Event()
"""Set where this process is the only one that has a fault, or another is lost."""


class Alone:
    """One process, which is a run's only one."""

    is_first = True
    """True where this process keeps the run's folder."""

    def mesh(self, config: Config) -> Mesh | None:
        """The devices of the fit."""
        return None if config.fit.devices is None else mesh(config.fit.devices)

    def agreed(self, asked: bool) -> bool:
        """True where any process asks it."""
        return asked

    def gathered(self, state: Any) -> Any:
        """A state with all its tables, where it is saved."""
        return state

    def slowest(self) -> str:
        """The process that the others wait for, in words; empty where it is none."""
        return ""

    @contextlib.contextmanager
    def at_work(self, folder: Path | None, step: int, say: Say) -> Iterator[tuple[Path, int]]:
        """The fit, and what follows it, go on inside. Gives the folder of the run, which process 0 knows, and its
        step."""
        assert folder is not None
        yield folder, step


class OtherError(ValueError):
    """Another process could not begin."""


class LostError(OSError):
    """Another process was lost while the run began."""


class Over(Exception):
    """There is nothing left to fit."""


class Team(Alone):
    """Several processes: they begin together or not at all, end together, and watch each other in between.

    Args:
      coordinator: see `vijax.scale.initialize`.
      num_processes: the same.
      process_id: the same.
      devices: devices of each process; None takes those of the configuration, on resume all.
    """

    def __init__(
        self, coordinator: str | None, num_processes: int | None, process_id: int | None, devices: int | None = None
    ):
        initialize(coordinator, num_processes, process_id)
        with _nothing_printed():  # the line in which gloo says that it is connected
            self.agreed(False)
        given = [("coordinator", coordinator), ("num-processes", num_processes), ("process-id", process_id)]
        self.options = "".join(f" --{name} {value}" for name, value in given if value is not None)
        self.process, self.total = jax.process_index(), jax.process_count()
        self.is_first, self.devices = self.process == 0, devices
        self._watch: Watch | None = None
        self._begun = False

    def configured(self, load: Callable[[tuple[str, ...]], Config]) -> Config:
        """The configuration of a new run, with the number of devices of each process, so that the run can go on alone
        with the same draws."""
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
        return agreed(asked) if is_joined() else asked

    def gathered(self, state: Any) -> Any:
        """See `Alone`; in other processes than the first without tables."""
        return gathered(state)

    def slowest(self) -> str:
        """See `Alone`."""
        return "" if self._watch is None else self._watch.slowest()

    # --- together ---------------------------------------------------------------------------------------------------
    def do(self, work: Callable[[], Result]) -> Result | None:
        """The result of `work`; None where there was nothing to fit. Before `at_work` begins, an error of one process
        is an error of all."""
        undo = at_abort(self._hold)
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

    @contextlib.contextmanager
    def at_work(self, folder: Path | None, step: int, say: Say) -> Iterator[tuple[Path, int]]:
        """See `Alone`."""
        if folder is not None:
            _clear(folder / SIGNS)
        told = self._meet(folder=str(folder), step=step)
        folder, step = Path(told["folder"]), told["step"]
        self._begun, self._watch = True, self._watching(folder, say)
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
        """The words of process 0, once all have come. Raises: `OtherError`, another process has a fault; `Over`,
        process 0 has nothing to fit; `LostError`, another is lost."""
        if not is_joined() or (self._begun and said.get("over")):
            return said
        try:
            heard = [json.loads(text) for text in texts(json.dumps(said, ensure_ascii=True))]
        except Exception as error:
            BROKEN.set()
            if self._begun or not is_of_others(error):
                raise
            raise LostError(
                f"another process was lost while the run began ({error}); start all of them again"
            ) from error
        faults = [f"process {k} of {self.total}: {x['fault']}" for k, x in enumerate(heard) if "fault" in x]
        if faults and "fault" not in said:
            raise OtherError(faults[0])
        if heard[0].get("over") and not said.get("over"):
            raise Over
        return heard[0]

    def _watching(self, folder: Path, say: Say) -> Watch | None:
        """The watch; None where the processes do not share the run's folder."""
        if not is_joined():
            return None
        watch = Watch(folder / SIGNS, self.process, self.total, lambda: self._remedy(folder), say_at_once)
        watch.write()
        self._meet()
        if agreed(len(watch.signs()) < self.total):
            if self.is_first:
                say(f"Note: the processes do not all see {folder}, so nobody watches whether one of them is lost")
            else:
                _clear(folder)
            return None
        watch.begin()
        return watch

    def _remedy(self, folder: Path) -> str:
        every = ", in every process with its own number" if self.options else ", in every process"
        return f"The run {what_is_saved(folder)} --distributed{self.options}{every} (of any number of processes)"

    def _hold(self) -> None:
        """Waits before this process is ended by native code, until it is known who is lost."""
        if self._watch is not None:
            self._watch.wait()
        remedy = "Start all of them again" if self._watch is None else self._remedy(self._watch.folder.parent)
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
    signs = folder if folder.name == SIGNS else folder / SIGNS
    with contextlib.suppress(OSError):
        for path in signs.glob("*.json"):
            path.unlink()
        signs.rmdir()
        if folder is not signs:
            folder.rmdir()
