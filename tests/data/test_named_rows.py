"""Rows are called as a person finds them in the file; columns are named once; words of counts are
read."""

import numpy as np
import pytest
import scipy.sparse

from tests.data import spreadsheets
from tests.naming import naming
from vijax.checks import RowError
from vijax.data import DataError, read
from vijax.data.reading.checks import Notes
from vijax.data.schema.in_memory import memory_columns
from vijax.data.schema.row_names import lines
from vijax.data.schema.typed_columns import typed_table
from vijax.data.tables.columns import FileColumns
from vijax.data.tables.graph import GraphChoice, make_graph
from vijax.data.tables.table import Choice, make_table, naming_rows, split_table
from vijax.data.tables.table_files import read_columns, read_table

# Line 3 is empty, and the name of the row on lines 4 and 5 has two of them.
TEXT = 'name,x,y,kind\nann,1,2,a\n\n"bob\nby",2,{x},{kind}\ncy,3,4,b\n'


def saved(tmp_path, **cells):
    (tmp_path / "t.csv").write_text(TEXT.format(**{"x": "3", "kind": "b"} | cells))
    return str(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("cells", "choice", "message"),
    [
        (
            {"x": "oops"},
            {"columns": ("x", "y")},
            r"t\.csv, column 'y': expected numbers, got 'oops' in line 5 ",
        ),
        (
            {"x": ""},
            {"columns": ("x", "y")},
            r"t\.csv: .*got a missing value in line 5 of column 'y'",
        ),
        (
            {"x": "2.5"},
            {"columns": ("x",), "target": "y", "kind": "count"},
            r"t\.csv, target 'y': .*2\.5 in line 5 ",
        ),
        (
            {"kind": ""},
            {"columns": ("x",), "target": "kind", "kind": "binary"},
            r"a missing value in line 5 \(1 such",
        ),
        (
            {"kind": ""},
            {"columns": ("x",), "group": "kind"},
            r"t\.csv, group 'kind': .* a missing value in line 5 ",
        ),
    ],
)
def test_lines_of_a_table_are_those_of_an_editor(tmp_path, cells, choice, message):
    with pytest.raises(DataError, match=message):
        read_table(saved(tmp_path, **cells), Choice(**choice))


def test_a_column_that_is_left_out_says_why_by_the_line(tmp_path):
    notes = read_table(saved(tmp_path, kind="b"), Choice()).notes
    assert any(
        "The column 'name' is left out: 'ann' in line 2 is not a number" in note for note in notes
    )


def test_rows_of_files_without_lines_are_counted_from_1_and_of_memory_as_python_does(tmp_path):
    columns = {"x": np.array([1.0, 2.0, np.nan])}
    np.savez(tmp_path / "t.npz", **columns)
    with pytest.raises(DataError, match=naming("t.npz:", "3", "'x'")):
        read_table(str(tmp_path / "t.npz"))
    with pytest.raises(DataError, match=naming("2", "0", "'x'")):
        make_table(columns, Choice(), "a table")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,,1", "a missing value in line 4"),
        ("a,b,x", "'x' in line 4"),
        ("a,b,2", "got 2 in line 4"),
    ],
)
def test_lines_of_an_edge_list_are_those_of_an_editor(tmp_path, row, message):
    (tmp_path / "edges.csv").write_text(f"source,target,weight\na,b,1\n\n{row}\n")
    path = str(tmp_path / "edges.csv")
    with pytest.raises(DataError, match=rf"edges\.csv.*{message}"):
        make_graph(read_columns(path, exact=("source", "target")), GraphChoice(), path)


def said(table, row):
    with pytest.raises(DataError) as caught, naming_rows(table):
        raise RowError("got it in", row, 0, "!")
    return str(caught.value)


def test_a_part_of_a_table_knows_the_lines_of_its_rows():
    found = FileColumns({"x": np.arange(20.0), "g": np.arange(20) % 3}, lines(range(2, 22)))
    table = make_table(found, Choice(columns=("x",)), "t.csv")
    for part in split_table(table, 0.3, 0, "groups"):
        for row, value in enumerate(part.x[:, 0]):
            assert said(part, row) == f"t.csv, got it in line {value + 2:.0f}, column 'x' !"
    grouped = make_table(found, Choice(columns=("x",), group="g"), "t.csv")
    for row, value in enumerate(np.concatenate(grouped.sequences())[:, 0]):
        assert f"line {value + 2:.0f}," in said(grouped, row)
    with (
        pytest.raises(RowError, match="row 3, column 0, counted from 0"),
        naming_rows(make_table({"x": np.ones(4)}, Choice(), "")),
    ):
        raise RowError("in", 3, 0, "")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (
            {"columns": ("x", "y", "x")},
            r"t\.csv, data\.columns: expected distinct names, got 'x' more than once",
        ),
        (
            {"columns": ("x", "y"), "target": "y"},
            r"data\.columns: .* got 'y', the target, among them",
        ),
    ],
)
def test_columns_that_are_named_twice_are_refused(tmp_path, choice, message):
    with pytest.raises(DataError, match=message):
        read_table(saved(tmp_path), Choice(**choice))


# --- words of counts ------------------------------------------------------------------------------
COUNTS = np.array([[1, 0, 2], [0, 3, 0]])


def counts_of(tmp_path, kind, **more):
    matrix = scipy.sparse.csr_array(COUNTS)
    arrays = {"indptr": matrix.indptr, "indices": matrix.indices}
    arrays |= (
        {"counts": matrix.data}
        if kind == "ours"
        else {"format": "csr", "shape": COUNTS.shape, "data": matrix.data}
    )
    np.savez(tmp_path / "c.npz", **arrays, **more)
    return tmp_path / "c.npz"


@pytest.mark.parametrize("kind", ["ours", "scipy"])
@pytest.mark.parametrize(
    "words", [np.array(["sun", "sea", "søster"]), np.array(["a", "b", "c"], "S")]
)
def test_the_words_inside_a_file_of_counts_are_its_vocabulary(tmp_path, kind, words):
    expected = tuple(word.decode() if isinstance(word, bytes) else word for word in words.tolist())
    assert read(counts_of(tmp_path, kind, vocabulary=words)).vocabulary == expected


def test_words_that_are_given_win_over_those_inside(tmp_path):
    path = counts_of(tmp_path, "ours", vocabulary=np.array(["a", "b", "c"]))
    assert read(path, vocabulary=("x", "y", "z")).vocabulary == ("x", "y", "z")
    (tmp_path / "c.vocab.txt").write_text("a\nb\nc\n")
    assert read(path).vocabulary == ("a", "b", "c")


@pytest.mark.parametrize(
    ("words", "beside", "message"),
    [
        (np.array(["a", "b"]), None, r"c\.npz.* expected"),
        (
            np.array([1, 2, 3]),
            None,
            r"c\.npz, vocabulary: expected one axis of words, got shape \(3,\), dtype int64",
        ),
        (np.array([["a", "b", "c"]]), None, r"c\.npz, vocabulary: expected one axis of words"),
        (np.array([b"\xff", b"b", b"c"]), None, r"c\.npz, vocabulary: expected words in UTF-8"),
        (
            np.array(["a", "b", "c"]),
            "a\nb\nd\n",
            r"c\.npz, vocabulary: .* got others in .*c\.vocab\.txt",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["ours", "scipy"])
def test_words_inside_that_cannot_be_are_refused(tmp_path, kind, words, beside, message):
    path = counts_of(tmp_path, kind, vocabulary=words)
    if beside is not None:
        (tmp_path / "c.vocab.txt").write_text(beside)
    with pytest.raises(DataError, match=message):
        read(path)


# --- as the user's own program shows them ---------------------------------------------------------
def test_rows_of_a_spreadsheet_have_the_numbers_that_it_shows(tmp_path):
    """The table begins in row 3, and row 5 is empty."""
    pytest.importorskip("python_calamine")
    cells = {
        "B3": "name",
        "C3": "x",
        "B4": "ann",
        "C4": 1.5,
        "B6": "bob",
        "C6": "oops",
        "B7": "cy",
        "C7": 2.5,
    }
    path, notes = str(spreadsheets.xlsx(tmp_path / "t.xlsx", cells)), Notes()
    found = read_columns(path, notes=notes)
    assert found.rows.labels.tolist() == [4, 6, 7]
    assert notes.texts() == ("1 rows of t.xlsx hold nothing and are left out, the first in row 5.",)
    with pytest.raises(DataError, match=naming("t.xlsx", "'x'", "'oops'", "6")):
        read_table(path, Choice(columns=("x",)))


def test_rows_of_a_folder_are_those_of_its_files(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for name, x in {"a": [1.0, 2.0], "b": [3.0, None]}.items():
        parquet.write_table(arrow.table({"x": x}), tmp_path / f"{name}.parquet")
    with pytest.raises(DataError, match=naming("2", "b.parquet", "'x'")):
        read_table(str(tmp_path))
    dropped = read_table(str(tmp_path), Choice(drop=True))
    assert "row 2 of b.parquet." in dropped.notes[0]


@pytest.mark.parametrize(
    ("index", "name"),
    [
        ([0, 1, 2], "row 1, counted from 0"),
        ([7, 3, 5], "row 3 of the index"),
        (["p", "q", "r"], "row 'q' of the index"),
        ([7, 7, 7], "row 1, counted from 0"),  # it tells no rows apart
        ([("a", 1), ("a", 2), ("b", 1)], r"row \('a', 2\) of the index"),
    ],
)
def test_rows_of_a_data_frame_are_named_by_its_index(index, name):
    pandas = pytest.importorskip("pandas")
    labels = pandas.MultiIndex.from_tuples(index) if isinstance(index[0], tuple) else index
    frame = pandas.DataFrame({"x": [1.0, None, 2.0], "g": ["a", "b", "b"]}, index=labels)
    with pytest.raises(DataError, match=f"a missing value in {name},? of column 'x'"):
        make_table(memory_columns(frame), Choice(columns=("x",)), "data")
    with pytest.raises(ValueError, match=f"a list in {name},? of 'x'"):
        typed_table(frame.assign(x=[1.0, [2.0], 3.0]))


def records(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("make", [dict, records])
def test_rows_in_memory_keep_their_numbers_when_others_are_left_out(make):
    found = memory_columns(make({"x": [1.0, 2.0, "oops"], "g": [None, "a", "b"]}), exact=["g"])
    with pytest.raises(DataError, match="'oops' in row 2, counted from 0"):
        make_table(found, Choice(columns=("x",), group="g", drop=True), "data")


def test_a_row_with_separators_alone_is_a_row_but_at_the_end(tmp_path):
    """Spreadsheets write such lines below a table; a step of which nothing was seen is one, too."""
    notes = Notes()
    (path := tmp_path / "t.csv").write_text("a,b\n1,2\n,\n3,4\n,\n , \n")
    found = read_columns(str(path), notes=notes)
    np.testing.assert_array_equal(found["a"], [1, np.nan, 3])
    assert found.rows.labels.tolist() == [2, 3, 4]
    assert notes.texts() == ("The last lines 5 to 6 have no value in t.csv: left out.",)


def test_a_row_that_may_be_a_comment_is_told(tmp_path):
    notes = Notes()
    (path := tmp_path / "t.csv").write_text("g,x\na,1\n# noon,2\nb,3\n#N/A,4\n")
    read_columns(str(path), exact=["g"], notes=notes)
    assert notes.texts() == (
        "Line 3 of t.csv: read as a row, with # in front. Remove it if a comment.",
    )
    pytest.importorskip("python_calamine")
    cells = {"A1": "# by hand", "A2": "g", "B2": "x", "A3": "a", "B3": 1, "A4": "# noon", "B4": 2}
    sheet = read_columns(
        str(spreadsheets.xlsx(tmp_path / "t.xlsx", cells)), notes=(of_sheet := Notes())
    )
    assert (list(sheet), sheet.rows.labels.tolist()) == (["g", "x"], [3, 4])
    assert of_sheet.texts() == (
        "Rows of t.xlsx above the header that begin with # are left out, as comments: 1.",
        "Row 4 of t.xlsx: read as a row, with # in front. Remove it if a comment.",
    )
    path.write_text("id,x\n#1,1\n#2,2\n")
    read_columns(str(path), exact=["id"], notes=(quiet := Notes()))
    assert quiet.texts() == ()
