"""Names of groups and classes: exact text, but for columns of plain numbers, where 7, 7.0 and "7" are one name.

Whether a column is of numbers is decided once, on the training rows, and kept: new rows are named by what was decided.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

import numpy as np

from vijax.data.tables.columns import are_missing, name_of

LabelKind = Literal["number", "text"]
PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
"""A number as people write one: 007, 1e3 and +5 are names."""


def kind_of_labels(names: Iterable[str]) -> LabelKind:
    """Whether names are plain numbers; a leading zero, an exponent or a letter in one makes all of them text.

    >>> kind_of_labels(["1", "2.0"]), kind_of_labels(["1", "007"]), kind_of_labels([])
    ('number', 'text', 'text')
    """
    names = list(names)
    return "number" if names and all(PLAIN.fullmatch(name) for name in names) else "text"


def label_names(values: np.ndarray, kind: LabelKind | None = None) -> tuple[np.ndarray, LabelKind]:
    """The name of each row as text, and what the names are.

    Args:
      values: a column of numbers or of text.
      kind: what the names of the training rows are; None for these rows themselves.

    >>> label_names(np.array(["7", "7.0", "8"], object))[0].tolist()
    ['7', '7', '8']
    >>> label_names(np.array([7.0, 8.5]), "number")[0].tolist(), label_names(np.array(["7", "007"], object))[0].tolist()
    (['7', '8.5'], ['7', '007'])
    """
    names = [name_of(value).strip() for value in values.tolist()]
    if kind is None:
        missing = are_missing(values)
        kind = kind_of_labels({name for name, is_missing in zip(names, missing, strict=True) if not is_missing})
    if kind == "number":
        names = [_canonical(name) for name in names]
    return np.array(names, object), kind


def _canonical(name: str) -> str:
    """A plain number without zeros at the end of its fraction; no digit of a long one is lost."""
    if not PLAIN.fullmatch(name) or "." not in name:
        return name
    shortest = name.rstrip("0").rstrip(".")
    return "0" if shortest == "-0" else shortest
