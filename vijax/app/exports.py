"""Tables of a page as CSV, for a spreadsheet or another program: tables/NAME.csv."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from vijax.app import blocks


def tables(shown: Iterable[blocks.Block]) -> Iterator[tuple[str, str]]:
    """Names of files and their text, of the blocks that are tables: numbers as result.json has them, six digits.

    >>> [(name, text)] = tables([blocks.Table("The coin", ["", "heads"], [["penny", 0.5]])])
    >>> name, text.splitlines()
    ('the_coin', [',heads', 'penny,0.5'])
    """
    for block in shown:
        if isinstance(block, blocks.Table):
            yield blocks.file_name(block), _csv(block.header, block.rows)


def _csv(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
    return text.getvalue()
