"""Titles that are numbers, and files of a folder of texts that are no texts: nothing is left out
without a word."""

import json
import os

import pytest

from vijax import data

ALL = data.TextSettings(min_df=1, max_df=1.0)
TEXTS = ["the cat sat", "dogs bark loud", "stocks fell"]


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        ([5000, 5001, 5002], ("5000", "5001", "5002")),
        ([1.5, 2.0, 12345678901234567890], ("1.5", "2", "12345678901234567890")),
        (["a", None, "c"], ("a", "x.jsonl:2", "c")),
        ([["a"], "b", "c"], ("x.jsonl:1", "b", "c")),
    ],
    ids=["whole", "numbers", "none", "a list"],
)
def test_titles_of_lines_of_json(tmp_path, titles, expected):
    rows = [json.dumps({"title": t, "text": x}) for t, x in zip(titles, TEXTS, strict=True)]
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    corpus = data.read(tmp_path / "x.jsonl", column="text", text=ALL)
    assert tuple(corpus.titles) == expected


def test_a_folder_says_what_it_leaves_out(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("alpha beta gamma")
    (folder / "B.TXT").write_text("upper case words")
    (folder / "x.md").write_text("markdown words")
    (tmp_path / "outside.txt").write_text("words from elsewhere")
    os.symlink(tmp_path / "outside.txt", folder / "link.txt")
    corpus = data.read(folder, text=ALL)
    assert sorted(corpus.titles) == ["B.TXT", "a.txt", "link.txt"]
    notes = " ".join(map(str, corpus.notes))
    assert "Files that do not end in .txt are left out: 'x.md'" in notes
    assert "Links lead to texts outside of the folder: 'link.txt'" in notes


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_titles_in_memory_are_those_of_a_file(library, tmp_path):
    """One that lacks is the number of the document, and not the word None."""
    package = pytest.importorskip(library)
    table = package.DataFrame({"title": [7.0, None, 9.5], "text": TEXTS})
    assert tuple(data.read(table, text=ALL).titles) == ("7", "document 2", "9.5")
    whole = package.DataFrame({"title": [5000, 5001, 5002], "text": TEXTS})
    assert tuple(data.read(whole, text=ALL).titles) == ("5000", "5001", "5002")
