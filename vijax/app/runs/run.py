"""A run of `vijax fit`: its start, how it goes on after any kind of end, and its result."""

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

from vijax.app.answers.quality import quality
from vijax.app.answers.results import forget_results, write_results
from vijax.app.catalogue.parts.density_algorithm import is_at_once, read_by
from vijax.app.drawing.blocks import without_excerpts
from vijax.app.folder.at_once import as_kept, fitted, keep_stage, keeper, read_stage
from vijax.app.folder.claim import claimed, locked, unwritable
from vijax.app.folder.recorder import Recorder
from vijax.app.folder.run_end import what_is_saved, whole_end_of, write_end
from vijax.app.folder.run_folder import (
    Say,
    check_same_data,
    latest_checkpoint,
    mend_config,
    note_versions,
    noted_settings,
    read_run_config,
    write_beginning,
    write_kept,
)
from vijax.app.folder.team import Alone
from vijax.app.plan import growth
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import Config, ConfigError, resolved
from vijax.app.plan.plan import Plan, settle
from vijax.app.report.pages import write_pages
from vijax.app.settings.progress import Printer, announced, say_to_stderr
from vijax.app.settings.sections import DocumentData
from vijax.app.settings.typed_toml import DamagedError
from vijax.app.settings.user_code import named_at_fit
from vijax.app.sources.documents import with_own_stop_words
from vijax.app.sources.listing import Data, FittedRun, key_of_scores
from vijax.app.sources.tables import held_out_entries
from vijax.data.reading.checks import DataError
from vijax.data.tables.table import rows_of
from vijax.evaluate import metrics
from vijax.files import own_folder, remove_leftovers
from vijax.fitting import checkpoint
from vijax.fitting.fit import Status, fit
from vijax.fitting.interrupt import heard_while_busy
from vijax.fitting.result import Fit
from vijax.fitting.status import SkippedStepsWarning, skipped_text
from vijax.scale import on_mesh
from vijax.xla import native

MOST_STEPS = 2**31 - 1
"""The counter of steps has 32 bits."""


class Outcome(NamedTuple):
    """The end of a sitting: the folder, why it stopped, the last held-out score (None if nothing
    was held out), the skipped steps in words (empty if there were none), and whether the verdict
    allows its use."""

    folder: Path
    status: Status
    score: Any
    skipped: str = ""
    usable: bool = True


class StoppedError(KeyboardInterrupt):
    """A run was stopped at once; the message says how much of it is saved, and how to go on."""


MAKING = "Making the model ... (its parts are compiled)"


# --- starting and going on ------------------------------------------------------------------------
ALONE = Alone()


def start(
    config: Config, folder: Path | None = None, say: Say = say_to_stderr, team: Alone = ALONE
) -> Outcome:
    """Begins a run in a new folder (runs/NAME-1, -2, ... if none is named) and sees it to its
    end."""
    return begin(named(config), folder, say, None, team)


def begin(
    config: Config, folder: Path | None, say: Say, data: Data | None = None, team: Alone = ALONE
) -> Outcome:
    """As `start`, for a configuration from `named`; data may have been read already."""
    with claimed(folder, config.name) as folder, _telling(folder), config.in_precision():
        plan = settle(config, read(config, say) if data is None else data)
        with announced(say, MAKING):
            _check_beforehand(plan, team)
        if plan.data.test is not None and not config.listing.has_score(plan.algorithm.spec.model):
            say(
                f"Note: {config.listing.name} has no held-out score; data.held_out=0 learns from "
                "all of the data"
            )
        try:
            write_beginning(folder, plan)
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(
                f"{folder} could not be written ({reason}); make room, or name another with --out"
            ) from error
        say(f"Run folder: {folder}")
        return _sit(Sitting(folder, plan, None, say, team))


def resume(
    folder: Path, say: Say = say_to_stderr, data: Data | None = None, team: Alone = ALONE
) -> Outcome:
    """Goes on with a run from its newest whole checkpoint, to the result of an unbroken run, bit
    for bit. Its data may have been read already."""
    if folder.is_dir():
        with locked(folder):
            mend_config(folder, say)
    config = read_run_config(folder)
    if team.devices is not None and is_at_once(config):
        raise ConfigError(
            f"devices: not for algorithm.name = {config.algorithm.name}, which computes on one"
        )
    with locked(folder), _telling(folder), config.in_precision():
        plan = Plan(config, read(config, say) if data is None else data)
        check_same_data(folder, plan)
        write_kept(folder, plan)  # mends damaged files
        remove_leftovers(own_folder(folder / "checkpoints"))
        found, ended = _newest(folder, plan, say), whole_end_of(folder, say)
        if found is not None and ended is not None and _is_at_its_end(config, found, ended):
            more = (
                ""
                if is_at_once(config)
                else f"; to go on, lower fit.convergence in {folder / 'config.toml'}"
            )
            say(f"{folder} has {'ended' if is_at_once(config) else 'converged'}{more}")
            write_pages(folder)
            skipped = skipped_text(ended.get("skipped", 0), ended["step"])
            return Outcome(folder, Status.CONVERGED, ended["score_text"], skipped, ended["usable"])
        found = (
            None if is_at_once(config) else found
        )  # such a fit goes on from its stage, or begins again
        forget_results(folder, config)
        _prepare(folder, found.step if found else 0, say)
        return _sit(Sitting(folder, plan, found, say, team))


def follow(config: Config, team: Alone) -> Status:
    """Takes part in the fit of a run whose folder another process keeps, from its newest checkpoint
    if it has one."""
    say = lambda line: None
    with config.in_precision():
        plan = settle(config, load_data(config))
        _check_beforehand(plan, team)
        with team.at_work(None, 0, say) as (folder, step), _terminable():
            found = _newest(folder, plan, say) if step else None
            if step != (found.step if found else 0):
                there = f"step {found.step}" if found else "no checkpoint"
                raise ConfigError(
                    f"{folder}: expected step {step}, as process 0 reads, got {there}: share the "
                    "folder"
                )

            def join(progress: Any) -> None:
                if team.agreed(progress.stopping):
                    team.stored(folder / "checkpoints", progress.step, progress.whole)

            return _fitted(Sitting(folder, plan, found, say, team), (join,)).status


def _newest(folder: Path, plan: Plan, say: Say) -> checkpoint.Checkpoint | None:
    """The newest checkpoint. A run that does not go on from one does without a checkpoint that
    cannot be read."""
    try:
        with announced(say, MAKING):
            like = plan.state_like(as_kept(folder, plan))
        return latest_checkpoint(folder, plan.config, like, say)
    except (DamagedError, checkpoint.CheckpointError) as error:
        if not is_at_once(plan.config):
            raise
        fault = error.fault if isinstance(error, DamagedError) else error
        say(f"Warning: {fault}. It is fitted again.")
        return None


def _prepare(folder: Path, step: int, say: Say) -> None:
    """Removes records of steps that are taken again, and warns of changed versions and missing
    records."""
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
def _telling(folder: Path) -> Iterator[None]:
    """Turns Ctrl-C, where no chunk can be finished, into an error that says how much is saved."""
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError(what_is_saved(folder)) from None


def _is_at_its_end(config: Config, found: checkpoint.Checkpoint, ended: dict[str, Any]) -> bool:
    """True where the run has stopped by itself, and would again: no step is left to take."""
    same = (
        found.config.get("fit.convergence") == config.fit.convergence
        and ended["step"] == found.step
    )
    by_itself = is_at_once(config) and ended["status"] != str(Status.INTERRUPTED)
    return same and (ended["status"] == str(Status.CONVERGED) or by_itself)


def _check_beforehand(plan: Plan, team: Alone) -> None:
    """Raises an error that would else come once the run has begun, so that nothing is left
    behind."""
    config, data, algorithm = plan.config, plan.data, plan.algorithm
    steps = config.fit.num_epochs * plan.steps_per_epoch
    if not 0.5 < steps < MOST_STEPS:
        raise ConfigError(
            f"fit.num_epochs: expected passes over the data of 1 to {MOST_STEPS:,} steps in all, "
            f"got {config.fit.num_epochs:g} passes, which are {steps:g} steps"
        )
    growth.check(config)
    devices = team.mesh(config)
    if devices is not None:
        on_mesh(algorithm, devices)
    check = algorithm.spec.model.form.check
    if check is None:
        return
    documents = config.listing.of_documents
    parts = {"training": data.train}
    if data.test is not None and not documents and not held_out_entries(data):
        parts["held-out"] = data.test
    for name, part in parts.items():
        try:
            with rows_of(part):
                check(read_by(algorithm.spec.model, plan.arranged(part)))
        except DataError:
            raise
        except ValueError as error:
            where = (
                f"{name} {f'{config.listing.unit}s' if documents else 'rows'}, counted from 0 "
                "within them"
            )
            raise ValueError(f"{config.data.path}, {where}: {error}") from error


def named(config: Config) -> Config:
    """The configuration of a new run: its paths absolute, with the words of a file of stop words,
    and the Python file that it names allowed."""
    changed = {}
    for table, names in PATHS.items():
        section = getattr(config, table)
        paths = {name: getattr(section, name, None) for name in names}
        changed[table] = dataclasses.replace(
            section, **{name: resolved(path) for name, path in paths.items() if path is not None}
        )
    if isinstance(config.data, DocumentData):
        changed["data"] = with_own_stop_words(changed["data"])
    return named_at_fit(dataclasses.replace(config, **changed))


PATHS = {"data": ("path", "vocabulary", "user_features", "item_features"), "model": ("file",)}
"""Settings that are paths."""


def read(config: Config, say: Say) -> Data:
    """The data of a run, described on the screen with their notes."""
    data = load_data(config)
    say(f"Data: {config.listing.source.describe(data)}")
    of_topics = native.missing() if isinstance(config.data, DocumentData) else ""
    for note in [*getattr(data.train, "notes", ()), *filter(None, [of_topics])]:
        say(f"Note: {note}")
    return data


# --- a sitting ------------------------------------------------------------------------------------
class Sitting(NamedTuple):
    """A run that is at work: its checkpoint (None at step 0), and the processes at it."""

    folder: Path
    plan: Plan
    found: checkpoint.Checkpoint | None
    say: Say
    team: Alone


def _sit(sitting: Sitting) -> Outcome:
    """Fits from the present step to the end, or until the run is stopped; then writes the
    result."""
    with sitting.team.at_work(
        sitting.folder, sitting.found.step if sitting.found else 0, sitting.say
    ):
        return _seen_to_its_end(sitting)


def _fitted(sitting: Sitting, callbacks: tuple[Any, ...]) -> Fit:
    _, plan, found, say, team = sitting
    config = plan.config
    return fit(
        plan.algorithm,
        plan.training,
        key=jax.random.key(config.fit.seed),
        num_epochs=config.fit.num_epochs,
        batch_size=plan.batch_size,
        state=found.tree if found else growth.first_state(plan, say),
        restarts=config.fit.restarts,
        tol=config.fit.convergence,
        callbacks=callbacks,
        throw=False,
        mesh=team.mesh(config),
    )


def _seen_to_its_end(sitting: Sitting) -> Outcome:
    folder, plan, _, say, team = sitting
    config, data = plan.config, plan.data
    key, listing = jax.random.key(config.fit.seed), config.listing
    score_key, read_key = key_of_scores(), jax.random.split(jax.random.fold_in(key, 1))[1]
    if plan.note_of_batch_size:
        say(plan.note_of_batch_size)

    def score(progress: Any) -> Any:
        return listing.scored(
            FittedRun(Fit(progress.alg, progress.state, {}, None), data, config.model, score_key)
        )

    every = config.fit.evaluate_every
    if every is None:
        every = max(1, round(config.fit.num_epochs * plan.steps_per_epoch / 6))
    scores = data.test is not None and listing.has_score(plan.algorithm.spec.model)
    recorder = Recorder(
        folder,
        noted_settings(folder, config),
        score=score if scores else None,
        evaluate_every=every,
        checkpoint_every_s=config.fit.checkpoint_every_s,
        warn=lambda message: say(f"Warning: {message}"),
        seconds=metrics.seconds(folder / "metrics.jsonl"),
        team=team,
    )
    unit = {"document": "docs"}.get(listing.unit, f"{listing.unit}s")
    printer = Printer(
        config.fit.progress_every_s,
        lambda: recorder.latest_score,
        lambda: recorder.spent,
        unit=unit,
        per=listing.per,
        more=team.slowest,
    )
    with _terminable(), heard_while_busy(), warnings.catch_warnings():
        warnings.simplefilter("ignore", SkippedStepsWarning)  # the last lines say it
        if is_at_once(config):
            with announced(
                say, f"Fitting ... ({config.algorithm.name} stops by itself, and shows no steps)"
            ):
                stage = read_stage(folder, plan, say)
                result = fitted(plan, key, (keeper(folder), recorder), stage)
                keep_stage(folder, config, result)
        else:
            with printer.announcing():
                result = _fitted(sitting, (recorder, printer))
    if scores and recorder.score_step != int(result.state.step):
        recorder.take_score(result)
    shown, fault = _described(listing, FittedRun(result, data, config.model, read_key, say))
    if fault is None:
        judged = FittedRun(result, data, config.model, score_key)
        remarks, fault = _judged(judged, recorder.latest_score, folder, shown, say)
        shown += remarks
    if listing.source.excerpts is not None and not config.page.excerpts:
        shown = without_excerpts(shown)
    try:
        write_end(folder, config, shown, result, recorder.latest_score, recorder.seconds)
        if fault is None and result.status in (Status.FINISHED, Status.CONVERGED):
            write_results(folder, config, FittedRun(result, data, config.model, key), say)
        write_pages(folder)
    except OSError as error:
        raise unwritable(folder, error) from error
    if fault is not None:
        raise fault
    skipped = skipped_text(result.num_skipped, int(result.state.step))
    return Outcome(folder, result.status, recorder.latest_score, skipped, result.usable)


def _described(listing: Any, run: FittedRun) -> tuple[list[Any], Exception | None]:
    """The blocks of the page; or none, and an error to raise once the posterior is written: no run
    is lost at its end. A posterior that is not finite has no blocks, and this is no error."""
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


def _judged(
    run: FittedRun, score: Any, folder: Path, shown: list[Any], say: Say
) -> tuple[list[Any], Exception | None]:
    """The block on whether the fit is any good, whose warnings are said; or none, and an error to
    raise later."""
    try:
        remarks, warned = quality(run, score, metrics.read_curves(folder / "metrics.jsonl"), shown)
    except Exception as error:
        return [], error
    for warning in warned:
        say(f"Warning: {warning}")
    return remarks, None


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Takes SIGTERM as Ctrl-C: the fit ends its chunk, saves, and stops."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
