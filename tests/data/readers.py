"""The registry of readers: every form in which a table may come, and every way in which a column
may be typed.

A `Form` writes columns and gives what the reader is given: a path, or a table in memory. A `Typing`
is a column of four rows, the third of which may be missing, with what every reader has to make of
it. What a form cannot hold is told by its reason."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import decimal
import gzip
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data import spreadsheets

NAN = float("nan")


# --- columns --------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True, eq=False)
class Typing:
    """A column of four rows."""

    name: str
    array: Any
    """The column as NumPy has it, or a list."""
    numbers: tuple[float, ...] | None
    """Its numbers, NaN where one is missing; None where it is no column of numbers, which is then
    refused as one."""
    labels: tuple[str, ...]
    """The names of its cells as levels; "" where one is missing."""
    in_text: tuple[str, ...] | None = None
    """How a program writes its cells as text; None: as Python does."""
    text_names: tuple[str, ...] | None = None
    """The names where a file has text alone: these are its text, exactly."""
    library: str | None = None
    """The library that has such columns, alone."""

    def texts(self) -> list[str]:
        """The cells of a text file."""
        if self.in_text is not None:
            return list(self.in_text)
        return ["" if is_missing(cell) else str(cell) for cell in self.cells()]

    def cells(self) -> list[Any]:
        """Python's own cells, None where one is missing."""
        values = self.array.tolist() if hasattr(self.array, "tolist") else list(self.array)
        return [None if is_missing(cell) else cell for cell in values]

    def __repr__(self) -> str:
        return self.name


def is_missing(cell: Any) -> bool:
    return (
        cell is None
        or type(cell).__name__ in ("NAType", "NaTType")
        or (isinstance(cell, float) and cell != cell)
    )


WORD = "NA"
"""The code of Namibia, or a word for a missing cell."""
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
UNITS = ("D", "s", "ms", "us", "ns")
DAYS = ("2024-05-01", "2024-04-30", "2024-05-01", "2023-01-01")


def pandas_column(values: list, dtype: str) -> Any:
    return pytest.importorskip("pandas").array(values, dtype=dtype)


HALVES = (1.5, -2, NAN, 1.5)
NAMES_OF_HALVES = ("1.5", "-2", "", "1.5")
TEXT_OF_HALVES = ("1.5", "-2.0", "", "1.5")
NAMES = ("3", "1", "2", "3")
LARGE = (2**53 + 1, 2**53, 1, 2)
PADDED = ("007", "7", "07", "7")
TRUTHS = ("True", "False", "False", "True")
DECIMALS = ("1.5", "-2", "0.25", "1.5")


def of_halves(name: str, array: Any) -> Typing:
    return Typing(name, array, HALVES, NAMES_OF_HALVES, text_names=TEXT_OF_HALVES)


def of_pandas(name: str, values: list, dtype: str, numbers: Any, labels: tuple[str, ...]) -> Typing:
    return Typing(name, pandas_column(values, dtype), numbers, labels, library="pandas")


def typings() -> list[Typing]:
    return [
        *(Typing(kind, np.array([3, 1, 2, 3], kind), (3, 1, 2, 3), NAMES) for kind in WHOLE),
        *(of_halves(kind, np.array(HALVES, kind)) for kind in ("float32", "float64")),
        of_halves("masked", np.ma.masked_array([1.5, -2, 9, 1.5], [0, 0, 1, 0])),
        Typing(
            "whole floats",
            np.array([3.0, 1, 2, 3]),
            (3, 1, 2, 3),
            NAMES,
            text_names=("3.0", "1.0", "2.0", "3.0"),
        ),
        Typing("large whole", np.array(LARGE), None, tuple(map(str, LARGE))),
        Typing("zero-padded text", list(PADDED), None, PADDED),
        Typing("text", ["b", "a", "ü x", "b"], None, ("b", "a", "ü x", "b")),
        Typing(
            "text with missing", np.array(["b", "a", None, "b"], object), None, ("b", "a", "", "b")
        ),
        Typing("codes", np.array([WORD, "DE", None, "DE"], object), None, (WORD, "DE", "", "DE")),
        Typing("truth", np.array([True, False, False, True]), (1, 0, 0, 1), TRUTHS),
        *(
            Typing(
                f"days in {unit}", np.array(DAYS, f"datetime64[{unit}]"), None, DAYS, in_text=DAYS
            )
            for unit in UNITS
        ),
        Typing("Python's days", list(map(datetime.date.fromisoformat, DAYS)), None, DAYS),
        Typing("decimals", list(map(decimal.Decimal, DECIMALS)), (1.5, -2, 0.25, 1.5), DECIMALS),
        of_pandas("nullable whole", [3, 1, None, 3], "Int64", (3, 1, NAN, 3), ("3", "1", "", "3")),
        of_pandas(
            "nullable truth",
            [True, False, None, True],
            "boolean",
            (1, 0, NAN, 1),
            ("True", "False", "", "True"),
        ),
        of_pandas("categories", ["b", "a", None, "b"], "category", None, ("b", "a", "", "b")),
    ]


# --- forms ----------------------------------------------------------------------------------------
Columns = Mapping[str, Typing]


@dataclasses.dataclass(frozen=True, eq=False)
class Form:
    """A form in which tables come."""

    name: str
    make: Callable[[Path, Columns], Any]
    covers: str
    """The ending of files, or the library, that it is of."""
    has_types: bool
    """Whether it says what its cells are; else all are text."""
    third_row: str
    """What a message calls the third row."""
    cannot: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Typings that it does not hold, and why."""
    has_words: bool = False
    """Whether people write it, so that words such as NA say that a name is missing."""

    def labels(self, typing: Typing) -> tuple[str, ...]:
        """The names of the cells of a column, as this form has them."""
        labels = typing.labels if self.has_types else typing.text_names or typing.labels
        if "semicolons" in self.name and typing.numbers is not None:
            return tuple(name.replace(".", ",") for name in labels)
        return tuple("" if self.has_words and name == WORD else name for name in labels)

    def holds(self, typing: Typing) -> bool:
        return typing.name not in self.cannot and typing.library in (None, self.covers)

    def __repr__(self) -> str:
        return self.name


def lines(columns: Columns, separator: str, with_commas: bool = False) -> str:
    """A table as text."""

    def cell(typing: Typing, text: str) -> str:
        return text.replace(".", ",") if with_commas and typing.numbers is not None else text

    rows = zip(
        *([cell(typing, text) for text in typing.texts()] for typing in columns.values()),
        strict=True,
    )
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows([tuple(columns), *rows])
    return text.getvalue()


def text_file(
    ending: str, separator: str, with_commas: bool = False
) -> Callable[[Path, Columns], str]:
    def write(folder: Path, columns: Columns) -> str:
        path = folder / f"table{ending}"
        text = lines(columns, separator, with_commas).encode()
        path.write_bytes(gzip.compress(text) if ending.endswith(".gz") else text)
        return str(path)

    return write


def in_sheet(cell: Any) -> Any:
    """A cell as a person enters it: numbers are numbers, and True and False themselves; all else is
    text."""
    if cell is None or isinstance(cell, bool):
        return cell
    return float(cell) if isinstance(cell, int | float | decimal.Decimal) else str(cell)


def sheet_rows(columns: Columns) -> list[list[Any]]:
    cells = [map(in_sheet, day_texts(typing)) for typing in columns.values()]
    return [list(columns), *map(list, zip(*cells, strict=True))]


def day_texts(typing: Typing) -> list[Any]:
    return list(typing.in_text) if typing.in_text is not None else typing.cells()


def xlsx(folder: Path, columns: Columns) -> str:
    cells = {
        f"{'ABCDEF'[place]}{row + 1}": value
        for row, values in enumerate(sheet_rows(columns))
        for place, value in enumerate(values)
        if value is not None
    }
    return str(spreadsheets.xlsx(folder / "table.xlsx", cells))


def ods(folder: Path, columns: Columns) -> str:
    def cell(value: Any) -> str:
        if isinstance(value, str):
            return (
                "<table:table-cell "
                f'office:value-type="string"><text:p>{value}</text:p></table:table-cell>'
            )
        return spreadsheets.ods_cell(value)

    rows = "".join(spreadsheets.ods_row("".join(map(cell, row))) for row in sheet_rows(columns))
    return str(spreadsheets.ods(folder / "table.ods", rows))


def plain(typing: Typing) -> Any:
    """A column for libraries that know no masks."""
    return typing.cells() if isinstance(typing.array, np.ma.MaskedArray) else typing.array


def arrow_table(columns: Columns) -> Any:
    arrow = pytest.importorskip("pyarrow")
    made = {}
    for name, typing in columns.items():
        values = plain(typing)
        is_array = isinstance(values, np.ndarray) and values.dtype.kind != "f"
        made[name] = (
            arrow.array(values) if is_array else arrow.array(typing.cells(), from_pandas=True)
        )
    return arrow.table(made)


def parquet(folder: Path, columns: Columns) -> str:
    path = str(folder / "table.parquet")
    pytest.importorskip("pyarrow.parquet").write_table(arrow_table(columns), path)
    return path


def npz(folder: Path, columns: Columns) -> str:
    np.savez(
        folder / "table.npz", **{name: np.asarray(typing.array) for name, typing in columns.items()}
    )
    return str(folder / "table.npz")


def pandas_frame(folder: Path, columns: Columns) -> Any:
    make = pytest.importorskip("pandas").DataFrame
    return make({name: plain(typing) for name, typing in columns.items()})


def polars_frame(folder: Path, columns: Columns) -> Any:
    polars = pytest.importorskip("polars")
    return polars.DataFrame(
        {name: polars.Series(name, plain(typing)) for name, typing in columns.items()}
    )


def records(folder: Path, columns: Columns) -> list[dict[str, Any]]:
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*(t.cells() for t in columns.values()), strict=True)
    ]


def pandas_index(folder: Path, columns: Columns) -> Any:
    return pandas_frame(folder, columns).set_axis(["p", "q", "r", "s"], axis=0)


def pandas_part(folder: Path, columns: Columns) -> Any:
    """Some rows of a larger frame, whose index goes on to number those of that."""
    return pandas_frame(folder, columns).set_axis([10, 12, 17, 30], axis=0)


def structured(folder: Path, columns: Columns) -> np.ndarray:
    arrays = {name: np.asarray(typing.array) for name, typing in columns.items()}
    table = np.empty(4, [(name, array.dtype) for name, array in arrays.items()])
    for name, array in arrays.items():
        table[name] = array
    return table


OF_SHEETS = {"large whole": "numbers of a spreadsheet have 15 digits, and longer names are refused"}
NOT_IN_ARRAYS = (
    "text with missing",
    "codes",
    "Python's days",
    "decimals",
    "masked",
    *(f"days in {unit}" for unit in UNITS),
)
OF_ARRAYS = dict.fromkeys(NOT_IN_ARRAYS, "arrays of a file have no objects, dates and masks")
WITHOUT_SECONDS = {"days in s": "its dates are in days, or in milliseconds and finer"}
WITHOUT_MASK = {"masked": "a structure has no mask"}
IN_MEMORY = "row 2, counted from 0"
FORMS = [
    Form("csv", text_file(".csv", ","), ".csv", False, "line 4", has_words=True),
    Form(
        "csv with semicolons",
        text_file(".csv", ";", with_commas=True),
        ".csv",
        False,
        "line 4",
        has_words=True,
    ),
    Form("csv in gzip", text_file(".csv.gz", ","), ".csv", False, "line 4", has_words=True),
    Form("tsv", text_file(".tsv", "\t"), ".tsv", False, "line 4", has_words=True),
    Form("txt", text_file(".txt", ","), ".txt", False, "line 4", has_words=True),
    Form("xlsx", xlsx, ".xlsx", True, "row 4", OF_SHEETS, has_words=True),
    Form("ods", ods, ".ods", True, "row 4", OF_SHEETS, has_words=True),
    Form("parquet", parquet, ".parquet", True, "row 3"),
    Form("npz", npz, ".npz", True, "row 3", OF_ARRAYS),
    Form(
        "dict",
        lambda folder, columns: {name: one.array for name, one in columns.items()},
        "dict",
        True,
        IN_MEMORY,
    ),
    Form("pandas", pandas_frame, "pandas", True, IN_MEMORY),
    Form("polars", polars_frame, "polars", True, IN_MEMORY, WITHOUT_SECONDS),
    Form("pyarrow", lambda folder, columns: arrow_table(columns), "pyarrow", True, IN_MEMORY),
    Form("pandas with an index", pandas_index, "pandas", True, "row 'r' of the index"),
    Form("part of pandas", pandas_part, "pandas", True, "row 17 of the index"),
    Form(
        "records",
        records,
        "records",
        True,
        IN_MEMORY,
        {"days in ns": "NumPy gives whole numbers for them"},
    ),
    Form("structured", structured, "numpy", True, IN_MEMORY, WITHOUT_MASK),
]
COVERED_ELSEWHERE = {
    ".xls": "numbers alone are made by hand: tests/data/test_hostile_files.py, "
    "tests/app/test_spreadsheets.py",
    ".npy": "a matrix, whose columns have names by place: tests/data/test_table_files.py",
}
