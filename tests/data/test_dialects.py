"""Separators, decimal signs, byte order marks and spreadsheets: how a file is written is found,
told and overruled."""

import zipfile
from xml.sax.saxutils import escape

import numpy as np
import pytest

from tests.naming import naming
from vijax.data import TextSettings, read
from vijax.data.read import read_side_columns
from vijax.data.reading.checks import DataError, Notes
from vijax.data.tables.formats import Dialect, with_points
from vijax.data.tables.table import Choice
from vijax.data.tables.table_files import read_columns, read_table

ALL = TextSettings(min_df=1, max_df=1.0, stop_words=None)
GERMAN = "Länge;Breite;Art\n5,1;3,5;lang\n4,9;3;kurz, breit\n;1.234,5;lang\n"


def saved(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return str(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_semicolons_decimal_commas_and_marks_are_found_and_told(encoding, tmp_path):
    notes = Notes()
    found = read_columns(saved(tmp_path / "g.csv", GERMAN, encoding), notes=notes)
    np.testing.assert_array_equal(found["Länge"], [5.1, 4.9, np.nan])
    np.testing.assert_array_equal(found["Breite"], [3.5, 3, 1234.5])
    assert list(found["Art"]) == ["lang", "kurz, breit", "lang"]
    assert notes.texts() == (
        "The cells of g.csv are divided by semicolons. If not, set separator.",
        "In 'Länge', 'Breite' commas stand before decimals, as in '5,1', and points between "
        "thousands. If not, set "
        "decimal.",
    )
    assert read_table(str(tmp_path / "g.csv"), Choice(missing=True)).notes[:2] == notes.texts()


@pytest.mark.parametrize(
    ("name", "letter"), [("t.csv", "\t"), ("t.csv", "|"), ("t.tsv", ","), ("t.tsv", ";")]
)
def test_a_separator_that_is_not_that_of_the_ending_is_found(name, letter, tmp_path):
    text = "a,b,c\n1,2.5,plum\n3,4,pear\n".replace(",", letter)
    found = read_columns(saved(tmp_path / name, text))
    np.testing.assert_array_equal(found["b"], [2.5, 4])
    assert (
        read(tmp_path / name, column="c", text=ALL)
        .notes[0]
        .startswith(f"The cells of {name} are divided by ")
    )


def test_unicode_text_of_a_spreadsheet_is_a_table(tmp_path):
    """Which writes UTF-16 with tabs, and names it .txt."""
    found = read_columns(saved(tmp_path / "t.txt", "a\tb\n1\t2.5\n3\t4\n", "utf-16"))
    np.testing.assert_array_equal(found["b"], [2.5, 4])


def test_the_usual_separator_is_taken_without_a_word(tmp_path):
    notes = Notes()
    read_columns(saved(tmp_path / "t.csv", 'a,b\n1,"x; y"\n2,"z\nz"\n'), notes=notes)
    read_columns(saved(tmp_path / "t.tsv", "a\tb,c\n1\t2\n"), notes=notes)
    assert notes.texts() == ()


def test_two_separators_that_fit_are_told(tmp_path):
    path, notes = saved(tmp_path / "t.csv", "a;x,b\n1;5,2\n"), Notes()
    assert list(read_columns(path, notes=notes)) == ["a;x", "b"]
    assert notes.texts() == (
        "The cells of t.csv are divided by commas; semicolons would fit too. If not, set "
        "separator.",
    )
    found = read_columns(path, dialect=Dialect(separator=";"), notes=notes)
    np.testing.assert_array_equal(found["a"], [1])
    np.testing.assert_array_equal(found["x,b"], [5.2])


def test_settings_overrule_what_is_found(tmp_path):
    path = saved(tmp_path / "g.csv", GERMAN)
    assert list(read_columns(path, dialect=Dialect(decimal="."))["Länge"]) == ["5,1", "4,9", ""]
    quoted = saved(tmp_path / "q.csv", 'a,b\n"1,5",x\n"2.000,5",y\n')
    assert list(read_columns(quoted)["a"]) == ["1,5", "2.000,5"]
    np.testing.assert_array_equal(
        read_columns(quoted, dialect=Dialect(decimal=","))["a"], [1.5, 2000.5]
    )
    with pytest.raises(DataError, match=naming("separator:", "','", "';'", "'tab'", "'|'")):
        read_columns(path, dialect=Dialect(separator="#"))
    with pytest.raises(DataError, match="separator: expected one of"):
        read(path, separator="#")


def test_a_column_has_one_decimal_sign(tmp_path):
    path = saved(tmp_path / "t.csv", "a;b\n1,5;1.5\n2.5;2.5\n")
    found = read_columns(path)
    assert list(found["a"]) == ["1,5", "2.5"]
    np.testing.assert_array_equal(found["b"], [1.5, 2.5])
    with pytest.raises(DataError, match=naming("t.csv", "'a'", "'1,5'", "'2.5'")):
        read_columns(path, dialect=Dialect(decimal=","))
    assert with_points(["eins, zwei", "1,5", "drei"], None, "")[1] == ""  # mostly text


def test_names_of_groups_stay_as_they_are_written(tmp_path):
    path = saved(tmp_path / "t.csv", "g;a\n1,5;1\n1,5;2,5\n")
    assert read_table(path, Choice(group="g")).group_names == ("1,5",)


def test_a_first_row_of_decimal_commas_is_no_header(tmp_path):
    with pytest.raises(DataError, match=naming("t.csv", "'5.1'", "'3.5'")):
        read_columns(saved(tmp_path / "t.csv", "5,1;3,5\n4,9;3\n"))


def test_texts_between_semicolons(tmp_path):
    path = saved(tmp_path / "r.csv", 'id;text\n1;"gut, sehr; gut"\n2;schlecht, leider\n', "utf-16")
    corpus = read(path, text=ALL)
    assert corpus.vocabulary == ("gut", "leider", "schlecht", "sehr")
    assert read_side_columns(path, None) == {"id": ["1", "2"]}
    with pytest.raises(DataError, match="cells divided by commas, got one divided by semicolons"):
        read(path, separator=",")


# --- spreadsheets ---------------------------------------------------------------------------------
def sheet_of(rows):
    def cell(value):
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
        return "<c/>" if value is None else f"<c><v>{value}</v></c>"

    lines = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
    return f'<worksheet xmlns="{MAIN}"><sheetData>{lines}</sheetData></worksheet>'


MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
KINDS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


def book(path, sheets):
    """An .xlsx of sheets by name, as small as the format allows."""
    names = list(sheets)
    listed = "".join(
        f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>' for i, name in enumerate(names, 1)
    )
    links = "".join(
        f'<Relationship Id="r{i}" Type="{KINDS}/worksheet" Target="worksheets/s{i}.xml"/>'
        for i, _ in enumerate(names, 1)
    )
    top = f'<Relationship Id="r" Type="{KINDS}/officeDocument" Target="xl/workbook.xml"/>'
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("_rels/.rels", f'<Relationships xmlns="{PACKAGE}">{top}</Relationships>')
        file.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{MAIN}" xmlns:r="{KINDS}"><sheets>{listed}</sheets></workbook>',
        )
        file.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{PACKAGE}">{links}</Relationships>',
        )
        for i, name in enumerate(names, 1):
            file.writestr(f"xl/worksheets/s{i}.xml", sheet_of(sheets[name]))
    return str(path)


def test_a_spreadsheet_is_a_table_and_its_texts_are_documents(tmp_path):
    pytest.importorskip("python_calamine")
    rows = [
        [None, None, None],
        ["id", "text", "price"],
        [7, "apple & plum", 1.5],
        [8, "pear", None],
    ]
    path = book(tmp_path / "b.xlsx", {"one": rows, "two": [["a"], [1]]})
    notes = Notes()
    found = read_columns(path, notes=notes)
    np.testing.assert_array_equal(found["id"], [7, 8])
    np.testing.assert_array_equal(found["price"], [1.5, np.nan])
    assert list(found["text"]) == ["apple & plum", "pear"]
    assert notes.texts() == (
        "The sheet 'one' of b.xlsx is read, and not 'two': set sheet for another.",
    )
    np.testing.assert_array_equal(read_columns(path, dialect=Dialect(sheet="two"))["a"], [1])
    corpus = read(path, text=ALL)
    assert corpus.vocabulary == ("apple", "pear", "plum")
    assert read_side_columns(path, None)["id"] == [7, 8]
    assert list(read_columns(path, exact=("id",))["id"]) == ["7", "8"]


def test_what_is_wrong_with_a_spreadsheet_is_said(tmp_path):
    pytest.importorskip("python_calamine")
    path = book(
        tmp_path / "b.xlsx",
        {"one": [["a", "a"], [1, 2]], "two": [["a", "text"], [1, 2]], "three": []},
    )
    for sheet, message in {
        "four": "b.xlsx: expected a sheet 'four', got none.*known: 'one', 'two', 'three'",
        "one": "b.xlsx, row 1: expected a header line of distinct names, got 'a' more than once",
        "three": "b.xlsx, row 1: expected a header line of distinct names, got nothing",
    }.items():
        with pytest.raises(DataError, match=message):
            read_columns(path, dialect=Dialect(sheet=sheet))
    with pytest.raises(DataError, match=naming("b.xlsx", "'text'", "2.0")):
        read(path, sheet="two", text=ALL)
    with pytest.raises(DataError, match=naming("x.xlsx:", "CSV")):
        read_columns(saved(tmp_path / "x.xlsx", "no"))


def test_without_the_library_of_spreadsheets_the_command_that_installs_it_is_said(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    with pytest.raises(ImportError, match="pip install python-calamine"):
        read_columns(saved(tmp_path / "x.xlsx", "no"))
