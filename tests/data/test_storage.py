import json
import os

import numpy as np
import pytest

from vijax.data.corpora import storage
from vijax.data.corpora.corpus import Corpus


@pytest.fixture
def corpus():
    counts = np.random.default_rng(0).poisson(0.5, (30, 12))
    titles = [f"título {i}" for i in range(30)]
    return Corpus.from_counts(
        counts, [f"wörd{i}" for i in range(12)], titles=titles, texts=["", *titles[1:]]
    )


def test_saved_corpus_opens_as_memory_maps(corpus, tmp_path):
    opened = Corpus.open(corpus.save(tmp_path / "corpus"))
    for name in storage.ARRAYS:
        array = getattr(opened, name)
        assert isinstance(array, np.memmap)
        np.testing.assert_array_equal(array, getattr(corpus, name))
    assert opened.vocabulary == corpus.vocabulary
    assert tuple(opened.titles) == tuple(corpus.titles)
    assert tuple(opened.texts) == tuple(corpus.texts)
    assert opened.titles[-1] == "título 29"
    assert opened.titles[3:5] == ("título 3", "título 4")
    assert opened[[4, 2]].titles == ("título 4", "título 2")
    assert opened.notes == corpus.notes


def test_corpus_without_words_keeps_its_size(tmp_path):
    opened = Corpus.open(Corpus.from_counts([[1, 0, 0]]).save(tmp_path))
    assert (opened.vocabulary, opened.vocab_size) == (None, 3)


def test_lines_end_where_they_should(tmp_path):
    with pytest.raises(IndexError):
        _ = Corpus.open(Corpus.from_counts([[1]], titles=["x"]).save(tmp_path)).titles[1]


@pytest.mark.parametrize(
    "name", ["indptr.npy", "indices.npy", "counts.npy", "titles.txt", "vocabulary.txt"]
)
def test_truncated_files_are_named(corpus, tmp_path, name):
    folder = corpus.save(tmp_path / "corpus")
    path = folder / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"expected .*, got .*To mend it: ") as error:
        Corpus.open(folder)
    assert name in str(error.value) or name == "vocabulary.txt"


def test_files_of_two_corpora(corpus, tmp_path):
    folder = corpus.save(tmp_path / "corpus")
    np.save(folder / "counts.npy", np.ones(3, np.int32))
    with pytest.raises(ValueError, match="expected arrays of lengths"):
        Corpus.open(folder)


def test_folder_without_meta_is_no_corpus(corpus, tmp_path):
    folder = corpus.save(tmp_path / "corpus")
    assert json.loads((folder / "meta.json").read_text())["num_documents"] == 30
    (folder / "meta.json").unlink()
    with pytest.raises(ValueError, match=r"a folder with meta\.json"):
        Corpus.open(folder)


def test_array_writer_grows_a_file(tmp_path):
    writer = storage.ArrayWriter(tmp_path / "a.npy", np.int32)
    blocks = [np.arange(3), np.arange(0), np.arange(100_000)]
    for block in blocks:
        writer.append(block)
    writer.close()
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), np.concatenate(blocks))
    assert np.load(tmp_path / "a.npy").dtype == np.int32


# --- values of memory-mapped corpora --------------------------------------------------------------
def aged(folder, seconds=10.0):
    """As if the files were some seconds old, which those that are to be read through once only must
    be."""
    for path in folder.glob("*.npy"):
        os.utime(path, (path.stat().st_atime, path.stat().st_mtime - seconds))
    return folder


def changed(folder, name, place, value):
    array = np.load(folder / f"{name}.npy", mmap_mode="r+")
    array[place] = value
    array.flush()


@pytest.mark.parametrize(
    ("name", "place", "value", "message"),
    [
        (
            "indices",
            3,
            50_000_000,
            r"indices\.npy: expected word ids from 0 to 11, got 50000000 at place 3",
        ),
        ("indices", 2, -1, r"indices\.npy: expected word ids from 0 to 11, got -1 at place 2"),
        ("counts", 5, 0, r"counts\.npy: expected counts from 1 to 2147483647, got 0 at place 5"),
        ("counts", 1, -7, r"counts\.npy: expected counts from 1"),
        ("indptr", 4, 10**6, r"indptr\.npy: expected offsets that begin at 0 and never fall"),
        (
            "indptr",
            0,
            1,
            r"indptr\.npy: expected offsets that begin at 0 and never fall, got 1 at place 0",
        ),
    ],
)
@pytest.mark.parametrize("before", ["never opened", "found right before"])
def test_values_that_cannot_be_are_found_when_a_corpus_is_opened(
    corpus, tmp_path, name, place, value, message, before, monkeypatch
):
    monkeypatch.setattr("vijax.data.corpora.storage.BLOCK_ENTRIES", 4)
    folder = aged(corpus.save(tmp_path / "corpus"))
    if before == "found right before":
        Corpus.open(folder)
        assert (folder / "checked.json").exists()
    changed(folder, name, place, value)
    with pytest.raises(ValueError, match=message):
        Corpus.open(folder)


def test_a_corpus_is_read_through_once(corpus, tmp_path, monkeypatch):
    looked = []
    real = storage._check_range
    monkeypatch.setattr(
        storage, "_check_range", lambda *args: looked.append(args[3]) or real(*args)
    )
    folder = corpus.save(tmp_path / "corpus")
    for _ in range(2):
        Corpus.open(folder)
    assert looked == ["word ids", "counts"] * 2  # too young to tell whether they will change
    aged(folder)
    for _ in range(3):
        Corpus.open(folder)
    assert len(looked) == 6
    stamped = (folder / "counts.npy").stat()
    changed(folder, "counts", 0, 2)
    os.utime(
        folder / "counts.npy", ns=(stamped.st_atime_ns, stamped.st_mtime_ns)
    )  # of the same size and time
    Corpus.open(folder)
    assert len(looked) == 8


def test_a_folder_that_cannot_be_written_to_is_opened(corpus, tmp_path, monkeypatch):
    folder = aged(corpus.save(tmp_path / "corpus"))
    monkeypatch.setattr(
        "vijax.files._create", lambda path: (_ for _ in ()).throw(PermissionError("read-only"))
    )
    assert Corpus.open(folder).num_documents == 30
    assert not (folder / "checked.json").exists()


@pytest.mark.parametrize("meta", ["{}", "[]", "[" * 100_000, '{"num_documents": "3"}', "\udcff"])
def test_a_damaged_meta_is_named(corpus, tmp_path, meta):
    folder = corpus.save(tmp_path / "corpus")
    (folder / "meta.json").write_bytes(meta.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"meta\.json.*: expected .*To mend it: "):
        Corpus.open(folder)


@pytest.mark.parametrize(
    "array", [np.float64(3), np.zeros(0, int), np.ones(3), np.zeros(3, [("a", int)])]
)
def test_arrays_of_another_kind_are_named(corpus, tmp_path, array):
    folder = corpus.save(tmp_path / "corpus")
    np.save(folder / "indptr.npy", array)
    with pytest.raises(ValueError, match=r"indptr.*To mend it: make the corpus folder again"):
        Corpus.open(folder)


def test_a_corpus_saved_over_another_keeps_nothing_of_it(corpus, tmp_path):
    corpus.save(tmp_path / "corpus")
    other = Corpus.from_counts([[1, 2]]).save(tmp_path / "corpus")
    assert Corpus.open(other).titles is None
    assert Corpus.open(other).vocabulary is None
