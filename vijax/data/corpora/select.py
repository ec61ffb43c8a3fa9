"""Parts of a corpus: over some of its words, over another vocabulary, or divided over the words of
one part."""

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
from vijax.data.texts.words import normalised


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
    vocabulary = (
        None
        if corpus.vocabulary is None
        else tuple(corpus.vocabulary[word] for word in words.tolist())
    )
    changed = relabel(corpus, new_id, CorpusBuilder(kind=corpus.plain_kind)).finish(
        vocabulary, len(words)
    )
    return _with_strings(changed, corpus)


def with_vocabulary(corpus: Corpus, vocabulary: Sequence[str]) -> Corpus:
    """The corpus over another vocabulary: words that are not in it are dropped, and counted in the
    notes.

    Raises:
      ValueError: the corpus has no vocabulary, or shares no word with the new one.

    >>> corpus = Corpus.from_counts([[2, 0, 1], [0, 4, 3]], ["a", "b", "c"])
    >>> with_vocabulary(corpus, ["c", "d", "a"]).notes
    ('4 of 10 tokens are of words that are not in the vocabulary: they are left out.',)
    """
    if corpus.vocabulary is None:
        raise fail("corpus.vocabulary", "words", "None", "read the corpus with its vocabulary")
    new_id = vocabulary_ids(
        corpus.vocabulary, vocabulary, corpus.wording, may_share_none=corpus.num_tokens == 0
    )
    changed = relabel(corpus, new_id, CorpusBuilder(kind=corpus.plain_kind)).finish(
        tuple(vocabulary)
    )
    changed = _with_strings(changed, corpus)
    lost = corpus.num_tokens - changed.num_tokens
    note = f"{lost:,} of {corpus.num_tokens:,} {corpus.wording.left_out}"
    return dataclasses.replace(changed, notes=(*changed.notes, note)) if lost else changed


def vocabulary_ids(
    words: Sequence[str],
    vocabulary: Sequence[str],
    wording: Wording = OF_DOCUMENTS,
    may_share_none: bool = False,
) -> Int[np.ndarray, " words"]:
    """The id of each word in `vocabulary`, -1 for words that are not in it; accents in either form
    are the same. Raises ValueError: none of them is, and that may not be."""
    ids = {normalised(word): i for i, word in enumerate(vocabulary)}
    ids |= {word: i for i, word in enumerate(vocabulary)}  # exact ones go before
    new_id = np.array([ids.get(word, ids.get(normalised(word), -1)) for word in words], np.int32)
    if (new_id < 0).all() and not may_share_none:
        got = f"{', '.join(words[:5])}, ... against {', '.join(list(vocabulary)[:5])}, ..."
        where, expected = wording.shared
        raise fail(where, expected, got, wording.to_share)
    return new_id


def relabel(
    corpus: Corpus, new_id: Int[np.ndarray, " words"], builder: CorpusBuilder
) -> CorpusBuilder:
    """Adds the documents to a builder, with the id new_id[w] for word w; words of a negative id are
    dropped."""
    for indptr, indices, counts in corpus.blocks():
        words = new_id[indices]
        keep = words >= 0
        kept_before = np.concatenate([[0], np.cumsum(keep)])
        builder.add(np.diff(kept_before[indptr]), words[keep], counts[keep])
    return builder


def _with_strings(changed: Corpus, corpus: Corpus) -> Corpus:
    notes = (*lasting_notes(corpus), *changed.notes)
    kept = {
        name: getattr(corpus, name)
        for name in ("titles", "texts", "language", "covariates", "described_by", "index")
    }
    return dataclasses.replace(changed, notes=notes, **kept)


def split_over_seen_words(
    corpus: Corpus, held_out: float | int, seed: int
) -> tuple[Corpus, Corpus]:
    """Training and held-out documents, over the words that training documents have: no score of
    other words could mean anything. A memory-mapped corpus is split into temporary files, removed
    with the training corpus. Raises ValueError: see `Corpus.split`."""
    train_rows, test_rows = split_ids(corpus.num_documents, held_out, seed, corpus.wording.rows)
    test = corpus[test_rows]
    seen = corpus.word_counts() > test.word_counts()
    over_seen = lambda part: part if seen.all() else select_words(part, np.flatnonzero(seen))
    train = (
        _write_temporary(corpus, train_rows, seen)
        if corpus.mapped
        else over_seen(corpus[train_rows])
    )
    return train, over_seen(test)


def _write_temporary(corpus: Corpus, rows: np.ndarray, seen: np.ndarray) -> Corpus:
    """The documents `rows` in temporary files, removed with the corpus."""
    folder = working_folder("vijax-train-")
    try:
        train = _write_rows(Path(folder.name), corpus, rows, seen)
    except BaseException:
        folder.cleanup()
        raise
    weakref.finalize(train, folder.cleanup)
    return train


def _write_rows(folder: Path, corpus: Corpus, rows: np.ndarray, seen: np.ndarray) -> Corpus:
    """Writes the documents `rows`, some hundred thousand pairs at a time, with their words numbered
    again."""
    builder = CorpusBuilder(folder, corpus.plain_kind)
    number = np.cumsum(seen) - 1
    builder.language = corpus.language
    for note in lasting_notes(corpus):
        builder.notes.add(note)
    kept = np.zeros(corpus.num_documents, bool)
    kept[rows] = True
    for block in row_blocks(corpus.indptr):
        part = corpus[block.start + np.flatnonzero(kept[block])]
        builder.add(part.lengths, number[part.indices], part.counts)
        for name in ("titles", "texts"):
            if getattr(part, name) is not None:
                builder.add_strings(name, getattr(part, name))
    words = (
        None
        if corpus.vocabulary is None
        else [corpus.vocabulary[i] for i in np.flatnonzero(seen).tolist()]
    )
    return builder.finish(words, vocab_size=int(seen.sum()))
