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
from vijax.data.schema.cells import column_names, column_values, in_a_library
from vijax.data.schema.in_memory import columns_of
from vijax.data.schema.labels import name_of
from vijax.data.schema.row_names import row_names_of
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

    Rows of one user and item add up; a row of count 0 names a user who took nothing, or an item
    that nobody took.

    Args:
      source: a path or http(s) address of a table (`vijax.data.tables.table_files.KNOWN`); a table
        of pandas, Arrow or polars; a mapping of columns.
      user: the column of users. None finds one called user, userId, customer_id and the like.
      item: the column of items; None finds item, movieId, product_id and the like.
      count: the column of how often an item was taken; None finds one called count, plays, quantity
        and the like. "none": each row counts once.
      time: the column of the time of each row. It is read where a user has rated an item twice: the
          last rating counts.
      least: the rating from which an item counts as taken, once; what is rated lower is as if not
          taken.
      vocabulary: the items in the order in which a fit knows them, or a file of them; others are
          left out.
      folder: folder to write the corpus to as memory-mapped files.
      dialect: the way in which the file is written.

    Raises:
      ValueError: columns that are missing or may be several, names or numbers that are missing,
        counts that are no whole numbers, ratings of which nobody said how they count.

    >>> table = {"userId": ["ann", "ann", "bob"], "movieId": [7, 8, 7], "rating": [5.0, 1.5, 4.0]}
    >>> liked = ratings(table, least=4)
    >>> liked.titles, liked.vocabulary, liked.to_scipy().toarray().tolist()
    (('ann', 'bob'), ('7', '8'), [[1, 0], [1, 0]])
    """
    named = RoleNames(user, item, count, time, least)
    folder = None if folder is None else Path(folder)
    if isinstance(source, str | Path):
        path = fetch(str(source)) if is_url(source) else Path(source).expanduser()
        with naming(path):
            return read_ratings(path, vocabulary, folder, named, dialect)
    found = _memory_columns(source, named)
    return ratings_from_columns(
        found, named, "source", read_vocabulary(vocabulary), folder, Notes()
    )


def _memory_columns(source: Any, named: RoleNames) -> Columns:
    """The columns of a table in memory, users and items as exact text."""
    names = list(source) if isinstance(source, Mapping) else column_names(source)
    if names is None:
        expected = "a path, a table of pandas, Arrow or polars, or a mapping of columns"
        raise fail("source", expected, type(source).__name__, "convert it to one of these")
    roles = find_roles(list(map(str, names)), named, "source", Notes())
    in_roles = [name for name in (roles.user, roles.item, roles.count, roles.time) if name]
    read = columns_of(
        {name: source[name] for name in names if str(name) in in_roles},
        exact=(roles.user, roles.item),
    )
    found: dict[str, np.ndarray] = {}
    for name in names:
        column = read.get(str(name))
        found[str(name)] = _as_objects(source[name]) if column is None else column
    lengths = {name: len(values) for name, values in found.items()}
    if len(set(lengths.values())) > 1:
        raise fail(
            "source", "columns of one length", str(lengths), "give every column as many rows"
        )
    return NamedColumns(found, row_names_of(source, next(iter(lengths.values()), 0)))


def _as_objects(column: Any) -> np.ndarray:
    """A column that is carried along as it is."""
    values = column_values(column) if in_a_library(column) else list(column)
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
    found = read_columns(str(path), dialect=dialect, exact=exact, notes=notes)
    return ratings_from_columns(found, named, str(path), read_vocabulary(vocabulary), folder, notes)


def read_names(path: Path, dialect: Dialect = USUAL) -> list[str]:
    """The names of the columns of a table in a file; none of other files, or of one that cannot be
    read."""
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    kind = (
        "parquet"
        if path.is_dir()
        else {".csv": "csv", ".tsv": "csv", ".parquet": "parquet"}.get(ending, "sheet")
    )
    if kind == "sheet" and ending not in (".xlsx", ".xls", ".ods"):
        return []
    try:
        return [name for name in RECORDS[kind](path, dialect).names if name]
    except (DataError, ImportError, OSError):  # its reader says so
        return []


def is_ratings(path: Path) -> bool:
    """True for a table with columns of users and items, and none of text."""
    return looks_like_ratings(read_names(path))


def are_ratings(source: Any) -> bool:
    """True for a table in memory with columns of users and items, and none of text."""
    names = list(map(str, source)) if isinstance(source, Mapping) else column_names(source)
    return names is not None and looks_like_ratings(names)


def ratings_from_columns(
    found: Mapping[str, np.ndarray],
    named: RoleNames,
    where: str,
    items: Sequence[str] | None,
    folder: Path | None,
    notes: Notes,
) -> Corpus:
    """The ratings in columns; see `ratings`."""
    import scipy.sparse

    roles = find_roles(list(found), named, where, notes)
    at = row_name(found)
    _note_unread(roles, named, notes)
    users, rows = _number_names(found, roles.user, where, at, notes)
    names, columns = _number_names(found, roles.item, where, at, notes)
    counts = np.ones(len(rows))
    if roles.count:
        where_counts = f"{where}, column {roles.count!r}"
        counts = as_numbers(found[roles.count], where_counts, at)
        what = "a count" if named.least is None else "a rating"
        check_present(counts, f"{what} in every row", where_counts, at)
    if named.least is not None:
        counts = np.asarray(counts >= named.least, float)
        last = _last_of_each(rows, columns, found, roles, where, at)
        _note_least(counts[last], int((~last).sum()), named.least, roles, notes)
        counts = counts * last
    elif roles.count:
        _check_whole(counts, f"{where}, column {roles.count!r}", at)
    counts = integer_counts(counts, f"{where}, column {roles.count!r}")
    if items is not None:
        rows, columns, counts, names = _select_items(items, names, rows, columns, counts, notes)
    matrix = scipy.sparse.coo_matrix((counts, (rows, columns)), (len(users), len(names)))
    corpus = Users.from_counts(matrix, tuple(names), where=where, titles=users, notes=notes.texts())
    if folder is None:
        return corpus
    corpus.save(folder)
    return Users.open(folder)


def _number_names(
    found: Columns, column: str, where: str, at: RowName, notes: Notes
) -> tuple[list[str], Int[np.ndarray, " rows"]]:
    """The different names of a column in the order in which they come, and the number of each value
    among them."""
    values = found[column]
    where = f"{where}, column {column!r}"
    check_present(values, "a name in every row", where, at, words=said_missing(found, column))
    named = [name_of(value) for value in values.tolist()]
    if any("\n" in name or "\r" in name for name in named):
        named = _join_lines(named, where, notes)
    place = {name: i for i, name in enumerate(dict.fromkeys(named))}
    return list(place), np.fromiter((place[name] for name in named), int, len(named))


def _join_lines(named: list[str], where: str, notes: Notes) -> list[str]:
    """The names with blanks in the place of line breaks, which files of names cannot have.
    DataError where two names become one."""
    changed = {name: " ".join(name.splitlines()) for name in dict.fromkeys(named)}
    broken = [name for name, changed_to in changed.items() if name != changed_to]
    if len(set(changed.values())) < len(changed):
        remedy = "write these names without line breaks"
        raise fail(where, "names that differ in more than line breaks", f"{broken[0]!r}", remedy)
    notes.add(f"Line breaks in names are read as blanks, as in {broken[0]!r}.")
    return [changed[name] for name in named]


def _select_items(
    items, names, rows, columns, counts, notes: Notes
) -> tuple[Any, Any, Any, list[str]]:
    """The rows whose items are among these, numbered by them."""
    place = {name: i for i, name in enumerate(items)}
    to = np.array([place.get(name, -1) for name in names], int)[columns]
    if lost := int(((to < 0) & (counts > 0)).sum()):
        notes.add(
            f"{lost:,} of {int((counts > 0).sum()):,} rows are of items that the fit does not "
            "know: left out."
        )
    return rows[to >= 0], to[to >= 0], counts[to >= 0], list(items)


# --- counts and ratings ---------------------------------------------------------------------------
def _check_whole(counts: Float[np.ndarray, " rows"], where: str, at: RowName) -> None:
    """DataError at a fraction: a rating such as 3.5, or a weight."""
    broken = np.isfinite(counts) & (counts != np.floor(counts))
    if not broken.any():
        return
    row = int(np.argmax(broken))
    got = f"{counts[row]:g} in {at(row)} ({int(broken.sum())} such)"
    remedy = (
        f"{GIVE} least=4 to take what is rated 4 or more as taken, of ratings such as 3.5, or "
        f"count='{NONE}' to take every row once; or write whole numbers in the file: twice the "
        "rating, or how often an item was taken"
    )
    raise fail(where, "whole counts, how often an item was taken", got, remedy)


def _last_of_each(
    rows: Int[np.ndarray, " rows"],
    columns: Int[np.ndarray, " rows"],
    found: Mapping[str, np.ndarray],
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
        order = np.argsort(
            _times(found[roles.time], f"{where}, column {roles.time!r}", at), kind="stable"
        )
    backwards = order[::-1]
    _, first = np.unique(pairs[backwards], return_index=True)
    last = np.zeros(len(pairs), bool)
    last[backwards[first]] = True
    return last


def _times(values: np.ndarray, where: str, at: RowName) -> np.ndarray:
    """Numbers, or dates as numbers."""
    check_present(values, "a time in every row", where, at)
    try:
        return as_numbers(values)
    except DataError:
        pass
    cells = [str(value).strip() for value in values.tolist()]
    remedy = "write dates so, or leave the column out: then the last row of the table counts"
    formats = dates.formats_of(cells)
    if not formats:
        usual, _ = dates.nearest_format(cells)
        row = int(np.argmin(np.isfinite(dates.read_dates(cells, usual))))
        got = f"{cells[row]!r} in {at(row)}, where most cells are not written so"
        raise fail(where, "numbers, or dates such as 2024-01-31, all written alike", got, remedy)
    by_format = [dates.read_dates(cells, form) for form in formats]
    # Of dates as 5/6/2024 nobody can tell the day from the month; where both readings agree, it
    # does not matter.
    orders = [np.unique(numbers, return_inverse=True)[1] for numbers in by_format]
    if not all(np.array_equal(order, orders[0]) for order in orders):
        got = f"dates whose day nobody can tell from the month, {cells[0]!r} in {at(0)}"
        raise fail(where, "numbers, or dates such as 2024-01-31", got, remedy)
    return by_format[0]


# --- notes ----------------------------------------------------------------------------------------
def _note_unread(roles: Roles, named: RoleNames, notes: Notes) -> None:
    unread = [*roles.unread, *([roles.time] if roles.time and named.least is None else [])]
    if liked := find_rating_columns(unread):
        notes.add(
            f"The ratings in {listed(liked)} are not read: a row counts the same whatever they say."
        )
    if others := [name for name in unread if name not in liked]:
        notes.add(
            f"Not read: {'the column' if len(others) == 1 else 'the columns'} {listed(others)}."
        )


def _note_least(taken: np.ndarray, repeated: int, least: float, roles: Roles, notes: Notes) -> None:
    number = int(taken.sum())
    notes.add(
        f"{number:,} of {len(taken):,} items that users rated have {least:g} or more in "
        f"{roles.count!r}, and count as taken; the others as not taken, and may be recommended."
    )
    if repeated:
        by = f"by {roles.time!r}" if roles.time else "in the table"
        notes.add(
            f"{repeated:,} rows are of an item that the user rated again: the last rating counts, "
            f"{by}."
        )
