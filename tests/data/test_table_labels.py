"""Names of groups and classes are read by what was decided on the training rows."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pytest

from tests.naming import naming
from vijax.data.reading.checks import DataError
from vijax.data.schema.in_memory import memory_columns
from vijax.data.schema.labels import to_labels
from vijax.data.tables.table import Choice, make_table
from vijax.data.tables.table_files import read_table

EXACT = ["007", "7", "1e3", "1000", "12345678901234567", "12345678901234568"]


def test_names_of_groups_stay_apart(tmp_path):
    path = tmp_path / "g.csv"
    path.write_text("g,x\n" + "".join(f"{name},1\n" for name in EXACT))
    assert read_table(str(path), Choice(group="g")).group_names == tuple(EXACT)
    found = memory_columns({"g": EXACT, "x": np.ones(6)}, exact=["g"])
    assert make_table(found, Choice(group="g"), "a table").group_names == tuple(EXACT)


ONE = [
    1,
    1.0,
    np.int8(1),
    np.uint64(1),
    np.float32(1),
    decimal.Decimal("1"),
    "1",
    "1.0",
    np.str_("1"),
]


@pytest.mark.parametrize("value", ONE, ids=lambda value: f"{type(value).__name__} {value}")
def test_equal_numbers_name_one_level(value):
    """Training rows have 1.0, 2.5 and 3.0; a row alone is not named otherwise."""
    labels = to_labels(np.array([1.0, 2.5, 3.0]))
    assert (labels.names, labels.kind) == (("1", "2.5", "3"), "number")
    found = memory_columns({"g": [value], "x": [0.0]}, exact=["g"])
    assert make_table(found, Choice(group="g", group_kind=labels.kind), "a table").group_names == (
        "1",
    )


@pytest.mark.parametrize("unit", ["D", "s", "ms", "us", "ns"])
def test_a_day_has_one_name_at_any_resolution(unit):
    day = np.array(["2024-05-31"], f"datetime64[{unit}]")
    found = memory_columns(
        {"g": day, "h": [datetime.date(2024, 5, 31)], "i": [datetime.datetime(2024, 5, 31)]}
    )
    assert [values[0] for values in found.values()] == ["2024-05-31"] * 3


def test_missing_values_of_libraries_are_missing():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"n": pandas.array([1, None], "Int64"), "t": pandas.array(["a", None], "string")}
    )
    found = memory_columns(frame)
    assert np.isnan(found["n"][1])
    assert found["t"].tolist() == ["a", ""]
    found = memory_columns(frame[["n"]].to_numpy(), ["n"])
    assert np.isnan(found["n"][1])


def test_classes_are_those_of_training(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("x,c\n1,01\n2,1\n")
    choice = Choice(columns=("x",), target="c", kind="binary")
    assert read_table(str(path), choice).classes == ("01", "1")
    path.write_text("x,c\n1,0.0\n2,1.0\n3,1.0\n")
    known = choice._replace(classes=("0", "1"))  # training had 0 and 1
    assert read_table(str(path), known).y.tolist() == [-1.0, 1.0, 1.0]
    path.write_text("x,c\n1,2\n")
    with pytest.raises(DataError, match=naming("'0'", "'1'", "'2'")):
        read_table(str(path), known)


def test_columns_that_are_carried_through_are_not_retyped():
    found = memory_columns({"id": ["007", "12"], "x": ["1", "2"]}, exact=["id"])
    assert found["id"].tolist() == ["007", "12"]
    assert found["x"].tolist() == [1.0, 2.0]


def test_classes_that_are_true_and_false_have_one_name_in_files_and_in_memory(tmp_path):
    pandas, _ = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"x": [1.0, 2.0, 3.0], "c": [True, False, True]})
    frame.to_parquet(path := str(tmp_path / "b.parquet"))
    choice = Choice(columns=("x",), target="c", kind="binary")
    table = read_table(path, choice)
    assert table.y.tolist() == [1.0, -1.0, 1.0]
    for later in (memory_columns(frame), memory_columns({"x": [1, 2, 3], "c": [1, 0, 1]})):
        again = make_table(later, choice._replace(classes=table.classes), "a table")
        assert again.y.tolist() == [1.0, -1.0, 1.0]


def test_blanks_that_make_two_texts_one_are_said(tmp_path):
    (path := tmp_path / "b.csv").write_text("g,x\nb,1\n b,2\nc ,3\n")
    assert read_table(str(path), Choice(group="g")).notes == (
        "Blanks around cells are left out: ' b' and 'b' are one in the column 'g'.",
    )


IN_MEMORY = {
    "masked": (np.ma.array([1, 999, 3], mask=[0, 1, 0]), [1.0, np.nan, 3.0]),
    "decimal": ([decimal.Decimal("1.5"), None, decimal.Decimal("1e2")], [1.5, np.nan, 100.0]),
    "truths with a gap": ([True, None, False], [1.0, np.nan, 0.0]),
    "float16": (np.array([0.5, np.nan, 3], np.float16), [0.5, np.nan, 3.0]),
    "text of numbers": (["1.5", "", "100"], [1.5, np.nan, 100.0]),
}


@pytest.mark.parametrize("name", IN_MEMORY)
def test_numbers_in_memory_are_those_that_formulas_read(name):
    """One reader: a masked 999 is missing, for tables as for formulas."""
    values, expected = IN_MEMORY[name]
    np.testing.assert_array_equal(memory_columns({"x": values})["x"], expected)


def test_two_columns_of_one_name_in_memory_are_refused():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1.0, 2.0, 3.0]], columns=["x", "y", "x"])
    arrow = pytest.importorskip("pyarrow")
    twice = arrow.table([arrow.array([1.0])] * 2, ["x", "x"])
    for table in (frame, twice, [{1: 2.0, "1": 3.0}], {1: [2.0], "1": [3.0]}):
        with pytest.raises(DataError, match=naming("data:", "several")):
            memory_columns(table)


def test_a_cell_with_several_values_is_named():
    with pytest.raises(DataError, match=naming("1", "0", "'x'")):
        memory_columns({"x": [1, [2, 3]]})
