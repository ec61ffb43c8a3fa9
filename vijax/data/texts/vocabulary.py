"""Changing the vocabulary of a corpus."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int

from vijax.data.corpora.build import CorpusBuilder
from vijax.data.corpora.corpus import Corpus, lasting_notes
from vijax.data.reading.checks import fail


def select_words(corpus: Corpus, words: Int[np.ndarray, " kept"]) -> Corpus:
    """The corpus over the words with ids `words` only; word `words[i]` gets the id i. Documents stay, in memory.

    Words unseen in training go by selecting `np.flatnonzero(train.word_counts())` in both parts.

    >>> corpus = Corpus.from_counts([[2, 0, 1], [0, 4, 3]], ["a", "b", "c"])
    >>> select_words(corpus, np.array([2, 0])).to_scipy().toarray()
    array([[1, 2],
           [3, 0]], dtype=int32)
    """
    words = np.asarray(words)
    new_id = np.full(corpus.vocab_size, -1, np.int32)
    new_id[words] = np.arange(len(words), dtype=np.int32)
    vocabulary = None if corpus.vocabulary is None else tuple(corpus.vocabulary[word] for word in words.tolist())
    builder = relabel(corpus, new_id)
    return _with_strings(builder.finish(vocabulary, len(words)), corpus)


def with_vocabulary(corpus: Corpus, vocabulary: Sequence[str]) -> Corpus:
    """The corpus over another vocabulary: words that are not in it are dropped, and counted in the notes.

    Raises:
      ValueError: the corpus has no vocabulary, or shares no word with the new one.

    >>> corpus = Corpus.from_counts([[2, 0, 1], [0, 4, 3]], ["a", "b", "c"])
    >>> with_vocabulary(corpus, ["c", "d", "a"]).notes
    ('4 of 10 tokens are of words that are not in the vocabulary: they are left out.',)
    """
    if corpus.vocabulary is None:
        raise fail("corpus.vocabulary", "words", "None", "read the corpus with its vocabulary")
    new_id = ids_in(corpus.vocabulary, vocabulary)
    changed = _with_strings(relabel(corpus, new_id).finish(tuple(vocabulary)), corpus)
    lost = corpus.num_tokens - changed.num_tokens
    note = f"{lost:,} of {corpus.num_tokens:,} tokens are of words that are not in the vocabulary: they are left out."
    return dataclasses.replace(changed, notes=(*changed.notes, note)) if lost else changed


def ids_in(words: Sequence[str], vocabulary: Sequence[str]) -> Int[np.ndarray, " words"]:
    """The id of each word in `vocabulary`, -1 for words that are not in it.

    Raises:
      ValueError: none of them is.
    """
    ids = {word: i for i, word in enumerate(vocabulary)}
    new_id = np.array([ids.get(word, -1) for word in words], np.int32)
    if (new_id < 0).all():
        got = f"{', '.join(words[:5])}, ... against {', '.join(list(vocabulary)[:5])}, ..."
        remedy = "use texts of the same kind, tokenised in the same way"
        raise fail("vocabulary", "some word in common with the corpus", got, remedy)
    return new_id


def relabel(corpus: Corpus, new_id: Int[np.ndarray, " words"], folder: Path | None = None) -> CorpusBuilder:
    """The documents with word w called new_id[w], or dropped where that is negative, in a builder yet to finish."""
    return relabel_into(CorpusBuilder(folder), corpus, new_id)


def relabel_into(builder: CorpusBuilder, corpus: Corpus, new_id: Int[np.ndarray, " words"]) -> CorpusBuilder:
    """As `relabel`, into a builder that may have strings already."""
    for indptr, indices, counts in corpus.blocks():
        words = new_id[indices]
        keep = words >= 0
        kept_before = np.concatenate([[0], np.cumsum(keep)])
        builder.add(np.diff(kept_before[indptr]), words[keep], counts[keep])
    return builder


def _with_strings(changed: Corpus, corpus: Corpus) -> Corpus:
    notes = (*lasting_notes(corpus), *changed.notes)
    return dataclasses.replace(changed, titles=corpus.titles, texts=corpus.texts, notes=notes)
