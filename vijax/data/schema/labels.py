"""Names of levels (groups, users, items, categories): exact text, and one name for all values that
are equal.

Text is the level of its own letters: "007" is not "7", and "1e3" is not "1000"; blanks around it
are ignored. Numbers of any type name the level of their equal (1, 1.0, `np.int8(1)`,
`Decimal("1.0")`), and dates the same day at any resolution."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Rational
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Int

from vijax.data.schema.durations import duration_name, duration_seconds, is_duration

LabelKind = Literal["text", "number", "truth", "time"]
"""The kind of values: a column has the widest kind of its values."""
MISSING = -1
"""The code of a missing value, and of a level that training does not have."""
TRUTHS = {"True": "1", "False": "0"}
"""True and False as numbers."""
LEAST_FRACTION = 1e-300
"""Least fraction that is compared with its neighbours: below, they are far apart in proportion."""
NEAR = 2
"""Steps between neighbouring float64 that rounding may make."""
MOST_DIGITS = 1000
"""The most digits of a number that is a name; Python writes at most 4,300."""
PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
"""Text that a program writes for a number: without leading zeros, signs, exponents or blanks."""


@dataclasses.dataclass(frozen=True)
class Labels:
    """A column as labels.

    Attributes:
      names: the distinct names, in the order in which they first occur.
      codes: the place of each row's name among them; -1 for a missing value.
      kind: the kind of the values.
      kinds: the kind of the value of each name: a column of numbers may have text.
      declared: names in the order that the table itself declares, or None.
    """

    names: tuple[str, ...]
    codes: Int[np.ndarray, " N"]
    kind: LabelKind
    kinds: tuple[LabelKind, ...]
    declared: tuple[str, ...] | None = None

    @property
    def missing(self) -> Bool[np.ndarray, " N"]:
        """A mask of the missing values."""
        return self.codes == MISSING

    def levels(self) -> Levels:
        """The levels that occur: in declared order, else by number if all are numbers, else by
        letter."""
        if self.declared is not None:
            occurring = set(self.names)
            return Levels(tuple(name for name in self.declared if name in occurring), self.kind)
        return Levels(sort_names(self.names), self.kind)

    def named_as(self, kind: LabelKind) -> Labels:
        """The same rows with the names of another kind of values: among numbers the text "2.50" is
        "2.5".

        >>> to_labels(["1.0", "007", "b"]).named_as("number").names
        ('1', '007', 'b')
        """
        pairs = zip(self.names, self.kinds, strict=True)
        names = [_as_kind(name, own_kind, kind) or name for name, own_kind in pairs]
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        codes = np.array([*(places[name] for name in names), MISSING], int)[self.codes]
        return Labels(tuple(places), codes, kind, (kind,) * len(places))

    def texts(self) -> np.ndarray:
        """The name of each row, (N,), as Python text; "" for a missing value."""
        return np.array([*self.names, ""], object)[self.codes]


@dataclasses.dataclass(frozen=True)
class Levels:
    """The levels of a column in training.

    Attributes:
      names: names of the levels, in their order.
      kind: the kind of the values in training.
    """

    names: tuple[str, ...]
    kind: LabelKind

    def find_codes(self, labels: Labels) -> Int[np.ndarray, " N"]:
        """The place of each row's level; -1 for a level that training does not have.

        >>> training = to_labels(np.array([1.0, 2.5, 3.0])).levels()
        >>> later = [1], ["1", "2.50"], np.array([3], np.int8), ["01"]
        >>> [training.find_codes(to_labels(values)).tolist() for values in later]
        [[0], [0, 1], [2], [-1]]
        """
        place_of = {name: place for place, name in enumerate(self.names)}
        equals: dict[tuple[str, str], str] | None = None
        places = []
        for name, kind in zip(labels.names, labels.kinds, strict=True):
            if name in place_of:
                places.append(place_of[name])
                continue
            if equals is None:  # costly with many levels, and not needed for training rows
                equals = self._equals()
            converted = _as_kind(name, kind, self.kind)
            number = converted if kind != "number" and self.kind == "number" else name
            keys = _lookup_keys(number, kind, self.kind)
            exact = (name, converted, *(equals.get(key, "") for key in keys))
            place = next(
                (place_of[key_name] for key_name in exact if key_name in place_of), MISSING
            )
            if place < 0 and self.kind == "number" and number:
                # 0.1 * 3 is 0.3 up to rounding. If two levels are that near, neither is taken.
                candidates = {
                    place_of[key_name] for key_name in _neighbours(number) if key_name in place_of
                }
                place = candidates.pop() if len(candidates) == 1 else MISSING
            places.append(place)
        return np.array([*places, MISSING], int)[labels.codes]

    def find_code(self, value: Any) -> int:
        """The place of the level of one value, -1 without one."""
        return int(self.find_codes(to_labels([value]))[0])

    def _equals(self) -> dict[tuple[str, str], str]:
        """Levels by their other names; a name that two levels have is left out."""
        by_key: dict[tuple[str, str], list[str]] = {}
        for name in self.names:
            for key in dict.fromkeys(_keys_of_level(name, self.kind)):
                by_key.setdefault(key, []).append(name)
        return {key: names[0] for key, names in by_key.items() if len(names) == 1}


def _as_kind(name: str, kind: LabelKind, wanted: LabelKind) -> str:
    """The name of a value of one kind among values of another; "" if it has none."""
    if kind == wanted or wanted == "text":
        return ""
    if wanted == "number":
        return TRUTHS.get(name, "") if kind == "truth" else _plain_number(name)
    return _plain_truth(name) if wanted == "truth" else _plain_time(name)


def _keys_of_level(name: str, kind: LabelKind) -> list[tuple[str, str]]:
    """The other names of a level: for text the number, the truth value or the time that it plainly
    says; for a number its value in float32."""
    if kind == "number":
        return [("number", name), *_singles(name)]
    if kind != "text":
        return []
    number = _plain_number(name)
    time = _plain_time(name)
    keys = [("number", number), *_singles(number)] if number else []
    keys += [("truth", _plain_truth(name))] if name.lower() in ("true", "false") else []
    return [*keys, ("time", time)] if time else keys


def _lookup_keys(name: str, kind: LabelKind, wanted: LabelKind) -> list[tuple[str, str]]:
    """The keys by which a value is looked up. Text is exact: among levels of text only its own name
    counts."""
    if kind == "text" and wanted == "text":
        return []
    if kind == "number" or (kind == "text" and wanted == "number" and name):
        return [("number", name), *_singles(name)]
    return [(kind, name)] if kind in ("truth", "time") else []


def _singles(name: str) -> list[tuple[str, str]]:
    """The name of a fraction's value in float32, if it is one of float32: 0.1 in float32 is
    0.10000000149011612 in float64."""
    if not _is_fraction(name):
        return []
    value = float(name)
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(value)
    is_single = float(single) == value or _shortest(str(single)) == name
    if is_single and np.isfinite(single) and single != 0:
        return [("float32", str(single))]
    return []


def _neighbours(name: str) -> list[str]:
    """The names of the floats at most `NEAR` steps from a fraction. Whole numbers have none, so
    that ids stay apart."""
    if not _is_fraction(name):
        return []
    names = []
    for end in (-np.inf, np.inf):
        value = np.float64(name)
        for _ in range(NEAR):
            value = np.nextafter(value, end)
            names.append(_number_name(value))
    return names


def _is_fraction(name: str) -> bool:
    if len(name) > 40 or name[:2] == "0x":
        return False
    value = float(name)
    return bool(np.isfinite(value)) and not value.is_integer() and abs(value) > LEAST_FRACTION


def to_labels(values: Any, is_missing: Callable[[Any], bool] | None = None) -> Labels:
    """The labels of a column: an array, or a list of values of any types.

    Args:
      values: a vector.
      is_missing: tells whether a cell of text is a missing value; None: no text is.

    >>> to_labels(["a", None, "b", "a"]).codes.tolist(), to_labels(np.array([3, 1, 3])).levels().names
    ([0, -1, 1, 0], ('1', '3'))
    """
    return labels_of_distinct(*distinct_values(values), is_missing)


def labels_of_distinct(
    distinct: Sequence[Any], codes: np.ndarray, is_missing: Callable[[Any], bool] | None = None
) -> Labels:
    """`to_labels` for a column whose distinct values, and their places in the rows, are known."""
    by_place: dict[int, tuple[LabelKind, str]] = {}
    for place, value in enumerate(distinct):
        is_gap = is_missing is not None and isinstance(value, str) and is_missing(value)
        if not is_gap and not is_none(value):
            by_place[place] = name_of_value(value)
    _warn_of_blanks(
        {
            distinct[place]: name
            for place, (_, name) in by_place.items()
            if isinstance(distinct[place], str)
        }
    )
    kind = _widest({value_kind for value_kind, _ in by_place.values()})
    places: dict[str, int] = {}
    kinds: list[LabelKind] = []
    distinct_codes = np.full(len(distinct) + 1, MISSING)
    for place, (value_kind, name) in by_place.items():
        # Among numbers True is 1.
        if kind == "number" and value_kind == "truth":
            name = TRUTHS[name]
            value_kind = "number"
        if name not in places:
            places[name] = len(places)
            kinds.append(value_kind)
        distinct_codes[place] = places[name]
    return Labels(tuple(places), distinct_codes[codes], kind, tuple(kinds))


def _warn_of_blanks(names: Mapping[str, str]) -> None:
    """Warns if two texts become one name without the blanks around them."""
    blank = [text for text in names if text != text.strip()]
    if not blank:
        return
    stripped = (text.strip() for text in blank if text.strip() in names)
    first_texts: dict[str, str] = {}
    for text in sorted({*blank, *stripped}):
        first = first_texts.setdefault(text.strip(), text)
        if first != text:
            message = f"Blanks around names are left out: {first!r} and {text!r} are one."
            warnings.warn(message, UserWarning, stacklevel=4)
            return


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names sorted by number if all are numbers, by length if all are durations, else by letter.

    >>> sort_names(["10", "9", "1"]), sort_names(["10", "9", "a"]), sort_names(["10 days", "9 days"])
    (('1', '9', '10'), ('10', '9', 'a'), ('9 days', '10 days'))
    """
    names = list(names)
    if all(map(is_duration, names)):
        return tuple(sorted(names, key=duration_seconds))
    try:
        return tuple(sorted(names, key=lambda name: (decimal.Decimal(name), name)))
    except (decimal.InvalidOperation, TypeError):
        return tuple(sorted(names))


def are_numbers(names: Iterable[str]) -> bool:
    """True if all names say numbers, by which `sort_names` then sorts them.

    >>> are_numbers(["10", "9.5", "007"]), are_numbers(["9", "10+"])
    (True, False)
    """
    try:
        return all(decimal.Decimal(name).is_finite() for name in names)
    except decimal.InvalidOperation:
        return False


def kind_of_names(names: Iterable[str]) -> LabelKind:
    """The kind of levels by their names alone: numbers if each is the name of a number.

    >>> kind_of_names(["0", "1.5"]), kind_of_names(["0", "01"]), kind_of_names(["True", "False"])
    ('number', 'text', 'truth')
    """
    names = list(names)
    if names and set(names) <= set(TRUTHS):
        return "truth"
    if all(_plain_number(name) == name for name in names):
        return "number"
    return "text"


def name_of_value(value: Any) -> tuple[LabelKind, str]:
    """The kind of a value, and the name that all its equals have.

    >>> name_of_value(1.0), name_of_value(" 007"), name_of_value(np.float32(0.1)), name_of_value(True)
    (('number', '1'), ('text', '007'), ('number', '0.1'), ('truth', 'True'))
    >>> name_of_value(datetime.date(2024, 5, 1)), name_of_value(np.datetime64("2024-05-01T00:00", "ns"))
    (('time', '2024-05-01'), ('time', '2024-05-01'))
    """
    if isinstance(value, str):
        return "text", _text_name(value)
    if isinstance(value, bytes):
        return "text", _text_name(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, bool | np.bool_):
        return "truth", str(bool(value))
    if isinstance(value, np.timedelta64 | datetime.timedelta):
        return "text", duration_name(value)
    if isinstance(value, int | np.integer):
        return "number", _whole_name(int(value))
    if isinstance(value, float | np.floating | decimal.Decimal):
        return "number", _number_name(value)
    if isinstance(value, Rational):
        if value.denominator == 1:
            return "number", _whole_name(int(value.numerator))
        return "number", _number_name(float(value))
    if isinstance(value, datetime.date | np.datetime64):
        return "time", _time_name(value)
    return "text", _text_name(str(value))


def _text_name(text: str) -> str:
    return unicodedata.normalize("NFC", text.strip())


def label_name(value: Any) -> str:
    """The name of a value, say of a group or a node.

    >>> label_name(7.0), label_name("007"), label_name(datetime.datetime(2024, 5, 31))
    ('7', '007', '2024-05-31')
    """
    return name_of_value(value)[1]


def is_none(value: Any) -> bool:
    """True for None, NaN, NaT and pandas' missing value."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def distinct_values(values: Any) -> tuple[list[Any], np.ndarray]:
    """The distinct values in the order in which they first occur, and the place of each row's
    value. Equal values of different types, such as True and 1, are distinct.

    >>> distinct_values(["b", "a", "b"])[0], distinct_values(["b", "a", "b"])[1].tolist()
    (['b', 'a'], [0, 1, 0])
    """
    array = values if isinstance(values, np.ndarray) else _as_array(values)
    if array.dtype.kind != "O":
        distinct, first, codes = np.unique(array, return_index=True, return_inverse=True)
        order = np.argsort(first)
        # For dates and floats of other widths NumPy's own scalars say more than Python's.
        return [distinct[place] for place in order], np.argsort(order)[codes.reshape(-1)]
    cells = array.tolist()
    if {type(cell) for cell in cells} <= {str, type(None)}:
        return _number_keys(cells)
    keys = [(type(cell), cell) if not is_none(cell) else None for cell in cells]
    distinct_keys, codes = _number_keys(keys)
    return [None if key is None else key[1] for key in distinct_keys], codes


def _number_keys(keys: list[Any]) -> tuple[list[Any], np.ndarray]:
    places = {key: place for place, key in enumerate(dict.fromkeys(keys))}
    return list(places), np.fromiter(map(places.__getitem__, keys), int, len(keys))


def _as_array(values: Sequence[Any]) -> np.ndarray:
    """A list as an array that keeps the type of each value."""
    array = np.empty(len(values), object)
    for row, value in enumerate(values):
        array[row] = value
    return array


def _widest(kinds: set[LabelKind]) -> LabelKind:
    """The kind of a column whose values have these kinds."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return "number" if kinds == {"number", "truth"} else "text"


def _number_name(value: Any) -> str:
    """A number as text: whole ones without a point, others by the fewest digits that distinguish it
    from its neighbours.

    >>> _number_name(2.0), _number_name(0.1 + 0.2), _number_name(np.float32(2.7)), _number_name(1e300 * 1e300)
    ('2', '0.30000000000000004', '2.7', 'inf')
    """
    if isinstance(value, decimal.Decimal):
        if value.is_finite() and value == value.to_integral_value():
            return _whole_name(int(value))
        nearest = float(value)
        is_float = np.isfinite(nearest) and decimal.Decimal(repr(nearest)) == value
        if is_float or not value.is_finite():
            return _number_name(nearest)
        return str(value.normalize())
    if np.isfinite(value) and float(value).is_integer():
        return _whole_name(int(value))
    if isinstance(value, np.floating) and value.itemsize < 8:
        return _shortest(str(value))
    return _shortest(repr(float(value)))


def _whole_name(value: int) -> str:
    """A whole number as text, with any number of digits."""
    return str(value) if abs(value) < 10**MOST_DIGITS else f"{value:#x}"


def _shortest(text: str) -> str:
    """A decimal number without zeros at its end."""
    if "." in text and "e" not in text:
        return text.rstrip("0").rstrip(".")
    return text


def _time_name(value: datetime.date | np.datetime64) -> str:
    """A date or a time in ISO 8601, as short as possible."""
    moment: Any = value
    if isinstance(value, np.datetime64):
        if np.datetime_data(value.dtype)[0] not in "YMWD":
            moment = value.astype("datetime64[ns]")
        text = str(moment)
        if "T" not in text:
            text = str(value.astype("datetime64[D]"))
    else:
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            moment = value.astimezone(datetime.UTC)
        text = moment.isoformat()
    day, _, time = text.partition("T")
    if not time:
        return day
    clock, zone = re.fullmatch(r"([\d:.]+)(.*)", time).groups()  # type: ignore[union-attr]
    if "." in clock:
        clock = clock.rstrip("0").rstrip(".")
    if clock.count(":") == 1:
        clock += ":00"
    return day if clock == "00:00:00" and not zone else f"{day}T{clock}{zone}"


def _plain_number(text: str) -> str:
    """The name of the number that a text plainly says; "" if it says none.

    >>> _plain_number("2.50"), _plain_number("007"), _plain_number("a")
    ('2.5', '', '')
    """
    is_plain = len(text) <= MOST_DIGITS and PLAIN_NUMBER.fullmatch(text)
    return _number_name(decimal.Decimal(text)) if is_plain else ""


def _plain_truth(text: str) -> str:
    return {"true": "True", "false": "False", "1": "True", "0": "False"}.get(text.lower(), "")


def _plain_time(text: str) -> str:
    try:
        return _time_name(datetime.datetime.fromisoformat(text))
    except ValueError:
        return ""
