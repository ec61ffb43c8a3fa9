"""The order of rows in time: the columns that number or date them, and how rows stand by these.

A time is no observation: a model of sequences that reads it as one finds states "early" and "late". So a column that
numbers or dates the rows within their groups is found by its name, by its dates or because it counts; it orders the
rows, and is not modelled unless it is asked for. What was found on the training rows is kept as an `Order`, and new
rows are ordered by it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from vijax.data.reading.checks import DataError, Notes, fail, listed
from vijax.data.tables import dates
from vijax.data.tables.columns import Columns, RowName, are_missing, as_numbers, not_numbers

NUMBER = "number"
"""The format of a column of numbers."""
FEWEST_EVEN, FEWEST_COUNTED = 3, 8
"""Steps from which on a column without a telling name is one that counts: in the order of the file, in another."""


class Order(NamedTuple):
    """The columns that order rows, the coarsest first, such as ("year", "month").

    Attributes:
      columns: their names.
      formats: how each of them is written: "number", or a format of dates (`vijax.data.tables.dates.FORMATS`).
    """

    columns: tuple[str, ...]
    formats: tuple[str, ...]


class Timed(NamedTuple):
    """Rows by their order.

    Attributes:
      order: the columns that order them.
      rank: the place of each row among the different times, from 0; rows of one time share it.
      times: the time of each row as a number; None where several columns make no one number.
      unit: the unit of `times`: "" of the column's own numbers, "second" since 1970 or "month" since year 0.
    """

    order: Order
    rank: Int[np.ndarray, " N"]
    times: Float[np.ndarray, " N"] | None
    unit: str = ""


class Found(NamedTuple):
    """The order of rows, as it was found out.

    Attributes:
      timed: the rows by their order; None where nothing orders them.
      left_out: columns that number or date the rows, and so are not modelled.
      counting: those of them that are left out for no other reason than that they count, and order no rows.
    """

    timed: Timed | None
    left_out: tuple[str, ...] = ()
    counting: tuple[str, ...] = ()


# --- names -----------------------------------------------------------------------------------------------------------
CLOCKS = frozenset(
    {
        "time", "times", "date", "dates", "datetime", "timestamp", "when", "zeit", "datum", "zeitpunkt", "temps",
        "fecha", "tiempo",
    }
)  # fmt: skip
"""Names of columns that hold nothing but times, whatever their numbers are."""
STEPS = frozenset(
    {
        "t", "step", "steps", "timestep", "tick", "ticks", "frame", "epoch", "period", "wave", "visit", "days", "hours",
    }
)  # fmt: skip
"""Names that times have too where they are whole numbers, or rise from row to row."""
COUNTERS = frozenset(
    {
        "index", "idx", "row", "rows", "rownames", "rowname", "seq", "nr", "no", "obs", "observation", "unnamed",
    }
)  # fmt: skip
"""Names of columns that number rows."""
PARTS = {
    "year": ("year", "years", "yr", "yyyy", "jahr", "ano", "annee"),
    "quarter": ("quarter", "qtr", "quartal"),
    "month": ("month", "months", "mon", "monat", "mois", "mes"),
    "week": ("week", "weeks", "kw", "woche", "semaine", "semana"),
    "day": ("day", "dayofmonth", "tag", "jour", "dia"),
    "hour": ("hour", "hr", "stunde", "heure", "hora"),
    "minute": ("minute", "min", "minutes"),
    "second": ("second", "sec", "seconds"),
}
"""Names of the parts of a date, the coarsest first."""
UNITS = re.compile(
    r"[ _.\-(\[/]+(?:s|secs?|seconds?|ms|us|ns|mins?|minutes?|h|hrs?|hours?|d|days?|weeks?|months?|years?|yrs?|utc|gmt"
    r"|index|idx|stamp|no|nr|num|number|id)[)\]]?$"
)
"""The end of a name that says a unit: time (s), time_ms, step_number."""
WORDS = re.compile(r"[A-Z]?[^\W_A-Z]+|[A-Z]+(?![^\W_A-Z])", re.UNICODE)


def _plain(name: str) -> str:
    """The name in small letters, without a unit.

    >>> _plain("Time (s)"), _plain("time_ms"), _plain("TimeStamp"), _plain("Unnamed: 0")
    ('time', 'time', 'timestamp', 'unnamed')
    """
    plain = name.strip().lower().removesuffix(": 0")
    plain = UNITS.sub("", plain) or plain
    return plain.replace("_", "").replace(" ", "")


def _part(name: str) -> str:
    """The part of a date that a column is called after; empty for others."""
    return next((part for part, names in PARTS.items() if _plain(name) in names), "")


def is_called_a_time(name: str) -> bool:
    """True where a column has the name of times, of steps or of a part of a date.

    >>> is_called_a_time("Time (s)"), is_called_a_time("month"), is_called_a_time("animal")
    (True, True, False)
    """
    return _plain(name) in CLOCKS | STEPS or bool(_part(name))


def _sounds_of_time(name: str) -> bool:
    """True where a word of the name is one of time, as in visit_date."""
    words = {word.lower() for word in WORDS.findall(name)}
    return bool(words & (CLOCKS | PARTS.keys()))


# --- columns ---------------------------------------------------------------------------------------------------------
class Candidate(NamedTuple):
    """A column that may order rows.

    Attributes:
      name: its name.
      format: how it is written.
      numbers: its times as numbers, NaN where one is missing.
      kind: "date", "clock", "step", "part", "counter", "word" (its name sounds of time), or "" (numbers alone).
    """

    name: str
    format: str
    numbers: Float[np.ndarray, " N"]
    kind: str

    @property
    def coarseness(self) -> int:
        """The place of a part of a date among all parts; dates come first, times of a day beside hours."""
        if self.kind == "date":
            return -1
        part = "hour" if self.format == dates.TIME_OF_DAY or self.kind == "clock" else _part(self.name)
        return list(PARTS).index(part or "hour")

    @property
    def is_whole(self) -> bool:
        """True of whole numbers, or dates."""
        there = self.numbers[np.isfinite(self.numbers)]
        return self.format != NUMBER or bool(np.all(there == np.floor(there)))


class Rows:
    """Rows in groups, and what is true of numbers along them."""

    def __init__(self, groups: Int[np.ndarray, " N"] | None, size: int):
        self.groups = np.zeros(size, int) if groups is None else groups
        self.by_group = np.argsort(self.groups, kind="stable")
        sorted_groups = self.groups[self.by_group]
        self.inside = sorted_groups[1:] == sorted_groups[:-1]  # pairs of neighbours in one group

    def steps(self, numbers: np.ndarray) -> np.ndarray:
        """Differences from row to row of one group, in the order of the file."""
        return np.diff(numbers[self.by_group])[self.inside]

    def sorted_steps(self, numbers: np.ndarray) -> np.ndarray:
        """The same, where the rows of each group are sorted by these numbers."""
        order = np.lexsort((numbers, self.groups))
        return np.diff(numbers[order])[self.inside]

    def rises(self, numbers: np.ndarray) -> bool:
        """True where the rows of each group stand in this order, and no two of them share a number."""
        steps = self.steps(numbers)
        return bool(len(steps) and np.all(steps > 0))

    def never_falls(self, numbers: np.ndarray) -> bool:
        """True where the rows of each group stand in this order, though some share a number."""
        steps = self.steps(numbers)
        return bool(len(steps) and np.all(steps >= 0) and np.any(steps > 0))

    def tells_apart(self, numbers: np.ndarray) -> bool:
        """True where no two rows of a group share a number."""
        steps = self.sorted_steps(numbers)
        return bool(len(steps) and np.all(steps > 0))

    def counts(self, numbers: np.ndarray) -> bool:
        """True of whole numbers that go up by one within each group, or rise evenly from row to row."""
        steps = self.steps(numbers)
        if len(steps) < FEWEST_EVEN:
            return False
        first = steps[0]
        if first > 0 and np.allclose(steps, first, rtol=1e-6, atol=0):
            return True
        if len(steps) < FEWEST_COUNTED or np.any(numbers != np.floor(numbers)):
            return False
        first_group = numbers[self.groups == self.groups[0]]
        if np.ptp(first_group) != len(first_group) - 1:  # spares most columns the sorting
            return False
        return bool(np.all(self.sorted_steps(numbers) == 1))


def _numbers(values: np.ndarray) -> np.ndarray | None:
    """The values as floats; None where one is text, or none is a number."""
    if values.dtype == object and not_numbers(values).any():
        return None
    numbers = as_numbers(values)
    return numbers if np.isfinite(numbers).any() else None


def _candidate(name: str, values: np.ndarray, rows: Rows) -> Candidate | None:
    """The column as one that may order rows; None where it cannot."""
    numbers = _numbers(values)
    if numbers is not None:
        return Candidate(name, NUMBER, numbers, _kind(name, numbers, rows))
    missing = are_missing(values)
    cells = [str(value) for value in values[~missing]]
    fitting = dates.formats_of(cells)
    if not fitting:
        return None
    read = {known: dates.read_dates([str(value) for value in values], known) for known in fitting}
    if len(fitting) > 1:
        fitting = [known for known in fitting if not missing.any() and rows.never_falls(read[known])] or fitting
    if tuple(fitting) == dates.SLASHES:
        return None  # day or month first? `_say_unclear` says so
    kind = "part" if fitting[0] in (dates.MONTH, dates.TIME_OF_DAY) else "date"
    return Candidate(name, fitting[0], read[fitting[0]], kind)


def _kind(name: str, numbers: np.ndarray, rows: Rows) -> str:
    """The part of time that the name of a column of numbers says, where the numbers do not belie it."""
    plain = _plain(name)
    there = numbers[np.isfinite(numbers)]
    is_whole = bool(np.all(there == np.floor(there)))
    is_complete = len(there) == len(numbers)
    if plain in CLOCKS:
        return "clock"
    if _part(name):
        return "part" if is_whole or _part(name) == "year" or (is_complete and rows.rises(numbers)) else ""
    if plain in STEPS:
        return "step" if is_whole or (is_complete and rows.rises(numbers)) else ""
    if plain in COUNTERS:
        return "counter" if is_whole else ""
    return "word" if _sounds_of_time(name) else ""


# --- the search ------------------------------------------------------------------------------------------------------
class Trial(NamedTuple):
    """Columns that may order rows together, the coarsest first."""

    columns: tuple[Candidate, ...]

    @property
    def rank(self) -> np.ndarray:
        """The place of each row among the different times."""
        return _rank([column.numbers for column in self.columns])


def _rank(numbers: Sequence[np.ndarray]) -> np.ndarray:
    if len(numbers) == 1:
        return np.unique(numbers[0], return_inverse=True)[1]
    return np.unique(np.stack(numbers, axis=1), axis=0, return_inverse=True)[1].reshape(-1)


def find_order(
    found: Columns,
    groups: Int[np.ndarray, " N"] | None,
    apart: Sequence[str | None],
    columns: Sequence[str] | None,
    where: str,
    at: RowName,
    notes: Notes,
    group: str | None = None,
) -> Found:
    """The columns that number or date the rows within their groups, and the rows by them.

    Args:
      found: all columns.
      groups: the group of each row; None where all rows are one.
      apart: names of columns that are something else, such as the target.
      columns: the columns to model, where they are named; None for all of numbers.
      where: names the file in errors.
      at: names a row in errors.
      notes: where remarks are added.
      group: name of the column of groups.

    Raises:
      DataError: rows of one group share a time, and do not stand in its order; or two orders are as likely.

    >>> table = {"time": np.array([2.0, 1.0, 3.0]), "x": np.array([0.5, 0.1, 0.3])}
    >>> found = find_order(table, None, (), None, "an example", str, Notes())
    >>> found.timed.rank.tolist(), found.left_out
    ([1, 0, 2], ('time',))
    """
    size = len(next(iter(found.values()), ()))
    rows = Rows(groups, size)
    named = frozenset(columns or ())
    known: list[Candidate] = []
    for name in found:
        candidate = None if name in apart else _candidate(name, found[name], rows)
        if candidate is not None and (name not in named or candidate.kind in ("date", "clock", "part", "step")):
            known.append(candidate)
        elif candidate is None and name not in apart:
            _say_unclear(name, found[name], notes)
    whole = [candidate for candidate in known if np.isfinite(candidate.numbers).all()]
    chosen = _chosen(whole, rows, where)
    if chosen is None:
        _refuse_unordered(known, rows, found, apart, where, at, group)
        constant = [c.name for c in known if c.kind in ("date", "clock") and c.name not in named]
        if constant:
            notes.add(f"{listed(constant)} is the same in all rows of a sequence, and is not modelled.")
        return Found(None, tuple(constant))
    chosen = _with_constant_parts(chosen, whole)
    left_out, counting = _left_out(whole, rows, chosen)
    out = tuple(name for name in found if name in left_out | counting and name not in named)
    return Found(_timed(chosen.columns), out, tuple(name for name in out if name in counting))


def _chosen(known: Sequence[Candidate], rows: Rows, where: str) -> Trial | None:
    """The columns that order the rows; None where there are none."""
    of = lambda *kinds: [Trial((c,)) for c in known if c.kind in kinds]
    years = [Trial((c,)) for c in known if c.kind == "part" and _part(c.name) == "year"]
    parts = [Trial((c,)) for c in known if c.kind == "part" and _part(c.name) != "year"]
    composites = _composites(known)
    if not rows.inside.any():  # rows that follow no other have an order in any case
        return next(iter([*of("date"), *of("clock"), *of("step")]), None)
    clocks = [*of("date"), *of("clock"), *of("step"), *years, *composites, *parts, *of("word")]
    for trial in clocks:
        if rows.rises(trial.rank):
            return trial
    # With a file in another order only names that leave no doubt count.
    certain = [trial for trial in composites if _is_dated(trial)]
    doubtful = [trial for trial in composites if not _is_dated(trial)]
    for trial in [*of("date"), *certain]:
        if rows.tells_apart(trial.rank):
            return trial
    apart = [trial for trial in [*of("clock"), *of("step"), *years, *doubtful, *parts] if rows.tells_apart(trial.rank)]
    if apart:
        _check_agree(apart, rows, where)
        return apart[0]
    for trial in [*of("date"), *of("clock")]:
        if rows.never_falls(trial.rank):
            return trial
    return _counter(known, rows)


def _composites(known: Sequence[Candidate]) -> list[Trial]:
    """All parts of a date, or dates and the time of the day, as one; none where there are not two of them."""
    parts = [c for c in known if c.kind in ("date", "part", "clock") and np.ptp(c.numbers) > 0]
    parts.sort(key=lambda c: c.coarseness)
    return [Trial(tuple(parts))] if len(parts) > 1 else []


def _with_constant_parts(chosen: Trial, known: Sequence[Candidate]) -> Trial:
    """The order with coarser parts of the date before it which training has once: a later table may have two years."""
    of_date = ("date", "part", "clock")
    if any(c.kind not in of_date for c in chosen.columns):
        return chosen
    coarsest = min(c.coarseness for c in chosen.columns)
    names = {c.name for c in chosen.columns}
    others = [c for c in known if c.kind in ("date", "part") and c.name not in names and np.ptp(c.numbers) == 0]
    coarser = sorted((c for c in others if c.coarseness < coarsest), key=lambda c: c.coarseness)
    return Trial((*coarser, *chosen.columns)) if coarser else chosen


def _is_dated(trial: Trial) -> bool:
    """True where the coarsest part is a date or a year."""
    first = trial.columns[0]
    return first.kind == "date" or _part(first.name) == "year"


def _check_agree(trials: Sequence[Trial], rows: Rows, where: str) -> None:
    """Raises a DataError where columns order the rows in different ways."""
    places = [np.lexsort((trial.rank, rows.groups)) for trial in trials]
    for trial, order in zip(trials[1:], places[1:], strict=True):
        if np.array_equal(order, places[0]):
            continue
        names = [listed(c.name for c in one.columns) for one in (trials[0], trial)]
        words = [", ".join(f'"{c.name}"' for c in one.columns) for one in (trials[0], trial)]
        remedy = f"name the one that orders them, as in --set 'data.order=[{words[1]}]' or 'data.order=[{words[0]}]'"
        raise fail(where, "one order of the rows", f"two, by {names[0]} and by {names[1]}", remedy)


def _counter(known: Sequence[Candidate], rows: Rows) -> Trial | None:
    """A column that numbers the rows."""
    numbers = [c for c in known if c.kind not in ("date", "part")]
    named = [c for c in numbers if c.kind == "counter"]
    for candidate in numbers:
        if rows.rises(candidate.numbers) and (candidate in named or rows.counts(candidate.numbers)):
            return Trial((candidate,))
    for candidate in named:
        if rows.tells_apart(candidate.numbers):
            return Trial((candidate,))
    return next((Trial((c,)) for c in numbers if rows.counts(c.numbers)), None)


def _left_out(known: Sequence[Candidate], rows: Rows, chosen: Trial) -> tuple[set[str], set[str]]:
    """The columns that say no more than when, or which, a row is: by their names, and by their numbers alone."""
    out = {c.name for c in chosen.columns}
    counting: set[str] = set()
    by_time = any(c.kind in ("date", "clock", "step", "part", "word") for c in chosen.columns)
    for candidate in known:
        if (
            candidate.kind in ("date", "clock", "step")
            or (candidate.kind == "part" and by_time)
            or (candidate.kind == "counter" and rows.tells_apart(candidate.numbers))
            or (candidate.kind == "word" and rows.rises(candidate.numbers))
        ):
            out.add(candidate.name)
        elif rows.counts(candidate.numbers):
            counting.add(candidate.name)
    return out, counting - out


def _refuse_unordered(
    known: Sequence[Candidate],
    rows: Rows,
    found: Columns,
    apart: Sequence[str | None],
    where: str,
    at: RowName,
    group: str | None,
) -> None:
    """Raises a DataError where a column is one of times and still orders nothing."""
    clocks = [c for c in known if c.kind in ("date", "clock")]
    if not clocks or len(rows.groups) < 2:
        return
    clock = clocks[0]
    missing = np.flatnonzero(~np.isfinite(clock.numbers))
    if len(missing):
        got = f"none in {at(int(missing[0]))} ({len(missing)} such)"
        raise fail(where, f"a time in every row of {clock.name!r}", got, _as_they_lie(found, (*apart, clock.name)))
    if not np.any(rows.sorted_steps(clock.numbers)):
        return
    raise _shared(clock.name, clock.numbers, rows, found, apart, where, at, group)


def _shared(
    name: str,
    numbers: np.ndarray,
    rows: Rows,
    found: Columns,
    apart: Sequence[str | None],
    where: str,
    at: RowName,
    group: str | None,
) -> DataError:
    """The error for rows of one group that share a time, and do not stand in its order."""
    order = np.lexsort((numbers, rows.groups))
    twice = np.flatnonzero((np.diff(numbers[order]) == 0) & rows.inside)
    first, second = sorted((int(order[twice[0]]), int(order[twice[0] + 1])))
    inside = f"rows of one {group!r}" if group else "rows of one sequence"
    got = f"the same in {at(first)} and {at(second)} ({len(twice)} such)"
    remedies = [_as_they_lie(found, (*apart, name))]
    if group is None and (other := _grouping(found, numbers, (*apart, name))) is not None:
        remedies.insert(0, f"name the column of sequences, --set data.group={other}")
    return fail(where, f"different times ({name!r}) in {inside}", got, "; or ".join(remedies))


def _as_they_lie(found: Columns, apart: Sequence[str | None]) -> str:
    others = [name for name, values in found.items() if name not in apart and _numbers(values) is not None]
    names = ", ".join(f'"{name}"' for name in others)
    return f"take rows as they lie: --set data.order=none 'data.columns=[{names}]'"


def _grouping(found: Columns, numbers: np.ndarray, apart: Sequence[str | None]) -> str | None:
    """A column within whose values no two rows share a time."""
    for name, values in found.items():
        if name in apart:
            continue
        codes = np.unique([str(value) for value in values.tolist()], return_inverse=True)[1]
        if 1 < codes.max() + 1 <= len(values) / 2 and Rows(codes, len(values)).tells_apart(numbers):
            return name
    return None


def _say_unclear(name: str, values: np.ndarray, notes: Notes) -> None:
    """Notes dates of which nobody can tell the day from the month."""
    cells = [str(value) for value in values[~are_missing(values)]]
    if tuple(dates.formats_of(cells)) == dates.SLASHES:
        notes.add(
            f"The dates of {name!r} do not order the rows: {cells[0]!r} may begin with the day or with the month. "
            "Write them as 2024-05-31 to have it so."
        )


# --- rows by an order ------------------------------------------------------------------------------------------------
def in_order(
    found: Columns,
    order: Order | Sequence[str],
    groups: Int[np.ndarray, " N"] | None,
    where: str,
    at: RowName,
    group: str | None = None,
) -> Timed:
    """Rows by columns that are known to order them.

    Args:
      found: all columns.
      order: the order that was found on the training rows; or names of columns, whose formats are found.
      groups: the group of each row; None where all rows are one.
      where: names the file in errors.
      at: names a row in errors.
      group: name of the column of groups.

    Raises:
      DataError: a time is missing or cannot be read; rows of one group share a time, and do not stand in its order.
    """
    rows = Rows(groups, len(next(iter(found.values()), ())))
    columns = order.columns if isinstance(order, Order) else tuple(order)
    formats = (
        order.formats if isinstance(order, Order) else tuple(_format(found[name], name, where) for name in columns)
    )
    known = tuple(_read(found[name], name, form, where, at) for name, form in zip(columns, formats, strict=True))
    timed = _timed(known)
    has_neighbours = bool(rows.inside.any())
    if has_neighbours and not rows.tells_apart(timed.rank) and not rows.never_falls(timed.rank):
        raise _shared(", ".join(columns), timed.rank, rows, found, (*columns, group), where, at, group)
    return timed


def _format(values: np.ndarray, name: str, where: str) -> str:
    if _numbers(values) is not None:
        return NUMBER
    cells = [str(value) for value in values[~are_missing(values)]]
    fitting = dates.formats_of(cells)
    if not fitting:
        expected = "numbers, or dates of one format, such as 2024-05-31, 31.05.2024 or 2024Q2"
        got = repr(next((cell for cell in cells), "")) + ", among others"
        raise fail(f"{where}, data.order {name!r}", expected, got, "correct the cells, or name another column")
    if tuple(fitting) == dates.SLASHES:
        got = f"{cells[0]!r}, whose day may come first or second"
        raise fail(f"{where}, data.order {name!r}", "dates of one meaning", got, "write them as 2024-05-31")
    return fitting[0]


def _read(values: np.ndarray, name: str, form: str, where: str, at: RowName) -> Candidate:
    """A column of times in a known format."""
    if form == NUMBER:
        numbers = as_numbers(values, f"{where}, data.order {name!r}", at, "write it as a number")
    else:
        cells = [str(value) for value in values]
        numbers = dates.read_dates(cells, form)
        if form in dates.OF_DAYS:  # dates with a type are written so, and leave no doubt
            numbers = np.where(np.isfinite(numbers), numbers, dates.read_dates(cells, "year-month-day"))
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        row = int(bad[0])
        got = f"{str(values[row])[:40]!r} in {at(row)} ({len(bad)} such)"
        expected = "a number in every row" if form == NUMBER else f"a date in every row, written as {form}"
        raise fail(f"{where}, data.order {name!r}", expected, got, "correct or remove those rows")
    kind = "" if form == NUMBER else "part" if form in (dates.MONTH, dates.TIME_OF_DAY) else "date"
    return Candidate(name, form, numbers, kind)


def _timed(columns: Sequence[Candidate]) -> Timed:
    order = Order(tuple(c.name for c in columns), tuple(c.format for c in columns))
    rank = _rank([c.numbers for c in columns])
    first = columns[0]
    if len(columns) == 1:
        in_months = first.format in dates.IN_MONTHS
        unit = "" if first.format in (NUMBER, dates.MONTH) else "month" if in_months else "second"
        return Timed(order, rank, first.numbers, unit)
    parts = [_part(c.name) for c in columns]
    if parts == ["year", "month"]:
        return Timed(order, rank, 12 * first.numbers + columns[1].numbers - 1, "month")
    if parts == ["year", "quarter"]:
        return Timed(order, rank, 12 * first.numbers + 3 * (columns[1].numbers - 1), "month")
    if first.kind == "date" and first.format not in dates.IN_MONTHS and len(columns) == 2:
        second = columns[1]
        if second.format == dates.TIME_OF_DAY:
            return Timed(order, rank, first.numbers + second.numbers, "second")
        if parts[1] == "hour":
            return Timed(order, rank, first.numbers + 3600 * second.numbers, "second")
    return Timed(order, rank, None)


# --- what is said ----------------------------------------------------------------------------------------------------
def say_order(found: Found, groups: Int[np.ndarray, " N"] | None, modelled: Sequence[str], notes: Notes) -> None:
    """Notes what orders the rows, what is left out for it, and whether steps are unequal or times shared."""
    timed = found.timed
    if timed is None:
        return
    rows = Rows(groups, len(timed.rank))
    names = listed(timed.order.columns)
    moved = int(np.sum(np.lexsort((timed.rank, rows.groups)) != rows.by_group))
    elsewhere = f"; {moved:,} of {len(timed.rank):,} stood elsewhere in the file" if moved else ""
    within = "" if groups is None else " within their groups"
    notes.add(f"Rows are in the order of {names}{within} (data.order; none: as they lie){elsewhere}.")
    out = [name for name in found.left_out if name not in modelled]
    if out:
        which = "says when or which a row is, and is" if len(out) == 1 else "say when or which a row is, and are"
        notes.add(f"{listed(out)} {which} not modelled; to have it so, name all columns in data.columns.")
    shared = int(np.sum(rows.sorted_steps(timed.rank) == 0))
    if shared:
        notes.add(f"{shared:,} rows share {names} with the row before them in their group, and stay in file order.")
    _say_steps(timed, rows, notes)


def _say_steps(timed: Timed, rows: Rows, notes: Notes) -> None:
    """Notes steps of time that are not equal."""
    steps = equal_steps(timed, rows)
    if not len(steps) or steps.min() == steps.max() or steps.min() == 0:
        return
    different, counts = np.unique(steps, return_counts=True)
    usual = float(different[counts.argmax()])
    other = int(np.sum(~np.isclose(steps, usual, rtol=1e-3)))
    unit = _unit(timed, usual)
    low, high, middle = (_short(value / unit.size) for value in (steps.min(), steps.max(), usual))
    notes.add(
        f"Steps of {listed(timed.order.columns)} are unequal, from {low} to {high}{unit.name}, {other:,} of "
        f"{len(steps):,} other than {middle}: the model takes all steps as equal. A row of empty cells may fill a gap "
        "where the model takes missing values."
    )


def equal_steps(timed: Timed, rows: Rows) -> Float[np.ndarray, " S"]:
    """The steps of time from row to row of one group, those that are equal but for rounding set equal; dates on one
    day of the month go in months."""
    if timed.times is None:
        return np.zeros(0)
    steps = rows.sorted_steps(timed.times)
    if timed.unit == "second" and len(steps) and (months := in_months(timed.times)) is not None:
        by_month = rows.sorted_steps(months)
        if by_month.min() == by_month.max():
            return by_month
    if len(steps) and np.allclose(steps, np.median(steps), rtol=1e-3, atol=0):
        return np.full(len(steps), np.median(steps))
    return steps


def in_months(seconds: np.ndarray) -> np.ndarray | None:
    """Months since year 0 of dates that all are on the first day, or the last, of a month; else None."""
    days = (seconds // dates.DAY).astype("datetime64[D]")
    months = days.astype("datetime64[M]")
    starts = months.astype("datetime64[D]") == days
    ends = (days + 1).astype("datetime64[M]") != months
    if np.any(seconds % dates.DAY) or not (starts.all() or ends.all()):
        return None
    return months.astype(int) + 12.0 * 1970


class Unit(NamedTuple):
    """A unit of time: its size in seconds (1 for others), and what stands behind a number."""

    size: float
    name: str


def _unit(timed: Timed, usual: float) -> Unit:
    if timed.unit == "month":
        return Unit(1.0, " months")
    if timed.unit == "":
        return Unit(1.0, "")
    for size, name in ((dates.DAY, " days"), (3600.0, " hours"), (60.0, " minutes")):
        if usual >= size:
            return Unit(size, name)
    return Unit(1.0, " seconds")


def _short(value: float) -> str:
    return f"{value:.4g}"
