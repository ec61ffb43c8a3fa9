"""Tables with named columns as inputs of estimators, and formulas of their columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from vijax.checks import require
from vijax.models.formulas.formula import frame_of, require_column


def table_of(estimator: Any, X: Any, reset: bool, response: str = "") -> Any:
    """X as a table of pandas, checked by scikit-learn. Columns are those that `fit` saw, whatever others there are and
    in any order; those without names are x0, x1, ... Where `fit` learns them (`reset`) the response is left out."""
    if hasattr(X, "columns"):
        frame = frame_of(X)
        known = getattr(estimator, "feature_names_in_", None)
        if reset:
            frame = frame.drop(columns=response, errors="ignore")
        elif known is not None and set(known) <= set(frame):
            frame = frame[list(known)]
        require(len(frame) > 0, "X", "a row or more", "an empty table")
        validate_data(estimator, frame, skip_check_array=True, reset=reset)
    else:
        numbers = validate_data(estimator, X, dtype=[np.float64, np.float32], reset=reset).astype(np.float64)
        frame = frame_of(dict(enumerate(numbers.T)))
    if reset:
        names = list(getattr(estimator, "feature_names_in_", ()))
        estimator._columns = names or [f"x{i}" for i in range(frame.shape[1])]
    return frame.set_axis(estimator._columns, axis=1)


def response_of(formula: str | None) -> str:
    """The name to the left of ~, "" where there is none. Raises ValueError: an expression, or no ~.

    >>> response_of("a ~ x"), response_of("`a b` ~ x"), response_of("~ x"), response_of(None)
    ('a', 'a b', '', '')
    """
    if formula is None:
        return ""
    require("~" in formula, "formula", "response ~ terms, or ~ terms", repr(formula))
    left = formula.partition("~")[0].strip()
    is_quoted = len(left) > 2 and left[0] == left[-1] == "`"
    remedy = "Transform y before fit, or use vijax.glmm."
    require(is_quoted or not left or left.isidentifier(), "formula", "a name to the left of ~", repr(left), remedy)
    return left.strip("`")


def whole_formula(formula: str | None, groups: str | Sequence[str] | None, frame: Any) -> tuple[str, str]:
    """The formula with a response, and the name of that: "y" with as many "_" as it takes to be no column. Without a
    formula all columns are terms, but for those of groups, which have intercepts."""
    named = response_of(formula)
    name = named if named.isidentifier() else "y"
    while name in frame:
        name += "_"
    if formula is not None:
        require(groups is None, "groups", "None where there is a formula", repr(groups), "Write (1 | g) in it.")
        return f"{name} ~ {formula.partition('~')[2].strip()}", name
    factors = [groups] if isinstance(groups, str) else list(groups or ())
    for factor in factors:
        require_column("groups", factor, frame)
    terms = [_quoted(column) for column in frame.columns if column not in factors]
    return f"{name} ~ {' + '.join([*terms, *_intercepts(factors)]) or '1'}", name


def _intercepts(factors: Iterable[str]) -> list[str]:
    return [f"(1 | {factor})" for factor in factors]


def _quoted(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"
