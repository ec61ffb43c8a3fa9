"""Words that stand for a missing cell: one rule for all tables.

A cell is missing where a table has nothing: no value, or a text of blanks alone. Text files and
spreadsheets, which people write, have words for it too: NA in a column of names, and more of them
among numbers. Tables with types of their own (Parquet, arrays, pandas, polars, Arrow, dicts) have
none: there "NA" is a name, such as Namibia's code, unless the user says otherwise. Words become
missing where a file is read, once; nobody later looks for them."""

from __future__ import annotations

import collections
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vijax.data.reading.checks import fail, says_number
from vijax.data.schema.labels import is_none

NAMES = frozenset(["na", "n/a", "nan", "null", "?", "<na>", "#n/a", "#na"])
"""Words for a missing name of a class or a group, in small letters: one may well be called
"none"."""
CODES = frozenset([".", "-", "--", "n.a."])
"""Words for a missing number, which are told where they occur."""
NUMBERS = NAMES | CODES | {"none"}
"""Words for a missing cell among numbers, in small letters."""
LONGEST = max(map(len, NUMBERS))
"""Letters of the longest of these words."""
TRUTHS = {"true": True, "false": False}
"""True and False as files have them, in small letters."""
SETTING = "data.missing_words"


class Words(NamedTuple):
    """Words for a missing cell.

    Attributes:
      exact: words as they are written.
      folded: words in small letters, that stand for those of any.
    """

    exact: frozenset[str] = frozenset()
    folded: frozenset[str] = frozenset()

    def have(self, text: str) -> bool:
        """True of a text that stands for a missing cell."""
        return (
            not text or text in self.exact or (len(text) <= LONGEST and text.lower() in self.folded)
        )


class MissingWords(NamedTuple):
    """The words of a file, in columns of names and in columns of numbers."""

    among_names: Words = Words()
    among_numbers: Words = Words()


def missing_words(given: Sequence[str] | None, written_by_people: bool) -> MissingWords:
    """The words of a file.

    Args:
      given: those that the user names, for columns of names; None for the usual ones. Numbers know
          the usual ones too.
      written_by_people: true of text files and spreadsheets.

    Raises:
      DataError: one of them is a number, which is no word.

    >>> missing_words(None, True).among_names.have("NA"), missing_words([], True).among_names.have("NA")
    (True, False)
    """
    numbers = NUMBERS if written_by_people else frozenset()
    if given is None:
        return MissingWords(Words(folded=NAMES & numbers), Words(folded=numbers))
    for word in given:
        if says_number(word):
            remedy = (
                "leave those cells empty in the file: a number counts as one wherever it stands"
            )
            raise fail(
                SETTING, 'words that stand for a missing cell, such as "NA"', repr(word), remedy
            )
    exact = frozenset(word.strip() for word in given)
    return MissingWords(Words(exact), Words(exact, numbers))


def is_missing(cell: Any) -> bool:
    """True of a cell that is missing: there is nothing, or a text of blanks alone."""
    return not cell.strip() if isinstance(cell, str) else is_none(cell)


class ClearedColumn(NamedTuple):
    """A column whose words for missing cells are gone.

    Attributes:
      cells: the cells, "" in place of those words.
      written: the cells as they were, where a word was among names; else None.
    """

    cells: list[Any]
    written: np.ndarray | None = None


def clear_words(cells: Sequence[Any], words: MissingWords, are_names: bool) -> ClearedColumn:
    """A column without words for missing cells; cells are texts without blanks around them, and
    perhaps numbers.

    Args:
      cells: the cells of a column.
      words: those of the file.
      are_names: true where the column is known to be one of names; else its cells say what it is.

    >>> clear_words(["NA", "DE", "-"], missing_words(None, True), False).cells
    ['', 'DE', '-']
    >>> clear_words(["NA", "1.5", "-"], missing_words(None, True), False).cells
    ['', '1.5', '']
    """
    counts = collections.Counter(cell for cell in cells if isinstance(cell, str))
    if not any(text and words.among_numbers.have(text) for text in counts):
        return ClearedColumn(list(cells))
    if not are_names:
        others = sum(1 for cell in cells if not isinstance(cell, str) and not is_none(cell))
        are_names = _are_names(counts, others, words.among_numbers)
    own = words.among_names if are_names else words.among_numbers
    gone = {text for text in counts if text and own.have(text)}
    if not gone:
        return ClearedColumn(list(cells))
    cleared = ["" if isinstance(cell, str) and cell in gone else cell for cell in cells]
    if not are_names:
        return ClearedColumn(cleared)
    written = np.empty(len(cells), object)
    written[:] = cells
    return ClearedColumn(cleared, written)


def _are_names(counts: Mapping[str, int], others: int, words: Words) -> bool:
    """True of a column with texts that are no numbers, and no more numbers than those.

    Args:
      counts: how often each text occurs.
      others: the number of cells that are values of other types.
      words: for missing cells among numbers.
    """
    there = {text: number for text, number in counts.items() if not words.have(text)}
    if all(text.lower() in TRUTHS for text in there):
        return False
    of_numbers = others + sum(number for text, number in there.items() if says_number(text))
    return of_numbers <= sum(there.values()) + others - of_numbers


def with_known_names(cells: np.ndarray, written: np.ndarray, known: Container[str]) -> np.ndarray:
    """The cells of a column of names with those words put back that are names in the data of
    training.

    >>> with_known_names(np.array(["", "DE"], object), np.array(["NA", "DE"], object), ["NA"]).tolist()
    ['NA', 'DE']
    """
    texts = [text.strip() if isinstance(text, str) else "" for text in written]
    is_known = np.array([bool(text) and text in known for text in texts], bool)
    return np.where(is_known, np.array(texts, object), cells)


def pandas_remedy(path: str, column: str) -> str:
    """The call of pandas that reads a column as it is written.

    >>> pandas_remedy("a.csv", "g")
    "pandas.read_csv('a.csv', converters={'g': str})"
    """
    if path.lower().endswith((".xlsx", ".xls", ".ods")):
        return f"pandas.read_excel({path!r}, keep_default_na=False)"
    return f"pandas.read_csv({path!r}, converters={{{column!r}: str}})"


# --- what is said ---------------------------------------------------------------------------------
IF_NAMES = (
    f" If it is a name: --set '{SETTING}=[]', or in Python give a table of pandas that has it as "
    "text."
)


def said_of_words(column: str, written: np.ndarray | None, missing: np.ndarray) -> str:
    """A sentence on the words of a column that were read as missing, with their number; "" where
    there are none.

    Args:
      column: its name.
      written: its cells as the file has them; None where no word was among them.
      missing: a mask of its missing cells.
    """
    if written is None:
        return ""
    counts = collections.Counter(
        cell.strip() for cell in written[missing].tolist() if isinstance(cell, str) and cell.strip()
    )
    if not counts:
        return ""
    cells = {word: f"{number:,} cell{'s' * (number > 1)}" for word, number in counts.most_common(5)}
    listed = ", ".join(f"{word!r} ({number})" for word, number in cells.items())
    return f"In the column {column!r} {listed} is read as missing."
