"""The part of a long block that is drawn; the note says how much, and a file in tables/ has all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vijax.app.drawing import blocks

MOST_BARS = 100
"""Number of rows of intervals that are drawn."""
MOST_ROWS = 2000
"""Number of rows of a table on a page."""


def part_to_draw(block: blocks.Block) -> blocks.Block:
    """A block as it is drawn: a long one has its first rows, and a note.

    >>> block = blocks.Intervals("Slopes", ["a"] * 150, [0.0] * 150, [1.0] * 150, "Bars.")
    >>> part = part_to_draw(block)
    >>> len(part.labels), part.note
    (100, 'Bars. The first 100 of 150 are drawn; the CSV file (tables/slopes.csv) has all.')
    """
    if isinstance(block, blocks.Intervals) and len(block.labels) > MOST_BARS:
        first = {name: getattr(block, name)[:MOST_BARS] for name in ("labels", "mean", "deviation")}
        return block._replace(
            **first, note=cut_note(block, MOST_BARS, len(block.labels), "are drawn")
        )
    if isinstance(block, blocks.Table) and len(block.rows) > MOST_ROWS:
        note = cut_note(block, MOST_ROWS, len(block.rows), "rows are shown")
        return block._replace(rows=block.rows[:MOST_ROWS], note=note)
    return block


def cut_note(block: Any, shown: int, number: int, how: str) -> str:
    """The note of a block, with a remark on what is left out."""
    remark = (
        f"The first {shown:,} of {number:,} {how}; the CSV file "
        f"(tables/{blocks.file_name(block)}.csv) has all."
    )
    return f"{block.note} {remark}".strip()


def first_note(note: str, shown: int, names: Sequence[Any], unit: str, place: str) -> str:
    """A note, with a remark on what is left out, if anything is.

    >>> first_note("Viterbi.", 12, range(60), "sequences", "transformed.csv")
    'Viterbi. The first 12 of 60 sequences; transformed.csv has all.'
    >>> first_note("Viterbi.", 12, range(3), "sequences", "transformed.csv")
    'Viterbi.'
    """
    if len(names) <= shown:
        return note
    return f"{note} The first {shown:,} of {len(names):,} {unit}; {place} has all."
