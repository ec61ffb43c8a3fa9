"""Sections of a configuration that are read from constructors: name, type, default, meaning and
limit of each argument.

`model_section` makes [model] of a model's constructor, and `built` the model of it. `chooser` makes
a section whose `name` chooses between constructors, and `chosen` what that section describes."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Literal, NamedTuple

from vijax.app.settings.typed_toml import ConfigError, Entry, setting, toml_value
from vijax.arguments import Argument, read_arguments, union_members

PLAIN = (bool, int, float, str)
_MISSING = inspect.Parameter.empty


def toml_type(argument: Argument) -> Any:
    """The part of an argument's type that TOML can hold: numbers, text, choices, and lists of them;
    None where there is none, as for a function."""
    if argument.hint is Any:
        known = type(argument.default)
        return known if known in PLAIN else None if argument.limit is None else float
    if Any in union_members(argument.hint) and argument.limit is not None:  # a number, or none
        return float | None
    members = tuple(filter(_is_plain, union_members(argument.hint)))
    return None if set(members) <= {types.NoneType} else functools.reduce(operator.or_, members)


def _is_plain(hint: Any) -> bool:
    if typing.get_origin(hint) is tuple:
        return all(one is Ellipsis or _is_plain(one) for one in typing.get_args(hint))
    return hint in (*PLAIN, types.NoneType) or typing.get_origin(hint) is Literal


def setting_of(
    make: Callable, name: str, default: Any = _MISSING, before: str = "", more: str = ""
) -> Any:
    """The field of a dataclass that is an argument of a function: with another default where one is
    given, and words before and after its meaning."""
    argument = read_arguments(make)[name]
    return setting(
        argument.default if default is _MISSING else default,
        before + argument.meaning + more,
        argument.limit,
    )


def settings_in(make: Callable, without: Iterable[str] = ()) -> dict[str, Argument]:
    """The arguments of a constructor that can be settings, their types those of TOML."""
    typed = {
        name: argument._replace(hint=toml_type(argument))
        for name, argument in read_arguments(make).items()
    }
    return {
        name: argument
        for name, argument in typed.items()
        if argument.hint is not None and name not in without
    }


def section_class(doc: str, **settings: Any) -> Any:
    """The dataclass of a section: its settings and sections by name (`setting`, `setting_of`,
    `section`), in a pair after their type where this is not the type of the default."""
    fields = [(name, *_own(value)) for name, value in settings.items()]
    return dataclasses.make_dataclass("Section", fields, namespace={"__doc__": doc}, frozen=True)


# --- one constructor ------------------------------------------------------------------------------
class Made(NamedTuple):
    """The constructor of a section's object, the arguments that the section gives, and the one that
    is the number of the data's words or columns, if there is one."""

    make: Callable[..., Any]
    takes: tuple[str, ...]
    width: str


def model_section(
    make: Callable[..., Any],
    title: str,
    *,
    name: str = "",
    width: str = "",
    learn: tuple[str, ...] = (),
    without: Iterable[str] = (),
    **more: Any,
) -> Any:
    """[model], a dataclass: the settings of a model's constructor.

    Args:
      make: the constructor.
      title: a few words on the model.
      name: as in `model.name`; that of the constructor by default.
      width: the argument that is the number of the data's words or columns.
      learn: hyperparameters that may be learnt from the data.
      without: other arguments that are no settings.
      **more: defaults that differ from those of the constructor, or that it lacks; and settings of
          the section's own:
        a `setting` or `section`, with its type before it where that is not the type of its default.
    """
    own = {key: value for key, value in more.items() if _is_own(value)}
    taken = settings_in(make, {width, *without, *own})
    name = name or make.__name__
    fields: list[Any] = [("name", Literal[name], setting(name, title))]
    fields += [(key, *_own(value)) for key, value in own.items()]
    for key, argument in taken.items():
        default = more.get(key, argument.default)
        if default is _MISSING:
            raise TypeError(f"{name}: {key} has no default: give one, as in {key}=1")
        fields.append((key, argument.hint, setting(default, argument.meaning, argument.limit)))
    if learn:
        meaning = (
            f"hyperparameters that are learnt from the data, of {', '.join(map(toml_value, learn))}"
        )
        fields.append(("learn", tuple[Literal[learn], ...], setting((), meaning)))  # type: ignore[valid-type]
    doc = {"__doc__": "[model]: the generative story.", "MADE": Made(make, tuple(taken), width)}
    return dataclasses.make_dataclass("Settings", fields, namespace=doc, frozen=True)


def _is_own(value: Any) -> bool:
    return isinstance(value[-1] if isinstance(value, tuple) and value else value, dataclasses.Field)


def _own(value: Any) -> tuple[Any, Any]:
    """Type and field of a setting or section."""
    if isinstance(value, tuple):
        return value
    is_section = value.default is dataclasses.MISSING
    return value.default_factory if is_section else type(value.default), value


def built(settings: Any, data: Any, **more: Any) -> Any:
    """The object that a section of `model_section` describes, for the words or columns of these
    data; `more` are arguments that are no settings."""
    make, _, width = settings.MADE
    return make(**given(settings), **({width: len(data.names)} if width else {}), **more)


def given(settings: Any) -> dict[str, Any]:
    """The arguments that a section of `model_section` gives."""
    return {name: getattr(settings, name) for name in settings.MADE.takes}


# --- one of several constructors ------------------------------------------------------------------
class Option(NamedTuple):
    """A choice: its constructor, the settings of its section that it reads, and those among them
    that it needs."""

    make: Callable[..., Any]
    takes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Chooser:
    """A section whose `name` is one of `OPTIONS`; settings that the chosen one does not take must
    not be set."""

    OPTIONS: ClassVar[Mapping[str, Option]]


def chooser(
    doc: str, default: str, meaning: str, /, without: Iterable[str] = (), **options: Any
) -> Any:
    """A `Chooser` between constructors by name: each of their arguments is a setting, which is left
    unset by default.

    Args:
      doc: the section's docstring.
      default: the option that is chosen if none is named.
      meaning: of `name`.
      without: arguments that are no settings.
      **options: the constructor by name; or a pair of it and the settings that it takes, as of
          `settings_in`.
    """
    pairs = {
        name: one if isinstance(one, tuple) else (one, settings_in(one, without))
        for name, one in options.items()
    }
    taken = {name: settings for name, (_, settings) in pairs.items()}
    fields: list[Any] = [("name", Literal[tuple(options)], setting(default, meaning))]
    for key in dict.fromkeys(key for settings in taken.values() for key in settings):
        having = {name: settings[key] for name, settings in taken.items() if key in settings}
        hint = functools.reduce(operator.or_, [*(one.hint for one in having.values()), None])
        limits = {one.limit.expected: one.limit for one in having.values() if one.limit is not None}
        if len(limits) > 1:
            raise TypeError(
                f"{key}: options want {' and '.join(limits)}: give one of the arguments another "
                "name"
            )
        meant = _meaning(having, named=len(having) < len(options))
        fields.append((key, hint, setting(None, meant, *limits.values())))
    found = {
        name: Option(
            make,
            tuple(taken[name]),
            tuple(k for k, a in taken[name].items() if a.default is _MISSING),
        )
        for name, (make, _) in pairs.items()
    }
    namespace = {"__doc__": doc, "OPTIONS": found}
    return dataclasses.make_dataclass(
        "Choice", fields, bases=(Chooser,), namespace=namespace, frozen=True
    )


def _meaning(having: Mapping[str, Argument], named: bool) -> str:
    """The meaning of a setting for each option that has it, and its default there."""
    groups: dict[str, list[str]] = {}
    for name, argument in having.items():
        groups.setdefault(argument.meaning, []).append(name)
    said = {
        meaning: meaning + unset({name: having[name] for name in names})
        for meaning, names in groups.items()
    }
    if len(groups) == 1 and not named:
        return next(iter(said.values()))
    return ". ".join(f"{', '.join(groups[meaning])}: {text}" for meaning, text in said.items())


def unset(having: Mapping[str, Argument]) -> str:
    """Words for the defaults of a setting that is not set, for each of the options that have it."""
    names: dict[Any, list[str]] = {}
    for name, argument in having.items():
        names.setdefault(argument.default, []).append(name)
    if _MISSING in names:
        return "; it must be set"
    if None in names:
        return ""
    values = {
        default: f"{default:g}" if isinstance(default, float) else toml_value(default)
        for default in names
    }
    each = [
        values[one] if len(names) == 1 else f"{values[one]} ({', '.join(of)})"
        for one, of in names.items()
    ]
    return f"; unset: {', '.join(each)}"


def chosen(section: Any, *arguments: Any, **named: Any) -> Any:
    """The object that the constructor named in a section makes, of the arguments given and the
    settings that were set among those it takes."""
    return section.OPTIONS[section.name].make(*arguments, **named, **settings_taken(section))


def settings_taken(section: Any) -> dict[str, Any]:
    """The settings that were set, of those that the chosen option takes."""
    values = {name: getattr(section, name) for name in section.OPTIONS[section.name].takes}
    return {name: value for name, value in values.items() if value is not None}


def check_options(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` for a setting that the choice of its section does not take, or cannot
    do without."""
    for table, section in _choosers(config, ""):
        for key, entry in entries.items():
            name = key.removeprefix(table + ".")
            if name not in (key, "name") and "." not in name:
                _check_taken(key, entry, table, section)
        for name in section.OPTIONS[section.name].needs:
            if getattr(section, name) is None:
                origin = entries[f"{table}.name"].origin
                raise ConfigError(
                    f'{origin}: {table}.name is "{section.name}", which needs {table}.{name} too'
                )


def _choosers(config: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Chooser):
            yield prefix + field.name, value
        if dataclasses.is_dataclass(value):
            yield from _choosers(value, f"{prefix}{field.name}.")


def _check_taken(key: str, entry: Entry, table: str, section: Any) -> None:
    name, options = key.rpartition(".")[2], section.OPTIONS
    if name in options[section.name].takes or getattr(section, name) is None:  # set to "none"
        return
    takes = ", ".join(options[section.name].takes) or "no settings"
    having = " or ".join(other for other, option in options.items() if name in option.takes)
    raise ConfigError(
        f'{entry.origin}: {key}: {table}.name is "{section.name}", which takes {takes}; {name} is '
        f"a setting of {having}"
    )
