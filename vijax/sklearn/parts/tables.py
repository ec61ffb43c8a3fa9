"""Tables with named columns as inputs of estimators, and formulas of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from vijax.checks import require
from vijax.data.formulas.parser import parse
from vijax.data.formulas.syntax import Column
from vijax.data.formulas.tokens import quote_name, read_tokens
from vijax.data.reading.checks import listed
from vijax.data.schema.typed_columns import typed_table
from vijax.extras import require_extra
from vijax.models.formulas.formula import named_columns
from vijax.sklearn.parts.inputs import check_input, compare_labels


def to_frame(table: Any) -> Any:
    """A table of polars, pyarrow or a dict as one of pandas; a table of pandas unchanged."""
    pandas = require_extra("pandas", "sklearn")
    if isinstance(table, pandas.DataFrame):
        return table
    return table.to_pandas() if hasattr(table, "to_pandas") else pandas.DataFrame(dict(table))


def to_table(estimator: Any, X: Any, reset: bool, response: str = "") -> Any:
    """X as a table of pandas, checked by scikit-learn, with the columns of `fit`.

    Other columns and their order do not matter. Columns without names are x0, x1, ... When `fit`
    learns the columns (`reset`) the response is dropped."""
    if hasattr(X, "columns"):
        frame = to_frame(X)
        require(len(frame) > 0, "X", "a row or more", "an empty table")
        if reset:
            frame = frame.drop(columns=response, errors="ignore")
        elif getattr(estimator, "feature_names_in_", None) is not None:
            return _select_columns(estimator, frame)
        validate_data(estimator, frame, skip_check_array=True, reset=reset)  # for names alone
        compare_labels(estimator, frame, reset)
    else:
        numbers = check_input(estimator, X, dtype=[np.float64, np.float32], reset=reset)
        frame = to_frame(dict(enumerate(numbers.astype(np.float64).T)))
    if reset:
        names = list(getattr(estimator, "feature_names_in_", ()))
        estimator._columns = names or [f"x{i}" for i in range(frame.shape[1])]
    return frame.set_axis(estimator._columns, axis=1)


def _select_columns(estimator: Any, frame: Any) -> Any:
    """The columns of a table that a fitted estimator reads. Raises ValueError if one is missing."""
    fit_names = estimator.feature_names_in_
    read = set(getattr(estimator, "_read_columns", fit_names))
    names = [name for name in fit_names if name in read]
    missing = [name for name in names if name not in set(frame)]
    expected = f"the columns {listed(names)}"
    remedy = "Give these columns the names that they had in fit."
    require(not missing, "X", expected, f"a table without {listed(missing)}", remedy)
    return frame[names]


def response_name(formula: str | None) -> str:
    """The name to the left of ~, or "". Raises ValueError for an expression, or without a ~.

    >>> response_name("a ~ x"), response_name("`a b` ~ x"), response_name("~ x"), response_name(None)
    ('a', 'a b', '', '')
    """
    if formula is None:
        return ""
    has_tilde = isinstance(formula, str) and "~" in formula
    require(has_tilde, "formula", "response ~ terms, or ~ terms", repr(formula))
    response = parse(formula).response
    if response is None:
        return ""
    remedy = "Transform y before fit, or use vijax.glmm."
    is_name = isinstance(response, Column)
    require(is_name, "formula", "a name to the left of ~", repr(str(response)), remedy)
    return response.name  # type: ignore[union-attr]


def _right_of_tilde(formula: str) -> str:
    """The terms of a formula; a name between backquotes may hold a ~ of its own."""
    tilde = next(
        token for token in read_tokens(formula) if token.kind == "operator" and token.text == "~"
    )
    return formula[tilde.end :].strip()


def complete_formula(
    formula: str | None, groups: str | Sequence[str] | None, frame: Any
) -> tuple[str, str]:
    """The formula with a response, and the name of the response: "y", with as many "_" as needed to
    differ from all columns. Without a formula all columns are terms, except those of groups, which
    have intercepts."""
    name = response_name(formula) or "y"
    while name in frame:
        name += "_"
    if formula is not None:
        columns = typed_table(frame.iloc[:0])
        # The response is no column of X
        for column in named_columns(parse(formula), with_response=False):
            columns.column("formula", column)
        expected = "None where there is a formula"
        require(groups is None, "groups", expected, repr(groups), "Write (1 | g) in it.")
        return f"{quote_name(name)} ~ {_right_of_tilde(formula)}", name
    factors = [groups] if isinstance(groups, str) else list(groups or ())
    for factor in factors:
        typed_table(frame.iloc[:0]).column("groups", factor)
    terms = [quote_name(column) for column in frame.columns if column not in factors]
    return f"{quote_name(name)} ~ {' + '.join([*terms, *_intercepts(factors)]) or '1'}", name


def _intercepts(factors: Iterable[str]) -> list[str]:
    return [f"(1 | {quote_name(factor)})" for factor in factors]
