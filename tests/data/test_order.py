"""The order of rows in time: which columns are taken for times, and how rows stand by them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.naming import check_names, naming
from vijax.data.reading.checks import DataError, Notes
from vijax.data.tables import dates
from vijax.data.tables.columns import FileColumns
from vijax.data.tables.order import find_order, order_rows
from vijax.data.tables.rows_in_time import Order
from vijax.data.tables.table import Choice, make_table, split_table
from vijax.data.tables.time_steps import say_order

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
    "year and month": {
        "year": np.repeat([2010.0, 2011.0], 12),
        "month": np.tile(np.arange(1.0, 13.0), 2),
    },
    "year and name of month": {
        "year": np.repeat([2010.0, 2011.0], 12),
        "month": text([m[:3] for m in dates.MONTHS] * 2),
    },
    "day and time of day": {
        "day": np.repeat([3.0, 4.0], 12),
        "time": np.r_[12:24, 0:12].astype(float),
    },
    "date and hour": {
        "date": text(["2024-05-31"] * 12 + ["2024-06-01"] * 12),
        "hour": np.tile(np.arange(12.0), 2),
    },
    "a serial number": {"nr": np.arange(1.0, 25.0)},
    "even steps without a name": {"s": 0.5 * np.arange(24.0)},
}


@pytest.mark.parametrize("name", CLOCKS)
def test_times_are_found_and_not_modelled(name):
    table = make_table({**CLOCKS[name], "x": X}, IN_TIME, "f.csv")
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
    table = make_table(columns, IN_TIME, "f.csv", notes)
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
    table = make_table({name: MEASURED[name], "x": X}, IN_TIME, "f.csv")
    assert table.columns == (name, "x")
    assert table.timed is None


def test_groups_are_ordered_each_by_itself_and_split_with_their_times():
    animal = text(np.repeat(["a", "b", "c"], 8))
    time = np.tile(np.arange(8.0), 3)
    places = RNG.permutation(24)
    columns = {"animal": animal[places], "time": time[places], "x": X[places]}
    table = make_table(columns, Choice(group="animal", in_time=True), "f.csv")
    found = {
        name: part[:, 0] for name, part in zip(table.group_names, table.sequences(), strict=True)
    }
    for i, name in enumerate("abc"):
        np.testing.assert_array_equal(found[name], X[8 * i : 8 * i + 8])
    for part in split_table(table, 0.34, 0, "groups"):
        assert all(
            np.array_equal(one[:, 0], found[name])
            for name, one in zip(part.group_names, part.sequences(), strict=False)
        )


def test_a_time_that_is_named_is_modelled_and_orders_rows():
    columns = {"time": np.arange(24.0)[::-1], "x": X}
    table = make_table(columns, Choice(columns=("time", "x"), in_time=True), "f.csv")
    np.testing.assert_array_equal(table.sequences()[0][:, 0], np.arange(24.0))
    table = make_table(columns, Choice(in_time=True, order=()), "f.csv")
    assert table.columns == ("time", "x")
    assert table.timed is None


def test_times_that_rows_of_a_group_share_are_refused_with_remedies_that_work():
    columns = {
        "animal": text(np.repeat(["a", "b"], 12)),
        "time": np.tile(np.arange(12.0), 2),
        "x": X,
    }
    with pytest.raises(DataError) as error:
        make_table(columns, IN_TIME, "f.csv")
    message = str(error.value)
    check_names(message, "'time'", "0")
    check_names(message, "--set", "data.group", "data.order", "'data.columns=[\"x\"]'")
    assert len(make_table(columns, Choice(group="animal", in_time=True), "f.csv").sequences()) == 2
    assert make_table(columns, Choice(columns=("x",), in_time=True, order=()), "f.csv").columns == (
        "x",
    )


def test_rows_of_one_day_stay_in_the_order_of_the_file():
    days = text(f"2024-05-{i // 3 + 1:02d}" for i in range(24))
    table = make_table({"date": days, "x": X}, IN_TIME, "f.csv")
    np.testing.assert_array_equal(table.sequences()[0][:, 0], X)
    assert any("16 rows share 'date' with the row before them" in note for note in table.notes)


def test_two_orders_that_disagree_are_refused():
    day, time = np.repeat([3.0, 4.0], 12), np.r_[12:24, 0:12].astype(float)
    places = RNG.permutation(24)
    columns = {"day": day[places], "time": time[places], "x": X[places]}
    with pytest.raises(DataError, match=naming("'time'", "'day'")):
        make_table(columns, IN_TIME, "f.csv")
    table = make_table(columns, Choice(in_time=True, order=("day", "time")), "f.csv")
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
    say_order(
        find_order({"time": time, "x": X}, None, (), None, "f.csv", str, notes), None, ("x",), notes
    )
    unequal = [note for note in notes.texts() if "unequal" in note]
    assert len(unequal) == bool(said)
    assert all(said in note for note in unequal)


def test_new_rows_are_read_by_the_format_of_the_training_rows():
    """13/05 says that days come first; of 01/02 alone nobody could tell."""
    train = make_table(
        {"date": text(["12/05/2024", "13/05/2024", "14/05/2024"]), "x": X[:3]}, IN_TIME, "f.csv"
    )
    assert train.timed.order == Order(("date",), ("day/month/year",))
    new = {"date": text(["01/02/2024", "02/01/2024"]), "x": X[:2]}
    table = make_table(new, IN_TIME._replace(columns=("x",), order=train.timed.order), "g.csv")
    np.testing.assert_array_equal(table.sequences()[0][:, 0], X[:2][::-1])
    with pytest.raises(
        DataError, match="a date in every row, written as day/month/year, got '2024/05/01'"
    ):
        order_rows({"date": text(["2024/05/01"])}, train.timed.order, None, "g.csv", str)
    with pytest.raises(DataError, match="day may come first or second"):
        order_rows(new, ("date",), None, "g.csv", str)


def test_a_missing_time_is_said_with_its_row():
    columns = {"time": np.r_[np.arange(23.0), np.nan], "x": X}
    with pytest.raises(DataError, match=naming("'time'", "row 23", "data.missing=drop")):
        make_table(columns, IN_TIME, "f.csv")


def test_a_single_column_is_what_is_to_be_learnt():
    assert make_table({"y": np.arange(24.0)}, IN_TIME, "f.csv").columns == ("y",)


@pytest.mark.parametrize("name", dates.FORMATS)
def test_dates_are_read_as_they_are_written(name):
    cells = {
        "year-month": ("2024-05", "2024-11"),
        "year-quarter": ("2024Q2", "2024-Q4"),
        "month year": ("May 2024", "Nov 2024"),
        "month/year": ("05/2024", "11/2024"),
        "quarter year": ("Q2 2024", "Q4/2024"),
        "year-month-day with a zone": ("2024-05-31T02:00:00+02:00", "2024-05-31 12:30:00Z"),
        "year年month月day日": ("2024年5月31日", "2024年05月31日 12:30"),
        "day/month/yy": ("31/5/24", "31/05/24 12:30 PM"),
        "month/day/yy": ("5/31/24", "5/31/24, 12:30:00 p.m."),
        "month day time year": ("Fri May 31 00:00:00 2024", "May 31 12:30:00 2024"),
        "year-month-day": ("2024-05-31", "2024-05-31T12:30:00"),
        "year/month/day": ("2024/05/31", "2024/5/31 12:30"),
        "day.month.year": ("31.05.24", "31.5.2024 12:30"),
        "day/month/year": ("31/05/2024", "31/05/2024 12:30"),
        "month/day/year": ("05/31/2024 12:00 AM", "5/31/2024 12:30 PM"),
        "day month year": ("Fri, 31 May 2024", "31-May-24 12:30"),
        "month day, year": ("May 31, 2024", "May 31, 2024 12:30"),
        "month": ("May", "November"),
        "hour:minute": ("12:00 AM", "12:30"),
        "yearmonthday": ("20240531", "20240601"),
    }[name]
    first, second = dates.read_dates(cells, name)
    apart = (
        6 if name in (*dates.IN_MONTHS, "month") else dates.DAY if name == "yearmonthday" else 45000
    )
    assert second - first == apart
    assert name == "yearmonthday" or name in dates.fitting_formats(cells)
    if name not in (*dates.IN_MONTHS, "month", "hour:minute"):
        day = np.datetime64("2024-05-31").astype("datetime64[s]").astype(int)
        assert first == day
        assert dates.format_date(first, name).removesuffix(" 00:00:00+00:00") == "2024-05-31"


def test_a_year_that_training_has_once_stays_in_the_order():
    """A later table over New Year has December before January."""
    months = np.arange(1.0, 13.0)
    table = {"year": np.full(12, 2023.0), "month": months, "x": months}
    timed = find_order(table, None, (), None, "a table", str, Notes()).timed
    assert timed.order.columns == ("year", "month")
    later = {"year": np.repeat([2023.0, 2024.0], 6), "month": np.r_[7.0:13.0, 1.0:7.0], "x": months}
    assert order_rows(later, timed.order, None, "a table", str, None).rank.tolist() == list(
        range(12)
    )


def test_dates_with_a_type_are_read_where_training_had_text():
    text = np.array([f"{day}/01/2024" for day in range(13, 31)], object)
    timed = find_order(
        {"date": text, "x": np.arange(18.0)}, None, (), None, "a table", str, Notes()
    ).timed
    typed = np.array([f"2024-01-{day}" for day in range(30, 12, -1)], object)
    assert order_rows(
        {"date": typed}, timed.order, None, "a table", str, None
    ).rank.tolist() == list(range(17, -1, -1))


# --- times that cannot be read --------------------------------------------------------------------
ISO = months(24)
UNREADABLE = {
    "a cell that is no date": ("date", [*ISO[:5], "unknown", *ISO[6:]], "'unknown' in row 5"),
    "a day that there is not": (
        "date",
        [*ISO[:5], "2023-02-30", *ISO[6:]],
        "'2023-02-30' in row 5",
    ),
    "two formats": (
        "when",
        [*ISO[:20], *[f"{i}.05.2024" for i in range(1, 5)]],
        "'1.05.2024' in row 20",
    ),
    "numbered names": ("time", [f"t{i}" for i in range(24)], "'t0' in row 0"),
    "a month and a year or a day": (
        "date",
        [f"Jan-{i:02d}" for i in range(1, 25)],
        "'Jan-01' in row 0",
    ),
    "nanoseconds": (
        "timestamp",
        [f"2024-01-01 00:00:00.{i:09d}" for i in range(24)],
        "00.000000001' in row 1",
    ),
    "a zone at some": (
        "date",
        [*ISO[:23], "2024-05-31T00:00:00Z"],
        "'2024-05-31T00:00:00Z' in row 23",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_rows_do_not_stay_as_they_lie_where_a_time_cannot_be_read(name):
    column, cells, got = UNREADABLE[name]
    with pytest.raises(
        DataError, match=f"times of one format in column '{column}', got .*{got}"
    ) as error:
        make_table({column: text(cells), "x": X}, IN_TIME, "f.csv")
    assert "--set data.order=none 'data.columns=[\"x\"]'" in str(error.value)
    as_they_lie = make_table(
        {column: text(cells), "x": X}, Choice(columns=("x",), in_time=True, order=()), "f.csv"
    )
    np.testing.assert_array_equal(as_they_lie.x[:, 0], X)


def test_a_column_of_times_that_is_not_read_is_told_where_another_orders_the_rows():
    table = make_table(
        {"date": text([*ISO[:23], "?!"]), "step": np.arange(24.0)[::-1], "x": X}, IN_TIME, "f.csv"
    )
    assert table.timed.order.columns == ("step",)
    check_names(" ".join(table.notes), "'date'", "'?!'", "23")


def test_words_in_a_column_of_times_are_told_and_no_error():
    table = make_table({"time": text(["early", "late"] * 12), "x": X}, IN_TIME, "f.csv")
    check_names(" ".join(table.notes), "'time'", "'early'", "0")


def test_years_of_two_digits_are_told_and_versions_are_no_dates():
    cells = text(f"{i + 1:02d}.12.23" for i in range(24))
    table = make_table({"Datum": cells[::-1], "x": X}, IN_TIME, "f.csv")
    np.testing.assert_array_equal(table.sequences()[0][:, 0], X[::-1])
    check_names(table.notes, "'Datum'", "1969", "2068", "'24.12.23'")
    assert make_table({"section": cells[::-1], "x": X}, IN_TIME, "f.csv").timed is None


def test_numbers_that_are_dates_go_by_days():
    days = [f"202401{day}" for day in range(20, 32)] + [f"202402{day:02d}" for day in range(1, 13)]
    table = make_table({"date": np.array(days, float)[::-1], "x": X}, IN_TIME, "f.csv")
    assert table.timed.order.formats == ("yearmonthday",)
    assert not any("unequal" in note for note in table.notes)
    later = order_rows({"date": text(days)}, table.timed.order, None, "f.csv", str)
    assert later.rank.tolist() == list(range(24))


def test_whole_numbers_beyond_floats_order_rows():
    stamps = 1_701_734_400_000_000_000 + np.arange(24)
    table = make_table({"time": stamps[::-1], "x": X}, IN_TIME, "f.csv")
    np.testing.assert_array_equal(table.sequences()[0][:, 0], X[::-1])
    assert table.timed.times.tolist() == stamps[::-1].tolist()


# --- midnight -------------------------------------------------------------------------------------
NIGHT = text(
    f"{(23 * 60 + 48 + i) // 60 % 24:02d}:{(23 * 60 + 48 + i) % 60:02d}" for i in range(24)
)


def test_times_of_the_day_go_on_over_midnight():
    groups = text(["a", "b"] * 12)
    for table in ({"time": NIGHT, "x": X}, {"time": np.repeat(NIGHT[::2], 2), "x": X, "g": groups}):
        timed = make_table(
            table, IN_TIME._replace(group="g" if "g" in table else None), "f.csv"
        ).timed
        assert np.all(np.diff(timed.rank) >= 0)
        again = order_rows(
            table, timed.order, None if "g" not in table else np.tile([0, 1], 12), "f.csv", str
        )
        assert again.rank.tolist() == timed.rank.tolist()


def test_a_night_in_another_order_is_refused():
    with pytest.raises(
        DataError,
        match=naming("'time'", "00", "23", "59"),
    ):
        make_table({"time": NIGHT[::-1], "x": X}, IN_TIME, "f.csv")


# --- rows without a group or a time ---------------------------------------------------------------
@pytest.mark.parametrize("order", [None, ("date",)])
def test_rows_without_a_group_or_a_time_are_left_out_where_that_is_asked(order):
    groups = text(["a"] * 12 + ["b"] * 12)
    groups[3] = ""
    cells = ISO.copy()
    cells[[7, 20]] = ""
    choice = Choice(group="g", in_time=True, missing=True, drop=True, order=order)
    table = make_table(FileColumns({"g": groups, "date": cells, "x": X}), choice, "f.csv")
    np.testing.assert_array_equal(table.x[:, 0], np.delete(X, [3, 7, 20]))
    assert table.num_dropped == 3
    check_names(table.notes, "1 rows", "'g'", "data.missing", "4")
    check_names(table.notes, "2 rows", "'date'", "data.missing", "8")
