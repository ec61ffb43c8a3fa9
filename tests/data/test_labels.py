"""Levels: exact text, one level for all equals, nothing decided by rows that come later."""

import datetime
import decimal
import fractions
import re

import numpy as np
import pytest

from tests.naming import naming
from vijax.data.schema.labels import Levels, sort_names, to_labels
from vijax.data.schema.schema import ColumnSchema, Schema
from vijax.data.schema.typed_columns import typed_table
from vijax.models.formulas import formula

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")
TEN = pandas.Timestamp("2020-01-01 10:00")


def codes(training, later):
    return to_labels(training).levels().find_codes(to_labels(later)).tolist()


@pytest.mark.parametrize(
    ("training", "later", "expected"),
    [
        (np.array([1.0, 2.0, 2.5, 3.0]), np.array([1.0, 2.5]), [0, 2]),
        (np.array([1.0, 2.0, 2.5, 3.0]), np.array([1.0]), [0]),
        (np.array([1.0, 2.0, 2.5, 3.0]), np.array([1, 2, 3], np.int8), [0, 1, 3]),
        (np.array([1.0, 2.0, 2.5, 3.0]), ["1", "2.50", "3.0", "03"], [0, 2, 3, -1]),
        (np.arange(4), np.array([1.0, 2.5]), [1, -1]),
        (np.arange(4), [1, 2.0, decimal.Decimal("3.0"), True], [1, 2, 3, 1]),
        (0.1 * np.arange(4), [0.3, np.float32(0.1)], [3, 1]),
        (np.array([0.1, 0.2], np.float32), [0.1, "0.2"], [0, 1]),
        (["007", "7", "1e3", "1000"], ["7", "007", "1000", "1e3", "07"], [1, 0, 2, 3, -1]),
        (["007", "1e3"], [7, 1000], [-1, -1]),
        (["1.0", "2.5"], [1, 2.5, 1.0], [0, 1, 0]),
        (["1", "1.0"], [1.0], [0]),  # the number's own name first
        (["01", "02", "A1"], ["01", "02"], [0, 1]),
        ([90071992547409931, 90071992547409932], ["90071992547409932", 90071992547409931], [1, 0]),
        ([2**70, 2**70 + 1], [2**70 + 1], [1]),
        ([True, False], ["True", "false", 1, 0.0], [1, 0, 1, 0]),
        (["caf\u00e9"], ["cafe\u0301"], [0]),
        (np.array(["2024-05-01", "2024-05-02"], "datetime64[us]"), np.array(["2024-05-02"], "datetime64[s]"), [1]),
        (np.array(["2024-05-01"], "datetime64[ns]"), [datetime.date(2024, 5, 1), "2024-05-01"], [0, 0]),
        (np.array(["2024-05-01T12:30"], "datetime64[m]"), [pandas.Timestamp("2024-05-01 12:30")], [0]),
        (np.array(["2024-05-01T12:30"], "datetime64[m]"), ["2024-05-01 12:30", "2024-05-01"], [0, -1]),
        (["a", None, "b"], ["b", None, np.nan], [1, -1, -1]),
    ],
)  # fmt: skip
def test_a_level_is_known_by_every_name_of_its_equal(training, later, expected):
    assert codes(training, later) == expected
    # The same row alone, among others and in another order.
    for value, place in zip(later, expected, strict=True):
        assert (
            codes(training, [value, *list(later)[::-1]])[0] == codes(training, [value])[0] == place
        )


def test_levels_are_in_the_order_of_numbers_where_all_are_and_as_declared():
    assert to_labels(["10", "9", "1"]).levels().names == ("1", "9", "10")
    assert sort_names(["10", "9", "x"]) == ("10", "9", "x")
    column = typed_table(
        pandas.DataFrame({"c": pandas.Categorical(["lo", "hi"], ["lo", "mid", "hi"])})
    ).columns["c"]
    assert column.labels().levels().names == ("lo", "hi")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2], "number"),
        ([1, None], "number"),
        (np.array([1, 2], np.uint8), "number"),
        ([True, False], "truth"),
        (["a", "b"], "label"),
        (["1", "2"], "digits"),
        (["1", "2", "x"], "mixed"),
        ([1, 2, "x"], "mixed"),
        (["x", "y", "2"], "label"),
        ([None, None], "empty"),
        (["2024-05-01", "2024-05-02"], "time"),
        (np.array([1, 2], "datetime64[D]"), "time"),
        (pandas.Categorical(["1", "2"]), "label"),
        (pandas.array([1, None], "Int64"), "number"),
        (pandas.array([True, None], "boolean"), "truth"),
        (np.array(["a"], "S1"), "label"),
    ],
)
def test_a_column_says_what_it_is_by_all_its_cells(values, kind):
    assert typed_table({"c": values}).columns["c"].kind == kind


def test_what_a_column_is_stays_so_in_some_of_its_rows():
    column = typed_table({"c": ["x", "y", "z", "1"]}).rows(np.array([3])).columns["c"]
    assert column.kind == "label"
    assert column.labels().names == ("1",)


def test_columns_of_files_are_exact_where_they_name_levels(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,x,ok\n007,1.5,True\n7,NA,False\n1e3,2,true\n")
    table = typed_table(str(path), ("id",))
    assert table.columns["id"].labels().names == ("007", "7", "1e3")
    assert table.columns["x"].kind == "number"
    assert table.columns["x"].missing.tolist() == [False, True, False]
    assert table.columns["ok"].kind == "truth"
    assert table.columns["ok"].numbers().tolist() == [1.0, 0.0, 1.0]
    assert table.row_name(1) == "line 3"


def test_tables_are_refused_by_name():
    with pytest.raises(ValueError, match=r"columns by name .* or a path, got ndarray"):
        typed_table(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"columns of one length, got lengths \[1, 2\]"):
        typed_table({"a": [1], "b": [1, 2]})
    with pytest.raises(ValueError, match=naming("table:", "'a'", "(2, 2)")):
        typed_table({"a": np.ones((2, 2))})
    with pytest.raises(ValueError, match=naming("table:", "'a'", "complex128")):
        typed_table({"a": np.ones(2) * 1j})


def test_a_schema_is_written_and_read():
    levels = Levels(("a", "b"), "text")
    schema = Schema(
        (
            ColumnSchema("y", ("response",), "number"),
            ColumnSchema("g", ("group",), "label", levels),
        ),
        ("g",),
    )
    assert Schema.from_json(schema.to_json()) == schema
    assert schema["g"].levels == levels
    with pytest.raises(ValueError, match=naming("name:", "'y'", "'g'", "'h'")):
        schema["h"]


@pytest.mark.parametrize(
    ("training", "later", "expected"),
    [
        # Unequal numbers stay apart; what is nearly a level is that level, unless there are two.
        ([1700000000.123456, 1700000000.123457], [1700000000.123457, 1700000000.1234569], [1, 1]),
        ([1e15 + 0.125, 1e15 + 0.25], [1e15 + 0.25, 1e15 + 0.12], [1, 0]),
        ([0.3, 0.1 * 3], [0.3, 0.1 * 3], [0, 1]),
        (np.array([0.1, 0.2], np.float32).astype(float), [0.1, np.float32(0.2), "0.1"], [0, 1, 0]),
        ([2**53 + 1, 2**53, 0.5], [2**53 + 1, 2**53, 0.5], [2, 1, 0]),
        (["1.0", "1.00", "2"], [1, 2], [-1, 2]),
        (["1.1", "1.10"], ["1.1", "1.10"], [0, 1]),
        (["1.0", "2.0", "3.5"], [1.0, "x", 3.5], [0, -1, 2]),
        (["2020-01-01 10:00:00", "2020-01-02"], [TEN, datetime.date(2020, 1, 2)], [0, 1]),
        ([TEN.tz_localize("Europe/Berlin")], [pandas.Timestamp("2020-01-01 09:00", tz="UTC")], [0]),
        ([pandas.Timestamp("2020-01-01", tz="UTC")], [pandas.Timestamp("2020-01-01"), "2020-01-01"], [-1, -1]),
        (["TRUE", "FALSE"], [True, False], [1, 0]),
        ([b"\xff", b"\xfe"], [b"\xfe"], [0]),
        (np.array([1, 2], "timedelta64[s]"), np.array([2], "timedelta64[s]"), [1]),
        ([10**5000], ["1"], [-1]),
    ],
)  # fmt: skip
def test_no_two_levels_merge_and_no_level_is_lost(training, later, expected):
    levels = to_labels(training).levels()
    assert len(levels.names) == len({*training})
    assert codes(training, later) == expected


def test_words_for_missing_cells_are_no_numbers_in_memory_and_blanks_are_missing():
    for word in ("nan", "NA", "?", "-"):
        column = typed_table({"x": ["1", word]}).columns["x"]
        assert column.kind == "label"
        with pytest.raises(ValueError, match="in row"):
            column.numbers()
    for cells in ([1.0, ""], ["1", " "], ["1", None]):
        np.testing.assert_array_equal(typed_table({"x": cells}).columns["x"].numbers(), [1, np.nan])
    masked = typed_table({"x": np.ma.array([1.0, 2.0], mask=[0, 1])}).columns["x"]
    assert masked.missing.tolist() == [False, True]
    with pytest.raises(ValueError, match="in row 0"):
        typed_table({"x": np.array([1], "timedelta64[ns]")}).columns["x"].numbers()
    with pytest.raises(ValueError, match=naming("table:", "'x': '3'", "[...]")):
        typed_table({"x": 3})
    with pytest.raises(ValueError, match=naming("table:", "list in row 0", "'x'")):
        typed_table({"x": [[1], 2]})


def test_an_order_of_categories_is_kept_by_every_library(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(
        {"r": pandas.Categorical(["hi", "lo", "mid"], ["lo", "mid", "hi"], ordered=True)}
    )
    frame.to_parquet(path := str(tmp_path / "r.parquet"))
    for table in (frame, arrow.Table.from_pandas(frame), path):
        assert typed_table(table).columns["r"].labels().levels().names == ("lo", "mid", "hi")
    polars = pytest.importorskip("polars")
    column = polars.Series("r", ["hi", "lo", "mid"], dtype=polars.Enum(["lo", "mid", "hi"]))
    assert typed_table({"r": column}).columns["r"].labels().levels().names == ("lo", "mid", "hi")


DAYS = np.array([0, 7, 14])


@pytest.mark.parametrize(
    "values",
    [
        [datetime.timedelta(days=int(day)) for day in DAYS],
        DAYS.astype("m8[D]"),
        (24 * DAYS).astype("m8[h]"),
        (86_400_000 * DAYS).astype("m8[ms]"),
        ["0 days", "7 days", "14 days"],
    ],
)
def test_a_duration_has_one_name_in_every_unit(values):
    levels = to_labels(values).levels()
    assert levels.names == ("0 days", "7 days", "14 days")
    assert levels.find_codes(to_labels(DAYS.astype("m8[D]"))).tolist() == [0, 1, 2]


def test_durations_of_the_libraries_are_one():
    polars, arrow = map(pytest.importorskip, ("polars", "pyarrow"))
    seconds = np.array([0.0, 1.5, 86_400.0])
    own = pandas.to_timedelta(seconds, unit="s")
    columns = [own, polars.Series(own), arrow.array(own), seconds * np.timedelta64(10**9, "ns")]
    names = [typed_table({"g": column}).columns["g"].labels().levels().names for column in columns]
    assert set(names) == {("0 days", "0 days 00:00:01.5", "1 day")}


@pytest.mark.parametrize(
    ("later", "codes"),
    [
        ([True, False], [1, 0]),
        (np.array(["1970-01-01", "1970-01-02"], "M8[D]"), [-1, -1]),
        ([datetime.timedelta(days=1)], [-1]),
        ([fractions.Fraction(1), fractions.Fraction(1, 2)], [1, -1]),
    ],
)
def test_values_of_other_kinds_are_looked_up_among_numbers(later, codes):
    """True is 1; a date is no number. Both were an error without a name."""
    assert to_labels(np.array([0, 1, 2])).levels().find_codes(to_labels(later)).tolist() == codes


def test_of_two_near_levels_neither_is_meant():
    levels = to_labels([0.3, np.nextafter(0.3, 1)]).levels()
    beyond = np.nextafter(np.nextafter(0.3, 1), 1)
    assert levels.find_codes(to_labels([0.3, beyond])).tolist() == [0, -1]
    assert to_labels([0.3]).levels().find_codes(to_labels([np.nextafter(0.3, 1)])).tolist() == [0]


def test_whole_numbers_among_fractions_keep_all_digits():
    column = typed_table({"g": [2**53 + 1, 2**53, 0.5]}).columns["g"]
    assert column.labels().names == (str(2**53 + 1), str(2**53), "0.5")


def test_numbers_of_other_types_are_numbers():
    column = typed_table({"x": [fractions.Fraction(1, 4), fractions.Fraction(3)]}).columns["x"]
    assert column.kind == "number"
    assert column.numbers().tolist() == [0.25, 3.0]
    with pytest.raises(ValueError, match="in row 0"):
        typed_table({"x": [10**400, 1]}).columns["x"].numbers()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (
            {"x": np.array([(1.0,)], dtype=[("x", float)])},
            "real numbers, text, dates or categories, got 'x' of",
        ),
        ({"x": np.array([1j])}, "real numbers, text, dates or categories, got 'x' of complex128"),
    ],
)
def test_cells_that_are_no_labels_are_refused(table, said):
    with pytest.raises(ValueError, match=said):
        typed_table(table)


def test_lazy_tables_are_to_be_collected():
    polars = pytest.importorskip("polars")
    with pytest.raises(ValueError, match=naming("LazyFrame", "Pass", "table.collect()")):
        typed_table(polars.DataFrame({"x": [1]}).lazy())


@pytest.mark.parametrize("made", [dict, pandas.DataFrame, pyarrow.table])
def test_blanks_around_names_say_nothing_and_two_that_become_one_are_told(made, tmp_path):
    """In memory as in files."""
    cells = ["a", " b", "b", "c "]
    with pytest.warns(UserWarning, match=naming("' b'", "'b'")):
        labels = typed_table(made({"g": cells})).columns["g"].labels()
    assert labels.names == ("a", "b", "c")
    assert labels.codes.tolist() == [0, 1, 1, 2]
    assert labels.levels().find_codes(to_labels(["c", " a ", "d"])).tolist() == [2, 0, -1]
    pandas.DataFrame({"g": cells}).to_csv(tmp_path / "t.csv", index=False)
    assert typed_table(str(tmp_path / "t.csv")).columns["g"].labels().names == labels.names


def test_rows_with_blank_cells_are_left_out_as_the_error_says():
    table = pandas.DataFrame({"y": [0.0, 1.0, 2.0, 3.0], "g": ["a", " ", None, "b"]})
    with pytest.raises(ValueError, match=r"none of 'g' in rows 1, 2 \(2 such\)") as raised:
        formula.read("y ~ g", table)
    remedy = re.search(r"leave them out, as (.*) does, or fill them in", str(raised.value))[1]
    whole = eval(remedy, {"table": table, "float": float})
    assert formula.read("y ~ g", whole).rows.x.shape == (2, 2)
