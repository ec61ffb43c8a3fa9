"""Warnings of the library in the words of the command line: one line each, without the place in the
program."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from vijax.app.plan.wording import in_command_line_terms
from vijax.terminal import printable


@contextlib.contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """Has Python show a warning as the program shows its own.

    >>> with warnings_in_a_line():
    ...     warnings.showwarning(UserWarning("Two rows are alike."), UserWarning, "a.py", 7)  # on stderr
    """
    before = warnings.showwarning
    warnings.showwarning = _shown  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.showwarning = before


def _shown(message: Warning | str, category: Any, filename: str, lineno: int, *_: Any) -> None:
    del category, filename, lineno
    text = " ".join(str(message).split())
    print(f"Warning: {printable(in_command_line_terms(text))}", file=sys.stderr)
