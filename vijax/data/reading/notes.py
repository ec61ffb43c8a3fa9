"""What the reader of some data should be told though it is no error, each thing once."""

from __future__ import annotations


class Notes:
    """Notes gathered while data are read.

    >>> notes = Notes()
    >>> notes.add("Empty lines are left out.", "a.txt:3")
    >>> notes.add("Empty lines are left out.", "a.txt:7")
    >>> notes.texts()
    ('Empty lines are left out. (2 such, the first at a.txt:3)',)
    """

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str | None]] = {}

    def add(self, note: str, where: str | None = None) -> None:
        """Adds a note; with a place, how often and where first are told with it."""
        number, first = self._found.get(note, (0, where))
        self._found[note] = (number + 1, first)

    def texts(self) -> tuple[str, ...]:
        """All notes, in the order in which they first came."""
        return tuple(
            note if first is None else f"{note} ({number:,} such, the first at {first})"
            for note, (number, first) in self._found.items()
        )
