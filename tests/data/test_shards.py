"""Parquet shards: what is read is what was written, from one file or many; what is wrong is
named."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.naming import naming
from vijax.data import Corpus, DataError, read
from vijax.data.corpora import shards

DOCUMENTS = [{0: 2, 3: 1}, {}, {1: 5}, {2: 1, 3: 4}]


def write(path, documents=DOCUMENTS, titles=True, **changed):
    columns = {
        "ids": [list(d) for d in documents],
        "counts": [list(d.values()) for d in documents],
        **changed,
    }
    types = {name: pa.list_(pa.int64()) for name in columns}
    columns |= {"title": [f"t{i}" for i in range(len(documents))]} if titles else {}
    pq.write_table(
        pa.table({n: pa.array(c, types.get(n)) for n, c in columns.items()}), path, row_group_size=2
    )


def dense(documents=DOCUMENTS):
    return np.array([[d.get(w, 0) for w in range(4)] for d in documents])


@pytest.mark.parametrize("folder", [None, "mapped"])
def test_a_folder_of_shards_is_its_documents_in_order(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(shards, "ROWS", 3)
    (tmp_path / "vocabulary.txt").write_text("a\nb\nc\nd\n")
    write(tmp_path / "part-1.parquet", DOCUMENTS[2:])
    write(tmp_path / "part-0.parquet", DOCUMENTS[:2])
    corpus = read(tmp_path, folder=None if folder is None else tmp_path / folder)
    assert (corpus.to_scipy().toarray() == dense()).all()
    assert corpus.vocabulary == ("a", "b", "c", "d")
    assert tuple(corpus.titles) == ("t0", "t1", "t0", "t1")
    assert corpus.mapped == (folder is not None)


def test_one_file_and_a_vocabulary_beside_it(tmp_path):
    (tmp_path / "docs.vocab.txt").write_text("a\nb\nc\nd\n")
    write(tmp_path / "docs.parquet", titles=False)
    corpus = read(tmp_path / "docs.parquet")
    assert (corpus.to_scipy().toarray() == dense()).all()
    assert corpus.titles is None
    assert corpus.vocabulary == ("a", "b", "c", "d")


WRONG = {
    "as many ids as counts, got 1 ids and 2 counts": {"counts": [[2, 1], [], [1, 2], [1, 4]]},
    "a list of whole numbers, got a missing value": {"ids": [[0, 3], None, [1], [2, 3]]},
    "whole counts of 0 or more, got the negative count -1": {"counts": [[2, -1], [], [5], [1, 4]]},
    "word ids from 0 to 3, the vocabulary having 4 words, got word id 9": {
        "ids": [[0, 9], [], [1], [2, 3]]
    },
}


@pytest.mark.parametrize("said", WRONG)
def test_what_is_wrong_is_named(tmp_path, said):
    (tmp_path / "vocabulary.txt").write_text("a\nb\nc\nd\n")
    write(tmp_path / "bad.parquet", **WRONG[said])
    with pytest.raises(DataError) as error:
        read(tmp_path)
    assert said in str(error.value)
    assert "bad.parquet" in str(error.value)


def test_numbers_that_are_no_lists_and_shards_that_differ_are_refused(tmp_path):
    pq.write_table(pa.table({"ids": [1, 2], "counts": [1, 1]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="lists of whole numbers, got int64"):
        read(tmp_path)
    write(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet", titles=False)
    with pytest.raises(DataError, match=naming("b.parquet:", "'title'")):
        read(tmp_path)
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:100])
    with pytest.raises(DataError, match=naming("b.parquet:", "Parquet")):
        read(tmp_path)


def test_a_folder_of_texts_is_read_as_one_file_of_them_is(tmp_path):
    texts = [
        f"the {word} sat on the {other}"
        for word in ("cat", "dog", "bird")
        for other in ("mat", "roof")
    ]
    pq.write_table(pa.table({"text": texts}), tmp_path / "all.parquet")
    whole = read(tmp_path / "all.parquet")
    (tmp_path / "all.parquet").unlink()
    for i in range(3):
        pq.write_table(pa.table({"text": texts[2 * i : 2 * i + 2]}), tmp_path / f"{i}.parquet")
    parts = read(tmp_path)
    assert isinstance(parts, Corpus)
    assert parts.vocabulary == whole.vocabulary
    assert (parts.to_scipy() != whole.to_scipy()).nnz == 0
