"""Sections of a configuration that choose something by name: each choice with its constructor and what it reads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from vijax.app.settings.typed_toml import ConfigError, Entry


class Option(NamedTuple):
    """A choice: what makes it, and the settings of its section that it reads."""

    make: Callable[..., Any]
    takes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Chooser:
    """A section whose `name` is one of `OPTIONS`; settings that the chosen one does not take must not be set."""

    OPTIONS: ClassVar[Mapping[str, Option]]


def chosen(section: Any, *arguments: Any, **named: Any) -> Any:
    """Calls the constructor that a section's `name` names with the arguments given and the settings that were set of
    those it takes."""
    return section.OPTIONS[section.name].make(*arguments, **named, **settings_taken(section))


def settings_taken(section: Any) -> dict[str, Any]:
    """The settings that were set, of those that the chosen option takes."""
    values = {name: getattr(section, name) for name in section.OPTIONS[section.name].takes}
    return {name: value for name, value in values.items() if value is not None}


def check_options(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` for a setting that the choice of its section does not take."""
    for table, section in _choosers(config, ""):
        for key, entry in entries.items():
            name = key.removeprefix(table + ".")
            if name not in (key, "name") and "." not in name:
                _check_taken(key, entry, table, section)


def _choosers(config: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Chooser):
            yield prefix + field.name, value
        if dataclasses.is_dataclass(value):
            yield from _choosers(value, f"{prefix}{field.name}.")


def _check_taken(key: str, entry: Entry, table: str, section: Any) -> None:
    name, options = key.rpartition(".")[2], section.OPTIONS
    if name in options[section.name].takes or getattr(section, name) is None:  # unset, in so many words
        return
    takes = ", ".join(options[section.name].takes) or "no settings"
    having = " or ".join(other for other, option in options.items() if name in option.takes)
    raise ConfigError(
        f'{entry.origin}: {key}: {table}.name is "{section.name}", which takes {takes}; {name} is a setting of {having}'
    )
