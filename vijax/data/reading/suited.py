"""The settings that say how a file is written, and the formats that have them: a setting that does
not suit its data is an error."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from vijax.data.reading.checks import DataError

TEXTS = ("text-folder", "text-lines", "jsonl", "csv", "parquet", "sheet")
"""Formats of texts; formats of counts have words already."""
NAMES = {
    "csv": "a text file whose lines have cells (.csv, .tsv, .txt)",
    "jsonl": "JSON lines",
    "text-lines": "a text file with a document on each line",
    "text-folder": "a folder of text files",
    "sheet": "a spreadsheet",
    "parquet": "Parquet",
    "arrays": "a file of NumPy arrays",
    "synthetic": "a synthetic table",
    "sklearn": "a table of scikit-learn",
    "npz": "a file of counts",
    "matrix-market": "a file of counts",
    "lda-c": "a file of counts",
    "uci": "a file of counts",
    "shards": "prepared shards of counts",
    "ratings": "a table of users and items, which has names and no texts",
    "corpus": "a corpus, which has words already",
}
"""Names of formats in messages."""


class Purpose(NamedTuple):
    """A setting.

    Attributes:
      what: the meaning of the setting.
      formats: the formats that have it.
    """

    what: str
    formats: tuple[str, ...]


OF_WORDS = Purpose("how text becomes words", TEXTS)
PURPOSES = {
    "encoding": Purpose(
        "the encoding of text files", ("text-folder", "text-lines", "jsonl", "csv")
    ),
    "separator": Purpose("what divides the cells of a csv", ("csv",)),
    "decimal": Purpose("the decimal sign of a text file", ("csv",)),
    "sheet": Purpose("the sheet of a spreadsheet", ("sheet",)),
    "column": Purpose("the column that has the text", ("jsonl", "csv", "parquet", "sheet")),
    "synthetic_seed": Purpose("the seed of a synthetic table", ("synthetic",)),
    "sha256": Purpose("the checksum of the file at an http(s) address", ()),
    "missing_words": Purpose(
        "words for a missing cell of a table",
        ("csv", "sheet", "parquet", "arrays", "sklearn", "jsonl"),
    ),
    **dict.fromkeys(("lowercase", "token_pattern", "language", "stop_words", "ngrams"), OF_WORDS),
    **dict.fromkeys(("min_df", "max_df", "max_vocabulary", "text"), OF_WORDS),
}
"""Settings by name."""


OF_TEXTS = frozenset(name for name, purpose in PURPOSES.items() if purpose.formats == TEXTS)
OF_TEXTS |= {"column"}
"""Settings of documents; the others are settings of files."""


class Formats(NamedTuple):
    """The formats of some data.

    Attributes:
      file: the format of the file.
      data: the format of its contents: "ratings" for a csv with users and items; else as `file`.
      is_address: True if the file is fetched from an http(s) address.
    """

    file: str
    data: str
    is_address: bool = False

    def have(self, name: str) -> bool:
        """True for a setting that data of these formats have, or that is not among `PURPOSES`."""
        if name == "sha256":
            return self.is_address
        if name not in PURPOSES:
            return True
        return (self.data if name in OF_TEXTS else self.file) in PURPOSES[name].formats


def unsuited_text(name: str, formats: Formats, path: object) -> str:
    """The text of an error about a setting.

    >>> unsuited_text("separator", Formats("sheet", "sheet"), "a.xlsx")
    'is what divides the cells of a csv, and a.xlsx is a spreadsheet. To mend it: leave it out.'
    """
    kind = "a file or folder of this machine"
    if name != "sha256":
        kind = NAMES[formats.data if name in OF_TEXTS else formats.file]
    return f"is {PURPOSES[name].what}, and {path} is {kind}. To mend it: leave it out."


def check_settings(given: Iterable[str], formats: Formats, path: object) -> None:
    """Raises a DataError for an argument that data of these formats do not have."""
    for name in given:
        if not formats.have(name):
            raise DataError(f"{name}: {unsuited_text(name, formats, path)}")
