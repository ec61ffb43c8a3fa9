"""Building a corpus piece by piece, in memory or straight on disk."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int

from vijax.data.corpora import storage
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.csr import canonical
from vijax.data.reading.checks import check_num_documents, check_vocab_size, integer_counts
from vijax.data.reading.notes import Notes


class CorpusBuilder:
    """Documents are added in order, in blocks; `finish` gives the corpus.

    Args:
      folder: where the corpus grows as files, so that it may exceed memory; None keeps it in memory.
    """

    def __init__(self, folder: Path | None = None):
        self._store: _Memory | _Folder = _Memory() if folder is None else _Folder(folder)
        self._lengths: list[np.ndarray] = [np.zeros(0, np.int64)]
        self._num_documents, self._largest = 0, -1
        self._pending: list[np.ndarray] = [np.zeros(0, np.int64)] * 3
        self.notes = Notes()

    def add(
        self, lengths: Int[np.ndarray, " docs"], indices: Int[np.ndarray, " pairs"], counts: Int[np.ndarray, " pairs"]
    ) -> None:
        """Appends whole documents: pairs per document, and their word ids and counts (any order, repeats summed)."""
        rows = np.repeat(np.arange(len(lengths)), lengths)
        self._append(len(lengths), rows, indices, counts)

    def add_pairs(
        self,
        documents: Int[np.ndarray, " pairs"],
        indices: Int[np.ndarray, " pairs"],
        counts: Int[np.ndarray, " pairs"],
    ) -> None:
        """Appends pairs sorted by document; the last document may go on in the next call, skipped ones are empty."""
        pairs = [np.concatenate(both) for both in zip(self._pending, (documents, indices, counts), strict=True)]
        if len(pairs[0]):
            last = int(pairs[0][-1])
            whole = int(np.searchsorted(pairs[0], last))
            self._append_pairs(last - self._num_documents, [part[:whole] for part in pairs])
            self._pending = [part[whole:] for part in pairs]

    def add_strings(self, name: str, strings: Iterable[str]) -> None:
        """Appends a string per document to `titles` or `texts`."""
        self._store.extend(name, strings)

    def finish(self, vocabulary: Sequence[str] | None, vocab_size: int | None = None, num_documents: int = 0) -> Corpus:
        """The corpus; documents up to `num_documents` that never came are empty."""
        last = int(self._pending[0][-1]) + 1 if len(self._pending[0]) else 0
        check_num_documents(max(last, num_documents), "corpus")
        number = max(last, num_documents) - self._num_documents
        if number > 0:
            self._append_pairs(number, self._pending)
        if vocab_size is None:
            vocab_size = len(vocabulary) if vocabulary is not None else self._largest + 1
        indptr = np.concatenate([[0], np.concatenate(self._lengths)]).cumsum()
        return self._store.finish(indptr, vocabulary, vocab_size, self.notes.texts())

    def _append_pairs(self, number: int, pairs: list[np.ndarray]) -> None:
        self._append(number, pairs[0] - self._num_documents, pairs[1], pairs[2])

    def _append(self, number: int, rows: np.ndarray, indices: np.ndarray, counts: np.ndarray) -> None:
        """Appends `number` documents, whose rows count from 0."""
        self._largest = max(self._largest, int(indices.max(initial=-1)))
        check_vocab_size(self._largest + 1, "word ids")
        counts = integer_counts(counts, "counts")
        lengths, indices, counts = canonical(rows, indices, counts, (number, max(self._largest + 1, 1)))
        self._lengths.append(lengths)
        self._num_documents += number
        self._store.append(indices.astype(np.int32), counts)


class _Memory:
    """Where the parts of a corpus in memory wait to be joined."""

    def __init__(self) -> None:
        self._indices: list[np.ndarray] = [np.zeros(0, np.int32)]
        self._counts: list[np.ndarray] = [np.zeros(0, np.int32)]
        self._strings: dict[str, list[str]] = {}

    def append(self, indices: np.ndarray, counts: np.ndarray) -> None:
        self._indices.append(indices)
        self._counts.append(counts)

    def extend(self, name: str, strings: Iterable[str]) -> None:
        self._strings.setdefault(name, []).extend(strings)

    def finish(self, indptr: np.ndarray, vocabulary: Sequence[str] | None, vocab_size: int, notes: tuple) -> Corpus:
        indices, counts = np.concatenate(self._indices), np.concatenate(self._counts)
        titles, texts = self._strings.get("titles"), self._strings.get("texts")
        return Corpus(indptr, indices, counts, vocabulary, vocab_size, titles, texts, notes)


class _Folder:
    """The files of a corpus, open at their ends."""

    def __init__(self, folder: Path):
        storage.clear(folder)
        self._folder = folder
        self._indices = storage.ArrayWriter(folder / "indices.npy", np.int32)
        self._counts = storage.ArrayWriter(folder / "counts.npy", np.int32)
        self._strings: dict[str, storage.LinesWriter] = {}

    def append(self, indices: np.ndarray, counts: np.ndarray) -> None:
        self._indices.append(indices)
        self._counts.append(counts)

    def extend(self, name: str, strings: Iterable[str]) -> None:
        if name not in self._strings:
            self._strings[name] = storage.LinesWriter(self._folder / f"{name}.txt")
        self._strings[name].extend(strings)

    def finish(self, indptr: np.ndarray, vocabulary: Sequence[str] | None, vocab_size: int, notes: tuple) -> Corpus:
        self._indices.close()
        self._counts.close()
        for lines in self._strings.values():
            lines.close()
        np.save(self._folder / "indptr.npy", indptr)
        storage.finish(self._folder, len(indptr) - 1, vocab_size, vocabulary, notes)
        return Corpus(**storage.load(self._folder, trusted=True))
