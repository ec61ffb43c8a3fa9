"""`CorpusBuilder` makes a corpus piece by piece, in memory or straight on disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int

from vijax.data.corpora import storage
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.csr import canonical
from vijax.data.reading.checks import Notes, check_num_documents, check_vocab_size, integer_counts


class CorpusBuilder:
    """A corpus in the making: documents are added in order, in blocks; `finish` returns the corpus.
    As a context it closes its files if an error ends it.

    Args:
      folder: folder in which the corpus grows as files, so that it may exceed memory; None keeps it
        in memory.
      kind: the class of the corpus.
    """

    def __init__(self, folder: Path | None = None, kind: type[Corpus] = Corpus):
        self._folder = folder
        self._kind = kind
        # Lists in memory, files on disk: both have `append` and `extend`.
        self._indices: Any = []
        self._counts: Any = []
        if folder is not None:
            storage.clear(folder)
            self._indices = storage.ArrayWriter(folder / "indices.npy", np.int32)
            self._counts = storage.ArrayWriter(folder / "counts.npy", np.int32)
        self._strings: dict[str, Any] = {}
        self._lengths: list[np.ndarray] = [np.zeros(0, np.int64)]
        self._num_documents = 0
        self._largest = -1
        self._pending: list[np.ndarray] = [np.zeros(0, np.int64)] * 3
        self.notes = Notes()
        self.language = ""

    def __enter__(self) -> CorpusBuilder:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None and self._folder is not None:
            for file in (self._indices, self._counts, *self._strings.values()):
                with contextlib.suppress(ValueError):  # it is closed already
                    file.close()

    def add(
        self,
        lengths: Int[np.ndarray, " docs"],
        indices: Int[np.ndarray, " pairs"],
        counts: Int[np.ndarray, " pairs"],
    ) -> None:
        """Appends whole documents: pairs per document, and their word ids and counts (any order,
        repeats summed)."""
        rows = self._num_documents + np.arange(len(lengths))
        self._append(len(lengths), np.repeat(rows, lengths), indices, counts)

    def add_pairs(
        self,
        documents: Int[np.ndarray, " pairs"],
        indices: Int[np.ndarray, " pairs"],
        counts: Int[np.ndarray, " pairs"],
    ) -> None:
        """Appends pairs sorted by document. The next call may continue the last document; documents
        without pairs are empty."""
        parts = zip(self._pending, (documents, indices, counts), strict=True)
        pairs = [np.concatenate(part) for part in parts]
        if len(pairs[0]):
            last = int(pairs[0][-1])
            stop = int(np.searchsorted(pairs[0], last))
            self._append(last - self._num_documents, *(part[:stop] for part in pairs))
            self._pending = [part[stop:] for part in pairs]

    def add_strings(self, name: str, strings: Iterable[str]) -> None:
        """Appends a string per document to `titles` or `texts`."""
        if name not in self._strings:
            if self._folder is None:
                self._strings[name] = []
            else:
                self._strings[name] = storage.LinesWriter(self._folder / f"{name}.txt")
        self._strings[name].extend(strings)

    def finish(
        self,
        vocabulary: Sequence[str] | None,
        vocab_size: int | None = None,
        num_documents: int = 0,
    ) -> Corpus:
        """The corpus; documents up to `num_documents` that were never added are empty."""
        last = int(self._pending[0][-1]) + 1 if len(self._pending[0]) else 0
        check_num_documents(max(last, num_documents), "corpus")
        if (number := max(last, num_documents) - self._num_documents) > 0:
            self._append(number, *self._pending)
        if vocab_size is None:
            vocab_size = len(vocabulary) if vocabulary is not None else self._largest + 1
        indptr = np.concatenate([[0], np.concatenate(self._lengths)]).cumsum()
        notes = self.notes.texts()
        language = self.language
        if self._folder is None:
            indices = np.concatenate([np.zeros(0, np.int32), *self._indices])
            counts = np.concatenate([np.zeros(0, np.int32), *self._counts])
            fields = {**self._strings, "notes": notes, "language": language}
            return self._kind(indptr, indices, counts, vocabulary, vocab_size, **fields)
        for file in (self._indices, self._counts, *self._strings.values()):
            file.close()
        np.save(self._folder / "indptr.npy", indptr)
        storage.finish(self._folder, len(indptr) - 1, vocab_size, vocabulary, notes, language)
        return self._kind(**storage.load(self._folder, trusted=True))

    def _append(
        self, number: int, rows: np.ndarray, indices: np.ndarray, counts: np.ndarray
    ) -> None:
        """Appends `number` documents; their numbers `rows` follow the documents so far."""
        self._largest = max(self._largest, int(indices.max(initial=-1)))
        check_vocab_size(self._largest + 1, "word ids")
        counts = integer_counts(counts, "counts")
        lengths, indices, counts = canonical(
            rows - self._num_documents, indices, counts, (number, max(self._largest + 1, 1))
        )
        self._lengths.append(lengths)
        self._num_documents += number
        self._indices.append(indices.astype(np.int32))
        self._counts.append(counts)
