"""Documents in Parquet shards that need not fit in memory: read by row groups, from a disk or a
store."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.csr import Bags, bags, canonical, is_canonical, row_entries
from vijax.data.corpora.shards import (
    PAIRS,
    ROWS,
    STRINGS,
    list_shards,
    read_pairs,
    read_shard_words,
)
from vijax.data.reading.checks import check_vocab_size, check_word_ids, fail, listed
from vijax.data.reading.parquet_values import check_num_rows, check_room, check_row_groups
from vijax.data.reading.store import Block, describe_files, file_blocks, from_parquet
from vijax.data.schema.cells import column_names
from vijax.data.streams.permutation import Permutation
from vijax.data.streams.rows import HELD, SPLIT, Chosen, require_same_rows

PAIR_BYTES = 8
"""Bytes of a word with its count in memory."""
DOCUMENT_BYTES = 32
"""Bytes of the places of a document in memory."""


class Sizes(NamedTuple):
    """Sizes of documents, and the documents themselves if they may be held.

    Attributes:
      lengths: different words of each document.
      tokens: tokens of each document.
      words: tokens of each word.
      whole: all documents; None if they may not be held.
    """

    lengths: Int[np.ndarray, " docs"]
    tokens: Int[np.ndarray, " docs"]
    words: Int[np.ndarray, " vocab"]
    whole: Bags | None


@dataclasses.dataclass(frozen=True)
class Shards:
    """Documents in Parquet shards, as `shards` returns them.

    Attributes:
      blocks: the row groups of the files: file, number in it, first document of all, number of
        documents.
      vocabulary: the words, or None if only their ids are known.
      vocab_size: V.
      num_pairs: number of different words, summed over documents.
      held_bytes: bytes of documents that a fit holds at once.
      chosen: the part of the documents of the files that these are; None: all. They are numbered in
        the order of the files.
      new_ids: the id here of each word of the files, -1 if it is left out; None: unchanged.
    """

    blocks: tuple[Block, ...]
    vocabulary: tuple[str, ...] | None = dataclasses.field(repr=False)
    vocab_size: int
    num_pairs: int
    held_bytes: int
    chosen: Chosen | None = None
    new_ids: Int[np.ndarray, " words"] | None = dataclasses.field(
        default=None, repr=False, compare=False
    )

    @property
    def num_documents(self) -> int:
        """N, the number of documents."""
        if self.chosen is None:
            return self._num_in_files
        return self.chosen.stop - self.chosen.first

    @property
    def _num_in_files(self) -> int:
        return sum(block.count for block in self.blocks)

    @property
    def num_tokens(self) -> int:
        """Tokens in all documents; reads all of them once."""
        return int(self.sizes.tokens.sum(dtype=np.int64))

    def split(self, held_out: int, seed: int) -> tuple[Shards, Shards]:
        """All documents but `held_out`, and the held out ones, by a keyed permutation. The larger
        part takes 4 bytes a document.

        Raises:
          DataError: a part would be empty, or these documents are a part already.
        """
        total = self._num_in_files
        if not 0 < held_out < total or self.chosen is not None:
            expected = f"a part of {total:,} documents that leaves some on both sides"
            actual = f"held_out={held_out}" if self.chosen is None else "a part of them"
            raise fail("held_out", expected, actual, "change it")

        def part(first: int, stop: int) -> Shards:
            num_pairs = -(-self.num_pairs * (stop - first) // total)
            return dataclasses.replace(self, chosen=Chosen(seed, first, stop), num_pairs=num_pairs)

        return part(held_out, total), part(0, held_out)

    def select_words(self, words: Int[np.ndarray, " kept"]) -> Shards:
        """The documents over some of the words, whose ids ascend and become 0, 1, ... Other words
        are left out."""
        ids = np.full(self.vocab_size, -1, np.int32)
        ids[words] = np.arange(len(words), dtype=np.int32)
        vocabulary = self.vocabulary
        if vocabulary is not None:
            vocabulary = tuple(vocabulary[word] for word in words.tolist())
        if self.new_ids is not None:
            ids = np.where(self.new_ids < 0, np.int32(-1), ids[self.new_ids])
        return dataclasses.replace(self, vocabulary=vocabulary, vocab_size=len(words), new_ids=ids)

    @functools.cached_property
    def _numbers(self) -> Int[np.ndarray, " docs"]:
        """The numbers of these documents in the files, ascending."""
        if self.chosen is None:
            return np.arange(self._num_in_files)
        order = Permutation(self._num_in_files, (self.chosen.seed, SPLIT))
        is_chosen = np.zeros(self._num_in_files, bool)
        for first in range(self.chosen.first, self.chosen.stop, 1 << 20):
            stop = min(first + (1 << 20), self.chosen.stop)
            is_chosen[order(np.arange(first, stop))] = True
        dtype = np.int32 if self._num_in_files < 1 << 31 else np.int64
        return np.flatnonzero(is_chosen).astype(dtype)

    def _places_by_block(
        self, rows: Int[np.ndarray, " docs"] | None = None
    ) -> Iterator[tuple[Block, slice, np.ndarray]]:
        """The row groups that have documents, all of these documents or the ascending `rows`: for
        each the block, the slice of the documents, and their places in the block."""
        if self.chosen is None and rows is None:
            for b in self.blocks:
                yield b, slice(b.first, b.first + b.count), np.arange(b.count)
            return
        numbers: Any = rows
        if self.chosen is not None:
            numbers = self._numbers if rows is None else self._numbers[rows]
        ends = np.searchsorted(numbers, [block.first + block.count for block in self.blocks])
        begin = 0
        for block, end in zip(self.blocks, ends.tolist(), strict=True):
            if end > begin:
                yield block, slice(begin, end), np.asarray(numbers[begin:end]) - block.first
            begin = end

    def read(self, rows: Int[np.ndarray, " docs"]) -> Bags:
        """Some documents, whose numbers ascend: one reading of the row groups that have them."""
        parts = [_no_pairs()]
        for block, _, places in self._places_by_block(rows):
            parts.append(self._read_block(block, places))
        return bags(*_concatenate(parts))

    def take(self, rows: Int[np.ndarray, " docs"]) -> Corpus:
        """Some documents, whose numbers ascend, as a corpus with their titles and beginnings."""
        strings: dict[str, Any] = {}
        for block, _, places in self._places_by_block(rows):
            read = functools.partial(_strings, block, places)
            for name, texts in from_parquet(block.file, read).items():
                strings.setdefault(STRINGS[name], []).extend(texts)
        complete = {name: texts for name, texts in strings.items() if len(texts) == len(rows)}
        return Corpus(*self.read(rows)[:3], self.vocabulary, self.vocab_size, **complete)

    @functools.cached_property
    def sizes(self) -> Sizes:
        """The sizes of all documents, found by reading them once; the documents are held if they
        fit in `held_bytes`."""
        fits = PAIR_BYTES * self.num_pairs + DOCUMENT_BYTES * self.num_documents <= self.held_bytes
        lengths = np.zeros(self.num_documents, np.int32)
        tokens = np.zeros(self.num_documents, np.int32)
        words = np.zeros(self.vocab_size, np.int64)
        parts = [_no_pairs()]
        for block, rows, places in self._places_by_block():
            pairs = self._read_block(block, places)
            block_lengths, ids, counts = pairs
            lengths[rows] = block_lengths
            words += np.bincount(ids, counts, self.vocab_size).astype(np.int64)
            sums = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
            ends = np.cumsum(block_lengths)
            block_tokens = sums[ends] - sums[ends - block_lengths]
            tokens[rows] = np.minimum(block_tokens, np.iinfo(np.int32).max)
            if fits:
                parts.append(pairs)
        return Sizes(lengths, tokens, words, bags(*_concatenate(parts)) if fits else None)

    def contents(self) -> Iterator[np.ndarray]:
        """Arrays that identify the documents: what the files say of their row groups."""
        stamps = describe_files(list(dict.fromkeys(block.file for block in self.blocks)))
        if self.chosen is not None:
            stamps = [*stamps, repr(self.chosen)]
        yield np.frombuffer("\n".join(stamps).encode(), np.uint8)

    def _read_block(self, block: Block, chosen: Int[np.ndarray, " docs"]) -> tuple[np.ndarray, ...]:
        """Pairs per document, word ids and counts of some documents of a block, whose ascending
        numbers count from its first. In memory are these, and a few thousand others at a time."""

        def read(file: Any) -> tuple[np.ndarray, ...]:
            parts = [_no_pairs()]
            row = 0
            vocab_size = self.vocab_size if self.new_ids is None else len(self.new_ids)
            source = require_same_rows(file, block)
            for batch in source.iter_batches(ROWS, [block.number], list(PAIRS)):
                rows = chosen[slice(*np.searchsorted(chosen, [row, row + batch.num_rows]))] - row
                if len(rows):
                    pairs = read_pairs(batch, str(block), row + 1)
                    parts.append(_select_rows(_to_canonical(pairs, vocab_size, block), rows))
                row += batch.num_rows
            check_num_rows(row, block.count, block)
            if self.new_ids is None:
                return _concatenate(parts)
            return _renumber(_concatenate(parts), self.new_ids)

        return from_parquet(block.file, read)


def shards(
    source: str | Path,
    vocabulary: str | Path | Sequence[str] | None = None,
    *,
    held_bytes: int = HELD,
) -> Shards:
    """Documents in Parquet shards that need not fit in memory. `vijax.fit(alg, shards("folder"),
    batch_size=1000)` visits them in a random order, a new one in every pass; batches have one shape
    and a like share of long and short documents, as for a corpus.

    The shards are read once for the sizes of documents, of which 12 bytes a document are held. Then
    they are read a row group at a time, once for every `held_bytes` of documents to come: a pass
    over n times as many bytes reads the shards n times. Documents that fit are read once.
    `vijax.data.read` of the same shards makes a corpus of all.

    Args:
      source: a Parquet file, or a folder of them in the order of their names, as
        `vijax.data.prepare` and others write them (`vijax.data.corpora.shards`); also an address
        that fsspec knows, such as s3://bucket/folder. If a store does not answer, or gives less
        than was asked for, it is asked again three times.
      vocabulary: words, or a file of them; by default vocabulary.txt in the folder, or
        NAME.vocab.txt beside a file.
      held_bytes: bytes of documents that a fit holds at once; batches that lie ready come on top.

    Raises:
      DataError: no such file, missing shards, a missing column, or no documents.

    >>> import tempfile
    >>> from vijax.data import prepare
    >>> folder = prepare([("a", "The cat sat."), ("b", "A dog, a cat!")], tempfile.mkdtemp() + "/shards")
    >>> documents = shards(folder)
    >>> documents.num_documents, documents.vocabulary, documents.read(np.array([1])).indices
    (2, ('cat', 'dog', 'sat'), array([0, 1], dtype=int32))
    """
    files = list_shards(source)
    words = read_shard_words(source, vocabulary)
    blocks: list[Block] = []
    num_pairs = 0
    largest = list[int | None]([-1])
    for file in files:
        names, counts, pairs, largest_ids = from_parquet(file, functools.partial(_head, file))
        if missing := sorted(set(PAIRS) - set(names)):
            remedy = (
                "prepare shards of the texts (vijax prepare); see help(vijax.data.corpora.shards)"
            )
            raise fail(file, f"the columns {listed(missing)}", "none", remedy)
        first = blocks[-1].first + blocks[-1].count if blocks else 0
        blocks.extend(file_blocks(file, counts, first))
        num_pairs += pairs
        largest += largest_ids
    if not blocks:
        raise fail(source, "one document or more", "none", "check where the documents come from")
    if words is None and None in largest:
        actual = "none, and files that do not say which ids they have"
        raise fail(source, "words", actual, "give vocabulary=")
    size = len(words) if words is not None else max(x for x in largest if x is not None) + 1
    check_vocab_size(size, source)
    return Shards(tuple(blocks), words, size, num_pairs, held_bytes)


def is_arrow(item: Any) -> bool:
    """True for an Arrow table or record batch with the columns `ids` and `counts` of a shard."""
    is_from_arrow = type(item).__module__.partition(".")[0] == "pyarrow"
    return is_from_arrow and set(PAIRS) <= set(column_names(item) or ())


def corpus_from_arrow(item: Any, vocab_size: int, where: str) -> Corpus:
    """The documents of an Arrow table or record batch as a corpus over `vocab_size` words. Raises
    DataError as for shards, with the row, counted from 1."""
    parts = [_no_pairs()]
    row = 1
    for batch in item.to_batches() if hasattr(item, "to_batches") else [item]:
        parts.append(_to_canonical(read_pairs(batch, where, row), vocab_size, where))
        row += batch.num_rows
    return Corpus(*bags(*_concatenate(parts))[:3], vocab_size=vocab_size)


def _head(where: str, file: Any) -> tuple[list[str], list[int], int, list[int | None]]:
    """Facts of a file: its columns, the rows of each row group, the number of word ids, and the
    largest id of each row group, None if the file does not say it. Raises a DataError if there are
    more documents than memory holds."""
    number = file.metadata.num_rows
    check_room(DOCUMENT_BYTES * number, where, f"{number:,} documents")
    check_row_groups(file, PAIRS, where)
    groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
    id_columns = [
        column
        for group in groups
        for column in map(group.column, range(group.num_columns))
        if column.path_in_schema.split(".")[0] == PAIRS[0]
    ]
    statistics = [column.statistics for column in id_columns if column.num_values]
    largest = [
        int(x.max) if x is not None and x.has_min_max and isinstance(x.max, int) else None
        for x in statistics
    ]
    names = file.schema_arrow.names
    counts = [group.num_rows for group in groups]
    return names, counts, sum(column.num_values for column in id_columns), largest


def _to_canonical(
    pairs: tuple[np.ndarray, ...], vocab_size: int, where: Block | str
) -> tuple[np.ndarray, ...]:
    """Pairs with the words of each document in the order of their ids, each once."""
    lengths, ids, counts = pairs
    check_word_ids(ids, vocab_size, where)
    if not is_canonical(lengths, ids, counts):
        rows = np.repeat(np.arange(len(lengths)), lengths)
        lengths, ids, counts = canonical(rows, ids, counts, (len(lengths), vocab_size))
    return lengths.astype(np.int32), ids.astype(np.int32), counts


def _renumber(pairs: tuple[np.ndarray, ...], new_ids: np.ndarray) -> tuple[np.ndarray, ...]:
    """Pairs with new word ids, without the words whose new id is below 0."""
    lengths, ids, counts = pairs
    ids = new_ids[ids]
    num_in = np.concatenate([[0], np.cumsum(ids >= 0)])
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return np.diff(num_in[ends]).astype(np.int32), ids[ids >= 0], counts[ids >= 0]


def _strings(block: Block, chosen: Int[np.ndarray, " docs"], file: Any) -> dict[str, list[str]]:
    """Titles and beginnings of some documents of a block, if it has them."""
    names = [name for name in STRINGS if name in file.schema_arrow.names]
    strings: dict[str, list[str]] = {name: [] for name in names}
    row = 0
    for batch in file.iter_batches(ROWS, [block.number], names) if names else ():
        rows = chosen[slice(*np.searchsorted(chosen, [row, row + batch.num_rows]))] - row
        for name in names:
            strings[name] += [text or "" for text in batch.column(name).take(rows).to_pylist()]
        row += batch.num_rows
    return strings


def _select_rows(pairs: tuple[np.ndarray, ...], rows: np.ndarray) -> tuple[np.ndarray, ...]:
    documents = bags(*pairs)
    places, lengths = row_entries(documents.indptr, rows)
    return lengths.astype(np.int32), documents.indices[places], documents.counts[places]


def _no_pairs() -> tuple[np.ndarray, ...]:
    return tuple(np.zeros(0, np.int32) for _ in range(3))


def _concatenate(parts: list[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    return tuple(map(np.concatenate, zip(*parts, strict=True)))
