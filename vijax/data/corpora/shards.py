"""Corpora as Parquet shards, which any program can write and `vijax.data.prepare` does.

A shard is a Parquet file with a row for each document; a corpus is one of them, or a folder of them
in the order of their names:

    ids      list of integers: word ids from 0, each once
    counts   list of integers: how often each occurs, 1 or more
    title    string: name of the document, for reports (may be missing)
    text     string: its beginning, for reports (may be missing)

Words are in vocabulary.txt, one per line, line i (from 0) being word i. `read_shards` makes a
corpus of all of them; `vijax.data.shards` reads them by row groups as a fit needs them, and holds a
part."""

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
    shard_paths,
    text_beside,
)
from vijax.extras import require_extra

ROWS = 8192
"""Documents that are read at a time."""
PAIRS = ("ids", "counts")
STRINGS = {"title": "titles", "text": "texts"}
"""Columns of strings, and what a corpus calls them."""
BEGUN, DONE = "preparing.json", "prepared.json"
"""Files of a folder whose shards are in the making, and are all there."""


def is_prepared(folder: Path) -> bool:
    """Tells whether `vijax.data.prepare` has made the shards of a folder, or begun to."""
    return any((folder / name).is_file() for name in (BEGUN, DONE))


def holds_counts(path: Path) -> bool:
    """Tells whether a Parquet file, or the first of a folder, has a column of word ids and one of
    counts."""
    first = shard_paths(path)[0]
    check_regular(first)
    with parsing(first, WHOLE, REMEDY):
        return set(PAIRS) <= set(require_extra("pyarrow.parquet").read_schema(first).names)


def read_shards(
    source: str | Path, vocabulary: str | Path | Sequence[str] | None, folder: Path | None = None
) -> Corpus:
    """A corpus from shards, which holds all of them.

    Args:
      source: a Parquet file, or a folder of them, on this machine or at an address that fsspec
          knows.
      vocabulary: words, or a file of them; by default vocabulary.txt in the folder, or
          NAME.vocab.txt beside a file.
      folder: folder to write the corpus to as memory-mapped files; None makes it in memory.

    Raises:
      DataError: shards that are not all there; a file is damaged or lacks a column; lists of
        different lengths, an id beyond the vocabulary, a negative count, a missing value, with the
        file.
    """
    files = list_shards(source)
    words = read_shard_words(source, vocabulary)
    first: set[str] = set()
    with CorpusBuilder(folder) as builder:
        for file in files:
            for row, batch in record_batches(file):
                names = set(batch.schema.names)
                first = first or names
                if lacking := sorted({*PAIRS, *(first & set(STRINGS))} - names):
                    of_pairs = set(PAIRS) <= first
                    wanted = f"the columns {listed(sorted(first if of_pairs else PAIRS))}"
                    got = f"no {listed(lacking)}"
                    of_texts = "prepare shards of the texts (vijax prepare)"
                    raise fail(
                        file,
                        wanted,
                        got,
                        "write all shards with the same columns" if of_pairs else of_texts,
                    )
                lengths, ids, counts = read_pairs(batch, file, row)
                if len(ids):
                    check_word_ids(
                        ids, len(words) if words is not None else int(ids.max()) + 1, file
                    )
                    check_vocab_size(int(ids.max()) + 1, file)
                builder.add(lengths, ids, counts)
                for name in first & set(STRINGS):
                    builder.add_strings(
                        STRINGS[name], (text or "" for text in batch.column(name).to_pylist())
                    )
        return builder.finish(words)


def read_shard_words(
    source: str | Path, vocabulary: str | Path | Sequence[str] | None = None
) -> tuple[str, ...] | None:
    """The words of shards: those given, else those beside them; None where there are none."""
    if vocabulary is not None or not is_address(source):
        path = Path(source).expanduser()
        beside = path / "vocabulary.txt" if path.is_dir() else path.with_suffix(".vocab.txt")
        return read_vocabulary(vocabulary, beside)
    folder, _, name = str(source).rpartition("/")
    is_file = name.endswith(".parquet")
    beside_it = (
        (folder, f"{name.removesuffix('.parquet')}.vocab.txt")
        if is_file
        else (source, "vocabulary.txt")
    )
    said = text_beside(*beside_it)
    if said is None:
        return None
    return tuple(line.rstrip("\r") for line in said.removesuffix("\n").split("\n"))


def list_shards(source: str | Path) -> list[str]:
    """The Parquet files of a corpus. Raises a DataError where there are none, or where
    `vijax.data.prepare` was stopped at them, or where some were lost since."""
    files = parquet_files(source)
    if files == [str(source)]:
        return files
    done = text_beside(source, DONE)
    if done is not None:
        with parsing(Path(f"{source}/{DONE}"), "the JSON that vijax.data.prepare writes", REMEDY):
            number = json.loads(done)["shards"]
        if number != len(files):
            raise fail(
                source,
                f"{number} shards",
                f"{len(files)}",
                "prepare the texts again, in a new folder",
            )
    elif text_beside(source, BEGUN) is not None:
        remedy = "call vijax prepare (vijax.data.prepare) again, as before: it goes on where it was"
        raise fail(source, "shards that are all there", "some, whose making was stopped", remedy)
    if not files:
        raise no_parquet(source)
    return files


def record_batches(file: str | Path) -> Iterator[tuple[int, Any]]:
    """The Arrow record batches of a shard, with the number of the first row of each, from 1. Raises
    DataError: it has fewer or more rows than it says."""
    row = 1
    for batch in _store_batches(str(file)) if is_address(file) else _disk_batches(Path(file)):
        yield row, batch
        row += batch.num_rows
    check_num_rows(row - 1, from_parquet(str(file), lambda opened: opened.metadata.num_rows), file)


def _disk_batches(file: Path) -> Iterator[Any]:
    check_regular(file)
    with parsing(file, WHOLE, REMEDY), open_parquet(file) as opened:
        yield from opened.iter_batches(ROWS, columns=_check_columns(file, opened))


def _store_batches(file: str) -> Iterator[Any]:
    """A row group at a time, which a store that does not answer is asked for again."""
    for i in range(from_parquet(file, lambda opened: opened.metadata.num_row_groups)):
        yield from from_parquet(file, functools.partial(_row_group, file, i))


def _row_group(file: str, number: int, opened: Any) -> list[Any]:
    return list(opened.iter_batches(ROWS, [number], _check_columns(file, opened)))


def _check_columns(file: str | Path, opened: Any) -> list[str]:
    kept = [name for name in opened.schema_arrow.names if name in (*PAIRS, *STRINGS)]
    check_row_groups(opened, kept, file)
    return kept


def read_pairs(batch: Any, file: str | Path, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs per document, word ids and counts of a record batch, without a copy where Arrow has
    int64."""
    found = []
    lengths = []
    for name in PAIRS:
        column = batch.column(name)
        where = f"{file}, column {name!r}"
        if not hasattr(column, "offsets") or not hasattr(column, "flatten"):
            raise fail(
                where, "lists of whole numbers", str(column.type), "write a list for each document"
            )
        if column.null_count or column.flatten().null_count:
            place = row + next(
                i for i, entry in enumerate(column.to_pylist()) if entry is None or None in entry
            )
            raise fail(
                f"{where}, row {place}",
                "a list of whole numbers",
                "a missing value",
                "write an empty list",
            )
        found.append(column.flatten().to_numpy(zero_copy_only=False))
        lengths.append(np.diff(column.offsets.to_numpy()))
    if (unequal := lengths[0] != lengths[1]).any():
        place = int(np.argmax(unequal))
        got = f"{lengths[0][place]} ids and {lengths[1][place]} counts"
        raise fail(
            f"{file}, row {row + place}",
            "as many ids as counts",
            got,
            "write one count for each id",
        )
    return (
        lengths[0],
        whole_numbers(found[0], np.int64, f"{file}, ids"),
        integer_counts(found[1], f"{file}, counts"),
    )
