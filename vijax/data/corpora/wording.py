"""Names for the rows and columns of counts in messages: documents and words, or users and items."""

from __future__ import annotations

from typing import NamedTuple


class Wording(NamedTuple):
    """Names for a kind of rows.

    Attributes:
      rows: the rows, in the plural.
      columns: their columns.
      counted: the sum of all counts, in the plural.
      empty: the end of the note about rows without any count.
      left_out: the end of the note about counts of columns that a fit does not know.
      shared: the argument, and the expectation, of the error if a fit knows none of the columns.
      to_share: its remedy.
    """

    rows: str
    columns: str
    counted: str
    empty: str
    left_out: str
    shared: tuple[str, str]
    to_share: str


OF_DOCUMENTS = Wording(
    "documents",
    "words",
    "tokens",
    "documents are empty: they are kept, and say nothing about the topics.",
    "tokens are of words that are not in the vocabulary: they are left out.",
    ("vocabulary", "some word in common with the corpus"),
    "use texts of the same kind, tokenised in the same way",
)
OF_USERS = Wording(
    "users",
    "items",
    "counts",
    "users took none of the items: they are kept, and say nothing about the components.",
    "counts are of items that the fit does not know: they are left out.",
    ("items", "some item that the fit knows"),
    "name items as in training; users who took none of those have a row of count 0 instead",
)
