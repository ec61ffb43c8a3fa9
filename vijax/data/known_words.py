"""New documents over the words of a fit: words are matched by name, whatever their order and number
in the new data."""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.checks import require
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.count_tables import are_counts
from vijax.data.corpora.ratings import are_ratings
from vijax.data.corpora.select import with_vocabulary
from vijax.data.corpora.storage import is_corpus_folder
from vijax.data.read import TEXT_FORMATS, guess_format, read
from vijax.data.reading.checks import Notes, listed
from vijax.data.reading.download import fetch, is_url
from vijax.data.schema.cells import is_library_table
from vijax.data.texts.text import DEFAULT_SETTINGS, analyzer, choose_settings
from vijax.data.to_shards import hash_words
from vijax.files import local_path

LEAST_BY_HASH = 16
"""Least size of a vocabulary that is told to be by hash: the words of a smaller one may lie at
their hashes by chance."""
MOST_LOOKED_AT = 4096


def read_over_words(
    source: Any, words: Sequence[str] | None, where: str = "documents", called: str = "words"
) -> Corpus:
    """Anything that `vijax.data.read` reads, over the words of a fit; `words` None: as it is read.

    Texts are counted over these words. A corpus over other words, or over these in another order,
    is relabelled. Counts without words are taken to be in the order of the fit, and stay as they
    are.

    Raises:
      ValueError: no word in common.

    Warns of tokens that are left out because the fit does not know their words; for texts, if a
    text has no known word, or if less than half of all their words are known. (A fit to texts
    leaves rare words out, too.)

    >>> corpus = Corpus.from_counts([[2, 0, 1], [0, 4, 3]], ["a", "b", "c"])
    >>> read_over_words(corpus, ("c", "b", "a")).to_scipy().toarray().tolist()
    [[1, 0, 2], [3, 4, 0]]
    """
    are_texts = words is not None and _is_of_texts(source)
    corpus = read(source, vocabulary=words if are_texts else None)
    if are_texts:
        _warn_of_unknown_texts(corpus, source, where)
    if words is None and corpus.vocabulary is not None and are_counts(source):
        return _order_by_place(corpus, where)
    if words is None or corpus.vocabulary is None or are_same(corpus.vocabulary, words):
        return corpus
    relabelled = with_vocabulary(corpus, words)
    if num_dropped := corpus.num_tokens - relabelled.num_tokens:
        warnings.warn(
            f"{where}: {num_dropped:,} of {corpus.num_tokens:,} counts are of {called} that the "
            "fit does not know: they are left out.",
            stacklevel=4,
        )
    return relabelled


def _order_by_place(corpus: Corpus, where: str) -> Corpus:
    """A table of counts for a fit without words, whose columns were numbered: columns named by
    these numbers are put in their order. Warns of other names, which cannot be compared."""
    names = list(corpus.vocabulary or ())
    places = [str(place) for place in range(len(names))]
    if set(names) == set(places):
        return with_vocabulary(corpus, places)
    warnings.warn(
        f"{where}: the fit was made of counts without words, so the columns {listed(names)} are "
        "taken by their place. Fit a table whose columns are the words, and they are compared.",
        stacklevel=5,
    )
    return corpus


def _warn_of_unknown_texts(corpus: Corpus, source: Any, where: str) -> None:
    """Warns of texts without a known word; else of a list of texts with less than half of their
    words known."""
    none_known = int(np.sum(np.diff(corpus.indptr) == 0))
    if none_known:
        warnings.warn(
            f"{where}: {none_known:,} of {corpus.num_documents:,} texts hold no word that the fit "
            "knows: what is said of them is what the fit expects of any text.",
            stacklevel=5,
        )
        return
    if not isinstance(source, Sequence | np.ndarray) or isinstance(source, str):
        return
    texts = [str(text) for text in source[:LOOKED_AT]]
    num_known, number = _known_words(texts, corpus.vocabulary or ())
    if num_known < 0.5 * number:
        warnings.warn(
            f"{where}: {number - num_known:,} of {number:,} words are ones that the fit does not "
            "know: they are left out. Are these texts of the kind, and in the language, of those "
            "that were fitted?",
            stacklevel=5,
        )


LOOKED_AT = 1000
"""The most texts whose unknown words are counted."""


def _known_words(texts: Sequence[str], words: Sequence[str]) -> tuple[int, int]:
    """The number of known words in these texts, and the number of all words but stop words; phrases
    are not counted."""
    pairs = [(str(i), text) for i, text in enumerate(texts)]
    settings, _, _ = choose_settings(DEFAULT_SETTINGS, pairs, words, "texts", Notes())
    analyze = analyzer(dataclasses.replace(settings, ngrams=1))
    single = {word for phrase in words for word in phrase.split(" ")}
    tokens = [word for _, text in pairs for word in analyze(text)]
    return sum(word in single for word in tokens), len(tokens)


def are_same(words: Sequence[str], others: Sequence[str]) -> bool:
    """True if both have the same words by the same ids. Of two vocabularies by hash only the size
    is compared, as the names of their places differ.

    >>> are_same(("a", "b"), ["a", "b"]), are_same(("a", "b"), ("b", "a"))
    (True, False)
    """
    if words is others:
        return True
    if len(words) != len(others):
        return False
    return tuple(words) == tuple(others) or (_is_by_hash(words) and _is_by_hash(others))


def require_own_covariates(corpus: Corpus, own: str, where: str) -> None:
    """Raises ValueError for documents whose covariates another model made.

    Args:
      corpus: the documents.
      own: the mark of the model's own covariates; "" for a model without.
      where: what the documents are called in messages.
    """
    is_own = not own or not corpus.described_by or corpus.described_by == own
    actual = "documents of a model with another formula or other training rows"
    remedy = "Describe them by this model: model.described(corpus, table)."
    require(is_own, where, "documents described by the model of the fit", actual, remedy)


def vocabulary_mark(words: Sequence[str]) -> bytes:
    """Eight bytes that identify a vocabulary."""
    digest = hashlib.blake2b(digest_size=8)
    if _is_by_hash(words):
        digest.update(f"hash:{len(words)}".encode())
        return digest.digest()
    for start in range(0, len(words), MOST_LOOKED_AT):
        digest.update("\n".join(words[start : start + MOST_LOOKED_AT]).encode() + b"\n")
    return digest.digest()


def _is_of_texts(source: Any) -> bool:
    """True for texts, whose words `read` counts."""
    if isinstance(source, str | Path):
        if str(source) == "docstrings" and not Path(source).exists():
            return False
        path = fetch(str(source)) if is_url(source) else local_path(source)
        return path.exists() and not is_corpus_folder(path) and guess_format(path) in TEXT_FORMATS
    if is_library_table(source):
        return not are_ratings(source) and not are_counts(source)
    is_list = isinstance(source, Sequence | np.ndarray) and not isinstance(source, tuple | bytes)
    return is_list and len(source) > 0 and isinstance(source[0], str)


def _is_by_hash(words: Sequence[str]) -> bool:
    """True if every name lies at the place of its hash (`vijax.data.prepare`), or says that the
    place is empty."""
    size = len(words)
    if size < LEAST_BY_HASH:
        return False
    looked_at = range(0, size, -(-size // MOST_LOOKED_AT))
    pairs = [(place, words[place]) for place in looked_at if words[place] != f"#{place}"]
    if not pairs:
        return True
    first, _ = pairs[0]
    if hash_words([words[first]], size)[0] != first:  # nearly always
        return False
    places, names = zip(*pairs, strict=True)
    return bool(np.array_equal(hash_words(names, size), places))
