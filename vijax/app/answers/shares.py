"""Topics by group and over time: the share of each topic in the words of each group's documents.

    share of topic k in group g = sum_d n_d theta_dk / sum_d n_d   over the documents d of g, n_d their words,

with the standard error of a ratio over documents, as held-out scores have it.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from vijax.app.answers.results import results_paths, said_of
from vijax.app.drawing.blocks import Table
from vijax.app.folder.restored import restore_run
from vijax.app.folder.run_end import say_remarks
from vijax.app.folder.run_folder import Say, read_run_config
from vijax.app.settings.typed_toml import ConfigError
from vijax.app.sources.doc_topics import read_doc_topics
from vijax.data.tables import dates
from vijax.evaluate.score import ratio_estimate
from vijax.topics.summary import Topic

Every = Literal["year", "month", "day"]
LENGTHS: dict[str, int] = {"year": 4, "month": 7, "day": 10}
"""Lengths of the beginning of an ISO date that names days, months or years."""


class Shares(NamedTuple):
    """Shares of topics in groups, in order.

    Attributes:
      groups: names of the groups.
      documents: number of documents of each.
      share: shares, (groups, topics).
      error: standard errors of the shares; infinite for one document.
    """

    groups: tuple[str, ...]
    documents: np.ndarray
    share: np.ndarray
    error: np.ndarray

    def columns(self, labels: Mapping[int, str]) -> dict[str, list[Any]]:
        """A row for each group and topic, with the label of the topic and the ends of the interval
        of 95 %."""
        size = self.share.shape[1]
        wide = np.where(np.isfinite(self.error), 1.96 * self.error, np.nan)
        low, high = np.clip(self.share - wide, 0, 1), np.clip(self.share + wide, 0, 1)
        numbers = {"share": self.share, "low": low, "high": high}
        return {
            "group": [group for group in self.groups for _ in range(size)],
            "documents": np.repeat(self.documents, size).tolist(),
            "topic": list(range(size)) * len(self.groups),
            "label": [labels[k] for k in range(size)] * len(self.groups),
            **{name: list(map(np.float64, values.ravel())) for name, values in numbers.items()},
        }


def share_names(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """The names share_0, share_1, ... among columns."""
    return [f"share_{k}" for k in range(len(columns)) if f"share_{k}" in columns]


def share_matrix(columns: Mapping[str, Sequence[Any]]) -> np.ndarray:
    """The columns share_0, share_1, ... as a matrix, (documents, topics)."""
    return np.stack([np.asarray(columns[name], float) for name in share_names(columns)], axis=1)


def shares_by(columns: Mapping[str, Sequence[Any]], by: str, every: Every | None = None) -> Shares:
    """The shares of groups of documents.

    Args:
      columns: columns of documents: `words`, `share_0`, `share_1`, ..., and the column that groups
          them.
      by: name of the grouping column.
      every: for a column of dates, the length of time of a group; None groups equal values.

    >>> found = shares_by({"words": [10, 30, 20], "share_0": [1, 0.5, 0], "share_1": [0, 0.5, 1],
    ...                    "day": ["2024-01-30", "2024-01-31", "2024-02-01"]}, "day", "month")
    >>> found.groups, found.share.tolist()
    (('2024-01', '2024-02'), [[0.625, 0.375], [0.0, 1.0]])
    """
    topics = share_names(columns)
    if by not in columns or by in topics:
        known = ", ".join(repr(name) for name in columns if name not in topics)
        raise ConfigError(f"--by: expected a column of the documents, got {by!r}; known: {known}")
    names = np.array(_groups(columns[by], by, every))
    words, each = np.asarray(columns["words"], float), share_matrix(columns)
    kept = (words > 0) & np.isfinite(each).all(axis=1)
    if not kept.any():
        raise ConfigError("--by: none of the documents has words that the run knows")
    names, each, words = names[kept], each[kept], words[kept]
    groups, sizes = np.unique(names, return_counts=True)
    rows = dict(
        zip(
            groups.tolist(),
            np.split(np.argsort(names, kind="stable"), np.cumsum(sizes)[:-1]),
            strict=True,
        )
    )
    ordered = sorted(rows, key=_order)
    pairs = [
        [ratio_estimate(words[r] * x, words[r]) for x in each[r].T] for r in map(rows.get, ordered)
    ]
    share, error = np.moveaxis(np.array(pairs), -1, 0)
    return Shares(tuple(ordered), np.array([len(rows[name]) for name in ordered]), share, error)


def _groups(values: Sequence[Any], by: str, every: Every | None) -> list[str]:
    """The group of each document; empty where there is no value, or no date."""
    texts = ["" if value is None else str(value).strip() for value in values]
    if every is None:
        return texts
    days = dates_of(texts)
    if days is None:
        got = next((text for text in texts if text and _iso_day(text) is None), "")
        raise ConfigError(
            f"--every {every}: expected dates such as 2024-05-31 in column {by!r}, got {got!r}; "
            "leave --every out, or write the dates so"
        )
    return [day[: LENGTHS[every]] for day in days]


def _order(name: str) -> tuple[int, float, str]:
    """An order: numbers by their size, then words; missing values at the end."""
    try:
        return (0, float(name), name)
    except ValueError:
        return (2 if not name else 1, 0.0, name)


def shares_of_run(
    folder: Path, by: str, every: Every | None, source: str | None, column: str | None, say: Say
) -> Shares:
    """The shares of the documents of a run, from its doc_topics.csv, or of others."""
    config = read_run_config(folder)
    if config.listing.source.results != "doc_topics":
        raise ConfigError(
            f"{folder}: a run of {config.listing.name}, which has no topics; see: vijax transform "
            f"{folder}"
        )
    say_remarks(folder, say)
    if source is not None:
        with config.in_precision():
            return shares_by(
                said_of(config, restore_run(folder, config), source, column, say).columns(),
                by,
                every,
            )
    return shares_by(read_doc_topics(results_paths(folder, config)[0]), by, every)


CELL = len("  100.0 ± 10.0")
"""Letters that a share takes in a table."""


def tables(found: Shares, by: str, topics: Sequence[Topic], width: int) -> list[Table]:
    """The words of topics, and a row for each group: the shares in per cent with their errors. The
    largest topics are shown, as many as fit into a screen of this width; the last note says what is
    left out."""
    groups = [group or "(none)" for group in found.groups]
    room = width - max(map(len, [by, *groups])) - len("    documents")
    shown, left = topics[: max(1, room // CELL)], len(topics) - max(1, room // CELL)
    cell = lambda share, error: (
        f"{100 * share:.1f}" + (f" ± {100 * error:.1f}" if np.isfinite(error) else "")
    )
    rows = [
        [group, int(number), *(cell(share[t.number], error[t.number]) for t in shown)]
        for group, number, share, error in zip(groups, *found[1:], strict=True)
    ]
    short = lambda topic: (
        f"{topic.name}: {' '.join(topic.words[:5])}" if topic.name else " ".join(topic.words[:8])
    )
    words = Table(
        "Topics, largest first",
        ["topic", "words"],
        [[t.number, short(t)[: width - 12]] for t in shown],
    )
    note = "Per cent of the words, ± one standard error over documents."
    note += (
        f" The {left} smaller topics are left out; --out shares.csv has all." if left > 0 else ""
    )
    return [
        words,
        Table(
            f"Topics by {by}", [by, "documents", *(f"topic {t.number}" for t in shown)], rows, note
        ),
    ]


def all_shares(found: Grouped, topics: Sequence[Topic]) -> Table:
    """A row for each group and topic of a column of a run."""
    columns = found.shares.columns({topic.number: topic.label for topic in topics})
    return Table(f"Topics by {found.by}", list(columns), list(zip(*columns.values(), strict=True)))


# --- by the columns of a run, for its page --------------------------------------------------------
FEWEST, MOST_GROUPS = 2, 30
"""A column whose number of different values is in this range makes groups by itself."""
MOST_TIMES = 60
"""More days are put together to months, more months to years."""
MOST_COLUMNS = 4


class Grouped(NamedTuple):
    """Topics by one column.

    Attributes:
      by: the column.
      every: the length of time of a group, or None where equal values make one.
      in_time: True where the groups follow each other in time.
      shares: shares of topics in the groups.
    """

    by: str
    every: Every | None
    in_time: bool
    shares: Shares


def grouped(
    columns: Mapping[str, Sequence[Any]],
    beside: Sequence[str],
    by: Sequence[str] | None = None,
    every: Literal["auto"] | Every = "auto",
) -> list[Grouped]:
    """Topics by columns `beside` the documents: those named in `by`, or the first few with dates or
    with few values. Dates are grouped by days, months or years; "auto" decides by their number."""
    for name in by or ():
        if name not in beside:
            known = ", ".join(map(repr, beside)) or "none"
            raise ConfigError(
                f"page.by: expected columns of the documents, got {name!r}; known: {known}"
            )
    wanted = [name for name in beside if suits(columns[name])][:MOST_COLUMNS] if by is None else by
    return [_by(columns, name, every) for name in wanted]


def _by(columns: Mapping[str, Sequence[Any]], name: str, every: Literal["auto"] | Every) -> Grouped:
    days = dates_of(columns[name])
    if days is None:
        return Grouped(name, None, are_years(columns[name]), shares_by(columns, name))
    stretch = stretch_of(days) if every == "auto" else every
    return Grouped(name, stretch, True, shares_by(columns, name, stretch))


def suits(values: Sequence[Any]) -> bool:
    """True where a column makes useful groups: dates, or a few values that repeat.

    >>> suits(["a", "b", "a", "b"]), suits(["a", "b", "c"]), suits(["2024-01-01", "2024-01-02"])
    (True, False, True)
    """
    texts = [str(value).strip() for value in values if value is not None]
    different = len({text for text in texts if text})
    if different < FEWEST:
        return False
    return dates_of(values) is not None or (
        different <= MOST_GROUPS and 2 * different <= len(texts)
    )


def dates_of(values: Sequence[Any]) -> list[str] | None:
    """The days of a column of dates, in one of the usual ways of writing (of months the first),
    empty where one is missing or is none, as of one in twenty at most; None for anything else, and
    where day and month cannot be told apart.

    >>> dates_of(["2024-05-31T08:00", ""]), dates_of(["20240531"]), dates_of(["soon"])
    (['2024-05-31', ''], None, None)
    >>> dates_of(["31.05.2024", "1.6.2024"]), dates_of(["5/31/2024", "6/1/2024"]), dates_of(["5/6/2024"])
    (['2024-05-31', '2024-06-01'], ['2024-05-31', '2024-06-01'], None)
    >>> dates_of(["2024-05"] * 19 + ["n.d."])[-2:]
    ['2024-05-01', '']
    """
    texts = ["" if value is None else str(value).strip() for value in values]
    cells = sorted(set(texts) - {""})
    number = sum(1 for text in texts if text)
    fitting = []
    for name in DAYS:
        first = [_day(cell, name) for cell in cells[:TRIED]]
        if 2 * sum(day is None for day in first) > len(first):
            continue
        days = {cell: _day(cell, name) for cell in cells}
        unread = sum(1 for text in texts if text and days[text] is None)
        if unread <= UNREAD * number:
            fitting.append([days.get(text) or "" for text in texts])
    return fitting[0] if cells and len(fitting) == 1 else None


NO_DAYS = (dates.MONTH, dates.TIME_OF_DAY, dates.WITH_ZONE, dates.COMPACT)
DAYS = tuple(name for name in dates.FORMATS if name not in NO_DAYS and "quarter" not in name)
"""Ways of writing a day, or a month."""
TRIED, UNREAD = 50, 0.05
"""Cells by which a way of writing is tried first, and the share of cells at most that may be no
dates."""


def _day(cell: str, name: str) -> str | None:
    """The day of a cell, as 2024-05-31; None where it is not written so."""
    if name == "year-month-day":
        return _iso_day(cell)
    try:
        found = dates.FORMATS[name](cell)
    except (ValueError, OverflowError):
        return None
    day = dates.written(found, name)
    return f"{day}-01" if name in dates.IN_MONTHS else day[:10]


def _iso_day(cell: str) -> str | None:
    """The day of an ISO date, in its own time zone."""
    try:
        return (
            datetime.datetime.fromisoformat(cell).date().isoformat() if cell[4:5] == "-" else None
        )
    except ValueError:
        return None


def are_years(values: Sequence[Any]) -> bool:
    """True where all values are years.

    >>> are_years(["1999", "2001"]), are_years(["1", "2"])
    (True, False)
    """
    texts = {str(value).strip() for value in values if value is not None} - {""}
    return bool(texts) and all(
        len(text) == 4 and text.isdecimal() and 1000 <= int(text) < 2200 for text in texts
    )


def stretch_of(days: Sequence[str]) -> Every:
    """Days, months or years: the finest that makes no more points than can be read."""
    known = {day for day in days if day}
    if len(known) <= MOST_TIMES:
        return "day"
    return "month" if len({day[:7] for day in known}) <= MOST_TIMES else "year"
