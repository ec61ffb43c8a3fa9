"""Halves of letters: what a text that was cut in the middle of an emoji holds, and no file can."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from vijax.data.reading.checks import fail
from vijax.data.reading.notes import Notes

_HALF = re.compile("[\ud800-\udfff]")
NOTE = "Half a letter, such as \\ud83d of a cut emoji, is replaced by \ufffd in a text or title."


def whole_letters(text: str, notes: Notes, where: str) -> str:
    """`text` with halves of letters replaced, of which a note is made.

    >>> whole_letters("cut \\ud83d", Notes(), "a.jsonl:1")
    'cut \ufffd'
    """
    if text.isascii() or not _HALF.search(text):
        return text
    notes.add(NOTE, whole_letters_of(where))
    return whole_letters_of(text)


def whole_letters_of(text: str) -> str:
    """`text` with halves of letters replaced."""
    return _HALF.sub("\ufffd", text)


def check_whole_letters(strings: Sequence[str], where: str) -> Sequence[str]:
    """The strings, if all can be written to a file.

    Raises:
      DataError: one holds half a letter, or is no string.
    """
    with contextlib.suppress(TypeError):
        joined = "".join(strings)  # quick where all is well, of a million words too
        if joined.isascii() or not _HALF.search(joined):
            return strings
    for place, text in enumerate(strings):
        if not isinstance(text, str):
            raise fail(where, "strings", f"{text!r} at place {place}", "pass strings")
        if _HALF.search(text):
            remedy = "replace it: text.encode('utf-8', 'replace').decode()"
            raise fail(where, "whole letters", f"half a letter in {text[:40]!r} at place {place}", remedy)
    return strings
