"""The lines before the header of a text file: a declaration of the separator, and comments.

Excel writes and reads `sep=;` as a first line. Instruments and statistical offices write comments
there, in lines that begin with #. Neither is data or a header."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from vijax.data.reading.checks import Notes, fail, says_number

DECLARATION = re.compile(r'\s*"?sep=(.)"?[,;|\t\s]*', re.IGNORECASE)
COMMENT = "#"


class Preamble(NamedTuple):
    """The lines before the header.

    Attributes:
      number: their number.
      separator: the declared separator of cells; None without a declaration.
      comment: the last comment without its sign, and its line; None without comments.
    """

    number: int
    separator: str | None
    comment: tuple[str, int] | None


def read_preamble(lines: Sequence[str], known: Sequence[str], path: Path, notes: Notes) -> Preamble:
    """The lines before the header; comments are noted.

    Args:
      lines: the first lines of a file.
      known: letters that may separate cells.
      path: the file.
      notes: gets a note about comments.

    Raises:
      DataError: an unknown separator is declared.
    """
    number = 0
    separator = None
    declared = DECLARATION.fullmatch(lines[0].rstrip("\n")) if lines else None
    if declared is not None:
        number = 1
        separator = declared[1]
        if separator not in known:
            letters = ", ".join(repr(letter) for letter in known)
            expected = f"one of {letters} between cells"
            actual = f"the line {lines[0].strip()!r}"
            remedy = "write the file with one of these, and this line with it, or remove the line"
            raise fail(f"{path}:1", expected, actual, remedy)
    first = number
    comment = None
    while number < len(lines) and (
        _is_comment(lines[number], known) or (comment and not lines[number].strip())
    ):
        if text := lines[number].strip().lstrip(COMMENT).strip():
            comment = text, number + 1
        number += 1
    if number > first and any(map(str.strip, lines[first:number])):
        text = f"Lines {first + 1} to {number} of {path.name} begin with # and are left out"
        if number == first + 1:
            text = f"Line {number} of {path.name} begins with # and is left out"
        notes.add(f"{text}, as a comment.")
    return Preamble(number, separator, comment)


def _is_comment(line: str, known: Sequence[str]) -> bool:
    """True for a line that begins with #, unless # alone is its first cell: the name of a column of
    row numbers."""
    bare = line.lstrip(" \ufeff")
    return bare.startswith(COMMENT) and bare[1:2] not in known


def check_comment(
    preamble: Preamble,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    delimiter: str,
    path: Path,
) -> None:
    """Raises a DataError if the last comment may be the header: it has as many cells as the line
    below, and that line may be a row.

    Args:
      preamble: the lines before the header.
      header: the cells of the line that was taken for the header.
      rows: some rows below it.
      delimiter: the separator of cells.
      path: the file.
    """
    if preamble.comment is None:
        return
    text, line = preamble.comment
    try:
        cells = next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return
    if len(cells) != len(header) or any(map(says_number, cells)):
        return
    is_number = lambda cell: says_number(cell.replace(",", "."))
    are_names = not any(map(is_number, header))
    if are_names and (len(header) == 1 or any(is_number(cell) for row in rows for cell in row)):
        return
    expected = "a header line, and comments above it that no one can take for it"
    remedy = f"if line {line} is the header, remove its #; if it is a comment, remove the line"
    raise fail(f"{path}:{line}", expected, repr(f"# {text}"[:60]), remedy)
