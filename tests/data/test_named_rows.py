"""Rows are called as a person finds them in the file; columns are named once; words of counts are read."""

import numpy as np
import pytest
import scipy.sparse

from vijax.checks import RowError
from vijax.data import DataError, read
from vijax.data.schema.row_names import lines
from vijax.data.tables.columns import FileColumns
from vijax.data.tables.graph import GraphChoice, graph_of
from vijax.data.tables.table import Choice, rows_of, split_table, table_of
from vijax.data.tables.table_files import read_columns, read_table

# Line 3 is empty, and the name of the row on lines 4 and 5 has two of them.
TEXT = 'name,x,y,kind\nann,1,2,a\n\n"bob\nby",2,{x},{kind}\ncy,3,4,b\n'


def saved(tmp_path, **cells):
    (tmp_path / "t.csv").write_text(TEXT.format(**{"x": "3", "kind": "b"} | cells))
    return str(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("cells", "choice", "message"),
    [
        ({"x": "oops"}, {"columns": ("x", "y")}, r"t\.csv, column 'y': expected numbers, got 'oops' in line 5 "),
        ({"x": ""}, {"columns": ("x", "y")}, r"t\.csv: .*got a missing value in line 5 of column 'y'"),
        ({"x": "2.5"}, {"columns": ("x",), "target": "y", "kind": "count"}, r"t\.csv, target 'y': .*2\.5 in line 5 "),
        ({"kind": ""}, {"columns": ("x",), "target": "kind", "kind": "binary"}, r"a missing value in line 5 \(1 such"),
        ({"kind": ""}, {"columns": ("x",), "group": "kind"}, r"t\.csv, group 'kind': .* a missing value in line 5 "),
    ],
)
def test_lines_of_a_table_are_those_of_an_editor(tmp_path, cells, choice, message):
    with pytest.raises(DataError, match=message):
        read_table(saved(tmp_path, **cells), Choice(**choice))


def test_a_column_that_is_left_out_says_why_by_the_line(tmp_path):
    notes = read_table(saved(tmp_path, kind="b"), Choice()).notes
    assert any("The column 'name' is left out: 'ann' in line 2 is not a number" in note for note in notes)


def test_rows_of_files_without_lines_are_counted_from_1_and_of_memory_as_python_does(tmp_path):
    columns = {"x": np.array([1.0, 2.0, np.nan])}
    np.savez(tmp_path / "t.npz", **columns)
    with pytest.raises(DataError, match=r"t\.npz: .*a missing value in row 3 of column 'x'"):
        read_table(str(tmp_path / "t.npz"))
    with pytest.raises(DataError, match=r"a missing value in row 2, counted from 0, of column 'x'"):
        table_of(columns, Choice(), "a table")


@pytest.mark.parametrize(
    ("row", "message"),
    [("a,,1", "a missing value in line 4"), ("a,b,x", "'x' in line 4"), ("a,b,2", "got 2 in line 4")],
)
def test_lines_of_an_edge_list_are_those_of_an_editor(tmp_path, row, message):
    (tmp_path / "edges.csv").write_text(f"source,target,weight\na,b,1\n\n{row}\n")
    path = str(tmp_path / "edges.csv")
    with pytest.raises(DataError, match=rf"edges\.csv.*{message}"):
        graph_of(read_columns(path, exact=("source", "target")), GraphChoice(), path)


def said(table, row):
    with pytest.raises(DataError) as caught, rows_of(table):
        raise RowError("got it in", row, 0, "!")
    return str(caught.value)


def test_a_part_of_a_table_knows_the_lines_of_its_rows():
    found = FileColumns({"x": np.arange(20.0), "g": np.arange(20) % 3}, lines(range(2, 22)))
    table = table_of(found, Choice(columns=("x",)), "t.csv")
    for part in split_table(table, 0.3, 0, "groups"):
        for row, value in enumerate(part.x[:, 0]):
            assert said(part, row) == f"t.csv, got it in line {value + 2:.0f}, column 'x' !"
    grouped = table_of(found, Choice(columns=("x",), group="g"), "t.csv")
    for row, value in enumerate(np.concatenate(grouped.sequences())[:, 0]):
        assert f"line {value + 2:.0f}," in said(grouped, row)
    with (
        pytest.raises(RowError, match="row 3, column 0, counted from 0"),
        rows_of(table_of({"x": np.ones(4)}, Choice(), "")),
    ):
        raise RowError("in", 3, 0, "")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"columns": ("x", "y", "x")}, r"t\.csv, data\.columns: expected distinct names, got 'x' more than once"),
        ({"columns": ("x", "y"), "target": "y"}, r"data\.columns: .* got 'y', the target, among them"),
    ],
)
def test_columns_that_are_named_twice_are_refused(tmp_path, choice, message):
    with pytest.raises(DataError, match=message):
        read_table(saved(tmp_path), Choice(**choice))


# --- words of counts ------------------------------------------------------------------------------------------------
COUNTS = np.array([[1, 0, 2], [0, 3, 0]])


def counts_of(tmp_path, kind, **more):
    matrix = scipy.sparse.csr_array(COUNTS)
    arrays = {"indptr": matrix.indptr, "indices": matrix.indices}
    arrays |= (
        {"counts": matrix.data} if kind == "ours" else {"format": "csr", "shape": COUNTS.shape, "data": matrix.data}
    )
    np.savez(tmp_path / "c.npz", **arrays, **more)
    return tmp_path / "c.npz"


@pytest.mark.parametrize("kind", ["ours", "scipy"])
@pytest.mark.parametrize("words", [np.array(["sun", "sea", "søster"]), np.array(["a", "b", "c"], "S")])
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
        (np.array([1, 2, 3]), None, r"c\.npz, vocabulary: expected one axis of words, got shape \(3,\), dtype int64"),
        (np.array([["a", "b", "c"]]), None, r"c\.npz, vocabulary: expected one axis of words"),
        (np.array([b"\xff", b"b", b"c"]), None, r"c\.npz, vocabulary: expected words in UTF-8"),
        (np.array(["a", "b", "c"]), "a\nb\nd\n", r"c\.npz, vocabulary: .* got others in .*c\.vocab\.txt"),
    ],
)
@pytest.mark.parametrize("kind", ["ours", "scipy"])
def test_words_inside_that_cannot_be_are_refused(tmp_path, kind, words, beside, message):
    path = counts_of(tmp_path, kind, vocabulary=words)
    if beside is not None:
        (tmp_path / "c.vocab.txt").write_text(beside)
    with pytest.raises(DataError, match=message):
        read(path)
