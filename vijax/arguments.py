"""Meaning, default and limit of a constructor's arguments, each written once and read from there.

The meaning stands under `Args:` in the docstring. Default, choices (a `Literal`) and limit stand in
the signature:

    @check_arguments
    def lda(num_topics: Size, vocab_size: Size, alpha: Positives = 0.1) -> Model: ...

The decorator checks every call. `read_arguments(lda)` reads all of them back: the settings of the
command line and the checks of estimators are made from these."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
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

    test: Callable[[Any], Any]  # value, or an array of values -> True for allowed ones
    expected: str  # the words after "expected" in the error

    def check(self, argument: str, value: Any) -> None:
        """Raises ValueError naming the argument if the value is not allowed; traced values pass.

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


def _and_finite(test: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: test(np.asarray(x)) & np.isfinite(np.asarray(x))


def minimum(low: float) -> Limit:
    """A finite number of at least `low`."""
    return Limit(_and_finite(lambda x: x >= low), f"a number >= {low:g}")


def interval(text: str) -> Limit:
    """A number in an interval; a square bracket includes its end.

    >>> interval("(0, 1]").check("rho", 0.0)
    Traceback (most recent call last):
    ...
    ValueError: rho: expected a number above 0 and at most 1, got 0.0.
    """
    low, high = map(float, text[1:-1].split(","))
    includes_low = text[0] == "["
    includes_high = text[-1] == "]"
    if includes_low:
        expected = f"a number from {low:g} to {'' if includes_high else 'below '}{high:g}"
    else:
        expected = f"a number above {low:g} and {'at most' if includes_high else 'below'} {high:g}"

    def is_inside(x: Any) -> Any:
        x = np.asarray(x)
        is_above = x >= low if includes_low else x > low
        is_below = x <= high if includes_high else x < high
        return is_above & is_below

    return Limit(is_inside, expected)


POSITIVE = Limit(_and_finite(lambda x: x > 0), "a positive number")
EVEN = Limit(lambda x: _is_integer(x) and x >= 2 and x % 2 == 0, "an even number >= 2")

Size = Annotated[int, integer()]
Count = Annotated[int, integer(0)]
Positive = Annotated[float, POSITIVE]
Positives = Annotated[Any, POSITIVE]
"""A number or an array of them."""
NotNegative = Annotated[float, minimum(0)]


# --- checking -------------------------------------------------------------------------------------
def check_arguments(make: Make) -> Make:
    """Decorates a function, or a class with a constructor, to check each call against the limits
    and the choices of the signature. None passes if the signature allows it, and so does a
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
            values = _signature(make).bind(*args, **kwargs).arguments
        except TypeError:  # missing or unknown arguments: the function itself says so
            return make(*args, **kwargs)
        check_values(make, values)
        return make(*args, **kwargs)

    call.is_checked = True  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def check_values(make: Callable, values: Mapping[str, Any]) -> None:
    """Raises ValueError at the first value, by argument, outside its limit or choices."""
    arguments = read_arguments(make)
    for name, value in values.items():
        argument = arguments.get(name)
        if argument is None or callable(value) or (value is None and argument.may_be_none):
            continue
        if argument.limit is not None:
            argument.limit.check(name, value)
        elif argument.choices:
            _check_choice(name, value, argument)


def _check_choice(name: str, value: Any, argument: Argument) -> None:
    choices = argument.choices
    if isinstance(value, str | int) and value in choices:
        return
    hints = [hint for hint in union_members(argument.hint) if get_origin(hint) is not Literal]
    if hints and not isinstance(value, str):
        return
    function = ", or a function" if any(get_origin(hint) is Callable for hint in hints) else ""
    guess = _guess(str(value), choices)
    remedy = f'Did you mean "{guess}"?' if guess else ""
    require(False, name, choices_text(choices) + function, repr(value), remedy)


def _guess(value: str, choices: tuple) -> str:
    """The choice that is meant by a value; empty if none is near."""
    if SYNONYMS.get(value) in choices:
        return SYNONYMS[value]
    matches = difflib.get_close_matches(value, [*map(str, choices)], n=1)
    return matches[0] if matches else ""


SYNONYMS = {
    "normal": "gaussian",
    "student": "t",
    "student_t": "t",
    "logistic": "bernoulli",
    "multinomial": "categorical",
}
"""Other names of choices."""


def choices_text(choices: tuple) -> str:
    """The choices as text.

    >>> choices_text(("open", "closed"))
    '"open" or "closed"'
    """
    quoted = [f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in choices]
    return " or ".join(quoted) if len(quoted) < 3 else f"one of {', '.join(quoted)}"


# --- reading --------------------------------------------------------------------------------------
class Argument(NamedTuple):
    """An argument of a constructor."""

    hint: Any  # its type
    default: Any  # its default; `inspect.Parameter.empty` without one
    meaning: str  # the first sentence of its entry under `Args:`; empty without one
    limit: Limit | None = None  # what its values must satisfy

    @property
    def choices(self) -> tuple:
        """The allowed values of a `Literal`."""
        choices: list[Any] = []
        for hint in union_members(self.hint):
            if get_origin(hint) is Literal:
                choices.extend(typing.get_args(hint))
        return tuple(choices)

    @property
    def may_be_none(self) -> bool:
        """True if None is allowed."""
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
    hints = typing.get_type_hints(make, include_extras=True)
    plain_hints = typing.get_type_hints(make)
    meanings = read_meanings(make)
    arguments = {}
    for name, parameter in _signature(make).parameters.items():
        is_variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if is_variadic or name == "self":
            continue
        arguments[name] = Argument(
            hint=plain_hints.get(name, Any),
            default=parameter.default,
            meaning=meanings.get(name, ""),
            limit=_read_limit(hints.get(name)),
        )
    return arguments


def _read_limit(hint: Any) -> Limit | None:
    """The first limit among the annotations of a type."""
    for member in union_members(hint):
        for annotation in getattr(member, "__metadata__", ()):
            if isinstance(annotation, Limit):
                return annotation
    return None


def read_meanings(make: Callable) -> dict[str, str]:
    """The first sentence of every entry under `Args:` or `Attributes:`, without its full stop."""
    _, *sections = re.split(
        r"(?:^|\n)(?:Args|Attributes):\n", inspect.getdoc(make) or "", maxsplit=1
    )
    section = re.split(r"\n(?=\S)", sections[0])[0] if sections else ""
    meanings: dict[str, str] = {}
    for entry in re.split(r"\n  (?=\S)", "\n" + section)[1:]:
        names, _, text = entry.partition(": ")
        sentence = re.split(r"\.(?:\s+(?=[A-Z\"'`(\[])|\s*$)", " ".join(text.split()))[0]
        meanings |= {name.strip(" *"): sentence for name in names.split(",")}
    return meanings


@functools.cache
def _signature(make: Callable) -> inspect.Signature:
    return inspect.signature(make)


def union_members(hint: Any) -> tuple:
    """The types of a union; any other type alone.

    >>> union_members(int | None)
    (<class 'int'>, <class 'NoneType'>)
    """
    if get_origin(hint) not in (typing.Union, types.UnionType):
        return (hint,)
    members: list[Any] = []
    for part in typing.get_args(hint):
        members.extend(union_members(part))
    return tuple(members)
