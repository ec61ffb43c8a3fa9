"""Tables of users and items as a run reads them: the roles of their columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vijax.app.settings.quoting import quote
from vijax.app.settings.sections import DocumentData, RatingData, read_dialect
from vijax.app.settings.typed_toml import ConfigError
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.rating_columns import (
    GIVE,
    find_count_columns,
    find_rating_columns,
    looks_like_ratings,
)
from vijax.data.corpora.ratings import ratings, read_names
from vijax.data.read import guess_format
from vijax.data.reading.checks import REMEDY, DataError, listed
from vijax.data.reading.download import fetch, is_url
from vijax.data.reading.files import naming
from vijax.data.reading.store import is_address
from vijax.data.schema.cells import column_names
from vijax.data.tables.columns import as_numbers
from vijax.data.tables.table_files import read_columns
from vijax.data.texts.text_files import DEFAULT_COLUMN, jsonl_records
from vijax.files import local_path

ROLES = ("user", "item", "count", "time", "least")
TABLES = ("ratings", "csv", "parquet", "sheet")
"""Formats with columns, two of which may be users and items."""


def named_roles(section: RatingData) -> dict[str, Any]:
    """The columns that a section names, and the least rating."""
    return {name: getattr(section, name) for name in ROLES if getattr(section, name) is not None}


def read_ratings(section: RatingData, source: Any = None) -> Corpus:
    """Who took what, from the table that a section names, or from another table, read alike."""
    table = section.path if source is None else source
    path = fetch(table, section.sha256) if is_url(table) else table
    try:
        return ratings(
            path,
            vocabulary=section.vocabulary,
            dialect=read_dialect(section),
            **named_roles(section),
        )
    except DataError as error:
        problem, _, remedy = str(error).partition(REMEDY)
        if source is None or GIVE not in remedy:
            raise
        settings = (
            ", ".join(
                f"{name}={_setting_text(value)}" for name, value in named_roles(section).items()
            )
            or "no settings of it"
        )
        # What training was read with stands before the remedy: a command without settings leaves
        # settings out of those.
        raise DataError(
            f"{problem.rstrip()} The table of training was read with {settings}. {REMEDY}give a "
            "table with the columns of that one."
        ) from error


def _setting_text(value: str | float) -> str:
    """A setting as the command line has it: 4 and not 4.0."""
    return value if isinstance(value, str) else f"{value:g}"


def has_ratings(section: RatingData, source: Any = None) -> bool:
    """True for a table of users and items.

    Raises:
      ConfigError: a table whose columns of users and items are unknown, or columns for a source
        without columns.
    """
    source = section.path if source is None else source
    roles = named_roles(section)
    names = _columns(section, source)
    if not names:
        _refuse_json_lines(section, source, roles)
        if roles and isinstance(source, str | Path):
            keys = ", ".join(f"data.{name}" for name in roles)
            raise ConfigError(
                f"{source}: {keys}: for tables with a row for each user and item, which this is not"
            )
        return False
    if section.column is not None:
        return False
    if {"user", "item"} <= roles.keys() or looks_like_ratings(names):
        return True
    if DEFAULT_COLUMN in names or len(names) == 1:
        return False
    place = source if isinstance(source, str | Path) else "data"
    raise ConfigError(
        f"{place}: expected columns of users and of items, got {listed(names, 30)}. Name them: "
        "--set data.user=COLUMN "
        "data.item=COLUMN. (A table of texts, each a user: --set data.column=COLUMN.)"
    )


def _refuse_json_lines(section: RatingData, source: Any, roles: Mapping[str, Any]) -> None:
    """Raises a `ConfigError` on JSON lines of users and items, with the line that makes a table."""
    if not isinstance(source, str | Path) or section.column is not None or is_url(source):
        return
    path = local_path(source)
    if not path.is_file() or guess_format(path) != "jsonl":
        return
    names = jsonl_records(path, read_dialect(section)).names
    if not roles and not looks_like_ratings(names):
        return
    literal = json.dumps(str(source), ensure_ascii=False)  # in double quotes, as the shell's differ
    program = (
        f"import pandas; pandas.read_json({literal}, lines=True, dtype=False)"
        '.to_parquet("ratings.parquet")'
    )
    raise ConfigError(
        f"{source}: expected a table of users and items, got JSON lines with {listed(names, 30)}. "
        f"Write it as a table: python -c {quote(program)}"
    )


def check_are_texts(section: DocumentData, source: Any = None) -> None:
    """Raises a `ConfigError` on a table of users and items for a model of texts, unless its columns
    are called user and item, and no other column but counts looks like ratings."""
    source = section.path if source is None else source
    if section.column is not None or section.format == "ratings":
        return
    names = _columns(section, source)
    has_plain_roles = {"user", "item"} <= set(names)
    if has_plain_roles and (find_count_columns(names) or not find_rating_columns(names)):
        return
    if looks_like_ratings(names):
        place = source if isinstance(source, str | Path) else "data"
        raise ConfigError(
            f"{place}: expected a column of texts, got {listed(names, 30)}, which are of users and "
            "items. Name the column of the text: --set data.column=COLUMN. For users and items "
            "there is another model: vijax fit hpf --data FILE."
        )


class RatingScale(NamedTuple):
    """Ratings for which it is open how they count.

    Attributes:
      column: their column.
      low: the lowest.
      high: the highest.
      least: the rating from which they are high: 4 for 1 to 5, 8 for 1 to 10.
    """

    column: str
    low: float
    high: float
    least: float


HIGH = 0.8
"""Share of the highest rating from which a rating is high."""


def find_rating_scale(section: RatingData) -> RatingScale | None:
    """The ratings of a table if the section leaves open how they count; else None."""
    if section.count is not None or section.least is not None:
        return None
    names = _columns(section, section.path)
    roles = (section.user, section.item, section.time)
    columns = find_rating_columns(name for name in names if name not in roles)
    if not columns or find_count_columns(names):
        return None
    path = fetch(section.path, section.sha256) if is_url(section.path) else section.path
    column = columns[0]
    cells = read_columns(str(path), dialect=read_dialect(section))[column]
    values = as_numbers(cells, f"{path}, column {column!r}")
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    least = HIGH * high if low >= 0 else low + HIGH * (high - low)
    if high - low >= 2:
        least = float(np.ceil(least))
    return RatingScale(column, low, high, least)


def _columns(section: DocumentData, source: Any) -> list[str]:
    """The names of the columns of a table; none for a source without columns."""
    if isinstance(source, Mapping):
        return list(map(str, source))
    if not isinstance(source, str | Path):
        return column_names(source) or []
    if str(source) == "docstrings" or is_address(source):
        return []
    path = fetch(str(source), section.sha256) if is_url(source) else local_path(source)
    if not path.exists():
        return []
    with naming(path):
        format = guess_format(path) if section.format == "auto" else section.format
    if format in TABLES:
        return read_names(path, read_dialect(section))
    return []
