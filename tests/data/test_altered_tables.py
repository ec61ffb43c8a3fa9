"""Tables that used to be altered without a word: cells no numbers, ids that merge, classes that are
missing."""

import decimal

import numpy as np
import pytest

from tests.naming import check_names, naming
from vijax.data import read
from vijax.data.reading.checks import DataError
from vijax.data.tables.table import Choice
from vijax.data.tables.table_files import read_table


def table(path, text, **choice):
    (path / "t.csv").write_text(text)
    return read_table(str(path / "t.csv"), Choice(**choice))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n2,1_000\n3,3\n", "column 'b': expected numbers, got '1_000' in line 3"),
        ('a,b\n1,2\n2,"1,234"\n3,3\n', "column 'b': expected numbers, got '1,234' in line 3"),
        ("a,b\n1,2\n2,0x10\n3,3\n", "got '0x10' in line 3"),
        (
            "5.1,3.5,1.4,setosa\n4.9,3,1.4,setosa\n",
            r"t\.csv:1: expected a header line of names, got numbers: '5.1'",
        ),
        ("7,9\n3,4\n", r"t\.csv:1: expected a header line of names, got numbers: '7', '9'"),
        ("a;b\n1\n", "one divided by semicolons"),
    ],
)
def test_what_would_be_lost_of_a_table_is_an_error(text, message, tmp_path):
    with pytest.raises(DataError, match=message):
        table(tmp_path, text)


def test_columns_left_out_are_noted(tmp_path):
    found = table(tmp_path, ',a,price,ticket,kind\n0,1,"$1,200",A7,x\n1,2,$7,12,y\n2,3,$8,B9,z\n')
    assert found.columns == ("a",)
    assert found.notes == (
        "A column without a name (column 1) is left out: give it one to have it read.",
        "The column 'price' is left out: '$1,200' in line 2 is not a number. Its cells look like "
        "numbers with signs: "
        "write 1200 for '$1,200' to have it read.",
        "The column 'ticket' is left out: 'A7' in line 2 is not a number, though 1 of its 3 cells "
        "are.",
        "The column 'kind' is left out: 'x' in line 2 is not a number.",
    )
    check_names(table(tmp_path, "0,1\n3,4\n").notes[0], "'0'", "'1'")
    assert table(tmp_path, "country,2019\nFrance,4\n").columns == ("2019",)


def test_a_column_that_numbers_the_rows_is_noted(tmp_path):
    """Not where it is all there is, as the years of a series may be."""
    said = (
        "The column 'id' numbers the rows: leave it out by data.columns, unless it says something."
    )
    assert table(tmp_path, "id,a\n7,1\n8,1\n9,3\n").notes == (said,)
    assert table(tmp_path, "id,a\n7,1\n9,2\n8,5\n").notes == ()
    assert table(tmp_path, "id,a\n7,1\n8,2\n9,3\n", target="a").notes == ()


def test_groups_are_told_apart_as_they_are_written(tmp_path):
    found = table(tmp_path, "g,a\n9007199254740993,1\n9007199254740992,2\n007,3\n7,4\n", group="g")
    assert found.group_names == ("9007199254740993", "9007199254740992", "007", "7")
    np.savez(tmp_path / "t.npz", g=np.array([2**53, 2**53 + 1]), a=np.ones(2))
    assert read_table(str(tmp_path / "t.npz"), Choice(group="g")).num_groups == 2
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        arrow.table({"g": [2**53, 2**53 + 1], "a": [1.0, 2.0]}), tmp_path / "t.parquet"
    )
    assert read_table(str(tmp_path / "t.parquet"), Choice(group="g")).group_names == (
        str(2**53),
        str(2**53 + 1),
    )
    with pytest.raises(
        DataError,
        match=naming("group 'g':", "3", "4"),
    ):
        table(tmp_path, "g,a\nx,1\n,2\nNaN,3\n", group="g")


@pytest.mark.parametrize("values", ["1,,1", "yes,,yes", "0,1,", "no,yes,NA"])
def test_a_missing_class_is_no_class(values, tmp_path):
    rows = "".join(f"{n},{value}\n" for n, value in enumerate(values.split(",")))
    with pytest.raises(
        DataError,
        match=naming("target 'y':", "a missing value"),
    ):
        table(tmp_path, "a,y\n" + rows, target="y", kind="binary")
    assert table(tmp_path, "a,y\n1,none\n2,some\n", target="y", kind="binary").classes == (
        "none",
        "some",
    )


def test_an_infinite_count_is_no_count(tmp_path):
    with pytest.raises(DataError, match=r"counts 0, 1, 2, \.\.\., got inf in line 3"):
        table(tmp_path, "a,y\n1,2\n2,inf\n", target="y", kind="count")


def test_numbers_kept_in_other_types_are_numbers(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "price": [decimal.Decimal("1.50"), None],
        "text": ["2", "3.5"],
        "flag": [True, False],
    }
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    found = read_table(
        str(tmp_path / "t.parquet"), Choice(columns=("price", "text", "flag"), missing=True)
    )
    np.testing.assert_array_equal(found.x, [[1.5, 2, 1], [np.nan, 3.5, 0]])
    np.save(tmp_path / "t.npy", np.array([["1", "2"], ["3", "4"]]))
    np.testing.assert_array_equal(read_table(str(tmp_path / "t.npy")).x, [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("save", "message"),
    [
        (
            lambda path: np.savez(path, x=np.zeros((2, 2)), x0=np.ones(2)),
            "distinct names, got 'x0' twice",
        ),
        (lambda path: np.savez(path, x=np.zeros(2, complex)), r"got 'x' of complex128"),
        (
            lambda path: np.savez(path, x=np.zeros(2, [("a", float)])),
            r"expected arrays of numbers or text",
        ),
        (lambda path: np.savez(path, x=np.array([{}], object)), "no pickles"),
    ],
)
def test_arrays_that_make_no_table(save, message, tmp_path):
    save(tmp_path / "t.npz")
    with pytest.raises(DataError, match=message):
        read_table(str(tmp_path / "t.npz"))


def test_a_file_of_one_array_is_known_by_what_it_holds(tmp_path):
    with (tmp_path / "t.npz").open("wb") as file:
        np.save(file, np.eye(2))
    assert read_table(str(tmp_path / "t.npz")).columns == ("x0", "x1")
    with pytest.raises(DataError, match=r"t\.npz: expected the arrays indptr"):
        read(tmp_path / "t.npz")
