"""`PerVariable`, a choice for all globals, or for each by name."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Collection, Mapping
from typing import Any, Generic, TypeVar

from vijax.checks import require

T = TypeVar("T", covariant=True)


@dataclasses.dataclass(frozen=True)
class PerVariable(Generic[T]):
    """A choice for each global: `default` for all but the named ones. None is no choice."""

    default: T
    named: tuple[tuple[str, T], ...] = ()

    def choice(self, name: str) -> T:
        """The choice for a global."""
        return dict(self.named).get(name, self.default)

    def replace(self, name: str, choice: Any) -> PerVariable[T]:
        """These choices, with another choice for one global."""
        named = {**dict(self.named), name: choice}
        return PerVariable(self.default, tuple(sorted(named.items())))

    def choices(self) -> tuple[T, ...]:
        """All choices, the default first."""
        return (self.default, *(choice for _, choice in self.named))

    def __repr__(self) -> str:
        named = ", ".join(f"{name}: {choice!r}" for name, choice in self.named)
        return f"{self.default!r}, {named}" if named else repr(self.default)


def per_variable(
    argument: str, value: Any, default: Any, kind: type, module: str
) -> PerVariable[Any]:
    """A user's argument as a choice for each global.

    Args:
      argument: name of the argument in messages.
      value: None, one choice for all globals, or choices by name; a `PerVariable` passes.
      default: the choice for globals without one; None if it is made later.
      kind: the class of choices.
      module: the module that has them.

    Raises:
      ValueError: a choice is not of the class `kind`.

    >>> from vijax.inference.update import Update, kl, mirror
    >>> per_variable("update", {"rate": mirror()}, kl(), Update, "vijax.update")
    kl(), rate: mirror()
    """
    if isinstance(value, PerVariable):
        return value
    if isinstance(value, Mapping):
        for name, choice in value.items():
            _check_choice(f"{argument}[{name!r}]", choice, kind, module)
        return PerVariable(default, tuple(sorted(value.items())))
    if value is None:
        return PerVariable(default)
    _check_choice(argument, value, kind, module)
    return PerVariable(value)


def _check_choice(argument: str, choice: Any, kind: type, module: str) -> None:
    """Raises ValueError at a choice that is not of this class."""
    expected = f"one of {module}, or a dict of them by name"
    is_maker = inspect.isclass(choice) or inspect.isfunction(choice)
    remedy = "Call it: it makes the choice." if is_maker else ""
    require(isinstance(choice, kind), argument, expected, repr(choice), remedy)


def check_names(argument: str, choices: PerVariable, names: Collection[str]) -> None:
    """Raises ValueError at a choice for a name that no global has."""
    expected = f"names among the globals {sorted(names)}"
    for name, _ in choices.named:
        matches = difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean {matches[0]!r}?" if matches else ""
        require(name in names, argument, expected, repr(name), hint)
