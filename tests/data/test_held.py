import numpy as np
import pytest
import scipy.sparse

from vijax.data.corpora.held import load_bag_of_words


def test_corpus_of_the_named_folder(tmp_path, monkeypatch):
    matrix = scipy.sparse.csr_matrix([[1, 0, 2], [0, 3, 0]])
    np.savez(tmp_path / "fruit.npz", indptr=matrix.indptr, indices=matrix.indices, counts=matrix.data)
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
        ValueError, match=r"VIJAX_DATA: expected a folder with NAME\.npz and NAME\.vocab\.txt, got no folder"
    ):
        load_bag_of_words("ap")


def test_sizes_as_published(monkeypatch):
    monkeypatch.delenv("VIJAX_DATA", raising=False)
    try:
        corpus = load_bag_of_words("ap")
    except ValueError:
        pytest.skip("no data folder")
    assert (corpus.num_documents, corpus.vocab_size, corpus.num_tokens) == (2246, 10473, 435838)
