"""Roles of the columns in a table of ratings: users, items, counts, ratings and times."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from vijax.data.reading.checks import Notes, fail, listed, nearest
from vijax.data.schema.name_words import COUNTS, words_of_name

NONE = "none"
"""Instead of the name of a column of counts: each row counts once."""
GIVE = "give vijax.data.ratings"
"""The beginning of remedies that name an argument; the command line removes it."""

OF_USERS = ("user", "customer", "member", "reader", "listener", "viewer", "visitor", "reviewer")
OF_ITEMS = (
    "item",
    "movie",
    "film",
    "product",
    "book",
    "song",
    "track",
    "artist",
    "article",
    "game",
    "recipe",
    "video",
)
ONE_WORD = {"user": ("uid", "username"), "item": ("iid", "sku", "asin", "isbn")}
RATINGS = (
    "rating",
    "ratings",
    "score",
    "scores",
    "stars",
    "star",
    "overall",
    "preference",
    "grade",
    "vote",
)
RATED = ("rating", "ratings", "stars", "star", "score", "scores")
"""Words in a longer header by which a column is one of ratings."""
TIMES = ("timestamp", "time", "date", "datetime", "when", "unixreviewtime")
TEXTS: tuple[str, ...] = (
    "text",
    "review",
    "reviews",
    "reviewtext",
    "content",
    "body",
    "comment",
    "comments",
    "summary",
    "description",
)
TEXTS += ("message", "abstract", "tweet", "sentence", "document", "headline")
"""Headers of columns of texts: a table with one is a table of documents."""


@dataclasses.dataclass(frozen=True)
class RoleNames:
    """The columns that the user has named.

    Attributes:
      user: the column of users; None finds it by its header, and so for the others.
      item: the column of items.
      count: the column of how often an item was taken; "none" if each row counts once.
      time: the column of times.
      least: the least rating that counts as taken.
    """

    user: str | None = None
    item: str | None = None
    count: str | None = None
    time: str | None = None
    least: float | None = None


@dataclasses.dataclass(frozen=True)
class Roles:
    """The column of each role; "" if a table has none.

    Attributes:
      user: the column of users.
      item: the column of items.
      count: the column of counts, or of ratings.
      time: the column of times.
      unread: all other columns.
    """

    user: str
    item: str
    count: str
    time: str
    unread: tuple[str, ...]


def find_roles(names: Sequence[str], named: RoleNames, where: object, notes: Notes) -> Roles:
    """The roles of the columns of a table; notes tell which columns were taken.

    Raises:
      DataError: a named column is missing; no columns of users and items, or several that may be;
        ratings without `least` or `count`.
    """
    user = _named_column(named.user, "user", names, where)
    user = user or _find_only(names, _is_user, "user", where)
    item = _named_column(named.item, "item", names, where)
    item = item or _find_only(names, _is_item, "item", where)
    if user == item:
        expected = "two columns, of users and of items"
        raise fail(where, expected, f"{user!r} for both", f"{GIVE} user=... and item=...")
    _check_least(named.least)
    count = "" if named.count == NONE else _named_column(named.count, "count", names, where)
    others = [name for name in names if name and name not in {user, item, count}]
    if not count and named.count is None:
        count = _find_count_column(others, named, where)
    time = _named_column(named.time, "time", names, where)
    time = time or next(iter(_spelt(others, TIMES)), "")
    if named.least is not None and not count:
        expected = "a column of ratings or counts to compare with it"
        remedy = f"{GIVE} count=... to name it, or leave least out, or add a column rating"
        raise fail(where, expected, f"none, among {listed(names)}", remedy)
    if (user, item) not in (("user", "item"), (named.user, named.item)):
        notes.add(f"Users are read from the column {user!r}, items from {item!r}.")
    unread = tuple(name for name in others if name not in (count, time))
    return Roles(user, item, count, time, unread)


def _check_least(least: float | None) -> None:
    if least is None:
        return
    if not (isinstance(least, int | float | np.number) and least == least):
        remedy = "give the lowest rating that counts as taken, such as 4"
        raise fail("least", "a number", repr(least), remedy)


def looks_like_ratings(names: Iterable[str]) -> bool:
    """True if some column has a name for users, one has a name for items, and none for texts.

    >>> looks_like_ratings(["userId", "movieId", "rating"]), looks_like_ratings(["user", "item", "text"])
    (True, False)
    """
    names = list(names)
    return any(map(_is_user, names)) and any(map(_is_item, names)) and not _spelt(names, TEXTS)


def find_rating_columns(names: Iterable[str]) -> list[str]:
    """The columns whose names are names for ratings, or have such a word in them.

    >>> find_rating_columns(["user", "star_rating", "Book-Rating", "ratingDate", "rating"])
    ['rating', 'star_rating', 'Book-Rating']
    """
    names = list(names)
    exact = _spelt(names, RATINGS)
    longer = [name for name in names if name not in exact and _speaks_of_ratings(name)]
    return [*exact, *longer]


def _speaks_of_ratings(name: str) -> bool:
    words = set(words_of_name(name))
    return bool(words & set(RATED)) and not words & {*TIMES, "id", "ids", "day", "month", "year"}


def find_count_columns(names: Iterable[str]) -> list[str]:
    """The columns whose names are names for counts."""
    return _spelt(names, COUNTS)


def find_role_column(role: str, names: Sequence[str], where: object) -> str:
    """The column of users, or of items, by its name.

    >>> find_role_column("user", ["age", "userId"], "users.csv")
    'userId'
    """
    has_role = {"user": _is_user, "item": _is_item}[role]
    columns = [role] if role in names else [name for name in names if has_role(name)]
    if len(columns) == 1:
        return columns[0]
    actual = f"{listed(columns)} that may be it" if columns else f"the columns {', '.join(names)}"
    raise fail(where, f"the column {role}", actual, "name it so in the first line")


# --- names ----------------------------------------------------------------------------------------
def _letters(name: str) -> str:
    """The letters and digits of a name, in lower case."""
    return "".join(sign for sign in name.casefold() if sign.isalnum())


def _spelt(names: Iterable[str], headers: Sequence[str]) -> list[str]:
    """The names that are among the headers, in the order of the headers."""
    return sorted(
        (name for name in names if _letters(name) in headers),
        key=lambda name: headers.index(_letters(name)),
    )


def _is_user(name: str) -> bool:
    return _letters(name).removesuffix("s") in _forms(OF_USERS, ONE_WORD["user"])


def _is_item(name: str) -> bool:
    return _letters(name).removesuffix("s") in _forms(OF_ITEMS, ONE_WORD["item"])


def _forms(words: Sequence[str], more: Sequence[str]) -> set[str]:
    return {*words, *(f"{word}id" for word in words), *more}


def _named_column(name: str | None, role: str, names: Sequence[str], where: object) -> str:
    """The column that the user has named; "" without one."""
    if name is None:
        return ""
    if name not in names:
        remedy = f"{GIVE} {role}=...; {nearest(name, names)}"
        raise fail(where, f"the column {name!r} ({role})", "none", remedy)
    return name


def _find_only(
    names: Sequence[str], has_role: Callable[[str], bool], role: str, where: object
) -> str:
    """The one column that may have a role; the exact name goes before others."""
    if role in names:
        return role
    columns = [name for name in names if has_role(name)]
    if len(columns) == 1:
        return columns[0]
    actual = f"{listed(columns)} for {role}" if columns else f"the columns {', '.join(names)}"
    remedy = f"{GIVE} {role}=... to name it, one of {listed(names, 30)}"
    raise fail(where, "the columns user and item", actual, remedy)


def _find_count_column(names: Sequence[str], named: RoleNames, where: object) -> str:
    """The column of counts, or with `least` of ratings; "" if a row is an item that was taken."""
    counts = _spelt(names, COUNTS)
    ratings = find_rating_columns(names)
    if named.least is not None and ratings:
        return ratings[0]
    if counts or not ratings:
        return counts[0] if counts else ""
    name = ratings[0]
    remedy = (
        f"{GIVE} least=4 to take what is rated 4 or more as taken, count={name!r} to take ratings "
        f"as counts (whole numbers), or count='{NONE}' to take every row once, whatever its rating"
    )
    raise fail(where, f"to be told how the ratings in column {name!r} count", "nothing", remedy)
