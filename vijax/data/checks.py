"""What is wrong with an input, said so that it can be mended: where, what was expected, what came, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import numpy as np

INT32_MAX = 2**31 - 1


def fail(where: object, expected: str, got: str, remedy: str) -> ValueError:
    """The error to raise: `where` is an argument's name, or a file and perhaps a line.

    >>> str(fail("corpus.dat:3", "counts of 1 or more", "-2", "correct the line"))
    'corpus.dat:3: expected counts of 1 or more, got -2. To mend it: correct the line.'
    """
    return ValueError(f"{where}: expected {expected}, got {got}. To mend it: {remedy}.")


def nearest(name: str, known: Iterable[str]) -> str:
    """'did you mean ...', and the known names, for a name that is not among them.

    >>> nearest("txet", ["id", "text"])
    "did you mean 'text'? known: 'id', 'text'"
    """
    known = [str(k) for k in known]
    close = difflib.get_close_matches(name, known, n=1)
    question = f"did you mean {close[0]!r}? " if close else ""
    return f"{question}known: {', '.join(map(repr, known))}"


def integer_counts(counts: np.ndarray, where: object) -> np.ndarray:
    """`counts` as int32.

    Raises:
      ValueError: one is negative, fractional, not finite, beyond int32, or not a number; the message holds the first.
    """
    counts = np.asarray(counts)
    if counts.dtype.kind not in "biuf":
        raise fail(where, "counts that are numbers", f"dtype {counts.dtype}", "pass integers")
    for name, bad, remedy in _faults(counts):
        if bad.any():
            value = counts[tuple(np.argwhere(bad)[0])]
            raise fail(where, "whole counts of 0 or more", f"{name} {value} ({int(bad.sum())} such)", remedy)
    return counts.astype(np.int32, copy=False)


def _faults(counts: np.ndarray) -> Iterable[tuple[str, np.ndarray, str]]:
    """The ways in which numbers fail to be counts, lazily: each is a name, a mask of offenders and a remedy."""
    if counts.dtype.kind == "f":
        remedy = "replace missing values by 0, or drop those documents"
        yield "the not finite value", ~np.isfinite(counts), remedy
    yield "the negative count", counts < 0, "counts say how often a word occurs: drop or correct these entries"
    if counts.dtype.kind == "f":
        yield "the fractional count", counts != np.floor(counts), "pass raw counts, not tf-idf weights or frequencies"
    yield "the count", counts > INT32_MAX, "no document can be that long: correct these entries"


def check_word_ids(indices: np.ndarray, vocab_size: int, where: object) -> None:
    """Raises a ValueError when a word id is outside 0 .. vocab_size - 1."""
    if indices.size == 0:
        return
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= vocab_size:
        remedy = "pass the whole vocabulary, and check whether the ids start from 0 or from 1"
        expected = f"word ids from 0 to {vocab_size - 1}, the vocabulary having {vocab_size} words"
        raise fail(where, expected, f"word id {low if low < 0 else high}", remedy)


def check_vocabulary(vocabulary: Sequence[str], vocab_size: int, where: object) -> None:
    """Raises a ValueError when the vocabulary does not have one word per column of the counts."""
    if len(vocabulary) != vocab_size:
        remedy = "pass the vocabulary that the counts were made with, one word per column, in order"
        raise fail(where, f"a vocabulary of {vocab_size} words", f"{len(vocabulary)} words", remedy)
