"""A corpus: documents as bags of words, in memory or memory-mapped."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int

from vijax.arrays import to_array
from vijax.data.corpora import storage
from vijax.data.corpora.csr import canonical, row_blocks, row_entries, row_sums
from vijax.data.corpora.wording import OF_DOCUMENTS, Wording
from vijax.data.held_out import held_out_generator
from vijax.data.reading.checks import (
    check_num_documents,
    check_offsets,
    check_vocab_size,
    check_vocabulary,
    check_whole_letters,
    check_word_ids,
    fail,
    integer_counts,
    whole_numbers,
)
from vijax.data.reading.files import naming


@dataclasses.dataclass(frozen=True, eq=False)
class Corpus:
    """Documents as sparse rows of word counts.

    Document d holds the words `indices[indptr[d]:indptr[d+1]]`, unique and sorted, as often as
    `counts` says. The arrays may be memory maps, for a corpus larger than memory: their values are
    checked by `Corpus.open`, not here.

    Attributes:
      indptr: place at which each document starts; the last entry is the number of (document, word)
        pairs.
      indices: word ids from 0.
      counts: how often each word occurs, 1 or more.
      vocabulary: the words, or None if only their ids are known.
      vocab_size: V; by default (-1) the length of the vocabulary, or one more than the largest word
        id.
      titles: a name per document, for reports.
      texts: a short snippet per document, for reports.
      notes: remarks for the user, such as the number of empty documents.
      language: language whose stop words were left out; "" if unknown.
      covariates: numbers of each document that a model reads besides its words, as `vijax.stm`
        makes them.
      described_by: the mark of the formula and the training rows that made the covariates; "" if
        none did.
      index: the index of the pandas table that the documents were read from, by which the rows of
        other tables are matched; None for other documents, and for saved ones.

    Raises:
      ValueError: the arrays do not make a corpus; the message says which one, and what to do.

    >>> corpus = Corpus.from_counts([[2, 0, 1], [0, 0, 3]], vocabulary=["a", "b", "c"])
    >>> corpus
    Corpus(2 documents, 3 words, 6 tokens)
    >>> corpus[[1]].to_scipy().toarray()
    array([[0, 0, 3]], dtype=int32)
    """

    indptr: Int[np.ndarray, " docs_plus_1"]
    indices: Int[np.ndarray, " pairs"]
    counts: Int[np.ndarray, " pairs"]
    vocabulary: Sequence[str] | None = None
    vocab_size: int = -1
    titles: Sequence[str] | None = None
    texts: Sequence[str] | None = None
    notes: tuple[str, ...] = ()
    language: str = ""
    covariates: Float[np.ndarray, "docs P"] | None = None
    described_by: str = ""
    index: Any = None

    wording: ClassVar[Wording] = OF_DOCUMENTS
    may_be_empty: ClassVar[bool] = False

    def __post_init__(self):
        set_field = functools.partial(object.__setattr__, self)
        if not _is_mapped(self.indptr):
            set_field("indptr", whole_numbers(self.indptr, np.int64, "indptr"))
        if not _is_mapped(self.indices):
            set_field("counts", integer_counts(self.counts, "counts"))
            set_field("indices", whole_numbers(self.indices, np.int32, "indices"))
        for name in ("vocabulary", *storage.STRINGS):
            strings = getattr(self, name)
            is_words = name == "vocabulary" and strings is not None
            if is_words or isinstance(strings, list | np.ndarray):
                set_field(name, check_whole_letters(tuple(strings), name))
        if self.vocab_size < 0:
            if self.vocabulary is not None:
                set_field("vocab_size", len(self.vocabulary))
            else:
                set_field("vocab_size", int(self.indices.max(initial=-1)) + 1)
        set_field("vocab_size", int(self.vocab_size))
        if self.covariates is not None:
            set_field("covariates", _check_covariates(self.covariates, self.num_documents))
        _check(self)
        set_field("notes", _with_note_of_empty_rows(self.notes, self.indptr, self.wording))

    # --- making one -------------------------------------------------------------------------------
    @classmethod
    def from_counts(
        cls, counts: Any, vocabulary: Sequence[str] | None = None, where: str = "counts", **fields
    ) -> Corpus:
        """A corpus from a (documents, words) matrix of counts, dense or SciPy sparse, which errors
        call `where`."""
        import scipy.sparse

        is_sparse = scipy.sparse.issparse(counts)
        if not is_sparse:
            counts = to_array(counts, where)
        if len(counts.shape) != 2:
            expected = "a matrix (documents, words)"
            raise fail(where, expected, f"shape {counts.shape}", "pass one row per document")
        if not is_sparse:  # checked now, since a missing value would be stored
            counts = scipy.sparse.coo_matrix(integer_counts(counts, where))
        num_documents, vocab_size = counts.shape
        check_num_documents(num_documents, where)
        check_vocab_size(vocab_size, where)
        if vocabulary is not None:
            check_vocabulary(vocabulary, vocab_size, "vocabulary")
        entries = counts.tocoo()
        values = integer_counts(entries.data, where)
        lengths, indices, values = canonical(entries.row, entries.col, values, counts.shape)
        indptr = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return cls(indptr, indices, values, vocabulary=vocabulary, vocab_size=vocab_size, **fields)

    # --- sizes ------------------------------------------------------------------------------------
    @property
    def num_documents(self) -> int:
        """D."""
        return len(self.indptr) - 1

    @property
    def mapped(self) -> bool:
        """True if the documents are on disk, mapped into memory."""
        return _is_mapped(self.indices)

    def __len__(self) -> int:
        return self.num_documents

    @functools.cached_property
    def lengths(self) -> Int[np.ndarray, " docs"]:
        """Number of different words of each document."""
        return np.diff(self.indptr)

    @functools.cached_property
    def tokens(self) -> Int[np.ndarray, " docs"]:
        """Number of tokens of each document; one pass over the corpus, in bounded memory."""
        return row_sums(self.indptr, self.counts)

    @property
    def num_tokens(self) -> int:
        """Tokens in all documents."""
        return int(self.tokens.sum())

    def word_counts(self) -> Int[np.ndarray, " words"]:
        """Occurrences of each word of the vocabulary in the corpus."""
        total = np.zeros(self.vocab_size, np.int64)
        for _, indices, counts in self.blocks():
            block_total = np.bincount(indices, weights=counts, minlength=self.vocab_size)
            total += block_total.astype(np.int64)
        return total

    def blocks(self):
        """Consecutive parts of the corpus in memory, (indptr from 0, indices, counts), of about
        260,000 pairs each."""
        for rows in row_blocks(self.indptr):
            edges = np.asarray(self.indptr[rows.start : rows.stop + 1])
            pairs = slice(edges[0], edges[-1])
            yield edges - edges[0], np.asarray(self.indices[pairs]), np.asarray(self.counts[pairs])

    def __repr__(self) -> str:
        wording = self.wording
        sizes = (
            f"{self.num_documents:,} {wording.rows}",
            f"{self.vocab_size:,} {wording.columns}",
            f"{self.num_tokens:,} {wording.counted}",
        )
        return f"{type(self).__name__}({', '.join(sizes)})"

    # --- parts ------------------------------------------------------------------------------------
    @property
    def plain_kind(self) -> type[Corpus]:
        """The class of a corpus made from these rows, without the fields that a subclass adds."""
        return Corpus

    def __getitem__(self, rows: Any) -> Corpus:
        """The documents `rows` (a slice, ids or a mask), in that order, in memory."""
        rows = np.atleast_1d(np.arange(self.num_documents)[rows])
        pairs, lengths = row_entries(self.indptr, rows)
        pick = lambda strings: (
            None if strings is None else tuple(strings[row] for row in rows.tolist())
        )
        return dataclasses.replace(
            self,
            indptr=np.concatenate([[0], np.cumsum(lengths)]),
            indices=np.asarray(self.indices[pairs]),
            counts=np.asarray(self.counts[pairs]),
            titles=pick(self.titles),
            texts=pick(self.texts),
            notes=lasting_notes(self),
            covariates=None if self.covariates is None else self.covariates[rows],
            index=None if self.index is None else self.index[rows],
        )

    def split(self, held_out: float | int = 0.1, seed: int = 0) -> tuple[Corpus, Corpus]:
        """Two corpora with the same vocabulary: a random part for training, and the held-out rest.

        Args:
          held_out: a fraction between 0 and 1, or a number of documents.
          seed: the same seed gives the same documents.

        Raises:
          ValueError: a part would be empty.
        """
        train, test = split_ids(self.num_documents, held_out, seed, self.wording.rows)
        return self[train], self[test]

    # --- elsewhere --------------------------------------------------------------------------------
    def to_scipy(self):
        """The counts as a `scipy.sparse.csr_matrix` (documents, words); memory maps stay mapped."""
        import scipy.sparse

        shape = (self.num_documents, self.vocab_size)
        return scipy.sparse.csr_matrix((self.counts, self.indices, self.indptr), shape=shape)

    def save(self, folder: str | Path) -> Path:
        """Writes a folder that `Corpus.open` maps into memory: .npy arrays, vocabulary.txt,
        meta.json. Covariates are not written."""
        return storage.save(self, folder)

    @classmethod
    def open(cls, folder: str | Path) -> Corpus:
        """The corpus that `save` wrote, memory-mapped.

        The first time, and whenever a file has changed, it reads all word ids and counts once to
        check them; the file checked.json in the folder then records that they are right.

        Raises:
          DataError: the folder is no corpus, or one of its files is missing, damaged or does not
            belong to it.
        """
        with naming(Path(folder)):
            return cls(**storage.load(folder))


def split_ids(
    num_documents: int, held_out: float | int, seed: int, called: str = OF_DOCUMENTS.rows
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " test"]]:
    """The ascending ids of the documents of both parts of `Corpus.split`. Errors call the documents
    `called`. Raises DataError if a part would be empty."""
    size = held_out if isinstance(held_out, int) else round(held_out * num_documents)
    if not 0 < size < num_documents:
        expected = f"a part of {num_documents} {called} that leaves some on both sides"
        remedy = "hold none out"
        if num_documents > 1:
            share = -(-100 // num_documents) / 100
            remedy = f"pass a fraction such as {max(0.1, share):g}"
        raise fail("held_out", expected, f"{held_out} ({size} {called})", remedy)
    order = held_out_generator(seed).permutation(num_documents)
    return np.sort(order[size:]), np.sort(order[:size])


def join_parts(train: Corpus, test: Corpus, held_out: float | int, seed: int) -> Corpus:
    """The corpus, in memory, that `Corpus.split` split into these parts: its documents are in their
    original order.

    >>> corpus = Corpus.from_counts(np.arange(1, 13).reshape(6, 2))
    >>> bool((join_parts(*corpus.split(2, 5), 2, 5).to_scipy() != corpus.to_scipy()).nnz)
    False
    """
    import scipy.sparse

    number = train.num_documents + test.num_documents
    order = np.argsort(np.concatenate(split_ids(number, held_out, seed, train.wording.rows)))
    counts = scipy.sparse.vstack([train.to_scipy(), test.to_scipy()], format="csr")[order]

    def strings(first: Sequence[str] | None, second: Sequence[str] | None) -> list[str] | None:
        if first is None or second is None:
            return None
        in_parts = [*first, *second]
        return [in_parts[i] for i in order.tolist()]

    titles = strings(train.titles, test.titles)
    texts = strings(train.texts, test.texts)
    return type(train)(
        counts.indptr,
        counts.indices,
        counts.data,
        train.vocabulary,
        train.vocab_size,
        titles,
        texts,
    )


def _is_mapped(array: np.ndarray) -> bool:
    return isinstance(array, np.memmap)


def _check_covariates(values: Any, num_documents: int) -> Float[np.ndarray, "docs P"]:
    """The covariates as float32.

    Raises:
      DataError: they are not a row of finite numbers for each document.
    """
    covariates = np.asarray(values, np.float32)
    has_shape = covariates.ndim == 2 and len(covariates) == num_documents
    if not has_shape or not np.isfinite(covariates).all():
        expected = f"a row of finite numbers for each of {num_documents} documents"
        actual = "others" if has_shape else f"shape {covariates.shape}"
        raise fail("covariates", expected, actual, "see vijax.stm")
    return covariates


def _check(corpus: Corpus) -> None:
    indptr = corpus.indptr
    pairs = len(corpus.indices)
    check_offsets(indptr, "corpus, indptr")
    check_num_documents(corpus.num_documents, "corpus")
    check_vocab_size(corpus.vocab_size, "corpus")
    if indptr[-1] != pairs:
        expected = f"offsets that end at {pairs}, the number of word ids"
        raise fail("indptr", expected, f"{indptr[-1]}", "pass CSR arrays")
    if len(corpus.counts) != pairs:
        expected = f"{pairs} of them, as many as word ids"
        raise fail("counts", expected, str(len(corpus.counts)), "pass CSR arrays")
    if pairs == 0 and not corpus.may_be_empty:
        actual = f"{corpus.num_documents} empty documents"
        remedy = "lower min_df, raise max_df, check the stop words and the column"
        raise fail("corpus", "documents with words", actual, remedy)
    if corpus.vocabulary is not None:
        check_vocabulary(corpus.vocabulary, corpus.vocab_size, "vocabulary")
    if not _is_mapped(corpus.indices):
        check_word_ids(corpus.indices, corpus.vocab_size, "indices")


def lasting_notes(corpus: Corpus) -> tuple[str, ...]:
    """The notes of a corpus that are also true of a part of it."""
    return tuple(note for note in corpus.notes if not note.endswith(corpus.wording.empty))


def _with_note_of_empty_rows(
    notes: tuple[str, ...], indptr: np.ndarray, wording: Wording
) -> tuple[str, ...]:
    number = int((np.diff(indptr) == 0).sum())
    note = f"{number:,} of {len(indptr) - 1:,} {wording.empty}"
    return (*notes, note) if number and note not in notes else tuple(notes)
