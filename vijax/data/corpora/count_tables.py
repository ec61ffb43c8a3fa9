"""Tables of counts in memory: a row for each document, and a column for each word, named by it."""

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
"""Beginnings of the names of number types in pandas, polars and Arrow, in lower case."""

FEWEST_NUMBERED = 5
"""Least number of rows from which on a column that numbers them is refused."""


def are_counts(source: Any) -> bool:
    """True for a table of pandas, polars or Arrow with two columns or more, all of numbers, that
    are no ratings.

    >>> import pandas
    >>> are_counts(pandas.DataFrame({"cat": [1, 0], "dog": [0, 2]})), are_counts(pandas.DataFrame({"text": ["a cat"]}))
    (True, False)
    """
    names = column_names(source)
    if names is None or len(names) < 2 or looks_like_ratings(names):
        return False
    return all(_are_numbers(source))


def check_no_counts(source: Any) -> None:
    """Raises a DataError for a table with columns of counts and other columns, but none of
    texts."""
    names = column_names(source) or []
    are_numbers = _are_numbers(source)
    if DEFAULT_COLUMN in names or sum(are_numbers) < 2 or all(are_numbers):
        return
    texts = [name for name, is_numeric in zip(names, are_numbers, strict=True) if not is_numeric]
    expected = f"a column {DEFAULT_COLUMN!r}, or a column of numbers for each word"
    remedy = (
        f"pass column=... for that of the texts, known: {listed(texts)}; for counts leave these "
        "columns out"
    )
    raise fail("source", expected, f"something else in {listed(texts)}", remedy)


def _are_numbers(source: Any) -> list[bool]:
    types = source.schema.types if hasattr(source, "num_rows") else source.dtypes
    return [str(kind).lower().startswith(NUMBERS) for kind in types]


def corpus_of_counts(
    source: Any,
    kind: type[Corpus] = Corpus,
    where: str = "source",
    words: Sequence[str] | None = None,
) -> Corpus:
    """The documents of a table of counts. Its column names are the words; columns that pandas only
    numbers have none.

    Args:
      source: the table.
      kind: the class of the corpus.
      where: name of the table in messages.
      words: words of columns that are only numbered.

    Raises:
      DataError: counts that are negative, missing or no whole numbers; two columns of one name; a
        column that numbers the rows.

    >>> import pandas
    >>> corpus_of_counts(pandas.DataFrame({"cat": [1, 0], "dog": [0, 2]})).vocabulary
    ('cat', 'dog')
    """
    names = column_names(source) or []
    # Only a table of pandas with sparse columns alone has the attribute `sparse`.
    sparse = getattr(source, "sparse", None) if hasattr(source, "iloc") else None
    counts = array_of_numbers(where, source) if sparse is None else sparse.to_coo()
    if sparse is None and not are_places(names):
        _check_no_numbering(np.asarray(counts), names, where)
    return kind.from_counts(counts, words if are_places(names) else tuple(names), where)


def _check_no_numbering(counts: np.ndarray, names: Sequence[str], where: str) -> None:
    """Raises a DataError if a column numbers the rows, as an id does: it would be the most frequent
    word."""
    if len(counts) < FEWEST_NUMBERED:
        return
    steps = np.diff(counts, axis=0)
    numbering = [name for name, step in zip(names, steps.T, strict=True) if np.all(step == 1)]
    if numbering:
        actual = f"{listed(numbering)}, which numbers the rows"
        remedy = "leave it out, such as table.drop(columns=...)"
        raise fail(where, "a column of counts for each word", actual, remedy)
