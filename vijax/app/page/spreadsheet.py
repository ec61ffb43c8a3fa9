"""Quoting of text in CSV, so that a spreadsheet shows it and does not run it.

A cell that begins with =, +, -, @, a tab or a line end is a formula to a spreadsheet, and may start programs or send
data away (OWASP, CSV Injection). Such a cell gets a single quote in front, which marks text for spreadsheets. Numbers
are left alone. A cell with quotes in front of such a beginning gets one more, so that `unquoted` restores every text.
"""

from __future__ import annotations

import re

FORMULA = re.compile(r"^'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""The beginnings of formulas; some spreadsheets take the wide signs too."""
NUMBER = re.compile(r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$")


def quoted(text: str) -> str:
    """A cell with a single quote in front, if a spreadsheet would run it.

    >>> [quoted(text) for text in ("=1+1", "-x", "-1.5", "+1e-5", "x=1", "'=1")]
    ["'=1+1", "'-x", '-1.5', '+1e-5', 'x=1', "''=1"]
    """
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def unquoted(text: str) -> str:
    """The text that `quoted` was given.

    >>> [unquoted(quoted(text)) for text in ("=1+1", "'=1", "'x", "-1.5")]
    ['=1+1', "'=1", "'x", '-1.5']
    """
    return text[1:] if text.startswith("'") and FORMULA.match(text) else text
