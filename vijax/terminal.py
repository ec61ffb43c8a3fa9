r"""Safe text for a terminal: control characters from data are shown, never obeyed.

A word, a title or a file name may hold an escape sequence (which colours, moves, renames or worse),
a character that reverses the direction of writing, or half a surrogate pair, which no terminal
takes."""

from __future__ import annotations

import re

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""The text, with control characters other than line ends and tabs spelt out.

    >>> printable("red: \x1b[31m, cut emoji: \ud83d, caf\u00e9")
    'red: \\x1b[31m, cut emoji: \\ud83d, café'
    """
    return UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
