"""The blocks of a page as CSV, for a spreadsheet or another program: tables/NAME.csv."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from vijax.app.page import blocks
from vijax.app.page.spreadsheet import quoted
from vijax.topics.summary import Topic

Part = tuple[str, Sequence[Any], Iterable[Sequence[Any]]]
"""The addition to a block's name for the name of a file, a header, and rows."""


def tables(shown: Iterable[blocks.Block]) -> Iterator[tuple[str, str]]:
    """Names of files and their text: numbers as in result.json, six digits. Blocks of one title are numbered.

    >>> [(name, text)] = tables([blocks.Table("The coin", ["", "heads"], [["penny", 0.5]])])
    >>> name, text.splitlines()
    ('the_coin', [',heads', 'penny,0.5'])
    """
    taken: set[str] = set()
    for block in shown:
        for ending, header, rows in PARTS[type(block).__name__](block):
            yield _free(_name(block) + ending, taken), csv_text(header, rows)


def csv_text(header: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    """A header and rows as CSV; missing values are empty, and text that a spreadsheet would run is quoted."""
    return "".join(",".join(map(_cell, row)) + "\n" for row in itertools.chain([header], rows))


def _cell(cell: Any) -> str:
    if _is_missing(cell):
        return ""
    text = str(cell) if isinstance(cell, int | float | np.number) else quoted(str(cell))
    return text if APART.isdisjoint(text) else '"' + text.replace('"', '""') + '"'


APART = frozenset('",\r\n')
"""Cells of these are put in quotes. Python's csv leaves a carriage return as it is, where lines end in a line feed."""


def _is_missing(cell: Any) -> bool:
    """True where there is no value, or a number that is not finite, as JSON has it too."""
    return cell is None or (isinstance(cell, float | np.floating) and not np.isfinite(cell))


def words_of_topics(topics: Iterable[Topic], num_words: int | None = None) -> Iterator[tuple[int, float, str, float]]:
    """A row for each word: number and share of the topic, the word and its probability."""
    for topic in topics:
        words = zip(topic.words[:num_words], topic.probabilities, strict=False)
        yield from ((topic.number, topic.share, word, probability) for word, probability in words)


WORDS_OF_TOPICS = ("topic", "share", "word", "probability")


def _name(block: blocks.Block) -> str:
    return "topics" if isinstance(block, blocks.Topics) else blocks.file_name(block)


def _free(name: str, taken: set[str]) -> str:
    candidates = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(2)))
    free = next(candidate for candidate in candidates if candidate not in taken)
    taken.add(free)
    return free


# --- kinds of blocks -------------------------------------------------------------------------------------------------
def _table(block: blocks.Table) -> Iterator[Part]:
    yield "", block.header, block.rows


def _lines(block: blocks.Lines) -> Iterator[Part]:
    band = [block.low, block.high] if len(block.low) else []
    ends = ["low", "high"] if len(block.low) else []
    yield "", [block.x_label, block.y_label, *ends], zip(block.x, block.y, *band, strict=True)
    if len(block.points_x):
        yield "_points", [block.x_label, block.y_label], zip(block.points_x, block.points_y, strict=True)


def _scatter(block: blocks.Scatter) -> Iterator[Part]:
    yield "", [block.x_label, block.y_label, "class"], zip(block.x, block.y, block.classes, strict=True)
    if block.outlines:
        points = ((number, k, *point) for number, (k, x, y) in enumerate(block.outlines) for point in _pairs(x, y))
        yield "_outlines", ["outline", "class", block.x_label, block.y_label], points


def _pairs(x: Iterable[Any], y: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(x, y, strict=True)


def _intervals(block: blocks.Intervals) -> Iterator[Part]:
    yield "", ["", "mean", "deviation"], zip(block.labels, block.mean, block.deviation, strict=True)


def _heat(block: blocks.Heat) -> Iterator[Part]:
    rows = ([label, *values] for label, values in zip(block.rows, block.values, strict=True))
    yield "", ["", *block.columns], rows


def _strips(block: blocks.Strips) -> Iterator[Part]:
    """A row for each step; steps beyond the end of a sequence are left out."""
    strips = zip(block.labels, block.states, strict=True)
    rows = ((label, step, k) for label, states in strips for step, k in enumerate(states) if k >= 0)
    yield "", ["sequence", "step", "state"], rows


def _course(block: blocks.Course) -> Iterator[Part]:
    """A row for each step."""
    probabilities = [f"probability_{k}" for k in range(len(block.probabilities))]
    columns = zip(*block.values, block.states, *block.probabilities, strict=True)
    rows = ((step, *row) for step, row in enumerate(columns))
    yield "", ["step", *block.columns, "state", *probabilities], rows


def _images(block: blocks.Images) -> Iterator[Part]:
    """A row for each image, its pixels from the top left, row by row."""
    named = zip(block.labels, block.images, strict=True)
    rows = ((label, place, *pixels) for label, images in named for place, pixels in enumerate(images))
    pixels = [f"pixel_{i}_{j}" for i in range(block.height) for j in range(block.width)]
    yield "", ["row", "place", *pixels], rows


def _topics(block: blocks.Topics) -> Iterator[Part]:
    yield "", WORDS_OF_TOPICS, words_of_topics(block.topics)
    listed = ((t.number, t.share, None if t.coherence != t.coherence else t.coherence, t.label) for t in block.topics)
    yield "_list", ["topic", "share", "coherence_npmi", "words"], listed
    numbers = range(len(block.topics))
    yield "_distances", ["", *numbers], ([k, *row] for k, row in zip(numbers, block.distances, strict=True))
    typical = ((t.number, d.title, d.share) for t in block.topics for d in t.documents)
    yield "_documents", ["topic", "document", "share"], typical


PARTS: dict[str, Callable[[Any], Iterator[Part]]] = {
    "Table": _table,
    "Lines": _lines,
    "Scatter": _scatter,
    "Intervals": _intervals,
    "Heat": _heat,
    "Strips": _strips,
    "Course": _course,
    "Images": _images,
    "Topics": _topics,
}
"""The writers of blocks, by kind."""
