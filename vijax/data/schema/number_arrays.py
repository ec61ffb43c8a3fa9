"""Arrays of numbers from arrays, lists, and tables of pandas, polars and Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Number
from typing import Any

import jax
import numpy as np

from vijax.arrays import to_array
from vijax.checks import require
from vijax.data.schema.cells import are_records
from vijax.data.schema.labels import is_none

EXPECTED = "an array of real numbers"
AS_A_TABLE = "Pass pandas.DataFrame({name}): a table has its columns in one order."
REMEDIES = {
    "U": "Code categories as numbers: pandas.get_dummies, or numpy.unique(x, "
    "return_inverse=True)[1].",
    "M": "Give the time since some day, as a number.",
    "m": "Give a number of days or seconds.",
    "c": "Give real and imaginary parts.",
}
REMEDIES |= {"S": REMEDIES["U"], "O": REMEDIES["U"]}


def array_of_numbers(argument: str, values: Any) -> Any:
    """An array of real numbers. Arrays of NumPy and JAX are unchanged; missing and masked cells are
    NaN.

    Args:
      argument: its name in messages.
      values: an array, nested lists, or a table of pandas, polars or Arrow.

    Raises:
      ValueError: columns by name without an order (a dict, rows that are dicts, a structured
        array), text, dates, complex numbers, rows of different lengths; the message names the place
        of the first wrong value.

    >>> array_of_numbers("x", [[1, 2.5], [3, None]])
    array([[1. , 2.5],
           [3. , nan]])
    >>> array_of_numbers("x", [["1", "2"]])
    Traceback (most recent call last):
    ...
    ValueError: x: expected an array of real numbers, got text, '1' in row 0, column 0, counted from 0. If all of it \
says numbers, pass numpy.asarray(x, float).
    """
    if isinstance(values, jax.Array):
        _refuse(argument, values.dtype.kind == "c", "complex numbers", REMEDIES["c"])
        return values
    _refuse(argument, values is None, "None", "")
    _refuse(argument, isinstance(values, str | bytes), f"the string {str(values)[:40]!r}", "")
    is_list = isinstance(values, list | tuple)
    has_no_order = isinstance(values, Mapping) or (is_list and are_records(values))
    is_structured = isinstance(values, np.ndarray) and values.dtype.names is not None
    actual = f"columns by name, in a {type(values).__name__}"
    _refuse(argument, has_no_order or is_structured, actual, AS_A_TABLE.format(name=argument))
    _refuse(argument, isinstance(values, set | frozenset), "a set, which has no order", "")
    if is_list and any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(values)):
        return jax.numpy.asarray(values)
    array = _as_array(argument, values)
    if array.dtype.kind == "O":
        return _floats_from_objects(argument, array)
    if array.dtype.kind in REMEDIES:
        _refuse(argument, not array.size, f"an empty array of {array.dtype}", "")
        _refuse_cell(argument, array, (0,) * array.ndim)
    # JAX has neither long doubles nor other byte orders. A user's kernel would compute in half
    # precision where half precision comes in.
    dtype = array.dtype
    if dtype.kind == "f" and dtype.itemsize > 8:
        dtype = np.dtype(np.float64)
    elif dtype.kind == "f" and dtype.itemsize < 4:
        dtype = np.dtype(np.float32)
    return array.astype(dtype.newbyteorder("="), copy=False)


def trees_of_numbers(argument: str, values: Any) -> Any:
    """`array_of_numbers`, also for dicts and tuples of several arrays."""
    is_tree = isinstance(values, dict) or (
        isinstance(values, tuple) and any(hasattr(part, "dtype") for part in values)
    )
    if not is_tree:
        return array_of_numbers(argument, values)
    return jax.tree.map(lambda leaf: array_of_numbers(argument, leaf), values)


def require_finite(argument: str, values: Any) -> Any:
    """The array itself; ValueError with the place of the first number that is not finite. Traced
    arrays pass."""
    if isinstance(values, jax.core.Tracer):
        return values
    array = np.asarray(values)
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return values
    places = np.argwhere(~np.isfinite(array))
    row, *columns = map(int, places[0])
    column = f", column {', '.join(map(str, columns))}" if columns else ""
    actual = (
        f"{array[tuple(places[0])]} in row {row}{column}, counted from 0 ({len(places):,} such "
        "numbers)"
    )
    require(False, argument, "finite numbers", actual, "Remove those rows, or fill the numbers in.")
    return values


def _as_array(argument: str, values: Any) -> np.ndarray:
    try:
        return to_array(values, argument)
    except ValueError:
        if not isinstance(values, list | tuple):
            raise
        # Lists of different lengths.
        lengths = sorted({len(row) if hasattr(row, "__len__") else 0 for row in values})
        actual = "lists of several lengths"
        if len(lengths) > 1:
            actual = f"rows of lengths {', '.join(map(str, lengths[:5]))}"
        _refuse(argument, True, actual, "Give all rows the same columns.")
        raise


def _floats_from_objects(argument: str, array: np.ndarray) -> np.ndarray:
    """Python's numbers as floats, with NaN for None and pandas' missing cells."""
    if array.ndim == 0:
        _refuse(argument, True, f"a {type(array.item()).__name__}", "")
    cells = array.ravel().tolist()
    # A column has few types: the tests are made for each type, not for each cell.
    examples = {type(cell): cell for cell in cells}
    no_numbers = tuple(
        kind for kind, cell in examples.items() if not _is_number(cell) and not is_none(cell)
    )
    if no_numbers:
        place = next(place for place, cell in enumerate(cells) if type(cell) in no_numbers)
        _refuse_cell(argument, array, np.unravel_index(place, array.shape))
    are_missing = {kind for kind, cell in examples.items() if not _is_number(cell)}
    numbers = [np.nan if type(cell) in are_missing else cell for cell in cells]
    return np.array(numbers, float).reshape(array.shape)


def _is_number(cell: Any) -> bool:
    is_complex = isinstance(cell, complex | np.complexfloating)
    return isinstance(cell, Number | np.bool_) and not is_complex


def _refuse_cell(argument: str, array: np.ndarray, place: Any) -> None:
    """Raises the error for a cell that is no number."""
    row, *columns = map(int, place)
    column = f", column {', '.join(map(str, columns))}" if columns else ""
    value = array[tuple(place)]
    kind = array.dtype.kind
    if kind == "O" and not isinstance(value, list | dict | set):
        kind = np.asarray(value).dtype.kind
    nouns = {"U": "text", "S": "text", "M": "dates", "m": "durations", "c": "complex numbers"}
    noun = nouns.get(kind, "objects")
    cell = repr(_plain(value))[:60]
    if isinstance(value, np.datetime64 | np.timedelta64):
        cell = str(value)[:40]
    remedy = REMEDIES.get(kind, "")
    if noun == "text" and _says_a_number(value):
        remedy = f"If all of it says numbers, pass numpy.asarray({argument}, float)."
    _refuse(argument, True, f"{noun}, {cell} in row {row}{column}, counted from 0", remedy)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _says_a_number(text: Any) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _refuse(argument: str, is_wrong: bool, got: str, remedy: str) -> None:
    require(not is_wrong, argument, EXPECTED, got, remedy)


def require_same_index(
    X: Any, argument: str, values: Any, whose: str = "X", by_place: str = "to_numpy()"
) -> None:
    """Raises ValueError if both have an index, as tables and series of pandas have, and these
    differ: by place the values would go to other rows.

    Args:
      X: the table.
      argument: name of the values in messages.
      values: other values, a row for each row of the table.
      whose: name of the table in messages.
      by_place: the method that removes the index of the values, or of the table.

    >>> import pytest; pandas = pytest.importorskip("pandas")
    >>> table, turned = pandas.DataFrame({"x": [1, 2]}, ["a", "b"]), pandas.Series([3, 4], ["b", "a"])
    >>> require_same_index(table, "y", turned)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
      ...
    ValueError: y: expected the index of X, in its order, got 'b' where X has 'a', in row 0. Align it: y.loc[X.index]...
    """
    first: Any = getattr(X, "index", None)
    second: Any = getattr(values, "index", None)
    if not hasattr(first, "equals") or not hasattr(second, "equals") or len(first) != len(second):
        return  # no index, or lengths that are refused elsewhere
    if first.equals(second):
        return
    differs = (expected != label for expected, label in zip(first, second, strict=True))
    row = next((row for row, is_other in enumerate(differs) if is_other), 0)
    has_same = first.is_unique and second.is_unique and len(first.difference(second)) == 0
    align = f"Give it the index of {whose}, or"
    if has_same:
        align = f"Align it: {argument}.loc[{whose}.index]; or"
    remedy = f"{align} pass {argument}.{by_place}, whose rows are those of {whose} by place."
    actual = f"{second[row]!r} where {whose} has {first[row]!r}, in row {row}"
    require(False, argument, f"the index of {whose}, in its order", actual, remedy)
