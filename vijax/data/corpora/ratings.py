"""Tables of who took what: a row for each user and item, with a count, a rating, or neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.rating_columns import (
    GIVE,
    NONE,
    RoleNames,
    Roles,
    find_rating_columns,
    find_roles,
    looks_like_ratings,
)
from vijax.data.corpora.users import Users
from vijax.data.reading.checks import DataError, Notes, fail, integer_counts, listed
from vijax.data.reading.download import fetch, is_url
from vijax.data.reading.files import naming, read_vocabulary
from vijax.data.schema.cells import column_names, column_values, is_library_table
from vijax.data.schema.in_memory import memory_columns
from vijax.data.schema.labels import label_name
from vijax.data.schema.row_names import find_row_names
from vijax.data.tables import dates
from vijax.data.tables.columns import (
    Columns,
    NamedColumns,
    RowName,
    as_numbers,
    check_present,
    row_name,
    said_missing,
)
from vijax.data.tables.formats import USUAL, Dialect
from vijax.data.tables.table_files import read_columns
from vijax.data.texts.text_files import RECORDS
from vijax.files import local_path

BY_DEFAULT = RoleNames()


def ratings(
    source: Any,
    *,
    user: str | None = None,
    item: str | None = None,
    count: str | None = None,
    time: str | None = None,
    least: float | None = None,
    vocabulary: str | Path | Sequence[str] | None = None,
    folder: str | Path | None = None,
    dialect: Dialect = USUAL,
) -> Corpus:
    """Who took what, from a table with a row for each user and item: users are the documents, by
    `titles`, and items their words.

    Rows of one user and item add up. A row of count 0 names a user who took nothing, or an item
    that nobody took.

    Args:
      source: a path or http(s) address of a table (`vijax.data.tables.table_files.KNOWN`); a table
        of pandas, Arrow or polars; a mapping of columns.
      user: the column of users. None finds one called user, userId, customer_id and the like.
      item: the column of items; None finds item, movieId, product_id and the like.
      count: the column of how often an item was taken; None finds one called count, plays, quantity
        and the like. "none": each row counts once.
      time: the column of the time of each row. It is read if a user has rated an item twice: the
        last rating counts.
      least: the rating from which an item counts as taken, once; items rated lower count as not
        taken.
      vocabulary: the items in the order of a fit, or a file of them; others are left out.
      folder: folder to write the corpus to as memory-mapped files.
      dialect: how the file is written.

    Raises:
      ValueError: columns that are missing or ambiguous, names or numbers that are missing, counts
        that are no whole numbers, ratings without `least` or `count`.

    >>> table = {"userId": ["ann", "ann", "bob"], "movieId": [7, 8, 7], "rating": [5.0, 1.5, 4.0]}
    >>> liked = ratings(table, least=4)
    >>> liked.titles, liked.vocabulary, liked.to_scipy().toarray().tolist()
    (('ann', 'bob'), ('7', '8'), [[1, 0], [1, 0]])
    """
    roles = RoleNames(user, item, count, time, least)
    folder = None if folder is None else Path(folder)
    if isinstance(source, str | Path):
        path = fetch(str(source)) if is_url(source) else local_path(source)
        with naming(path):
            return read_ratings(path, vocabulary, folder, roles, dialect)
    columns = _memory_columns(source, roles)
    items = read_vocabulary(vocabulary)
    return ratings_from_columns(columns, roles, "source", items, folder, Notes())


def _memory_columns(source: Any, named: RoleNames) -> Columns:
    """The columns of a table in memory, users and items as exact text."""
    names = list(source) if isinstance(source, Mapping) else column_names(source)
    if names is None:
        expected = "a path, a table of pandas, Arrow or polars, or a mapping of columns"
        raise fail("source", expected, type(source).__name__, "convert it to one of these")
    roles = find_roles(list(map(str, names)), named, "source", Notes())
    in_roles = [name for name in (roles.user, roles.item, roles.count, roles.time) if name]
    typed = memory_columns(
        {name: source[name] for name in names if str(name) in in_roles},
        exact=(roles.user, roles.item),
    )
    columns: dict[str, np.ndarray] = {}
    for name in names:
        column = typed.get(str(name))
        columns[str(name)] = _as_objects(source[name]) if column is None else column
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        remedy = "give every column as many rows"
        raise fail("source", "columns of one length", str(lengths), remedy)
    return NamedColumns(columns, find_row_names(source, next(iter(lengths.values()), 0)))


def _as_objects(column: Any) -> np.ndarray:
    """A column of objects, unchanged."""
    values = column_values(column) if is_library_table(column) else list(column)
    array = np.empty(len(values), object)
    array[:] = values
    return array


def read_ratings(
    path: Path,
    vocabulary: str | Path | Sequence[str] | None,
    folder: Path | None = None,
    named: RoleNames = BY_DEFAULT,
    dialect: Dialect = USUAL,
) -> Corpus:
    """The ratings of a file; see `ratings`."""
    notes = Notes()
    names = read_names(path, dialect)
    roles = find_roles(names, named, path, Notes()) if names else None
    exact = () if roles is None else (roles.user, roles.item)
    columns = read_columns(str(path), dialect=dialect, exact=exact, notes=notes)
    items = read_vocabulary(vocabulary)
    return ratings_from_columns(columns, named, str(path), items, folder, notes)


def read_names(path: Path, dialect: Dialect = USUAL) -> list[str]:
    """The column names of a table in a file; empty for other files, and for one that cannot be
    read."""
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    kinds = {".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}
    kind = "parquet" if path.is_dir() else kinds.get(ending, "sheet")
    if kind == "sheet" and ending not in (".xlsx", ".xls", ".ods"):
        return []
    try:
        return [name for name in RECORDS[kind](path, dialect).names if name]
    except (DataError, ImportError, OSError):  # the reader of the file reports it
        return []


def is_ratings(path: Path) -> bool:
    """True for a table with columns of users and items, and none of text."""
    return looks_like_ratings(read_names(path))


def are_ratings(source: Any) -> bool:
    """True for a table in memory with columns of users and items, and none of text."""
    names = list(map(str, source)) if isinstance(source, Mapping) else column_names(source)
    return names is not None and looks_like_ratings(names)


def ratings_from_columns(
    all_columns: Mapping[str, np.ndarray],
    named: RoleNames,
    where: str,
    items: Sequence[str] | None,
    folder: Path | None,
    notes: Notes,
) -> Corpus:
    """The ratings in columns; see `ratings`."""
    import scipy.sparse

    roles = find_roles(list(all_columns), named, where, notes)
    at = row_name(all_columns)
    _note_unread(roles, named, notes)
    users, rows = _number_names(all_columns, roles.user, where, at, notes)
    names, columns = _number_names(all_columns, roles.item, where, at, notes)
    counts = np.ones(len(rows))
    where_counts = f"{where}, column {roles.count!r}"
    if roles.count:
        counts = as_numbers(all_columns[roles.count], where_counts, at)
        value = "a count" if named.least is None else "a rating"
        check_present(counts, f"{value} in every row", where_counts, at)
    if named.least is not None:
        is_taken = np.asarray(counts >= _to_shortest(named.least, counts), float)
        is_last = _last_of_each(rows, columns, all_columns, roles, where, at)
        _note_least(is_taken[is_last], int((~is_last).sum()), named.least, roles, notes)
        counts = is_taken * is_last
    elif roles.count:
        _check_whole(counts, where_counts, at)
    counts = integer_counts(counts, where_counts)
    if items is not None:
        rows, columns, counts, names = _select_items(items, names, rows, columns, counts, notes)
    matrix = scipy.sparse.coo_matrix((counts, (rows, columns)), (len(users), len(names)))
    corpus = Users.from_counts(matrix, tuple(names), where=where, titles=users, notes=notes.texts())
    if folder is None:
        return corpus
    corpus.save(folder)
    return Users.open(folder)


def _to_shortest(least: float, ratings: Float[np.ndarray, " rows"]) -> float:
    """The number as the shortest type stores it that holds all ratings: 3.6 in float32 is a little
    less than 3.6, and a rating that is written so is not below it.

    >>> stored = np.float64(np.float32([3.6, 4.1]))
    >>> (stored >= 3.6).tolist(), (stored >= _to_shortest(3.6, stored)).tolist()
    ([False, True], [True, True])
    """
    for dtype in (np.float16, np.float32):
        with np.errstate(over="ignore"):
            is_exact = np.array_equal(ratings.astype(dtype), ratings)
            stored = float(dtype(least))
        if is_exact and np.isfinite(stored):
            return min(least, stored)
    return least


def _number_names(
    columns: Columns, column: str, where: str, at: RowName, notes: Notes
) -> tuple[list[str], Int[np.ndarray, " rows"]]:
    """The different names of a column in the order of their first rows, and the number of the name
    of each row."""
    values = columns[column]
    where = f"{where}, column {column!r}"
    check_present(values, "a name in every row", where, at, words=said_missing(columns, column))
    names = [label_name(value) for value in values.tolist()]
    if any("\n" in name or "\r" in name for name in names):
        names = _join_lines(names, where, notes)
    place = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return list(place), np.fromiter((place[name] for name in names), int, len(names))


def _join_lines(names: list[str], where: str, notes: Notes) -> list[str]:
    """The names with blanks instead of line breaks, which files of names cannot have.

    Raises:
      DataError: two names become one.
    """
    new_names = {name: " ".join(name.splitlines()) for name in dict.fromkeys(names)}
    broken = [name for name, new_name in new_names.items() if name != new_name]
    if len(set(new_names.values())) < len(new_names):
        remedy = "write these names without line breaks"
        raise fail(where, "names that differ in more than line breaks", f"{broken[0]!r}", remedy)
    notes.add(f"Line breaks in names are read as blanks, as in {broken[0]!r}.")
    return [new_names[name] for name in names]


def _select_items(
    items, names, rows, columns, counts, notes: Notes
) -> tuple[Any, Any, Any, list[str]]:
    """The rows whose items are among `items`, with their numbers in these."""
    place = {name: i for i, name in enumerate(items)}
    new_columns = np.array([place.get(name, -1) for name in names], int)[columns]
    if num_unknown := int(((new_columns < 0) & (counts > 0)).sum()):
        notes.add(
            f"{num_unknown:,} of {int((counts > 0).sum()):,} rows are of items that the fit does "
            "not know: left out."
        )
    is_in = new_columns >= 0
    return rows[is_in], new_columns[is_in], counts[is_in], list(items)


# --- counts and ratings ---------------------------------------------------------------------------
def _check_whole(counts: Float[np.ndarray, " rows"], where: str, at: RowName) -> None:
    """Raises a DataError at a fraction: a rating such as 3.5, or a weight."""
    broken = np.isfinite(counts) & (counts != np.floor(counts))
    if not broken.any():
        return
    row = int(np.argmax(broken))
    actual = f"{counts[row]:g} in {at(row)} ({int(broken.sum())} such)"
    remedy = (
        f"{GIVE} least=4 to take what is rated 4 or more as taken, of ratings such as 3.5, or "
        f"count='{NONE}' to take every row once; or write whole numbers in the file: twice the "
        "rating, or how often an item was taken"
    )
    raise fail(where, "whole counts, how often an item was taken", actual, remedy)


def _last_of_each(
    rows: Int[np.ndarray, " rows"],
    columns: Int[np.ndarray, " rows"],
    all_columns: Mapping[str, np.ndarray],
    roles: Roles,
    where: str,
    at: RowName,
) -> Bool[np.ndarray, " rows"]:
    """A mask of the last rating of each user and item: the latest, or without times the last in the
    table."""
    pairs = rows * (int(columns.max(initial=0)) + 1) + columns
    if len(np.unique(pairs)) == len(pairs):
        return np.ones(len(pairs), bool)
    order = np.arange(len(pairs))
    if roles.time:
        times = _times(all_columns[roles.time], f"{where}, column {roles.time!r}", at)
        order = np.argsort(times, kind="stable")
    backwards = order[::-1]
    _, first = np.unique(pairs[backwards], return_index=True)
    is_last = np.zeros(len(pairs), bool)
    is_last[backwards[first]] = True
    return is_last


def _times(values: np.ndarray, where: str, at: RowName) -> np.ndarray:
    """Times as numbers, from numbers or dates."""
    check_present(values, "a time in every row", where, at)
    try:
        return as_numbers(values)
    except DataError:
        pass
    cells = [str(value).strip() for value in values.tolist()]
    remedy = "write dates so, or leave the column out: then the last row of the table counts"
    formats = dates.fitting_formats(cells)
    if not formats:
        usual, _ = dates.nearest_format(cells)
        row = int(np.argmin(np.isfinite(dates.read_dates(cells, usual))))
        actual = f"{cells[row]!r} in {at(row)}, where most cells are not written so"
        raise fail(where, "numbers, or dates such as 2024-01-31, all written alike", actual, remedy)
    by_format = [dates.read_dates(cells, form) for form in formats]
    # Nobody can tell the day from the month in dates such as 5/6/2024. If both readings give one
    # order, it does not matter.
    orders = [np.unique(numbers, return_inverse=True)[1] for numbers in by_format]
    if not all(np.array_equal(order, orders[0]) for order in orders):
        actual = f"dates whose day nobody can tell from the month, {cells[0]!r} in {at(0)}"
        raise fail(where, "numbers, or dates such as 2024-01-31", actual, remedy)
    return by_format[0]


# --- notes ----------------------------------------------------------------------------------------
def _note_unread(roles: Roles, named: RoleNames, notes: Notes) -> None:
    unread = [*roles.unread, *([roles.time] if roles.time and named.least is None else [])]
    if liked := find_rating_columns(unread):
        notes.add(
            f"The ratings in {listed(liked)} are not read: a row counts the same whatever they say."
        )
    if ignored := [name for name in unread if name not in liked]:
        noun = "the column" if len(ignored) == 1 else "the columns"
        notes.add(f"Not read: {noun} {listed(ignored)}.")


def _note_least(
    is_taken: np.ndarray, repeated: int, least: float, roles: Roles, notes: Notes
) -> None:
    number = int(is_taken.sum())
    notes.add(
        f"{number:,} of {len(is_taken):,} items that users rated have {least:g} or more in "
        f"{roles.count!r}, and count as taken; the others as not taken, and may be recommended."
    )
    if repeated:
        order = f"by {roles.time!r}" if roles.time else "in the table"
        notes.add(
            f"{repeated:,} rows are of an item that the user rated again: the last rating counts, "
            f"{order}."
        )
