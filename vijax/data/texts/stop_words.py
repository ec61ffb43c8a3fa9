"""Words too common to say anything: lists of languages, of files, of your own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vijax.data.reading.checks import fail
from vijax.extras import require_extra

# What is left of "don't", "we've", ... when the apostrophe divides words, and scikit-learn's list does not hold.
CONTRACTIONS = (
    *("ain", "aren", "couldn", "didn", "doesn", "don", "hadn", "hasn", "haven", "isn", "mustn", "needn", "shan"),
    *("shouldn", "wasn", "weren", "wouldn", "ll", "ve"),
)


def stop_words_of(stop_words: str | Path | Sequence[str] | None) -> tuple[str, ...]:
    """The words that a setting means.

    Args:
      stop_words: "english" (scikit-learn's list and contractions), another language ("german": the list of the package
        stop-words), the path of a file with a word on each line, the words themselves, or None.

    Raises:
      ValueError: a string that is neither a language nor a file; a file without words.

    >>> "und" in stop_words_of("german"), stop_words_of(["the"]), stop_words_of(None)
    (True, ('the',), ())
    """
    if stop_words == "english":
        return (*require_extra("sklearn.feature_extraction.text").ENGLISH_STOP_WORDS, *CONTRACTIONS)
    if isinstance(stop_words, str | Path):
        path = Path(stop_words).expanduser()
        return _in_file(path) if path.is_file() else _of_language(str(stop_words))
    return tuple(stop_words or ())


def _in_file(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise fail(f"stop_words: {path}", "text in UTF-8", f"other bytes ({error})", "save it as UTF-8") from error
    words = tuple(word for line in lines if (word := line.strip()))
    if not words:
        raise fail(f"stop_words: {path}", "a word on each line", "an empty file", "write the words, or pass None")
    return words


def _of_language(name: str) -> tuple[str, ...]:
    package = require_extra("stop_words")
    if name not in package.AVAILABLE_LANGUAGES:
        known = ", ".join(sorted({"english", *package.AVAILABLE_LANGUAGES}))
        expected = "a language, a file of words, a list of words or None"
        raise fail("stop_words", expected, repr(name), f"pass a list of words; known languages: {known}")
    return tuple(package.get_stop_words(name))
