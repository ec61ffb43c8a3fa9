"""The fit of an algorithm to data: arguments are checked, a state is made or resumed, chunks of
compiled steps run, and the result is judged."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import PRNGKeyArray

from vijax import tree
from vijax.arguments import Positive, Size
from vijax.checks import check_key, require_on_host
from vijax.contract.model import Hyper
from vijax.data.loader import Loader, as_loader, loader_words
from vijax.data.schema.named_columns import find_names
from vijax.fitting.chunks import (
    Advance,
    Callback,
    Chunks,
    Pace,
    Progress,
    Rule,
    best_run,
    concatenate,
    run_chunks,
)
from vijax.fitting.fit_arguments import (
    Combine,
    check_batches,
    check_combine,
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
from vijax.fitting.judge import Judge
from vijax.fitting.loop import run_chunk, takes_turns
from vijax.fitting.restarts import Many, many, runs_to_average, update_runs, warn_of_equal_starts
from vijax.fitting.result import Fit
from vijax.fitting.resumed import first_state, resume_state
from vijax.fitting.room import check_room
from vijax.fitting.status import FAILED, DivergedError, SkippedStepsWarning, Status, skipped_text
from vijax.inference.compose import Algorithm
from vijax.inference.spec import Spec
from vijax.inference.state import State
from vijax.inference.stopping import watch, window_of
from vijax.inference.wrappers.wrapper import generalize
from vijax.scale.by_topic import put_by_topic, split_topics
from vijax.scale.device_data import DeviceData, put_data
from vijax.scale.lost import fail_together, name_lost_process
from vijax.scale.place import ManyDevices, OneDevice, choose_placement, is_shared
from vijax.scale.steps import on_mesh
from vijax.topics.decision import choose_steps
from vijax.verdict.improper import report_improper
from vijax.xla import keys

__all__ = ["Callback", "DivergedError", "Fit", "Progress", "Status", "fit"]


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
    combine: Combine = "best",
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
        has the objectives of all, of shape (steps, restarts). Memory and time grow with this
        number. For documents on a processor the runs take turns of some steps.
      combine: what several runs are for. "best" keeps the run with the best objective. "average"
        keeps all (`Fit.runs`): topics and posterior are those of the best, and `Fit.score` and
        `Fit.transform` average the predictions of all, for models of topics (`lda`). Two runs
        predict held-out words better than one of the same time, unless that is short.
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
    _check_call(alg, data, key, state, hyper, mesh)
    key_init, key_run, seed = keys.run_keys(key)
    with fail_together(is_shared(mesh)):
        source = _open_source(alg, data, batch_size, int(seed))
        if state is None:
            warn_of_far_prior(alg.spec, source)
        alg = choose_steps(alg, source, state)
        loader = _wrapped_loader(alg, source)
        total = count_steps(num_epochs, num_steps, loader)
        _check_run(alg, loader, total, restarts, hyper, state)
        check_combine(combine, restarts, alg.spec.model)
        runs = _Runs.from_algorithm(alg, restarts, hyper)
        state = _start_state(runs, mesh, loader, key_init, state)
        rule = None
        if tol is not None:
            state, rule = _watch_convergence(alg.spec, loader, tol, state)
    placement = choose_placement(mesh, state, loader, alg.spec.model)
    pace = Pace.choose(loader, total, steps_per_chunk, bool(callbacks) or placement.is_shared)
    with name_lost_process(placement.is_shared):
        placement.require_alike_streams(loader)
        state = placement.share_start(
            state,
            key=jax.random.key_data(key),
            steps=total,
            batches=loader.steps_per_epoch,
            chunk=pace.capacity,
        )
        placed_runs = runs.placed(placement, loader)
        advance = placed_runs.advance_by(pace.capacity, key_run, max_bad_steps)
        device_data = _put_data(loader, placement, state, total)
        chunks = Chunks(alg, advance, loader, pace, total, rule, placement, device_data)
        status, traces = run_chunks(chunks, state, callbacks, max_bad_steps)
        all_runs = placement.plain_state(chunks.state)
        best_state, trace = best_run(all_runs, concatenate(traces))
    result = Fit(
        alg,
        best_state,
        trace,
        _status_after_skips(status, best_state),
        judge=_make_judge(alg.spec, loader, int(seed)),
        vocabulary=loader_words(source),
        columns=find_names(data, source),
        data_place=chunks.data_place,
        runs=runs_to_average(all_runs, combine),
    )
    result = _check_bound(result, loader, key_run)
    if throw and result.status in FAILED:
        raise DivergedError(result)
    _warn_of_skips(result)
    return result


# --- before the first step ------------------------------------------------------------------------
def _check_call(
    alg: Any, data: Any, key: PRNGKeyArray, state: Any, hyper: Any, mesh: Mesh | None
) -> None:
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
    if mesh is None:
        warn_of_many_devices(data)
    else:
        on_mesh(alg, mesh)  # raises where the algorithm cannot run on a mesh


def _open_source(alg: Algorithm, data: Any, batch_size: int | None, seed: int) -> Loader:
    """The loader of the data, from which something can be learnt and for which there is room."""
    spec = alg.spec
    num_parts = spec.messages.num_parts
    source = as_loader(data, spec.model, batch_size, seed, num_parts, usual_words(alg))
    check_enough(spec.model, source)
    check_room(spec.model, source)
    return source


def _check_run(
    alg: Algorithm, loader: Loader, total: int, restarts: int, hyper: Any, state: Any
) -> None:
    """Raises ValueError where the arguments do not make a run of this algorithm on these data."""
    check_restarts(restarts, state)
    check_hyper(hyper, alg.spec.model, state)
    check_batches(alg, loader, total)


def _put_data(
    loader: Loader, placement: OneDevice | ManyDevices, state: Any, total: int
) -> DeviceData | None:
    """The data on the devices; None where batches come from the host, as they do in fits of several
    processes, of which each reads its part."""
    if placement.is_shared:
        return None
    return put_data(loader, placement, state, total - int(state.step))


class _Runs(NamedTuple):
    """The runs of a fit, side by side or in turn. Programs refer to their algorithms weakly: hold
    the runs to the last step.

    Attributes:
      shared: one run, of the algorithm whose constants are arguments: models that differ in them
        alone share its programs.
      program: all runs.
      restarts: their number.
      constants: the points that no step changes.
      points: all points, as the caller has them.
      in_turn: True where each takes a few steps before the next does, and not all at each step.
    """

    shared: Algorithm
    program: Algorithm
    restarts: int
    constants: Hyper
    points: Hyper
    in_turn: bool

    @classmethod
    def from_algorithm(cls, alg: Algorithm, restarts: int, hyper: Hyper | None) -> _Runs:
        """The runs of an algorithm, with these values in place of some of the model's points."""
        shared, constants = generalize(alg)
        points = tree.as_arrays({**alg.spec.model.hyper, **(hyper or {})})
        in_turn = restarts > 1 and takes_turns(alg.spec.model)
        return cls(shared, _side_by_side(shared, restarts), restarts, constants, points, in_turn)

    def placed(self, placement: OneDevice | ManyDevices, loader: Loader) -> _Runs:
        """The runs as the devices compute them."""
        shared = placement.adapt_algorithm(self.shared, loader)
        if shared is self.shared:
            return self
        program = _side_by_side(shared, self.restarts)
        return self._replace(shared=shared, program=program, in_turn=False)

    def advance_by(self, length: int, key: PRNGKeyArray, max_bad_steps: int) -> Advance:
        """The function that runs a chunk of at most `length` steps."""
        step = self.program.step
        if self.in_turn:
            step = self.shared.step
        return functools.partial(
            run_chunk,
            step,
            length,
            key,
            self.constants,
            max_bad_steps=max_bad_steps,
            in_turn=self.in_turn,
        )


def _side_by_side(alg: Algorithm, restarts: int) -> Algorithm:
    """The algorithm of all restarts."""
    if restarts == 1:
        return alg
    return many(alg, restarts)


def _start_state(
    runs: _Runs, mesh: Mesh | None, loader: Loader, key: PRNGKeyArray, state: Any
) -> Any:
    """The state from which the runs start: new, or that of the caller on these data. Tables of
    topics and words are made on the devices that hold them, in each process on its own."""
    shared = runs.shared
    if mesh is not None:
        mesh = mesh.local_mesh
        shared = split_topics(shared, mesh)
    starting = _side_by_side(shared, runs.restarts)
    if state is not None:
        state = put_by_topic(shared.spec.model, mesh, state)
        return resume_state(starting, loader, key, runs.points, runs.constants, state)
    state = first_state(starting, loader, key, runs.points, runs.constants)
    if not shared.spec.draws:
        warn_of_equal_starts(state)
    return state


def _watch_convergence(
    spec: Spec, loader: Loader, tol: float, state: State | Many
) -> tuple[Any, Rule]:
    """The state, which watches its objective where that has noise, and the rule of convergence."""
    window = _noise_window(spec, loader)
    if window > 0:
        state = _with_watch(state, window)
    return state, Rule.from_state(tol, window, state)


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
