"""`read` makes a corpus from a file, a folder, an address or an object in memory."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.arrays import to_array
from vijax.data.corpora import count_files
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.count_tables import are_counts, check_no_counts, corpus_of_counts
from vijax.data.corpora.ratings import are_ratings, is_ratings, ratings, read_ratings
from vijax.data.corpora.select import with_vocabulary
from vijax.data.corpora.shards import (
    holds_counts,
    is_prepared,
    list_shards,
    read_shard_words,
    read_shards,
)
from vijax.data.corpora.storage import is_corpus_folder
from vijax.data.reading.cache import cached_corpus
from vijax.data.reading.checks import Notes, fail, nearest
from vijax.data.reading.download import fetch, is_url
from vijax.data.reading.files import (
    SHEETS,
    check_regular,
    naming,
    open_bytes,
    path_kind,
    read_vocabulary,
)
from vijax.data.reading.store import describe_files, is_address, shard_paths
from vijax.data.reading.suited import Formats, check_settings
from vijax.data.schema.cells import column_names, column_values, is_library_table
from vijax.data.schema.row_names import RowNames
from vijax.data.tables.formats import USUAL, Dialect, Separator
from vijax.data.texts import text_files
from vijax.data.texts.text import DEFAULT_SETTINGS, NO_TEXT, TextSettings, corpus_from_texts
from vijax.data.texts.text_files import (
    RECORDS,
    TITLE_COLUMN,
    Texts,
    find_column,
    read_title,
)
from vijax.files import local_path

VERSION = 3  # of the readers: a corpus that another version put into the cache is read again
IN_MEMORY_BYTES = 1 << 28  # larger files become memory-mapped corpora in the cache folder
OBJECTS = (
    "counts (documents, words), a pair (counts, vocabulary), a list of texts, a column or table "
    "of texts, or a table of counts with a column for each word"
)

COUNT_FORMATS: dict[str, Callable[..., Corpus]] = {
    "npz": count_files.read_npz,
    "matrix-market": count_files.read_matrix_market,
    "lda-c": count_files.read_lda_c,
    "uci": count_files.read_uci,
    "shards": read_shards,
    "ratings": read_ratings,
}
TEXT_FORMATS: dict[str, Callable[..., Texts]] = {
    "text-folder": text_files.text_folder,
    "text-lines": text_files.text_lines,
    **{kind: functools.partial(text_files.column_texts, kind) for kind in RECORDS},
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
    **dict.fromkeys(SHEETS, "sheet"),
}
KNOWN = (
    "a folder of .txt or .parquet files, or one made by Corpus.save; .txt (one document per "
    "line), .jsonl, .csv, .tsv, .parquet, .xlsx, .xls, .ods; LDA-C (.ldac, .dat), UCI "
    "docword*.txt, MatrixMarket (.mtx), SciPy sparse .npz, .npz with indptr, indices and counts; "
    "a table with columns of users and items (`vijax.data.ratings`); most also as .gz"
)


def read(
    source: Any,
    *,
    vocabulary: str | Path | Sequence[str] | None = None,
    column: str | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
    separator: Separator | None = None,
    sheet: str | None = None,
    text: TextSettings = DEFAULT_SETTINGS,
    sha256: str | None = None,
    folder: str | Path | None = None,
) -> Corpus:
    """A corpus from a path, a URL or an object in memory.

    Args:
      source: a path or an http(s) address of one of the formats below; an address of shards that
        fsspec knows, such as s3://bucket/folder, which are copied into the cache, memory-mapped;
        "docstrings", the corpus of the docstrings of installed packages; or in memory a (documents,
        words) matrix of counts (NumPy or SciPy), a pair (counts, vocabulary), a list of strings, a
        pandas, Arrow or polars column or table of texts, a table of counts with a column for each
        word, by its name, or a `Corpus`. `vijax.data.ratings` reads a table with columns of users
        and items.
      vocabulary: words, or a file of one word per line. For counts, the words of the columns; for
        text and for a corpus that has words, the words to keep, such as those of a fitted model.
      column: the column of a table that has the text; by default the column `text`, or the only
        one.
      format: the format of a file, if its name does not tell it: npz, matrix-market, lda-c, uci,
        text-folder, text-lines, jsonl, csv, parquet, sheet, shards, ratings.
      encoding: encoding of text files; UTF-16 and UTF-32 are recognised by their byte order mark.
      separator: the letter between the cells of a csv: ",", ";", "tab" or "|"; by default found in
        its first lines.
      sheet: the sheet of a spreadsheet; the first by default.
      text: settings by which text becomes words.
      sha256: SHA-256 that the file at a URL must have; by default that of its first download.
      folder: folder to write the corpus to as memory-mapped files, for a corpus larger than memory.
        By default files above 256 MB go to a folder in the cache and are found there the next time,
        and smaller ones stay in memory.

    Raises:
      ValueError: the message names the file and line, or the argument, what was expected, what was
        found and what to do.

    >>> read(["the cat sat", "the dog ran", "a cat and a dog"]).vocabulary
    ('cat', 'dog', 'ran', 'sat')
    """
    if isinstance(source, str) and source == "docstrings" and not Path(source).exists():
        from vijax.data.texts.docstrings import docstring_corpus

        return _relabel(docstring_corpus(), read_vocabulary(vocabulary))
    folder = None if folder is None else Path(folder)
    if not isinstance(source, str | Path):
        corpus = _read_object(source, read_vocabulary(vocabulary), column, text, folder)
        index: Any = getattr(source, "index", None)
        is_pandas = index is not None and hasattr(index, "equals")
        if folder is None and is_pandas and len(index) == corpus.num_documents:
            return dataclasses.replace(corpus, index=index)
        return corpus
    if sha256 is not None and not is_url(source):
        check_settings(["sha256"], Formats("", ""), source)
    if is_url(vocabulary):
        vocabulary = fetch(str(vocabulary))
    if is_address(source):
        return _read_address(str(source), vocabulary, format, folder)
    path = fetch(str(source), sha256) if is_url(source) else local_path(source)
    dialect = Dialect(encoding, separator, sheet=sheet)
    with naming(path):
        return _read_path(path, vocabulary, column, format, dialect, text, folder)


def _read_path(path, vocabulary, column, format, dialect, text, folder) -> Corpus:
    kind = path_kind(path)
    if kind == "none":
        remedy = "check the path; to pass the texts themselves, pass a list of them"
        raise fail(path, "a file or folder", "none", remedy)
    if kind == "a folder" and is_corpus_folder(path):
        return _relabel(Corpus.open(path), read_vocabulary(vocabulary))
    format = format or guess_format(path, column)
    _check_arguments(path, format, column, dialect, text)

    def build(folder: Path | None) -> Corpus:
        if format == "ratings":
            return read_ratings(path, vocabulary, folder, dialect=dialect)
        if format in COUNT_FORMATS:
            return COUNT_FORMATS[format](path, vocabulary, folder)
        notes = Notes()
        texts = TEXT_FORMATS[format](path, column, dialect, notes)
        return corpus_from_texts(texts, text, read_vocabulary(vocabulary), folder, str(path), notes)

    if format not in COUNT_FORMATS | TEXT_FORMATS:
        remedy = nearest(format, COUNT_FORMATS | TEXT_FORMATS)
        raise fail("format", "a known format", repr(format), remedy)
    if folder is not None or sum(size for _, size, _ in _files(path)) <= IN_MEMORY_BYTES:
        return build(folder)
    key = (VERSION, _files(path), format, read_vocabulary(vocabulary), column, dialect, text)
    return cached_corpus(path.name, key, build)


def _check_arguments(
    path: Path, format: str, column: str | None, dialect: Dialect, text: TextSettings
) -> None:
    """Raises a DataError for an argument that tells how files of another format are written."""
    is_set = {
        "column": column is not None,
        "encoding": dialect.encoding != USUAL.encoding,
        "separator": dialect.separator is not None,
        "sheet": dialect.sheet is not None,
        "text": text != DEFAULT_SETTINGS,
    }
    file_format = format
    if format == "ratings":
        file_format = ENDINGS.get(Path(path.name.lower().removesuffix(".gz")).suffix, "parquet")
    if format in COUNT_FORMATS or format in TEXT_FORMATS:
        arguments = [name for name, was_set in is_set.items() if was_set]
        check_settings(arguments, Formats(file_format, format), path)


def _read_address(
    source: str,
    vocabulary: str | Path | Sequence[str] | None,
    format: str | None,
    folder: Path | None,
) -> Corpus:
    if format not in (None, "shards"):
        actual = f"the format {format!r}"
        raise fail(source, "shards", actual, "fetch the file, or prepare shards of it")
    if folder is not None:
        return read_shards(source, vocabulary, folder)
    stamps = describe_files(list_shards(source))
    words = read_shard_words(source, vocabulary)
    key = (VERSION, source, stamps, words)
    return cached_corpus(Path(source).stem, key, functools.partial(read_shards, source, words))


def open_texts(
    source: Any, column: str | None, format: str | None, dialect: Dialect, notes: Notes
) -> tuple[Texts, Any]:
    """Pairs (title, text) of a source of texts, one by one, and a key that identifies the source.

    Raises:
      DataError: the source holds counts instead of texts; and as `read` does.
    """
    if not isinstance(source, str | Path):
        return iter(source), "pairs"
    path = fetch(str(source)) if is_url(source) else local_path(source)
    with naming(path):
        format = format or guess_format(path, column)
        if format not in TEXT_FORMATS:
            remedy = f"pass format=; {nearest(format, TEXT_FORMATS)}"
            raise fail(source, "texts", f"the format {format!r}", remedy)
        texts = TEXT_FORMATS[format](path, column, dialect, notes)
        return texts, (_files(path), format, column, dialect)


def guess_format(path: Path, column: str | None = None) -> str:
    """The format of a file or folder, from its name, the first lines of .txt, and the columns of
    tables. A table with a named `column` of texts is a table of texts.

    Raises:
      DataError: `path` does not exist, or its format is unknown.
    """
    if path.is_dir():
        if is_prepared(path):
            return "shards"
        if not shard_paths(path):
            return "text-folder"
        if holds_counts(path):
            return "shards"
        return "ratings" if column is None and is_ratings(path) else "parquet"
    check_regular(path)
    name = path.name.lower().removesuffix(".gz")
    ending = ENDINGS.get(Path(name).suffix)
    if ending == "text-lines" and _looks_like_uci(path):
        return "uci"
    if ending is None:
        actual = f"the ending {Path(name).suffix!r}"
        raise fail(path, KNOWN, actual, "rename the file, or pass format=")
    if ending == "parquet" and holds_counts(path):
        return "shards"
    is_table = ending in ("csv", "parquet", "sheet")
    if is_table and column is None and is_ratings(path):
        return "ratings"
    return ending


def _looks_like_uci(path: Path) -> bool:
    with open_bytes(path) as file:
        head = [file.readline().split() for _ in range(4)]
    return [len(parts) for parts in head] == [1, 1, 1, 3] and all(
        part.isdigit() for parts in head for part in parts
    )


def _files(path: Path) -> list[tuple[str, int, int]]:
    """Names, sizes and times of a file, or of the files of a folder: they change if a file does."""
    files = [*text_files.text_paths(path), *shard_paths(path)] if path.is_dir() else [path]
    for file in files:
        check_regular(file)
    return [(str(file.resolve()), file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _relabel(corpus: Corpus, words: tuple[str, ...] | None) -> Corpus:
    if words is None or words == corpus.vocabulary:
        return corpus
    return with_vocabulary(corpus, words)


def _read_object(
    source: Any,
    vocabulary: tuple[str, ...] | None,
    column: str | None,
    text: TextSettings,
    folder: Path | None,
) -> Corpus:
    if isinstance(source, Corpus):
        return _relabel(source, vocabulary)
    if column is None and are_ratings(source):
        return ratings(source, vocabulary=vocabulary, folder=folder)
    if column is None and are_counts(source):
        return _relabel(corpus_of_counts(source, words=vocabulary), vocabulary)
    if is_library_table(source):
        notes = Notes()
        texts = _table(source, column, notes)
        return corpus_from_texts(texts, text, vocabulary, folder, notes=notes)
    if isinstance(source, tuple) and len(source) == 2 and getattr(source[0], "ndim", None) == 2:
        return Corpus.from_counts(source[0], tuple(source[1]))
    if getattr(source, "ndim", None) == 2:
        return Corpus.from_counts(source, vocabulary)
    if not isinstance(source, Sequence | np.ndarray):
        raise fail("source", OBJECTS, type(source).__name__, "convert it to one of these")
    if len(source) == 0:
        raise fail("source", "one document or more", "none", "check where the documents come from")
    if isinstance(source[0], str) or not isinstance(source[0], Sequence | np.ndarray):
        return corpus_from_texts(_number_texts(source), text, vocabulary, folder)
    try:
        counts = to_array(list(source))
    except ValueError as error:
        actual = f"rows that make no matrix ({error})"
        raise fail("source", OBJECTS, actual, "give all rows one length") from error
    return Corpus.from_counts(counts, vocabulary)


def _number_texts(texts: Any) -> Texts:
    for place, text in enumerate(texts):
        title = f"document {place + 1}"
        if not isinstance(text, str):
            actual = f"{text!r} ({type(text).__name__}), at place {place}, counted from 0"
            raise fail(f"texts, {title}", "text", actual, NO_TEXT)
        yield title, text


def _table(source: Any, column: str | None, notes: Notes) -> Texts:
    """(title, text) pairs of a table or a single column."""
    names = column_names(source)
    if names is None:
        return _number_texts(column_values(source))
    if column is None:
        check_no_counts(source)
    texts = column_values(source[find_column(column, names, "source", notes)])
    numbered = _number_texts(texts)
    if TITLE_COLUMN not in names:
        return numbered
    titles = map(read_title, column_values(source[TITLE_COLUMN]))
    pairs = zip(titles, numbered, strict=True)
    return ((title or number, text) for title, (number, text) in pairs)


def load_bag_of_words(name: str) -> Corpus:
    """The corpus NAME of the data folder: NAME.npz, with its vocabulary in NAME.vocab.txt.

    The environment variable VIJAX_DATA names the folder; by default it is ../shared/data beside
    the project.

    Raises:
      DataError: there is no data folder, or no corpus of this name in it (the message lists its
        corpora).
    """
    data_folder = os.environ.get("VIJAX_DATA")
    folder = Path(__file__).resolve().parents[3] / "shared" / "data"
    if data_folder:
        folder = Path(data_folder)
    if not folder.is_dir():
        expected = "a folder with NAME.npz and NAME.vocab.txt"
        remedy = "set it to the data folder's path"
        raise fail("VIJAX_DATA", expected, f"no folder at {folder}", remedy)
    corpora = sorted(path.name.removesuffix(".vocab.txt") for path in folder.glob("*.vocab.txt"))
    if name not in corpora:
        raise fail("name", f"a corpus of {folder}", repr(name), nearest(name, corpora))
    return count_files.read_npz(folder / f"{name}.npz", None)


# --- columns beside the texts ---------------------------------------------------------------------
SideColumns = Mapping[str, Sequence[Any]]
"""Columns by name: a value for each document, as the source has it."""


class FileSideColumns(dict[str, Sequence[Any]]):
    """Columns beside the texts of a file.

    Attributes:
      format: format of the file.
      rows: the names of its rows in messages; None for a folder of files.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]], format: str, rows: RowNames | None):
        super().__init__(columns)
        self.format = format
        self.rows = rows


WRITTEN_BY_PEOPLE = ("csv", "sheet")
"""Formats that may have words for missing cells."""


def read_side_columns(
    source: Any, column: str | None, format: str | None = None, dialect: Dialect = USUAL
) -> SideColumns:
    """The columns of a source of documents besides their texts and titles.

    The arguments are those of an earlier call of `read`, which reported its errors."""
    if not isinstance(source, str | Path):
        names = column_names(source)
        if names is None:
            return {}
        return {name: column_values(source[name]) for name in _side_names(names, column)}
    path = fetch(str(source)) if is_url(source) else local_path(source)
    if path_kind(path) not in ("a file", "a folder") or is_corpus_folder(path):
        return {}
    with naming(path):
        kind = format or guess_format(path, column)
        if kind in RECORDS:
            return _read_records(path, kind, column, dialect)
        return {}


def _read_records(path: Path, kind: str, column: str | None, dialect: Dialect) -> SideColumns:
    """Reads the side columns of a file of records.

    Lines of JSON may have different names. A value that has parts is written as JSON."""
    names, _, rows = RECORDS[kind](path, dialect)
    numbered_rows = list(rows(_side_names(names, column)))
    records = [row for *_, row in numbered_rows]
    numbers = [number for _, number, _ in numbered_rows]
    row_names = RowNames(np.array(numbers, int), "line" if kind in ("csv", "jsonl") else "row")
    later_names = [name for row in records for name in row] if kind == "jsonl" else []
    text_column = find_column(column, names, str(path))
    wanted = _side_names(list(dict.fromkeys([*names, *later_names])), text_column)
    missing = "" if kind == "csv" else None
    columns = {name: [_plain_value(row.get(name, missing)) for row in records] for name in wanted}
    return FileSideColumns(columns, kind, None if path.is_dir() else row_names)


def _plain_value(value: Any) -> Any:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    return value


def _side_names(names: list[str], column: str | None) -> list[str]:
    text = find_column(column, names, "source")
    return [name for name in names if name and name not in (text, TITLE_COLUMN)]
