"""Rows above the header of a table: a title, a date, notes, as people and offices write them.

A title is seen only where nothing else can be meant: below it stands a row of as many names as all
further rows have cells, and some column below is of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vijax.data.reading.checks import says_number

MOST_TITLES = 20
"""The most rows above a header."""
LEAST_ROWS = 2
"""The least rows below it by which it is known."""
MISSING = frozenset(["na", "n/a", "nan", "null", "?", "none", ".", "-", "--", "n.a."])
"""Words for a missing cell, which no header has."""


def count_title_rows(rows: Sequence[Sequence[Any]]) -> int:
    """The number of rows above the header, of the first rows of a table; 0 if the first is the
    header, or if it is not clear which is.

    >>> table = [["bill", "mass"], ["39.1", "3750"], ["39.5", "3800"]]
    >>> count_title_rows([["Penguins, 3 May"], [], *table]), count_title_rows(table)
    (2, 0)
    """
    tidy = [[str(cell).strip() for cell in row] for row in rows]
    for number in range(min(len(tidy), MOST_TITLES + 1)):
        if _is_header(tidy[number]) and _has_even_rows(tidy[number:]):
            return number * _are_titles(tidy[:number], tidy[number:])
    return 0


def _is_header(row: Sequence[str]) -> bool:
    """True for two or more different names, none of them a number or a missing cell."""
    are_names = all(
        cell and cell.lower() not in MISSING and not says_number(cell.replace(",", "."))
        for cell in row
    )
    return len(row) >= 2 and are_names and len(set(row)) == len(row)


def _has_even_rows(rows: Sequence[Sequence[str]]) -> bool:
    """True if all rows have as many cells as the first, but for empty lines."""
    body = [row for row in rows[1:] if any(row)]
    return len(body) >= LEAST_ROWS and all(len(row) == len(rows[0]) for row in body)


def _are_titles(titles: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> bool:
    """True if rows have few cells beside a header and the rows below it, of which a column is of
    numbers."""
    columns = zip(*(row for row in rows[1:] if any(row)), strict=True)
    width = len(rows[0])
    are_narrow = all(len(row) < width or 2 * sum(map(bool, row)) <= width for row in titles)
    return are_narrow and any(_are_numbers(cells) for cells in columns)


def _are_numbers(cells: Sequence[str]) -> bool:
    """True if most cells that are not missing are numbers."""
    present = [cell for cell in cells if cell and cell.lower() not in MISSING]
    return 2 * sum(says_number(cell.replace(",", ".")) for cell in present) > len(present)
