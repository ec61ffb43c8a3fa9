"""Lines before the header: a declared separator, and comments, are neither data nor a header."""

import gzip

import numpy as np
import pytest

from tests.naming import naming
from vijax.data import DataError, TextSettings, read
from vijax.data.reading.checks import Notes
from vijax.data.tables.formats import Dialect
from vijax.data.tables.table_files import names_of_columns, read_columns


def saved(path, text, encoding="utf-8"):
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if path.name.endswith(".gz") else content)
    return str(path)


@pytest.mark.parametrize("first", ["sep=;", "SEP=;", '"sep=;"', "sep=;;;"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_declared_separator_divides_cells_and_is_no_row(first, encoding, end, tmp_path):
    lines = [first, "a;b", "1,5;x", "2;y", ""]
    notes = Notes()
    found = read_columns(saved(tmp_path / "t.csv", end.join(lines), encoding), notes=notes)
    np.testing.assert_array_equal(found["a"], [1.5, 2])
    assert found["b"].tolist() == ["x", "y"]
    assert [found.rows.name(row) for row in range(2)] == ["line 3", "line 4"]
    assert not any("divided by" in note for note in notes.texts())


@pytest.mark.parametrize(
    ("letter", "name"), [("\t", "t.csv"), ("|", "t.csv.gz"), (",", "t.tsv"), (";", "t.txt")]
)
def test_every_separator_may_be_declared(letter, name, tmp_path):
    path = saved(tmp_path / name, f"sep={letter}\na{letter}b\n1{letter}2\n")
    assert list(read_columns(path)) == ["a", "b"]


def test_a_setting_goes_before_a_declaration_and_unknown_letters_are_refused(tmp_path):
    path = saved(tmp_path / "t.csv", "sep=;\na,b\n1,2\n")
    assert list(read_columns(path, dialect=Dialect(separator=","))) == ["a", "b"]
    with pytest.raises(
        DataError,
        match=naming("t.csv", "1", "','", "';'"),
    ):
        read_columns(saved(tmp_path / "t.csv", "sep=#\na#b\n1#2\n"))


COMMENTED = (
    "# Made by an instrument, on a day, in a place.\n#\n\n# Units: "
    "mm\nname,x\nann,1.5\n\nbob,oops\n"
)


def test_comments_above_the_header_are_left_out_and_told(tmp_path):
    path, notes = saved(tmp_path / "t.csv", COMMENTED), Notes()
    found = read_columns(path, notes=notes)
    assert list(found) == ["name", "x"]
    assert found["x"].tolist() == ["1.5", "oops"]
    assert found.rows.name(1) == "line 8"
    assert notes.texts() == ("Lines 1 to 4 of t.csv begin with # and are left out, as a comment.",)
    assert names_of_columns(path) == ["name", "x"]
    texts = TextSettings(min_df=1, max_df=1.0, stop_words=None)
    corpus = read(
        saved(tmp_path / "r.csv", "# a note, of two cells\ntext\nplum pear\nplum\n"),
        column="text",
        text=texts,
    )
    assert corpus.vocabulary == ("pear", "plum")
    assert list(corpus.titles or ()) == ["r.csv:3", "r.csv:4"]


def test_a_declaration_may_stand_above_comments(tmp_path):
    found = read_columns(saved(tmp_path / "t.csv", "sep=;\n# a note\na;b\n1;2\n"))
    assert list(found) == ["a", "b"]
    assert found.rows.name(0) == "line 4"


@pytest.mark.parametrize(
    "text",
    [
        "# x,y\n1.5,2\n3,4\n",  # as numpy.savetxt writes its header
        "#chrom,start,end\nchr1,1,2\nchr1,3,4\n",
        "#name,kind\nann,a\nbob,b\n",
        "# of items,price\n3,2.5\n4,1.5\n",
    ],
)
def test_a_comment_that_may_be_the_header_is_refused_and_the_remedy_works(text, tmp_path):
    path = saved(tmp_path / "t.csv", text)
    with pytest.raises(
        DataError,
        match=naming("t.csv:1:", "remove its #", "remove the line"),
    ):
        read_columns(path)
    header, _, rest = text.partition("\n")
    bare = header.lstrip("#").strip()
    found = read_columns(saved(tmp_path / "t.csv", f"{bare}\n{rest}"))
    assert list(found) == bare.split(",")
    assert len(found.rows.labels) == 2


def test_a_column_of_numbers_of_rows_may_be_called_by_the_sign_alone(tmp_path):
    assert list(read_columns(saved(tmp_path / "t.csv", "#,x\n1,1.5\n2,2.5\n"))) == ["#", "x"]
    assert list(read_columns(saved(tmp_path / "t.csv", '"# of items",x\n1,1.5\n'))) == [
        "# of items",
        "x",
    ]


def test_a_comment_below_the_header_is_refused_with_its_line(tmp_path):
    with pytest.raises(DataError, match=naming("t.csv", "3", "2 cells", "1")):
        read_columns(saved(tmp_path / "t.csv", "a,b\n1,2\n# the second day\n3,4\n"))


@pytest.mark.parametrize("title", ["Survey of plants", "% made by a tool", "// 2024"])
def test_a_title_that_is_not_clear_is_to_be_deleted(title, tmp_path):
    """Of rows of texts alone, which of them is the header is not known."""
    path = tmp_path / "t.csv"
    path.write_text(f"{title}\nx,y\na,b\nc,d\n")
    with pytest.raises(
        DataError, match="if line 1 is a title or a comment and not the names of columns, delete it"
    ):
        read_columns(str(path))
    path.write_text("x,y\n1,2\n3,4\n")
    assert read_columns(str(path))["y"].tolist() == [2.0, 4.0]
