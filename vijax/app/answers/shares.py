"""Topics by group and over time: the share of each topic in the words of each group's documents.

    share of topic k in group g = sum_d n_d theta_dk / sum_d n_d   over the documents d of g, n_d their words,

with the standard error of a ratio over documents, as for held-out scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from vijax.app.answers.results import results_paths, transform_source
from vijax.app.drawing.blocks import NINETY, Table
from vijax.app.folder.restored import restore_run
from vijax.app.folder.run_end import say_remarks
from vijax.app.folder.run_folder import Say, read_run_config
from vijax.app.settings.typed_toml import ConfigError
from vijax.app.sources.doc_topics import read_doc_topics
from vijax.data.tables.periods import Every, are_years, iso_day, name_period, read_days
from vijax.evaluate.score import ratio_estimate
from vijax.topics.summary import Topic


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
        """A row for each group and topic, with the label of the topic and a 90 % interval."""
        size = self.share.shape[1]
        wide = np.where(np.isfinite(self.error), NINETY * self.error, np.nan)
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


def group_shares(
    columns: Mapping[str, Sequence[Any]], by: str, every: Every | None = None
) -> Shares:
    """The shares of groups of documents.

    Args:
      columns: columns of documents: `words`, `share_0`, `share_1`, ..., and the column that groups
          them.
      by: name of the grouping column.
      every: for a column of dates, the length of time of a group; None groups equal values.

    >>> grouped = group_shares({"words": [10, 30, 20], "share_0": [1, 0.5, 0], "share_1": [0, 0.5, 1],
    ...                    "day": ["2024-01-30", "2024-01-31", "2024-02-01"]}, "day", "month")
    >>> grouped.groups, grouped.share.tolist()
    (('2024-01', '2024-02'), [[0.625, 0.375], [0.0, 1.0]])
    """
    topics = share_names(columns)
    if by not in columns or by in topics:
        columns_text = ", ".join(repr(name) for name in columns if name not in topics)
        raise ConfigError(
            f"--by: expected a column of the documents, got {by!r}; known: {columns_text}"
        )
    names = np.array(_groups(columns[by], by, every))
    words = np.asarray(columns["words"], float)
    shares = share_matrix(columns)
    is_usable = (words > 0) & np.isfinite(shares).all(axis=1)
    if not is_usable.any():
        raise ConfigError("--by: none of the documents has words that the run knows")
    names, shares, words = names[is_usable], shares[is_usable], words[is_usable]
    groups, sizes = np.unique(names, return_counts=True)
    rows_by_group = np.split(np.argsort(names, kind="stable"), np.cumsum(sizes)[:-1])
    rows = dict(zip(groups.tolist(), rows_by_group, strict=True))
    ordered = sorted(rows, key=_order)
    pairs = []
    for name in ordered:
        members = rows[name]
        topic_shares = shares[members].T
        pairs.append([ratio_estimate(words[members] * x, words[members]) for x in topic_shares])
    share, error = np.moveaxis(np.array(pairs), -1, 0)
    return Shares(tuple(ordered), np.array([len(rows[name]) for name in ordered]), share, error)


def _groups(values: Sequence[Any], by: str, every: Every | None) -> list[str]:
    """The group of each document; "" without a value, or without a date."""
    texts = ["" if value is None else str(value).strip() for value in values]
    if every is None:
        return texts
    days = read_days(texts)
    if days is None:
        example = next((text for text in texts if text and iso_day(text) is None), "")
        raise ConfigError(
            f"--every {every}: expected dates such as 2024-05-31 in column {by!r}, got "
            f"{example!r}; leave --every out, or write the dates so"
        )
    return [name_period(day, every) for day in days]


def _order(name: str) -> tuple[int, float, str]:
    """A sort key: numbers by size, then words; missing values last."""
    try:
        return (0, float(name), name)
    except ValueError:
        return (2 if not name else 1, 0.0, name)


def shares_of_run(
    folder: Path, by: str, every: Every | None, source: str | None, column: str | None, say: Say
) -> Shares:
    """The shares of the documents of a run, from its doc_topics.csv, or of other documents."""
    config = read_run_config(folder)
    if config.listing.source.results != "doc_topics":
        raise ConfigError(
            f"{folder}: a run of {config.listing.name}, which has no topics; see: vijax transform "
            f"{folder}"
        )
    say_remarks(folder, say)
    if source is not None:
        with config.in_precision():
            run = restore_run(folder, config)
            results = transform_source(config, run, source, column, say)
            return group_shares(results.columns(), by, every)
    return group_shares(read_doc_topics(results_paths(folder, config)[0]), by, every)


CELL = len("  100.0 ± 10.0")
"""Letters of a share in a table."""


def tables(grouped: Shares, by: str, topics: Sequence[Topic], width: int) -> list[Table]:
    """The words of topics, and a row for each group: the shares in per cent, with half the widths
    of their 90 % intervals. The largest topics that fit a screen of this width are shown; the last
    note counts the others."""
    groups = [group or "(none)" for group in grouped.groups]
    room = width - max(map(len, [by, *groups])) - len("    documents")
    most = max(1, room // CELL)
    shown = topics[:most]
    rows = []
    for group, number, share, error in zip(groups, *grouped[1:], strict=True):
        cells = [_share_text(share[topic.number], error[topic.number]) for topic in shown]
        rows.append([group, int(number), *cells])
    words = [[topic.number, _short_words(topic)[: width - 12]] for topic in shown]
    note = (
        "Per cent of the words, ± half the width of an interval of 90 % over documents; none for a "
        "group of one document."
    )
    if len(topics) > most:
        note += f" The {len(topics) - most} smaller topics are left out; --out shares.csv has all."
    header = [by, "documents", *(f"topic {topic.number}" for topic in shown)]
    return [
        Table("Topics, largest first", ["topic", "words"], words),
        Table(f"Topics by {by}", header, rows, note),
    ]


def _share_text(share: float, error: float) -> str:
    text = f"{100 * share:.1f}"
    if not np.isfinite(error):
        return text
    return f"{text} ± {100 * NINETY * error:.1f}"


def _short_words(topic: Topic) -> str:
    if topic.name:
        return f"{topic.name}: {' '.join(topic.words[:5])}"
    return " ".join(topic.words[:8])


def all_shares(grouped: GroupedShares, topics: Sequence[Topic]) -> Table:
    """A row for each group and topic of a column of a run."""
    columns = grouped.shares.columns({topic.number: topic.label for topic in topics})
    return Table(
        f"Topics by {grouped.by}", list(columns), list(zip(*columns.values(), strict=True))
    )


# --- by the columns of a run, for its page --------------------------------------------------------
FEWEST = 2
MOST_GROUPS = 30
"""A column makes groups without being named if its number of different values is in this range."""
MOST_TIMES = 60
"""More days than this are grouped to months, more months to years."""
MOST_COLUMNS = 4


class GroupedShares(NamedTuple):
    """Topics by one column.

    Attributes:
      by: the column.
      every: the length of time of a group; None if equal values make a group.
      in_time: True if the groups follow each other in time.
      shares: shares of topics in the groups.
    """

    by: str
    every: Every | None
    in_time: bool
    shares: Shares


def page_groups(
    columns: Mapping[str, Sequence[Any]],
    beside: Sequence[str],
    by: Sequence[str] | None = None,
    every: Literal["auto"] | Every = "auto",
) -> list[GroupedShares]:
    """Topics by the columns of the data: those named in `by`, or the first few with dates or few
    values. Dates are grouped by days, months or years; "auto" decides by their number."""
    for name in by or ():
        if name not in beside:
            columns_text = ", ".join(map(repr, beside)) or "none"
            raise ConfigError(
                f"page.by: expected columns of the documents, got {name!r}; known: {columns_text}"
            )
    wanted = [name for name in beside if suits(columns[name])][:MOST_COLUMNS] if by is None else by
    return [_group_column(columns, name, every) for name in wanted]


def _group_column(
    columns: Mapping[str, Sequence[Any]], name: str, every: Literal["auto"] | Every
) -> GroupedShares:
    days = read_days(columns[name])
    if days is None:
        return GroupedShares(name, None, are_years(columns[name]), group_shares(columns, name))
    period = choose_period(days) if every == "auto" else every
    return GroupedShares(name, period, True, group_shares(columns, name, period))


def suits(values: Sequence[Any]) -> bool:
    """True if a column makes useful groups: dates, or a few values that repeat.

    >>> suits(["a", "b", "a", "b"]), suits(["a", "b", "c"]), suits(["2024-01-01", "2024-01-02"])
    (True, False, True)
    """
    texts = [str(value).strip() for value in values if value is not None]
    different = len({text for text in texts if text})
    if different < FEWEST:
        return False
    return read_days(values) is not None or (
        different <= MOST_GROUPS and 2 * different <= len(texts)
    )


def choose_period(days: Sequence[str]) -> Every:
    """Days, months or years: the finest with no more points than can be read."""
    different = {day for day in days if day}
    if len(different) <= MOST_TIMES:
        return "day"
    if len({day[:7] for day in different}) <= MOST_TIMES:
        return "month"
    return "year"
