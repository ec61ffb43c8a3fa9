"""Data that used to be altered without a word: cells dropped, ids merged, missing values taken for
classes."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from tests.naming import naming
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import ConfigError, load_config
from vijax.app.plan.plan import Plan
from vijax.app.sources.listing import Data
from vijax.data import read
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.select import split_over_seen_words
from vijax.data.held_out import held_out_generator
from vijax.data.read import COUNT_FORMATS
from vijax.data.reading.checks import MAX_DOCUMENTS, MAX_WORDS, DataError
from vijax.data.tables.table_files import read_table
from vijax.data.texts.text import TextSettings

CONFIGS = Path(__file__).parents[2] / "configs"
ALL = TextSettings(min_df=1, max_df=1.0, stop_words=None)


def saved(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


# --- text -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "x.csv",
            "title,text\na,apple banana,zzz\n",
            r"x\.csv:2: expected 2 cells.*'zzz'.*hold commas",
        ),
        ("x.tsv", "title\ttext\na\tapple\tzzz\n", r"x\.tsv:2: expected 2 cells.*hold tabs"),
        ("x.csv", "text\none, two\n", r"x\.csv:2: expected 1 cells, as in the header, got 2"),
        ("x.csv", "text,text\na,b\n", r"x\.csv:1: .*distinct names, got 'text' more than once"),
        (
            "x.csv",
            "title;text\na\n",
            r"x\.csv:1: expected cells divided by commas, got one divided by semicolons",
        ),
        (
            "x.csv",
            "I liked it very much\nso did I\n",
            r"x\.csv:1: expected the name of a column.*\.txt",
        ),
        ("x.txt", "a\0b\0c\0", r"x\.txt:1: expected text, got the character NUL.*'utf-16'"),
        ("x.jsonl", '{"text": ' + "[" * 100_000 + "}", r"x\.jsonl:1: expected a JSON object"),
    ],
)
def test_what_would_be_lost_of_a_text_file_is_an_error(name, text, message, tmp_path):
    with pytest.raises(DataError, match=message):
        read(saved(tmp_path / name, text), text=ALL)


def test_what_is_not_read_of_a_file_is_noted(tmp_path):
    path = saved(tmp_path / "x.csv", "id,title,text,stars\n1,a,apple plum,5\n2,b,pear plum,\n")
    corpus = read(path, text=ALL)
    assert corpus.notes == (
        "The column 'title' names the documents.",
        "Not part of the text: the columns 'id', 'stars'.",
    )
    assert corpus.titles == ("a", "b")
    assert split_over_seen_words(corpus, 1, 0)[0].notes == corpus.notes
    assert read(path, text=ALL, folder=tmp_path / "disk").notes == corpus.notes
    assert (
        "taken for a header"
        in read(saved(tmp_path / "y.csv", "review\nplum\npear\n"), text=ALL).notes[0]
    )
    assert (
        read(saved(tmp_path / "z.csv", "text,\nplum,\n"), text=ALL).num_tokens == 1
    )  # empty cells too many


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_encodings_are_decoded_before_lines_are_told_apart(encoding, tmp_path):
    words = "Ċapple plum\nčapple Ċ"  # whose bytes hold 0x0A and 0x0D
    texts = [f"{words}{n}".replace("\n", " ") for n in range(3)]
    files = {
        "x.txt": "\n".join(texts),
        "x.jsonl": "\n".join(json.dumps({"text": text}, ensure_ascii=False) for text in texts),
        "x.csv": "\n".join(["text", *texts]),
    }
    for name, content in files.items():
        corpus = read(saved(tmp_path / name, content, encoding), encoding=encoding, text=ALL)
        assert tuple(corpus.texts) == tuple(texts)
    if encoding in ("utf-16", "utf-32"):  # with a mark
        assert tuple(read(tmp_path / "x.txt", text=ALL).texts) == tuple(texts)
        return
    with pytest.raises(DataError, match=r"x\.txt:[12]: expected .*utf-16"):
        read(tmp_path / "x.txt", text=ALL)


def test_the_place_of_a_bad_byte_is_right_beyond_the_first_block(tmp_path, monkeypatch):
    monkeypatch.setattr("vijax.data.reading.files.BLOCK_BYTES", 7)
    (tmp_path / "x.txt").write_bytes("zwölf\nfünf\n".encode() + b"abc \xff\n")
    with pytest.raises(
        DataError,
        match=naming("x.txt", "3", "17"),
    ):
        read(tmp_path / "x.txt", text=ALL)


def test_halves_of_letters_are_replaced_and_noted(tmp_path):
    rows = [{"text": "apple plum"}, {"text": "cut \ud83d plum", "title": "\ud83d!"}]
    path = saved(tmp_path / "x.jsonl", "\n".join(map(json.dumps, rows)))
    for folder in (None, tmp_path / "disk"):
        corpus = read(path, text=ALL, folder=folder)
        assert (corpus.texts[1], corpus.titles[1]) == ("cut \ufffd plum", "\ufffd!")
        assert any("replaced" in note and "x.jsonl:2" in note for note in corpus.notes)
    assert read(["cut \ud83d plum", "plum"], text=ALL).texts[0] == "cut \ufffd plum"
    with pytest.raises(DataError, match=naming("vocabulary:", "1")):
        Corpus.from_counts([[1, 1]], ["a", "b\udc00"])


# --- counts ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"indices": [0, 0.5]}, r"x\.npz, indices: expected whole numbers .*, got 0\.5 at place 1"),
        ({"indices": [0, np.nan]}, r"x\.npz, indices: expected whole numbers .*, got nan"),
        ({"indptr": [0, 1.5, 2]}, r"x\.npz, indptr: expected whole numbers"),
        (
            {"indptr": [0, 3, 2]},
            r"x\.npz, indptr: expected offsets that begin at 0 and never fall, got 2 at place 2",
        ),
        ({"indptr": 2}, r"x\.npz, indptr: expected one axis"),
        ({"indptr": []}, r"x\.npz, indptr: expected one document"),
        ({"counts": [1j, 2]}, r"x\.npz: expected arrays of numbers or text"),
        ({"indices": [0, 2**32 + 5]}, r"x\.npz: expected a vocabulary of at most 10,000,000 words"),
    ],
)
def test_arrays_that_make_no_counts(arrays, message, tmp_path):
    np.savez(
        tmp_path / "x.npz", **{"indptr": [0, 1, 2], "indices": [0, 1], "counts": [1, 2], **arrays}
    )
    with pytest.raises(DataError, match=message):
        read(tmp_path / "x.npz")


def test_a_matrix_of_scipy_is_checked_before_scipy_uses_it(tmp_path):
    matrix = scipy.sparse.csr_matrix(np.eye(3, dtype=int))
    matrix.indices[1] = 10**9
    scipy.sparse.save_npz(tmp_path / "x.npz", matrix)
    with pytest.raises(DataError, match=naming("x.npz:", "matrix")):
        read(tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "x.dat",
            "1 0:1\n1 2000000000:1\n",
            rf"x\.dat:2, word id 2000000000: expected .* at most {MAX_WORDS:,} words",
        ),
        ("x.dat", "1 0:1\n1 0:4294967297\n", r"x\.dat:2: expected M word:count"),
        ("x.dat", f"1 0:1\n1 {'9' * 40}:1\n", r"x\.dat:2: expected M word:count"),
        ("x.dat", f"1 0:1\n1 {'9' * 5000}:1\n", r"x\.dat:2: expected M word:count"),
        (
            "docword.txt",
            "1\n2000000000\n1\n1 1 1\n",
            rf"docword\.txt:2: expected .* at most {MAX_WORDS:,} words",
        ),
        (
            "docword.txt",
            "2000000000\n1\n1\n1 1 1\n",
            rf"docword\.txt:1: expected at most {MAX_DOCUMENTS:,} documents",
        ),
        (
            "docword.txt",
            f"1\n1\n1\n1 1 {'9' * 40}\n",
            r"docword\.txt:4: expected 'document word count'",
        ),
    ],
)
def test_sizes_that_cannot_be_are_refused_before_memory_is_taken(name, text, message, tmp_path):
    with pytest.raises(DataError, match=message):
        read(saved(tmp_path / name, text))


def test_word_ids_beyond_int32_do_not_wrap_around():
    with pytest.raises(DataError, match=naming("indices:", "2147483647", "4294967297")):
        Corpus([0, 1], np.array([2**32 + 1]), [1])
    with pytest.raises(DataError, match="at most 2147483647, got 4294967295, summed"):
        Corpus.from_counts(
            scipy.sparse.coo_matrix(([2**31 - 1, 2**31 - 1, 1], ([0, 0, 0], [1, 1, 1])))
        )


# --- what is no file ------------------------------------------------------------------------------
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_pipes_are_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "x.txt")
    with pytest.raises(DataError, match=naming("x.txt:", "a named pipe")):
        read(tmp_path / "x.txt")
    with pytest.raises(DataError, match=naming("x.txt:", "a named pipe")):
        read(tmp_path)
    os.mkfifo(tmp_path / "t.csv")
    with pytest.raises(DataError, match=naming("t.csv:", "a named pipe")):
        read_table(str(tmp_path / "t.csv"))
    with pytest.raises(DataError, match="expected a file, got a device"):
        read("/dev/null", format="text-lines")


def test_paths_that_name_nothing(tmp_path):
    (tmp_path / "loop.txt").symlink_to(tmp_path / "loop.txt")
    with pytest.raises(DataError, match="expected a file or folder, got"):
        read(tmp_path / "loop.txt")
    with pytest.raises(DataError, match="pass a list of them"):
        read("a whole text, passed as if it were a path " * 200)
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "gone.txt").symlink_to(tmp_path / "nowhere")
    with pytest.raises(DataError, match=naming("gone.txt:", "No such")):
        read(tmp_path / "texts")


def test_a_want_of_memory_is_told_with_the_size_of_the_file(tmp_path, monkeypatch):
    def hungry(path, *others):
        raise MemoryError("Unable to allocate 7 TiB")

    path = saved(tmp_path / "x.dat", "1 0:1\n")
    monkeypatch.setitem(COUNT_FORMATS, "lda-c", hungry)
    with pytest.raises(DataError, match=naming("x.dat:", "6 bytes", "7 TiB")):
        read(path)


# --- what a run is resumed on ---------------------------------------------------------------------
def test_held_out_data_count_in_the_checksum(tmp_path):
    """A word of a held-out document, and a number of a held-out row."""

    def checksum(name, model, overrides, lines):
        path = saved(tmp_path / name, "\n".join(lines))
        config = load_config(
            CONFIGS / f"{model}.toml", ("data.held_out=0.2", *overrides), str(path)
        )
        data = load_data(config)
        return Plan(config, data).fingerprint, Plan(config, Data(data.train, None)).fingerprint

    texts, rows = ["apple plum pear apple"] * 30, [f"{n},{n * n % 7}" for n in range(30)]
    # Of data.split_seed = 0, the first of the order are held out.
    out = int(held_out_generator(0).permutation(30)[0])
    for name, model, overrides, header, lines, other in (
        ("x.csv", "lda_svi", ("max_df=1.0",), "text", texts, "apple plum pear pear"),
        ("t.csv", "gmm_full", (), "a,b", rows, "0.5,0.25"),
    ):
        changed = [other if n == out else line for n, line in enumerate(lines)]
        before, after = (
            checksum(name, model, overrides, [header, *each]) for each in (lines, changed)
        )
        assert before[0] != after[0]
        assert before[1] == after[1]


# --- settings -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "override",
    [
        "model.name=[1]",
        f"data.held_out={10**400}",
        "model.num_topics=1" + "0" * 5000,
        "data.held_out=" + "[" * 3000,
    ],
)
def test_settings_too_deep_or_too_large_are_no_settings(override):
    with pytest.raises(ConfigError, match="expected"):
        load_config(CONFIGS / "lda_svi.toml", (override,))


def test_a_file_of_settings_nested_too_deep_is_named(tmp_path):
    with pytest.raises(ConfigError, match=naming("deep.toml", "1", "20 parts")):
        load_config(saved(tmp_path / "deep.toml", "a=" + "[" * 5000 + "]" * 5000))
