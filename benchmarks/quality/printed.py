"""A page of results: printed line by line as it is computed, and written to a file if one is
named."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def printed(page: Iterable[str], out: Path | None) -> None:
    """Prints the lines of a page."""
    lines = []
    for line in page:
        print(line, flush=True)
        lines.append(line)
    if out is not None:
        out.write_text("\n".join(lines).rstrip() + "\n")
