import gzip
import importlib
import json

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from tests.naming import naming
from vijax.data.corpora.corpus import Corpus
from vijax.data.read import guess_format, load_bag_of_words, read

COUNTS = np.array([[2, 0, 1], [0, 4, 1]])
WORDS = ["apple", "pear", "plum"]
TEXTS = ["apple plum apple", "pear pear plum pear pear"]


def text_files(folder):
    (folder / "texts").mkdir()
    for number, text in enumerate(TEXTS):
        (folder / "texts" / f"{number}.txt").write_text(text)
    (folder / "x.txt").write_text("\n".join(TEXTS))
    (folder / "x.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in TEXTS))
    (folder / "x.csv").write_text("\n".join(["text", *TEXTS]))
    (folder / "x.tsv.gz").write_bytes(gzip.compress("\n".join(["text", *TEXTS]).encode()))
    return [folder / name for name in ("texts", "x.txt", "x.jsonl", "x.csv", "x.tsv.gz")]


def count_files(folder):
    matrix = scipy.sparse.csr_matrix(COUNTS)
    scipy.sparse.save_npz(folder / "x.npz", matrix)
    scipy.io.mmwrite(folder / "x.mtx", matrix)
    (folder / "x.dat").write_text("2 0:2 2:1\n2 1:4 2:1\n")
    (folder / "docword.txt").write_text("2\n3\n4\n1 1 2\n1 3 1\n2 2 4\n2 3 1\n")
    return [folder / name for name in ("x.npz", "x.mtx", "x.dat", "docword.txt")]


def check(corpus):
    np.testing.assert_array_equal(corpus.to_scipy().toarray(), COUNTS)
    assert corpus.vocabulary == tuple(WORDS)


def test_files_of_every_kind(tmp_path):
    for path in text_files(tmp_path):
        check(read(path))
        check(read(str(path), vocabulary=WORDS))
    (tmp_path / "words").write_text("\n".join(WORDS))
    for path in count_files(tmp_path):
        check(read(path, vocabulary=WORDS))
        check(read(path, vocabulary=str(tmp_path / "words")))


def test_saved_corpus_is_opened(tmp_path):
    check(read(Corpus.from_counts(COUNTS, WORDS).save(tmp_path / "corpus")))


def test_corpora_built_on_disk(tmp_path):
    for number, path in enumerate(text_files(tmp_path)):
        corpus = read(path, folder=tmp_path / f"corpus{number}")
        check(corpus)
        assert isinstance(corpus.counts, np.memmap)


def test_large_files_are_built_in_the_cache_once(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.import_module("vijax.data.read"), "IN_MEMORY_BYTES", 10)
    monkeypatch.setenv("VIJAX_CACHE", str(tmp_path / "cache"))
    path = text_files(tmp_path)[2]
    check(read(path))
    (built,) = (tmp_path / "cache" / "corpora").iterdir()
    assert isinstance(read(path).counts, np.memmap)
    (again,) = (tmp_path / "cache" / "corpora").iterdir()
    assert built == again
    path.write_text(path.read_text() + '\n{"text": "plum"}')
    assert read(path).num_documents == 3


def test_format_can_be_named(tmp_path):
    path = tmp_path / "strange.name"
    path.write_text("\n".join(TEXTS))
    check(read(path, format="text-lines"))
    with pytest.raises(
        ValueError, match=r"expected a folder of .*\.parquet.*got the ending '\.name'.*format="
    ):
        read(path)
    with pytest.raises(ValueError, match=naming("format:", "'jsnol'", "'jsonl'")):
        read(path, format="jsnol")


def test_docword_is_told_from_lines_of_text(tmp_path):
    (tmp_path / "a.txt").write_text("1\n2\n3\nfour\n")
    (tmp_path / "b.txt").write_text("1\n2\n1\n1 1 1\n")
    assert [guess_format(tmp_path / name) for name in ("a.txt", "b.txt")] == ["text-lines", "uci"]


def test_missing_file():
    with pytest.raises(
        ValueError,
        match=naming("nowhere.csv:", "file"),
    ):
        read("nowhere.csv")


# --- objects --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "source",
    [COUNTS, COUNTS.tolist(), scipy.sparse.csr_matrix(COUNTS), scipy.sparse.coo_array(COUNTS)],
)
def test_counts_in_memory(source):
    check(read(source, vocabulary=WORDS))
    if not isinstance(source, list):
        check(read((source, WORDS)))


@pytest.mark.parametrize("source", [TEXTS, tuple(TEXTS), np.array(TEXTS), np.array(TEXTS, object)])
def test_texts_in_memory(source):
    check(read(source))


def test_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "id": [1, 2]})
    check(read(frame["text"]))
    check(read(frame))
    check(read(frame.rename(columns={"text": "body"}), column="body"))
    with pytest.raises(ValueError, match=naming("source:", "'txt'", "'text'")):
        read(frame, column="txt")
    assert read(frame.assign(title=["A", "B"])).titles == ("A", "B")
    frame.loc[1, "text"] = None
    with pytest.raises(ValueError, match="texts, document 2: expected text, got"):
        read(frame)


def test_arrow():
    arrow = pytest.importorskip("pyarrow")
    check(read(arrow.array(TEXTS)))
    check(read(arrow.chunked_array([TEXTS[:1], TEXTS[1:]])))
    check(read(arrow.table({"text": TEXTS, "id": [1, 2]})))


def test_corpus_is_itself():
    corpus = Corpus.from_counts(COUNTS, WORDS)
    assert read(corpus) is corpus
    assert read(corpus, vocabulary=["plum"]).to_scipy().toarray().tolist() == [[1], [1]]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([], "source: expected one document or more, got none"),
        (3, "source: expected counts .*got int"),
        ([[1, 2], [3]], "source: expected counts .*give all rows one length"),
        ((COUNTS, WORDS[:2]), "vocabulary: expected a vocabulary of 3 words, got 2 words"),
        (COUNTS - 1, "counts: expected whole counts of 0 or more, got the negative count -1"),
        (["text", 3], r"expected text, got 3 \(int\)"),
    ],
)
def test_bad_objects(source, message):
    with pytest.raises(ValueError, match=message):
        read(source)


def test_corpus_of_the_named_folder(tmp_path, monkeypatch):
    matrix = scipy.sparse.csr_matrix([[1, 0, 2], [0, 3, 0]])
    np.savez(
        tmp_path / "fruit.npz", indptr=matrix.indptr, indices=matrix.indices, counts=matrix.data
    )
    (tmp_path / "fruit.vocab.txt").write_text("apple\npear\nplum\n")
    monkeypatch.setenv("VIJAX_DATA", str(tmp_path))
    corpus = load_bag_of_words("fruit")
    assert corpus.vocabulary == ("apple", "pear", "plum")
    np.testing.assert_array_equal(corpus.to_scipy().toarray(), matrix.toarray())
    with pytest.raises(ValueError, match=r"got 'friut'.*did you mean 'fruit'"):
        load_bag_of_words("friut")


def test_missing_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("VIJAX_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(
        ValueError,
        match=naming("VIJAX_DATA:", "NAME.npz", "NAME.vocab.txt"),
    ):
        load_bag_of_words("ap")


def test_sizes_as_published(monkeypatch):
    monkeypatch.delenv("VIJAX_DATA", raising=False)
    try:
        corpus = load_bag_of_words("ap")
    except ValueError:
        pytest.skip("no data folder")
    assert (corpus.num_documents, corpus.vocab_size, corpus.num_tokens) == (2246, 10473, 435838)
