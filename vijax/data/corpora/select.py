"""Parts of a corpus: over some of its words, over another vocabulary, or split so that both parts
have the words of one."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int

from vijax.data.corpora.build import CorpusBuilder
from vijax.data.corpora.corpus import Corpus, lasting_notes, split_ids
from vijax.data.corpora.csr import row_blocks
from vijax.data.corpora.wording import OF_DOCUMENTS, Wording
from vijax.data.reading.cache import working_folder
from vijax.data.reading.checks import fail
from vijax.data.texts.words import normalise


def select_words(corpus: Corpus, words: Int[np.ndarray, " kept"]) -> Corpus:
    """The corpus, in memory, over the words with ids `words` only: word `words[i]` gets the id i.
    All documents stay.

    To leave out words that training documents lack, select `np.flatnonzero(train.word_counts())` in
    both parts.

    >>> corpus = Corpus.from_counts([[2, 0, 1], [0, 4, 3]], ["a", "b", "c"])
    >>> select_words(corpus, np.array([2, 0])).to_scipy().toarray()
    array([[1, 2],
           [3, 0]], dtype=int32)
    """
    words = np.asarray(words)
    new_id = np.full(corpus.vocab_size, -1, np.int32)
    new_id[words] = np.arange(len(words), dtype=np.int32)
    vocabulary = None
    if corpus.vocabulary is not None:
        vocabulary = tuple(corpus.vocabulary[word] for word in words.tolist())
    builder = relabel(corpus, new_id, CorpusBuilder(kind=corpus.plain_kind))
    return _with_strings(builder.finish(vocabulary, len(words)), corpus)


def with_vocabulary(corpus: Corpus, vocabulary: Sequence[str]) -> Corpus:
    """The corpus over another vocabulary: words outside it are dropped, and counted in the notes.

    Raises:
      ValueError: the corpus has no vocabulary, or shares no word with the new one.

    >>> corpus = Corpus.from_counts([[2, 0, 1], [0, 4, 3]], ["a", "b", "c"])
    >>> with_vocabulary(corpus, ["c", "d", "a"]).notes
    ('4 of 10 tokens are of words that are not in the vocabulary: they are left out.',)
    """
    if corpus.vocabulary is None:
        raise fail("corpus.vocabulary", "words", "None", "read the corpus with its vocabulary")
    may_share_none = corpus.num_tokens == 0
    new_id = vocabulary_ids(corpus.vocabulary, vocabulary, corpus.wording, may_share_none)
    builder = relabel(corpus, new_id, CorpusBuilder(kind=corpus.plain_kind))
    relabelled = _with_strings(builder.finish(tuple(vocabulary)), corpus)
    num_dropped = corpus.num_tokens - relabelled.num_tokens
    note = f"{num_dropped:,} of {corpus.num_tokens:,} {corpus.wording.left_out}"
    if num_dropped:
        return dataclasses.replace(relabelled, notes=(*relabelled.notes, note))
    return relabelled


def vocabulary_ids(
    words: Sequence[str],
    vocabulary: Sequence[str],
    wording: Wording = OF_DOCUMENTS,
    may_share_none: bool = False,
) -> Int[np.ndarray, " words"]:
    """The id of each word in `vocabulary`, -1 for words outside it; accents in either form are the
    same. Raises ValueError if all words are outside, unless `may_share_none`."""
    ids = {normalise(word): i for i, word in enumerate(vocabulary)}
    ids |= {word: i for i, word in enumerate(vocabulary)}  # exact words go before
    new_id = np.array([ids.get(word, ids.get(normalise(word), -1)) for word in words], np.int32)
    if (new_id < 0).all() and not may_share_none:
        actual = f"{', '.join(words[:5])}, ... against {', '.join(list(vocabulary)[:5])}, ..."
        location, expected = wording.shared
        raise fail(location, expected, actual, wording.to_share)
    return new_id


def relabel(
    corpus: Corpus, new_id: Int[np.ndarray, " words"], builder: CorpusBuilder
) -> CorpusBuilder:
    """Adds the documents to a builder, with the id new_id[w] for word w; words with a negative id
    are dropped."""
    for indptr, indices, counts in corpus.blocks():
        words = new_id[indices]
        is_in = words >= 0
        num_before = np.concatenate([[0], np.cumsum(is_in)])
        builder.add(np.diff(num_before[indptr]), words[is_in], counts[is_in])
    return builder


def _with_strings(changed: Corpus, corpus: Corpus) -> Corpus:
    notes = (*lasting_notes(corpus), *changed.notes)
    names = ("titles", "texts", "language", "covariates", "described_by", "index")
    fields = {name: getattr(corpus, name) for name in names}
    return dataclasses.replace(changed, notes=notes, **fields)


def split_over_seen_words(
    corpus: Corpus, held_out: float | int, seed: int
) -> tuple[Corpus, Corpus]:
    """Training and held-out documents, over the words of the training documents: a score of other
    words would mean nothing. A memory-mapped corpus is split into temporary files, which are
    removed with the training corpus. Raises ValueError: see `Corpus.split`."""
    train_rows, test_rows = split_ids(corpus.num_documents, held_out, seed, corpus.wording.rows)
    test = corpus[test_rows]
    in_train = corpus.word_counts() > test.word_counts()

    def keep_train_words(part: Corpus) -> Corpus:
        if in_train.all():
            return part
        return select_words(part, np.flatnonzero(in_train))

    if corpus.mapped:
        return _write_temporary(corpus, train_rows, in_train), keep_train_words(test)
    return keep_train_words(corpus[train_rows]), keep_train_words(test)


def _write_temporary(corpus: Corpus, rows: np.ndarray, in_train: np.ndarray) -> Corpus:
    """The documents `rows` in temporary files, which are removed with the corpus."""
    folder = working_folder("vijax-train-")
    try:
        train = _write_rows(Path(folder.name), corpus, rows, in_train)
    except BaseException:
        folder.cleanup()
        raise
    weakref.finalize(train, folder.cleanup)
    return train


def _write_rows(folder: Path, corpus: Corpus, rows: np.ndarray, in_train: np.ndarray) -> Corpus:
    """Writes the documents `rows`, over the words of a mask, some hundred thousand pairs at a
    time."""
    builder = CorpusBuilder(folder, corpus.plain_kind)
    number = np.cumsum(in_train) - 1
    builder.language = corpus.language
    for note in lasting_notes(corpus):
        builder.notes.add(note)
    is_row = np.zeros(corpus.num_documents, bool)
    is_row[rows] = True
    for block in row_blocks(corpus.indptr):
        part = corpus[block.start + np.flatnonzero(is_row[block])]
        builder.add(part.lengths, number[part.indices], part.counts)
        for name in ("titles", "texts"):
            if getattr(part, name) is not None:
                builder.add_strings(name, getattr(part, name))
    words = None
    if corpus.vocabulary is not None:
        words = [corpus.vocabulary[i] for i in np.flatnonzero(in_train).tolist()]
    return builder.finish(words, vocab_size=int(in_train.sum()))
