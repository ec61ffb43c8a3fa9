"""Tables of who took what: a row for each user and item, with a count or without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.checks import fail, integer_counts
from vijax.data.reading.files import open_bytes, read_vocabulary
from vijax.data.tables.columns import as_numbers, check_present, name_of, row_name
from vijax.data.tables.table_files import read_columns

USER, ITEM, COUNT = "user", "item", "count"


def read_ratings(path: Path, vocabulary: str | Path | Sequence[str] | None, folder: Path | None = None) -> Corpus:
    """A table with columns user and item, and perhaps count: users are the documents, by `titles`, items their words.

    Rows of one user and item add up; a row of count 0 names an item that the user did not take. A vocabulary names the
    items in the order in which a fit knows them; others are left out.
    """
    found = read_columns(str(path), exact=(USER, ITEM))
    missing = [name for name in (USER, ITEM) if name not in found]
    if missing:
        remedy = "name them so in the first line; a third column, count, may say how often"
        raise fail(path, f"the columns {USER} and {ITEM}", f"the columns {', '.join(found)}", remedy)
    at, items = row_name(found), read_vocabulary(vocabulary)
    users, rows = _numbered(found[USER], f"{path}, column {USER!r}", at)
    names, columns = _numbered(found[ITEM], f"{path}, column {ITEM!r}", at)
    counts = np.ones(len(rows))
    if COUNT in found:
        where = f"{path}, column {COUNT!r}"
        counts = as_numbers(found[COUNT], where, at)
        check_present(counts, "a count in every row", where, at)
    counts = integer_counts(counts, f"{path}, column {COUNT!r}")
    if items is not None:
        place = {name: i for i, name in enumerate(items)}
        to = np.array([place.get(name, -1) for name in names], int)[columns]
        rows, columns, counts, names = rows[to >= 0], to[to >= 0], counts[to >= 0], list(items)
    import scipy.sparse

    matrix = scipy.sparse.coo_matrix((counts, (rows, columns)), (len(users), len(names)))
    corpus = Corpus.from_counts(matrix, tuple(names), where=str(path), titles=users)
    if folder is None:
        return corpus
    corpus.save(folder)
    return Corpus.open(folder)


def is_ratings(path: Path) -> bool:
    """True for a text file whose first line has the columns user and item, and none of text."""
    with open_bytes(path) as file:
        head = file.readline(1 << 16).decode("utf-8", "replace").strip("\ufeff\r\n")
    for mark in ",;\t|":
        names = {cell.strip().strip('"') for cell in head.split(mark)}
        if {USER, ITEM} <= names:
            return "text" not in names
    return False


def _numbered(values: Any, where: str, at: Any) -> tuple[list[str], np.ndarray]:
    """The different names in the order in which they come, and the number of each value among them."""
    check_present(values, "a name in every row", where, at)
    named = [name_of(value) for value in values.tolist()]
    place = {name: i for i, name in enumerate(dict.fromkeys(named))}
    return list(place), np.fromiter((place[name] for name in named), int, len(named))
