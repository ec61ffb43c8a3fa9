"""The order of rows in time: which columns are taken for times, and how rows stand by them."""

from __future__ import annotations

import numpy as np
import pytest

from vijax.data.reading.checks import DataError, Notes
from vijax.data.tables import dates
from vijax.data.tables.order import Order, find_order, in_order, say_order
from vijax.data.tables.table import Choice, split_table, table_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=24)
IN_TIME = Choice(in_time=True)


def text(values):
    return np.array(list(values), object)


def months(number):
    return text(f"{2010 + i // 12}-{i % 12 + 1:02d}-01" for i in range(number))


CLOCKS = {
    "time": {"time": np.arange(24.0)},
    "Time (s)": {"Time (s)": np.arange(24.0) ** 2},
    "year": {"year": 1990.0 + np.arange(24)},
    "dates": {"when": months(24)},
    "German dates": {"Datum": text(f"{i + 1:02d}.03.2024" for i in range(24))},
    "dates with the month first": {"d": text(f"03/{i + 1:02d}/2024" for i in range(24))},
    "quarters": {"q": text(f"{2000 + i // 4}Q{i % 4 + 1}" for i in range(24))},
    "year and month": {"year": np.repeat([2010.0, 2011.0], 12), "month": np.tile(np.arange(1.0, 13.0), 2)},
    "year and name of month": {
        "year": np.repeat([2010.0, 2011.0], 12),
        "month": text([m[:3] for m in dates.MONTHS] * 2),
    },
    "day and time of day": {"day": np.repeat([3.0, 4.0], 12), "time": np.r_[12:24, 0:12].astype(float)},
    "date and hour": {"date": text(["2024-05-31"] * 12 + ["2024-06-01"] * 12), "hour": np.tile(np.arange(12.0), 2)},
    "a serial number": {"nr": np.arange(1.0, 25.0)},
    "even steps without a name": {"s": 0.5 * np.arange(24.0)},
}


@pytest.mark.parametrize("name", CLOCKS)
def test_times_are_found_and_not_modelled(name):
    table = table_of({**CLOCKS[name], "x": X}, IN_TIME, "f.csv")
    assert table.columns == ("x",)
    assert table.timed.order.columns == tuple(CLOCKS[name])
    np.testing.assert_array_equal(table.sequences()[0][:, 0], X)


BY_FILE = ("day and time of day", "a serial number", "even steps without a name")
"""Orders that are known by that of the file alone."""


@pytest.mark.parametrize("name", [name for name in CLOCKS if name not in BY_FILE])
def test_rows_in_another_order_are_the_same_sequence(name):
    places = RNG.permutation(24)
    columns = {key: values[places] for key, values in {**CLOCKS[name], "x": X}.items()}
    notes = Notes()
    table = table_of(columns, IN_TIME, "f.csv", notes)
    assert table.columns == ("x",)
    np.testing.assert_array_equal(table.sequences()[0][:, 0], X)
    assert any("stood elsewhere in the file" in note for note in table.notes)
    np.testing.assert_array_equal(table.x[:, 0], X[places])  # rows keep the order of the file


MEASURED = {
    "reaction_time": RNG.normal(size=24),
    "t": 20 + RNG.normal(size=24),  # a temperature
    "index": 100 + RNG.normal(size=24),  # of prices
    "wave": RNG.random(24),
    "hour": RNG.integers(0, 24, 24).astype(float),
    "count": RNG.poisson(3, 24).astype(float),
    "rank": RNG.permutation(24) * 2.0,
    "time_to_event": RNG.exponential(size=24),
}


@pytest.mark.parametrize("name", MEASURED)
def test_what_is_measured_orders_nothing(name):
    table = table_of({name: MEASURED[name], "x": X}, IN_TIME, "f.csv")
    assert table.columns == (name, "x")
    assert table.timed is None


def test_groups_are_ordered_each_by_itself_and_split_with_their_times():
    animal = text(np.repeat(["a", "b", "c"], 8))
    time = np.tile(np.arange(8.0), 3)
    places = RNG.permutation(24)
    columns = {"animal": animal[places], "time": time[places], "x": X[places]}
    table = table_of(columns, Choice(group="animal", in_time=True), "f.csv")
    found = {name: part[:, 0] for name, part in zip(table.group_names, table.sequences(), strict=True)}
    for i, name in enumerate("abc"):
        np.testing.assert_array_equal(found[name], X[8 * i : 8 * i + 8])
    for part in split_table(table, 0.34, 0, "groups"):
        assert all(
            np.array_equal(one[:, 0], found[name])
            for name, one in zip(part.group_names, part.sequences(), strict=False)
        )


def test_a_time_that_is_named_is_modelled_and_orders_rows():
    columns = {"time": np.arange(24.0)[::-1], "x": X}
    table = table_of(columns, Choice(columns=("time", "x"), in_time=True), "f.csv")
    np.testing.assert_array_equal(table.sequences()[0][:, 0], np.arange(24.0))
    table = table_of(columns, Choice(in_time=True, order=()), "f.csv")
    assert table.columns == ("time", "x")
    assert table.timed is None


def test_times_that_rows_of_a_group_share_are_refused_with_remedies_that_work():
    columns = {"animal": text(np.repeat(["a", "b"], 12)), "time": np.tile(np.arange(12.0), 2), "x": X}
    with pytest.raises(DataError) as error:
        table_of(columns, IN_TIME, "f.csv")
    message = str(error.value)
    assert "different times ('time') in rows of one sequence, got the same in row 0" in message
    assert "--set data.group=animal; or take rows as they lie: --set data.order=none 'data.columns=[\"x\"]'" in message
    assert len(table_of(columns, Choice(group="animal", in_time=True), "f.csv").sequences()) == 2
    assert table_of(columns, Choice(columns=("x",), in_time=True, order=()), "f.csv").columns == ("x",)


def test_rows_of_one_day_stay_in_the_order_of_the_file():
    days = text(f"2024-05-{i // 3 + 1:02d}" for i in range(24))
    table = table_of({"date": days, "x": X}, IN_TIME, "f.csv")
    np.testing.assert_array_equal(table.sequences()[0][:, 0], X)
    assert any("16 rows share 'date' with the row before them" in note for note in table.notes)


def test_two_orders_that_disagree_are_refused():
    day, time = np.repeat([3.0, 4.0], 12), np.r_[12:24, 0:12].astype(float)
    places = RNG.permutation(24)
    columns = {"day": day[places], "time": time[places], "x": X[places]}
    with pytest.raises(DataError, match="one order of the rows, got two, by 'time' and by 'day', 'time'"):
        table_of(columns, IN_TIME, "f.csv")
    table = table_of(columns, Choice(in_time=True, order=("day", "time")), "f.csv")
    np.testing.assert_array_equal(table.sequences()[0][:, 0], X)


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (np.r_[0:12, 20:32].astype(float), "unequal, from 1 to 9, 1 of 23 other than 1"),
        (
            text(f"2024-{m:02d}-{d:02d}" for m in (1, 3) for d in range(1, 13)),
            "from 1 to 49 days, 1 of 23 other than 1",
        ),
        (months(24), ""),  # of 28 to 31 days
        (0.1 * np.arange(24), ""),
    ],
)
def test_unequal_steps_are_said(time, said):
    notes = Notes()
    say_order(find_order({"time": time, "x": X}, None, (), None, "f.csv", str, notes), None, ("x",), notes)
    unequal = [note for note in notes.texts() if "unequal" in note]
    assert len(unequal) == bool(said)
    assert all(said in note for note in unequal)


def test_new_rows_are_read_by_the_format_of_the_training_rows():
    """13/05 says that days come first; of 01/02 alone nobody could tell."""
    train = table_of({"date": text(["12/05/2024", "13/05/2024", "14/05/2024"]), "x": X[:3]}, IN_TIME, "f.csv")
    assert train.timed.order == Order(("date",), ("day/month/year",))
    new = {"date": text(["01/02/2024", "02/01/2024"]), "x": X[:2]}
    table = table_of(new, IN_TIME._replace(columns=("x",), order=train.timed.order), "g.csv")
    np.testing.assert_array_equal(table.sequences()[0][:, 0], X[:2][::-1])
    with pytest.raises(DataError, match="a date in every row, written as day/month/year, got '2024/05/01'"):
        in_order({"date": text(["2024/05/01"])}, train.timed.order, None, "g.csv", str)
    with pytest.raises(DataError, match="day may come first or second"):
        in_order(new, ("date",), None, "g.csv", str)


def test_a_missing_time_is_said_with_its_row():
    columns = {"time": np.r_[np.arange(23.0), np.nan], "x": X}
    with pytest.raises(DataError, match="a time in every row of 'time', got none in row 23"):
        table_of(columns, IN_TIME, "f.csv")


def test_a_single_column_is_what_is_to_be_learnt():
    assert table_of({"y": np.arange(24.0)}, IN_TIME, "f.csv").columns == ("y",)


@pytest.mark.parametrize("name", dates.FORMATS)
def test_dates_are_read_as_they_are_written(name):
    cells = {
        "year-month": ("2024-05", "2024-11"),
        "year-quarter": ("2024Q2", "2024-Q4"),
        "month year": ("May 2024", "Nov 2024"),
        "year-month-day": ("2024-05-31", "2024-05-31T12:30:00"),
        "year/month/day": ("2024/05/31", "2024/5/31 12:30"),
        "day.month.year": ("31.05.2024", "31.5.2024 12:30"),
        "day/month/year": ("31/05/2024", "31/05/2024 12:30"),
        "month/day/year": ("05/31/2024", "5/31/2024 12:30"),
        "day month year": ("31 May 2024", "31-May-2024 12:30"),
        "month day, year": ("May 31, 2024", "May 31, 2024 12:30"),
        "month": ("May", "November"),
        "hour:minute": ("00:00", "12:30"),
    }[name]
    first, second = dates.read_dates(cells, name)
    assert second - first == (6 if name in (*dates.IN_MONTHS, "month") else 45000)
    assert name in dates.formats_of(cells)
    if name not in (*dates.IN_MONTHS, "month", "hour:minute"):
        day = np.datetime64("2024-05-31").astype("datetime64[s]").astype(int)
        assert first == day
        assert dates.written(first, name) == "2024-05-31"


def test_a_year_that_training_has_once_stays_in_the_order():
    """A later table over New Year has December before January."""
    months = np.arange(1.0, 13.0)
    table = {"year": np.full(12, 2023.0), "month": months, "x": months}
    timed = find_order(table, None, (), None, "a table", str, Notes()).timed
    assert timed.order.columns == ("year", "month")
    later = {"year": np.repeat([2023.0, 2024.0], 6), "month": np.r_[7.0:13.0, 1.0:7.0], "x": months}
    assert in_order(later, timed.order, None, "a table", str, None).rank.tolist() == list(range(12))


def test_dates_with_a_type_are_read_where_training_had_text():
    text = np.array([f"{day}/01/2024" for day in range(13, 31)], object)
    timed = find_order({"date": text, "x": np.arange(18.0)}, None, (), None, "a table", str, Notes()).timed
    typed = np.array([f"2024-01-{day}" for day in range(30, 12, -1)], object)
    assert in_order({"date": typed}, timed.order, None, "a table", str, None).rank.tolist() == list(range(17, -1, -1))
