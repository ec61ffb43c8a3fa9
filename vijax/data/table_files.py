"""Tables from files, from scikit-learn's bundled data sets and from synthetic generators: columns by name."""

from __future__ import annotations

import csv
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from vijax.data.checks import fail, nearest
from vijax.data.download import fetch, is_url
from vijax.data.files import read_lines
from vijax.data.synthetic_tables import GENERATORS
from vijax.data.table import Choice, Columns, Table, table_of
from vijax.extras import require_extra

MISSING = frozenset(["", "na", "n/a", "nan", "null", "none", "?"])
"""What stands for a missing value in a text file, in small letters."""
BUNDLED = ("breast_cancer", "diabetes", "digits", "iris", "wine")
"""Data sets that come with scikit-learn."""
KNOWN = (
    ".csv, .tsv, .parquet, .npy, .npz (the text ones also as .gz), an http(s) address of one, "
    f"sklearn:NAME ({', '.join(BUNDLED)}) or synthetic:NAME ({', '.join(GENERATORS)})"
)


def read_table(
    source: str,
    choice: Choice | None = None,
    *,
    seed: int = 0,
    num_rows: int | None = None,
    encoding: str = "utf-8",
    sha256: str | None = None,
) -> Table:
    """A table from a file, from scikit-learn's bundled data or from a synthetic generator; nothing else is downloaded
    but what an http(s) address names.

    Args:
      source: see `KNOWN`. Text files have a header line; empty cells, NA, NaN and ? are missing values.
      choice: which columns to use.
      seed: of a synthetic generator.
      num_rows: how many rows to generate; of others, how many to keep of the first.
      encoding: of text files.
      sha256: what the file at an address must hash to.

    Raises:
      ValueError: naming the file and line or column, what was expected, what came and what to do.

    >>> read_table("sklearn:iris").x.shape
    (150, 4)
    """
    found = read_columns(source, seed, num_rows, encoding, sha256)
    return table_of(found, choice or Choice(), source)


def read_columns(
    source: str, seed: int = 0, num_rows: int | None = None, encoding: str = "utf-8", sha256: str | None = None
) -> Columns:
    """Every column of a source by name; see `read_table`."""
    kind, _, name = source.partition(":")
    if kind == "synthetic":
        if name not in GENERATORS:
            raise fail(source, "a generator that there is", repr(name), nearest(name, GENERATORS))
        generator = GENERATORS[name]
        return generator.draw(np.random.default_rng(seed), num_rows or generator.num_rows)
    if kind == "sklearn":
        found = _bundled(source, name)
    else:
        path = fetch(source, sha256) if is_url(source) else Path(source).expanduser()
        found = _reader(path)(path, encoding)
    return {name: values[:num_rows] for name, values in found.items()}


def _reader(path: Path) -> Callable[[Path, str], Columns]:
    if not path.is_file():
        raise fail(path, "a file", "a folder" if path.is_dir() else "none", f"check the path; tables are {KNOWN}")
    readers = {".csv": _csv, ".tsv": _csv, ".parquet": _parquet, ".npy": _npy, ".npz": _npz}
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    if ending not in readers:
        raise fail(path, KNOWN, f"the ending {ending!r}", "convert the file, or rename it")
    return readers[ending]


def _bundled(source: str, name: str) -> Columns:
    if name not in BUNDLED:
        raise fail(source, "a data set that comes with scikit-learn", repr(name), nearest(name, BUNDLED))
    bunch = getattr(require_extra("sklearn.datasets"), f"load_{name}")()
    names = [str(name).removesuffix(" (cm)").replace(" ", "_") for name in bunch.feature_names]
    columns = dict(zip(names, np.asarray(bunch.data, float).T, strict=True))
    if "target_names" in bunch and name != "digits":
        return columns | {"target": np.array([str(bunch.target_names[i]) for i in bunch.target], object)}
    return columns | {"target": np.asarray(bunch.target, float)}


def _csv(path: Path, encoding: str) -> Columns:
    delimiter = "\t" if ".tsv" in path.name.lower() else ","
    reader = csv.reader((f"{line}\n" for line in read_lines(path, encoding)), delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
        if not header or len(set(header)) != len(header):
            raise fail(f"{path}:1", "a header line of distinct names", repr(header)[:80], "write one")
        rows = []
        for row in reader:
            if len(row) != len(header) and row:
                got = f"{len(row)} cells"
                raise fail(
                    f"{path}:{reader.line_num}", f"{len(header)} cells, as in the header", got, "correct the line"
                )
            rows += [row] if row else []
    except csv.Error as error:
        raise fail(f"{path}:{reader.line_num}", "CSV", str(error), "quote cells that hold commas or quotes") from error
    return {name: _column([row[i].strip() for row in rows]) for i, name in enumerate(header)}


def _column(cells: list[str]) -> np.ndarray:
    """Numbers, with NaN for missing values, or else strings."""
    try:
        return np.array([np.nan if cell.lower() in MISSING else float(cell) for cell in cells], float)
    except ValueError:
        return np.array(cells, object)


def _parquet(path: Path, encoding: str) -> Columns:
    arrow, reader = require_extra("pyarrow"), require_extra("pyarrow.parquet")
    try:
        table = reader.read_table(path)
    except (arrow.ArrowInvalid, OSError) as error:
        raise fail(path, "a whole Parquet file", str(error), "fetch or write the file again") from error
    return {name: _from_arrow(table.column(name)) for name in table.column_names}


def _from_arrow(column: object) -> np.ndarray:
    values = column.to_pylist()  # type: ignore[attr-defined]
    if all(value is None or isinstance(value, int | float) for value in values):
        return np.array([np.nan if value is None else float(value) for value in values], float)
    return np.array(["" if value is None else str(value) for value in values], object)


def _npy(path: Path, encoding: str) -> Columns:
    return _split_columns({"x": _loaded(path)}, path)


def _npz(path: Path, encoding: str) -> Columns:
    return _split_columns(_loaded(path), path)


def _loaded(path: Path):
    try:
        with path.open("rb") as raw:
            file = np.load(raw, allow_pickle=False)
            return file if isinstance(file, np.ndarray) else {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise fail(path, "arrays of numbers or text (no pickles)", str(error), "save them with numpy.save") from error


def _split_columns(arrays: dict[str, np.ndarray], path: Path) -> Columns:
    """A vector is a column of its own name, a matrix as many, its name followed by 0, 1, ..."""
    shapes = {name: array.shape for name, array in arrays.items()}
    if any(array.ndim not in (1, 2) for array in arrays.values()) or len({shape[0] for shape in shapes.values()}) != 1:
        raise fail(
            path, "vectors and matrices with one row an observation", str(shapes), "save no other arrays with them"
        )
    found: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        values = array.astype(object) if array.dtype.kind in "US" else array.astype(float)
        columns = [values] if array.ndim == 1 else list(values.T)
        found |= {name if array.ndim == 1 else f"{name}{i}": column for i, column in enumerate(columns)}
    return found
