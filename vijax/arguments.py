"""Meaning, default and limit of a constructor's arguments, each said in one place and read from
there.

The meaning stands under `Args:` in the docstring. Default, choices (a `Literal`) and limit stand in
the signature:

    @check_arguments
    def lda(num_topics: Size, vocab_size: Size, alpha: Positives = 0.1) -> Model: ...

The decorator checks every call. `read_arguments(lda)` reads all of it back: settings of the command
line and checks of estimators are made from it."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import operator
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_origin

import jax
import numpy as np

from vijax.checks import require, require_numbers

Make = TypeVar("Make", bound=Callable)


@dataclasses.dataclass(frozen=True)
class Limit:
    """A condition that a value must satisfy."""

    test: Callable[[Any], Any]  # value, or an array of values -> which of them are allowed
    expected: str  # the words after "expected"

    def check(self, argument: str, value: Any) -> None:
        """Raises ValueError naming the argument where the value is not allowed; traced values pass.

        >>> POSITIVE.check("alpha", "0.1")
        Traceback (most recent call last):
        ...
        ValueError: alpha: expected a positive number, got the string '0.1'. Write the number without quotes.
        """
        require_numbers(argument, value, expected=self.expected)
        if not isinstance(value, jax.core.Tracer):
            require(self.test(value), argument, self.expected, value)


def integer(least: int = 1) -> Limit:
    """An integer of at least `least`."""
    return Limit(lambda x: _is_integer(x) and x >= least, f"an integer >= {least}")


def _is_integer(x: Any) -> bool:
    return isinstance(x, int | np.integer) and not isinstance(x, bool)


def _within(inside: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: inside(np.asarray(x)) & np.isfinite(np.asarray(x))


def minimum(low: float) -> Limit:
    """A finite number of at least `low`."""
    return Limit(_within(lambda x: x >= low), f"a number >= {low:g}")


def interval(text: str) -> Limit:
    """A number in an interval; a square bracket includes its end.

    >>> interval("(0, 1]").check("rho", 0.0)
    Traceback (most recent call last):
    ...
    ValueError: rho: expected a number above 0 and at most 1, got 0.0.
    """
    low, high = map(float, text[1:-1].split(","))
    above, first = (
        (operator.ge, "from {:g} to") if text[0] == "[" else (operator.gt, "above {:g} and")
    )
    below, last = (operator.le, "at most {:g}") if text[-1] == "]" else (operator.lt, "below {:g}")
    expected = f"a number {first.format(low)} {last.format(high)}"
    return Limit(
        lambda x: above(np.asarray(x), low) & below(np.asarray(x), high),
        expected.replace("to at most", "to"),
    )


POSITIVE = Limit(_within(lambda x: x > 0), "a positive number")
EVEN = Limit(lambda x: _is_integer(x) and x >= 2 and x % 2 == 0, "an even number >= 2")

Size = Annotated[int, integer()]
Count = Annotated[int, integer(0)]
Positive = Annotated[float, POSITIVE]
Positives = Annotated[Any, POSITIVE]
"""A number or an array of them."""
NotNegative = Annotated[float, minimum(0)]


# --- checking -------------------------------------------------------------------------------------
def check_arguments(make: Make) -> Make:
    """Decorates a function, or a class with a constructor: each call is checked against the limits
    and the choices of the signature. None passes where the signature allows it, and so does a
    function.

    >>> @check_arguments
    ... def grid(size: Size, form: Literal["open", "closed"] = "open"): ...
    >>> grid(2, "close")
    Traceback (most recent call last):
    ...
    ValueError: form: expected "open" or "closed", got 'close'. Did you mean "closed"?
    """
    if isinstance(make, type):
        make.__init__ = check_arguments(make.__init__)  # type: ignore[misc]
        return make

    @functools.wraps(make)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = _signature(make).bind(*args, **kwargs).arguments
        except TypeError:  # missing or unknown arguments: the function itself says so
            return make(*args, **kwargs)
        check_values(make, given)
        return make(*args, **kwargs)

    call.is_checked = True  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def check_values(make: Callable, values: Mapping[str, Any]) -> None:
    """Raises ValueError at the first of these values, by argument, outside its limit or choices."""
    known = read_arguments(make)
    for name, value in values.items():
        argument = known.get(name)
        if argument is None or callable(value) or (value is None and argument.may_be_none):
            continue
        if argument.limit is not None:
            argument.limit.check(name, value)
        elif argument.choices:
            _check_choice(name, value, argument)


def _check_choice(name: str, value: Any, argument: Argument) -> None:
    known, others = (
        argument.choices,
        [one for one in union_members(argument.hint) if get_origin(one) is not Literal],
    )
    if (isinstance(value, str | int) and value in known) or (others and not isinstance(value, str)):
        return
    function = ", or a function" if any(get_origin(one) is Callable for one in others) else ""
    close = (
        [SYNONYMS[str(value)]]
        if SYNONYMS.get(str(value)) in known
        else _close(str(value), [*map(str, known)])
    )
    remedy = f'Did you mean "{close[0]}"?' if close else ""
    require(False, name, choices_text(known) + function, repr(value), remedy)


SYNONYMS = {
    "normal": "gaussian",
    "student": "t",
    "student_t": "t",
    "logistic": "bernoulli",
    "multinomial": "categorical",
}
"""Names that others give to choices."""
_close = functools.partial(difflib.get_close_matches, n=1)


def choices_text(choices: tuple) -> str:
    """The choices in words.

    >>> choices_text(("open", "closed"))
    '"open" or "closed"'
    """
    quoted = [f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in choices]
    return " or ".join(quoted) if len(quoted) < 3 else f"one of {', '.join(quoted)}"


# --- reading --------------------------------------------------------------------------------------
class Argument(NamedTuple):
    """An argument of a constructor."""

    hint: Any  # its type
    default: Any  # its default; `inspect.Parameter.empty` where it has none
    meaning: str  # the first sentence of its entry under `Args:`; empty where it has none
    limit: Limit | None = None  # what its values must satisfy; None where nothing is said

    @property
    def choices(self) -> tuple:
        """Allowed values, those of a `Literal`."""
        return tuple(
            choice
            for one in union_members(self.hint)
            if get_origin(one) is Literal
            for choice in typing.get_args(one)
        )

    @property
    def may_be_none(self) -> bool:
        """True where None is allowed."""
        return self.default is None or type(None) in union_members(self.hint)


@functools.cache
def read_arguments(make: Callable) -> Mapping[str, Argument]:
    """The arguments of a function or class, by name, without `*args` and `**kwargs`.

    >>> def grid(size: Size = 3):
    ...     '''A grid.
    ...
    ...     Args:
    ...       size: points of a side. More are finer.
    ...     '''
    >>> read_arguments(grid)["size"].default, read_arguments(grid)["size"].meaning
    (3, 'points of a side')
    """
    hints, plain = (typing.get_type_hints(make, include_extras=extras) for extras in (True, False))
    meanings = read_meanings(make)
    return {
        name: Argument(
            plain.get(name, Any), one.default, meanings.get(name, ""), _limit_of(hints.get(name))
        )
        for name, one in _signature(make).parameters.items()
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD) and name != "self"
    }


def _limit_of(hint: Any) -> Limit | None:
    said = [
        x
        for one in union_members(hint)
        for x in getattr(one, "__metadata__", ())
        if isinstance(x, Limit)
    ]
    return said[0] if said else None


def read_meanings(make: Callable) -> dict[str, str]:
    """The first sentence of every entry under `Args:` or `Attributes:`, without its full stop."""
    after = re.split(r"(?:^|\n)(?:Args|Attributes):\n", inspect.getdoc(make) or "", maxsplit=1)[1:]
    section = re.split(r"\n(?=\S)", after[0])[0] if after else ""
    found: dict[str, str] = {}
    for entry in re.split(r"\n  (?=\S)", "\n" + section)[1:]:
        names, _, text = entry.partition(": ")
        sentence = re.split(r"\.(?:\s+(?=[A-Z\"'`(\[])|\s*$)", " ".join(text.split()))[0]
        found |= {name.strip(" *"): sentence for name in names.split(",")}
    return found


@functools.cache
def _signature(make: Callable) -> inspect.Signature:
    return inspect.signature(make)


def union_members(hint: Any) -> tuple:
    """The types of a union; any other type alone.

    >>> union_members(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    union = get_origin(hint) in (typing.Union, types.UnionType)
    return (
        tuple(one for part in typing.get_args(hint) for one in union_members(part))
        if union
        else (hint,)
    )
