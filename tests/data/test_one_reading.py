"""The same table in every format: the same columns, names and numbers."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.data import spreadsheets
from tests.naming import check_names, naming
from vijax.data.reading import files
from vijax.data.reading.checks import DataError, Notes
from vijax.data.tables.formats import Dialect, with_points
from vijax.data.tables.table import Choice
from vijax.data.tables.table_files import read_columns, read_table


def parquet(path: Path, columns: dict) -> Path:
    arrow, writer = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    writer.write_table(arrow.table(columns), path)
    return path


def csv(path: Path, columns: dict) -> Path:
    rows = zip(*columns.values(), strict=True)
    cell = lambda value: "" if value is None else str(value)
    path.write_text("\n".join(",".join(map(cell, row)) for row in [tuple(columns), *rows]) + "\n")
    return path


def xlsx(path: Path, columns: dict) -> Path:
    pytest.importorskip("python_calamine")
    letters = dict(zip("ABC", columns, strict=False))
    cells = {f"{letter}1": name for letter, name in letters.items()}
    for row in range(len(next(iter(columns.values())))):
        cells |= {f"{letter}{row + 2}": columns[name][row] for letter, name in letters.items()}
    spreadsheets.xlsx(path, cells)
    return path


WRITERS = {"csv": csv, "parquet": parquet, "xlsx": xlsx}


@pytest.mark.parametrize("ending", WRITERS)
def test_blanks_around_names_and_cells_are_left_out_in_every_format(ending, tmp_path):
    written = WRITERS[ending](
        tmp_path / f"a.{ending}", {" g ": [" b", "b", "c "], "x": [1.0, 2.5, 3.0]}
    )
    notes = Notes()
    columns = read_columns(str(written), exact=["g"], notes=notes)
    assert columns["g"].tolist() == ["b", "b", "c"]
    if ending != "xlsx":  # an .xlsx keeps the blanks of a cell only where it says so
        assert notes.texts() == (
            "Blanks around cells are left out: ' b' and 'b' are one in the column 'g'.",
        )
    table = read_table(str(written), Choice(group="g"))
    assert table.group_names == ("b", "c")


def test_names_that_differ_by_blanks_are_refused_in_parquet_too(tmp_path):
    with pytest.raises(
        DataError, match="columns of distinct names, got 'a' more than once, without the blanks"
    ):
        read_columns(str(parquet(tmp_path / "a.parquet", {"a": [1.0], " a": [2.0]})))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_true_and_false_are_numbers_in_every_format(ending, tmp_path):
    written = WRITERS[ending](
        tmp_path / f"a.{ending}", {"b": [True, None, False], "x": [1.0, 2.0, 3.0]}
    )
    columns = read_columns(str(written))
    np.testing.assert_array_equal(columns["b"], [1.0, np.nan, 0.0])
    assert columns.cells["b"].tolist() == [
        True,
        None,
        False,
    ]  # for formulas, whose law follows the response
    assert read_columns(str(written), exact=["b"])["b"].tolist() == ["True", "", "False"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_whole_numbers_beyond_floats_stay_apart_or_are_told(ending, tmp_path):
    large = [2**53 + 1, 2**53 + 2]
    notes = Notes()
    assert (
        read_columns(str(WRITERS[ending](tmp_path / f"a.{ending}", {"t": large})))["t"].tolist()
        == large
    )
    lacking = WRITERS[ending](tmp_path / f"b.{ending}", {"t": [*large, None], "x": [1, 2, 3]})
    read_columns(str(lacking), notes=notes)
    check_names(notes.texts()[0], "'t'", "9007199254740993", "9007199254740992")


# --- points and commas ----------------------------------------------------------------------------
def test_points_between_thousands_and_before_decimals_do_not_mix():
    with pytest.raises(DataError, match=naming("'1.125'", "'2.5'")):
        with_points(["1.125", "2.5"], ",", "a.csv")
    assert with_points(["0.125", "2.5"], ",", "a.csv")[0] == ["0.125", "2.5"]


def test_points_that_may_divide_thousands_are_told(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x;y\n1.125;2\n3.125;4\n")
    notes = Notes()
    assert read_columns(str(path), notes=notes)["x"].tolist() == [1.125, 3.125]
    check_names(notes.texts()[-1], "'x'", "'1.125'")
    notes = Notes()
    columns = read_columns(str(path), dialect=Dialect(decimal_before=","), notes=notes)
    assert columns["x"].tolist() == [1125.0, 3125.0]
    check_names(notes.texts()[-1], "'1.125'", "1125")


# --- folders --------------------------------------------------------------------------------------
def test_tables_of_other_formats_beside_parquet_files_are_refused(tmp_path):
    parquet(tmp_path / "a.parquet", {"x": [1.0]})
    (tmp_path / "README.md").write_text("what this is")
    assert read_columns(str(tmp_path))["x"].tolist() == [1.0]
    csv(tmp_path / "b.csv", {"x": [2.0]})
    with pytest.raises(DataError, match=naming("Parquet", "'b.csv'", "'a.parquet'")):
        read_columns(str(tmp_path))
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(DataError, match=r"got 'b.csv'. To mend it: name one of them"):
        read_columns(str(tmp_path))


def test_true_and_false_in_one_file_are_one_and_zero_beside_numbers_in_another(tmp_path):
    parquet(tmp_path / "a.parquet", {"b": [True, False]})
    parquet(tmp_path / "b.parquet", {"b": [None, None]})
    assert read_columns(str(tmp_path), exact=["b"])["b"].tolist() == ["True", "False", "", ""]
    parquet(tmp_path / "c.parquet", {"b": [1, 3]})
    notes = Notes()
    assert read_columns(str(tmp_path), exact=["b"], notes=notes)["b"].tolist() == [
        "1",
        "0",
        "",
        "",
        "1",
        "3",
    ]
    assert notes.texts() == (
        "True and False in 'b' are 1 and 0, for other files have numbers there.",
    )
    np.testing.assert_array_equal(read_columns(str(tmp_path))["b"], [1, 0, np.nan, np.nan, 1, 3])


def test_columns_without_any_value_are_left_out_and_told(tmp_path):
    table = read_table(str(csv(tmp_path / "a.csv", {"x": [1.0, 2.0], "empty": [None, None]})))
    assert table.columns == ("x",)
    assert "Columns without any value are left out: 'empty'." in table.notes


def test_a_small_gzipped_bomb_is_refused_before_any_line_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LEAST_BOMB", 1 << 20)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"x,y\n" + b"1,2\n" * (1 << 20)))
    monkeypatch.setattr(files, "_UnpackedFile", lambda path: pytest.fail("lines are read"))
    with pytest.raises(
        DataError, match="a gzipped file that unpacks to 200 times its size at most"
    ):
        read_columns(str(path))
