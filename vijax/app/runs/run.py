"""A run of `vijax fit`: its start, how it is resumed after any kind of end, and its result."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from vijax.app.answers.measures import held_out_measures
from vijax.app.answers.quality import quality
from vijax.app.answers.results import remove_results, write_results
from vijax.app.catalogue.parts.density_algorithm import is_at_once, model_rows
from vijax.app.drawing.blocks import TITLE_OF_EDIT, Table, drop_excerpts
from vijax.app.folder.at_once import (
    fit_at_once,
    keep_stage,
    kept_algorithm,
    mixture_writer,
    read_stage,
)
from vijax.app.folder.claim import claim_folder, hold_lock, unwritable
from vijax.app.folder.recorder import Recorder
from vijax.app.folder.run_end import progress_text, read_whole_end, write_end
from vijax.app.folder.run_folder import (
    Say,
    check_same_data,
    edit_note,
    latest_checkpoint,
    mend_config,
    note_versions,
    noted_settings,
    read_run_config,
    write_beginning,
    write_data_files,
)
from vijax.app.folder.team import Alone
from vijax.app.plan import growth
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import Config, ConfigError, absolute_path
from vijax.app.plan.plan import Plan, complete_plan
from vijax.app.report.pages import write_pages
from vijax.app.settings.progress import Printer, announce_if_slow, say_to_stderr
from vijax.app.settings.sections import DocumentData
from vijax.app.settings.typed_toml import DamagedError
from vijax.app.settings.user_code import allow_named_file
from vijax.app.sources.documents import with_own_stop_words
from vijax.app.sources.listing import Data, FittedRun, held_out_score_key
from vijax.app.sources.tables import holds_out_entries
from vijax.data.reading.checks import DataError
from vijax.data.tables.table import naming_rows
from vijax.evaluate import metrics
from vijax.files import own_folder, remove_leftovers
from vijax.fitting import checkpoint
from vijax.fitting.fit import Status, fit
from vijax.fitting.interrupt import heard_while_busy
from vijax.fitting.restarts import runs_to_average
from vijax.fitting.result import Fit
from vijax.fitting.status import SkippedStepsWarning, skipped_text
from vijax.scale import on_mesh
from vijax.xla import native

MOST_STEPS = 2**31 - 1
"""The counter of steps has 32 bits."""


class Outcome(NamedTuple):
    """The end of a session of a run.

    Attributes:
      folder: the folder of the run.
      status: why it stopped.
      score: the last held-out score; None if nothing was held out.
      skipped: the skipped steps in words; empty if there were none.
      usable: False if the verdict advises against using the fit.
    """

    folder: Path
    status: Status
    score: Any
    skipped: str = ""
    usable: bool = True


class StoppedError(KeyboardInterrupt):
    """A run was stopped at once; the message says what is saved, and how to resume."""


MAKING = "Making the model ... (its parts are compiled)"


# --- start and resume -----------------------------------------------------------------------------
ALONE = Alone()


def start(
    config: Config, folder: Path | None = None, say: Say = say_to_stderr, team: Alone = ALONE
) -> Outcome:
    """Starts a run in a new folder (by default runs/NAME-1, -2, ...) and brings it to its end."""
    return begin(prepare_config(config), folder, say, None, team)


def begin(
    config: Config, folder: Path | None, say: Say, data: Data | None = None, team: Alone = ALONE
) -> Outcome:
    """As `start`, for a configuration from `prepare_config`; `data` may be read already."""
    with claim_folder(folder, config.name) as folder, _explain_stop(folder), config.in_precision():
        plan = complete_plan(config, read(config, say) if data is None else data)
        with announce_if_slow(say, MAKING):
            _check_beforehand(plan, team)
        if plan.data.test is not None and not config.listing.has_score(plan.algorithm.spec.model):
            say(
                f"Note: {config.listing.name} has no held-out score; data.held_out=0 learns from "
                "all of the data"
            )
        if config.fit.use_of_runs == "average":
            say(f"Note: {AVERAGED.format(number=config.fit.restarts)}")
        try:
            write_beginning(folder, plan)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(
                f"{folder} could not be written ({reason}); make room, or name another with --out"
            ) from error
        say(f"Run folder: {folder}")
        return _work(Session(folder, plan, None, say, team))


def resume(
    folder: Path, say: Say = say_to_stderr, data: Data | None = None, team: Alone = ALONE
) -> Outcome:
    """Resumes a run from its newest whole checkpoint, to the result of an unbroken run, bit for
    bit. The data may have been read already."""
    if folder.is_dir():
        with hold_lock(folder):
            mend_config(folder, say)
    config = read_run_config(folder)
    if team.devices is not None and is_at_once(config):
        raise ConfigError(
            f"devices: not for algorithm.name = {config.algorithm.name}, which computes on one"
        )
    with hold_lock(folder), _explain_stop(folder), config.in_precision():
        plan = Plan(config, read(config, say) if data is None else data)
        check_same_data(folder, plan)
        write_data_files(folder, plan)  # mends damaged files
        remove_leftovers(own_folder(folder / "checkpoints"))
        newest = _newest(folder, plan, say)
        end = read_whole_end(folder, say)
        if newest is not None and end is not None and _has_converged(config, newest, end):
            return _tell_end(folder, config, end, say)
        if is_at_once(config):
            newest = None  # such a fit resumes from its stage, or starts again
        remove_results(folder, config)
        _prepare(folder, newest.step if newest else 0, say)
        return _work(Session(folder, plan, newest, say, team))


def _tell_end(folder: Path, config: Config, end: dict[str, Any], say: Say) -> Outcome:
    """The outcome of a run that has nothing left to do; its page is written again."""
    if is_at_once(config):
        say(f"{folder} has ended")
    else:
        advice = f"; to go on, lower fit.convergence in {folder / 'config.toml'}"
        say(f"{folder} has converged{advice}")
    write_pages(folder)
    skipped = skipped_text(end.get("skipped", 0), end["step"])
    return Outcome(folder, Status.CONVERGED, end["score_text"], skipped, end["usable"])


def follow(config: Config, team: Alone) -> Status:
    """Takes part in the fit of a run whose folder another process keeps."""
    say = lambda line: None
    with config.in_precision():
        plan = complete_plan(config, load_data(config))
        _check_beforehand(plan, team)
        with team.work_session(None, 0, say) as (folder, step), _terminable():
            newest = _newest(folder, plan, say) if step else None
            own_step = newest.step if newest else 0
            if step != own_step:
                place = f"step {own_step}" if newest else "no checkpoint"
                raise ConfigError(
                    f"{folder}: expected step {step}, as process 0 reads, got {place}: share the "
                    "folder"
                )

            def join(progress: Any) -> None:
                if team.any_asks(progress.stopping):
                    team.with_stored_tables(folder / "checkpoints", progress.step, progress.whole)

            return _fit(Session(folder, plan, newest, say, team), (join,)).status


def _newest(folder: Path, plan: Plan, say: Say) -> checkpoint.Checkpoint | None:
    """The newest checkpoint; None without one, or if it is damaged and the run can do without."""
    try:
        with announce_if_slow(say, MAKING):
            like = plan.state_like(kept_algorithm(folder, plan))
        return latest_checkpoint(folder, plan.config, like, say)
    except (DamagedError, checkpoint.CheckpointError) as error:
        if not is_at_once(plan.config):
            raise
        fault = error.fault if isinstance(error, DamagedError) else error
        say(f"Warning: {fault}. It is fitted again.")
        return None


def _prepare(folder: Path, step: int, say: Say) -> None:
    """Removes records of steps taken again; warns of changed versions and missing records."""
    remark = note_versions(folder, step)
    if remark:
        say(f"Warning: {remark}")
    recorded = metrics.last_step(folder / "metrics.jsonl")
    if recorded < step:
        say(
            f"Warning: {folder / 'metrics.jsonl'} lacks steps {recorded + 1} to {step}, and so "
            "will the curves"
        )
    metrics.truncate(folder / "metrics.jsonl", step)
    (folder / "result.json").unlink(missing_ok=True)  # it has no end any more
    say(f"Going on with {folder} from step {step}")


@contextlib.contextmanager
def _explain_stop(folder: Path) -> Iterator[None]:
    """Turns Ctrl-C, outside the steps of a fit, into an error that says how much is saved."""
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError(progress_text(folder)) from None


def _has_converged(config: Config, newest: checkpoint.Checkpoint, end: dict[str, Any]) -> bool:
    """True if the run has stopped by itself and has no step left to take."""
    if newest.config.get("fit.convergence") != config.fit.convergence:
        return False
    if end["step"] != newest.step:
        return False
    if is_at_once(config):
        return end["status"] != str(Status.INTERRUPTED)
    return end["status"] == str(Status.CONVERGED)


def _check_beforehand(plan: Plan, team: Alone) -> None:
    """Raises errors that would else come after the run has begun and leave a folder behind."""
    config = plan.config
    data = plan.data
    algorithm = plan.algorithm
    steps = config.fit.num_epochs * plan.steps_per_epoch
    if not 0.5 < steps < MOST_STEPS:
        raise ConfigError(
            f"fit.num_epochs: expected passes over the data of 1 to {MOST_STEPS:,} steps in all, "
            f"got {config.fit.num_epochs:g} passes, which are {steps:g} steps"
        )
    growth.check(config)
    if config.fit.use_of_runs == "average" and "average" not in algorithm.spec.model.queries:
        raise ConfigError(
            f'fit.combine: expected "best" for {config.model.name}, whose predictions are not '
            'averaged over runs, got "average"'
        )
    devices = team.mesh(config)
    if devices is not None:
        on_mesh(algorithm, devices)
    check = algorithm.spec.model.form.check
    if check is None:
        return
    documents = config.listing.of_documents
    parts = {"training": data.train}
    if data.test is not None and not documents and not holds_out_entries(data):
        parts["held-out"] = data.test
    unit = f"{config.listing.unit}s" if documents else "rows"
    for name, part in parts.items():
        try:
            with naming_rows(part):
                check(model_rows(algorithm.spec.model, plan.arrange(part)))
        except DataError:
            raise
        except ValueError as error:
            rows_name = f"{name} {unit}, counted from 0 within them"
            raise ValueError(f"{config.data.path}, {rows_name}: {error}") from error


def prepare_config(config: Config) -> Config:
    """The configuration of a new run: absolute paths, the words of a file of stop words, and
    permission for the Python file that it names."""
    sections = {}
    for table, names in PATHS.items():
        section = getattr(config, table)
        paths = {name: getattr(section, name, None) for name in names}
        resolved_paths = {
            name: absolute_path(path) for name, path in paths.items() if path is not None
        }
        sections[table] = dataclasses.replace(section, **resolved_paths)
    if isinstance(config.data, DocumentData):
        sections["data"] = with_own_stop_words(sections["data"])
    return allow_named_file(dataclasses.replace(config, **sections))


AVERAGED = (
    "{number} fits are made: scores and shares of topics are averages over them, and topics are "
    "those of the best. fit.restarts=1 makes one, in less time and memory."
)
PATHS = {"data": ("path", "vocabulary", "user_features", "item_features"), "model": ("file",)}
"""Settings that are paths."""


def read(config: Config, say: Say) -> Data:
    """The data of a run; describes them on the screen, with their notes."""
    data = load_data(config)
    say(f"Data: {config.listing.source.describe(data)}")
    missing_native = native.missing() if isinstance(config.data, DocumentData) else ""
    notes = list(getattr(data.train, "notes", ()))
    if missing_native:
        notes.append(missing_native)
    for note in notes:
        say(f"Note: {note}")
    return data


# --- a session ------------------------------------------------------------------------------------
class Session(NamedTuple):
    """A run at work: its folder, plan, newest checkpoint (None at step 0), and processes."""

    folder: Path
    plan: Plan
    newest: checkpoint.Checkpoint | None
    say: Say
    team: Alone


def _work(session: Session) -> Outcome:
    """Fits to the end, or until the run is stopped; then writes the result."""
    step = session.newest.step if session.newest else 0
    with session.team.work_session(session.folder, step, session.say):
        return _run_to_end(session)


def _fit(session: Session, callbacks: tuple[Any, ...]) -> Fit:
    _, plan, newest, say, team = session
    config = plan.config
    return fit(
        plan.algorithm,
        plan.training,
        key=jax.random.key(config.fit.seed),
        num_epochs=config.fit.num_epochs,
        batch_size=plan.batch_size,
        state=newest.tree if newest else growth.first_state(plan, say),
        restarts=config.fit.restarts,
        combine=config.fit.use_of_runs,
        tol=config.fit.convergence,
        callbacks=callbacks,
        throw=False,
        mesh=team.mesh(config),
    )


def _run_to_end(session: Session) -> Outcome:
    _, plan, _, say, _ = session
    if plan.batch_size_note:
        say(plan.batch_size_note)
    has_score = _has_score(plan)
    recorder = _make_recorder(session, has_score)
    with _terminable(), heard_while_busy(), warnings.catch_warnings():
        warnings.simplefilter("ignore", SkippedStepsWarning)  # the last lines say it
        result = _fit_and_record(session, recorder)
    if has_score and recorder.score_step != int(result.state.step):
        recorder.take_score(result)
    return _write_result(session, result, recorder)


def finish(session: Session, result: Fit) -> Outcome:
    """Scores a fit that took no steps of its own, and writes its result."""
    has_score = _has_score(session.plan)
    recorder = _make_recorder(session, has_score)
    if has_score:
        recorder.take_score(result)
    return _write_result(session, result, recorder)


def _has_score(plan: Plan) -> bool:
    """True if something is held out, and the model can score it."""
    return plan.data.test is not None and plan.config.listing.has_score(plan.algorithm.spec.model)


def _to_fit(progress: Any, use_of_runs: str) -> Fit:
    """The fit of a `Progress`; a finished fit as it is."""
    if isinstance(progress, Fit):
        return progress
    runs = runs_to_average(progress.whole, use_of_runs)
    return Fit(progress.alg, progress.state, {}, None, runs=runs)


def _make_recorder(session: Session, has_score: bool) -> Recorder:
    """The writer of metrics and checkpoints, which also takes held-out scores."""
    folder, plan, _, say, team = session
    config = plan.config

    def score(progress: Any) -> Any:
        fit_so_far = _to_fit(progress, config.fit.use_of_runs)
        run = FittedRun(fit_so_far, plan.data, config.model, held_out_score_key())
        return config.listing.score_test_data(run)

    evaluate_every = config.fit.evaluate_every
    if evaluate_every is None:
        evaluate_every = max(1, round(config.fit.num_epochs * plan.steps_per_epoch / 6))
    return Recorder(
        folder,
        noted_settings(folder, config),
        score=score if has_score else None,
        evaluate_every=evaluate_every,
        checkpoint_every_s=config.fit.checkpoint_every_s,
        warn=lambda message: say(f"Warning: {message}"),
        seconds=metrics.seconds(folder / "metrics.jsonl"),
        team=team,
    )


def _fit_and_record(session: Session, recorder: Recorder) -> Fit:
    """The fit, with its progress on the screen."""
    folder, plan, _, say, team = session
    config = plan.config
    if is_at_once(config):
        text = f"Fitting ... ({config.algorithm.name} stops by itself, and shows no steps)"
        with announce_if_slow(say, text):
            stage = read_stage(folder, plan, say)
            key = jax.random.key(config.fit.seed)
            result = fit_at_once(plan, key, (mixture_writer(folder), recorder), stage)
            keep_stage(folder, config, result)
            return result
    unit = "docs" if config.listing.unit == "document" else f"{config.listing.unit}s"
    printer = Printer(
        config.fit.progress_every_s,
        lambda: recorder.latest_score,
        lambda: recorder.spent,
        unit=unit,
        per=config.listing.per,
        more=team.slowest,
    )
    with printer.announcing():
        return _fit(session, (recorder, printer))


def _write_result(session: Session, result: Fit, recorder: Recorder) -> Outcome:
    """Writes the posterior, the results and the page; an error in the page is raised last."""
    folder, plan, _, say, _ = session
    config = plan.config
    data = plan.data
    listing = config.listing
    key = jax.random.key(config.fit.seed)
    page_key = jax.random.split(jax.random.fold_in(key, 1))[1]
    page, fault = _page_blocks(listing, FittedRun(result, data, config.model, page_key, say))
    if fault is None:
        final_run = FittedRun(result, data, config.model, held_out_score_key())
        remarks, fault = _quality_blocks(
            listing, final_run, recorder.latest_score, folder, page, say
        )
        page += remarks
    if listing.source.excerpts is not None and not config.page.excerpts:
        page = drop_excerpts(page)
    try:
        write_end(folder, config, page, result, recorder.latest_score, recorder.seconds)
        if fault is None and result.status in (Status.FINISHED, Status.CONVERGED):
            write_results(folder, config, FittedRun(result, data, config.model, key), say)
        write_pages(folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    if fault is not None:
        raise fault
    skipped = skipped_text(result.num_skipped, int(result.state.step))
    return Outcome(folder, result.status, recorder.latest_score, skipped, result.usable)


def _page_blocks(listing: Any, run: FittedRun) -> tuple[list[Any], Exception | None]:
    """The blocks of the page; or none, and an error to raise once the posterior is written, so that
    no run is lost at its end. A posterior that is not finite has no blocks; this is no error."""
    try:
        return list(listing.describe(run)), None
    except Exception as error:
        numbers = [np.asarray(leaf) for leaf in jax.tree.leaves(run.posterior)]
        if all(np.isfinite(x).all() for x in numbers if x.dtype.kind == "f"):
            return [], error
        run.say(
            f"Warning: the posterior is not finite, and so cannot be described ({error}); it is "
            "written as it is"
        )
        return [], None


def _quality_blocks(
    listing: Any, run: FittedRun, score: Any, folder: Path, shown: list[Any], say: Say
) -> tuple[list[Any], Exception | None]:
    """The blocks on how good the fit is; or none, and an error to raise later. Says warnings."""
    try:
        measures = held_out_measures(listing, run)
        remarks, messages = quality(
            run, score, metrics.read_curves(folder / "metrics.jsonl"), shown
        )
    except Exception as error:
        return [], error
    for warning in messages:
        say(f"Warning: {warning}")
    if note := edit_note(folder):
        remarks = [*remarks, Table(TITLE_OF_EDIT, ["remark"], [[note]])]
    return [*measures, *remarks], None


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Handles SIGTERM as Ctrl-C: the fit ends its chunk, saves, and stops."""
    handler = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)
