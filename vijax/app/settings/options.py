"""Sections of a configuration that are read from constructors: name, type, default, meaning and
limit of each argument.

`model_section` makes [model] from a model's constructor, and `build_from_section` the model from
it. `chooser` makes a section whose `name` chooses between constructors, and `make_option` what it
describes.
"""

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
    None if there is none, as for a function."""
    if argument.hint is Any:
        value_type = type(argument.default)
        if value_type in PLAIN:
            return value_type
        return None if argument.limit is None else float
    if Any in union_members(argument.hint) and argument.limit is not None:  # a number, or none
        return float | None
    members = tuple(filter(_is_plain, union_members(argument.hint)))
    if set(members) <= {types.NoneType}:
        return None
    return functools.reduce(operator.or_, members)


def _is_plain(hint: Any) -> bool:
    if typing.get_origin(hint) is tuple:
        return all(item is Ellipsis or _is_plain(item) for item in typing.get_args(hint))
    return hint in (*PLAIN, types.NoneType) or typing.get_origin(hint) is Literal


def argument_setting(
    make: Callable, name: str, default: Any = _MISSING, prefix: str = "", suffix: str = ""
) -> Any:
    """The field of a dataclass for an argument of a function, with another default if one is given,
    and words before and after its meaning."""
    argument = read_arguments(make)[name]
    return setting(
        argument.default if default is _MISSING else default,
        prefix + argument.meaning + suffix,
        argument.limit,
    )


def constructor_settings(make: Callable, without: Iterable[str] = ()) -> dict[str, Argument]:
    """The arguments of a constructor that can be settings, with types of TOML."""
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
    """The dataclass of a section: its settings and sections by name (`setting`, `argument_setting`,
    `section`), as a pair after their type if it is not the type of the default."""
    fields = [(name, *_typed_field(value)) for name, value in settings.items()]
    return dataclasses.make_dataclass("Section", fields, namespace={"__doc__": doc}, frozen=True)


# --- one constructor ------------------------------------------------------------------------------
class Maker(NamedTuple):
    """The constructor of a section's object, the arguments that the section gives, and the one (or
    "") that is the number of the data's words or columns."""

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
    listed: Iterable[str] = (),
    **more: Any,
) -> Any:
    """[model], a dataclass: the settings of a model's constructor.

    Args:
      make: the constructor.
      title: a few words on the model.
      name: as in `model.name`; by default the constructor's name.
      width: the argument that is the number of the data's words or columns.
      learn: hyperparameters that may be learnt from the data.
      without: other arguments that are not settings.
      listed: arguments that are a number, or a list of one for each part of the model.
      **more: defaults that differ from the constructor's, or that it lacks; and settings of the
        section's own: a `setting` or `section`, as a pair after its type if that is not the type of
        its default.
    """
    own_fields = {key: value for key, value in more.items() if _is_own(value)}
    arguments = constructor_settings(make, {width, *without, *own_fields})
    name = name or make.__name__
    fields: list[Any] = [("name", Literal[name], setting(name, title))]
    fields += [(key, *_typed_field(value)) for key, value in own_fields.items()]
    for key, argument in arguments.items():
        default = more.get(key, argument.default)
        if default is _MISSING:
            raise TypeError(f"{name}: {key} has no default: give one, as in {key}=1")
        hint: Any = argument.hint
        if key in listed:
            hint = float | tuple[float, ...]
        fields.append((key, hint, setting(default, argument.meaning, argument.limit)))
    if learn:
        meaning = (
            f"hyperparameters that are learnt from the data, of {', '.join(map(toml_value, learn))}"
        )
        fields.append(("learn", tuple[Literal[learn], ...], setting((), meaning)))  # type: ignore[valid-type]
    doc = {
        "__doc__": "[model]: the generative story.",
        "MADE": Maker(make, tuple(arguments), width),
    }
    return dataclasses.make_dataclass("Settings", fields, namespace=doc, frozen=True)


def _is_own(value: Any) -> bool:
    return isinstance(value[-1] if isinstance(value, tuple) and value else value, dataclasses.Field)


def _typed_field(value: Any) -> tuple[Any, Any]:
    """Type and field of a setting or section."""
    if isinstance(value, tuple):
        return value
    is_section = value.default is dataclasses.MISSING
    return value.default_factory if is_section else type(value.default), value


def build_from_section(settings: Any, data: Any, **more: Any) -> Any:
    """The object that a section of `model_section` describes, for the words or columns of these
    data; `more` are arguments that are not settings."""
    make, _, width = settings.MADE
    sizes = {width: len(data.names)} if width else {}
    return make(**section_arguments(settings), **sizes, **more)


def section_arguments(settings: Any) -> dict[str, Any]:
    """The arguments that a section of `model_section` gives."""
    return {name: getattr(settings, name) for name in settings.MADE.takes}


# --- one of several constructors ------------------------------------------------------------------
class Option(NamedTuple):
    """A choice: its constructor, the settings that it reads, and the settings that it needs."""

    make: Callable[..., Any]
    takes: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Chooser:
    """A section whose `name` is one of `OPTIONS`; settings that the chosen option does not take
    must not be set."""

    OPTIONS: ClassVar[Mapping[str, Option]]


def chooser(
    doc: str, default: str, meaning: str, /, without: Iterable[str] = (), **options: Any
) -> Any:
    """A `Chooser` between constructors by name: each of their arguments is a setting that is unset
    by default.

    Args:
      doc: the section's docstring.
      default: the option if none is named.
      meaning: of `name`.
      without: arguments that are not settings.
      **options: the constructor by name; or a pair of it and its settings, as from
        `constructor_settings`.
    """
    pairs = {}
    for name, option in options.items():
        has_settings = isinstance(option, tuple)
        pairs[name] = option if has_settings else (option, constructor_settings(option, without))
    settings_by_name = {name: settings for name, (_, settings) in pairs.items()}
    fields: list[Any] = [("name", Literal[tuple(options)], setting(default, meaning))]
    for key in dict.fromkeys(key for settings in settings_by_name.values() for key in settings):
        takers = {
            name: settings[key] for name, settings in settings_by_name.items() if key in settings
        }
        hint = functools.reduce(operator.or_, [*(taker.hint for taker in takers.values()), None])
        given_limits = [taker.limit for taker in takers.values() if taker.limit is not None]
        limits = {limit.expected: limit for limit in given_limits}
        if len(limits) > 1:
            raise TypeError(
                f"{key}: options want {' and '.join(limits)}: give one of the arguments another "
                "name"
            )
        help_text = _meaning(takers, is_partial=len(takers) < len(options))
        fields.append((key, hint, setting(None, help_text, *limits.values())))
    choices = {}
    for name, (make, arguments) in pairs.items():
        needs = [key for key, argument in arguments.items() if argument.default is _MISSING]
        choices[name] = Option(make, tuple(arguments), tuple(needs))
    namespace = {"__doc__": doc, "OPTIONS": choices}
    return dataclasses.make_dataclass(
        "Choice", fields, bases=(Chooser,), namespace=namespace, frozen=True
    )


def _meaning(takers: Mapping[str, Argument], is_partial: bool) -> str:
    """The meaning of a setting for each option that takes it, and its default there."""
    groups: dict[str, list[str]] = {}
    for name, argument in takers.items():
        groups.setdefault(argument.meaning, []).append(name)
    texts = {
        meaning: meaning + unset({name: takers[name] for name in names})
        for meaning, names in groups.items()
    }
    if len(groups) == 1 and not is_partial:
        return next(iter(texts.values()))
    return ". ".join(f"{', '.join(groups[meaning])}: {text}" for meaning, text in texts.items())


def unset(takers: Mapping[str, Argument]) -> str:
    """Words for the defaults of an unset setting, for each of the options that take it."""
    names: dict[Any, list[str]] = {}
    for name, argument in takers.items():
        names.setdefault(argument.default, []).append(name)
    if _MISSING in names:
        return "; it must be set"
    if None in names:
        return ""
    values = {
        default: f"{default:g}" if isinstance(default, float) else toml_value(default)
        for default in names
    }
    if len(names) == 1:
        return f"; unset: {', '.join(values.values())}"
    texts = [f"{values[default]} ({', '.join(options)})" for default, options in names.items()]
    return f"; unset: {', '.join(texts)}"


def make_option(section: Any, *arguments: Any, **keywords: Any) -> Any:
    """The object made by the constructor that a section names, from these arguments and the
    settings that were set."""
    return section.OPTIONS[section.name].make(*arguments, **keywords, **option_settings(section))


def option_settings(section: Any) -> dict[str, Any]:
    """The settings of the chosen option that were set."""
    values = {name: getattr(section, name) for name in section.OPTIONS[section.name].takes}
    return {name: value for name, value in values.items() if value is not None}


def check_options(config: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on a setting that the choice of its section excludes, or lacks."""
    for table, section in _choosers(config, ""):
        for key, entry in entries.items():
            name = key.removeprefix(table + ".")
            if name not in (key, "name") and "." not in name:
                _check_takes(key, entry, table, section)
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


def _check_takes(key: str, entry: Entry, table: str, section: Any) -> None:
    name = key.rpartition(".")[2]
    options = section.OPTIONS
    if name in options[section.name].takes or getattr(section, name) is None:  # set to "none"
        return
    takes = ", ".join(options[section.name].takes) or "no settings"
    takers = " or ".join(other for other, option in options.items() if name in option.takes)
    raise ConfigError(
        f'{entry.origin}: {key}: {table}.name is "{section.name}", which takes {takes}; {name} is '
        f"a setting of {takers}"
    )
