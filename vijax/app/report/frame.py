"""The frame of the part of the page on which topics are explored: its content before a script has
run.

Without scripts it still shows the map, and a table of topics and their words.
"""

from __future__ import annotations

import string
from importlib import resources

import numpy as np

from vijax.app.drawing.bubbles import Bubble, bubble_map
from vijax.app.drawing.svg import escape
from vijax.app.drawing.words import Words
from vijax.app.report.embedded import Documents, Explored, embedded
from vijax.topics.summary import Topic

RELEVANCE = 0.6
"""The first position of the slider: Sievert and Shirley's choice."""
IN_TABLE = 8
ALL = "The topics of all documents: vijax transform."
SCRIPTS = ("start", "words", "map", "topics", "one_topic", "search", "groups", "finish")


def script() -> str:
    """The whole script of the page, one file after the other."""
    return '"use strict";\n{\n' + "\n".join(_file(f"script/{name}.js") for name in SCRIPTS) + "}\n"


def style() -> str:
    """The style sheet of this part."""
    return _file("explorer.css")


def _file(name: str) -> str:
    return resources.files("vijax.app.report").joinpath(name).read_text(encoding="utf-8")


def sections(explored: Explored) -> str:
    """The whole part, without its script; text is escaped where it is made."""
    left_out = explored.words.left_out
    rare = f" {left_out:,} rarer words are left out of this page." if left_out else ""
    choices = (
        f'<option value="{i}">{escape(group.by)}</option>'
        for i, group in enumerate(explored.groups)
    )
    topics = [topic for topic in explored.topics if topic.words]
    of = f" of {len(explored.topics)} that hold words" if len(topics) < len(explored.topics) else ""
    return string.Template(_file("explorer.html")).substitute(
        title=("The topic" if len(topics) == 1 else f"The {len(topics)} topics") + of,
        weight=RELEVANCE,
        map=bubble_map([_bubble(topic, explored.words) for topic in topics]),
        about_words=f"Which topics use a word, and for how many of its uses.{rare}",
        about_documents=_about_documents(explored.documents, explored.sampled),
        about_groups=f" Made of {explored.sampled:,} documents, evenly spread. {ALL}"
        if explored.sampled
        else "",
        columns="".join(choices),
        rows="".join(_row(topic, explored.words) for topic in topics),
        data=embedded(explored),
    )


def _about_documents(documents: Documents | None, sampled: int | None) -> str:
    kept, total = (0, 0) if documents is None else (len(documents.titles), documents.total)
    some = (
        f" {kept:,} of {total:,} documents are on this page: those that use a topic most, and "
        "others, evenly spread."
    )
    chosen = (
        f" They were chosen from {sampled or 0:,}, evenly spread, in doc_topics_sample.csv. {ALL}"
    )
    where = chosen if sampled else " All are in doc_topics.csv."
    return f"By title or beginning.{some + where if kept < total else ''}"


def _bubble(topic: Topic, words: Words) -> Bubble:
    name = f" ({topic.name})" if topic.name else ""
    said = (
        f"Topic {topic.number}{name}, {100 * topic.share:.1f} %: "
        f"{', '.join(by_relevance(topic, words)[:IN_TABLE])}"
    )
    return Bubble(
        *topic.position, topic.share, str(topic.number), topic.label, f"#topic-{topic.number}", said
    )


def by_relevance(topic: Topic, words: Words, weight: float = RELEVANCE) -> list[str]:
    """The words of a topic, the most relevant first."""
    places, log_probs = words.leading[topic.number]
    relevance = log_probs - (1.0 - weight) * words.log_overall[places]
    return [words.names[places[i]] for i in np.argsort(-relevance, kind="stable")]


def _row(topic: Topic, words: Words) -> str:
    known = topic.coherence == topic.coherence
    coherence = f"{topic.coherence:.2f}".replace("-", "\u2212") if known else ""
    called = escape(f"{topic.number} {topic.name}".strip())
    return (
        f'<tr id="topic-{topic.number}" data-topic="{topic.number}"><td><a '
        f'href="#topic-{topic.number}">{called}</a>'
        f'</td><td class="number">{100 * topic.share:.1f} %</td><td class="number">{coherence}</td>'
        f'<td class="leading">{escape(", ".join(by_relevance(topic, words)[:IN_TABLE]))}</td></tr>'
    )
