"""`read`: a corpus from whatever holds one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vijax.data.corpora import count_files, matrix_market
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.storage import is_corpus_folder
from vijax.data.reading.cache import cached_corpus
from vijax.data.reading.checks import fail, nearest
from vijax.data.reading.download import fetch, is_url
from vijax.data.reading.files import open_bytes, read_vocabulary
from vijax.data.reading.guards import SHEETS, check_regular, kind_of, naming
from vijax.data.reading.notes import Notes
from vijax.data.texts import text_files
from vijax.data.texts.text import DEFAULT_SETTINGS, TextSettings, corpus_from_texts
from vijax.data.texts.vocabulary import with_vocabulary

VERSION = 2  # of the readers: what older ones made is not taken from the cache
IN_MEMORY_BYTES = 1 << 28  # larger files become memory-mapped corpora in the cache folder

COUNT_FORMATS: dict[str, Callable[..., Corpus]] = {
    "npz": count_files.read_npz,
    "matrix-market": matrix_market.read_matrix_market,
    "lda-c": count_files.read_lda_c,
    "uci": count_files.read_uci,
}
TEXT_FORMATS: dict[str, Callable[..., text_files.Texts]] = {
    "text-folder": text_files.text_folder,
    "text-lines": text_files.text_lines,
    **{kind: functools.partial(text_files.column_texts, kind) for kind in text_files.RECORDS},
}
ENDINGS = {
    ".npz": "npz",
    ".mtx": "matrix-market",
    ".ldac": "lda-c",
    ".lda-c": "lda-c",
    ".dat": "lda-c",
    ".txt": "text-lines",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
KNOWN = (
    "a folder of .txt files, or one made by Corpus.save; .txt (one document per line), .jsonl, .csv, .tsv, .parquet; "
    "LDA-C (.ldac, .dat), UCI docword*.txt, MatrixMarket (.mtx), SciPy sparse .npz, .npz with indptr, indices and "
    "counts; most also as .gz"
)


def read(
    source: Any,
    *,
    vocabulary: str | Path | Sequence[str] | None = None,
    column: str | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    text: TextSettings = DEFAULT_SETTINGS,
    sha256: str | None = None,
    folder: str | Path | None = None,
) -> Corpus:
    """A corpus from a path, a URL or an object in memory.

    Args:
      source: a path or an http(s) address of one of the formats below; "docstrings", the corpus of the docstrings of
        installed packages; or in memory a (documents, words) matrix of counts (NumPy or SciPy), a pair (counts,
        vocabulary), a list of strings, a pandas, Arrow or polars column or table, a `Corpus`.
      vocabulary: words, or a file of one word per line. For counts, the words of the columns; for text and for a
        corpus that has words, the words to keep, such as those of a fitted model.
      column: where a table has its text; by default the column `text`, or the only one.
      format: what a file holds, when its name does not say: npz, matrix-market, lda-c, uci, text-folder, text-lines,
        jsonl, csv, parquet.
      encoding: of text files.
      text: how text becomes words.
      sha256: what the file at a URL must hash to; without it, the hash of the first download must stay.
      folder: where to write the corpus as memory-mapped files, for one larger than memory. By default files above
        256 MB go to a folder in the cache and are found there the next time, and smaller ones stay in memory.

    Raises:
      ValueError: naming the file and line, or the argument, what was expected, what came and what to do.

    >>> read(["the cat sat", "the dog ran", "a cat and a dog"]).vocabulary
    ('cat', 'dog', 'ran', 'sat')
    """
    if isinstance(source, str) and source == "docstrings" and not Path(source).exists():
        from vijax.data.texts.docstrings import docstring_corpus

        return _over(docstring_corpus(), vocabulary)
    if not isinstance(source, str | Path):
        from vijax.data.corpora.objects import read_object

        return read_object(source, _words(vocabulary), column, text, _path(folder))
    path = fetch(str(source), sha256) if is_url(source) else Path(source).expanduser()
    vocabulary = fetch(str(vocabulary)) if is_url(vocabulary) else vocabulary
    with naming(path):
        return _read_path(path, vocabulary, column, format, encoding, text, _path(folder))


def _read_path(path, vocabulary, column, format, encoding, text, folder) -> Corpus:
    kind = kind_of(path)
    if kind == "none":
        remedy = "check the path; to pass the texts themselves, pass a list of them"
        raise fail(path, "a file or folder", "none", remedy)
    if kind == "a folder" and is_corpus_folder(path):
        return _over(Corpus.open(path), vocabulary)
    format = format or guess_format(path)

    def build(folder: Path | None) -> Corpus:
        if format in COUNT_FORMATS:
            return COUNT_FORMATS[format](path, vocabulary, folder)
        notes = Notes()
        texts = TEXT_FORMATS[format](path, column, encoding, notes)
        return corpus_from_texts(texts, text, _words(vocabulary), folder, str(path), notes)

    if format not in COUNT_FORMATS | TEXT_FORMATS:
        raise fail("format", "a known format", repr(format), nearest(format, COUNT_FORMATS | TEXT_FORMATS))
    if folder is not None or sum(size for _, size, _ in _files(path)) <= IN_MEMORY_BYTES:
        return build(folder)
    key = (VERSION, _files(path), format, _words(vocabulary), column, encoding, text)
    return cached_corpus(path.name, key, build)


def guess_format(path: Path) -> str:
    """What a file or folder holds, by its name and, for .txt, by its first lines.

    Raises:
      ValueError: there is nothing at `path`, or its kind is not known.
    """
    if path.is_dir():
        return "text-folder"
    check_regular(path)
    name = path.name.lower().removesuffix(".gz")
    ending = ENDINGS.get(Path(name).suffix)
    if ending == "text-lines" and _looks_like_uci(path):
        return "uci"
    if ending is None:
        remedy = "save the sheet as CSV" if Path(name).suffix in SHEETS else "rename the file, or pass format="
        raise fail(path, KNOWN, f"the ending {Path(name).suffix!r}", remedy)
    return ending


def _looks_like_uci(path: Path) -> bool:
    with open_bytes(path) as file:
        head = [file.readline().split() for _ in range(4)]
    return [len(parts) for parts in head] == [1, 1, 1, 3] and all(part.isdigit() for parts in head for part in parts)


def _files(path: Path) -> list[tuple[str, int, int]]:
    """What tells whether a file, or the files of a folder, changed: names, sizes and times."""
    files = text_files.text_paths(path) if path.is_dir() else [path]
    for file in files:
        check_regular(file)
    return [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _over(corpus: Corpus, vocabulary) -> Corpus:
    words = _words(vocabulary)
    return corpus if words is None or words == corpus.vocabulary else with_vocabulary(corpus, words)


def _words(vocabulary) -> tuple[str, ...] | None:
    return read_vocabulary(vocabulary)


def _path(folder: str | Path | None) -> Path | None:
    return None if folder is None else Path(folder)
