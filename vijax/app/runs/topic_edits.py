"""`vijax edit`: a new run whose topics are those of another, merged, dropped, split or renamed."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.app.folder.claim import claim_folder
from vijax.app.folder.restored import reread_plan, restore
from vijax.app.folder.run_end import say_remarks
from vijax.app.folder.run_folder import (
    EDIT_NOTE,
    Say,
    noted_settings,
    read_json,
    read_run_config,
    with_names,
    write_beginning,
    write_json,
)
from vijax.app.plan.config import Config, ConfigError
from vijax.app.plan.plan import Plan
from vijax.app.runs.run import ALONE, Outcome, Session, finish
from vijax.app.settings.progress import announce_if_slow
from vijax.app.sources.listing import FittedRun, held_out_score_key
from vijax.app.sources.sampled_documents import SampledDocuments
from vijax.app.sources.topic_names import topic_names
from vijax.fitting import checkpoint
from vijax.fitting.result import Fit
from vijax.fitting.status import Status
from vijax.growing.topic_edits import TopicEdit, edit_topics

EDITED = ("lda", "hdp", "dtm")
"""Models whose topics can be edited."""


class TopicEdits(NamedTuple):
    """A request about topics, by their numbers before the edit, as `edit_topics` takes it; and
    their names, "3: sport"."""

    merge: Sequence[Sequence[int]] = ()
    drop: Sequence[int] = ()
    split: Sequence[int] = ()
    order: Sequence[int] = ()
    names: Sequence[str] = ()


def edit_run(
    folder: Path,
    edits: TopicEdits,
    out: Path | None,
    training: str | None,
    seed: int,
    say: Say,
) -> Outcome:
    """Writes a new run with the topics of a run after these edits, with its page, scores and
    results for documents. Both have the same data; the new one can be resumed."""
    config = read_run_config(folder)
    if config.model.name not in EDITED:
        raise ConfigError(
            f"{folder}: a run of {config.listing.name}; topics are edited of "
            f"{', '.join(EDITED)}. Shares of merged topics of other models are sums of the "
            "columns of doc_topics.csv"
        )
    if not any(edits):
        raise ConfigError("edit: expected --merge, --drop, --split, --order or --name, got none")
    say_remarks(folder, say)
    names = topic_names(with_names(config, edits.names))
    with config.in_precision():
        plan = reread_plan(folder, config, training)
        run = restore(folder, plan)
        key = jax.random.key(seed)
        if any((edits.merge, edits.drop, edits.split, edits.order)):
            return _edit_fit(run, plan, edits, _Place(folder, out, say), names, key)
        return _rename(run, plan, edits, _Place(folder, out, say))


class _Place(NamedTuple):
    """The run that is edited, the folder of the new one if it is named, and where notes go."""

    origin: Path
    out: Path | None
    say: Say


def _rename(run: FittedRun, plan: Plan, edits: TopicEdits, place: _Place) -> Outcome:
    """A copy of the run under new names: the same fit, or the same fits that are averaged."""
    new_plan = Plan(with_names(plan.config, edits.names), plan.data)
    with claim_folder(place.out, f"{plan.config.name}-edited") as folder:
        _begin(folder, new_plan, edits, place)
        curves = place.origin / "metrics.jsonl"
        if curves.is_file():
            shutil.copyfile(curves, folder / "metrics.jsonl")
        fit = run.fit._replace(status=Status.FINISHED)
        state: Any = fit.state
        if fit.runs is not None:
            state = fit.runs
        return _save(folder, new_plan, fit, state, place.say)


def _edit_fit(
    run: FittedRun,
    plan: Plan,
    edits: TopicEdits,
    place: _Place,
    names: Mapping[int, str],
    key: PRNGKeyArray,
) -> Outcome:
    """A run of the edited fit. The curve of the held-out score stays with the old run, for the new
    topics have another."""
    numbers = {name: getattr(edits, name) for name in ("merge", "drop", "split", "order")}
    corpus = plan.data.train
    if edits.split and isinstance(corpus, SampledDocuments):
        place.say(f"Note: topics are split by {corpus.num_documents:,} documents, evenly spread")
    note = _note_of_average(run, plan)
    if note:
        place.say(f"Note: {note}")
    with announce_if_slow(place.say, "Editing ... (the programs are compiled first)"):
        single = run.fit._replace(runs=None)
        edited = edit_topics(single, **numbers, corpus=corpus, key=key)
    new_plan = Plan(_new_config(plan.config, edited, names), plan.data)
    with claim_folder(place.out, f"{plan.config.name}-edited") as folder:
        _begin(folder, new_plan, edits, place, note)
        return _finish(folder, new_plan, edited, place.say)


def _begin(folder: Path, plan: Plan, edits: TopicEdits, place: _Place, note: str = "") -> None:
    """Writes the files of a new run that are known before its page."""
    write_beginning(folder, plan)
    _note_origin(folder, place.origin, edits, note)
    place.say(f"Run folder: {folder}")


def _note_of_average(run: FittedRun, plan: Plan) -> str:
    """A sentence where one of several averaged fits is edited, with the score of both; else ""."""
    if run.fit.runs is None:
        return ""
    number = len(run.fit.members)
    note = f"The run averages {number} fits, and the better one alone is edited"
    if plan.data.test is None:
        return f"{note}."
    score = lambda fit: plan.config.listing.score_test_data(
        FittedRun(fit, plan.data, plan.config.model, held_out_score_key())
    )
    average, single = score(run.fit), score(run.fit._replace(runs=None))
    return (
        f"{note}. Held-out score before the edit: {single.mean:.3f} of that fit, "
        f"{average.mean:.3f} of the average."
    )


def read_groups(words: Sequence[str]) -> list[list[int]]:
    """Groups of topics from words such as "3 7" or "3,7".

    >>> read_groups(["3 7", "1,4,5"])
    [[3, 7], [1, 4, 5]]
    """
    groups = []
    for text in words:
        numbers = text.replace(",", " ").split()
        if not all(number.isdecimal() for number in numbers):
            raise ConfigError(f'--merge: expected groups such as "3 7" "1 4 5", got {text!r}')
        groups.append([int(number) for number in numbers])
    return groups


def _new_config(config: Config, edited: TopicEdit, names: Mapping[int, str]) -> Config:
    """The settings of the new run: its number of topics, its priors, the names that stay. Seed
    words have become counts of their topics."""
    hyper = edited.fit.state.hyper
    settings: dict[str, Any] = {
        "num_topics": len(edited.groups),
        "seed_words": (),
        "grow": False,
        **{name: _one_if_equal(value) for name, value in hyper.items() if name != "gamma"},
    }
    settings = {name: value for name, value in settings.items() if hasattr(config.model, name)}
    model = dataclasses.replace(config.model, **settings)
    lines = []
    for number, group in enumerate(edited.groups):
        group_names = dict.fromkeys(names[k] for k in group if names.get(k))
        if group_names:
            lines.append(f"{number}: {' and '.join(group_names)}")
    page = dataclasses.replace(config.page, names=tuple(lines))
    plain_steps = {"lazy": False, "active_topics": None, "left_out": None}
    has = {name: value for name, value in plain_steps.items() if hasattr(config.algorithm, name)}
    algorithm: Any = dataclasses.replace(config.algorithm, **has)
    fit: Any = dataclasses.replace(config.fit, restarts=1)
    return dataclasses.replace(config, model=model, page=page, algorithm=algorithm, fit=fit)


def _one_if_equal(values: Any) -> float | tuple[float, ...]:
    """A number, or numbers unless all are equal; with the digits of float32."""
    numbers = np.atleast_1d(np.asarray(values))
    shortest = tuple(float(str(number)) for number in numbers)
    if len(set(shortest)) == 1:
        return shortest[0]
    return shortest


def _note_origin(folder: Path, origin: Path, edits: TopicEdits, note: str) -> None:
    """Adds to versions.json which run was edited, how, and a remark for the page."""
    path = folder / "versions.json"
    versions = read_json(path, "begin the edit again")
    edits_made = {name: value for name, value in edits._asdict().items() if value}
    versions |= {"edited_from": str(origin), "edits": edits_made}
    if note:
        versions[EDIT_NOTE] = note
    write_json(path, versions)


def _finish(folder: Path, plan: Plan, edited: TopicEdit, say: Say) -> Outcome:
    """Saves the state, scores it, and writes the results and the page."""
    first_state = plan.algorithm.init(jax.random.key(0), plan.start_batch())
    state = first_state._replace(
        posterior=edited.fit.state.posterior,
        step=edited.fit.state.step,
    )
    fit = edited.fit._replace(alg=plan.algorithm, state=state, status=Status.FINISHED)
    return _save(folder, plan, fit, state, say)


def _save(folder: Path, plan: Plan, fit: Fit, state: Any, say: Say) -> Outcome:
    settings = noted_settings(folder, plan.config)
    checkpoint.save(folder / "checkpoints", int(fit.state.step), state, settings)
    return finish(Session(folder, plan, None, say, ALONE), fit)
