"""Words and names that a user gives to topics, as lines of settings: "politics: labour, election"
has the name and the seed words of the next topic, "7: film" the name of topic 7."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.app.drawing.blocks import Block, Table, Topics
from vijax.app.settings.options import argument_setting, build_from_section
from vijax.app.settings.typed_toml import ConfigError, Entry, setting
from vijax.app.sources.listing import Data, FittedRun, RowResults
from vijax.topics import seeded

SEED_SETTINGS: dict[str, Any] = {
    "seed_words": (
        tuple[str, ...],
        setting(
            (),
            'words that topics 0, 1, ... are to have, as ["politics: labour, election", "film, '
            'actor"]',
        ),
    ),
    "seed_weight": argument_setting(seeded, "weight"),
}
"""The settings of seed words, for a section [model] whose `eta` may differ between topics."""


def build_with_seeds(
    settings: Any, data: Data, make: Callable[[Any, Data], Any] = build_from_section
) -> Any:
    """The model, whose topics have the seed words; where words are in small letters, these are too.
    `make` is the function of settings and data that makes it."""
    if not settings.seed_words:
        return make(settings, data)
    known = frozenset(data.names)
    as_known = lambda word: word if word in known else word.lower()
    words = [
        [as_known(w) for w in map(str.strip, _parts(line)[1].split(",")) if w]
        for line in settings.seed_words
    ]
    try:
        eta = seeded(words, data.names, settings.num_topics, settings.eta, settings.seed_weight)
    except ValueError as error:
        spaced = any(" " in word for row in words for word in row)
        commas = ' Commas are between the words of a topic: "labour, election".' if spaced else ""
        raise ConfigError(
            f"model.seed_words: {str(error).removeprefix('seeds: ')}{commas}"
        ) from error
    return make(dataclasses.replace(settings, eta=eta), data)


def _parts(line: str) -> tuple[str, str]:
    """The text before the first colon, empty without one, and the rest.

    >>> _parts("film: actor, role"), _parts("actor, role")
    (('film', 'actor, role'), ('', 'actor, role'))
    """
    before, colon, rest = line.partition(":")
    return (before.strip(), rest.strip()) if colon else ("", line.strip())


def topic_names(config: Any) -> dict[int, str]:
    """The names of topics that the settings of a run have, by number: those of [page] before those
    of seed words."""
    seeds = [_parts(line)[0] for line in getattr(config.model, "seed_words", ())]
    own = (_parts(line) for line in getattr(config.page, "names", ()))
    found = {**dict(enumerate(seeds)), **{int(number): name for number, name in own}}
    return {number: name for number, name in found.items() if name}


def add_labels(config: Any, run: FittedRun, found: RowResults) -> RowResults:
    """Results of documents, with the label of the largest topic of each: its name, or its three
    most probable words."""
    names, words, concentration = (
        topic_names(config),
        run.data.names,
        np.asarray(run.posterior["topics"].concentration),
    )

    def label(topic: int) -> str:
        row = concentration[topic]
        most = np.flatnonzero(row >= np.partition(row, -min(3, len(row)))[-min(3, len(row))])
        return names.get(topic) or " ".join(
            words[i] for i in most[np.argsort(-row[most], kind="stable")][:3]
        )

    topics, places = np.unique(found["topic"], return_inverse=True)
    labels = np.array([label(int(topic)) for topic in topics], object)[places]
    return {"topic": found["topic"], "topic_label": labels, **found}


def words_per_topic(run: FittedRun) -> Float[np.ndarray, " K"] | None:
    """The words that each topic holds, by what its posterior has beyond the prior; None for models
    that use all topics, and those that leave some empty are those that grow."""
    if not hasattr(run.settings, "grow"):
        return None
    prior = run.model.prior(run.fit.state.hyper)["topics"]
    return np.sum(
        np.asarray(run.posterior["topics"].concentration - prior.concentration, float), -1
    )


def check_names(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on names of no topic, and where seed words are in what is learnt."""
    numbers = [*map(str, range(getattr(config.model, "num_topics", 0)))]
    for line in config.page.names:
        if _parts(line)[0] not in numbers:
            expected = (
                f'lines such as "0: sport", with the number of a topic, 0 to {numbers[-1]}'
                if numbers
                else "none"
            )
            raise ConfigError(
                f"{entries['page.names'].origin}: page.names: expected {expected}, got {line!r}"
            )
    if getattr(config.model, "seed_words", ()) and "eta" in getattr(config.model, "learn", ()):
        origin = entries["model.seed_words"].origin
        raise ConfigError(
            f"{origin}: model.seed_words: seed words are part of eta; leave it out of model.learn"
        )


def name_topics(shown: Iterable[Block], names: Mapping[int, str]) -> list[Block]:
    """Blocks in which topics have these names, in tables that call them so too."""
    found, called = [], dict[str, str]()
    for block in shown:
        if isinstance(block, Topics):
            topics = [topic._replace(name=names.get(topic.number, "")) for topic in block.topics]
            called |= {
                old.full_label: new.full_label
                for old, new in zip(block.topics, topics, strict=True)
            }
            block = block._replace(topics=topics)
        elif isinstance(block, Table):
            block = block._replace(
                rows=[[called.get(cell, cell) for cell in row] for row in block.rows]
            )
        found.append(block)
    return found
