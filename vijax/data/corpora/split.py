"""Splitting a corpus that may exceed memory: the training part goes from disk to disk."""

from __future__ import annotations

import weakref
from pathlib import Path

import numpy as np

from vijax.data.corpora.build import CorpusBuilder
from vijax.data.corpora.corpus import Corpus, lasting_notes
from vijax.data.corpora.csr import row_blocks
from vijax.data.reading.temporary import working_folder
from vijax.data.texts.vocabulary import select_words


def split_over_seen_words(corpus: Corpus, held_out: float | int, seed: int) -> tuple[Corpus, Corpus]:
    """Training and held-out documents over the words that training documents have, since no score of others could mean
    anything. A memory-mapped corpus is split into temporary files that go when the training corpus does.

    Raises:
      ValueError: see `Corpus.split`.
    """
    train_rows, test_rows = corpus.split_rows(held_out, seed)
    test = corpus[test_rows]
    seen = corpus.word_counts() > test.word_counts()
    train = _on_disk(corpus, train_rows, seen) if corpus.mapped else _in_memory(corpus, train_rows, seen)
    return train, test if seen.all() else select_words(test, np.flatnonzero(seen))


def _in_memory(corpus: Corpus, rows: np.ndarray, seen: np.ndarray) -> Corpus:
    return corpus[rows] if seen.all() else select_words(corpus[rows], np.flatnonzero(seen))


def _on_disk(corpus: Corpus, rows: np.ndarray, seen: np.ndarray) -> Corpus:
    """The documents `rows` in files that go with them."""
    folder = working_folder("vijax-train-")
    try:
        train = _written(Path(folder.name), corpus, rows, seen)
    except BaseException:
        folder.cleanup()
        raise
    weakref.finalize(train, folder.cleanup)
    return train


def _written(folder: Path, corpus: Corpus, rows: np.ndarray, seen: np.ndarray) -> Corpus:
    """The documents `rows`, a few million pairs at a time, their words numbered again."""
    builder, number = CorpusBuilder(folder), np.cumsum(seen) - 1
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
    words = None if corpus.vocabulary is None else [corpus.vocabulary[i] for i in np.flatnonzero(seen).tolist()]
    return builder.finish(words, vocab_size=int(seen.sum()))
