"""Choices that are made once for all globals, or for each by name."""

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
    """`default` for all globals but those named. None stands where no choice was made."""

    default: T
    named: tuple[tuple[str, T], ...] = ()

    def choice(self, name: str) -> T:
        """The choice for a global."""
        return dict(self.named).get(name, self.default)

    def replace(self, name: str, choice: Any) -> PerVariable[T]:
        """These choices with another one for one global."""
        return PerVariable(self.default, tuple(sorted({**dict(self.named), name: choice}.items())))

    def choices(self) -> tuple[T, ...]:
        """Every choice that was made."""
        return (self.default, *(choice for _, choice in self.named))

    def __repr__(self) -> str:
        named = ", ".join(f"{name}: {choice!r}" for name, choice in self.named)
        return f"{self.default!r}, {named}" if named else repr(self.default)


def per_variable(
    argument: str, given: Any, default: Any, kind: type, module: str
) -> PerVariable[Any]:
    """The user's argument as a choice for each global: None, one choice for all, or choices by name
    are given; a `PerVariable` passes. `default` serves globals without a choice, and is None where
    it is made later. Raises ValueError on a choice that is not of the class `kind`, which `module`
    has.

    >>> from vijax.inference.update import Update, kl, mirror
    >>> per_variable("update", {"rate": mirror()}, kl(), Update, "vijax.update")
    kl(), rate: mirror()
    """
    if isinstance(given, PerVariable):
        return given
    if isinstance(given, Mapping):
        for name, choice in given.items():
            _check(f"{argument}[{name!r}]", choice, kind, module)
        return PerVariable(default, tuple(sorted(given.items())))
    if given is None:
        return PerVariable(default)
    _check(argument, given, kind, module)
    return PerVariable(given)


def _check(argument: str, choice: Any, kind: type, module: str) -> None:
    remedy = (
        "Call it: it makes the choice."
        if inspect.isclass(choice) or inspect.isfunction(choice)
        else ""
    )
    require(
        isinstance(choice, kind),
        argument,
        f"one of {module}, or a dict of them by name",
        repr(choice),
        remedy,
    )


def check_names(argument: str, chosen: PerVariable, names: Collection[str]) -> None:
    """Raises ValueError at a name that no global has."""
    for name, _ in chosen.named:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else ""
        require(
            name in names, argument, f"names among the globals {sorted(names)}", repr(name), hint
        )
