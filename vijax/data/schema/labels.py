"""Names of levels (groups, users, items, categories): exact text, and one name for all values that
are equal.

Text is the level that it says: "007" is not "7", and "1e3" is not "1000"; blanks around it say
nothing. Numbers of any type name the level of their equal (1, 1.0, `np.int8(1)`, `Decimal("1.0")`),
dates the same day at any resolution."""

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
"""What the values are: that of a column is the widest that all its values have."""
MISSING = -1
"""The code of a missing value, and that of a level that training does not have."""
TRUTHS = {"True": "1", "False": "0"}
"""True and False as numbers."""
LEAST_FRACTION = 1e-300
"""Below it neighbouring floats are far apart in proportion."""
NEAR = 2
"""Steps between neighbouring float64 that rounding may make."""
MOST_DIGITS = 1000
"""Digits of a number that is a name, at most; Python writes no more than 4,300."""
PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")
"""Text that a program writes for a number: without leading zeros, signs, exponents or blanks."""


@dataclasses.dataclass(frozen=True)
class Labels:
    """A column as labels.

    Attributes:
      names: the distinct names, in the order in which they first occur.
      codes: the place of each row's name among them; -1 where the value is missing.
      kind: what the values are.
      kinds: what the value of each name is: one of a column of numbers may be text.
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
        """The levels that occur: as declared, by number where all are numbers, else by letter."""
        if self.declared is not None:
            occurring = set(self.names)
            return Levels(tuple(name for name in self.declared if name in occurring), self.kind)
        return Levels(sort_names(self.names), self.kind)

    def named_as(self, kind: LabelKind) -> Labels:
        """The same rows with names as values of a kind have them: among numbers the text "2.50" is
        "2.5".

        >>> to_labels(["1.0", "007", "b"]).named_as("number").names
        ('1', '007', 'b')
        """
        names = [
            _as_kind(name, own, kind) or name
            for name, own in zip(self.names, self.kinds, strict=True)
        ]
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        codes = np.array([*(places[name] for name in names), MISSING], int)[self.codes]
        return Labels(tuple(places), codes, kind, (kind,) * len(places))

    def texts(self) -> np.ndarray:
        """The name of each row, (N,), Python's own text; "" where it is missing."""
        return np.array([*self.names, ""], object)[self.codes]


@dataclasses.dataclass(frozen=True)
class Levels:
    """The levels that a column of training had.

    Attributes:
      names: of the levels, in their order.
      kind: what the values of training were.
    """

    names: tuple[str, ...]
    kind: LabelKind

    def find_codes(self, labels: Labels) -> Int[np.ndarray, " N"]:
        """The place of each row's level; -1 for one that training does not have.

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
            if equals is None:  # of many levels it is dear, and rows of training need it for none
                equals = self._equals()
            own = _as_kind(name, kind, self.kind)
            number = own if kind != "number" and self.kind == "number" else name
            exact = (
                name,
                own,
                *(equals.get(key, "") for key in _lookup_keys(number, kind, self.kind)),
            )
            place = next((place_of[each] for each in exact if each in place_of), MISSING)
            if place < 0 and self.kind == "number" and number:
                # 0.1 * 3 is 0.3 up to rounding; of two such levels neither is meant.
                near = {place_of[each] for each in _neighbours(number) if each in place_of}
                place = near.pop() if len(near) == 1 else MISSING
            places.append(place)
        return np.array([*places, MISSING], int)[labels.codes]

    def find_code(self, value: Any) -> int:
        """The place of the level of one value, -1 for none."""
        return int(self.find_codes(to_labels([value]))[0])

    def _equals(self) -> dict[tuple[str, str], str]:
        """Levels by what else names them; of two that have one such name neither is meant."""
        by_key: dict[tuple[str, str], list[str]] = {}
        for name in self.names:
            for key in dict.fromkeys(_keys_of_level(name, self.kind)):
                by_key.setdefault(key, []).append(name)
        return {key: names[0] for key, names in by_key.items() if len(names) == 1}


def _as_kind(name: str, kind: LabelKind, wanted: LabelKind) -> str:
    """The name that a value of one kind has among those of another; "" for none."""
    if kind == wanted or wanted == "text":
        return ""
    if wanted == "number":
        return TRUTHS.get(name, "") if kind == "truth" else _plain_number(name)
    return _plain_truth(name) if wanted == "truth" else _plain_time(name)


def _keys_of_level(name: str, kind: LabelKind) -> list[tuple[str, str]]:
    """The other names of a level: of text the number, the truth value or the time that it plainly
    says; of a number its value in float32."""
    if kind == "number":
        return [("number", name), *_singles(name)]
    if kind != "text":
        return []
    number, time = _plain_number(name), _plain_time(name)
    keys = [("number", number), *_singles(number)] if number else []
    keys += [("truth", _plain_truth(name))] if name.lower() in ("true", "false") else []
    return [*keys, ("time", time)] if time else keys


def _lookup_keys(name: str, kind: LabelKind, wanted: LabelKind) -> list[tuple[str, str]]:
    """The names to look a value up by. Text is exact: among levels of text it has its own name
    alone."""
    if kind == "text" and wanted == "text":
        return []
    if kind == "number" or (kind == "text" and wanted == "number" and name):
        return [("number", name), *_singles(name)]
    return [(kind, name)] if kind in ("truth", "time") else []


def _singles(name: str) -> list[tuple[str, str]]:
    """The name of a fraction's value in float32, where it is one of float32: 0.1 there is
    0.10000000149011612 here."""
    if not _is_fraction(name):
        return []
    value = float(name)
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(value)
    is_single = float(single) == value or _shortest(str(single)) == name
    return [("float32", str(single))] if is_single and np.isfinite(single) and single != 0 else []


def _neighbours(name: str) -> list[str]:
    """The names of the floats `NEAR` steps from a fraction or less. Whole numbers have none: ids
    stay apart."""
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
      is_missing: tells whether a cell of text stands for a missing value; None: no text does.

    >>> to_labels(["a", None, "b", "a"]).codes.tolist(), to_labels(np.array([3, 1, 3])).levels().names
    ([0, -1, 1, 0], ('1', '3'))
    """
    return labels_of_distinct(*distinct_values(values), is_missing)


def labels_of_distinct(
    distinct: Sequence[Any], codes: np.ndarray, is_missing: Callable[[Any], bool] | None = None
) -> Labels:
    """`to_labels` a column whose distinct values, and their places in the rows, are known."""
    named: dict[int, tuple[LabelKind, str]] = {}
    for place, value in enumerate(distinct):
        is_gap = is_missing is not None and isinstance(value, str) and is_missing(value)
        if not is_gap and not is_none(value):
            named[place] = name_of_value(value)
    _warn_of_blanks(
        {
            distinct[place]: name
            for place, (_, name) in named.items()
            if isinstance(distinct[place], str)
        }
    )
    kind = _widest({kind for kind, _ in named.values()})
    places: dict[str, int] = {}
    kinds: list[LabelKind] = []
    own_codes = np.full(len(distinct) + 1, MISSING)
    for place, (own_kind, name) in named.items():
        # Among numbers True is 1.
        is_one = kind == "number" and own_kind == "truth"
        own_name = TRUTHS[name] if is_one else name
        if own_name not in places:
            places[own_name] = len(places)
            kinds.append("number" if is_one else own_kind)
        own_codes[place] = places[own_name]
    return Labels(tuple(places), own_codes[codes], kind, tuple(kinds))


def _warn_of_blanks(names: Mapping[str, str]) -> None:
    """Warns where two texts are one name without the blanks around them."""
    blank = [text for text in names if text != text.strip()]
    if not blank:
        return
    first: dict[str, str] = {}
    for text in sorted({*blank, *(text.strip() for text in blank if text.strip() in names)}):
        other = first.setdefault(text.strip(), text)
        if other != text:
            said = f"Blanks around names are left out: {other!r} and {text!r} are one."
            warnings.warn(said, UserWarning, stacklevel=4)
            return


def sort_names(names: Iterable[str]) -> tuple[str, ...]:
    """Names by number where all of them are numbers, by length where all are durations, else by
    letter.

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


def kind_of_names(names: Iterable[str]) -> LabelKind:
    """The kind of levels by their names alone: numbers where each is the name of one.

    >>> kind_of_names(["0", "1.5"]), kind_of_names(["0", "01"]), kind_of_names(["True", "False"])
    ('number', 'text', 'truth')
    """
    names = list(names)
    if names and set(names) <= set(TRUTHS):
        return "truth"
    return "number" if all(_plain_number(name) == name for name in names) else "text"


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
        is_whole = value.denominator == 1
        return "number", _whole_name(int(value.numerator)) if is_whole else _number_name(
            float(value)
        )
    if isinstance(value, datetime.date | np.datetime64):
        return "time", _time_name(value)
    return "text", _text_name(str(value))


def _text_name(text: str) -> str:
    return unicodedata.normalize("NFC", text.strip())


def label_name(value: Any) -> str:
    """The name of a value, of a group or a node say.

    >>> label_name(7.0), label_name("007"), label_name(datetime.datetime(2024, 5, 31))
    ('7', '007', '2024-05-31')
    """
    return name_of_value(value)[1]


def is_none(value: Any) -> bool:
    """True for None, NaN, NaT and what pandas has for a missing value."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def distinct_values(values: Any) -> tuple[list[Any], np.ndarray]:
    """The distinct values in the order in which they first occur, and the place of each row's
    value. Values that are equal and of different types, as True and 1, are two.

    >>> distinct_values(["b", "a", "b"])[0], distinct_values(["b", "a", "b"])[1].tolist()
    (['b', 'a'], [0, 1, 0])
    """
    array = values if isinstance(values, np.ndarray) else _as_array(values)
    if array.dtype.kind != "O":
        distinct, first, codes = np.unique(array, return_index=True, return_inverse=True)
        order = np.argsort(first)
        # Of types with dates and floats of other widths NumPy's own scalars say more than Python's.
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
    """The kind of a column with values of these kinds."""
    if len(kinds) == 1:
        return next(iter(kinds))
    return "number" if kinds == {"number", "truth"} else "text"


def _number_name(value: Any) -> str:
    """A number as text: whole ones without a point, all others by the fewest digits that tell it
    from its neighbours.

    >>> _number_name(2.0), _number_name(0.1 + 0.2), _number_name(np.float32(2.7)), _number_name(1e300 * 1e300)
    ('2', '0.30000000000000004', '2.7', 'inf')
    """
    if isinstance(value, decimal.Decimal):
        if value.is_finite() and value == value.to_integral_value():
            return _whole_name(int(value))
        nearest = float(value)
        is_float = np.isfinite(nearest) and decimal.Decimal(repr(nearest)) == value
        return (
            _number_name(nearest) if is_float or not value.is_finite() else str(value.normalize())
        )
    if np.isfinite(value) and float(value).is_integer():
        return _whole_name(int(value))
    if isinstance(value, np.floating) and value.itemsize < 8:
        return _shortest(str(value))
    return _shortest(repr(float(value)))


def _whole_name(value: int) -> str:
    """A whole number as text, of however many digits."""
    return str(value) if abs(value) < 10**MOST_DIGITS else f"{value:#x}"


def _shortest(text: str) -> str:
    """A decimal number without zeros at its end."""
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def _time_name(value: datetime.date | np.datetime64) -> str:
    """A date or a time as ISO 8601 has it, as short as it can be said."""
    if isinstance(value, np.datetime64):
        text = str(
            value.astype("datetime64[ns]")
            if np.datetime_data(value.dtype)[0] not in "YMWD"
            else value
        )
        text = str(value.astype("datetime64[D]")) if "T" not in text else text
    else:
        moment: Any = value
        if isinstance(value, datetime.datetime) and value.tzinfo is not None:
            moment = value.astimezone(datetime.UTC)
        text = moment.isoformat()
    day, _, time = text.partition("T")
    if not time:
        return day
    clock, zone = re.fullmatch(r"([\d:.]+)(.*)", time).groups()  # type: ignore[union-attr]
    clock = clock.rstrip("0").rstrip(".") if "." in clock else clock
    if clock.count(":") == 1:
        clock += ":00"
    return day if clock == "00:00:00" and not zone else f"{day}T{clock}{zone}"


def _plain_number(text: str) -> str:
    """The name of the number that a text plainly says; "" where it says none.

    >>> _plain_number("2.50"), _plain_number("007"), _plain_number("a")
    ('2.5', '', '')
    """
    plain = len(text) <= MOST_DIGITS and PLAIN_NUMBER.fullmatch(text)
    return _number_name(decimal.Decimal(text)) if plain else ""


def _plain_truth(text: str) -> str:
    return {"true": "True", "false": "False", "1": "True", "0": "False"}.get(text.lower(), "")


def _plain_time(text: str) -> str:
    try:
        return _time_name(datetime.datetime.fromisoformat(text))
    except ValueError:
        return ""
