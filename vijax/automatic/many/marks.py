"""Marks of columns, by which a file of fits knows the table and the responses that it was fitted
to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vijax.data.reading.checks import says_number
from vijax.data.schema.schema import Schema
from vijax.data.schema.typed_columns import TypedColumn, TypedTable

Mark = list[Any]
"""The mark of numbers has `NUMBERS`, that of texts their digest alone."""
NUMBERS = ("digest", "digest in float32", "does float32 hold them exactly?")


def mark_numbers(numbers: np.ndarray) -> Mark:
    """The mark of numbers. Those of float32, and the same written as text, count as equal.

    >>> are_equal(mark_numbers(np.array([0.1], np.float32)), mark_numbers(np.array([0.1])))
    True
    """
    wide = np.asarray(numbers, float) + 0.0  # -0.0 is 0.0
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    is_narrow = bool(np.array_equal(wide, narrow, equal_nan=True))
    return [_digest(wide), _digest(narrow), is_narrow]


def mark_table(table: TypedTable, schema: Schema) -> dict[str, Mark]:
    """The mark of each column of a schema, in the rows of a table."""
    marks = {}
    for entry in schema.columns:
        column = table.columns[entry.name]
        marks[entry.name] = _mark_texts(column)
        if entry.kind in ("number", "truth") and not len(column.not_numbers()):
            marks[entry.name] = mark_numbers(column.numbers())
    return marks


def differing_columns(table: TypedTable, marks: Mapping[str, Sequence[Any]]) -> list[str]:
    """The columns of other marks than these, in the rows of a table, and those that it lacks."""
    names = []
    for name, mark in marks.items():
        if name not in table:
            names.append(name)
            continue
        column = table.columns[name]
        own_mark = _mark_texts(column)
        if len(mark) == len(NUMBERS) and not len(column.not_numbers()):
            own_mark = mark_numbers(column.numbers())
        if not are_equal(mark, own_mark):
            names.append(name)
    return names


def _mark_texts(column: TypedColumn) -> Mark:
    digest = hashlib.blake2b(digest_size=16)
    for text in map(_plain_text, column.labels().texts().tolist()):
        data = text.encode("utf-8", "surrogatepass")
        digest.update(f"{len(data)} ".encode() + data)
    return [digest.hexdigest()]


def _plain_text(text: str) -> str:
    """Numbers in one spelling: 1 and 1.0 are one level in tables of other types."""
    if says_number(text) and len(text) < 16:
        return repr(float(text))
    return text


def _digest(numbers: np.ndarray) -> str:
    numbers = np.where(np.isnan(numbers), np.nan, numbers)  # one of all the NaNs
    data = np.ascontiguousarray(numbers)
    return hashlib.blake2b(f"{data.shape}".encode() + data.tobytes(), digest_size=16).hexdigest()


def are_equal(mark: Sequence[Any], other: Sequence[Any]) -> bool:
    """True for marks of equal columns."""
    if len(mark) != len(other):
        return False
    if len(mark) < len(NUMBERS) or mark[0] == other[0]:
        return mark[0] == other[0]
    return mark[1] == other[1] and bool(mark[2] or other[2])
