"""Warnings of the library in the words of the command line: one line each, no code location."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from vijax.app.plan.wording import to_command_line_terms
from vijax.terminal import printable


@contextlib.contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """Has Python show a warning as the program shows its own.

    >>> with warnings_in_a_line():
    ...     warnings.showwarning(UserWarning("Two rows are alike."), UserWarning, "a.py", 7)  # on stderr
    """
    showwarning = warnings.showwarning
    warnings.showwarning = _print_warning  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.showwarning = showwarning


def _print_warning(
    message: Warning | str, category: Any, filename: str, lineno: int, *_: Any
) -> None:
    del category, filename, lineno
    text = " ".join(str(message).split())
    print(f"Warning: {printable(to_command_line_terms(text))}", file=sys.stderr)
