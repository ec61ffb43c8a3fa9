"""Checks of data, with errors that say where, what was expected, what was found and what to do; and
notes on data."""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

INT32_MAX = 2**31 - 1
MAX_WORDS = 10_000_000
"""The largest vocabulary: ten topics over it take 400 MB."""
MAX_DOCUMENTS = 100_000_000
"""The most documents: the places where they start take 800 MB."""
MAX_EMPTY = 1_000_000
MAX_EMPTY_PER_ENTRY = 100
"""The most documents without entries, and the number that each entry adds: a small file may say
that it has many."""


class DataError(ValueError):
    """An error in data; the message says where, what was expected, what was found and what to
    do."""


REMEDY = "To mend it: "
"""The text between an error and its remedy."""


def fail(where: object, expected: str, got: str, remedy: str) -> DataError:
    """The error to raise: `where` is an argument's name, or a file and perhaps a line.

    >>> str(fail("corpus.dat:3", "counts of 1 or more", "-2", "correct the line"))
    'corpus.dat:3: expected counts of 1 or more, got -2. To mend it: correct the line.'
    """
    return DataError(f"{where}: expected {expected}, got {got}. {REMEDY}{remedy}.")


def listed(names: Iterable[object], most: int = 10) -> str:
    """Names in quotes, the first `most` of them.

    >>> listed(["a", "b", "c"], most=2)
    "'a', 'b' and 1 more"
    """
    names = list(names)
    rest_text = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(repr(str(name)) for name in names[:most]) + rest_text


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the nearest known name, and all of them.

    >>> nearest("txet", ["id", "text"])
    "did you mean 'text'? known: 'id', 'text'"
    """
    known = [str(k) for k in known]
    close = difflib.get_close_matches(name, known, n=1)
    question = f"did you mean {close[0]!r}? " if close else ""
    return f"{question}known: {listed(known, 30)}"


def says_number(text: str) -> bool:
    """True for the text of a number.

    >>> says_number("1e3"), says_number("1_000"), says_number("nan")
    (True, False, False)
    """
    if "_" in text:
        return False
    try:
        return not np.isnan(float(text))
    except ValueError:
        return False


def integer_counts(counts: np.ndarray, where: object) -> np.ndarray:
    """Counts as int32.

    Raises:
      DataError: a count is negative, fractional, not finite, beyond int32 or no number.
    """
    counts = np.asarray(counts)
    if counts.dtype.kind not in "biuf":
        raise fail(where, "counts that are numbers", f"dtype {counts.dtype}", "pass integers")
    for name, bad, remedy in _faults(counts):
        if bad.any():
            value = counts[tuple(np.argwhere(bad)[0])]
            actual = f"{name} {value} ({int(bad.sum())} such)"
            raise fail(where, "whole counts of 0 or more", actual, remedy)
    return counts.astype(np.int32, copy=False)


def _faults(counts: np.ndarray) -> Iterable[tuple[str, np.ndarray, str]]:
    """The reasons why numbers are no counts, one by one: a name, a mask of the wrong numbers and a
    remedy."""
    if counts.dtype.kind == "f":
        remedy = "replace missing values by 0, or drop those documents"
        yield "the not finite value", ~np.isfinite(counts), remedy
    remedy = "counts say how often a word occurs: drop or correct these entries"
    yield "the negative count", counts < 0, remedy
    if counts.dtype.kind == "f":
        remedy = (
            "pass raw counts, not tf-idf weights or frequencies; of ratings such as 3.5 the "
            "liked ones, x >= 4"
        )
        yield "the fractional count", counts != np.floor(counts), remedy
    yield "the count", counts > INT32_MAX, "no document can be that long: correct these entries"


def whole_numbers(values: Any, dtype: Any, where: object) -> np.ndarray:
    """One axis of integers, as `dtype`. Raises DataError for other axes, a fraction, or a number
    that `dtype` cannot hold.

    >>> whole_numbers([0.0, 2.0], np.int32, "ids")
    array([0, 2], dtype=int32)
    """
    values = np.asarray(values)
    remedy = "pass whole numbers, such as those of a SciPy CSR matrix"
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        actual = f"shape {values.shape}, dtype {values.dtype}"
        raise fail(where, "one axis of whole numbers", actual, remedy)
    if values.dtype == np.dtype(dtype):
        return np.ascontiguousarray(values)
    is_float = values.dtype.kind == "f"
    # Floats count in steps of one only up to 2^53.
    exact = 2**53 if is_float else np.iinfo(dtype).max
    limit = min(np.iinfo(dtype).max, exact)
    bad = ~((values >= -limit) & (values <= limit))
    if is_float:
        bad |= values != np.floor(values)
    if bad.any():
        place = int(np.argmax(bad))
        actual = f"{values[place]} at place {place} ({int(bad.sum())} such)"
        raise fail(where, f"whole numbers of at most {limit}", actual, remedy)
    return np.ascontiguousarray(values, dtype=dtype)


def check_vocab_size(vocab_size: int, where: object) -> None:
    """Raises a DataError for more words than `MAX_WORDS`, before memory is allocated for them."""
    if vocab_size > MAX_WORDS:
        expected = f"a vocabulary of at most {MAX_WORDS:,} words"
        remedy = (
            "number the words that occur 0, 1, 2, ... (numpy.unique does it), or leave rare "
            "words out"
        )
        raise fail(where, expected, f"one of {vocab_size:,}", remedy)


def check_num_documents(number: int, where: object, entries: int | None = None) -> None:
    """Raises a DataError for more documents than `MAX_DOCUMENTS`, or for far more than their
    `entries`, if given, before memory is allocated for them."""
    remedy = "check the number of documents, or divide them among several files"
    if number > MAX_DOCUMENTS:
        raise fail(where, f"at most {MAX_DOCUMENTS:,} documents", f"{number:,}", remedy)
    if entries is not None and number > MAX_EMPTY + MAX_EMPTY_PER_ENTRY * entries:
        limit = MAX_EMPTY + MAX_EMPTY_PER_ENTRY * entries
        expected = (
            f"at most {limit:,} documents, there being {entries:,} entries of a document and a word"
        )
        remedy = "correct the number of documents; nearly all of these are empty"
        raise fail(where, expected, f"{number:,}", remedy)


def check_offsets(indptr: np.ndarray, where: object) -> None:
    """Raises a DataError unless the offsets of documents begin at 0 and never fall."""
    if len(indptr) < 2:
        remedy = "check the path, the file ending and the column"
        raise fail(where, "one document or more", "none", remedy)
    backwards = np.flatnonzero(np.diff(indptr) < 0)
    if indptr[0] != 0 or len(backwards):
        place = int(backwards[0]) + 1 if len(backwards) else 0
        expected = "offsets that begin at 0 and never fall"
        actual = f"{indptr[place]} at place {place}"
        raise fail(where, expected, actual, "pass the indptr of a CSR matrix")


def check_word_ids(indices: np.ndarray, vocab_size: int, where: object) -> None:
    """Raises a DataError for a word id outside 0 .. vocab_size - 1."""
    if indices.size == 0:
        return
    low = int(indices.min())
    high = int(indices.max())
    if low < 0 or high >= vocab_size:
        remedy = "pass the whole vocabulary, and check whether the ids start from 0 or from 1"
        expected = f"word ids from 0 to {vocab_size - 1}, the vocabulary having {vocab_size} words"
        raise fail(where, expected, f"word id {low if low < 0 else high}", remedy)


def check_vocabulary(vocabulary: Sequence[str], vocab_size: int, where: object) -> None:
    """Raises a DataError unless the vocabulary has one word per column of the counts."""
    if len(vocabulary) != vocab_size:
        remedy = "pass the vocabulary that the counts were made with, one word per column, in order"
        raise fail(where, f"a vocabulary of {vocab_size} words", f"{len(vocabulary)} words", remedy)


class Notes:
    """Remarks for the user, gathered while data are read; equal ones are merged.

    >>> notes = Notes()
    >>> notes.add("Empty lines are left out.", "a.txt:3")
    >>> notes.add("Empty lines are left out.", "a.txt:7")
    >>> notes.texts()
    ('Empty lines are left out. (2 such, the first at a.txt:3)',)
    """

    def __init__(self) -> None:
        self._notes: dict[str, tuple[int, str | None]] = {}

    def add(self, note: str, where: str | None = None, times: int = 1) -> None:
        """Adds a note; with a place, its text tells the number of times, and the first place."""
        number, first = self._notes.get(note, (0, where))
        self._notes[note] = (number + times, first)

    def texts(self) -> tuple[str, ...]:
        """All notes, in the order in which they were first added."""
        return tuple(
            note if first is None else f"{note} ({number:,} such, the first at {first})"
            for note, (number, first) in self._notes.items()
        )


_HALF = re.compile("[\ud800-\udfff]")
HALF_REPLACED = (
    "Half a letter, such as \\ud83d of a cut emoji, is replaced by \ufffd in a text or title."
)


def whole_letters(text: str, notes: Notes, where: str) -> str:
    """The text with halves of letters (say of a cut emoji) replaced, and a note about them.

    >>> whole_letters("cut \\ud83d", Notes(), "a.jsonl:1")
    'cut \ufffd'
    """
    if text.isascii() or not _HALF.search(text):
        return text
    notes.add(HALF_REPLACED, _HALF.sub("\ufffd", where))
    return _HALF.sub("\ufffd", text)


def check_whole_letters(strings: Sequence[str], where: str) -> Sequence[str]:
    """The strings, if all can be written to a file. Raises DataError for a string with half a
    letter, or for anything but strings."""
    with contextlib.suppress(TypeError):
        joined = "".join(strings)  # fast for correct strings, also for a million of them
        if joined.isascii() or not _HALF.search(joined):
            return strings
    for place, text in enumerate(strings):
        if not isinstance(text, str):
            raise fail(where, "strings", f"{text!r} at place {place}", "pass strings")
        if _HALF.search(text):
            actual = f"half a letter in {text[:40]!r} at place {place}"
            remedy = "replace it: text.encode('utf-8', 'replace').decode()"
            raise fail(where, "whole letters", actual, remedy)
    return strings
