"""The part of the page on which topics are explored, as it is before a script has run.

Without scripts it still shows the map, and a table of topics and their words.
"""

from __future__ import annotations

import math
import string
from importlib import resources

import numpy as np

from vijax.app.drawing.bubbles import Bubble, bubble_map
from vijax.app.drawing.svg import escape
from vijax.app.drawing.words import RELEVANCE, Words
from vijax.app.report.embedded import Documents, TopicPage, to_json_text
from vijax.topics.summary import Topic

IN_TABLE = 8
ALL = "The topics of all documents: vijax transform."
SCRIPTS = ("start", "words", "map", "topics", "one_topic", "search", "groups", "finish")


def script() -> str:
    """The script of the page, one file after the other."""
    return '"use strict";\n{\n' + "\n".join(_file(f"script/{name}.js") for name in SCRIPTS) + "}\n"


def style() -> str:
    """The style sheet of this part."""
    return _file("explorer.css")


def _file(name: str) -> str:
    return resources.files("vijax.app.report").joinpath(name).read_text(encoding="utf-8")


def sections(page: TopicPage) -> str:
    """The HTML of this part, without its script; text is escaped where it is made."""
    left_out = page.words.left_out
    rare = f" {left_out:,} rarer words are left out of this page." if left_out else ""
    choices = (
        f'<option value="{i}">{escape(group.by)}</option>' for i, group in enumerate(page.groups)
    )
    topics = [topic for topic in page.topics if topic.words]
    title = "The topic" if len(topics) == 1 else f"The {len(topics)} topics"
    if len(topics) < len(page.topics):
        title += f" of {len(page.topics)} that hold words"
    about_groups = ""
    if page.sampled:
        about_groups = f" Made of {page.sampled:,} documents, evenly spread. {ALL}"
    return string.Template(_file("explorer.html")).substitute(
        title=title,
        weight=RELEVANCE,
        map=bubble_map([_bubble(topic, page.words) for topic in topics]),
        about_words=f"Which topics use a word, and for how many of its uses.{rare}",
        about_documents=_about_documents(page.documents, page.sampled),
        about_groups=about_groups,
        columns="".join(choices),
        rows="".join(_row(topic, page.words) for topic in topics),
        data=to_json_text(page),
    )


def _about_documents(documents: Documents | None, sampled: int | None) -> str:
    if documents is None or len(documents.titles) >= documents.total:
        return "By title or beginning."
    num_shown, total = len(documents.titles), documents.total
    selection = (
        f" {num_shown:,} of {total:,} documents are on this page: those that use a topic most, and "
        "others, evenly spread."
    )
    place = " All are in doc_topics.csv."
    if sampled:
        place = (
            f" They were chosen from {sampled:,}, evenly spread, in doc_topics_sample.csv. {ALL}"
        )
    return f"By title or beginning.{selection}{place}"


def _bubble(topic: Topic, words: Words) -> Bubble:
    name = f" ({topic.name})" if topic.name else ""
    leading = ", ".join(relevant_words(topic, words)[:IN_TABLE])
    text = f"Topic {topic.number}{name}, {100 * topic.share:.1f} %: {leading}"
    return Bubble(
        *topic.position, topic.share, str(topic.number), topic.label, f"#topic-{topic.number}", text
    )


def relevant_words(topic: Topic, words: Words, weight: float = RELEVANCE) -> list[str]:
    """The words of a topic, the most relevant first."""
    leading = words.leading[topic.number]
    places, log_probs = leading.places, leading.log_probs
    relevance = log_probs - (1.0 - weight) * words.log_overall[places]
    return [words.names[places[i]] for i in np.argsort(-relevance, kind="stable")]


def _row(topic: Topic, words: Words) -> str:
    coherence = ""
    if not math.isnan(topic.coherence):
        coherence = f"{topic.coherence:.2f}".replace("-", "\u2212")
    name = escape(f"{topic.number} {topic.name}".strip())
    return (
        f'<tr id="topic-{topic.number}" data-topic="{topic.number}"><td><a '
        f'href="#topic-{topic.number}">{name}</a></td><td class="number">{100 * topic.share:.1f} '
        f'%</td><td class="number">{coherence}</td><td '
        f'class="leading">{escape(", ".join(relevant_words(topic, words)[:IN_TABLE]))}</td></tr>'
    )
