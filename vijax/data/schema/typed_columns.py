"""Tables of any source as typed columns, for formulas.

Files, dicts, and tables of pandas, polars and pyarrow become a `TypedTable`. The kind of a column
(numbers, labels, dates) is decided once, by all its cells; later rows are read by that decision
(`vijax.data.schema.schema`)."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import difflib
import functools
import re
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from numbers import Real
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float

from vijax.checks import require
from vijax.data.reading.checks import Notes
from vijax.data.schema.cells import (
    are_records,
    array_of_cells,
    array_of_list,
    column_name,
    columns_of_records,
    declared_categories,
    has_order,
)
from vijax.data.schema.labels import Labels, distinct_values, labels_of_distinct, name_of_value
from vijax.data.schema.missing_words import (
    IF_NAMES,
    TRUTHS,
    doubtful_code,
    is_missing,
    pandas_codes_remedy,
    pandas_remedy,
    said_of_code,
    said_of_words,
    with_known_names,
)
from vijax.data.schema.near_numbers import NearNumbers, near_numbers
from vijax.data.schema.row_names import RowNames, find_row_names, memory_row_names
from vijax.data.schema.same_rows import require_one_index
from vijax.data.schema.schema import Schema
from vijax.data.tables.columns import Columns, FileColumns, NamedColumns, number, row_names
from vijax.data.tables.table_files import read_columns

ColumnKind = Literal["number", "truth", "label", "time", "mixed", "digits", "empty"]
"""The kind of a column's cells: numbers; True and False; labels; dates; numbers with some text
among them; numbers as text in memory, which may be meant as labels; only missing cells."""
SHEET = ": set sheet for another."
"""The end of the note about a spreadsheet of several sheets, a setting of the command line."""
DAY = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}.*)?")


@dataclasses.dataclass(frozen=True, eq=False)
class TypedColumn:
    """A column of a table.

    Attributes:
      name: its name.
      values: its cells: numbers, dates or objects, (N,).
      from_file: whether text is the text of a file, in which numbers are text too.
      declared: the categories that the table itself declares, in their order, or None.
      ordered: True if the table says that this order means something, as "low" before "high".
      decided: its kind, if more cells than these decided it, such as all cells of the file.
      texts: the exact text of its cells in a file, for labels, if `values` are numbers; else None.
      written: its original cells in a file, if words were read as missing; else None.
    """

    name: str
    values: np.ndarray
    from_file: bool = False
    declared: tuple[Any, ...] | None = None
    ordered: bool = False
    decided: ColumnKind | None = None
    texts: np.ndarray | None = None
    written: np.ndarray | None = None

    @functools.cached_property
    def missing(self) -> Bool[np.ndarray, " N"]:
        """A mask of the missing cells."""
        if self.values.dtype.kind == "f":
            return np.isnan(self.values)
        if self.values.dtype.kind in "mM":
            return np.isnat(self.values)
        if self.values.dtype.kind != "O":
            return np.zeros(len(self.values), bool)
        distinct, codes = self.distinct
        return np.array([is_missing(value) for value in distinct], bool)[codes]

    @functools.cached_property
    def distinct(self) -> tuple[list[Any], np.ndarray]:
        """The distinct cells, and the place of each row's cell among them."""
        return distinct_values(self.values)

    def said_missing(self, remedy: str = IF_NAMES) -> str:
        """Sentences about the words that were read as missing, and a remedy; "" without them."""
        text = said_of_words(self.name, self.written, self.missing)
        return f"{text}{remedy}" if text else ""

    def with_names(self, known: Container[str]) -> TypedColumn:
        """The column with words that were read as missing restored if they are names in the
        training data."""
        if self.written is None or self.values.dtype != object:
            return self
        values = with_known_names(self.values, self.written, known)
        texts = None if self.texts is None else with_known_names(self.texts, self.written, known)
        return dataclasses.replace(self, values=values, texts=texts)

    def original_cells(self) -> np.ndarray:
        """The cells as the file has them, also words that were read as missing."""
        return self.values if self.written is None else self.written

    @functools.cached_property
    def kind(self) -> ColumnKind:
        """The kind of the cells, decided by all of them."""
        if self.decided is not None:
            return self.decided
        if self.declared is not None:
            return "label"
        by_type: dict[str, ColumnKind] = {
            "i": "number",
            "u": "number",
            "f": "number",
            "b": "truth",
            "M": "time",
            "m": "time",
        }
        if (kind := by_type.get(self.values.dtype.kind)) is not None:
            return kind
        return self._kind_of_objects()

    def _kind_of_objects(self) -> ColumnKind:
        distinct, codes = self.distinct
        present = [place for place, value in enumerate(distinct) if not is_missing(value)]
        cells = [distinct[place] for place in present]
        if not cells:
            return "empty"
        kinds = set(map(_kind_of_cell, cells))
        if kinds <= {"number", "truth"}:
            return "truth" if kinds == {"truth"} else "number"
        if kinds == {"time"} or all(DAY.fullmatch(str(cell)) for cell in cells):
            return "time"
        if self.from_file and all(str(cell).lower() in TRUTHS for cell in cells):
            return "truth"
        counts = np.bincount(codes, minlength=len(distinct))[present]
        num_numbers = int(counts[[_says_number(cell) for cell in cells]].sum())
        if num_numbers == counts.sum():
            return "number" if self.from_file else "digits"
        return "mixed" if 2 * num_numbers > counts.sum() else "label"

    def numbers(self) -> Float[np.ndarray, " N"]:
        """The cells as numbers, NaN for missing ones; ValueError, with the row, for a cell that is
        no number."""
        if self.values.dtype.kind in "biuf":
            return self.values.astype(float)
        if self.values.dtype.kind in "mM":
            raise NoNumber(0, self.values[0] if len(self.values) else "")
        distinct, codes = self.distinct
        numbers = np.empty(len(distinct))
        for place, value in enumerate(distinct):
            try:
                numbers[place] = np.nan if is_missing(value) else self._number(value)
            except (ValueError, TypeError, OverflowError) as error:
                raise NoNumber(int(np.argmax(codes == place)), value) from error
        return numbers[codes]

    def _number(self, cell: Any) -> float:
        if isinstance(cell, str) and self.from_file and cell.lower() in TRUTHS:
            return float(TRUTHS[cell.lower()])
        if not isinstance(cell, str):
            if _kind_of_cell(cell) not in ("number", "truth"):
                raise ValueError(str(cell))
            return float(cell)
        return number(cell)

    def not_numbers(self) -> np.ndarray:
        """The rows of cells that are no numbers and not missing."""
        if self.values.dtype.kind in "biuf":
            return np.array([], int)
        distinct, codes = self.distinct
        is_bad = [not is_missing(value) and not _says_number(value) for value in distinct]
        return np.flatnonzero(np.array(is_bad, bool)[codes])

    @functools.cached_property
    def near_numbers(self) -> NearNumbers | None:
        """The first cell that means a number and does not say one, in a column of such texts.
        Categories that a table declares are labels."""
        if self.kind != "label" or self.declared is not None:
            return None
        present = np.flatnonzero(~self.missing)
        first_near = near_numbers([str(cell) for cell in self.values[present].tolist()])
        if first_near is None:
            return None
        return first_near._replace(place=int(present[first_near.place]))

    def rows(self, places: np.ndarray) -> TypedColumn:
        """Some of its cells, of the same kind."""
        texts = None if self.texts is None else self.texts[places]
        written = None if self.written is None else self.written[places]
        return dataclasses.replace(
            self, values=self.values[places], decided=self.kind, texts=texts, written=written
        )

    @functools.cached_property
    def _labels(self) -> Labels:
        values, codes = self.distinct if self.texts is None else distinct_values(self.texts)
        labels = labels_of_distinct(values, codes, is_missing)
        if self.declared is None:
            return labels
        declared = tuple(name_of_value(value)[1] for value in self.declared)
        return dataclasses.replace(labels, declared=declared)

    def labels(self) -> Labels:
        """The cells as labels."""
        return self._labels


class NoNumber(ValueError):
    """A cell that is no number.

    Attributes:
      row: its row, counted from 0.
      value: the cell.
    """

    def __init__(self, row: int, value: Any):
        super().__init__(f"{str(value)[:40]!r} in row {row}")
        self.row = row
        self.value = value


TIMES = (
    datetime.date,
    datetime.time,
    datetime.timedelta,
    np.datetime64,
    np.timedelta64,
)
"""Types of cells that say a time, or a length of time."""


def _kind_of_cell(cell: Any) -> str:
    if isinstance(cell, bool | np.bool_):
        return "truth"
    if isinstance(cell, TIMES) or type(cell).__name__ == "Period":  # of pandas
        return "time"  # numpy.timedelta64 is an integer to Python
    if isinstance(cell, Real | decimal.Decimal):
        return "number"
    return "text"


def _says_number(cell: Any) -> bool:
    if not isinstance(cell, str):
        return _kind_of_cell(cell) in ("number", "truth")
    try:
        return not np.isnan(number(cell))
    except ValueError:
        return False


# --- tables ---------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True, eq=False)
class TypedTable:
    """Columns by name.

    Attributes:
      columns: the columns by name.
      size: the number of rows.
      names: the names of its rows in messages; None for rows in memory, counted from 0.
      repeated: names that several columns have; they are not among `columns`.
    """

    columns: Mapping[str, TypedColumn]
    size: int
    names: RowNames | None = None
    repeated: tuple[str, ...] = ()

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    def __len__(self) -> int:
        return self.size

    def column(self, argument: str, name: str) -> TypedColumn:
        """A column; ValueError that names the argument, and the nearest name, if the table has
        none."""
        actual = f"several columns {[name]}"
        expected = "one column of each name in the formula"
        require(name not in self.repeated, argument, expected, actual, "Rename them.")
        if name not in self.columns:
            names = list(self.columns)
            close_names = difflib.get_close_matches(name, names, 1)
            remedy = f"Did you mean {close_names[0]!r}?" if close_names else ""
            require(False, argument, f"a column {name!r} in the table", f"columns {names}", remedy)
        return self.columns[name]

    @property
    def row_names(self) -> RowNames:
        """The names of its rows in messages."""
        return memory_row_names(self.size) if self.names is None else self.names

    @property
    def places(self) -> np.ndarray:
        """The labels of its rows: numbers, or the labels of an index."""
        return self.row_names.labels

    def row_name(self, row: int) -> str:
        """The name of a row in messages.

        >>> typed_table({"x": [1, 2]}).row_name(1)
        'row 1, counted from 0'
        """
        return self.row_names.name(row)

    def list_rows(self, rows: Sequence[int]) -> str:
        """The names of some rows in messages, the first five of them.

        >>> typed_table({"x": np.zeros(9)}).list_rows([0, 1, 2, 3, 4, 5])
        'rows 0, 1, 2, 3, 4, ... (6 such), counted from 0'
        """
        return self.row_names.list_rows(rows)

    def rows(self, places: np.ndarray) -> TypedTable:
        """The table of some rows. The kinds of columns stay those of all rows."""
        columns = {name: column.rows(places) for name, column in self.columns.items()}
        names = self.row_names.take(places)
        return dataclasses.replace(self, columns=columns, size=len(places), names=names)

    def with_levels(self, schema: Schema) -> TypedTable:
        """The table of a file, read by a schema: a word that is a level there is not missing."""
        columns = dict(self.columns)
        for entry in schema.columns:
            if entry.name in columns and entry.levels is not None:
                levels = frozenset(entry.levels.names)
                columns[entry.name] = columns[entry.name].with_names(levels)
        return dataclasses.replace(self, columns=columns)

    def check_truths(self, schema: Schema) -> None:
        """Raises ValueError if a column of True and False in training has another number."""
        for entry in schema.columns:
            column = self.columns.get(entry.name)
            if entry.kind != "truth" or column is None or column.kind != "number":
                continue
            numbers = column.numbers()
            wrong = np.flatnonzero(~np.isin(numbers, (0, 1)) & ~np.isnan(numbers))
            actual = ""
            if len(wrong):
                row = int(wrong[0])
                actual = f"{numbers[row]:g} in {self.row_name(row)} of {entry.name!r}"
            expected = "true or false (1 or 0), as training has"
            require(not len(wrong), "table", expected, actual, "Correct the cell.")

    def with_column(self, name: str, values: Any) -> TypedTable:
        """The table with one more column, or with a column replaced."""
        column = _column_in_memory(name, values)
        return dataclasses.replace(self, columns={**self.columns, name: column})


def typed_table(
    table: Any, labels: Container[str] = (), numbers: Container[str] = ()
) -> TypedTable:
    """Any table as typed columns.

    Args:
      table: columns by name (a dict, a structured array, a table of pandas, polars or pyarrow),
        rows that are dicts, the columns of a file, or its path.
      labels: columns of a file that name levels: their text stays exact.
      numbers: columns of a file that may also be read as numbers.

    Raises:
      ValueError: an object of another kind, or columns of different lengths.

    >>> typed_table({"x": [1, None], "day": np.array(["2024-05-01"] * 2, "datetime64[D]")}).columns["day"].kind
    'time'
    """
    if isinstance(table, TypedTable):
        return table
    if isinstance(table, str):
        notes = Notes()
        read = functools.partial(read_columns, table, notes=notes)
        typed = table_of_file(read, labels, numbers)
        _warn_of_sheets(notes)
        _warn_of_words(typed, table, labels, numbers)
        _warn_of_codes(typed, table, labels, numbers)
        return typed
    if isinstance(table, FileColumns):
        return _file_table(table)
    if are_records(table):
        table = columns_of_records(table)
    if isinstance(table, np.ndarray) and table.dtype.names:
        table = {name: table[name] for name in table.dtype.names}
    if isinstance(table, Mapping):
        require_one_index({"table": table})
        rows = table.rows if isinstance(table, NamedColumns) else None
        columns = []
        for name, values in table.items():
            columns.append(_column_in_memory(column_name(name), values))
        return _make_table(columns, rows)
    return _library_table(table)


def _library_table(table: Any) -> TypedTable:
    """A table of pandas, polars or pyarrow as typed columns."""
    is_lazy = type(table).__name__ == "LazyFrame"
    require(not is_lazy, "table", "a table in memory", "a LazyFrame", "Pass table.collect().")
    columns = getattr(table, "columns", None)
    expected = (
        "columns by name (a dict, a list of dicts, a table of pandas, polars or pyarrow), or a path"
    )
    require(columns is not None, "table", expected, type(table).__name__)
    names = list(getattr(table, "column_names", columns))  # type: ignore[arg-type]
    by_place = getattr(table, "iloc", None)
    pick: Callable[[int], Any] = lambda place: table[names[place]]
    if by_place is not None:  # pandas
        pick = lambda place: by_place[:, place]
    elif hasattr(table, "column_names"):  # pyarrow; two of its columns may have one name
        pick = table.column
    index = find_row_names(table, len(table))
    columns = []
    for place, name in enumerate(names):
        columns.append(_column_in_memory(column_name(name), pick(place), index))
    return _make_table(columns, index)


def _warn_of_sheets(notes: Notes) -> None:
    """Warns that one of several sheets is read, as the rows of another may be meant."""
    remedy = ". For another pass pandas.read_excel(path, sheet_name=...)."
    for note in notes.texts():
        if note.endswith(SHEET):
            warnings.warn(f"{note.removesuffix(SHEET)}{remedy}", UserWarning, stacklevel=3)


def _warn_of_words(
    table: TypedTable, path: str, labels: Container[str], numbers: Container[str]
) -> None:
    """Warns of words in used columns that count as missing, as a name may be among them."""
    for name, column in table.columns.items():
        remedy = f" If it is a name, pass {pandas_remedy(path, name)}."
        if (name in labels or name in numbers) and (text := column.said_missing(remedy)):
            warnings.warn(text, UserWarning, stacklevel=3)


def _warn_of_codes(
    table: TypedTable, path: str, labels: Container[str], numbers: Container[str]
) -> None:
    """Warns of numbers such as -999 in used columns, which may stand for a missing value."""
    for name, column in table.columns.items():
        if name not in numbers or name in labels or column.values.dtype.kind not in "iuf":
            continue
        values = np.asarray(column.values, np.float64)
        code = doubtful_code(values)
        if code is not None:
            remedy = f"pass {pandas_codes_remedy(path, code)}."
            warnings.warn(said_of_code(name, values, code) + remedy, UserWarning, stacklevel=3)


def table_of_file(
    read: Callable[..., Columns], labels: Container[str], numbers: Container[str] = ()
) -> TypedTable:
    """The table of a file.

    Args:
      read: function of `exact=` that returns the columns; those named in `exact` keep the exact
        text of the file.
      labels: columns that name levels.
      numbers: columns that may be read as numbers; a column in both has its exact text besides its
        numbers.
    """
    table = _file_table(read(exact=labels))
    in_both = [name for name in table.columns if name in labels and name in numbers]
    if not in_both:
        return table
    typed = _file_table(read(exact=()))
    columns = dict(table.columns)
    for name in in_both:
        exact = table.columns[name]
        columns[name] = dataclasses.replace(
            typed.columns[name], texts=exact.values, written=exact.written
        )
    return dataclasses.replace(table, columns=columns)


def _make_table(columns: Sequence[TypedColumn], rows: RowNames | None = None) -> TypedTable:
    names = [column.name for column in columns]
    duplicates = (name for place, name in enumerate(names) if name in names[:place])
    repeated = tuple(dict.fromkeys(duplicates))
    by_name = {column.name: column for column in columns if column.name not in repeated}
    sizes = {len(column.values) for column in columns}
    require(len(sizes) <= 1, "table", "columns of one length", f"lengths {sorted(sizes)}")
    return TypedTable(by_name, next(iter(sizes), 0), rows, repeated)


def _file_table(columns: Columns) -> TypedTable:
    assert isinstance(columns, FileColumns)
    typed = {}
    for name, values in columns.items():
        written = columns.written.get(name)
        if name in columns.cells:  # the file has types of its own: its text is text, as in memory
            array = array_of_list(columns.cells[name].tolist(), name)
            declared = columns.declared.get(name)
            typed[name] = TypedColumn(
                name, array, declared=declared, ordered=declared is not None, written=written
            )
        else:
            typed[name] = TypedColumn(name, np.asarray(values), from_file=True, written=written)
    return TypedTable(typed, len(columns.rows.labels), row_names(columns))


def _column_in_memory(name: str, values: Any, rows: RowNames | None = None) -> TypedColumn:
    """A column of a dict, or of a table of pandas, polars or pyarrow."""
    if isinstance(values, TypedColumn):
        return dataclasses.replace(values, name=name)
    is_vector = hasattr(values, "__len__") and not isinstance(values, str | bytes)
    expected = "columns that are vectors"
    actual = f"{name!r}: {str(values)[:40]!r}"
    require(is_vector, "table", expected, actual, "Write [...] around it.")
    declared = declared_categories(values)
    array = array_of_cells(values, name, None if rows is None else rows.mid_sentence)
    require(array.ndim == 1, "table", expected, f"{name!r} of shape {array.shape}")
    is_plain = array.dtype.kind not in "cV"
    expected = "real numbers, text, dates or categories"
    require(is_plain, "table", expected, f"{name!r} of {array.dtype}")
    if array.dtype.kind in "US":
        array = array.astype(str).astype(object)
    elif array.dtype.kind not in "biufMmO":
        array = array.astype(object)
    return TypedColumn(name, array, declared=declared, ordered=has_order(values))
