"""Titles above a header, and numbers that stand for a missing value."""

import numpy as np
import pytest

from tests.data.spreadsheets import xlsx
from vijax.data.reading.checks import DataError, Notes
from vijax.data.reading.titles import count_title_rows
from vijax.data.tables.formats import Dialect
from vijax.data.tables.table_files import read_columns

BODY = "bill,mass,kind\n39.1,3750,a\n39.5,,b\n40.3,3250,a\n"


@pytest.mark.parametrize(
    "title",
    [
        "Penguins\n",
        "Penguins, 3 May\n\n",
        '"Penguins, all of them"\nby station\n\n',
        "Penguins,,\n",
    ],
)
def test_a_title_is_left_out_and_told(tmp_path, title):
    (tmp_path / "t.csv").write_text(title + BODY)
    notes = Notes()
    columns = read_columns(str(tmp_path / "t.csv"), notes=notes)
    assert list(columns) == ["bill", "mass", "kind"]
    np.testing.assert_array_equal(columns["mass"], [3750, np.nan, 3250])
    line = title.count("\n") + 1
    assert f"The header of t.csv is its line {line}." in notes.texts()[0]
    assert "Penguins" in notes.texts()[0]
    plain = tmp_path / "plain.csv"
    plain.write_text(BODY)
    others = read_columns(str(plain))
    assert all(
        np.array_equal(columns[name], others[name], equal_nan=name != "kind") for name in others
    )


def test_semicolons_below_a_title_with_commas(tmp_path):
    (tmp_path / "t.csv").write_text("Luft, Messung\n\nwind;temp\n7,4;67\n8,0;72\n12,6;74\n")
    columns = read_columns(str(tmp_path / "t.csv"))
    np.testing.assert_array_equal(columns["wind"], [7.4, 8.0, 12.6])


@pytest.mark.parametrize(
    "text",
    [
        "bill,mass\n39.1,3750\n39.5,3800\n",
        ",age\na,12\nb,13\nc,14\n",  # an index without a name
        ",age\na,NA\nb,13\nc,14\n",
        "name,town\nAnn,Rome\nBob,Oslo\n",
        "text\nsun and sea\nlaw and tax\n",
        "a,b\nx,y\n1,2\n3,4\n",
    ],
)
def test_a_table_without_a_title_stays_as_it_is(tmp_path, text):
    assert count_title_rows([line.split(",") for line in text.splitlines()]) == 0


def test_an_unquoted_text_is_no_table_below_a_title(tmp_path):
    (tmp_path / "t.csv").write_text("text\nWell, that was it\nGood\nNo, 2 of them, please\n")
    with pytest.raises(DataError, match="expected 1 cells, as in the header"):
        read_columns(str(tmp_path / "t.csv"))


def test_a_spreadsheet_with_a_title(tmp_path):
    pytest.importorskip("python_calamine")
    cells = {"A1": "Penguins, export of 3 May", "A3": "bill", "B3": "mass"}
    for row, (bill, mass) in enumerate([(39.1, 3750), (39.5, -999), (40.3, 3250)], start=4):
        cells |= {f"A{row}": bill, f"B{row}": mass}
    path = str(xlsx(tmp_path / "t.xlsx", cells))
    notes = Notes()
    columns = read_columns(path, notes=notes)
    np.testing.assert_array_equal(columns["bill"], [39.1, 39.5, 40.3])
    assert any("The header of t.xlsx is its line 3." in text for text in notes.texts())
    assert any("'mass' has -999 in 1 cell" in text for text in notes.texts())
    columns = read_columns(path, dialect=Dialect(missing_words=("-999",)))
    np.testing.assert_array_equal(columns["mass"], [3750, np.nan, 3250])


def test_a_code_is_told_and_can_be_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("wind,code\n7.4,1\n-999,2\n8.1,-999\n-999.0,4\n")
    notes = Notes()
    columns = read_columns(str(path), notes=notes)
    assert columns["wind"][1] == -999
    (wind, code) = (text for text in notes.texts() if "counts as a number" in text)
    assert wind.startswith("'wind' has -999 in 2 cells")
    assert code.startswith("'code' has -999 in 1 cell,")
    notes = Notes()
    columns = read_columns(str(path), dialect=Dialect(missing_words=("-999", "NA")), notes=notes)
    np.testing.assert_array_equal(columns["wind"], [7.4, np.nan, 8.1, np.nan])
    np.testing.assert_array_equal(columns["code"], [1, 2, np.nan, 4])
    assert "In 'wind' '-999' stands for a missing value (2 cells)." in notes.texts()
    assert not any("counts as a number" in text for text in notes.texts())
