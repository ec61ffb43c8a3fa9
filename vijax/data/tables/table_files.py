"""Tables from files, from scikit-learn's bundled data sets and from synthetic generators."""

from __future__ import annotations

import decimal
import functools
import re
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vijax.data.reading.checks import Notes, fail, listed, nearest, says_number
from vijax.data.reading.download import fetch, is_url
from vijax.data.reading.files import SHEETS, naming, path_kind
from vijax.data.reading.parquet_values import (
    CELL_BYTES,
    EXACT,
    check_num_rows,
    check_room,
    check_row_groups,
    to_values,
)
from vijax.data.reading.partitions import check_one_format, folder_cells, index_note, is_index
from vijax.data.reading.store import (
    from_parquet,
    is_address,
    no_parquet,
    parquet_files,
    parquet_parts,
)
from vijax.data.schema.cells import column_name
from vijax.data.schema.labels import label_name
from vijax.data.schema.missing_words import (
    CODES,
    ClearedColumn,
    MissingWords,
    clear_words,
    doubtful_code,
    is_missing,
    missing_words,
    said_of_code,
)
from vijax.data.schema.row_names import RowNames, lines, rows_of_files
from vijax.data.tables.columns import (
    WHOLE,
    FileColumns,
    are_truths,
    parse_column,
    parse_truths,
    smallest_integers,
    strip_blanks,
)
from vijax.data.tables.formats import (
    USUAL,
    Decimal,
    DelimitedFile,
    Dialect,
    doubtful_point,
    find_decimal_sign,
    have_decimal_commas,
    load_arrays,
    read_delimited_file,
    read_sheet,
    with_points,
)
from vijax.data.tables.synthetic_tables import GENERATORS
from vijax.data.tables.table import Choice, Columns, Table, make_table
from vijax.extras import require_extra
from vijax.files import local_path

BUNDLED = ("breast_cancer", "diabetes", "digits", "iris", "wine")
"""Data sets that scikit-learn includes."""
KNOWN = (
    ".csv, .tsv, .txt, .xlsx, .xls, .ods, .parquet, .npy, .npz (the text ones also as .gz), an "
    "http(s) address of one, a folder of .parquet files, such a folder or file in a store that "
    f"fsspec knows (s3://bucket/folder), sklearn:NAME ({', '.join(BUNDLED)}) or synthetic:NAME "
    f"({', '.join(GENERATORS)})"
)


def read_table(
    source: str,
    choice: Choice | None = None,
    *,
    seed: int = 0,
    num_rows: int | None = None,
    dialect: Dialect = USUAL,
    sha256: str | None = None,
) -> Table:
    """A table from a file, from scikit-learn's data sets or from a synthetic generator. Only an
    http(s) address is downloaded.

    Args:
      source: see `KNOWN`. Text files have a header line; empty cells, NA, NaN and ? are missing
        values there and in spreadsheets.
      choice: the columns to use.
      seed: seed of a synthetic generator.
      num_rows: number of rows to generate, or of first rows to read.
      dialect: how the file is written.
      sha256: SHA-256 that the file at an address must have.

    Raises:
      ValueError: the message names the file and line or column, what was expected, what was found
        and what to do.

    >>> read_table("sklearn:iris").x.shape
    (150, 4)
    """
    choice = choice or Choice()
    notes = Notes()
    all_columns = read_columns(source, seed, num_rows, dialect, sha256, choice.labels, notes)
    return make_table(all_columns, choice, source, notes)


def read_columns(
    source: str,
    seed: int = 0,
    num_rows: int | None = None,
    dialect: Dialect = USUAL,
    sha256: str | None = None,
    exact: Container[str] = (),
    notes: Notes | None = None,
) -> Columns:
    """Every column of a source by name; see `read_table`.

    Columns in `exact` hold names, say of groups, which stay unchanged: 007 is not 7, and no two
    whole numbers merge."""
    kind, _, name = source.partition(":")
    if kind == "synthetic":
        if name not in GENERATORS:
            raise fail(source, "a generator that there is", repr(name), nearest(name, GENERATORS))
        generator = GENERATORS[name]
        rng = np.random.default_rng(seed)
        return FileColumns(generator.draw(rng, num_rows or generator.num_rows))
    if kind == "sklearn":
        all_columns = _sklearn_columns(source, name)
    elif is_parquet(source):
        all_columns = _parquet(source, dialect, exact, notes or Notes())
    else:
        path = fetch(source, sha256) if is_url(source) else local_path(source)
        with naming(path):
            all_columns = _reader(path)(path, dialect, exact, notes or Notes())
    if not isinstance(all_columns, FileColumns):
        all_columns = FileColumns(all_columns)
    return all_columns.first(num_rows)


def names_of_columns(source: str, dialect: Dialect = USUAL) -> list[str] | None:
    """The column names of a source, for a text file from its header alone; None if they cannot be
    read."""
    try:
        if Path(source).suffix.lower() in (".csv", ".tsv", ".txt") and not is_url(source):
            return read_delimited_file(local_path(source), dialect).header
        if is_parquet(source):
            files = parquet_files(source)
            if not files:
                return None
            return from_parquet(files[0], lambda file: file.schema_arrow).names
        return list(read_columns(source, num_rows=1, dialect=dialect))
    except (OSError, ValueError, ImportError):
        return None  # reading the data reports the error


def is_parquet(source: str) -> bool:
    """True for a folder, which then is one of Parquet files, and for an address in a store."""
    return is_address(source) or local_path(source).is_dir()


def _reader(path: Path) -> Callable[[Path, Dialect, Container[str], Notes], Columns]:
    kind = path_kind(path)
    if kind != "a file":
        raise fail(path, "a file", kind, f"check the path; tables are {KNOWN}")
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    if ending not in READERS:
        raise fail(path, KNOWN, f"the ending {ending!r}", "convert the file, or rename it")
    return READERS[ending]


def _sklearn_columns(source: str, name: str) -> Columns:
    if name not in BUNDLED:
        expected = "a data set that comes with scikit-learn"
        raise fail(source, expected, repr(name), nearest(name, BUNDLED))
    bunch = getattr(require_extra("sklearn.datasets"), f"load_{name}")()
    names = [str(name).removesuffix(" (cm)").replace(" ", "_") for name in bunch.feature_names]
    columns = dict(zip(names, np.asarray(bunch.data, float).T, strict=True))
    target = np.asarray(bunch.target, float)
    if "target_names" in bunch and name != "digits":
        target = np.array([str(bunch.target_names[i]) for i in bunch.target], object)
    return columns | {"target": target}


def _csv(path: Path, dialect: Dialect, exact: Container[str], notes: Notes) -> Columns:
    table = read_delimited_file(path, dialect, notes)
    header = table.header
    may_have_commas = dialect.decimal == "," or (dialect.decimal is None and table.separator != ",")
    names = with_points(header, None, f"{path}:{table.line}")[0] if may_have_commas else header
    _check_header(names, f"{path}:{table.line}", notes)
    rows, ends = _full_rows(path, table, notes)
    raw = {name: [row[place] for row in rows] for place, name in enumerate(header) if name}
    columns = {name: [cell.strip() for cell in column] for name, column in raw.items()}
    _say_blanks(raw, notes)
    numeric = [name for name in columns if name not in exact]
    sign = dialect.decimal
    if may_have_commas:
        sign = _to_points(path, columns, numeric, dialect, notes)
    words = missing_words(dialect.missing_words, written_by_people=True)
    cleared = {name: clear_words(cells, words, name in exact) for name, cells in columns.items()}
    _say_codes(columns, cleared, notes)
    file_columns = FileColumns(
        {name: _column(c.cells, name, name in exact, notes) for name, c in cleared.items()},
        lines(ends),
    )
    file_columns.written = {
        name: column.written for name, column in cleared.items() if column.written is not None
    }
    _say_doubtful_codes(file_columns, notes)
    file_columns.decimal = sign or find_decimal_sign(columns.values())
    for name in numeric:
        if are_truths(cleared[name].cells):
            file_columns.cells[name] = parse_truths(cleared[name].cells)
    return file_columns


def _full_rows(path: Path, table: DelimitedFile, notes: Notes) -> tuple[list[list[str]], list[int]]:
    """The rows of a text file, each as long as the header, and the lines on which they end."""
    rows: list[list[str]] = []
    ends: list[int] = []
    width = len(table.header)
    for line, row in table.rows:
        if len(row) < width:
            remedy = "correct the line"
            if row[0].lstrip().startswith("#"):
                remedy = f"{remedy}; remove comments below the header"
            raise fail(f"{path}:{line}", f"{width} cells, as in the header", f"{len(row)}", remedy)
        rows.append(row)
        ends.append(line)
    _drop_empty_end(path, rows, ends, notes)
    _say_comments(path, "Line", [row[0] for row in rows], ends, notes)
    return rows, ends


def _drop_empty_end(path: Path, cells: list[list[str]], ends: list[int], notes: Notes) -> None:
    """Drops the last rows that have only separators, which spreadsheets write below a table. Such
    rows between others stay: they are rows whose cells are all missing."""
    last = len(cells)
    while last and len(cells[last - 1]) > 1 and not any(cell.strip() for cell in cells[last - 1]):
        last -= 1
    if last == len(cells) or not last:
        return
    place = f"lines {ends[last]} to {ends[-1]} have"
    if last + 1 == len(cells):
        place = f"line {ends[last]} has"
    notes.add(f"The last {place} no value in {path.name}: left out.")
    del cells[last:], ends[last:]


FAULT_OF_SHEET = re.compile(r"#[A-Z/0]+[!?]?")
"""The text of a spreadsheet for a value that it cannot compute, such as #DIV/0!."""


def _say_comments(
    path: Path, called: str, first_cells: Sequence[str], ends: Sequence[int], notes: Notes
) -> None:
    """Notes rows that may be comments: a minority that begins with #."""
    is_comment = lambda cell: (
        cell.lstrip().startswith("#") and FAULT_OF_SHEET.fullmatch(cell.strip()) is None
    )
    marked = [line for line, cell in zip(ends, first_cells, strict=True) if is_comment(cell)]
    if marked and 2 * len(marked) <= len(ends):
        rest_text = "" if len(marked) == 1 else f", and {len(marked) - 1:,} more"
        notes.add(
            f"{called} {marked[0]} of {path.name}{rest_text}: read as a row, with # in front. "
            "Remove it if a comment."
        )


def _to_points(
    path: Path,
    columns: dict[str, list[str]],
    numeric: Sequence[str],
    dialect: Dialect,
    notes: Notes,
) -> Decimal | None:
    """Replaces decimal commas by points in the columns that may be of numbers; returns the decimal
    sign of the file, None if no cell shows it."""
    sign = dialect.decimal or dialect.decimal_before
    if (
        dialect.decimal is None
        and sign == "."
        and any(have_decimal_commas(columns[name]) for name in numeric)
    ):
        sign = None  # training had points; this file has commas
    changed: dict[str, str] = {}
    for name in [] if sign == "." else numeric:
        cells = columns[name]
        doubtful = doubtful_point(cells)
        columns[name], cell = with_points(cells, sign, f"{path}, column {name!r}")
        if cell and sign is None:
            changed[name] = cell
        if doubtful and not cell and dialect.decimal is None:
            notes.add(_points_note(name, doubtful, columns[name][cells.index(doubtful)]))
    if changed:
        cell = next(iter(changed.values()))
        notes.add(
            f"In {listed(changed)} commas stand before decimals, as in {cell!r}, and points "
            "between thousands. If not, set decimal."
        )
        return ","
    return dialect.decimal or (sign if sign == "," else None)


def _points_note(name: str, cell: str, read: str) -> str:
    """The note about a column whose points may stand before decimals or between thousands."""
    if read == cell:
        return (
            f"In {name!r} points stand before decimals, as in {cell!r}. If they divide thousands, "
            "set decimal to a comma."
        )
    return (
        f"In {name!r} points divide thousands, as training had decimal commas: {cell!r} is "
        f"{read}. If not, set decimal."
    )


def _column(cells: list[str], name: str, exact: bool, notes: Notes) -> np.ndarray:
    """The cells of a text file as numbers, or as text. Rounded whole numbers are noted."""
    if exact:
        return np.array(cells, object)
    column = parse_column(cells)
    if column.dtype.kind == "f" and np.any(np.abs(column) >= EXACT):
        rounded = [
            c for c, x in zip(cells, column, strict=True) if WHOLE.fullmatch(c) and int(x) != int(c)
        ]
        if rounded:
            notes.add(_rounding_note(name, int(rounded[0])))
    return column


def _say_blanks(raw: Mapping[str, Sequence[Any]], notes: Notes) -> None:
    """Notes that two texts of a column become one without the blanks around them."""
    for name, cells in raw.items():
        distinct = {cell for cell in cells if isinstance(cell, str)}
        if len(distinct) == len({cell.strip() for cell in distinct}):
            continue
        texts: dict[str, str] = {}
        for cell in sorted(distinct):
            first = texts.setdefault(cell.strip(), cell)
            if first != cell and cell.strip():
                notes.add(
                    f"Blanks around cells are left out: {first!r} and {cell!r} are one in the "
                    f"column {name!r}."
                )
                break


def _say_codes(
    columns: Mapping[str, Sequence[Any]], cleared: Mapping[str, ClearedColumn], notes: Notes
) -> None:
    """Notes signs that stand for a missing value in columns of numbers, such as a point."""
    for name, cells in columns.items():
        column = cleared[name]
        codes = [
            cell
            for cell, new_cell in zip(cells, column.cells, strict=True)
            if new_cell == "" and cell != "" and _is_sign(cell)
        ]
        if codes and column.written is None:
            notes.add(
                f"In {name!r} {codes[0]!r} stands for a missing value ({len(codes):,} cells)."
            )


def _is_sign(cell: Any) -> bool:
    """True for a sign or a number that stands for a missing value."""
    return not isinstance(cell, str) or cell.lower() in CODES or says_number(cell)


def _say_doubtful_codes(columns: FileColumns, notes: Notes) -> None:
    """Notes numbers such as -999 that may stand for a missing value."""
    for name, cells in columns.items():
        if cells.dtype.kind not in "iuf":
            continue
        numbers = np.asarray(cells, np.float64)
        code = doubtful_code(numbers)
        if code is not None:
            text = said_of_code(name, numbers, code)
            notes.add(f'{text}--set \'data.missing_words=["{code}", "NA"]\'.')


def _check_header(header: list[str], where: str, notes: Notes) -> None:
    """Checks names that are numbers: the first row of a file without a header would be taken for
    names."""
    non_empty = [name for name in header if name]
    if len(non_empty) < len(header):
        places = ", ".join(str(place) for place, name in enumerate(header, 1) if not name)
        notes.add(
            f"A column without a name (column {places}) is left out: give it one to have it read."
        )
    numbers = [name for name in non_empty if says_number(name)]
    if 2 * len(numbers) < len(non_empty):
        return
    counted = [str(place) for place in range(len(header) + 1)]
    beside_others = len(numbers) < len(non_empty) or numbers in (counted[:-1], counted[1:])
    if beside_others and all(name.isdigit() for name in numbers):
        line = where.rpartition(":")[2] if ":" in where else where.rpartition("row ")[2]
        notes.add(
            f"Line {line} was taken for the header: {listed(header)}. If it is a row, write names "
            "in a line above."
        )
        return
    remedy = (
        "write the names of the columns in a line above; names that are numbers look like a row, "
        "so names have a letter (of the nodes of a graph: n000, n001, ..., or give a list of edges)"
    )
    raise fail(where, "a header line of names", f"numbers: {listed(header)}", remedy)


def _sheet(path: Path, dialect: Dialect, exact: Container[str], notes: Notes) -> Columns:
    table = read_sheet(path, dialect, notes)
    _check_header(table.header, f"{path}, row {table.line}", notes)
    columns = {
        name: [row[place] for row in table.rows] for place, name in enumerate(table.header) if name
    }
    values = {
        name: [None if cell == "" else cell for cell in cells] for name, cells in columns.items()
    }
    for name in values:
        if name in exact:
            _check_digits(values[name], f"{path}, column {name!r}")
    words = missing_words(dialect.missing_words, written_by_people=True)
    _say_comments(path, "Row", [str(row[0]) for row in table.rows], table.numbers, notes)
    _say_empty_rows(path, [table.line, *table.numbers], notes)
    rows = RowNames(np.array(table.numbers, int))
    file_columns = _make_columns(values, path, words, exact, notes, rows)
    _say_doubtful_codes(file_columns, notes)
    return file_columns


def _say_empty_rows(path: Path, numbers: Sequence[int], notes: Notes) -> None:
    """Notes the empty rows between those of a table."""
    gaps = np.diff(numbers) - 1
    if gaps.any():
        first = numbers[int(np.argmax(gaps > 0))] + 1
        notes.add(
            f"{int(gaps.sum()):,} rows of {path.name} hold nothing and are left out, the first in "
            f"row {first}."
        )


def _check_digits(values: Sequence[Any], where: str) -> None:
    """Raises a DataError for names that are numbers with more digits than a spreadsheet holds: some
    would become one."""
    is_long = lambda value: isinstance(value, float) and abs(value) >= EXACT
    long = next((value for value in values if is_long(value)), None)
    if long is not None:
        expected = "names of at most 15 digits, which is what numbers of a spreadsheet hold"
        remedy = "format the column as text and enter the names again, or use CSV"
        raise fail(where, expected, f"{long:.0f}", remedy)


def _make_columns(
    raw: Mapping[str, list],
    path: object,
    words: MissingWords,
    exact: Container[str],
    notes: Notes,
    rows: RowNames | None = None,
) -> FileColumns:
    """Columns of a file with types, and the cells of columns that are not of plain numbers."""
    _say_blanks({column_name(name.strip()): cells for name, cells in raw.items()}, notes)
    names = _names_without_blanks(list(raw), path, notes)
    cleared = {
        name: clear_words(strip_blanks(raw[raw_name]), words, name in exact)
        for raw_name, name in names.items()
    }
    values = {
        name: [None if is_missing(cell) else cell for cell in column.cells]
        for name, column in cleared.items()
    }
    arrays = {
        name: _from_arrow(cells, name, name in exact, notes) for name, cells in values.items()
    }
    columns = FileColumns(arrays, rows)
    columns.written = {
        name: column.written for name, column in cleared.items() if column.written is not None
    }
    for name, cells in values.items():
        is_plain = all(value is None or type(value) in (int, float) for value in cells)
        if name in exact or not is_plain:
            columns.cells[name] = np.empty(len(cells), object)
            columns.cells[name][:] = cells
    return columns


def _names_without_blanks(names: Sequence[str], path: object, notes: Notes) -> dict[str, str]:
    """By the raw names, the names without the blanks around them; a column without a name is left
    out. Raises DataError if two names become one."""
    stripped = {name: column_name(name.strip()) for name in names}
    non_empty = [name for name in stripped.values() if name]
    if repeated := [name for place, name in enumerate(non_empty) if name in non_empty[:place]]:
        actual = f"{listed(repeated)} more than once, without the blanks around names"
        raise fail(
            path, "columns of distinct names", actual, "rename those columns, or remove them"
        )
    if len(non_empty) < len(names):
        empty = [str(place) for place, name in enumerate(stripped.values(), 1) if not name]
        notes.add(
            f"A column without a name (column {', '.join(empty)}) is left out: give it one to "
            "have it read."
        )
    return {raw_name: name for raw_name, name in stripped.items() if name}


def _parquet(path: str | Path, dialect: Dialect, exact: Container[str], notes: Notes) -> Columns:
    """The columns of a Parquet file, or of a folder of them with the columns that names of inner
    folders give."""
    parts = parquet_parts(path)
    if not parts:
        raise no_parquet(path)
    if not is_address(path):
        check_one_format(local_path(path), parts[0].file)
    tables = []
    for part in parts:
        read = functools.partial(_read_whole, part.file)
        tables.append(from_parquet(part.file, read, texts_once=True))
    names = _alike(path, tables, notes)
    values = {
        name: [value for table in tables for value in to_values(table.column(name))]
        for name in names
    }
    sizes = [table.num_rows for table in tables]
    for name, cells in folder_cells(parts, sizes).items():
        if name not in names:
            values[name] = cells
    _truths_as_numbers(values, notes)
    rows = rows_of_files(_sizes_by_name(path, [part.file for part in parts], sizes))
    columns = _make_columns(
        values, path, missing_words(dialect.missing_words, False), exact, notes, rows
    )
    orders = {column_name(name.strip()): _declared_order(tables, name) for name in names}
    columns.declared = {name: order for name, order in orders.items() if order}
    return columns


def _sizes_by_name(path: str | Path, files: Sequence[str], sizes: Sequence[int]) -> dict[str, int]:
    """The number of rows of each file, by its path within the folder."""
    folder = str(path if is_address(path) else local_path(path)).rstrip("/") + "/"
    return {file.removeprefix(folder): size for file, size in zip(files, sizes, strict=True)}


def _truths_as_numbers(values: dict[str, list], notes: Notes) -> None:
    """Makes True and False 1 and 0 in columns that have numbers in other files, with a note: a
    column has one kind of values, and its names are those of numbers."""
    for name, cells in values.items():
        kinds = {type(cell) for cell in cells}
        if bool in kinds and kinds & {int, float}:
            values[name] = [int(cell) if isinstance(cell, bool) else cell for cell in cells]
            notes.add(
                f"True and False in {name!r} are 1 and 0, for other files have numbers there."
            )


def _declared_order(tables: Sequence[Any], name: str) -> tuple[str, ...]:
    """The categories of a column in the order that all files declare; () if a file declares
    none."""
    orders = set()
    for table in tables:
        column = table.column(name)
        categories: list[Any] = []
        if getattr(column.type, "ordered", False) and column.num_chunks:
            categories = column.chunk(0).dictionary.to_pylist()
        orders.add(tuple(map(_category, categories)))
    return orders.pop() if len(orders) == 1 else ()


def _category(value: Any) -> str:
    return label_name(value.strip() if isinstance(value, str) else value)


def _read_whole(file: str, opened: Any) -> Any:
    """The table in a file. Raises DataError if it is larger than memory, or has other rows than it
    says."""
    number = opened.metadata.num_rows
    width = len(opened.schema_arrow.names)
    check_room(CELL_BYTES * number * width, file, f"{number:,} rows of {width:,} columns")
    check_row_groups(opened, opened.schema_arrow.names, file)
    table = opened.read()
    check_num_rows(table.num_rows, number, file)
    return table


def _alike(path: str | Path, tables: Sequence[Any], notes: Notes) -> list[str]:
    """The column names, which all tables have, without the index of a data frame."""
    names = tables[0].column_names
    if len(set(names)) < len(names):
        raise fail(path, "columns of distinct names", listed(names), "rename them")
    for table in tables:
        if sorted(table.column_names) != sorted(names):
            expected = f"the columns {listed(names)} in each file"
            raise fail(path, expected, listed(table.column_names), "write all files alike")
    for name in filter(is_index, names):
        notes.add(index_note(name))
    return [name for name in names if not is_index(name)]


def _from_arrow(values: list, name: str, exact: bool, notes: Notes) -> np.ndarray:
    numeric = all(
        value is None or isinstance(value, int | float | decimal.Decimal) for value in values
    )
    if numeric and not exact:
        return _numbers(values, name, notes)
    text = ["" if value is None else label_name(value) for value in values]
    return np.array(text, object) if exact else parse_column(text)


def _numbers(values: list, name: str, notes: Notes) -> np.ndarray:
    """Floats, NaN for missing values. Whole numbers that floats do not hold stay whole if none is
    missing; else a note says that they are rounded."""
    numbers = np.array([np.nan if value is None else float(value) for value in values], float)
    large = np.flatnonzero(np.abs(numbers) >= EXACT).tolist()
    rounded = [
        place
        for place in large
        if isinstance(values[place], int) and int(numbers[place]) != values[place]
    ]
    if not rounded:
        return numbers
    if all(isinstance(value, int) for value in values):
        integers = smallest_integers(values)
        if integers is not None:
            return integers
    notes.add(_rounding_note(name, values[rounded[0]]))
    return numbers


def _rounding_note(name: str, first: int) -> str:
    """The note about whole numbers that floats do not hold."""
    return (
        f"Whole numbers of the column {name!r} are rounded, such as {first} to "
        f"{int(float(first))}: others are missing or no whole numbers. If they are names, write "
        "them as text."
    )


def _arrays(path: Path, dialect: Dialect, exact: Container[str], notes: Notes) -> Columns:
    """The columns of arrays: a vector is a column of its name; the columns of a matrix have its
    name followed by 0, 1, ..."""
    arrays = load_arrays(path)
    shapes = {name: array.shape for name, array in arrays.items()}
    are_tables = all(array.ndim in (1, 2) for array in arrays.values())
    if not are_tables or len({shape[0] for shape in shapes.values()}) != 1:
        expected = "vectors and matrices with one row an observation"
        raise fail(path, expected, str(shapes), "save no other arrays with them")
    raw: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        columns = {name: array}
        if array.ndim == 2:
            columns = {f"{name}{i}": column for i, column in enumerate(array.T)}
        if repeated := raw.keys() & columns.keys():
            actual = (
                f"{listed(sorted(repeated))} twice, from an array of that name and from a matrix"
            )
            remedy = "save one of the arrays under another name"
            raise fail(path, "columns of distinct names", actual, remedy)
        raw |= columns
    words = missing_words(dialect.missing_words, written_by_people=False)
    cleared = {name: _clear_words(values, words, name in exact) for name, values in raw.items()}
    file_columns = FileColumns(
        {name: _as_column(column.cells, name in exact) for name, column in cleared.items()}
    )
    file_columns.written = {
        name: column.written for name, column in cleared.items() if column.written is not None
    }
    return file_columns


def _clear_words(values: np.ndarray, words: MissingWords, exact: bool) -> ClearedColumn:
    """The cells of an array of text, or of truth values that are names, without words for missing
    cells; other arrays unchanged."""
    if values.dtype.kind in "US" or (exact and values.dtype.kind == "b"):
        cells = [
            (value.decode() if isinstance(value, bytes) else str(value)).strip()
            for value in values.tolist()
        ]
        return clear_words(cells, words, exact)
    return ClearedColumn(values)  # type: ignore[arg-type]


def _as_column(values: Any, exact: bool) -> np.ndarray:
    """Whole numbers stay whole, so that no two of them merge; names stay unchanged."""
    if isinstance(values, list):
        return np.array(values, object) if exact else parse_column(values)
    return values if values.dtype.kind in "iu" else values.astype(float)


READERS: dict[str, Callable[[Path, Dialect, Container[str], Notes], Columns]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), _csv),
    **dict.fromkeys(SHEETS, _sheet),
    ".parquet": _parquet,
    ".npy": _arrays,
    ".npz": _arrays,
}
"""The readers of files by their endings."""
