import gzip
import io

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from tests.naming import naming
from vijax.data.corpora.count_files import read_lda_c, read_matrix_market, read_npz, read_uci
from vijax.data.reading import files

COUNTS = np.array([[2, 0, 1, 0], [0, 0, 0, 0], [0, 4, 0, 1]])
WORDS = ["a", "b", "c", "d"]


def lda_c(counts=COUNTS):
    lines = [
        f"{(row > 0).sum()} " + " ".join(f"{w}:{n}" for w, n in enumerate(row) if n)
        for row in counts
    ]
    return "\n".join(line.strip() for line in lines) + "\n"


def uci(counts=COUNTS):
    entries = [f"{d + 1} {w + 1} {counts[d, w]}" for d, w in np.argwhere(counts)]
    return "\n".join([*map(str, counts.shape), str(len(entries)), *entries]) + "\n"


def write(path, text):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt") as file:
        file.write(text)
    return path


@pytest.fixture(params=[None, "on disk"])
def folder(request, tmp_path):
    return request.param and tmp_path / "corpus"


def check(corpus, counts=COUNTS):
    np.testing.assert_array_equal(corpus.to_scipy().toarray(), counts)
    assert corpus.vocabulary == tuple(WORDS)


# --- what should be read --------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["ap.ldac", "ap.ldac.gz"])
def test_lda_c(tmp_path, folder, name):
    check(read_lda_c(write(tmp_path / name, lda_c()), WORDS, folder))


@pytest.mark.parametrize("name", ["docword.x.txt", "docword.x.txt.gz"])
def test_uci_with_the_vocabulary_beside(tmp_path, folder, name):
    write(tmp_path / "vocab.x.txt", "a\r\nb\nc\nd\n")
    check(read_uci(write(tmp_path / name, uci()), None, folder))


@pytest.mark.parametrize(("read", "text"), [(read_uci, uci), (read_lda_c, lda_c)])
def test_documents_across_blocks(tmp_path, folder, monkeypatch, read, text):
    monkeypatch.setattr(files, "LINES_BYTES", 40)
    counts = np.random.default_rng(0).poisson(0.3, (50, 4))
    counts[-1] = 0
    check(read(write(tmp_path / "file.txt", text(counts)), WORDS, folder), counts)


@pytest.mark.parametrize("name", ["x.mtx", "x.mtx.gz"])
def test_matrix_market(tmp_path, name):
    scipy.io.mmwrite(tmp_path / "x.mtx", scipy.sparse.csr_matrix(COUNTS))
    check(read_matrix_market(write(tmp_path / name, (tmp_path / "x.mtx").read_text()), WORDS))


def test_scipy_npz(tmp_path):
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.csc_matrix(COUNTS))
    check(read_npz(tmp_path / "x.npz", WORDS))


def test_npz_of_csr_arrays_with_the_vocabulary_beside(tmp_path):
    matrix = scipy.sparse.csr_matrix(COUNTS)
    np.savez(tmp_path / "x.npz", indptr=matrix.indptr, indices=matrix.indices, counts=matrix.data)
    write(tmp_path / "x.vocab.txt", "a\nb\nc\nd\n")
    check(read_npz(tmp_path / "x.npz", None))


# --- what should be refused, with file and line ---------------------------------------------------
@pytest.mark.parametrize(
    ("line", "got"),
    [
        ("2 0:1 1:-2", "'2 0:1 1:-2'"),
        ("2 0:1 1:2.5", "'2 0:1 1:2.5'"),
        ("2 0:1 1:nan", "'2 0:1 1:nan'"),
        ("2 0:1", "'2 0:1'"),
        ("1 0:1 1:1", "'1 0:1 1:1'"),
        ("hello there", "'hello there'"),
        ("0 1", "'0 1'"),
        ("", "''"),
    ],
)
def test_bad_lines_of_lda_c(tmp_path, line, got):
    path = write(tmp_path / "x.ldac", f"1 0:1\n{line}\n1 1:1\n")
    with pytest.raises(ValueError, match=naming("x.ldac:2:", "word:count", "format=")) as error:
        read_lda_c(path, None)
    assert got in str(error.value)


def test_word_id_beyond_the_vocabulary_in_lda_c(tmp_path):
    path = write(tmp_path / "x.ldac", "1 0:1\n0\n2 1:1 4:2\n1 3:1\n")
    with pytest.raises(ValueError, match=naming("x.ldac", "3", "0", "4")):
        read_lda_c(path, WORDS)


@pytest.mark.parametrize(
    ("line", "number"),
    [("3 2 -4", 5), ("3 5 1", 5), ("3 0 1", 5), ("4 1 1", 5), ("3 2", 5), ("3 2 1.5", 5)],
)
def test_bad_lines_of_uci(tmp_path, line, number):
    path = write(tmp_path / "docword.txt", f"3\n4\n2\n1 1 2\n{line}\n")
    with pytest.raises(
        ValueError, match=rf"docword\.txt:{number}: expected 'document word count' .*To mend it: "
    ):
        read_uci(path, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3\n4\n2\n2 1 2\n1 1 1\n", r"docword\.txt:5: expected lines sorted by document"),
        (
            "3\n4\n5\n1 1 2\n",
            r"expected 5 entries, as line 3 says, got 1. To mend it: the file is cut short",
        ),
        ("3\nfour\n5\n1 1 2\n", r"docword\.txt:2: expected a whole number, got 'four'"),
        ("3\n", r"docword\.txt:2: expected a whole number, got ''"),
        ("", r"docword\.txt:1: expected a whole number"),
    ],
)
def test_bad_uci_files(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_uci(write(tmp_path / "docword.txt", text), None)


def test_uci_vocabulary_of_the_wrong_length(tmp_path):
    path = write(tmp_path / "docword.txt", uci())
    with pytest.raises(ValueError, match=naming("docword.txt", "4 words", "3 words")):
        read_uci(path, WORDS[:3])


def matrix_market(counts):
    file = io.BytesIO()
    scipy.io.mmwrite(file, scipy.sparse.csr_matrix(counts))
    return file.getvalue().decode()


@pytest.mark.parametrize(
    ("read", "text"), [(read_uci, uci), (read_lda_c, lda_c), (read_matrix_market, matrix_market)]
)
def test_truncated_gzip(tmp_path, read, text):
    path = write(tmp_path / "x.gz", text(np.random.default_rng(0).poisson(3, (300, 40))))
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ValueError, match=naming("x.gz:", "a truncated or")):
        read(path, None)


@pytest.mark.parametrize("cut", [10, 300])
def test_truncated_npz(tmp_path, cut):
    scipy.sparse.save_npz(tmp_path / "x.npz", scipy.sparse.csr_matrix(COUNTS))
    (tmp_path / "x.npz").write_bytes((tmp_path / "x.npz").read_bytes()[:-cut])
    with pytest.raises(ValueError, match=r"x\.npz: expected a whole \.npz file"):
        read_npz(tmp_path / "x.npz", None)


def test_npz_of_something_else(tmp_path):
    np.savez(tmp_path / "x.npz", weights=np.ones(3))
    with pytest.raises(
        ValueError, match=r"got the arrays weights\. To mend it: save the counts by scipy"
    ):
        read_npz(tmp_path / "x.npz", None)


@pytest.mark.parametrize("bad", [-1.0, 0.5, np.nan])
def test_bad_counts_in_matrices(tmp_path, bad):
    matrix = scipy.sparse.csr_matrix(np.array([[1.0, bad], [0, 2]]))
    scipy.sparse.save_npz(tmp_path / "x.npz", matrix)
    with pytest.raises(ValueError, match=naming("x.npz:", "counts", "got the", "To mend it")):
        read_npz(tmp_path / "x.npz", None)
    if np.isfinite(bad):
        scipy.io.mmwrite(tmp_path / "x.mtx", matrix)
        with pytest.raises(ValueError, match=naming("x.mtx:", "counts", "got the", "To mend it")):
            read_matrix_market(tmp_path / "x.mtx", None)


def test_bad_csr_arrays(tmp_path):
    np.savez(tmp_path / "x.npz", indptr=[0, 2], indices=[0, 1], counts=[1, 2, 3])
    with pytest.raises(
        ValueError, match=r"expected as many indices as counts, got 2 indices, 3 counts"
    ):
        read_npz(tmp_path / "x.npz", None)
    np.savez(tmp_path / "x.npz", indptr=[0, 2], indices=[0, 9], counts=[1, 2])
    with pytest.raises(ValueError, match=naming("x.npz:", "0", "3", "9")):
        read_npz(tmp_path / "x.npz", WORDS)


def test_truncated_matrix_market(tmp_path):
    scipy.io.mmwrite(tmp_path / "x.mtx", scipy.sparse.csr_matrix(COUNTS))
    lines = (tmp_path / "x.mtx").read_text().splitlines(keepends=True)
    with pytest.raises(ValueError, match=naming("x.mtx:", "MatrixMarket")):
        read_matrix_market(write(tmp_path / "x.mtx", "".join(lines[:-1])), None)


def test_missing_files_are_named(tmp_path):
    for read in (read_lda_c, read_uci, read_matrix_market, read_npz):
        with pytest.raises(ValueError, match="nowhere"):
            read(tmp_path / "nowhere", None)
    with pytest.raises(ValueError, match=naming("words.txt:", "No such")):
        read_lda_c(write(tmp_path / "x.ldac", "1 0:1\n"), tmp_path / "words.txt")
