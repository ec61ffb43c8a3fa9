"""The responses of `vijax.glmm.many`: columns of numbers, with names, some cells missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.checks import require
from vijax.data.schema.same_rows import require_one_index
from vijax.data.schema.typed_columns import typed_table

LARGEST = 1e140
"""Size of the largest responses, whose squares a density can hold."""


class Responses(NamedTuple):
    """Responses of the rows of one table.

    Attributes:
      names: their names.
      values: a column for each, (N, R); NaN where a cell is missing.
    """

    names: tuple[str, ...]
    values: Float[np.ndarray, "N R"]


def read_responses(responses: Any, table: Any, size: int) -> Responses:
    """The responses of the `size` rows of a table, from columns by name, a path, or an array (N,
    R), whose columns are called "0", "1", ...

    >>> read_responses(np.eye(2), None, 2).names
    ('0', '1')
    >>> read_responses({"a": [1, None], "b": [2, 3]}, None, 2).values[1].tolist()
    [nan, 3.0]
    """
    if isinstance(responses, np.ndarray) and responses.dtype.names is None:
        return _read_array(responses, size)
    if hasattr(table, "index") or isinstance(table, Mapping):
        require_one_index({"table": table, "responses": responses})
    typed = typed_table(responses)
    expected = f"columns of {size} rows, as the table has"
    remedy = "Where responses are rows, as genes are in most files, transpose them."
    require(len(typed) == size, "responses", expected, f"{len(typed)} rows", remedy)
    require(not typed.repeated, "responses", "a name for each", f"several {list(typed.repeated)}")
    require(len(typed.columns) > 0, "responses", "a column or more", "none")
    columns = []
    for name, column in typed.columns.items():
        bad = column.not_numbers()
        actual = ""
        if len(bad):
            actual = f"{str(column.values[bad[0]])[:40]!r} in {typed.row_name(int(bad[0]))}"
        remedy = "Leave the column out, or make it numbers."
        require(not len(bad), "responses", f"numbers in {name!r}", actual, remedy)
        is_text = column.kind == "digits"
        remedy = f"Give numpy.asarray(responses[{name!r}], float)."
        actual = "text, all of which says numbers"
        require(not is_text, "responses", f"numbers in {name!r}", actual, remedy)
        columns.append(column.numbers())
    return _check_endless(tuple(map(str, typed.columns)), np.stack(columns, 1))


def _read_array(responses: np.ndarray, size: int) -> Responses:
    is_matrix = responses.ndim == 2 and len(responses) == size and responses.shape[1] > 0
    expected = f"columns by name, or an array ({size}, R), a row for each of the table"
    require(is_matrix, "responses", expected, f"shape {responses.shape}")
    is_number = responses.dtype.kind in "biuf"
    require(is_number, "responses", "an array of numbers", f"of type {responses.dtype}")
    values = np.ma.filled(responses.astype(float), np.nan)
    return _check_endless(tuple(map(str, range(responses.shape[1]))), np.asarray(values))


def _check_endless(names: tuple[str, ...], values: np.ndarray) -> Responses:
    endless = np.argwhere(np.abs(values) > LARGEST)
    actual = ""
    if len(endless):
        row, column = endless[0]
        number = f"{values[row, column]:g}".replace("inf", "one that is infinite")
        actual = f"{number}, of {names[column]!r} in row {row}, counted from 0"
    expected = f"numbers of sizes up to {LARGEST:g}, or missing cells"
    require(not len(endless), "responses", expected, actual)
    return Responses(names, values)
