"""Words that stand for a missing cell: one rule for all tables.

A cell is missing if a table has no value there, or a text of blanks alone. Text files and
spreadsheets, which people write, also have words for it: NA in a column of names, and more of them
among numbers. Tables with types (Parquet, arrays, pandas, polars, Arrow, dicts) have none: there
"NA" is a name, such as Namibia's code, unless the user says otherwise. Words become missing once,
when a file is read, and are not searched for later."""

from __future__ import annotations

import collections
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vijax.data.reading.checks import fail, says_number
from vijax.data.schema.labels import is_none

NAMES = frozenset(["na", "n/a", "nan", "null", "?", "<na>", "#n/a", "#na"])
"""Words for a missing name of a class or a group, in lower case: a name may well be "none"."""
CODES = frozenset([".", "-", "--", "n.a."])
"""Words for a missing number, which are noted if they occur."""
NUMBERS = NAMES | CODES | {"none"}
"""Words for a missing cell among numbers, in lower case."""
LONGEST = max(map(len, NUMBERS))
"""Letters of the longest of these words."""
TRUTHS = {"true": True, "false": False}
"""True and False in files, in lower case."""
SETTING = "data.missing_words"


class Words(NamedTuple):
    """Words for a missing cell.

    Attributes:
      exact: words that match exactly.
      folded: words in lower case that match in any case.
      codes: numbers that stand for a missing cell, such as -999.
    """

    exact: frozenset[str] = frozenset()
    folded: frozenset[str] = frozenset()
    codes: frozenset[float] = frozenset()

    def have(self, text: str) -> bool:
        """True for a text that stands for a missing cell."""
        if not text or text in self.exact:
            return True
        if self.codes and says_number(text) and float(text) in self.codes:
            return True
        return len(text) <= LONGEST and text.lower() in self.folded


class MissingWords(NamedTuple):
    """The words of a file, in columns of names and in columns of numbers."""

    among_names: Words = Words()
    among_numbers: Words = Words()


def missing_words(given: Sequence[str] | None, written_by_people: bool) -> MissingWords:
    """The words of a file.

    Args:
      given: the user's words, for columns of names; None for the usual ones. Numbers also have the
        usual ones.
      written_by_people: True for text files and spreadsheets.

    Raises:
      DataError: a word is a number, and the file has types.

    >>> missing_words(None, True).among_names.have("NA"), missing_words([], True).among_names.have("NA")
    (True, False)
    """
    numbers = NUMBERS if written_by_people else frozenset()
    if given is None:
        return MissingWords(Words(folded=NAMES & numbers), Words(folded=numbers))
    for word in given:
        if says_number(word) and not written_by_people:
            expected = 'words that stand for a missing cell, such as "NA"'
            remedy = (
                "leave those cells empty in the file: in a file with types a number counts as one"
            )
            raise fail(SETTING, expected, repr(word), remedy)
    exact = frozenset(word.strip() for word in given)
    codes = frozenset(float(word) for word in exact if says_number(word))
    return MissingWords(Words(exact, codes=codes), Words(exact, numbers, codes))


def is_missing(cell: Any) -> bool:
    """True for a missing cell: no value, or a text of blanks alone."""
    return not cell.strip() if isinstance(cell, str) else is_none(cell)


class ClearedColumn(NamedTuple):
    """A column without words for missing cells.

    Attributes:
      cells: the cells, "" instead of those words.
      written: the original cells, if a word was among names; else None.
    """

    cells: list[Any]
    written: np.ndarray | None = None


def clear_words(cells: Sequence[Any], words: MissingWords, are_names: bool) -> ClearedColumn:
    """A column without words for missing cells; cells are texts without blanks around them, and
    perhaps numbers.

    Args:
      cells: the cells of a column.
      words: the words of the file.
      are_names: True if the column is known to be one of names; else its cells tell.

    >>> clear_words(["NA", "DE", "-"], missing_words(None, True), False).cells
    ['', 'DE', '-']
    >>> clear_words(["NA", "1.5", "-"], missing_words(None, True), False).cells
    ['', '1.5', '']
    """
    cells = _clear_codes(cells, words.among_numbers.codes)
    counts = collections.Counter(cell for cell in cells if isinstance(cell, str))
    if not any(text and words.among_numbers.have(text) for text in counts):
        return ClearedColumn(list(cells))
    if not are_names:
        num_values = sum(1 for cell in cells if not isinstance(cell, str) and not is_none(cell))
        are_names = _are_names(counts, num_values, words.among_numbers)
    column_words = words.among_names if are_names else words.among_numbers
    removed = {text for text in counts if text and column_words.have(text)}
    if not removed:
        return ClearedColumn(list(cells))
    new_cells = ["" if isinstance(cell, str) and cell in removed else cell for cell in cells]
    if not are_names:
        return ClearedColumn(new_cells)
    written = np.empty(len(cells), object)
    written[:] = cells
    return ClearedColumn(new_cells, written)


def _clear_codes(cells: Sequence[Any], codes: frozenset[float]) -> list[Any]:
    """The cells, without numbers of a spreadsheet that stand for a missing cell."""
    cleared = list(cells)
    if not codes:
        return cleared
    for place, cell in enumerate(cells):
        if isinstance(cell, int | float) and not isinstance(cell, bool) and float(cell) in codes:
            cleared[place] = ""
    return cleared


DOUBTFUL = (-9, -99, -999, -9999, -99999, 999, 9999, 99999)
"""Numbers that often stand for a missing value."""
FAR = 5
"""Times the largest other number, whatever its sign, from which such a number is in doubt."""
LEAST_FAR = 99
"""Least size of a number that is in doubt among numbers of both signs: a -9 there may be one."""


def doubtful_code(numbers: np.ndarray) -> int | None:
    """A number that may stand for a missing value: -999 and its like below numbers of 0 or more, or
    far from numbers of both signs; 999 and its like far above all others; None without one.

    >>> doubtful_code(np.array([7.4, -999.0, 8.6])), doubtful_code(np.array([-998.0, -999.0, 2.0]))
    (-999, None)
    >>> doubtful_code(np.array([-1.2, -999.0, 0.4])), doubtful_code(np.array([-1.2, -9.0, 0.4]))
    (-999, None)
    """
    finite = numbers[np.isfinite(numbers)]
    for code in DOUBTFUL:
        numbers = finite[finite != code]
        if len(numbers) == len(finite) or len(np.unique(numbers)) < 2:
            continue
        is_below = code < 0 and bool(numbers.min() >= 0)
        is_far = abs(code) > FAR * float(np.abs(numbers).max())
        if is_below or (is_far and abs(code) >= LEAST_FAR):
            return code
    return None


def said_of_code(column: str, numbers: np.ndarray, code: int) -> str:
    """A sentence on a number that may stand for a missing value; it ends where the remedy begins.

    >>> said_of_code("x", np.array([7.4, -999.0, 8.6]), -999).partition(",")[0]
    "'x' has -999 in 1 cell"
    """
    number = int((numbers == code).sum())
    return (
        f"{column!r} has {code} in {number:,} cell{'s' * (number > 1)}, far from its other "
        "numbers, and it counts as a number. If it stands for a missing value: "
    )


def _are_names(counts: Mapping[str, int], num_values: int, words: Words) -> bool:
    """True for a column with texts that are no numbers, and at most as many numbers.

    Args:
      counts: how often each text occurs.
      num_values: the number of cells that are values of other types.
      words: words for missing cells among numbers.
    """
    texts = {text: number for text, number in counts.items() if not words.have(text)}
    if all(text.lower() in TRUTHS for text in texts):
        return False
    num_numbers = num_values
    num_numbers += sum(number for text, number in texts.items() if says_number(text))
    return num_numbers <= sum(texts.values()) + num_values - num_numbers


def with_known_names(cells: np.ndarray, written: np.ndarray, known: Container[str]) -> np.ndarray:
    """The cells of a column of names, with those words restored that are names in the training
    data.

    >>> with_known_names(np.array(["", "DE"], object), np.array(["NA", "DE"], object), ["NA"]).tolist()
    ['NA', 'DE']
    """
    texts = [text.strip() if isinstance(text, str) else "" for text in written]
    is_known = np.array([bool(text) and text in known for text in texts], bool)
    return np.where(is_known, np.array(texts, object), cells)


def pandas_remedy(path: str, column: str) -> str:
    """The call of pandas that reads a column unchanged.

    >>> pandas_remedy("a.csv", "g")
    "pandas.read_csv('a.csv', converters={'g': str})"
    """
    if path.lower().endswith((".xlsx", ".xls", ".ods")):
        return f"pandas.read_excel({path!r}, keep_default_na=False)"
    return f"pandas.read_csv({path!r}, converters={{{column!r}: str}})"


def pandas_codes_remedy(path: str, code: int) -> str:
    """The call of pandas that reads a number as a missing cell.

    >>> pandas_codes_remedy("a.csv", -999)
    "pandas.read_csv('a.csv', na_values=['-999'])"
    """
    reader = "read_csv"
    if path.lower().endswith((".xlsx", ".xls", ".ods")):
        reader = "read_excel"
    return f"pandas.{reader}({path!r}, na_values=['{code}'])"


# --- messages -------------------------------------------------------------------------------------
IF_NAMES = (
    f" If it is a name: --set '{SETTING}=[]', or in Python give a table of pandas that has it as "
    "text."
)


def said_of_words(column: str, written: np.ndarray | None, missing: np.ndarray) -> str:
    """A sentence about the words of a column that were read as missing, with their number; ""
    without such words.

    Args:
      column: its name.
      written: its original cells; None if there were no such words.
      missing: a mask of its missing cells.
    """
    if written is None:
        return ""
    cells = [cell.strip() for cell in written[missing].tolist() if isinstance(cell, str)]
    counts = collections.Counter(cell for cell in cells if cell)
    if not counts:
        return ""
    words = []
    for word, number in counts.most_common(5):
        words.append(f"{word!r} ({number:,} cell{'s' * (number > 1)})")
    return f"In the column {column!r} {', '.join(words)} is read as missing."
