"""The fitting loop: chunks of compiled steps; progress, held-out scores, stopping and callbacks between them."""

from __future__ import annotations

import contextlib
import enum
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.algorithm import Algorithm, Info, State
from vijax.families.base import require_integers
from vijax.interrupt import interrupt_flag
from vijax.loader import Loader, as_loader
from vijax.loop import run_chunk, stacked
from vijax.restarts import Many, best, many, of_run
from vijax.result import Fit


class Status(enum.StrEnum):
    """Why a fit stopped."""

    FINISHED = "finished: all steps were run"
    CONVERGED = "converged: the objective changed by less than tol"
    STOPPED = "stopped by a callback"
    INTERRUPTED = "interrupted; go on with vijax.fit(..., state=fit.state)"
    DIVERGED = (
        "diverged: too many steps in a row were not finite and were skipped; the last good state is kept. "
        "Try smaller steps, a ramp, or check the data for extreme values"
    )


class DivergedError(ArithmeticError):
    """A fit stopped because its steps were not finite; `fit` holds the last good state."""

    def __init__(self, fit: Fit):
        super().__init__(str(fit.status))
        self.fit = fit


class Progress(NamedTuple):
    """What a callback sees between chunks.

    Attributes:
      step: steps done, since the state was made.
      num_steps: steps there will be.
      steps_per_epoch: steps in one pass over the data.
      state: as it stands (of several restarts, the best one's); *donated* to the next chunk, so copy what you keep.
      trace: named arrays, one entry for each step since the last call.
      num_groups_seen: groups read by this call of `fit`.
      num_words_seen: words read by it, or None.
      elapsed_s: seconds since its first step.
      num_groups: groups in the whole data set.
      num_words: words in it, or None.
      alg: the algorithm.
      stopping: this is the last call: the run ends here, for whatever reason.
      whole: what `vijax.fit(..., state=)` goes on from: `state`, or the states of all restarts.
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


Callback = Callable[[Progress], bool | None]


def fit(
    alg: Algorithm,
    data: Any,
    *,
    key: PRNGKeyArray,
    num_epochs: float | None = None,
    num_steps: int | None = None,
    batch_size: int | None = None,
    state: State | None = None,
    restarts: int = 1,
    callbacks: Sequence[Callback] = (),
    steps_per_chunk: int | None = None,
    tol: float | None = None,
    max_bad_steps: int = 10,
    throw: bool = True,
) -> Fit:
    """Runs an algorithm over data.

    Args:
      alg: what `vijax.svi` and its relatives return.
      data: a corpus, or anything `vijax.data.read` reads, for models of documents; else a pytree of arrays with one
        leading axis of groups; or a `Loader` of your own.
      key: the run's randomness: where the state starts, the order of the batches, every draw.
      num_epochs: passes over the data (give this or `num_steps`).
      num_steps: steps, counted from the first of the run, also when it goes on from `state`.
      batch_size: groups a step; None takes the whole data set at every step.
      state: where to go on from (with restarts: a callback's `Progress.whole`); None starts afresh. With the same key
        and arguments, a run in two parts equals a run in one, bit for bit.
      restarts: runs from different starts, side by side on the same batches, of which the best by its objective is
        returned (and shown to callbacks, the best so far); `fit.trace["restart_elbo"]` has the objectives of all, of
        shape (steps, restarts). It takes so many times the memory.
      callbacks: called between chunks with a `Progress`; one that returns true stops the run.
      steps_per_chunk: steps in one compiled call, between which progress is seen; it cannot change the numbers.
      tol: stop when the relative change of the objective over a chunk falls below it (full data).
      max_bad_steps: stop after this many skipped steps in a row.
      throw: raise `DivergedError` on divergence; otherwise `fit.status` tells.

    Returns:
      A `Fit`.

    Raises:
      ValueError: an argument that makes no sense.
      DivergedError: see `throw`.

    >>> import vijax as vi
    >>> coin = vi.model(
    ...     prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
    ...     local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    ... )
    >>> run = vi.fit(vi.cavi(coin), jnp.array([1.0, 1.0, 0.0, 1.0]), key=jax.random.key(0), num_steps=2)
    >>> float(run.posterior["bias"].mean()), run.status.name
    (0.6666666865348816, 'FINISHED')
    """
    if not isinstance(alg, Algorithm):
        raise ValueError(
            f"alg: expected an algorithm, got {type(alg).__name__}. Choose one: vijax.fit(vijax.svi(model), ...)."
        )
    key_init, key_run, key_order = jax.random.split(key, 3)
    seed = int(jax.random.randint(key_order, (), 0, np.iinfo(np.int32).max))
    loader = as_loader(data, alg.spec.model, batch_size, seed)
    total = _num_steps(num_epochs, num_steps, loader)
    _check_restarts(restarts, state)
    runs = alg if restarts == 1 else many(alg, restarts)
    # Chunks donate their state: the caller keeps his, and no two leaves may share a buffer.
    state = jax.tree.map(jnp.copy, _start(runs, loader, key_init) if state is None else state)
    length = min(total, steps_per_chunk or (50 if loader.steps_per_epoch == 1 else 10))
    chunks = _Chunks(runs, loader, key_run, max(1, length), total)
    status, traces = _run(chunks, state, callbacks, tol, max_bad_steps)
    result = Fit(alg, *_view(chunks.state, _joined(traces)), status)
    if throw and status is Status.DIVERGED:
        raise DivergedError(result)
    return result


def _check_restarts(restarts: int, state: Any) -> None:
    require_integers(restarts=restarts)
    if state is None or restarts == (len(state.recent) if isinstance(state, Many) else 1):
        return
    if isinstance(state, Many):
        raise ValueError(f"restarts: expected {len(state.recent)}, as in `state`, got {restarts}.")
    raise ValueError(
        f"restarts: expected 1 where a run goes on from `state`, got {restarts}. Leave one of them out, or give the "
        "`whole` of a callback's last Progress."
    )


def _view(state: Any, trace: dict[str, np.ndarray]) -> tuple[State, dict[str, np.ndarray]]:
    """One run's state and trace: the best one's of several."""
    if not isinstance(state, Many):
        return state, trace
    alone, trace_alone = of_run(best(state), state, trace)
    return alone, {**trace_alone, "restart_elbo": trace["elbo"]} if trace else {}


def _start(alg: Algorithm, loader: Loader, key: PRNGKeyArray) -> State:
    """Where a run begins; the first batch is there for models whose start depends on the data."""
    batch = next(iter(loader.batches(0, 1)))
    return alg.init(key, batch)


def _num_steps(num_epochs: float | None, num_steps: int | None, loader: Loader) -> int:
    if (num_epochs is None) == (num_steps is None):
        raise ValueError("num_epochs, num_steps: expected exactly one of the two.")
    total = round(num_epochs * loader.steps_per_epoch) if num_epochs is not None else num_steps or 0
    if total < 1:
        raise ValueError(f"num_epochs, num_steps: expected at least one step, got {total}.")
    return total


class _Chunks:
    """Runs chunks one after the other; holds the one live state (each chunk consumes its predecessor's)."""

    def __init__(self, alg: Algorithm, loader: Loader, key: PRNGKeyArray, length: int, total: int):
        self.alg, self.loader, self.key, self.length, self.total = alg, loader, key, length, total
        self.state: State
        self.groups_seen = self.words_seen = 0.0

    def run(self, state: State) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        """Yields each chunk's trace and the step it ended at."""
        self.state, done = state, int(state.step)
        source = _prefetched(self._inputs(done))
        with contextlib.closing(source):
            for batches, count in source:
                self.state, infos = run_chunk(
                    self.alg.step, self.length, self.key, self.state, batches, jnp.int32(count)
                )
                done += count
                yield self._trace(infos, done, count), done

    def _inputs(self, start: int) -> Iterator[tuple[Any, int]]:
        """Stacked batches of each chunk; full data are put on the device once."""
        if self.loader.steps_per_epoch == 1:
            fixed = jax.device_put(stacked(self.loader.batches(0, 1), 1, 1))
            for first in range(start, self.total, self.length):
                yield fixed, min(self.length, self.total - first)
            return
        batches = self.loader.batches(start, self.total)
        for first in range(start, self.total, self.length):
            count = min(self.length, self.total - first)
            yield jax.device_put(stacked(batches, self.length, count)), count

    def _trace(self, infos: Info, done: int, count: int) -> dict[str, np.ndarray]:
        scalars = infos._replace(per_group=None)._asdict()
        trace = {k: np.asarray(v)[:count] for k, v in scalars.items() if v is not None}
        share = 1 / trace["num_groups"][0].size  # restarts read the same groups
        self.groups_seen += share * float(trace["num_groups"].sum())
        self.words_seen += share * float(trace["num_words"].sum()) if "num_words" in trace else 0.0
        return {"step": np.arange(done - count, done), **trace}


def _prefetched(inputs: Iterator) -> Generator:
    from vijax.data import prefetch

    return prefetch(_in_precision(inputs, jnp.result_type(float) == np.float64), size=1)


def _in_precision(inputs: Iterator, x64: bool) -> Iterator:
    """`with jax.enable_x64()` holds in one thread only, and the data are put on the device in another."""
    with jax.enable_x64(x64):
        yield from inputs


def _run(
    chunks: _Chunks, state: State, callbacks: Sequence[Callback], tol: float | None, max_bad_steps: int
) -> tuple[Status, list[dict[str, np.ndarray]]]:
    traces: list[dict[str, np.ndarray]] = []
    started = time.perf_counter()
    status = Status.FINISHED
    chunks.state = state
    with interrupt_flag() as interrupted:
        for trace, done in chunks.run(state):
            traces.append(trace)
            status = _verdict(chunks.state, traces, tol, max_bad_steps, interrupted.is_set())
            stopping = status is not Status.FINISHED or done >= chunks.total
            seen = _progress(chunks, trace, done, time.perf_counter() - started, stopping)
            asked = [callback(seen) for callback in callbacks]
            if stopping:
                break
            if any(asked):
                status = Status.STOPPED
                break
    return status, traces


def _verdict(
    state: State, traces: list[dict[str, np.ndarray]], tol: float | None, max_bad_steps: int, interrupted: bool
) -> Status:
    if int(state.bad_steps) >= max_bad_steps:
        return Status.DIVERGED
    if interrupted:
        return Status.INTERRUPTED
    if tol is not None and _settled(traces, tol):
        return Status.CONVERGED
    return Status.FINISHED


def _settled(traces: list[dict[str, np.ndarray]], tol: float) -> bool:
    """The objective at the end of this chunk against the end of the last one."""
    ends = [np.asarray(trace["elbo"][-1]) for trace in traces[-2:]]
    return len(ends) == 2 and bool(np.all(np.abs(ends[1] - ends[0]) <= tol * np.abs(ends[1])))


def _progress(chunks: _Chunks, trace: dict, done: int, elapsed: float, stopping: bool) -> Progress:
    loader = chunks.loader
    state, trace = _view(chunks.state, trace)
    return Progress(
        done,
        chunks.total,
        loader.steps_per_epoch,
        state,
        trace,
        chunks.groups_seen,
        chunks.words_seen or None,
        elapsed,
        loader.num_groups,
        loader.num_words,
        chunks.alg,
        stopping,
        chunks.state,
    )


def _joined(traces: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([t[name] for t in traces]) for name in traces[0]} if traces else {}
