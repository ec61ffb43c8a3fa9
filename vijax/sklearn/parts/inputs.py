"""The door of all estimators: arrays that scikit-learn would read as something else are refused
before it sees them.

scikit-learn takes the hidden numbers of masked cells for data, and the integers behind dates, whose
unit may be days in one table and nanoseconds in the next."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from vijax.checks import require
from vijax.data.schema.same_rows import require_one_index

MOST_SHOWN = 10
"""Names of columns in a message, at most."""
TIMES = ("datetime", "timedelta", "date", "duration", "timestamp", "period")
"""How the names of types of dates and durations begin, in NumPy, pandas, polars and pyarrow, in
small letters."""


def check_input(estimator: Any, X: Any, *y: Any, y_numeric: bool = False, **how: Any) -> Any:
    """X, or X and y, as `sklearn.utils.validation.validate_data` checks them.

    Args:
      estimator: the estimator, which learns or compares the names of columns.
      X: rows.
      y: one response, or none; None for none.
      y_numeric: whether y is of numbers; classes may be dates.
      how: further arguments of `validate_data`.

    Raises:
      ValueError: masked cells, dates, and what scikit-learn refuses.
    """
    require_plain("X", X)
    for response in y:
        require_plain("y", response, may_be_dates=not y_numeric)
    more = {"y_numeric": y_numeric} if y else {}
    checked = validate_data(estimator, X, *y, **more, **how)
    compare_labels(estimator, X, reset=how.get("reset", True))
    return checked


def compare_labels(estimator: Any, X: Any, reset: bool) -> None:
    """Has an estimator learn (`reset`) or compare the names of columns that are not all text:
    numbers, say, which scikit-learn does not look at.

    Raises:
      ValueError: others than in fit, or in another order.
    """
    labels = list(X.columns) if hasattr(X, "iloc") and hasattr(X, "columns") else []
    names = (
        tuple(labels) if labels and not all(isinstance(label, str) for label in labels) else None
    )
    if reset:
        estimator._numbered_columns = names
        return
    known = getattr(estimator, "_numbered_columns", None)
    if names is None or known is None or names == known:
        return
    is_short = len(known) <= MOST_SHOWN and set(known) <= set(names)
    remedy = (
        f"Pass X[{list(known)}]"
        if is_short
        else "Give them the names and the order that they had in fit"
    )
    expected = f"the columns of fit, in their order: {_names_text(known)}"
    require(
        False, "X", expected, _names_text(names), f"{remedy}, or X.to_numpy() for columns by place."
    )


def _names_text(names: tuple) -> str:
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(map(repr, names[:MOST_SHOWN])) + more


def check_numbers(argument: str, values: Any, dtype: Any) -> np.ndarray:
    """An array of numbers beside X, as `sklearn.utils.check_array` checks it; ValueError for masked
    cells and dates."""
    require_plain(argument, values)
    return check_array(values, dtype=dtype, input_name=argument)


def require_plain(argument: str, values: Any, may_be_dates: bool = False) -> None:
    """Raises ValueError for an array with masked cells, or of dates where these are no labels.

    >>> require_plain("X", np.ma.array([1.0, 2.0], mask=[True, False]))
    Traceback (most recent call last):
      ...
    ValueError: X: expected a value in each cell, got 1 masked. Fill them in, or leave these rows out.
    """
    if isinstance(values, np.ma.MaskedArray):
        masked = int(np.ma.getmaskarray(values).sum())
        remedy = "Fill them in, or leave these rows out."
        require(not masked, argument, "a value in each cell", f"{masked:,} masked", remedy)
    times = (
        []
        if may_be_dates
        else [kind for kind in map(str, _column_types(values)) if kind.lower().startswith(TIMES)]
    )
    remedy = (
        "Make them numbers yourself, in a unit that later rows have too: (dates - start) / "
        "numpy.timedelta64(1, 'D')."
    )
    require(
        not times, argument, "numbers", f"dates or durations, {times[0] if times else ''}", remedy
    )


def _column_types(values: Any) -> Iterable[Any]:
    """The types of the columns of a table, or that of an array."""
    if hasattr(values, "schema") and hasattr(values.schema, "types"):  # pyarrow
        return values.schema.types
    if (types := getattr(values, "dtypes", None)) is not None and np.iterable(
        types
    ):  # tables of pandas and polars
        return list(types)
    return [getattr(values, "dtype", getattr(values, "type", None))]


# --- rows that two arguments name -----------------------------------------------------------------
def check_same_rows(method: Callable) -> Callable:
    """A method of an estimator, X among its arguments, which refuses y, weights or covariates of
    rows that are named otherwise than those of X: they are read by place. Methods without such
    arguments stay as they are. A y that may be left out is ignored, and not looked at."""
    signature = inspect.signature(method)
    beside = [
        name
        for name in signature.parameters
        if name not in ("self", "X") and _is_by_row(signature, name)
    ]
    if "X" not in signature.parameters or not beside or hasattr(method, "_checks_rows"):
        return method

    @functools.wraps(method)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return method(*args, **kwargs)  # which says what is wrong with the call
        require_one_index({name: given.get(name) for name in ("X", *beside)})
        return method(*args, **kwargs)

    checked._checks_rows = True  # type: ignore[attr-defined]
    return checked


def _is_by_row(signature: inspect.Signature, name: str) -> bool:
    """True for an argument with a value for each row."""
    if name == "y":
        return signature.parameters[name].default is inspect.Parameter.empty
    return name in ("sample_weight", "covariates", "hidden")
