"""Corpora as Parquet shards, which any program can write and `vijax.data.prepare` does.

A shard is a Parquet file with a row for each document; a corpus is one shard, or a folder of shards
in the order of their names:

    ids      list of integers: word ids from 0, each once
    counts   list of integers: how often each occurs, 1 or more
    title    string: name of the document, for reports (may be missing)
    text     string: its beginning, for reports (may be missing)

Words are in vocabulary.txt, one per line, line i (from 0) being word i. `read_shards` makes a
corpus of all shards; `vijax.data.shards` reads them by row groups as a fit needs them."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.data.corpora.build import CorpusBuilder
from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.checks import (
    check_vocab_size,
    check_word_ids,
    fail,
    integer_counts,
    listed,
    whole_numbers,
)
from vijax.data.reading.files import check_regular, parsing, read_vocabulary
from vijax.data.reading.parquet_values import check_num_rows, check_row_groups
from vijax.data.reading.store import (
    REMEDY,
    WHOLE,
    from_parquet,
    is_address,
    no_parquet,
    open_parquet,
    parquet_files,
    read_folder_text,
    shard_paths,
)
from vijax.extras import require_extra
from vijax.files import local_path

ROWS = 8192
"""Documents that are read at a time."""
PAIRS = ("ids", "counts")
STRINGS = {"title": "titles", "text": "texts"}
"""Columns of strings, and their names in a corpus."""
BEGUN = "preparing.json"
"""File of a folder while its shards are made."""
DONE = "prepared.json"
"""File of a folder whose shards are complete."""


def is_prepared(folder: Path) -> bool:
    """True if `vijax.data.prepare` has made the shards of a folder, or begun to."""
    return any((folder / name).is_file() for name in (BEGUN, DONE))


def holds_counts(path: Path) -> bool:
    """True if a Parquet file, or the first of a folder, has a column of word ids and one of
    counts."""
    first = shard_paths(path)[0]
    check_regular(first)
    with parsing(first, WHOLE, REMEDY):
        return set(PAIRS) <= set(require_extra("pyarrow.parquet").read_schema(first).names)


def read_shards(
    source: str | Path, vocabulary: str | Path | Sequence[str] | None, folder: Path | None = None
) -> Corpus:
    """A corpus from shards, with all their documents.

    Args:
      source: a Parquet file, or a folder of them, on this machine or at an address that fsspec
        knows.
      vocabulary: words, or a file of them; by default vocabulary.txt in the folder, or
        NAME.vocab.txt beside a file.
      folder: folder to write the corpus to as memory-mapped files; None makes it in memory.

    Raises:
      DataError: shards are missing; or, with the file: a file is damaged or lacks a column, lists
        have different lengths, an id is beyond the vocabulary, a count is negative, a value is
        missing.
    """
    files = list_shards(source)
    words = read_shard_words(source, vocabulary)
    first: set[str] = set()
    with CorpusBuilder(folder) as builder:
        for file in files:
            for row, batch in record_batches(file):
                names = set(batch.schema.names)
                first = first or names
                _check_names(names, first, file)
                lengths, ids, counts = read_pairs(batch, file, row)
                if len(ids):
                    vocab_size = len(words) if words is not None else int(ids.max()) + 1
                    check_word_ids(ids, vocab_size, file)
                    check_vocab_size(int(ids.max()) + 1, file)
                builder.add(lengths, ids, counts)
                for name in first & set(STRINGS):
                    strings = (text or "" for text in batch.column(name).to_pylist())
                    builder.add_strings(STRINGS[name], strings)
        return builder.finish(words)


def _check_names(names: set[str], first: set[str], file: str) -> None:
    """Checks that a file has the columns of pairs, and those of the first file."""
    lacking = sorted({*PAIRS, *(first & set(STRINGS))} - names)
    if not lacking:
        return
    has_pairs = set(PAIRS) <= first
    expected = f"the columns {listed(sorted(first if has_pairs else PAIRS))}"
    remedy = "prepare shards of the texts (vijax prepare)"
    if has_pairs:
        remedy = "write all shards with the same columns"
    raise fail(file, expected, f"no {listed(lacking)}", remedy)


def read_shard_words(
    source: str | Path, vocabulary: str | Path | Sequence[str] | None = None
) -> tuple[str, ...] | None:
    """The words of shards: the given ones, else those beside the shards, else None."""
    if vocabulary is not None or not is_address(source):
        path = local_path(source)
        beside = path / "vocabulary.txt" if path.is_dir() else path.with_suffix(".vocab.txt")
        return read_vocabulary(vocabulary, beside)
    folder, _, name = str(source).rpartition("/")
    if name.endswith(".parquet"):
        text = read_folder_text(folder, f"{name.removesuffix('.parquet')}.vocab.txt")
    else:
        text = read_folder_text(source, "vocabulary.txt")
    if text is None:
        return None
    return tuple(line.rstrip("\r") for line in text.removesuffix("\n").split("\n"))


def list_shards(source: str | Path) -> list[str]:
    """The Parquet files of a corpus.

    Raises:
      DataError: there are none, `vijax.data.prepare` was stopped before all were made, or some were
        lost since.
    """
    files = parquet_files(source)
    if files == [str(source)]:
        return files
    record = read_folder_text(source, DONE)
    if record is not None:
        with parsing(Path(f"{source}/{DONE}"), "the JSON that vijax.data.prepare writes", REMEDY):
            number = json.loads(record)["shards"]
        if number != len(files):
            remedy = "prepare the texts again, in a new folder"
            raise fail(source, f"{number} shards", f"{len(files)}", remedy)
    elif read_folder_text(source, BEGUN) is not None:
        remedy = "call vijax prepare (vijax.data.prepare) again, as before: it goes on where it was"
        raise fail(source, "shards that are all there", "some, whose making was stopped", remedy)
    if not files:
        raise no_parquet(source)
    return files


def record_batches(file: str | Path) -> Iterator[tuple[int, Any]]:
    """The Arrow record batches of a shard, each with the number of its first row, counted from 1.
    Raises DataError if the shard has fewer or more rows than it says."""
    row = 1
    for batch in _store_batches(str(file)) if is_address(file) else _disk_batches(Path(file)):
        yield row, batch
        row += batch.num_rows
    num_rows = from_parquet(str(file), lambda opened: opened.metadata.num_rows)
    check_num_rows(row - 1, num_rows, file)


def _disk_batches(file: Path) -> Iterator[Any]:
    check_regular(file)
    with parsing(file, WHOLE, REMEDY), open_parquet(file) as opened:
        yield from opened.iter_batches(ROWS, columns=_check_columns(file, opened))


def _store_batches(file: str) -> Iterator[Any]:
    """The batches row group by row group; a group is read again if the store does not answer."""
    for i in range(from_parquet(file, lambda opened: opened.metadata.num_row_groups)):
        yield from from_parquet(file, functools.partial(_row_group, file, i))


def _row_group(file: str, number: int, opened: Any) -> list[Any]:
    return list(opened.iter_batches(ROWS, [number], _check_columns(file, opened)))


def _check_columns(file: str | Path, opened: Any) -> list[str]:
    names = [name for name in opened.schema_arrow.names if name in (*PAIRS, *STRINGS)]
    check_row_groups(opened, names, file)
    return names


def read_pairs(batch: Any, file: str | Path, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs per document, word ids and counts of a record batch; int64 columns are not copied."""
    values = []
    lengths = []
    for name in PAIRS:
        column = batch.column(name)
        _check_lists(column, f"{file}, column {name!r}", row)
        values.append(column.flatten().to_numpy(zero_copy_only=False))
        lengths.append(np.diff(column.offsets.to_numpy()))
    if (unequal := lengths[0] != lengths[1]).any():
        place = int(np.argmax(unequal))
        location = f"{file}, row {row + place}"
        actual = f"{lengths[0][place]} ids and {lengths[1][place]} counts"
        raise fail(location, "as many ids as counts", actual, "write one count for each id")
    ids = whole_numbers(values[0], np.int64, f"{file}, ids")
    return lengths[0], ids, integer_counts(values[1], f"{file}, counts")


def _check_lists(column: Any, where: str, row: int) -> None:
    """Checks that a column, whose first row is `row`, has a list without missing values in each."""
    if not hasattr(column, "offsets") or not hasattr(column, "flatten"):
        remedy = "write a list for each document"
        raise fail(where, "lists of whole numbers", str(column.type), remedy)
    if column.null_count or column.flatten().null_count:
        has_null = (entry is None or None in entry for entry in column.to_pylist())
        place = row + next(i for i, is_bad in enumerate(has_null) if is_bad)
        where = f"{where}, row {place}"
        raise fail(where, "a list of whole numbers", "a missing value", "write an empty list")
