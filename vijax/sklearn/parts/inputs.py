"""Checks of all inputs of estimators: arrays that scikit-learn would misread are refused before it
sees them.

scikit-learn reads the hidden numbers of masked cells as data, and dates as integers, whose unit may
be days in one table and nanoseconds in the next."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from vijax.arrays import has_masked_rows, require_no_times
from vijax.checks import require
from vijax.data.schema.same_rows import require_one_index

MOST_SHOWN = 10
"""Names of columns in a message, at most."""


def check_input(estimator: Any, X: Any, *y: Any, y_numeric: bool = False, **options: Any) -> Any:
    """X, or X and y, as `sklearn.utils.validation.validate_data` checks them.

    Args:
      estimator: the estimator, which learns or compares the names of columns.
      X: rows.
      y: one response, or none.
      y_numeric: y must be numbers; classes may be dates.
      options: further arguments of `validate_data`.

    Raises:
      ValueError: masked cells, dates, and inputs that scikit-learn refuses.
    """
    require_plain("X", X)
    for response in y:
        require_plain("y", response, may_be_dates=not y_numeric)
    if y:
        options["y_numeric"] = y_numeric
    arrays = validate_data(estimator, X, *y, **options)
    compare_labels(estimator, X, reset=options.get("reset", True))
    return arrays


def compare_labels(estimator: Any, X: Any, reset: bool) -> None:
    """Makes an estimator learn (`reset`) or compare the names of columns that are not all text,
    such as numbers: scikit-learn does not compare these.

    Raises:
      ValueError: other names than in fit, or another order.
    """
    labels = list(X.columns) if hasattr(X, "iloc") and hasattr(X, "columns") else []
    is_text = all(isinstance(label, str) for label in labels)
    names = None if is_text else tuple(labels)
    if reset:
        estimator._numbered_columns = names
        return
    fit_names = getattr(estimator, "_numbered_columns", None)
    if names is None or fit_names is None or names == fit_names:
        return
    remedy = "Give them the names and the order that they had in fit"
    if len(fit_names) <= MOST_SHOWN and set(fit_names) <= set(names):
        remedy = f"Pass X[{list(fit_names)}]"
    expected = f"the columns of fit, in their order: {_names_text(fit_names)}"
    require(
        False, "X", expected, _names_text(names), f"{remedy}, or X.to_numpy() for columns by place."
    )


def _names_text(names: tuple) -> str:
    text = ", ".join(map(repr, names[:MOST_SHOWN]))
    return f"{text} and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else text


def check_numbers(argument: str, values: Any, dtype: Any) -> np.ndarray:
    """An array of numbers in addition to X, as `sklearn.utils.check_array` checks it. Raises
    ValueError for masked cells and dates."""
    require_plain(argument, values)
    return check_array(values, dtype=dtype, input_name=argument)


def require_plain(argument: str, values: Any, may_be_dates: bool = False) -> None:
    """Raises ValueError for an array with masked cells, or with dates unless they are labels.

    >>> require_plain("X", np.ma.array([1.0, 2.0], mask=[True, False]))
    Traceback (most recent call last):
      ...
    ValueError: X: expected a value in each cell, got 1 masked. Fill them in, or leave these rows out.
    """
    if has_masked_rows(values):
        values = np.ma.array(values)
    if isinstance(values, np.ma.MaskedArray):
        masked = int(np.ma.getmaskarray(values).sum())
        remedy = "Fill them in, or leave these rows out."
        require(not masked, argument, "a value in each cell", f"{masked:,} masked", remedy)
    if not may_be_dates:
        require_no_times(values, argument)


# --- names of rows --------------------------------------------------------------------------------
def check_same_rows(method: Callable) -> Callable:
    """A method of an estimator that refuses y, weights or covariates whose row names differ from
    those of X: rows are matched by place. A method without X or without these arguments is returned
    unchanged. An optional y is ignored."""
    signature = inspect.signature(method)
    beside = [
        name
        for name in signature.parameters
        if name not in ("self", "X") and _is_by_row(signature, name)
    ]
    if "X" not in signature.parameters or not beside or hasattr(method, "_checks_rows"):
        return method

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError:  # the method itself says what is wrong with the call
            return method(*args, **kwargs)
        require_one_index({name: arguments.get(name) for name in ("X", *beside)})
        return method(*args, **kwargs)

    call._checks_rows = True  # type: ignore[attr-defined]
    return call


def _is_by_row(signature: inspect.Signature, name: str) -> bool:
    """True for an argument with a value for each row."""
    if name == "y":
        return signature.parameters[name].default is inspect.Parameter.empty
    return name in ("sample_weight", "covariates", "hidden")
