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
from vijax.data.schema.named_columns import find_names
from vijax.fitting.fit_arguments import (
    check_batches,
    check_enough,
    check_hyper,
    check_process,
    check_restarts,
    check_whole,
    count_steps,
    usual_words,
    warn_of_far_prior,
    warn_of_many_devices,
)
from vijax.fitting.interrupt import interrupt_flag
from vijax.fitting.judge import Judge
from vijax.fitting.loop import look_every, most_steps, run_chunk, runs_of_one_shape, stack
from vijax.fitting.restarts import Many, best, many, one_run, update_runs, warn_of_equal_starts
from vijax.fitting.result import Fit
from vijax.fitting.resumed import first_state, resume_state
from vijax.fitting.room import check_room
from vijax.fitting.status import FAILED, DivergedError, SkippedStepsWarning, Status, skipped_text
from vijax.fitting.step_infos import InfoTables
from vijax.inference.compose import Algorithm
from vijax.inference.spec import Spec
from vijax.inference.state import State
from vijax.inference.stopping import (
    CHECK_EVERY,
    next_look,
    record_checks,
    remaining_gain,
    watch,
    window_of,
)
from vijax.inference.wrappers.wrapper import generalize
from vijax.scale.by_topic import put_by_topic, split_topics
from vijax.scale.lost import fail_together, name_lost_process
from vijax.scale.place import ManyDevices, OneDevice, choose_placement, is_shared
from vijax.scale.steps import on_mesh
from vijax.topics.decision import choose_steps
from vijax.verdict.improper import report_improper
from vijax.xla import keys
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
      num_steps: steps, counted from the first of the run, also when it resumes from `state`.
      batch_size: groups a step at most. None: all data at each step; for documents under `svi`,
        `ssvi` and `ssvi_a` 256 documents, and under `svi` more if they are short: 65,536 words, or
        half of the documents (`vijax.data.loader.usual_size`). A pass is cut evenly, into
        ceil(N / batch_size) batches whose sizes differ by one group at most (for documents,
        N / batch_size rounded): 1,605 groups in batches of 100 are 17 batches of 94 or 95.
      state: the state to resume from (with restarts: a callback's `Progress.whole`); None starts
        a new run. With the same key and arguments, a run in two parts equals a run in one, bit for
        bit. With other data the fit resumes from the posterior, and forgets messages and locals of
        the old data (`docs/how-to/running.md#stop-and-go-on`).
      hyper: values that replace some of the model's points (`Model.hyper`), of the same shapes: one
        compiled program serves all values.
      restarts: number of runs from different starts, side by side on the same batches. The run with
        the best objective is returned (callbacks see the best so far); `fit.trace["restart_elbo"]`
        has the objectives of all, of shape (steps, restarts). Memory grows with this number.
      callbacks: called between chunks with a `Progress`; one that returns true stops the run.
      steps_per_chunk: steps in one compiled call; progress is shown between calls. None takes 50 on
        full data and 10 on minibatches. Without callbacks, fast chunks grow: up to 500 steps on
        full data, 50 on minibatches of small arrays. The number cannot change the posterior. (The
        reported objective may change in its last digit, because another number is another program.)
      tol: stop when the remaining gain of the objective is below this, relative to the objective. A
        run that has converged takes no more steps, also when it resumes from `state`. On full data
        without draws, the gain is the objective's last change over 50 steps plus all later changes
        if these shrink as the last one did; it is judged at steps 50, 100, 150, .... A change of
        the last digit counts as none, so in float32 any `tol` below 1.2e-7 means 1.2e-7; one below
        1e-6 may never be met, because sums of many terms round. On minibatches, or with draws, the
        gain is an upper limit at 95 % of what as many more steps as the last half of the run would
        add. It is judged by averages over passes, after 16, 24, 32, 48, ... passes
        (`vijax.inference.stopping` gives its error rates; passes of fewer than 10 steps count
        together, passes of more than 200 in parts). If the noise of these averages is far above
        `tol`, the fit runs to its last step. 1e-3 suits most minibatches.
      max_bad_steps: stop after this many skipped steps in a row.
      throw: raise `DivergedError` if the fit diverged, most of its steps were skipped, or the bound
        of a log density grows without limit; otherwise `fit.status` and `fit.verdict` say so.
        `fit.verdict` also says whether to trust a fit that has finished.
      mesh: devices (`vijax.scale.mesh(8)`), along one axis, of this process or of all
        (`vijax.scale.initialize`). Each batch is split over them by groups. A batch that they do
        not divide is padded, and padding has no weight. The fit equals the fit on one device up to
        rounding, and its result lies on one device. An E-step that draws has one stream of draws
        for each group, the same on any number of devices, one included; without a mesh its draws
        differ (`docs/how-to/devices.md`). `vijax.scale.mesh(data=2, topics=4)` also splits the
        tables of topics and words, which then stay on its devices, in the result too.

    Steps whose value or gradient is not finite are skipped: the state stays as it was.
    `fit.num_skipped` counts them.

    `svi` and `ssvi_a` of topics take steps by words (`vijax.topics.by_words`) if batches hold less
    than half of a large vocabulary, unless you choose: the same steps, or the same in distribution.
    `fit.alg` and `print(fit)` say so. The first pass decides, once; a fit that resumes from `state`
    keeps its form.

    Returns:
      A `Fit`.

    Raises:
      ValueError: an argument that makes no sense; a state that was fitted to other words; data that
        are not finite; minibatches under steps of size one; a call within `jax.jit` or `jax.vmap`
        (use `alg.init` and `alg.step` there).
      DivergedError: see `throw`.
      RuntimeError: the process was forked from one that had fitted something; XLA would hang.

    Warns:
      SkippedStepsWarning: some steps were skipped.
      FarFromPriorWarning: columns lie so far from the location or the scale of the model's prior
          that the fit is worse.
      ForgottenWarning: `state` remembers messages, locals or kernels of other data.

    >>> import vijax as vi
    >>> coin = vi.model(
    ...     prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
    ...     local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
    ... )
    >>> run = vi.fit(vi.cavi(coin), jnp.array([1.0, 1.0, 0.0, 1.0]), key=jax.random.key(0), num_steps=2)
    >>> float(run.posterior["bias"].mean()), run.status.name
    (0.6666666865348816, 'FINISHED')
    """
    _check_call(alg, data, key, state, hyper)
    if mesh is None:
        warn_of_many_devices(data)
    else:
        on_mesh(alg, mesh)  # raises where the algorithm cannot run on a mesh
    key_init, key_run, seed = keys.run_keys(key)
    spec = alg.spec
    with fail_together(is_shared(mesh)):
        source = as_loader(
            data, spec.model, batch_size, int(seed), spec.messages.num_parts, usual_words(alg)
        )
        check_enough(spec.model, source)
        check_room(spec.model, source)
        if state is None:
            warn_of_far_prior(spec, source)
        alg = choose_steps(alg, source, state)
        loader = _wrapped_loader(alg, source)
        total = count_steps(num_epochs, num_steps, loader)
        check_restarts(restarts, state)
        check_hyper(hyper, spec.model, state)
        check_batches(alg, loader, total)
        shared_alg, constants = generalize(alg)
        runs = shared_alg if restarts == 1 else many(shared_alg, restarts)
        starting = _split_starts(shared_alg, mesh, restarts)
        points = tree.as_arrays({**spec.model.hyper, **(hyper or {})})
        if state is None:
            state = first_state(starting, loader, key_init, points, constants)
            if not spec.draws:
                warn_of_equal_starts(state)
        else:
            state = put_by_topic(spec.model, mesh, state)
            state = resume_state(starting, loader, key_init, points, constants, state)
        window = _noise_window(spec, loader)
        if tol is not None and window > 0:
            state = _with_watch(state, window)
    placement = choose_placement(mesh, state, loader, spec.model)
    rule = None if tol is None else _Rule.from_state(tol, window, state)
    # Chunks that callbacks or other processes follow have one length.
    is_followed = bool(callbacks) or placement.is_shared
    usual = most_steps(loader, is_followed)
    # A short run has the usual capacity too: it shares the program of a long one.
    capacity = min(steps_per_chunk or usual, max(total, usual))
    with name_lost_process(placement.is_shared):
        placement.require_alike_streams(loader)
        state = placement.share_start(
            state,
            key=jax.random.key_data(key),
            steps=total,
            batches=loader.steps_per_epoch,
            chunk=capacity,
        )
        placed_alg = placement.adapt_algorithm(shared_alg, loader)
        if placed_alg is not shared_alg:
            runs = placed_alg if restarts == 1 else many(placed_alg, restarts)
        advance = functools.partial(
            run_chunk, runs.step, capacity, key_run, constants, max_bad_steps=max_bad_steps
        )
        chunks = _Chunks(alg, advance, loader, capacity, total, rule, placement)
        if steps_per_chunk is None:
            chunks.start_short(grows=not is_followed)
        status, traces = _run(chunks, state, callbacks, max_bad_steps)
        best_state, trace = _best_run(placement.plain_state(chunks.state), _concatenate(traces))
    result = Fit(
        alg,
        best_state,
        trace,
        _status_after_skips(status, best_state),
        judge=_make_judge(spec, loader, int(seed)),
        vocabulary=loader_words(source),
        columns=find_names(data, source),
    )
    result = _check_bound(result, loader, key_run)
    if throw and result.status in FAILED:
        raise DivergedError(result)
    _warn_of_skips(result)
    return result


# --- before the first step ------------------------------------------------------------------------
def _check_call(alg: Any, data: Any, key: PRNGKeyArray, state: Any, hyper: Any) -> None:
    """Raises where the call cannot be a fit, whatever its data hold."""
    if not isinstance(alg, Algorithm):
        raise ValueError(
            f"alg: expected an algorithm, got {type(alg).__name__}. Choose one: "
            "vijax.fit(vijax.svi(model), ...)."
        )
    check_process()
    model = alg.spec.model
    require_on_host("vijax.fit", data, key, state, hyper, model.hyper, model.form.given)
    check_key(key)
    check_whole(alg)


def _split_starts(alg: Algorithm, mesh: Mesh | None, restarts: int) -> Algorithm:
    """The algorithm of all restarts whose start is made on the devices that hold its tables."""
    if mesh is not None:
        alg = split_topics(alg, mesh)
    if restarts == 1:
        return alg
    return many(alg, restarts)


def _wrapped_loader(alg: Algorithm, loader: Loader) -> Loader:
    """The loader as the wrappers of the algorithm need it."""
    for wrapper in alg.wrappers:
        loader = wrapper.loader(loader, alg)
    return loader


def _noise_window(spec: Spec, loader: Loader) -> int:
    """Steps in a window of the watch, 0 where the objective has no noise: full data, no draws."""
    is_noisy = loader.steps_per_epoch > 1 or spec.draws
    return window_of(loader.steps_per_epoch) if is_noisy else 0


def _with_watch(state: State | Many, window: int) -> Any:
    """The state with a watch of windows of this length: its own, or a new one."""
    if np.all(np.asarray(state.watch.window) == window):
        return state
    runs = np.shape(state.watch.gain)

    def repeat(leaf: Any) -> jax.Array:
        """A copy for every run: no two leaves may share a buffer."""
        return jnp.array(jnp.broadcast_to(leaf, (*runs, *leaf.shape)), copy=True)

    new_watch = watch(window, state.watch.gain.dtype)
    return update_runs(state, lambda run: run._replace(watch=jax.tree.map(repeat, new_watch)))


# --- after the last step --------------------------------------------------------------------------
def _make_judge(spec: Spec, loader: Loader, seed: int) -> Judge | None:
    """The material on which a fit of free variables is judged; None for other fits and streams."""
    can_read_again = not hasattr(loader, "is_stream")
    if spec.model.free is None or not can_read_again:
        return None
    return Judge(loader, seed, jnp.result_type(float) == np.float64)


def _status_after_skips(status: Status, state: State) -> Status:
    """`MOSTLY_SKIPPED` in place of a good end where most steps were skipped, however few."""
    ended_well = status in (Status.FINISHED, Status.CONVERGED)
    if ended_well and 2 * int(state.num_skipped) > int(state.step):
        return Status.MOSTLY_SKIPPED
    return status


def _check_bound(fit: Fit, loader: Loader, key: PRNGKeyArray) -> Fit:
    """The fit; with status `UNBOUNDED` and a report where its bound grows without limit."""
    state, spec = fit.state, fit.alg.spec
    was_stopped = fit.status in (Status.STOPPED, Status.INTERRUPTED)
    if spec.model.free is None or was_stopped or all(map(spec.is_point, state.posterior)):
        return fit
    batch = next(iter(loader.batches(0, 1)))
    report = report_improper(spec.model, state.hyper, state.posterior, batch, key)
    return fit if report is None else fit._replace(status=Status.UNBOUNDED, report=report)


def _warn_of_skips(fit: Fit) -> None:
    if fit.num_skipped:
        text = skipped_text(fit.num_skipped, int(fit.state.step), fit.skipped_of)
        pointer = "fit.trace['result'] and fit.trace['non_finite'] say which"
        warnings.warn(f"{text}; {pointer}.", SkippedStepsWarning, stacklevel=3)


def _best_run(state: Any, trace: dict[str, np.ndarray]) -> tuple[State, dict[str, np.ndarray]]:
    """State and trace of the best run, and the objectives of all; a single run as it is."""
    if not isinstance(state, Many):
        return state, trace
    run_state, run_trace = one_run(best(state), state, trace)
    return run_state, {**run_trace, "restart_elbo": trace["elbo"]} if trace else {}


# --- convergence ----------------------------------------------------------------------------------
class _Rule(NamedTuple):
    """The rule of convergence. It reads only the state, so that a resumed run ends where the
    unbroken one does."""

    tol: float
    window: int
    """The watch's window for a noisy objective; 0 for others."""
    first_step: int
    """The step at which the watch began."""

    @classmethod
    def from_state(cls, tol: float, window: int, state: State | Many) -> _Rule:
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


class _Chunks:
    """Runs chunks one after the other; holds the one live state (each chunk consumes the state of
    the chunk before)."""

    def __init__(
        self,
        alg: Algorithm,
        advance: Callable[[Any, Any, Any, bool], tuple[Any, InfoTables]],
        loader: Loader,
        capacity: int,
        total: int,
        rule: _Rule | None,
        placement: OneDevice | ManyDevices,
    ):
        self.alg = alg
        self.advance = advance
        self.loader = placement.adapt_loader(loader)
        self.capacity = capacity  # most steps of a chunk
        self.total = total
        self.placement = placement
        self.rule = rule  # a chunk ends where convergence is judged
        self.pace = capacity  # steps of the next chunk
        self.grows = False  # True where later chunks may have more steps, up to `capacity`
        self.is_fixed = self.loader.steps_per_epoch == 1  # every step reads the same data
        self.look = look_every(self.is_fixed)
        self.is_watched = rule is not None and rule.window > 0
        self.state: Any  # State or Many
        self.groups_seen = 0.0
        self.words_seen = 0.0

    def start_short(self, grows: bool) -> None:
        """Takes few steps in the first chunk; more in later ones if `grows`."""
        self.pace = min(self.look, self.capacity)
        self.grows = grows

    def run(self, state: State) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        """Yields each chunk's trace and the number of steps done after it."""
        self.state = state
        step = int(state.step)
        with contextlib.closing(self._open_inputs(step)) as inputs:
            for batches, count, _ in inputs:
                placed_state = self.placement.put_state(self.state)
                begin_s = time.perf_counter()
                self.state, tables = self.advance(
                    placed_state, batches, np.int32(count), self.is_watched
                )
                num_run = int(self.state.step) - step  # fewer than `count` after bad steps
                step = int(self.state.step)
                trace = self._trace(tables, step, num_run)
                self._record(trace["elbo"], step)
                if self.grows and time.perf_counter() - begin_s < SHORT_S:
                    self.pace = min(4 * self.pace, self.capacity)
                yield trace, step

    def _open_inputs(self, step: int) -> Generator[tuple[Any, int, Any]]:
        """The batches of the chunks, read ahead in a thread where there is anything to read."""
        inputs = self._inputs(step)
        if self.is_fixed:  # nothing to fetch, and a thread would cost time
            return inputs
        return self.placement.synchronize(
            _prefetch(inputs), step, self.capacity, self.total, self.loader
        )

    def _record(self, elbo: np.ndarray, step: int) -> None:
        checked = record_checks(self.state.checked, elbo, step)
        self.state = update_runs(self.state, lambda runs: runs._replace(checked=checked))

    def _inputs(self, start: int) -> Generator[tuple[Any, int, Any]]:
        """Stacked batches of each chunk and their number; with the first batches of a chunk also
        the notice of it that other processes receive. Full data are put on the device once."""
        if self.is_fixed:
            full_data = self.placement.put_batches(stack(self.loader.batches(0, 1), 1, 1))
            for count in self._counts(start):
                yield full_data, count, None
            return
        batches = self.loader.batches(start, self.total)
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
        share = 1 / trace["num_groups"][0].size  # restarts read the same groups
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


def _run(
    chunks: _Chunks, state: State, callbacks: Sequence[Callback], max_bad_steps: int
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
        for trace, step in chunks.run(state):
            traces.append(trace)
            if len(traces) - num_long == MANY_TRACES:
                traces[num_long:] = [_concatenate(traces[num_long:])]
                num_long += 1
            is_interrupted = chunks.placement.any_process(interrupted.is_set())
            status = _status(chunks.state, rule, max_bad_steps, is_interrupted)
            stopping = status is not Status.FINISHED or step >= chunks.total
            elapsed_s = time.perf_counter() - begin_s
            progress = _progress(chunks, trace, step, elapsed_s, stopping)
            answers = [callback(progress) for callback in callbacks]
            if stopping:
                break
            if chunks.placement.any_process(any(answers)):
                status = Status.STOPPED
                break
    return status, traces


def _status(
    state: State | Many, rule: _Rule | None, max_bad_steps: int, interrupted: bool
) -> Status:
    """The status after a chunk: `FINISHED` where nothing ends the run early."""
    if int(state.bad_steps) >= max_bad_steps:
        return Status.DIVERGED
    if interrupted:
        return Status.INTERRUPTED
    if rule is not None and rule.is_met(state):
        return Status.CONVERGED
    return Status.FINISHED


def _progress(
    chunks: _Chunks, trace: dict, step: int, elapsed_s: float, stopping: bool
) -> Progress:
    """The argument of callbacks after a chunk."""
    loader = chunks.loader
    all_runs = chunks.placement.callback_state(chunks.state)
    state, trace = _best_run(all_runs, trace)
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
    )


def _concatenate(traces: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    if not traces:
        return {}
    return {name: np.concatenate([trace[name] for trace in traces]) for name in traces[0]}
