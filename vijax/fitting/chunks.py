"""The chunks of a run, one after the other: batches read ahead, callbacks between them, and why the
run ends."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vijax.data.loader import Loader
from vijax.data.streams.threads import count_threads, read_batches
from vijax.fitting.interrupt import interrupt_flag
from vijax.fitting.loop import ChunkEnd, look_every, most_steps, runs_of_one_shape, stack
from vijax.fitting.restarts import Many, best, one_run, update_runs
from vijax.fitting.status import Status
from vijax.fitting.step_infos import InfoTables
from vijax.inference.compose import Algorithm
from vijax.inference.state import State
from vijax.inference.stopping import CHECK_EVERY, next_look, record_checks, remaining_gain
from vijax.scale.device_data import DeviceData
from vijax.scale.place import ManyDevices, OneDevice
from vijax.xla.precision import enable_x64


class Progress(NamedTuple):
    """The argument of callbacks between chunks.

    Attributes:
      step: steps done, since the state was made.
      num_steps: steps of the whole run.
      steps_per_epoch: steps in one pass over the data.
      state: the present state (with restarts: the state of the best run); *donated* to the next
          chunk, so copy what you keep.
      trace: named arrays, one entry for each step since the last call.
      num_groups_seen: groups that this call of `fit` has read.
      num_words_seen: words that it has read, or None.
      elapsed_s: seconds since its first step.
      num_groups: groups in the data set.
      num_words: words in the data set, or None.
      alg: the algorithm.
      stopping: True at the last call: the run ends here, for whatever reason.
      whole: the argument by which `vijax.fit(..., state=)` resumes: `state`, or the states of all
          restarts.
      gain: the remaining relative gain of the objective, which is compared with `tol`; infinite
        before it was first judged, None without `tol`.
      data_place: a sentence on data that lie on the device; "" where batches come from the host.
    """

    step: int
    num_steps: int
    steps_per_epoch: int
    state: State
    trace: dict[str, np.ndarray]
    num_groups_seen: float
    num_words_seen: float | None
    elapsed_s: float
    num_groups: int
    num_words: int | None
    alg: Algorithm
    stopping: bool
    whole: Any
    gain: float | None = None
    data_place: str = ""

    @property
    def num_skipped(self) -> int:
        """Steps skipped since step 0, because their value or gradient was not finite."""
        return int(self.state.num_skipped)


Callback = Callable[[Progress], bool | None]


# --- convergence ----------------------------------------------------------------------------------
class Rule(NamedTuple):
    """The rule of convergence. It reads only the state, so that a resumed run ends where the
    unbroken one does."""

    tol: float
    window: int
    """The watch's window for a noisy objective; 0 for others."""
    first_step: int
    """The step at which the watch began."""

    @classmethod
    def from_state(cls, tol: float, window: int, state: State | Many) -> Rule:
        """The rule for a run that begins with this state."""
        return cls(tol, window, int(state.step) - int(np.max(state.watch.observed)))

    @property
    def is_noisy(self) -> bool:
        """True where the state's watch judges convergence."""
        return self.window > 0

    def next(self, step: int) -> int:
        """The next step at which convergence is judged."""
        if self.is_noisy:
            return self.first_step + next_look(step - self.first_step, self.window)
        return step + CHECK_EVERY - step % CHECK_EVERY

    def gain(self, state: State | Many) -> float:
        """The remaining relative gain of the objective: the largest of all restarts."""
        gains = state.watch.gain if self.is_noisy else remaining_gain(np.asarray(state.checked))
        gains = np.asarray(gains)
        return float(np.max(np.where(np.isnan(gains), np.inf, gains)))

    def is_met(self, state: State | Many) -> bool:
        """True where the run has converged; without noise the last check alone decides."""
        is_due = self.is_noisy or int(state.step) % CHECK_EVERY == 0
        rounding = 0.0 if self.is_noisy else float(np.finfo(np.asarray(state.checked).dtype).eps)
        return is_due and self.gain(state) <= max(self.tol, rounding)


# --- the loop -------------------------------------------------------------------------------------
SHORT_S = 0.05
"""Seconds. Where no callback follows the chunks, the chunk after a shorter one has four times as
many steps: calls then cost little, and Ctrl-C is still answered soon."""


class Pace(NamedTuple):
    """The lengths of chunks.

    Attributes:
      capacity: most steps of a chunk.
      starts_short: True where the first chunk has few steps.
      grows: True where later chunks may have more. Chunks that callbacks or other processes follow
        have one length.
      is_followed: True where callbacks or other processes follow the chunks.
    """

    capacity: int
    starts_short: bool
    grows: bool
    is_followed: bool

    @classmethod
    def choose(
        cls, loader: Loader, total: int, steps_per_chunk: int | None, is_followed: bool
    ) -> Pace:
        """The pace that the caller asked for, or the usual one."""
        is_usual = steps_per_chunk is None
        usual = most_steps(loader, is_followed)
        # A short run has the usual capacity too: it shares the program of a long one.
        capacity = min(steps_per_chunk or usual, max(total, usual))
        return cls(capacity, is_usual, is_usual and not is_followed, is_followed)


Advance = Callable[..., tuple[Any, InfoTables, ChunkEnd]]
"""(state, batches, number of steps, whether the state's watch observes, is_queued=) -> (state,
infos, end): see `vijax.fitting.loop.run_chunk`."""


class _RunningChunk(NamedTuple):
    """A chunk that the device computes."""

    tables: InfoTables
    end: ChunkEnd
    begin_s: float


class _ChunkResult(NamedTuple):
    """A chunk: its trace, the number of steps done after it, and how many of the last were bad."""

    trace: dict[str, np.ndarray]
    step: int
    bad_steps: int


class Chunks:
    """Runs chunks one after the other; holds the one live state (each chunk consumes the state of
    the chunk before)."""

    def __init__(
        self,
        alg: Algorithm,
        advance: Advance,
        loader: Loader,
        pace: Pace,
        total: int,
        rule: Rule | None,
        placement: OneDevice | ManyDevices,
        device_data: DeviceData | None,
    ):
        self.alg = alg
        self.advance = advance
        self.loader = placement.adapt_loader(loader)
        self.capacity = pace.capacity
        self.total = total
        self.placement = placement
        self.device_data = device_data
        self.rule = rule  # a chunk ends where convergence is judged
        self.is_fixed = self.loader.steps_per_epoch == 1  # every step reads the same data
        self.look = look_every(self.is_fixed)
        self.grows = pace.grows
        self.pace = pace.capacity  # steps of the next chunk
        if pace.starts_short:
            self.pace = min(self.look, self.capacity)
        self.is_watched = rule is not None and rule.window > 0
        # True where nobody looks at the state between chunks
        self.queues = not pace.is_followed and rule is None
        self.state: Any  # State or Many
        self.step: int  # of the last chunk that was read
        self.checked: Any  # the state's, after that chunk
        self.running: _RunningChunk | None = None  # a chunk that was not read yet
        self.groups_seen = 0.0
        self.words_seen = 0.0

    @property
    def data_place(self) -> str:
        """See `Progress`."""
        if self.device_data is None:
            return ""
        return self.device_data.sentence

    def run(self, state: State) -> Iterator[_ChunkResult]:
        """Yields each chunk when it is finished. Where nobody looks at the state between chunks the
        next one is queued before the last is read, so that the device does not wait: then the state
        may be one chunk ahead of what was yielded, and `drain` yields that chunk."""
        self.state = state
        self.checked = np.asarray(state.checked)
        self.step = int(state.step)
        with contextlib.closing(self._open_inputs(self.step)) as inputs:
            for batches, count, _ in inputs:
                placed_state = self.placement.put_state(self.state)
                running = self.running
                begin_s = time.perf_counter()
                self.state, tables, end = self.advance(
                    placed_state,
                    batches,
                    np.int32(count),
                    self.is_watched,
                    is_queued=running is not None,
                )
                self.running = _RunningChunk(tables, end, begin_s)
                if running is not None:
                    yield self._finish(running)
                if not self.queues:
                    yield from self.drain()
        yield from self.drain()

    def drain(self) -> Iterator[_ChunkResult]:
        """Yields the chunk that is running, if there is one."""
        running = self.running
        if running is not None:
            self.running = None
            yield self._finish(running)

    def _finish(self, running: _RunningChunk) -> _ChunkResult:
        """A chunk, for which this waits, and its trace."""
        num_run = int(running.end.num_run)  # fewer than asked after bad steps
        self.step += num_run
        trace = self._trace(running.tables, self.step, num_run)
        self._record(trace["elbo"], self.step)
        if self.grows and time.perf_counter() - running.begin_s < SHORT_S:
            self.pace = min(4 * self.pace, self.capacity)
        return _ChunkResult(trace, self.step, int(running.end.bad_steps))

    def _open_inputs(self, step: int) -> Generator[tuple[Any, int, Any]]:
        """The batches of the chunks, read ahead in a thread where there is anything to read."""
        inputs = self._inputs(step)
        if self.is_fixed:  # nothing to fetch, and a thread would cost time
            return inputs
        return self.placement.synchronize(
            _prefetch(inputs), step, self.capacity, self.total, self.loader
        )

    def _record(self, elbo: np.ndarray, step: int) -> None:
        checked = record_checks(self.checked, elbo, step)
        if checked is self.checked:  # the state has it
            return
        self.checked = np.asarray(checked)  # what a state has is donated with it
        self.state = update_runs(self.state, lambda runs: runs._replace(checked=checked))

    def _inputs(self, start: int) -> Generator[tuple[Any, int, Any]]:
        """Stacked batches of each chunk and their number; with the first batches of a chunk also
        the notice of it that other processes receive. Full data are put on the device once."""
        if self.is_fixed:
            full_data = self.placement.put_batches(stack(self.loader.batches(0, 1), 1, 1))
            for count in self._counts(start):
                yield full_data, count, None
            return
        if self.device_data is not None:
            picks = self.device_data.picks(start, self.total)
            for count in self._counts(start):
                yield self.device_data.batches(stack(picks, self.capacity, count)), count, None
            return
        threads = count_threads(self.placement.devices[0].platform)
        batches = read_batches(self.loader, start, self.total, threads)
        for count in self._counts(start):
            chunk, notice = self.placement.announce(itertools.islice(batches, count), start, count)
            start += count
            for run in runs_of_one_shape(chunk):
                stacked = stack(iter(run), self.capacity, len(run))
                yield self.placement.put_batches(stacked), len(run), notice
                notice = None

    def _counts(self, step: int) -> Iterator[int]:
        """The number of steps of each chunk."""
        while step < self.total:
            count = self.pace
            if self.grows:
                # It ends at a look, as chunks of any pace do: time cannot decide where a bad run
                # ends.
                count -= (step + self.pace) % self.look
            count = min(count, self.total - step)
            if self.rule is not None:
                count = min(count, self.rule.next(step) - step)
            yield count
            step += count

    def _trace(self, tables: InfoTables, step: int, count: int) -> dict[str, np.ndarray]:
        """The infos of `count` steps up to `step`, by name; also counts groups and words."""
        info = jax.device_get(tables).infos()
        numbers = {"elbo": info.elbo, **info._asdict(), **info.said}
        # Copies: a view would keep the device's buffers of every chunk alive.
        trace = {
            name: np.array(column[:count])
            for name, column in numbers.items()
            if name not in ("bound", "said", "per_group")
        }
        share = 1 / math.prod(trace["num_groups"].shape[1:])  # restarts read the same groups
        self.groups_seen += share * float(trace["num_groups"].sum())
        if "num_words" in trace:
            self.words_seen += share * float(trace["num_words"].sum())
        return {"step": np.arange(step - count, step), **trace}


def _prefetch(inputs: Iterator) -> Generator:
    from vijax.data import prefetch

    return prefetch(_with_x64(inputs, jnp.result_type(float) == np.float64), size=1)


def _with_x64(inputs: Iterator, x64: bool) -> Iterator:
    """Items, computed with or without x64. `enable_x64()` holds in one thread only, and batches are
    put on the device in another thread. It ends before each item is yielded: a generator that is
    closed early would end it in the thread that closes it."""
    while True:
        with enable_x64(x64):
            item = next(inputs, None)
        if item is None:
            return
        yield item


MANY_TRACES = 512
"""Traces of chunks that become one: many small arrays take far more room than their numbers."""


def run_chunks(
    chunks: Chunks, state: State, callbacks: Sequence[Callback], max_bad_steps: int
) -> tuple[Status, list[dict[str, np.ndarray]]]:
    """Runs all chunks, with callbacks between them; returns why it ended, and the traces."""
    traces: list[dict[str, np.ndarray]] = []
    num_long = 0  # traces at the head of the list that are of many chunks
    begin_s = time.perf_counter()
    chunks.state = state
    rule = chunks.rule
    if rule is not None and rule.is_met(state):  # it resumes a run that has converged
        return Status.CONVERGED, traces
    status = Status.FINISHED
    with interrupt_flag() as interrupted:
        for trace, step, bad_steps in chunks.run(state):
            traces.append(trace)
            if len(traces) - num_long == MANY_TRACES:
                traces[num_long:] = [concatenate(traces[num_long:])]
                num_long += 1
            is_interrupted = chunks.placement.any_process(interrupted.is_set())
            status = _status(chunks.state, bad_steps, rule, max_bad_steps, is_interrupted)
            stopping = status is not Status.FINISHED or step >= chunks.total
            elapsed_s = time.perf_counter() - begin_s
            answers = []
            if callbacks:
                progress = _progress(chunks, trace, step, elapsed_s, stopping)
                answers = [callback(progress) for callback in callbacks]
            if stopping:
                traces += [chunk.trace for chunk in chunks.drain()]
                break
            if chunks.placement.any_process(any(answers)):
                status = Status.STOPPED
                break
    return status, traces


def _status(
    state: State | Many,
    bad_steps: int,
    rule: Rule | None,
    max_bad_steps: int,
    interrupted: bool,
) -> Status:
    """The status after a chunk: `FINISHED` where nothing ends the run early."""
    if bad_steps >= max_bad_steps:
        return Status.DIVERGED
    if interrupted:
        return Status.INTERRUPTED
    if rule is not None and rule.is_met(state):
        return Status.CONVERGED
    return Status.FINISHED


def _progress(chunks: Chunks, trace: dict, step: int, elapsed_s: float, stopping: bool) -> Progress:
    """The argument of callbacks after a chunk."""
    loader = chunks.loader
    all_runs = chunks.placement.callback_state(chunks.state)
    state, trace = best_run(all_runs, trace)
    return Progress(
        step=step,
        num_steps=chunks.total,
        steps_per_epoch=loader.steps_per_epoch,
        state=state,
        trace=trace,
        num_groups_seen=chunks.groups_seen,
        num_words_seen=chunks.words_seen or None,
        elapsed_s=elapsed_s,
        num_groups=loader.num_groups,
        num_words=loader.num_words,
        alg=chunks.alg,
        stopping=stopping,
        whole=all_runs,
        gain=None if chunks.rule is None else chunks.rule.gain(chunks.state),
        data_place=chunks.data_place,
    )


def best_run(state: Any, trace: dict[str, np.ndarray]) -> tuple[State, dict[str, np.ndarray]]:
    """State and trace of the best run, and the objectives of all; a single run as it is."""
    if not isinstance(state, Many):
        return state, trace
    run_state, run_trace = one_run(best(state), state, trace)
    return run_state, {**run_trace, "restart_elbo": trace["elbo"]} if trace else {}


def concatenate(traces: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The traces of chunks as one; empty where no chunk ran."""
    if not traces:
        return {}
    return {name: np.concatenate([trace[name] for trace in traces]) for name in traces[0]}
