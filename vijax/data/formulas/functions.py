"""The functions that a formula may call, and arithmetic on the columns of a table.

Numbers become float64 before any arithmetic, so that no small integer overflows. Means and other
statistics are computed from the training rows, and used for later rows too."""

from __future__ import annotations

import dataclasses
import datetime
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.data.formulas.row_statistics import STATISTICS, mean_and_spread
from vijax.data.formulas.syntax import (
    Call,
    Column,
    Constant,
    Node,
    Number,
    Operation,
    Sign,
    Span,
    Text,
)
from vijax.data.formulas.tokens import refuse
from vijax.data.schema.near_numbers import OF_POINTS, NearNumbers
from vijax.data.schema.typed_columns import NoNumber, TypedColumn, TypedTable
from vijax.data.tables.columns import are_missing

Values = Float[np.ndarray, " N"]
ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "exp": np.exp,
    "expm1": np.expm1,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "floor": np.floor,
    "power": np.power,
}
"""Functions of numbers, applied row by row."""
CENTRED = ("center", "scale", "standardize")
"""Functions that subtract the mean of a column, or also divide by its standard deviation."""
COLUMN_MAKERS = ("C", "S", "T", "poly", "bs", "mo", "s", "t2", "hsgp", "cs", "offset")
"""Functions that are terms of their own."""
SMOOTHS = ("s", "t2", "hsgp")
"""Smooth terms, of one column or several: penalised ones, Gaussian processes."""
CONTRASTS = ("Treatment", "Sum", "Helmert", "Poly")
"""Codes of categories, within C(...)."""
RESPONSES = ("p", "prop", "proportion")
"""Functions to the left of ~, of successes and trials."""
CLASS_COUNTS = "c"
"""The function to the left of ~ of counts by category."""
PARTLY_KNOWN = ("se", "censored", "truncated")
"""Functions to the left of ~, of responses with errors of known size, censored or truncated
ones."""
CONSTANTS = {"np.pi": np.pi, "pi": np.pi, "np.e": np.e}
"""Numbers with a name."""
_PLAIN = (*ELEMENTWISE, *STATISTICS)
SPELLINGS = {
    **{name: name for name in (*_PLAIN, *CENTRED, "I", *CONTRASTS)},
    **{f"np.{name}": name for name in _PLAIN},
}
"""The functions by all their names: np.log is log."""
MOST_ARGUMENTS = {"power": 2}
ALIKE = 1e-5
"""Relative difference that rounding may make in a user's own function, which may compute in
float32.
"""
EXACT = 1e-13
"""A standard deviation below this share of the values is rounding: the column is constant."""
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less,
    ">": np.greater,
    "<=": np.less_equal,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "//": np.floor_divide,
    "%": np.mod,
    "**": np.power,
}


def listed_functions() -> str:
    """The functions, for messages."""
    names = [name for name in SPELLINGS if "." not in name and name not in CONTRASTS]
    makers = ", ".join(f"{name}()" for name in COLUMN_MAKERS)
    return f"{', '.join(f'{name}()' for name in names)}, {makers}, and np. before those of numbers"


def find_columns(node: Node) -> dict[str, Span]:
    """The columns that a part names, each with its first place.

    >>> from vijax.data.formulas.parser import parse
    >>> list(find_columns(parse("y ~ C(h, Sum):I(x * np.log(z))").addends[0][1]))
    ['h', 'x', 'z']
    """
    if isinstance(node, Column):
        return {node.name: node.span}
    inner: tuple[Node, ...] = ()
    if isinstance(node, Sign):
        inner = (node.inner,)
    elif isinstance(node, Operation):
        inner = (node.left, node.right)
    elif isinstance(node, Call):
        inner = node.arguments
        if node.function in SMOOTHS:
            inner = _smooth_parts(node)
        elif node.function in COLUMN_MAKERS or node.function == "[]":
            inner = node.arguments[:1]  # the further arguments are settings
        elif node.function in PARTLY_KNOWN:
            inner = (*inner, *(part for _, part in node.named))
    columns: dict[str, Span] = {}
    for part in inner:
        for name, span in find_columns(part).items():
            columns.setdefault(name, span)
    return columns


def smooth_multiplier(node: Call) -> Node | None:
    """The part by=... of a smooth term."""
    return dict(node.named).get("by")


def _smooth_parts(node: Call) -> tuple[Node, ...]:
    """The parts of a smooth term that read columns."""
    by = smooth_multiplier(node)
    if by is None:
        return node.arguments
    return (*node.arguments, by)


@dataclasses.dataclass(frozen=True)
class Reading:
    """A table on which parts of a formula are evaluated.

    Attributes:
      table: the rows.
      text: the formula, for messages.
      argument: its name in messages.
      statistics: numbers of the training rows by the text of the part; missing ones are learnt.
      functions: the user's own functions by name.
      learning: whether these are the training rows.
      row_weights: weights of the training rows; None for ones.
    """

    table: TypedTable
    text: str
    argument: str
    statistics: dict[str, Any]
    functions: Mapping[str, Callable[..., Any]]
    learning: bool
    row_weights: Float[np.ndarray, " N"] | None = None

    @property
    def weights(self) -> Float[np.ndarray, " N"]:
        """The weights of the rows."""
        if self.row_weights is None:
            return np.ones(len(self.table))
        return self.row_weights

    def refuse(self, node: Node, expected: str, got: str, remedy: str = "") -> ValueError:
        """The error to raise for a part."""
        argument = self.argument if self.learning else "table"
        return refuse(argument, self.text, node.span, expected, got, remedy)

    def column(self, node: Column) -> TypedColumn:
        """A column of the table."""
        return self.table.column(self.argument if self.learning else "table", node.name)

    def learnt(self, node: Node, learn: Callable[[], Any]) -> Any:
        """One or more numbers of the training rows."""
        key = str(node)
        if key not in self.statistics:
            if not self.learning:
                raise KeyError(key)
            self.statistics[key] = learn()
        return self.statistics[key]


def label_columns(node: Node) -> tuple[str, ...]:
    """The columns that a part reads as labels, whose text in a file is exact: C(g), h['b'] and h ==
    'b'.

    >>> from vijax.data.formulas.parser import parse
    >>> label_columns(parse("y ~ C(h):x + I(k == 'b')").addends[0][1])
    ('h',)
    """
    if isinstance(node, Call) and node.function in ("C", "S", "T", "[]"):
        return tuple(find_columns(node))
    if isinstance(node, Call) and node.function == "mo" and node.named:
        return tuple(find_columns(node))  # mo(h, levels=[...]) names its levels
    if isinstance(node, Operation):
        if isinstance(node.right, Text):
            return tuple(find_columns(node.left))
        return (*label_columns(node.left), *label_columns(node.right))
    if isinstance(node, Call):
        parts = node.arguments
        if node.function in SMOOTHS:
            parts = _smooth_parts(node)
        return tuple(name for part in parts for name in label_columns(part))
    return label_columns(node.inner) if isinstance(node, Sign) else ()


def number_columns(node: Node) -> tuple[str, ...]:
    """The columns that a part reads as numbers, or else as labels."""
    if isinstance(node, Column):
        return (node.name,)
    if isinstance(node, Call) and node.function not in ("C", "S", "T", "[]"):
        parts = node.arguments[:1] if node.function in COLUMN_MAKERS else node.arguments
        if node.function in SMOOTHS:
            parts = _smooth_parts(node)
        elif node.function in PARTLY_KNOWN:
            parts = (*parts, *(part for _, part in node.named))
        return tuple(name for argument in parts for name in number_columns(argument))
    if isinstance(node, Operation):
        sides = () if isinstance(node.right, Text) else (node.left, node.right)
        return tuple(name for side in sides for name in number_columns(side))
    return number_columns(node.inner) if isinstance(node, Sign) else ()


def evaluate(node: Node, reading: Reading) -> Values:
    """A part of a formula as numbers, (N,).

    Raises:
      ValueError: a column of text, a function with wrong arguments, or a value that is not finite;
        the message names the part and the row.
    """
    return np.broadcast_to(_value(node, reading), (len(reading.table),)).astype(float)


def _value(node: Node, reading: Reading) -> Any:
    if isinstance(node, Number):
        return _finite_number(node, reading)
    if isinstance(node, Constant) and node.name in CONSTANTS:
        return CONSTANTS[node.name]
    if isinstance(node, Column):
        return column_numbers(node, reading)
    if isinstance(node, Sign):
        return -_value(node.inner, reading)
    if isinstance(node, Operation):
        return _operation(node, reading)
    if isinstance(node, Call):
        return _call(node, reading)
    raise reading.refuse(node, "a column, a number or a function", repr(str(node)))


def _finite_number(node: Number, reading: Reading) -> float:
    value = float(node.text)
    if not np.isfinite(value):
        raise reading.refuse(node, "a number that a float64 can hold", node.text)
    return value


def column_numbers(node: Column, reading: Reading) -> Values:
    """A column of numbers, as float64."""
    column = reading.column(node)
    if reading.learning and column.kind not in ("number", "truth"):
        raise not_numbers_error(node, column, reading)
    try:
        return _finite(node, column.numbers(), reading)
    except NoNumber as error:
        actual = (
            f"{str(error.value)[:40]!r} in {reading.table.row_name(error.row)} of {node.name!r}"
        )
        raise reading.refuse(
            node, "numbers, as training has", actual, "Correct the cell."
        ) from error


def check_categories(node: Column, column: TypedColumn, reading: Reading) -> None:
    """Refuses a column of text as categories if its cells mean numbers, as each cell would be a
    category. A few texts that rows repeat are categories; a warning is given if they are numbers
    with signs."""
    text_numbers = column.near_numbers
    if text_numbers is None:
        _check_few_levels(node, column, reading)
        return
    if not text_numbers.are_few:
        raise _near_numbers(node, text_numbers, reading)
    if not text_numbers.are_named:
        warnings.warn(
            f"{reading.argument}: {node.name!r} is text, as {text_numbers.cell[:40]!r}, and each "
            f"text is a category. If numbers are meant, write {text_numbers.advice}; C({node}) "
            "says that categories are.",
            UserWarning,
            stacklevel=2,
        )


def _check_few_levels(node: Column, column: TypedColumn, reading: Reading) -> None:
    """Refuses a column of text if nearly each row has its own text: it is a name, a note, or a
    number with something beside it, and no category."""
    number = len(column.labels().levels().names)
    rows = len(column.values)
    is_few = rows < FEWEST_ROWS or number <= MOST_LEVELS * rows
    # The error for very many levels says more.
    if column.declared is not None or is_few or number > MOST_COLUMNS:
        return
    actual = (
        f"{number:,} different texts in {rows:,} rows of {node.name!r}, such as "
        f"{str(column.values[0])[:40]!r}"
    )
    remedy = (
        f"Make them numbers, write (1 | {node}) for groups, leave it out, or C({node}) for "
        "categories."
    )
    raise reading.refuse(node, "categories that rows share", actual, remedy)


FEWEST_ROWS = 10
"""Least number of rows for which the levels of a column of text are limited."""
MOST_LEVELS = 0.5
"""The most levels of a column of text, as a share of its rows."""
MOST_COLUMNS = 2000
"""The most columns of a term, and the most levels of a category."""


def _near_numbers(node: Column, near: NearNumbers, reading: Reading) -> ValueError:
    """The error to raise if text means numbers."""
    actual = (
        f"{near.cell[:40]!r} in {reading.table.row_name(near.place)} of {node.name!r}, and texts "
        "like it"
    )
    remedy = f"Write {near.advice}, and so in all rows; or C({node}) for a category of each text."
    return reading.refuse(node, "numbers alone in cells that mean numbers", actual, remedy)


def _called_times(column: TypedColumn) -> tuple[str, str]:
    """The kind of times in a column, in words, and how to make numbers of them in pandas."""
    cell = next(iter(column.values[~are_missing(column.values)]), None)
    if column.values.dtype.kind == "m" or isinstance(cell, datetime.timedelta | np.timedelta64):
        return "durations", "table[name].dt.total_seconds()"
    if isinstance(cell, datetime.time):
        return "times of day", "hours since midnight, cell.hour + cell.minute / 60"
    return "dates", "(table[name] - table[name].min()).dt.days"


def not_numbers_error(node: Column, column: TypedColumn, reading: Reading) -> ValueError:
    """The error to raise for another column than one of numbers."""
    expected = f"a column of numbers, {node.name!r}"
    if column.kind == "time":
        expected = "numbers, text or categories in the terms of the formula"
        called, numbers = _called_times(column)
        remedy = f"Make them numbers: {numbers}; or write C(...) for a category of each."
        return reading.refuse(node, expected, f"{called} in [{node.name!r}]", remedy)
    if column.kind == "digits":
        cells = [str(cell) for cell in column.values[~are_missing(column.values)]]
        points = ""
        if all(map(OF_POINTS.fullmatch, cells)):
            points = " (without the points, if these divide thousands)"
        remedy = (
            f"Write C({node}) for categories, or give numbers: "
            f"table[{node.name!r}].astype(float){points}."
        )
        return reading.refuse(node, expected, "text, all of which says numbers", remedy)
    if column.kind == "empty":
        return reading.refuse(node, expected, "missing values alone", "Leave it out.")
    if column.near_numbers is not None:
        return _near_numbers(node, column.near_numbers, reading)
    bad = column.not_numbers()
    cell = "text"
    if len(bad):
        value = str(column.values[bad[0]])[:40]
        cell = f"{value!r} in {reading.table.row_name(int(bad[0]))}"
    if column.kind == "mixed":
        remedy = f"Correct the cell, or write C({node}) for a category of each value."
        return reading.refuse(node, expected, f"{cell} ({len(bad)} such)", remedy)
    return reading.refuse(node, expected, f"text, as {cell}", "Categories are terms of their own.")


def _operation(node: Operation, reading: Reading) -> Any:
    if node.operator in COMPARISONS:
        return _comparison(node, reading)
    left = _value(node.left, reading)
    right = _value(node.right, reading)
    with np.errstate(all="ignore"):
        value = ARITHMETIC[node.operator](np.asarray(left, float), np.asarray(right, float))
    return _finite(node, value, reading)


def _comparison(node: Operation, reading: Reading) -> Any:
    """1 where a comparison holds, else 0; labels have only `==` and `!=`."""
    if isinstance(node.right, Text):
        if not isinstance(node.left, Column) or node.operator not in ("==", "!="):
            raise reading.refuse(node, "a column == a text", repr(str(node)))
        column = reading.column(node.left)
        levels = reading.learnt(node, lambda: column.labels().levels())
        code = levels.find_code(node.right.text)
        if code < 0:
            expected = f"a value of {node.left.name!r}: {list(levels.names)[:20]}"
            raise reading.refuse(node.right, expected, repr(node.right.text))
        is_equal = levels.find_codes(column.labels()) == code
        return (is_equal if node.operator == "==" else ~is_equal).astype(float)
    left = _value(node.left, reading)
    right = _value(node.right, reading)
    return COMPARISONS[node.operator](left, right).astype(float)


def _call(node: Call, reading: Reading) -> Any:
    if node.function in reading.functions:
        return _call_user_function(node, reading)
    name = SPELLINGS.get(node.function, node.function)
    if name == "I":
        return _value(_only(node, reading), reading)
    if name in ELEMENTWISE:
        arguments = _exactly(node, MOST_ARGUMENTS.get(name, 1), reading)
        values = [np.asarray(_value(argument, reading), float) for argument in arguments]
        with np.errstate(all="ignore"):
            result = ELEMENTWISE[name](*values)
        return _finite(node, result, reading)
    if name in STATISTICS:
        row_values = evaluate(_only(node, reading), reading)
        return reading.learnt(node, lambda: float(STATISTICS[name](row_values, reading.weights)))
    if name in CENTRED:
        return _centre(node, name, reading)
    remedy = f"Functions are {listed_functions()}."
    raise reading.refuse(node, "a function of numbers", repr(node.function), remedy)


def _centre(node: Call, name: str, reading: Reading) -> Values:
    values = evaluate(_only(node, reading), reading)
    mean, deviation = reading.learnt(node, lambda: _centre_and_scale(values, reading))
    if name == "center":
        return values - mean
    if not deviation > EXACT * max(1e-300, float(np.abs(values).max(initial=0.0))):
        expected = "a column with more than one value"
        raise reading.refuse(node, expected, "a constant one", "Leave it out.")
    return (values - mean) / deviation


def _centre_and_scale(values: Values, reading: Reading) -> tuple[float, float]:
    mean, deviation = mean_and_spread(values, reading.weights)
    return float(mean), float(deviation)


def _call_user_function(node: Call, reading: Reading) -> Values:
    """The values of a user's own function, which takes and returns arrays (N,)."""
    arguments = [evaluate(argument, reading) for argument in node.arguments]
    if node.named:
        expected = "arguments without names, for a function of your own"
        raise reading.refuse(node, expected, repr(str(node)))
    value = _user_values(node, arguments, reading)
    if reading.learning and len(value) > 1:
        _check_row_by_row(node, arguments, value, reading)
    return _finite(node, value, reading)


def _user_values(node: Call, arguments: list[np.ndarray], reading: Reading) -> Values:
    """The result of a user's own function, as float64. It gets copies, as it may write into
    them."""
    rows = len(arguments[0]) if arguments else len(reading.table)
    value = reading.functions[node.function](*(argument.copy() for argument in arguments))
    expected = f"an array of the {rows} rows from {node.function}"
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        raise reading.refuse(node, expected, "one with masked cells")
    array = np.asarray(value)
    if array.shape != (rows,):
        raise reading.refuse(node, expected, f"shape {array.shape}")
    if array.dtype.kind not in "biuf":
        raise reading.refuse(node, f"numbers from {node.function}", f"an array of {array.dtype}")
    return array.astype(float)


def _check_row_by_row(
    node: Call, arguments: list[np.ndarray], value: Values, reading: Reading
) -> None:
    """Refuses a function whose value in a row depends on the other rows: in later tables it would
    change with them."""
    half = slice(None, None, 2)
    reversed_half = [argument[half][::-1] for argument in arguments]
    of_half = _user_values(node, reversed_half, reading)[::-1]
    expected_half = np.where(np.isfinite(value), value, 0.0)[half]
    size = np.abs(expected_half).max(initial=0.0)
    of_half = np.where(np.isfinite(of_half), of_half, 0.0)
    if not np.allclose(of_half, expected_half, rtol=ALIKE, atol=ALIKE * size):
        expected = f"the same value in a row from {node.function}, whatever other rows there are"
        remedy = (
            "Means of training are kept by I(x - mean(x)), scale(x), center(x), poly(x, 2) and "
            "bs(x, df=4)."
        )
        raise reading.refuse(node, expected, "another one without them", remedy)


def _only(node: Call, reading: Reading) -> Node:
    return _exactly(node, 1, reading)[0]


def _exactly(node: Call, number: int, reading: Reading) -> tuple[Node, ...]:
    if len(node.arguments) != number or node.named:
        expected = f"{number} argument{'s' * (number > 1)} of {node.function}, without names"
        raise reading.refuse(node, expected, repr(str(node)))
    return node.arguments


def _finite(node: Node, value: Any, reading: Reading) -> Any:
    """A value, if it is finite in all rows. Missing cells were refused before any arithmetic."""
    values = np.broadcast_to(value, (len(reading.table),))
    bad = np.flatnonzero(~np.isfinite(values))
    if not len(bad):
        return value
    row = int(bad[0])
    cells = {name: reading.table.columns[name].values[row] for name in find_columns(node)}
    at = ", ".join(f"{name} = {cell}" for name, cell in cells.items())
    actual = (
        f"{float(values[row]):g} in {reading.table.row_name(row)}, where {at} ({len(bad)} such)"
    )
    remedy = "Leave these rows out, or change the term."
    raise reading.refuse(node, f"finite values of {node}", actual, remedy)
