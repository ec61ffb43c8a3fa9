"""The language of texts, detected by its stop words; and texts without spaces between words, which
are refused."""

from __future__ import annotations

import collections
import functools
import itertools
import re
from collections.abc import Iterable, Sequence

from vijax.data.reading.checks import Notes, fail
from vijax.data.texts.words import find_all_words, normalise, to_lower
from vijax.extras import require_extra

MOST_DOCUMENTS = 1000
MOST_CHARACTERS = 1 << 18
LEAST = 0.1
"""Least share of stop words in texts whose language is detected."""
LEAST_WORDS = 10
"""Least number of stop words in them."""
LEAST_DIFFERENT = 5
"""Least number of different stop words: a single one, such as "car", may be a word of another
language."""
TURKISH = str.maketrans("ýþðÝÞ", "ışğİŞ")
"""Letters in the list of Turkish of older releases of stop-words, which was read in a wrong
encoding."""

# Parts of "don't", "we've", ..., which the apostrophe divides, that scikit-learn's list lacks.
CONTRACTIONS = (
    *(
        "ain",
        "aren",
        "couldn",
        "didn",
        "doesn",
        "don",
        "hadn",
        "hasn",
        "haven",
        "isn",
        "mustn",
        "needn",
        "shan",
    ),
    *("shouldn", "wasn", "weren", "wouldn", "ll", "ve"),
)


def first_texts(
    documents: Iterable[tuple[str, str]],
) -> tuple[list[str], Iterable[tuple[str, str]]]:
    """The texts of the first documents, at most a quarter of a megabyte or one document; and all
    documents."""
    documents = iter(documents)
    first = []
    size = 0
    for title, text in documents:
        first.append((title, text))
        size += len(text) if isinstance(text, str) else 0
        if len(first) == MOST_DOCUMENTS or size >= MOST_CHARACTERS:
            break
    texts = [text[:MOST_CHARACTERS] for _, text in first if isinstance(text, str)]
    return texts, itertools.chain(first, documents)


# --- stop words -----------------------------------------------------------------------------------
def language_stop_words(language: str, where: str = "language") -> tuple[str, ...]:
    """The stop words of a language, for English from scikit-learn, else from the package
    stop-words."""
    if language == "english":
        return (*require_extra("sklearn.feature_extraction.text").ENGLISH_STOP_WORDS, *CONTRACTIONS)
    package = require_extra("stop_words")
    name = package.LANGUAGE_MAPPING.get(language, language)
    if name not in package.AVAILABLE_LANGUAGES:
        languages = ", ".join(sorted({"english", *package.AVAILABLE_LANGUAGES}))
        expected = "a language, a file of words, a list of words or None"
        if where == "language":
            expected = "a language"
        remedy = f"pass a list of words; known languages: {languages}"
        raise fail(where, expected, repr(language), remedy)
    words = tuple(package.get_stop_words(name))
    if name == "turkish":
        return tuple(word.translate(TURKISH) for word in words)
    return words


@functools.cache
def _single_stop_words(language: str) -> frozenset[str]:
    """The stop words of a language that are one word, without the quotes and commas in some
    lists."""
    phrases = (find_all_words(normalise(word)) for word in language_stop_words(language))
    return frozenset(phrase[0] for phrase in phrases if len(phrase) == 1)


def detect_language(texts: Sequence[str]) -> str:
    """The language whose stop words are the most frequent in the texts; "" if stop words are few. A
    word counts less the more languages have it. English goes before languages that do little
    better.

    >>> detect_language(["Der Hund lief mit der Katze über die Straße.", "Der Igel war mit ihm im Garten."])
    'german'
    >>> detect_language(["alpha beta gamma", "delta epsilon"])
    ''
    """
    counts = collections.Counter(
        word for text in texts for word in find_all_words(to_lower(normalise(text)))
    )
    names = {*require_extra("stop_words").AVAILABLE_LANGUAGES, "english"}
    lists = {name: counts.keys() & _single_stop_words(name) for name in sorted(names)}
    num_languages = collections.Counter(word for words in lists.values() for word in words)
    scores = {
        name: sum(counts[word] / num_languages[word] for word in words)
        for name, words in lists.items()
    }
    best = max(scores, key=lambda name: scores[name])
    if 2 * scores["english"] >= scores[best]:
        best = "english"
    number = sum(counts[word] for word in lists[best])
    is_much = number >= max(LEAST_WORDS, LEAST * counts.total())
    return best if is_much and len(lists[best]) >= LEAST_DIFFERENT else ""


def choose_language(texts: Sequence[str], notes: Notes) -> str:
    """The language that `detect_language` finds, else English; a note names it."""
    try:
        language = detect_language(texts)
    except ImportError as error:
        notes.add(
            "The language of the text was not looked for, and English stop words are left out: "
            f"{error}"
        )
        return "english"
    if language:
        notes.add(
            f"By its stop words, which are left out, the text is in {language.capitalize()}. If "
            "not, set language."
        )
    else:
        notes.add(
            "The language of the text was not found by its stop words, and those of English are "
            "left out. If it is in another language, set language."
        )
    return language or "english"


# --- texts without spaces -------------------------------------------------------------------------
UNSPACED = {
    "Chinese or Japanese": (
        re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]+"),
        6,
    ),
    "Thai, Lao, Burmese or Khmer": (re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+"), 16),
}
"""Scripts without spaces between words, and the mean length from which on a run of letters is no
word."""
MUCH = 0.2
SOME = 0.01
REMEDY = (
    "put spaces between the words first, by jieba (Chinese), fugashi (Japanese) or pythainlp "
    "(Thai) for instance, and "
    r"set token_pattern to '\S+', since many of these words have one or two letters"
)


def check_spaces(texts: Sequence[str], where: str, notes: Notes) -> None:
    """Raises a DataError if at least a fifth of the letters is in clauses without spaces between
    words: each clause would be taken for one word. A smaller share is noted, and so are words of so
    few letters that most would be left out."""
    total = sum(len(text) - text.count(" ") for text in texts)
    texts = [text for text in texts if not text.isascii()]
    for name, (script, longest) in UNSPACED.items():
        runs = [run for text in texts for run in script.findall(text)]
        letters = sum(map(len, runs))
        if letters < SOME * max(total, 1):
            continue
        mean = sum(len(run) ** 2 for run in runs) / letters
        example = max(runs, key=len)[:20]
        if mean > longest and letters >= MUCH * total:
            actual = f"{name} without them, as in {example!r}"
            raise fail(where, "text with spaces between its words", actual, REMEDY)
        if mean > longest:
            notes.add(
                f"Some text is {name} without spaces, and its clauses are taken for words: "
                f"{example!r}."
            )
        elif letters >= MUCH * total and name == "Chinese or Japanese":
            notes.add(
                r"Words of one or two letters are left out, which are many here: set "
                r"token_pattern to '\S+'."
            )
