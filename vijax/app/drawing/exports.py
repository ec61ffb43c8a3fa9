"""The blocks of a page as CSV, for a spreadsheet or another program: tables/NAME.csv; and the
formats of `vijax topics`."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from vijax.app.drawing import blocks
from vijax.terminal import printable
from vijax.topics.summary import Topic, topics_text

Part = tuple[str, Sequence[Any], Iterable[Sequence[Any]]]
"""The ending of a file's name after the block's, a header, and rows."""


def tables(page_blocks: Iterable[blocks.Block]) -> Iterator[tuple[str, str]]:
    """File names and their text, with numbers as in result.json, of six digits or more. Blocks of
    one title are numbered.

    >>> [(name, text)] = tables([blocks.Table("The coin", ["", "heads"], [["penny", 0.5]])])
    >>> name, text.splitlines()
    ('the_coin', [',heads', 'penny,0.5'])
    """
    names_used: set[str] = set()
    for block in page_blocks:
        for ending, header, rows in PARTS[type(block).__name__](block):
            name = "topics" if isinstance(block, blocks.Topics) else blocks.file_name(block)
            yield free_name(name + ending, names_used), csv_text(header, rows)


def csv_text(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """A header and rows as CSV; missing values are empty, formulas of spreadsheets quoted."""
    return "".join(",".join(map(_cell, row)) + "\n" for row in itertools.chain([header], rows))


def _cell(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float | np.floating) and not np.isfinite(cell):
        return ""  # as in JSON
    if isinstance(cell, int | float | np.number):
        return csv_cell(str(cell))
    return csv_cell(guard_formula(str(cell)))


def csv_cell(text: str) -> str:
    """A cell of CSV, in quotes if needed."""
    if APART.isdisjoint(text):
        return text
    return '"' + text.replace('"', '""') + '"'


APART = frozenset('",\r\n')
"""Cells with these letters are put in quotes. Python's csv does not quote a carriage return if
lines end in a line feed."""


def topic_words(topics: Iterable[Topic], num_words: int | None = None) -> Iterator[tuple[Any, ...]]:
    """A row for each word: number, name and share of the topic, the word and its probability."""
    for topic in topics:
        words = zip(topic.words[:num_words], topic.probabilities, strict=False)
        for word, probability in words:
            yield topic.number, topic.name, topic.share, word, probability


TOPIC_WORDS_HEADER = ("topic", "name", "share", "word", "probability")


def free_name(name: str, names_used: set[str]) -> str:
    """The name, with a number if it is used already; it is then added to `names_used`."""
    candidates = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))
    free = next(candidate for candidate in candidates if candidate not in names_used)
    names_used.add(free)
    return free


# --- kinds of blocks ------------------------------------------------------------------------------
def _lines(block: blocks.Lines) -> Iterator[Part]:
    band = [block.low, block.high] if len(block.low) else []
    ends = ["low", "high"] if len(block.low) else []
    yield "", [block.x_label, block.y_label, *ends], zip(block.x, block.y, *band, strict=True)
    if len(block.points_x):
        yield (
            "_points",
            [block.x_label, block.y_label],
            zip(block.points_x, block.points_y, strict=True),
        )


def _scatter(block: blocks.Scatter) -> Iterator[Part]:
    yield (
        "",
        [block.x_label, block.y_label, "class"],
        zip(block.x, block.y, block.classes, strict=True),
    )
    if block.outlines:
        points = []
        for number, (k, x, y) in enumerate(block.outlines):
            points += [(number, k, *point) for point in zip(x, y, strict=True)]
        yield "_outlines", ["outline", "class", block.x_label, block.y_label], points


def _curves(block: blocks.Curves) -> Iterator[Part]:
    """A row for each place of each panel."""
    panels = zip(block.names, block.values, block.lowest, block.highest, strict=True)
    rows = (
        (name, *row)
        for name, *panel_rows in panels
        for row in zip(block.x, *panel_rows, strict=True)
    )
    yield "", ["curve", block.x_label, "value", "low", "high"], rows


def _arcs(block: blocks.Arcs) -> Iterator[Part]:
    yield (
        "",
        ["one", "other", "weight"],
        ((block.names[i], block.names[j], weight) for i, j, weight in block.edges),
    )


def _tree(block: blocks.Tree) -> Iterator[Part]:
    """A row for each join; joins are numbered after the leaves."""
    names = [*block.names, *(f"join {m}" for m in range(len(block.joins)))]
    rows = (
        (f"join {m}", names[i], names[j], height) for m, (i, j, height) in enumerate(block.joins)
    )
    yield "", ["join", "one", "other", block.unit or "height"], rows


def _strips(block: blocks.Strips) -> Iterator[Part]:
    """A row for each step; steps after the end of a sequence are left out."""
    strips = zip(block.labels, block.states, strict=True)
    rows = ((label, step, k) for label, states in strips for step, k in enumerate(states) if k >= 0)
    yield "", ["sequence", "step", "state"], rows


def _course(block: blocks.Course) -> Iterator[Part]:
    """A row for each step."""
    probabilities = [f"probability_{k}" for k in range(len(block.probabilities))]
    columns = zip(*block.values, block.states, *block.probabilities, strict=True)
    times = [block.x] if len(block.x) and block.x_label != "step" else []
    rows = (
        (step, *row)
        for step, row in enumerate(zip(*times, *zip(*columns, strict=True), strict=True))
    )
    yield (
        "",
        ["step", *[block.x_label][: len(times)], *block.columns, "state", *probabilities],
        rows,
    )


def _images(block: blocks.Images) -> Iterator[Part]:
    """A row for each image, its pixels from the top left, row by row."""
    labelled_rows = zip(block.labels, block.images, strict=True)
    rows = (
        (label, place, *pixels)
        for label, images in labelled_rows
        for place, pixels in enumerate(images)
    )
    pixels = [f"pixel_{i}_{j}" for i in range(block.height) for j in range(block.width)]
    yield "", ["row", "place", *pixels], rows


def _topics(block: blocks.Topics) -> Iterator[Part]:
    yield "", TOPIC_WORDS_HEADER, topic_words(block.topics)
    list_rows = ((t.number, t.name, t.share, t.coherence, " ".join(t.words)) for t in block.topics)
    yield "_list", ["topic", "name", "share", "coherence_npmi", "words"], list_rows
    numbers = range(len(block.topics))
    yield (
        "_distances",
        ["", *numbers],
        ([k, *row] for k, row in zip(numbers, block.distances, strict=True)),
    )
    typical = ((t.number, d.title, d.share) for t in block.topics for d in t.documents)
    yield "_documents", ["topic", "document", "share"], typical


PARTS: dict[str, Callable[[Any], Iterable[Part]]] = {
    "Table": lambda block: [("", block.header, block.rows)],
    "Lines": _lines,
    "Scatter": _scatter,
    "Intervals": lambda b: [
        ("", ["", "mean", "deviation"], zip(b.labels, b.mean, b.deviation, strict=True))
    ],
    "Heat": lambda b: [
        ("", ["", *b.columns], ([label, *row] for label, row in zip(b.rows, b.values, strict=True)))
    ],
    "Curves": _curves,
    "Arcs": _arcs,
    "Tree": _tree,
    "Strips": _strips,
    "Course": _course,
    "Images": _images,
    "Topics": _topics,
}
"""The writers of blocks, by kind."""


# --- text that a spreadsheet would run ------------------------------------------------------------
FORMULA = re.compile(r"^'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""The beginnings of formulas; some spreadsheets accept the wide signs too."""
NUMBER = re.compile(r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$")


def guard_formula(text: str) -> str:
    """A cell, with a single quote in front if a spreadsheet would run it.

    >>> [guard_formula(text) for text in ("=1+1", "-x", "-1.5", "+1e-5", "x=1", "'=1")]
    ["'=1+1", "'-x", '-1.5', '+1e-5', 'x=1', "''=1"]
    """
    if FORMULA.match(text) and not NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def unguard_formula(text: str) -> str:
    """The text that was given to `guard_formula`.

    >>> [unguard_formula(guard_formula(text)) for text in ("=1+1", "'=1", "'x", "-1.5")]
    ['=1+1', "'=1", "'x", '-1.5']
    """
    if text.startswith("'") and FORMULA.match(text):
        return text[1:]
    return text


# --- the formats of `vijax topics` ----------------------------------------------------------------
Format = Literal["text", "csv", "json", "md"]


def format_topics(topics: Sequence[Topic], format: Format, num_words: int) -> str:
    """The topics with the first `num_words` words of each, without a line end.

    >>> topics = [Topic(3, 0.25, ("sun", "sea"), (0.5, 0.25), (0.0, 0.0))]
    >>> print(format_topics(topics, "csv", 2))
    topic,name,share,word,probability
    3,,0.25,sun,0.5
    3,,0.25,sea,0.25
    >>> print(format_topics(topics, "md", 2))
    | topic | share | words |
    |---:|---:|---|
    | 3 | 25.0 % | sun 0.500, sea 0.250 |
    """
    return FORMATS[format](topics, num_words)


def _csv(topics: Sequence[Topic], num_words: int) -> str:
    rows = topic_words(topics, num_words)
    short = ((k, name, f"{share:.6g}", word, f"{p:.6g}") for k, name, share, word, p in rows)
    return csv_text(TOPIC_WORDS_HEADER, short).rstrip("\n")


def _json(topics: Sequence[Topic], num_words: int) -> str:
    records = [
        {
            "topic": t.number,
            "name": t.name,
            "share": _short(t.share),
            "words": [list(pair) for pair in _words(t, num_words)],
        }
        for t in topics
    ]
    return "[\n" + ",\n".join(json.dumps(record, ensure_ascii=True) for record in records) + "\n]"


def _md(topics: Sequence[Topic], num_words: int) -> str:
    escape = lambda word: re.sub(r"([\\`*_{}\[\]<>()#+\-.!|])", r"\\\1", word)
    name = lambda topic: f"{escape(topic.name)}: " if topic.name else ""
    words = lambda topic: (
        name(topic) + ", ".join(f"{escape(w)} {p:.3f}" for w, p in _words(topic, num_words))
    )
    rows = [f"| {topic.number} | {100 * topic.share:.1f} % | {words(topic)} |" for topic in topics]
    return printable("\n".join(["| topic | share | words |", "|---:|---:|---|", *rows]))


def _words(topic: Topic, num_words: int) -> list[tuple[str, float]]:
    return [
        (word, _short(p))
        for word, p in zip(topic.words[:num_words], topic.probabilities, strict=False)
    ]


def _short(value: float) -> float:
    return float(f"{value:.6g}")


FORMATS: dict[Format, Callable[[Sequence[Topic], int], str]] = {
    "text": topics_text,
    "csv": _csv,
    "json": _json,
    "md": _md,
}
