import json

import numpy as np
import pytest

from vijax.data import storage
from vijax.data.corpus import Corpus


@pytest.fixture
def corpus():
    counts = np.random.default_rng(0).poisson(0.5, (30, 12))
    titles = [f"título {i}" for i in range(30)]
    return Corpus.from_counts(counts, [f"wörd{i}" for i in range(12)], titles=titles, texts=["", *titles[1:]])


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


@pytest.mark.parametrize("name", ["indptr.npy", "indices.npy", "counts.npy", "titles.txt", "vocabulary.txt"])
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
