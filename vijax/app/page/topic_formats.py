"""Topics in the formats of `vijax topics`: text, csv, json, md."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Literal

from vijax.app.page.exports import WORDS_OF_TOPICS, csv_text, words_of_topics
from vijax.terminal import printable
from vijax.topics.summary import Topic, topics_text

Format = Literal["text", "csv", "json", "md"]


def formatted(topics: Sequence[Topic], format: Format, num_words: int) -> str:
    """The topics, the first `num_words` of each, without a line end.

    >>> topics = [Topic(3, 0.25, ("sun", "sea"), (0.5, 0.25), (0.0, 0.0))]
    >>> print(formatted(topics, "csv", 2))
    topic,share,word,probability
    3,0.25,sun,0.5
    3,0.25,sea,0.25
    >>> print(formatted(topics, "md", 2))
    | topic | share | words |
    |---:|---:|---|
    | 3 | 25.0 % | sun 0.500, sea 0.250 |
    """
    return FORMATS[format](topics, num_words)


def _csv(topics: Sequence[Topic], num_words: int) -> str:
    rows = words_of_topics(topics, num_words)
    return csv_text(WORDS_OF_TOPICS, ((k, f"{share:.6g}", word, f"{p:.6g}") for k, share, word, p in rows)).rstrip("\n")


def _json(topics: Sequence[Topic], num_words: int) -> str:
    records = [
        {"topic": t.number, "share": _short(t.share), "words": [list(pair) for pair in _words(t, num_words)]}
        for t in topics
    ]
    return "[\n" + ",\n".join(json.dumps(record, ensure_ascii=True) for record in records) + "\n]"


def _md(topics: Sequence[Topic], num_words: int) -> str:
    words = lambda topic: ", ".join(f"{_escaped(word)} {p:.3f}" for word, p in _words(topic, num_words))
    rows = [f"| {topic.number} | {100 * topic.share:.1f} % | {words(topic)} |" for topic in topics]
    return printable("\n".join(["| topic | share | words |", "|---:|---:|---|", *rows]))


def _words(topic: Topic, num_words: int) -> list[tuple[str, float]]:
    return [(word, _short(p)) for word, p in zip(topic.words[:num_words], topic.probabilities, strict=False)]


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _escaped(word: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>()#+-.!|" else letter for letter in word)


FORMATS: dict[Format, Callable[[Sequence[Topic], int], str]] = {
    "text": topics_text,
    "csv": _csv,
    "json": _json,
    "md": _md,
}
