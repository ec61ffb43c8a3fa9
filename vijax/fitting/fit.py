"""The fitting loop: chunks of compiled steps; progress, held-out scores, stopping and callbacks
between them."""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PRNGKeyArray

from vijax import tree
from vijax.arguments import Positive, Size
from vijax.checks import check_key, require_on_host
from vijax.data.loader import Loader, as_loader, loader_words
from vijax.data.schema.named_columns import names_of
from vijax.fitting.fit_arguments import (
    check_batches,
    check_enough,
    check_hyper,
    check_not_forked,
    check_restarts,
    check_whole,
    num_steps_of,
    usual_words,
    warn_of_far_prior,
    warn_of_many_devices,
)
from vijax.fitting.interrupt import interrupt_flag
from vijax.fitting.judge import Judge
from vijax.fitting.loop import look_every, most_steps, run_chunk, runs_of_one_shape, stacked
from vijax.fitting.restarts import Many, best, in_runs, many, of_run, warn_of_equal_starts
from vijax.fitting.result import Fit
from vijax.fitting.resumed import begun, gone_on
from vijax.fitting.room import check_room
from vijax.fitting.status import FAILED, DivergedError, SkippedStepsWarning, Status, skipped_text
from vijax.fitting.step_infos import Told
from vijax.inference.compose import Algorithm, State
from vijax.inference.stopping import (
    CHECK_EVERY,
    next_look,
    record_checks,
    remaining_gain,
    watch,
    window_of,
)
from vijax.inference.wrappers.wrapper import generalize
from vijax.scale.lost import fail_together, name_lost_process
from vijax.scale.place import ManyDevices, OneDevice, choose_placement, is_shared
from vijax.scale.steps import on_mesh
from vijax.topics.decision import settled
from vijax.verdict.improper import report_of_improper
from vijax.xla import keys
from vijax.xla.precision import enable_x64


class Progress(NamedTuple):
    """The argument of callbacks between chunks.

    Attributes:
      step: steps done, since the state was made.
      num_steps: steps of the whole run.
      steps_per_epoch: steps in one pass over the data.
      state: the present state (of several restarts, the best's); *donated* to the next chunk, so
          copy what you keep.
      trace: named arrays, one entry for each step since the last call.
      num_groups_seen: groups read by this call of `fit`.
      num_words_seen: words read by it, or None.
      elapsed_s: seconds since its first step.
      num_groups: groups in the whole data set.
      num_words: words in it, or None.
      alg: the algorithm.
      stopping: this is the last call: the run ends here, for whatever reason.
      whole: the argument with which `vijax.fit(..., state=)` goes on: `state`, or the states of all
          restarts.
      gain: the remaining gain of the objective, relative to itself, as it is compared with `tol`;
        infinite where it has not been judged yet, None without `tol`.
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

    @property
    def num_skipped(self) -> int:
        """Steps skipped since step 0, because their value or gradient was not finite."""
        return int(self.state.num_skipped)


Callback = Callable[[Progress], bool | None]


def fit(
    alg: Algorithm,
    data: Any = None,
    *,
    key: PRNGKeyArray,
    num_epochs: Positive | None = None,
    num_steps: Size | None = None,
    batch_size: Size | None = None,
    state: State | None = None,
    hyper: Mapping[str, Any] | None = None,
    restarts: Size = 1,
    callbacks: Sequence[Callback] = (),
    steps_per_chunk: int | None = None,
    tol: Positive | None = None,
    max_bad_steps: int = 10,
    throw: bool = True,
    mesh: Mesh | None = None,
) -> Fit:
    """Runs an algorithm over data.

    Args:
      alg: an algorithm, as `vijax.svi` and its relatives return.
      data: a corpus, or anything `vijax.data.read` reads, or documents in Parquet files
        (`vijax.data.shards`), for models of documents; else a pytree of arrays with one leading
        axis of groups, or rows of Parquet files (`vijax.data.rows`); or batches from elsewhere
        (`vijax.data.stream`), or a `Loader` of your own. None for a density that reads none.
      key: random key of the run: of the start, the order of the batches, every draw.
      num_epochs: passes over the data. Give this or `num_steps`.
      num_steps: steps, counted from the first of the run, also when it goes on from `state`.
      batch_size: groups a step at most. None takes the whole data set at every step, but of
        documents 256 under rows of many small steps (`svi`, `ssvi`, `ssvi_a`), and more of short
        ones under `svi`: 65,536 words, or half of the documents (`vijax.data.loader.usual_size`). A
        pass is cut evenly, into ceil(N / batch_size) batches that differ by one group at most (of
        documents, N / batch_size rounded): 1,605 in batches of 100 are 17 of 94 or 95.
      state: the state to go on from (with restarts: a callback's `Progress.whole`); None starts
        afresh. With the same key and arguments, a run in two parts equals a run in one, bit for
        bit. With other data the fit goes on from its posterior, and its memory of the old data is
        begun anew (`docs/how-to/resume.md`).
      hyper: values of some of the model's points (`Model.hyper`) instead of its own, of the same
        shapes: one compiled program serves all values.
      restarts: number of runs from different starts, side by side on the same batches. The run with
        the best objective is returned (callbacks see the best so far); `fit.trace["restart_elbo"]`
        has the objectives of all, of shape (steps, restarts). Memory grows with this number.
      callbacks: called between chunks with a `Progress`; one that returns true stops the run.
      steps_per_chunk: steps in one compiled call; progress is shown between calls. None takes 50 on
        full data and 10 on minibatches; up to 500, and 50 of small arrays, where they are fast and
        there are no callbacks. It cannot change the posterior. (The reported objective may change
        in its last digit, because another number is another program.)
      tol: stop when the remaining gain of the objective is below this, relative to the objective. A run that has
        converged takes no more steps, also where it goes on from `state`. On full data without draws, the gain is the
        objective's last change over 50 steps, and the rest if later changes shrink as it did, at steps 50, 100, 150,
        .... A change of the last digit counts as none, so in float32 any `tol` below 1.2e-7 means this; one below 1e-6
        may never be met, because sums of many terms round. On minibatches, or with draws, it is an upper limit at 95 %
        of the gain of as many more steps as the last half of the run, by averages over passes, after 16, 24, 32, 48,
        ... of them (`vijax.inference.stopping` gives its error rates; passes of fewer than 10 steps count together,
        passes of more than 200 in parts). Where the noise of these averages is far above `tol` the fit runs to its last
        step. 1e-3 suits most minibatches.
      max_bad_steps: stop after this many skipped steps in a row.
      throw: raise `DivergedError` where a fit diverged, most of its steps were skipped, or the
        bound of a log density is seen to grow without limit; otherwise `fit.status` and
        `fit.verdict` say so. `fit.verdict` also says whether to trust a fit that has finished.
      mesh: devices (`vijax.scale.mesh(8)`), along one axis, of this process or of all
        (`vijax.scale.initialize`). Each batch is split over them by groups; batches that they do
        not divide are padded, and padding weighs nothing. The fit is that of one device up to
        rounding, and its result lies on one. Locals that are drawn are drawn by group, the same on
        any number of devices, one included; without a mesh they are others
        (`docs/how-to/devices.md`).

    Steps whose value or gradient is not finite are skipped: the state stays as it was.
    `fit.num_skipped` counts them.

    `svi` and `ssvi_a` of topics take steps by words (`vijax.topics.by_words`) where batches hold
    less than half of a large vocabulary and nothing else is said: the same steps, or the same in
    law. `fit.alg` and `print(fit)` say so. It is decided once, from the first pass; a fit that goes
    on from `state` keeps its form.

    Returns:
      A `Fit`.

    Raises:
      ValueError: an argument that makes no sense; a state that was fitted to other words; data that
        are not finite; minibatches under steps of size one; a call within `jax.jit` or `jax.vmap`,
        which `alg.init` and `alg.step` are made for.
      DivergedError: see `throw`.
      RuntimeError: the process was forked from one that had fitted something; XLA would hang.

    Warns:
      SkippedStepsWarning: some steps were skipped.
      FarFromPriorWarning: columns lie so far from the place or the scale of the model's prior that
          the fit is worse.
      ForgottenWarning: messages, locals or kernels that `state` remembers are not of these data.

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
            f"alg: expected an algorithm, got {type(alg).__name__}. Choose one: "
            "vijax.fit(vijax.svi(model), ...)."
        )
    check_not_forked()
    require_on_host(
        "vijax.fit", data, key, state, hyper, alg.spec.model.hyper, alg.spec.model.form.given
    )
    check_key(key)
    check_whole(alg)
    if mesh is None:
        warn_of_many_devices(data)
    else:
        on_mesh(alg, mesh)  # it refuses what cannot be done
    key_init, key_run, seed = keys.run_keys(key)
    spec = alg.spec
    with fail_together(is_shared(mesh)):
        loader = source = as_loader(
            data, spec.model, batch_size, int(seed), spec.messages.num_parts, usual_words(alg)
        )
        check_enough(spec.model, loader)
        check_room(spec.model, loader)
        if state is None:
            warn_of_far_prior(spec, loader)
        alg = settled(alg, loader, state)
        for wrapper in alg.wrappers:
            loader = wrapper.loader(loader, alg)
        total = num_steps_of(num_epochs, num_steps, loader)
        check_restarts(restarts, state)
        check_hyper(hyper, spec.model, state)
        check_batches(alg, loader, total)
        shared, more = generalize(alg)
        runs, points = (
            shared if restarts == 1 else many(shared, restarts),
            {**spec.model.hyper, **(hyper or {})},
        )
        is_new = state is None
        begin = begun if is_new else functools.partial(gone_on, state=state)
        state = begin(runs, loader, key_init, tree.as_arrays(points), more)
        if is_new and not spec.draws:
            warn_of_equal_starts(state)
        is_noisy = loader.steps_per_epoch > 1 or spec.draws
        window = window_of(loader.steps_per_epoch) if is_noisy else 0
        state = _watching(state, window) if window and tol is not None else state
    where = choose_placement(mesh, state, loader)
    is_seen = (
        bool(callbacks) or where.is_shared
    )  # chunks are then told to somebody: they have one length
    usual = most_steps(loader, is_seen)  # of a short run too: it shares the program of a long one
    length = min(steps_per_chunk or usual, max(total, usual))
    rule = (
        None
        if tol is None
        else _Rule(tol, window, int(state.step) - int(np.max(state.watch.observed)))
    )
    with name_lost_process(where.is_shared):
        where.require_alike_streams(loader)
        state = where.share_start(
            state,
            key=jax.random.key_data(key),
            steps=total,
            batches=loader.steps_per_epoch,
            chunk=length,
        )
        there = where.adapt_algorithm(shared, loader)
        steps = runs if there is shared else there if restarts == 1 else many(there, restarts)
        advance = functools.partial(
            run_chunk, steps.step, length, key_run, more, max_bad_steps=max_bad_steps
        )
        chunks = _Chunks(alg, advance, loader, length, total, rule, where)
        if steps_per_chunk is None:
            chunks.pace, chunks.grows = min(chunks.look, length), not is_seen
        status, traces = _run(chunks, state, callbacks, max_bad_steps)
        alone, trace = _view(where.plain_state(chunks.state), _joined(traces))
    is_judged = spec.model.free is not None and not hasattr(
        loader, "is_stream"
    )  # which cannot be read again
    judge = Judge(loader, int(seed), jnp.result_type(float) == np.float64) if is_judged else None
    words, names = loader_words(source), names_of(data, source)
    made = Fit(
        alg, alone, trace, _after_skips(status, alone), judge=judge, vocabulary=words, columns=names
    )
    result = _judged(made, loader, key_run)
    if throw and result.status in FAILED:
        raise DivergedError(result)
    _warn_of_skips(result)
    return result


def _after_skips(status: Status, state: State) -> Status:
    """The status after skips: a run that skipped more steps than it took has not finished, however
    short it was."""
    whole = status in (Status.FINISHED, Status.CONVERGED)
    return (
        Status.MOSTLY_SKIPPED if whole and 2 * int(state.num_skipped) > int(state.step) else status
    )


def _judged(fit: Fit, loader: Loader, key: PRNGKeyArray) -> Fit:
    """The fit as it is, unless its bound grows without limit."""
    state, spec = fit.state, fit.alg.spec
    stopped = fit.status in (Status.STOPPED, Status.INTERRUPTED)
    if spec.model.free is None or stopped or all(map(spec.is_point, state.posterior)):
        return fit
    report = report_of_improper(
        spec.model, state.hyper, state.posterior, next(iter(loader.batches(0, 1))), key
    )
    return fit if report is None else fit._replace(status=Status.UNBOUNDED, report=report)


def _warn_of_skips(fit: Fit) -> None:
    if fit.num_skipped:
        text = skipped_text(fit.num_skipped, int(fit.state.step), fit.skipped_of)
        where = "fit.trace['result'] and fit.trace['non_finite'] say which"
        warnings.warn(f"{text}; {where}.", SkippedStepsWarning, stacklevel=3)


def _view(state: Any, trace: dict[str, np.ndarray]) -> tuple[State, dict[str, np.ndarray]]:
    """State and trace of one run: the best one of several."""
    if not isinstance(state, Many):
        return state, trace
    alone, trace_alone = of_run(best(state), state, trace)
    return alone, {**trace_alone, "restart_elbo": trace["elbo"]} if trace else {}


# --- convergence ----------------------------------------------------------------------------------
class _Rule(NamedTuple):
    """The rule of convergence. It reads only the state, so that a resumed run ends where the
    unbroken one does."""

    tol: float
    window: int
    """The watch's window for a noisy objective; 0 for others."""
    begun: int
    """The step at which the watch began."""

    @property
    def is_noisy(self) -> bool:
        """True where the state's watch judges convergence."""
        return self.window > 0

    def next(self, done: int) -> int:
        """The next step at which convergence is judged."""
        if self.is_noisy:
            return self.begun + next_look(done - self.begun, self.window)
        return done + CHECK_EVERY - done % CHECK_EVERY

    def gain(self, state: State | Many) -> float:
        """The remaining relative gain of the objective: the largest of all restarts."""
        gains = (
            np.asarray(state.watch.gain)
            if self.is_noisy
            else remaining_gain(np.asarray(state.checked))
        )
        return float(np.max(np.where(np.isnan(gains), np.inf, gains)))

    def is_met(self, state: State | Many) -> bool:
        """True where the run has converged; without noise the last check alone decides."""
        due = self.is_noisy or int(state.step) % CHECK_EVERY == 0
        least = 0.0 if self.is_noisy else float(np.finfo(np.asarray(state.checked).dtype).eps)
        return due and self.gain(state) <= max(self.tol, least)


def _watching(state: State | Many, window: int) -> Any:
    """A state whose watch has windows of this length; begun anew where it had others."""
    if np.all(np.asarray(state.watch.window) == window):
        return state
    fresh, runs = watch(window, state.watch.gain.dtype), np.shape(state.watch.gain)
    own = lambda x: jnp.array(
        jnp.broadcast_to(x, (*runs, *x.shape)), copy=True
    )  # no two leaves share a buffer
    return in_runs(state, lambda state: state._replace(watch=jax.tree.map(own, fresh)))


# --- the loop -------------------------------------------------------------------------------------
SHORT_S = 0.05
"""Where no callback sees chunks, one that took less time than this is followed by one of four times
as many steps, so that what a chunk costs is little and Ctrl-C is heard soon."""


class _Chunks:
    """Runs chunks one after the other; holds the one live state (each chunk consumes the state of
    the chunk before)."""

    def __init__(
        self,
        alg: Algorithm,
        advance: Callable[[Any, Any, Any, bool], tuple[Any, Told]],
        loader: Loader,
        length: int,
        total: int,
        rule: _Rule | None,
        where: OneDevice | ManyDevices,
    ):
        self.alg, self.advance, self.loader = alg, advance, where.adapt_loader(loader)
        self.length, self.total, self.where = length, total, where
        self.rule = rule  # a chunk ends where convergence is judged
        self.pace, self.grows = (
            length,
            False,
        )  # steps of the next chunk; and whether it may take more, up to `length`
        self.look = look_every(self.loader.steps_per_epoch == 1)
        self.is_watched = rule is not None and rule.window > 0
        self.state: Any  # State or Many
        self.groups_seen = self.words_seen = 0.0

    def run(self, state: State) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        """Yields each chunk's trace and the step it ended at."""
        self.state, done = state, int(state.step)
        inputs, is_fixed = self._inputs(done), self.loader.steps_per_epoch == 1
        if is_fixed:  # nothing to fetch, and a thread would cost time
            source = inputs
        else:
            source = self.where.synchronize(
                _prefetched(inputs), done, self.length, self.total, self.loader
            )
        with contextlib.closing(source):
            for batches, count, _ in source:
                there, began = self.where.put_state(self.state), time.perf_counter()
                self.state, told = self.advance(there, batches, np.int32(count), self.is_watched)
                count, done = int(self.state.step) - done, int(self.state.step)
                trace = self._trace(told, done, count)
                self._record(trace["elbo"], done)
                if self.grows and time.perf_counter() - began < SHORT_S:
                    self.pace = min(4 * self.pace, self.length)
                yield trace, done

    def _record(self, elbo: np.ndarray, done: int) -> None:
        checked = record_checks(self.state.checked, elbo, done)
        self.state = in_runs(self.state, lambda runs: runs._replace(checked=checked))

    def _inputs(self, start: int) -> Generator[tuple[Any, int, Any]]:
        """Stacked batches of each chunk, their number, and with its first what other processes hear
        of the chunk; full data are put on the device once."""
        if self.loader.steps_per_epoch == 1:
            fixed = self.where.put_batches(stacked(self.loader.batches(0, 1), 1, 1))
            for count in self._counts(start):
                yield fixed, count, None
            return
        batches = self.loader.batches(start, self.total)
        for count in self._counts(start):
            chunk, told = self.where.announce(itertools.islice(batches, count), start, count)
            start += count
            for alike in runs_of_one_shape(chunk):
                yield (
                    self.where.put_batches(stacked(iter(alike), self.length, len(alike))),
                    len(alike),
                    told,
                )
                told = None

    def _counts(self, first: int) -> Iterator[int]:
        """The number of steps of each chunk."""
        while first < self.total:
            # A chunk that may grow ends where any other would, so that time cannot decide where a
            # bad run ends.
            count = min(
                self.pace - (first + self.pace) % self.look * self.grows, self.total - first
            )
            count = count if self.rule is None else min(count, self.rule.next(first) - first)
            yield count
            first += count

    def _trace(self, told: Told, done: int, count: int) -> dict[str, np.ndarray]:
        info = jax.device_get(told).infos()
        numbers = {"elbo": info.elbo, **info._asdict(), **info.said}
        # Copies: a view would keep the device's buffers of every chunk alive.
        trace = {
            name: np.array(x[:count])
            for name, x in numbers.items()
            if name not in ("bound", "said", "per_group")
        }
        share = 1 / trace["num_groups"][0].size  # restarts read the same groups
        self.groups_seen += share * float(trace["num_groups"].sum())
        self.words_seen += share * float(trace["num_words"].sum()) if "num_words" in trace else 0.0
        return {"step": np.arange(done - count, done), **trace}


def _prefetched(inputs: Iterator) -> Generator:
    from vijax.data import prefetch

    return prefetch(_in_precision(inputs, jnp.result_type(float) == np.float64), size=1)


def _in_precision(inputs: Iterator, x64: bool) -> Iterator:
    """Items computed in the given precision: `with enable_x64()` holds in one thread only, and the
    data are put on the device in another. It is left before each item is handed on: a generator
    that is closed early would leave it in the thread that closes it."""
    while True:
        with enable_x64(x64):
            item = next(inputs, None)
        if item is None:
            return
        yield item


def _run(
    chunks: _Chunks, state: State, callbacks: Sequence[Callback], max_bad_steps: int
) -> tuple[Status, list[dict[str, np.ndarray]]]:
    traces: list[dict[str, np.ndarray]] = []
    joined = 0  # of them; many small arrays take far more room than their numbers
    started = time.perf_counter()
    chunks.state = state
    rule = chunks.rule
    status = Status.CONVERGED if rule is not None and rule.is_met(state) else Status.FINISHED
    if status is Status.CONVERGED:  # it goes on from its end
        return status, traces
    with interrupt_flag() as interrupted:
        for trace, done in chunks.run(state):
            traces.append(trace)
            if len(traces) - joined == 512:
                traces[joined:] = [_joined(traces[joined:])]
                joined += 1
            status = _verdict(
                chunks.state, rule, max_bad_steps, chunks.where.any_process(interrupted.is_set())
            )
            stopping = status is not Status.FINISHED or done >= chunks.total
            seen = _progress(chunks, trace, done, time.perf_counter() - started, stopping)
            asked = [callback(seen) for callback in callbacks]
            if stopping:
                break
            if chunks.where.any_process(any(asked)):
                status = Status.STOPPED
                break
    return status, traces


def _verdict(
    state: State | Many, rule: _Rule | None, max_bad_steps: int, interrupted: bool
) -> Status:
    if int(state.bad_steps) >= max_bad_steps:
        return Status.DIVERGED
    if interrupted:
        return Status.INTERRUPTED
    if rule is not None and rule.is_met(state):
        return Status.CONVERGED
    return Status.FINISHED


def _progress(chunks: _Chunks, trace: dict, done: int, elapsed: float, stopping: bool) -> Progress:
    loader, whole = chunks.loader, chunks.where.callback_state(chunks.state)
    state, trace = _view(whole, trace)
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
        whole,
        None if chunks.rule is None else chunks.rule.gain(chunks.state),
    )


def _joined(traces: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([t[name] for t in traces]) for name in traces[0]} if traces else {}
