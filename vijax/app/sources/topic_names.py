"""Words and names that a user gives to topics, as lines of settings: "politics: labour, election"
has the name and the seed words of the next topic, "7: film" the name of topic 7."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.app.drawing.blocks import Arcs, Block, Curves, Table, Topics, Tree
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
    """The model, with seed words for its topics, which are put in small letters if the vocabulary
    is.

    Args:
      settings: the section [model].
      data: the data.
      make: makes the model from settings and data.
    """
    if not settings.seed_words:
        return make(settings, data)
    vocabulary = frozenset(data.names)
    to_known = lambda word: word if word in vocabulary else word.lower()
    words = []
    for line in settings.seed_words:
        seeds = map(str.strip, _parts(line)[1].split(","))
        words.append([to_known(word) for word in seeds if word])
    try:
        eta = seeded(words, data.names, settings.num_topics, settings.eta, settings.seed_weight)
    except ValueError as error:
        has_phrases = any(" " in word for row in words for word in row)
        advice = (
            ' Commas are between the words of a topic: "labour, election".' if has_phrases else ""
        )
        raise ConfigError(
            f"model.seed_words: {str(error).removeprefix('seeds: ')}{advice}"
        ) from error
    return make(dataclasses.replace(settings, eta=eta), data)


def _parts(line: str) -> tuple[str, str]:
    """The text before the first colon, empty without one, and the rest.

    >>> _parts("film: actor, role"), _parts("actor, role")
    (('film', 'actor, role'), ('', 'actor, role'))
    """
    name, colon, words = line.partition(":")
    if colon:
        return (name.strip(), words.strip())
    return ("", line.strip())


def topic_names(config: Any) -> dict[int, str]:
    """The names of topics in the settings of a run, by number; [page] overrides seed words."""
    seeds = [_parts(line)[0] for line in getattr(config.model, "seed_words", ())]
    page_names = (_parts(line) for line in getattr(config.page, "names", ()))
    names = {**dict(enumerate(seeds)), **{int(number): name for number, name in page_names}}
    return {number: name for number, name in names.items() if name}


def add_labels(config: Any, run: FittedRun, results: RowResults) -> RowResults:
    """Results of documents, with the label of the largest topic of each: its name, or its three
    most probable words."""
    names = topic_names(config)
    words = run.data.names
    concentration = np.asarray(run.fit.topic_words.concentration)

    def label(topic: int) -> str:
        if names.get(topic):
            return names[topic]
        row = concentration[topic]
        number = min(3, len(row))
        leading = np.flatnonzero(row >= np.partition(row, -number)[-number])
        order = leading[np.argsort(-row[leading], kind="stable")]
        return " ".join(words[i] for i in order[:3])

    topics, places = np.unique(results["topic"], return_inverse=True)
    labels = np.array([label(int(topic)) for topic in topics], object)[places]
    return {"topic": results["topic"], "topic_label": labels, **results}


def words_per_topic(run: FittedRun) -> Float[np.ndarray, " K"] | None:
    """The number of words in each topic: its posterior less the prior. None for models that use all
    topics; models that grow leave some empty."""
    if not hasattr(run.settings, "grow"):
        return None
    prior = run.model.prior(run.fit.state.hyper)["topics"]
    gain = run.posterior["topics"].concentration - prior.concentration
    return np.sum(np.asarray(gain, float), -1)


def check_names(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on names of missing topics, and on seed words with a learnt `eta`."""
    num_topics = getattr(config.model, "num_topics", 0)
    for line in config.page.names:
        if not _is_number_below(_parts(line)[0], num_topics):
            expected = "none"
            if num_topics:
                expected = (
                    f'lines such as "0: sport", with the number of a topic, 0 to {num_topics - 1}'
                )
            raise ConfigError(
                f"{entries['page.names'].origin}: page.names: expected {expected}, got {line!r}"
            )
    if getattr(config.model, "seed_words", ()) and "eta" in getattr(config.model, "learn", ()):
        origin = entries["model.seed_words"].origin
        raise ConfigError(
            f"{origin}: model.seed_words: seed words are part of eta; leave it out of model.learn"
        )


def name_topics(blocks: Iterable[Block], names: Mapping[int, str]) -> list[Block]:
    """Blocks whose topics have these names, in tables too."""
    named_blocks = []
    new_labels: dict[str, str] = {}
    for block in blocks:
        if isinstance(block, Topics):
            topics = [topic._replace(name=names.get(topic.number, "")) for topic in block.topics]
            for before, after in zip(block.topics, topics, strict=True):
                new_labels[before.full_label] = after.full_label
            block = block._replace(topics=topics)
        elif isinstance(block, Tree | Arcs):
            block = block._replace(names=[new_labels.get(name, name) for name in block.names])
        elif isinstance(block, Curves):
            captions = [_rename_caption(name, new_labels) for name in block.names]
            block = block._replace(names=captions)
        elif isinstance(block, Table):
            rows = [[new_labels.get(cell, cell) for cell in row] for row in block.rows]
            block = block._replace(rows=rows)
        named_blocks.append(block)
    return named_blocks


def _rename_caption(caption: str, new_labels: Mapping[str, str]) -> str:
    """A caption, the label of a topic or "word in label", with the new label.

    >>> _rename_caption("oil in 2 ship canal", {"2 ship canal": "2 sea"})
    'oil in 2 sea'
    """
    word, joint, label = caption.partition(" in ")
    if joint and label in new_labels:
        return f"{word} in {new_labels[label]}"
    return new_labels.get(caption, caption)


def _is_number_below(text: str, limit: int) -> bool:
    """True for a number from 0 to below the limit, as it is usually written."""
    return text.isascii() and text.isdigit() and str(int(text)) == text and int(text) < limit
