"""From text to bags of words, with scikit-learn's phrases and stop words, and a vocabulary that
gives readable topics.

The texts are read once. Their words are counted under provisional ids, in memory or in files; then
the vocabulary is chosen from the counts, and the bags are written again with its ids. Memory holds
the words seen, never the documents."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from vijax.arguments import Limit, read_arguments
from vijax.data.corpora.build import CorpusBuilder
from vijax.data.corpora.corpus import Corpus
from vijax.data.corpora.select import relabel, vocabulary_ids
from vijax.data.reading.cache import working_folder
from vijax.data.reading.checks import DataError, Notes, fail, whole_letters
from vijax.data.texts.language import (
    check_spaces,
    choose_language,
    first_texts,
    language_stop_words,
)
from vijax.data.texts.markup import note_markup, plain, read_plain, remove_addresses
from vijax.data.texts.words import find_words, normalise, to_lower, word_finder
from vijax.extras import require_extra
from vijax.files import local_path

BLOCK_DOCUMENTS = 4096
BLOCK_CHARACTERS = 1 << 20
SNIPPET_CHARACTERS = 300
NO_TEXT = "drop the document, or make it the empty string"
MOST_WORDS = 5  # in a phrase
SMALL_COLLECTION = 10  # a fractional max_df never drops a word of at most this many documents


def _is_number(x: Any) -> bool:
    return isinstance(x, int) and x >= 1


PHRASE = Limit(
    lambda x: _is_number(x) and x <= MOST_WORDS, f"a whole number from 1 to {MOST_WORDS}"
)
SHARE = Limit(
    lambda x: _is_number(x) or (isinstance(x, float) and 0 <= x <= 1),
    "a whole number of 1 or more, or a fraction such as 0.5",
)
NumberOrShare = Annotated[int | float, SHARE]


@dataclasses.dataclass(frozen=True)
class TextSettings:
    """Settings by which text becomes words.

    Attributes:
      lowercase: whether to ignore case.
      token_pattern: regular expression of a word (of package regex), in texts as they are. None
        takes words of three letters or more, of any script, with their marks
        (`vijax.data.texts.words`). Then HTML tags, and web and e-mail addresses, are left out,
        entities such as &amp; are decoded, and notes say so.
      language: language of the text ("german" or "de"), whose stop words are left out. None detects
        it by the stop words of the first documents, and a note names it.
      stop_words: "auto" (those of the language), "english" (scikit-learn's list and contractions),
        another language ("german"), a file with a word on each line, your own words, or None to
        keep all.
      ngrams: the longest phrase, in words, that counts as a word of its own: 2 adds pairs of
        neighbours ("new york"), with stop words left out.
      min_df: the least documents with a word, as a number or a fraction. None means 5, or 1 % of
        the documents if that is fewer.
      max_df: the most documents with a word, as a number or a fraction (which never drops a word of
        10 or fewer).
      max_vocabulary: this many of the most frequent words are kept. None keeps all.
    """

    lowercase: bool = True
    token_pattern: str | None = None
    language: str | None = None
    stop_words: str | Path | Sequence[str] | None = "auto"
    ngrams: Annotated[int, PHRASE] = 1
    min_df: NumberOrShare | None = None
    max_df: NumberOrShare = 0.5
    max_vocabulary: Annotated[int, Limit(_is_number, "a whole number of 1 or more")] | None = 10_000

    def check(self, name: str, remedy: str) -> None:
        """Raises a `DataError` if a setting is outside its limit."""
        limit = read_arguments(TextSettings)[name].limit
        value = getattr(self, name)
        if limit is not None and value is not None and not limit.test(value):
            raise fail(name, limit.expected, repr(value), remedy)


DEFAULT_SETTINGS = TextSettings()


def corpus_from_texts(
    documents: Iterable[tuple[str, str]],
    settings: TextSettings = DEFAULT_SETTINGS,
    vocabulary: Sequence[str] | None = None,
    folder: Path | None = None,
    where: str = "texts",
    notes: Notes | None = None,
) -> Corpus:
    """A corpus from (title, text) pairs, read once.

    Args:
      documents: the pairs; a generator may give more than memory holds.
      settings: settings by which text becomes words.
      vocabulary: a fixed vocabulary, say of a fitted model; other words are left out. Its phrases
        are counted, whatever `settings.ngrams` is.
      folder: folder to write the corpus to as memory-mapped files; None makes it in memory.
      where: name of the documents in errors.
      notes: remarks made while `documents` are read; the corpus gets them.

    Raises:
      ValueError: there are no documents, no words remain, a text is no string, or a setting is
        wrong.

    >>> texts = [("a", "The cat sat."), ("b", "A dog, a cat!")]
    >>> corpus = corpus_from_texts(texts)
    >>> corpus.vocabulary, corpus.to_scipy().toarray().tolist()
    (('cat', 'dog', 'sat'), [[1, 0, 1], [1, 1, 0]])
    """
    corpus = CorpusBuilder(folder)
    corpus.notes = notes or corpus.notes
    settings, documents, corpus.language = choose_settings(
        settings, documents, vocabulary, where, corpus.notes
    )
    analyze = analyzer(settings)
    scratch_folder = (
        contextlib.nullcontext() if folder is None else working_folder("counting-", folder)
    )
    with scratch_folder as scratch:
        counting = CorpusBuilder(None if scratch is None else Path(scratch))
        blocks = text_blocks(documents, settings, where, corpus.notes)
        words, number = _count(blocks, analyze, counting, corpus)
        if number and not words:
            raise no_words_error(where, number)
        raw = counting.finish(words)
        if vocabulary is None:
            vocabulary = choose_vocabulary(raw, words, settings)
        return relabel(raw, vocabulary_ids(words, vocabulary), corpus).finish(tuple(vocabulary))


def choose_settings(
    settings: TextSettings,
    documents: Iterable[tuple[str, str]],
    vocabulary: Sequence[str] | None,
    where: str,
    notes: Notes,
) -> tuple[TextSettings, Iterable[tuple[str, str]], str]:
    """The settings with the stop words of the given or detected language, the documents, and the
    language.

    Raises:
      DataError: texts without spaces between words, or both a language and stop words.
    """
    if vocabulary is not None:
        longest = 1 + max((word.count(" ") for word in vocabulary), default=0)
        settings = dataclasses.replace(settings, ngrams=max(settings.ngrams, longest))
    first, documents = first_texts(documents)
    if settings.token_pattern is None:
        first = [plain(text).text for text in first]
        check_spaces(first, where, notes)
    if settings.language is not None and settings.stop_words != "auto":
        actual = repr(settings.stop_words)
        raise fail("language", "stop_words left as they are", actual, "set one of the two")
    if settings.stop_words != "auto":
        return settings, documents, ""
    language = settings.language or choose_language(first, notes)
    stop = {*language_stop_words(language)} - {*(vocabulary or ())}
    return dataclasses.replace(settings, stop_words=tuple(sorted(stop))), documents, language


def analyzer(settings: TextSettings) -> Callable[[str], Iterable[str]]:
    """The function from a text to its words (and phrases) without stop words."""
    settings.check("ngrams", "2 counts pairs of words too")
    text = require_extra("sklearn.feature_extraction.text")
    words = find_words if settings.token_pattern is None else word_finder(settings.token_pattern)
    spell = functools.partial(_spell, settings)
    make = functools.partial(
        text.CountVectorizer, preprocessor=spell, tokenizer=words, token_pattern=None
    )
    # Stop words pass through the same tokeniser, so that "don't" stops the token "don".
    tokens = make().build_analyzer()
    stop_words = read_stop_words(settings.stop_words)
    stop = sorted({token for word in stop_words for token in tokens(word)})
    return make(stop_words=stop, ngram_range=(1, settings.ngrams)).build_analyzer()


def _spell(settings: TextSettings, text: str) -> str:
    """A text in the spelling that is searched for words."""
    if settings.token_pattern is None:
        text = remove_addresses(text)
    text = normalise(text)
    return to_lower(text) if settings.lowercase else text


def _count(
    blocks: Iterable[list[tuple[str, str]]],
    analyze: Callable[[str], Iterable[str]],
    counting: CorpusBuilder,
    corpus: CorpusBuilder,
) -> tuple[tuple[str, ...], int]:
    """Counts every word under a provisional id; returns the words in the order of these ids, and
    the number of documents."""
    ids = new_word_ids()
    number = 0
    for block in blocks:
        titles, texts = zip(*block, strict=True)
        counting.add(*count_bags(texts, analyze, ids))
        corpus.add_strings("titles", titles)
        corpus.add_strings("texts", map(snippet, texts))
        number += len(block)
    return tuple(ids), number


def no_words_error(where: object, number: int) -> DataError:
    """The error for documents without any word."""
    remedy = (
        "check the column. Words have three letters or more, and are neither stop words nor "
        "markup nor addresses: pass "
        r"token_pattern='\w+' to keep short ones, stop_words=None to keep stop words"
    )
    return fail(where, "documents with words", f"{number} empty documents", remedy)


def new_word_ids() -> collections.defaultdict[str, int]:
    """A mapping that gives every new word the next number."""
    ids: collections.defaultdict[str, int] = collections.defaultdict()
    ids.default_factory = ids.__len__
    return ids


def count_bags(
    texts: Sequence[str],
    analyze: Callable[[str], Iterable[str]],
    ids: collections.defaultdict[str, int],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs per text, word ids and counts; new words enter `ids`."""
    bags = [collections.Counter(map(ids.__getitem__, analyze(text))) for text in texts]
    words = np.fromiter(itertools.chain.from_iterable(bags), np.int64)
    counts = np.fromiter(itertools.chain.from_iterable(bag.values() for bag in bags), np.int64)
    return np.array([len(bag) for bag in bags]), words, counts


def text_blocks(
    documents: Iterable[tuple[str, str]], settings: TextSettings, where: str, notes: Notes
) -> Iterator[list[tuple[str, str]]]:
    """The documents in blocks of about a megabyte of text, or of one longer document; without
    markup, unless the user has a pattern of words."""
    block = []
    size = 0
    for title, text in documents:
        if not isinstance(text, str):
            actual = f"{text!r} ({type(text).__name__})"
            raise fail(f"{where}, {title}", "text", actual, NO_TEXT)
        text = whole_letters(text, notes, title)
        if settings.token_pattern is None:
            text = read_plain(text, notes, title)
        else:
            note_markup(text, notes, title)
        block.append((whole_letters(title, notes, title), text))
        size += len(text)
        if size >= BLOCK_CHARACTERS or len(block) == BLOCK_DOCUMENTS:
            yield block
            block = []
            size = 0
    if block:
        yield block


def snippet(text: str) -> str:
    """The beginning of a text on one line, for reports.

    >>> snippet("  One\\n line. ")
    'One line.'
    """
    return " ".join(text[: 2 * SNIPPET_CHARACTERS].split())[:SNIPPET_CHARACTERS]


def choose_vocabulary(raw: Corpus, words: Sequence[str], settings: TextSettings) -> tuple[str, ...]:
    """The words that pass the settings, in alphabetical order; the word ids of `raw` are places in
    `words`."""
    in_documents = np.zeros(raw.vocab_size, np.int64)
    for _, indices, _ in raw.blocks():
        in_documents += np.bincount(indices, minlength=raw.vocab_size)
    return choose_words(words, in_documents, raw.word_counts(), raw.num_documents, settings)


def choose_words(
    words: Sequence[str],
    in_documents: np.ndarray,
    total: np.ndarray,
    num_documents: int,
    settings: TextSettings,
) -> tuple[str, ...]:
    """The words that pass the settings, in alphabetical order.

    Args:
      words: all words.
      in_documents: number of documents with each word.
      total: occurrences of each word.
      num_documents: number of documents.
      settings: `min_df`, `max_df` and `max_vocabulary`.

    Raises:
      ValueError: a setting is out of range, or no word passes.
    """
    if len(words) == 0 and num_documents:
        raise no_words_error("texts", num_documents)
    low, high = _document_limits(settings, num_documents)
    passing = np.flatnonzero((in_documents >= low) & (in_documents <= high))
    if len(passing) == 0:
        expected = f"some word in {low:g} to {high:g} of the {num_documents} documents"
        actual = (
            f"none of {len(in_documents)}, the most common being in {in_documents.max(initial=0)}"
        )
        raise fail("min_df, max_df", expected, actual, "lower min_df or raise max_df")
    most_frequent_first = passing[np.argsort(-total[passing], kind="stable")]
    most_frequent = most_frequent_first[: settings.max_vocabulary].tolist()
    return tuple(sorted(words[word] for word in most_frequent))


def _document_limits(settings: TextSettings, num_documents: int) -> tuple[float, float]:
    """The least and the most documents that a word of the vocabulary may be in."""
    for name in ("min_df", "max_df", "max_vocabulary"):
        settings.check(name, f"leave {name} out to get a default that suits most texts")
    low = min(5, max(1, num_documents // 100)) if settings.min_df is None else settings.min_df
    if isinstance(low, float):
        low = low * num_documents
    high = num_documents if settings.max_df is None else settings.max_df
    if isinstance(high, float):
        high = max(high * num_documents, SMALL_COLLECTION)
    return low, high


def read_stop_words(stop_words: str | Path | Sequence[str] | None) -> tuple[str, ...]:
    """The stop words that a setting names (`TextSettings.stop_words`).

    Raises:
      DataError: the setting is neither a language nor a file, or the file has no words.

    >>> "und" in read_stop_words("german"), read_stop_words(["the"]), read_stop_words(None)
    (True, ('the',), ())
    """
    if not isinstance(stop_words, str | Path):
        return tuple(stop_words or ())
    path = local_path(stop_words)
    if path.is_file():
        return _read_word_file(path)
    return language_stop_words(str(stop_words), "stop_words")


def _read_word_file(path: Path) -> tuple[str, ...]:
    location = f"stop_words: {path}"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise fail(
            location, "text in UTF-8", f"other bytes ({error})", "save it as UTF-8"
        ) from error
    words = tuple(word for line in lines if (word := line.strip()))
    if not words:
        remedy = "write the words, or pass None"
        raise fail(location, "a word on each line", "an empty file", remedy)
    return words
