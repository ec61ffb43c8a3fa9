"""`vijax edit`: a new run whose topics are those of another, merged, dropped, split or renamed."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from vijax.app.folder.claim import claim_folder
from vijax.app.folder.restored import reread_plan, restore
from vijax.app.folder.run_end import say_remarks
from vijax.app.folder.run_folder import (
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
from vijax.app.sources.listing import FittedRun
from vijax.app.sources.sampled_documents import SampledDocuments
from vijax.app.sources.topic_names import topic_names
from vijax.fitting import checkpoint
from vijax.fitting.status import Status
from vijax.growing.topic_edits import TopicEdit, edit_topics

EDITED = ("lda", "hdp")
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
            f"{' and '.join(EDITED)}. Shares of merged topics of other models are sums of the "
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
        numbers = {name: getattr(edits, name) for name in ("merge", "drop", "split", "order")}
        corpus = plan.data.train
        if edits.split and isinstance(corpus, SampledDocuments):
            say(f"Note: topics are split by {corpus.num_documents:,} documents, evenly spread")
        with announce_if_slow(say, "Editing ... (the programs are compiled first)"):
            edited = _edit(run, numbers, corpus, key)
        new_config = _new_config(config, edited, names)
        with claim_folder(out, f"{config.name}-edited") as new_folder:
            new_plan = Plan(new_config, plan.data)
            write_beginning(new_folder, new_plan)
            _note_origin(new_folder, folder, edits)
            if (folder / "metrics.jsonl").is_file():
                shutil.copyfile(folder / "metrics.jsonl", new_folder / "metrics.jsonl")
            say(f"Run folder: {new_folder}")
            return _finish(new_folder, new_plan, edited, say)


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


def _edit(run: FittedRun, numbers: Mapping[str, Any], corpus: Any, key: Any) -> TopicEdit:
    """The edited fit; without numbers, where names alone change, the fit as it is."""
    if any(len(value) for value in numbers.values()):
        return edit_topics(run.fit, **numbers, corpus=corpus, key=key)
    return edit_topics(run.fit, order=[0])


def _new_config(config: Config, edited: TopicEdit, names: Mapping[int, str]) -> Config:
    """The settings of the new run: its number of topics, its priors, the names that stay. Seed
    words have become counts of their topics."""
    hyper = edited.fit.state.hyper
    settings: dict[str, Any] = {
        "num_topics": len(edited.groups),
        "seed_words": (),
        "eta": _one_if_equal(hyper["eta"]),
        "alpha": _one_if_equal(hyper["alpha"]),
    }
    if hasattr(config.model, "grow"):
        settings["grow"] = False
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


def _note_origin(folder: Path, origin: Path, edits: TopicEdits) -> None:
    """Adds to versions.json which run was edited, and how."""
    path = folder / "versions.json"
    versions = read_json(path, "begin the edit again")
    edits_made = {name: value for name, value in edits._asdict().items() if value}
    write_json(path, versions | {"edited_from": str(origin), "edits": edits_made})


def _finish(folder: Path, plan: Plan, edited: TopicEdit, say: Say) -> Outcome:
    """Saves the state, scores it, and writes the results and the page."""
    first_state = plan.algorithm.init(jax.random.key(0), plan.start_batch())
    state = first_state._replace(
        posterior=edited.fit.state.posterior,
        step=edited.fit.state.step,
    )
    fit = edited.fit._replace(alg=plan.algorithm, state=state, status=Status.FINISHED)
    settings = noted_settings(folder, plan.config)
    checkpoint.save(folder / "checkpoints", int(state.step), state, settings)
    return finish(Session(folder, plan, None, say, ALONE), fit)
