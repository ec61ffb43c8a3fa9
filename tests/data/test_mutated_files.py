"""Damaged files: whatever bytes a reader meets, it reads them or raises its own error, which names
the file."""

import gzip
import io
import json

import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vijax.data import read
from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.checks import DataError
from vijax.data.tables.table import Choice
from vijax.data.tables.table_files import read_table
from vijax.data.texts.text import TextSettings

COUNTS = np.array([[2, 0, 1, 0], [0, 4, 1, 3], [0, 0, 0, 5]])
TEXTS = ["apple plum, apple", 'pear "pear" plum', "größer \U0001f600 plum"]


def written(write):
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def arrow(columns):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    return written(lambda file: pq.write_table(pa.table(columns), file))


def quoted(texts):
    return ['"' + text.replace('"', '""') + '"' for text in texts]


MATRIX = scipy.sparse.csr_matrix(COUNTS)
TABLE = "id,a,b,y\n007,1.5,2,0\n7,-3e1,4,1\nx,,6.25,1\n"
CORPORA = {
    "x.txt": "\n".join(TEXTS).encode(),
    "u16.txt": "\n".join(TEXTS).encode("utf-16"),
    "x.txt.gz": gzip.compress("\n".join(TEXTS).encode(), mtime=0),
    "x.jsonl": "\n".join(
        json.dumps({"text": text, "title": "cut \ud83d"}) for text in TEXTS
    ).encode(),
    "x.csv": "\n".join(["title,text", *(f"t,{text}" for text in quoted(TEXTS))]).encode(),
    "x.tsv": "\n".join(["text\tid", *(f"{text}\t1" for text in quoted(TEXTS))]).encode(),
    "x.dat": b"2 0:2 2:1\n3 1:4 2:1 3:3\n1 3:5\n",
    "docword.txt": b"3\n4\n6\n1 1 2\n1 3 1\n2 2 4\n2 3 1\n2 4 3\n3 4 5\n",
    "x.mtx": written(lambda file: scipy.io.mmwrite(file, MATRIX)),
    "csr.npz": written(
        lambda file: np.savez(
            file, indptr=MATRIX.indptr, indices=MATRIX.indices, counts=MATRIX.data
        )
    ),
    "scipy.npz": written(lambda file: scipy.sparse.save_npz(file, MATRIX, compressed=False)),
    "packed.npz": written(lambda file: scipy.sparse.save_npz(file, MATRIX.tocsc())),
    "x.parquet": None,
}
OF_TEXTS = [
    name for name in CORPORA if name.endswith((".txt", ".txt.gz", "jsonl", "csv", "tsv", "parquet"))
]
OF_TEXTS.remove("docword.txt")
TABLES = {
    "t.csv": TABLE.encode(),
    "t.tsv": TABLE.replace(",", "\t").encode(),
    "t.csv.gz": gzip.compress(TABLE.encode(), mtime=0),
    "t.npy": written(lambda file: np.save(file, np.arange(8.0).reshape(4, 2))),
    "t.npz": written(
        lambda file: np.savez(
            file, id=np.array(["u", "v", "w"]), a=np.eye(3), y=np.array([0, 1, 1])
        )
    ),
    "t.parquet": None,
}
FOLDER = (
    "meta.json",
    "indptr.npy",
    "indices.npy",
    "counts.npy",
    "vocabulary.txt",
    "titles.txt",
    "titles.offsets.npy",
)


def original(name):
    if name == "x.parquet":
        return arrow({"text": TEXTS, "title": ["a", None, "c"], "stars": [1, 2, 3]})
    if name == "t.parquet":
        return arrow({"id": ["007", "7", None], "a": [1.5, None, 2.0], "y": [0, 1, 1]})
    return {**CORPORA, **TABLES}[name]


@st.composite
def damage(draw, data):
    """One to three of: bytes changed, taken away, put in, or a piece written twice; numbers grow,
    too."""
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(len(data) - 1, 0)))
        length = draw(st.integers(1, 12))
        kind = draw(st.sampled_from(["flip", "cut", "end", "insert", "again", "digits"]))
        piece = data[place : place + length]
        if kind == "flip":
            bit = draw(st.integers(0, 7))
            data = (
                data[:place]
                + bytes(b ^ (1 << bit) for b in data[place : place + 1])
                + data[place + 1 :]
            )
        elif kind == "cut":
            data = data[:place] + data[place + length :]
        elif kind == "end":
            data = data[:place]
        elif kind == "insert":
            data = data[:place] + draw(st.binary(min_size=1, max_size=length)) + data[place:]
        elif kind == "again":
            data = data[:place] + piece * draw(st.integers(2, 5)) + data[place + length :]
        else:
            data = data[:place] + b"9" * draw(st.integers(1, 40)) + data[place:]
    return data


def reads_or_says_why(path, attempt):
    try:
        attempt()
    except DataError as error:
        message = str(error)
    else:
        return
    assert str(path) in message
    assert "To mend it: " in message


ANY_WORD = TextSettings(min_df=1, max_df=1.0, stop_words=None)


def read_damaged(name, data, folder):
    path = folder / name
    path.write_bytes(data)
    if name in TABLES:
        reads_or_says_why(
            path, lambda: read_table(str(path), Choice(group="id" if name != "t.npy" else None))
        )
        reads_or_says_why(
            path, lambda: read_table(str(path), Choice(target="y", kind="binary", missing=True))
        )
    else:
        encoding = "utf-16" if name.startswith("u16") else "utf-8"
        settings = {"text": ANY_WORD} if name in OF_TEXTS else {}
        reads_or_says_why(path, lambda: read(path, encoding=encoding, **settings))


def check_readers(name, folder, examples):
    data = original(name)

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(damage(data))
    def run(damaged):
        read_damaged(name, damaged, folder)

    run()


def check_folder(name, folder, examples):
    corpus = Corpus.from_counts(COUNTS, ["a", "b", "c", "d"], titles=["one", "zwölf", "three"])
    data = (corpus.save(folder / "corpus") / name).read_bytes()

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(damage(data))
    def run(damaged):
        corpus.save(folder / "corpus")
        (folder / "corpus" / name).write_bytes(damaged)
        reads_or_says_why(folder / "corpus", lambda: used(Corpus.open(folder / "corpus")))

    run()


def used(corpus):
    """What a run does with a corpus must not fail after it was opened."""
    corpus.word_counts()
    return corpus.titles and corpus.titles[0], corpus[[0]].to_scipy().toarray()


@pytest.mark.parametrize("name", [*CORPORA, *TABLES])
def test_readers_of_damaged_files_raise_their_own_error(name, tmp_path):
    check_readers(name, tmp_path, 25)


@pytest.mark.parametrize("name", FOLDER)
def test_damaged_corpus_folders_raise_their_own_error(name, tmp_path):
    check_folder(name, tmp_path, 15)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*CORPORA, *TABLES])
def test_readers_of_damaged_files_at_length(name, tmp_path):
    check_readers(name, tmp_path, 150)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDER)
def test_damaged_corpus_folders_at_length(name, tmp_path):
    check_folder(name, tmp_path, 80)
