"""Corpora as Parquet shards, which any program can write and `vijax.data.prepare` does.

A shard is a Parquet file with a row for each document; a corpus is one of them, or a folder of them in the order of
their names:

    ids      list of integers: word ids from 0, each once
    counts   list of integers: how often each occurs, 1 or more
    title    string: name of the document, for reports (may be missing)
    text     string: its beginning, for reports (may be missing)

Words are in vocabulary.txt, one per line, line i (from 0) being word i. They are read by record batches, so that memory
holds a few thousand documents at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.data.corpora.build import CorpusBuilder
from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.checks import check_vocab_size, check_word_ids, fail, integer_counts, listed, whole_numbers
from vijax.data.reading.files import check_regular, parsing, read_vocabulary
from vijax.extras import require_extra

ROWS = 8192
"""Documents that are read at a time."""
PAIRS = ("ids", "counts")
STRINGS = {"title": "titles", "text": "texts"}
"""Columns of strings, and what a corpus calls them."""
BEGUN, DONE = "preparing.json", "prepared.json"
"""Files of a folder whose shards are in the making, and are all there."""
WHOLE = "a whole Parquet file"
REMEDY = "fetch or write the file again"


def shard_paths(path: Path) -> list[Path]:
    """The Parquet files of a folder in the order of their names; a file is its own only shard."""
    return sorted(found for found in path.glob("*.parquet") if not found.is_dir()) if path.is_dir() else [path]


def is_prepared(folder: Path) -> bool:
    """Tells whether `vijax.data.prepare` has made the shards of a folder, or begun to."""
    return any((folder / name).is_file() for name in (BEGUN, DONE))


def holds_counts(path: Path) -> bool:
    """Tells whether a Parquet file, or the first of a folder, has a column of word ids and one of counts."""
    reader = require_extra("pyarrow.parquet")
    first = shard_paths(path)[0]
    check_regular(first)
    with parsing(first, WHOLE, REMEDY):
        return set(PAIRS) <= set(reader.read_schema(first).names)


def read_shards(path: Path, vocabulary: str | Path | Sequence[str] | None, folder: Path | None = None) -> Corpus:
    """A corpus from shards.

    Args:
      path: a Parquet file, or a folder of them.
      vocabulary: words, or a file of them; by default vocabulary.txt in the folder, or NAME.vocab.txt beside a file.
      folder: folder to write the corpus to as memory-mapped files; None makes it in memory.

    Raises:
      DataError: shards that are not all there; a file is damaged or lacks a column; lists of different lengths, an id
        beyond the vocabulary, a negative count, a missing value, with the file.
    """
    _check_whole(path)
    beside = path / "vocabulary.txt" if path.is_dir() else path.with_suffix(".vocab.txt")
    words = read_vocabulary(vocabulary, beside)
    builder, first = CorpusBuilder(folder), None
    for file in shard_paths(path):
        for row, batch in record_batches(file):
            names = set(batch.schema.names)
            first = first or names
            if lacking := sorted({*PAIRS, *(first & set(STRINGS))} - names):
                remedy = "write all shards with the same columns"
                raise fail(file, f"the columns {listed(sorted(first))}", f"no {listed(lacking)}", remedy)
            lengths, ids, counts = pairs_of(batch, file, row)
            if len(ids):
                check_word_ids(ids, len(words) if words is not None else int(ids.max()) + 1, file)
                check_vocab_size(int(ids.max()) + 1, file)
            builder.add(lengths, ids, counts)
            for name in first & set(STRINGS):
                builder.add_strings(STRINGS[name], (text or "" for text in batch.column(name).to_pylist()))
    return builder.finish(words)


def _check_whole(path: Path) -> None:
    """Raises a DataError at a folder in which `vijax.data.prepare` was stopped, or which has lost shards since."""
    if (path / DONE).is_file():
        with parsing(path / DONE, "the JSON that vijax.data.prepare writes", REMEDY):
            number = json.loads((path / DONE).read_text(encoding="utf-8"))["shards"]
        if number != len(shard_paths(path)):
            raise fail(
                path, f"{number} shards", f"{len(shard_paths(path))}", "prepare the texts again, in a new folder"
            )
    elif (path / BEGUN).is_file():
        remedy = "call vijax prepare (vijax.data.prepare) again, as before: it goes on where it was"
        raise fail(path, "shards that are all there", "some, whose making was stopped", remedy)


def record_batches(file: Path) -> Iterator[tuple[int, Any]]:
    """The Arrow record batches of a shard, with the number of the first row of each, from 1."""
    check_regular(file)
    reader = require_extra("pyarrow.parquet")
    with parsing(file, WHOLE, REMEDY), reader.ParquetFile(file) as opened:
        kept = [name for name in opened.schema_arrow.names if name in (*PAIRS, *STRINGS)]
        row = 1
        for batch in opened.iter_batches(ROWS, columns=kept):
            yield row, batch
            row += batch.num_rows


def pairs_of(batch: Any, file: Path, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs per document, word ids and counts of a record batch, without a copy where Arrow has int64."""
    found, lengths = [], []
    for name in PAIRS:
        column = batch.column(name)
        where = f"{file}, column {name!r}"
        if not hasattr(column, "offsets") or not hasattr(column, "flatten"):
            raise fail(where, "lists of whole numbers", str(column.type), "write a list for each document")
        if column.null_count or column.flatten().null_count:
            place = row + next(i for i, entry in enumerate(column.to_pylist()) if entry is None or None in entry)
            raise fail(f"{where}, row {place}", "a list of whole numbers", "a missing value", "write an empty list")
        found.append(column.flatten().to_numpy(zero_copy_only=False))
        lengths.append(np.diff(column.offsets.to_numpy()))
    if (unequal := lengths[0] != lengths[1]).any():
        place = int(np.argmax(unequal))
        got = f"{lengths[0][place]} ids and {lengths[1][place]} counts"
        raise fail(f"{file}, row {row + place}", "as many ids as counts", got, "write one count for each id")
    return lengths[0], whole_numbers(found[0], np.int64, f"{file}, ids"), integer_counts(found[1], f"{file}, counts")
