"""What a run has written: every number of one quantity is the same in result.json, tables/, the
terminal and the page, with its unit; and no row is left out without a word of it."""

from __future__ import annotations

import csv
import html
import json
import math
import re
from pathlib import Path
from typing import Any

from vijax.app.drawing.blocks import file_name, from_json

NEAR = 1e-3
THREE_DIGITS = 0.5001e-2
"""Of numbers for people: four digits."""
MORE = re.compile(r"\.\.\. and ([\d,]+) more: (tables/\S+\.csv) has all")


def check_written(out: Path, printed: str) -> int:
    """Compares all that a run has written, and gives the number of numbers that were compared on
    the terminal."""
    result = json.loads((out / "result.json").read_text())
    page = text_of_page(out)
    check_score(out, result, printed, page)
    compared = 0
    shown = from_json(result["blocks"])
    for record, block in zip(result["blocks"], shown, strict=True):
        assert html.unescape(block.title) in page, f"the page has no {block.title!r}"
        if record["kind"] in ("Table", "Intervals"):
            rows = rows_of(block)
            check_table(out, block, rows)
            if getattr(block, "most", 1):
                compared += check_terminal(out, block, rows, printed)
            else:  # a picture, whose numbers another block has
                assert is_in_a_table(rows, shown), block.title
            check_page(block, rows, page)
    return compared


def rows_of(block: Any) -> list[list[Any]]:
    if hasattr(block, "rows"):
        return [list(row) for row in block.rows]
    return [list(row) for row in zip(block.labels, block.mean, block.deviation, strict=True)]


def is_in_a_table(rows: list[list[Any]], shown: list[Any]) -> bool:
    """Whether a table has a row of each of these names, with these means."""
    tables = [
        {str(row[0]): row for row in block.rows}
        for block in shown
        if type(block).__name__ == "Table"
    ]
    has = lambda table, name, mean: (
        name in table and any(is_number(x) and is_near(x, mean) for x in table[name])
    )
    return any(all(has(table, str(name), mean) for name, mean, *_ in rows) for table in tables)


def check_score(out: Path, result: dict[str, Any], printed: str, page: str) -> None:
    """The score with its error and unit, in one text for terminal and page; and as the last point
    of its curve."""
    score, error = result["score"]
    said = result["score_text"]
    assert said in printed, said
    assert re.split(r", | \(", said)[0] in page, said
    first = re.match(r"-?[\d.,]+(?:e[+-]?\d+)?", said)
    assert first, said
    assert is_near(number(first[0]), score) or is_rounded(first[0], score), said
    if error is not None:
        digits = re.search(r"± ([\d.,]+(?:e[+-]?\d+)?)", said)
        assert digits, said
        is_close = abs(number(digits[1]) - error) <= 0.06 * error
        assert is_close or is_rounded(digits[1], error), said
    curve = out / "tables" / "held_out_score.csv"
    if curve.is_file():
        assert is_near(float(read_rows(curve)[-1][1]), score)


def is_rounded(text: str, value: float) -> bool:
    """True if a text without an exponent is the number, up to half of its last digit."""
    decimals = len(text.partition(".")[2])
    return "e" not in text and abs(number(text) - value) <= 0.5001 * 10.0**-decimals


def check_table(out: Path, block: Any, rows: list[list[Any]]) -> None:
    """The file of a block has every row of result.json, with its numbers."""
    written = read_rows(out / "tables" / f"{file_name(block)}.csv")[1:]
    assert len(written) == len(rows), block.title
    for row, cells in zip(rows, written, strict=True):
        for cell, text in zip(row, cells, strict=True):
            if is_number(cell):
                assert float(text) == cell, (block.title, row, cells)


def check_terminal(out: Path, block: Any, rows: list[list[Any]], printed: str) -> int:
    """The lines below the title of a block say each of its rows, or how many more there are, and
    where."""
    match = re.search(rf"(?m)^{re.escape(block.title)}\n((?:  .*\n?)+)", printed)
    assert match, f"the terminal has no {block.title!r}"
    below = match[1].splitlines()
    if any(getattr(block, "header", ["mean"])):
        below = below[1:]
    lines = [line for line in below if not (line.strip() and line.strip() in block.note)]
    left = 0
    if lines and (more := MORE.search(lines[-1])):
        left = int(more[1].replace(",", ""))
        assert (out / more[2]).is_file(), lines[-1]
        lines = lines[:-1]
    assert len(lines) + left == len(rows), (block.title, match[1])
    return sum(compared_cells(row, line) for row, line in zip(rows, lines, strict=False))


def compared_cells(row: list[Any], line: str) -> int:
    """Compares the numbers at the end of a line with those of its row, from the right up to the
    first text."""
    words, compared = line.split(), 0
    for cell in reversed(row[1:]):
        if cell is None:  # an empty cell
            continue
        if not is_number(cell) or not words:
            return compared
        assert is_shown(words.pop(), cell), (row, line)
        compared += 1
    return compared


def check_page(block: Any, rows: list[list[Any]], page: str) -> None:
    """The page has each row of a table, by its name, or says how many it has left out."""
    if hasattr(block, "rows") and "; the CSV file" not in page:
        for row in rows:
            if isinstance(row[0], str):
                assert row[0] in page, (block.title, row)


# --- readers --------------------------------------------------------------------------------------
def text_of_page(out: Path) -> str:
    """The text of the page, without its scripts."""
    page = re.sub(r"(?s)<(script|style).*?</\1>", " ", (out / "report.html").read_text())
    text = html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\u2212", "-")
    return re.sub(r"\s+", " ", text)


def read_rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool) and math.isfinite(cell)


def is_shown(text: str, value: float) -> bool:
    """True if a text is the number to four digits, or, in a column of larger ones, rounded to three
    at least."""
    if is_near(number(text), value):
        return True
    return is_rounded(text, value) and abs(number(text) - value) <= THREE_DIGITS * abs(value)


def number(text: str) -> float:
    return float(text.replace(",", ""))


def is_near(a: float, b: float) -> bool:
    return abs(a - b) <= NEAR * abs(b) + 1e-12
