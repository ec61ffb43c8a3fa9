"""Tables of counts in memory: a row for each document, a column for each word, by its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.rating_columns import looks_like_ratings
from vijax.data.reading.checks import fail, listed
from vijax.data.schema.by_name import are_places
from vijax.data.schema.cells import column_names
from vijax.data.schema.number_arrays import array_of_numbers
from vijax.data.texts.text_files import DEFAULT_COLUMN

NUMBERS = (
    "int",
    "uint",
    "float",
    "double",
    "half",
    "bool",
    "sparse[int",
    "sparse[uint",
    "sparse[float",
    "sparse[bool",
)
"""How the names of types of numbers begin, in pandas, polars and Arrow, in small letters."""

FEWEST_NUMBERED = 5
"""Rows from which on a column that counts them is no column of counts."""


def are_counts(source: Any) -> bool:
    """True of a table of pandas, polars or Arrow of two columns or more, all of numbers, that lists
    no ratings: it holds no text.

    >>> import pandas
    >>> are_counts(pandas.DataFrame({"cat": [1, 0], "dog": [0, 2]})), are_counts(pandas.DataFrame({"text": ["a cat"]}))
    (True, False)
    """
    names = column_names(source)
    if names is None or len(names) < 2 or looks_like_ratings(names):
        return False
    return all(_are_numbers(source))


def check_no_counts(source: Any) -> None:
    """Raises a DataError for a table that looks like one of counts beside columns of something
    else, and has no column of texts."""
    names = column_names(source) or []
    are_numbers = _are_numbers(source)
    if DEFAULT_COLUMN in names or sum(are_numbers) < 2 or all(are_numbers):
        return
    others = [name for name, of_numbers in zip(names, are_numbers, strict=True) if not of_numbers]
    expected = f"a column {DEFAULT_COLUMN!r}, or a column of numbers for each word"
    remedy = (
        f"pass column=... for that of the texts, known: {listed(others)}; for counts leave these "
        "columns out"
    )
    raise fail("source", expected, f"something else in {listed(others)}", remedy)


def _are_numbers(source: Any) -> list[bool]:
    types = source.schema.types if hasattr(source, "num_rows") else source.dtypes
    return [str(kind).lower().startswith(NUMBERS) for kind in types]


def corpus_of_counts(
    source: Any,
    kind: type[Corpus] = Corpus,
    where: str = "source",
    words: Sequence[str] | None = None,
) -> Corpus:
    """The documents of a table of counts. Its columns are the words; columns that pandas only
    numbers have none.

    Args:
      source: the table.
      kind: the class of the corpus.
      where: what the table is called in messages.
      words: those of columns that are only numbered.

    Raises:
      DataError: counts that are negative, missing or no whole numbers; two columns of one name; a
        column that numbers the rows.

    >>> import pandas
    >>> corpus_of_counts(pandas.DataFrame({"cat": [1, 0], "dog": [0, 2]})).vocabulary
    ('cat', 'dog')
    """
    names = column_names(source) or []
    sparse = (
        getattr(source, "sparse", None) if hasattr(source, "iloc") else None
    )  # of pandas, where all columns are
    counts = array_of_numbers(where, source) if sparse is None else sparse.to_coo()
    if sparse is None and not are_places(names):
        _check_no_numbering(np.asarray(counts), names, where)
    return kind.from_counts(counts, words if are_places(names) else tuple(names), where)


def _check_no_numbering(counts: np.ndarray, names: Sequence[str], where: str) -> None:
    """Raises a DataError where a column counts the rows, as an id does: it would be the most
    frequent word."""
    if len(counts) < FEWEST_NUMBERED:
        return
    steps = np.diff(counts, axis=0)
    numbering = [name for name, step in zip(names, steps.T, strict=True) if np.all(step == 1)]
    if numbering:
        got = f"{listed(numbering)}, which numbers the rows"
        raise fail(
            where,
            "a column of counts for each word",
            got,
            "leave it out, such as table.drop(columns=...)",
        )
