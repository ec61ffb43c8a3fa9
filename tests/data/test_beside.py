"""Columns beside the text of documents, and tables in memory, as they are carried through."""

import json

import numpy as np
import pytest

from vijax.data import Corpus, read
from vijax.data.corpora.corpus import join_parts
from vijax.data.read import read_side_columns
from vijax.data.reading.checks import DataError
from vijax.data.schema.in_memory import memory_columns


def test_columns_of_a_csv_stay_as_they_are_written(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id,title,text,note\n007,one,"two\nlines",x\n\n010,two,word\n')
    found = read_side_columns(path, None)
    assert found == {
        "id": ["007", "010"],
        "note": ["x", ""],
    }  # an empty line is no document, a short row has gaps
    assert read(path).num_documents == 2
    assert read_side_columns(path, "note") == {"id": ["007", "010"], "text": ["two\nlines", "word"]}


def test_columns_of_json_lines_may_differ_from_line_to_line(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"text": "a", "n": 1}, {"text": "b", "tags": ["x", "é"]}, {"text": "c", "n": None}]
    path.write_text("\n\n".join(map(json.dumps, rows)))
    assert read_side_columns(path, None) == {
        "n": [1, None, None],
        "tags": [None, '["x", "é"]', None],
    }


def test_columns_of_parquet_and_of_frames(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": ["a", "b"], "n": [1, 2], "title": ["x", "y"]})
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "a.parquet")
    assert read_side_columns(tmp_path / "a.parquet", None) == {"n": [1, 2]}
    assert read_side_columns(frame, None) == {"n": [1, 2]}
    assert read_side_columns(frame["text"], None) == {}


def test_what_has_no_columns_has_none_beside(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    for source in (tmp_path / "a.txt", tmp_path, ["one", "two"], "docstrings"):
        assert read_side_columns(source, None) == {}


def test_a_corpus_in_two_parts_is_put_together_in_its_order():
    rng = np.random.default_rng(0)
    corpus = Corpus.from_counts(rng.integers(0, 3, (20, 6)), titles=[f"d{i}" for i in range(20)])
    again = join_parts(*corpus.split(0.3, seed=4), 0.3, 4)
    np.testing.assert_array_equal(again.to_scipy().toarray(), corpus.to_scipy().toarray())
    assert list(again.titles) == [f"d{i}" for i in range(20)]


def test_tables_in_memory_are_columns():
    found = memory_columns({"a": [1, 2], "b": [True, False], "c": ["1.5", None], "d": ["x", "y"]})
    assert found["a"].tolist() == [1, 2]
    assert found["b"].tolist() == [1.0, 0.0]
    np.testing.assert_array_equal(found["c"], [1.5, np.nan])
    assert found["d"].tolist() == ["x", "y"]
    assert memory_columns(np.arange(4).reshape(2, 2), ["u", "v"])["v"].tolist() == [1.0, 3.0]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (3, "a matrix"),
        ({"a": [[1, 2]]}, "vectors"),
        ({"a": [1], "b": [1, 2]}, "one length"),
        ([["x"]], "a matrix"),
    ],
)
def test_objects_that_are_no_table_are_refused(source, expected):
    with pytest.raises(DataError, match=expected):
        memory_columns(source, ["a"])
