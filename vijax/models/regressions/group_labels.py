"""Labels of the groups of rows: values of any kind, as in tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int

from vijax.checks import require, require_integers
from vijax.data.schema.labels import Labels
from vijax.data.schema.row_names import memory_row_names
from vijax.data.schema.typed_columns import typed_table

EXPECTED = "a label for each row: text, numbers, dates or categories"
MOST_GROUPS = 2**31 - 1
"""Most groups, with or without rows."""
WITHOUT_SIZE = "Leave it out: groups are then those that have rows, whatever their labels."
WITH_SIZE = (
    "With `num_groups` a label is the place of its group; leave `num_groups` out for labels of "
    "any kind, which name "
    "the groups that have rows."
)


def group_names(labels: Any) -> tuple[str, ...]:
    """The names of the groups that `vijax.models.group_rows` makes from labels, in its order:
    numeric if all labels are numbers, by time if all are dates, else alphabetic; categories have
    the order that their column declares.

    Args:
      labels: the group of each row, as `group_rows` takes them.

    Raises:
      ValueError: labels of several columns, or a row without one.

    >>> group_names([1234567, 8, 1234567]), group_names(["b", "a", "b"])
    (('8', '1234567'), ('a', 'b'))
    """
    return _read_labels(labels).levels().names


def places_by_name(labels: Any) -> tuple[Int[np.ndarray, " N"], int]:
    """The group of each row among `group_names`, and the number of groups.

    Raises:
      ValueError: as by `group_names`.
    """
    read = _read_labels(labels)
    levels = read.levels()
    return levels.find_codes(read), len(levels.names)


def check_places(labels: Any, num_groups: int) -> Int[np.ndarray, " N"]:
    """Labels that are indices of groups, as integers; groups may have no rows.

    Raises:
      ValueError: labels that are not integers in [0, J).
    """
    require_integers(num_groups=num_groups)
    require(
        num_groups <= MOST_GROUPS,
        "num_groups",
        f"at most {MOST_GROUPS:,}",
        f"{num_groups:,}",
        WITHOUT_SIZE,
    )
    places = np.asarray(labels)
    require(
        np.issubdtype(places.dtype, np.integer),
        "labels",
        "integers",
        _first_label(places),
        WITH_SIZE,
    )
    wrong = np.flatnonzero((places < 0) | (places >= num_groups))
    actual = f"{places[wrong[0]]} in row {wrong[0]}, counted from 0" if len(wrong) else ""
    require(not len(wrong), "labels", f"integers in [0, {num_groups})", actual, WITH_SIZE)
    return places.astype(int)


def _first_label(places: np.ndarray) -> str:
    if places.size:
        return f"{places.ravel()[0]!r} in row 0, counted from 0"
    return "none"


def _read_labels(labels: Any) -> Labels:
    """The labels of all rows; ValueError if a label is missing."""
    try:
        column = typed_table({"labels": labels}).columns["labels"]
    except ValueError as error:
        _, _, problem = str(error).partition("got ")
        raise ValueError(
            f"labels: expected {EXPECTED}, got {problem or type(labels).__name__}"
        ) from error
    read = column.labels()
    missing = np.flatnonzero(read.missing).tolist()
    actual = f"none in {memory_row_names(len(read.codes)).list_rows(missing)}" if missing else ""
    require(not missing, "labels", EXPECTED, actual, "Leave those rows out, or give them a label.")
    return read
