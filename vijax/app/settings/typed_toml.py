"""TOML into nested dataclasses and back: every error names the key, its file and line, and the
remedy.

While it is read (`vijax.app.settings.toml_source`) a configuration is flat, `{"model.num_topics":
Entry(50, "lda.toml, line 4")}`. One dictionary update then merges a file, `--set` overrides and
defaults, and each value keeps its origin for an error.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from vijax.arguments import Limit

T = TypeVar("T")


class ConfigError(ValueError):
    """A configuration that cannot be used; the message names the key, its place, and a remedy."""


class DamagedError(ConfigError):
    """A file of a run that is lost or cannot be read; `fault` names the file and the reason, the
    message also the remedy."""

    def __init__(self, fault: str, remedy: str):
        super().__init__(f"{fault}; {remedy}")
        self.fault = fault


class Entry(NamedTuple):
    """A value and the place it was read from."""

    value: Any
    origin: str


def setting(default: Any, help: str, check: Limit | None = None) -> Any:
    """A dataclass field with its meaning, and the limit of its values."""
    return dataclasses.field(default=default, metadata={"help": help, "check": check})


def section(schema: type, help: str = "") -> Any:
    """A dataclass field that holds a table of settings."""
    return dataclasses.field(default_factory=schema, metadata={"help": help})


# --- the schema, flat -----------------------------------------------------------------------------
class Setting(NamedTuple):
    """One leaf of a schema."""

    type: Any
    default: Any
    help: str
    check: Limit | None


@functools.cache
def _hints(schema: Any) -> dict[str, Any]:
    return typing.get_type_hints(schema)


def settings(schema: type, prefix: str = "") -> dict[str, Setting]:
    """Every leaf of a tree of dataclasses by its dotted key, in the order of the file."""
    flat: dict[str, Setting] = {}
    hints = _hints(schema)
    for field in dataclasses.fields(schema):
        key, hint = prefix + field.name, hints[field.name]
        if dataclasses.is_dataclass(hint):
            flat |= settings(typing.cast(type, hint), key + ".")
        else:
            flat[key] = Setting(
                hint, field.default, field.metadata["help"], field.metadata["check"]
            )
    return flat


def build(schema: type[T], entries: Mapping[str, Entry]) -> T:
    """The dataclass that `entries` describe; settings that they leave out keep their defaults."""
    schema_settings = settings(schema)
    for key, entry in entries.items():
        if key not in schema_settings:
            raise ConfigError(_unknown_key(key, entry.origin, schema_settings))
    values = {key: _check_value(key, entry, schema_settings[key]) for key, entry in entries.items()}
    return _nest(schema, values)


def _nest(schema: type[T], values: Mapping[str, Any], prefix: str = "") -> T:
    hints = _hints(typing.cast(Any, schema))
    arguments: dict[str, Any] = {}
    for field in dataclasses.fields(schema):  # type: ignore[arg-type]
        key, hint = prefix + field.name, hints[field.name]
        if dataclasses.is_dataclass(hint):
            arguments[field.name] = _nest(typing.cast(type, hint), values, key + ".")
        elif key in values:
            arguments[field.name] = values[key]
    return schema(**arguments)


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """The values of a configuration by dotted key."""
    flat: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            flat |= flatten(value, prefix + field.name + ".")
        else:
            flat[prefix + field.name] = value
    return flat


# --- checking -------------------------------------------------------------------------------------
def _check_value(key: str, entry: Entry, setting: Setting) -> Any:
    try:
        value = _cast(entry.value, setting.type)
    except _WrongType as wrong:
        raise ConfigError(
            f"{entry.origin}: {key}: expected {_describe(setting.type)}, got "
            f"{toml_value(entry.value)}{wrong.hint}"
        ) from None
    for item in value if isinstance(value, tuple) else (value,):
        _check_storable(item, f"{entry.origin}: {key}")
    if setting.check is None or value is None:
        return value
    numbers = (value,)
    if isinstance(value, tuple) and float in typing.get_args(setting.type):
        numbers = value  # one or more of them
    if not all(map(setting.check.test, numbers)):
        expected = setting.check.expected
        raise ConfigError(
            f"{entry.origin}: {key}: expected {expected}, got {toml_value(entry.value)}"
        )
    return value


LARGEST = 2**63 - 1


def _check_storable(value: Any, where: str) -> None:
    """Raises a `ConfigError` on values that config.toml could not give back: numbers that are not
    finite or too large, text that is not Unicode."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{where}: expected a finite number, got {toml_value(value)}")
    if isinstance(value, int) and abs(value) > LARGEST:
        raise ConfigError(
            f"{where}: expected an integer from -2^63 + 1 to 2^63 - 1, got {toml_value(value)}"
        )
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise ConfigError(
            f"{where}: expected text in Unicode, got {toml_value(value)}; rename the file, if it "
            "is a file's name"
        )


def check_seed(seed: int) -> None:
    """Raises a `ConfigError` if the seed of a command is out of range."""
    if not 0 <= seed <= LARGEST:
        raise ConfigError(f"--seed: expected an integer from 0 to 2^63 - 1, got {seed}")


class _WrongType(Exception):
    def __init__(self, hint: str = ""):
        self.hint = hint


def _cast(value: Any, hint: Any) -> Any:
    """The value as the type `hint`, by lossless conversions only (int to float, list to tuple)."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _cast_union(value, arguments)
    if origin is Literal:
        return _cast_literal(value, arguments)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_cast(item, arguments[0]) for item in value)
    if hint is type(None) and (value is None or value == "none"):
        return None
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise _WrongType("; it is too large") from error
    if isinstance(hint, type) and type(value) is hint:
        return value
    raise _WrongType


def _cast_union(value: Any, hints: tuple) -> Any:
    nearest = ""
    for hint in hints:
        try:
            return _cast(value, hint)
        except _WrongType as wrong:
            nearest = nearest or wrong.hint
    raise _WrongType(nearest)


def _cast_literal(value: Any, choices: tuple) -> Any:
    if value in choices and type(value) in map(type, choices):
        return value
    close = difflib.get_close_matches(
        str(value), [str(choice) for choice in choices], n=1, cutoff=0.5
    )
    raise _WrongType(f"; did you mean {toml_value(close[0])}?" if close else "")


def _describe(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return ("one of " if len(arguments) > 1 else "") + ", ".join(map(toml_value, arguments))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_describe, arguments))
    if origin is tuple:
        return f"a list, each item {_describe(arguments[0])}"
    names = {
        int: "an integer",
        float: "a number",
        bool: "true or false",
        str: "text in quotes",
        type(None): '"none"',
    }
    return names.get(hint, str(hint))


def _unknown_key(key: str, origin: str, known: Mapping[str, Setting]) -> str:
    message = f"{origin}: unknown key {key!r}"
    settings_inside = [name for name in known if name.startswith(key + ".")]
    if settings_inside:
        return f"{message}: it is a section; write its settings, such as {settings_inside[0]}"
    same_name = [name for name in known if name.endswith("." + key)]
    if len(same_name) > 1:
        return f"{message}: it could be {' or '.join(same_name)}"
    nearest = _nearest(key, list(known))
    if nearest:
        return f"{message}; did you mean {nearest}?"
    return f"{message}; `vijax settings` lists those there are"


def _nearest(key: str, keys: list[str]) -> str | None:
    """The key closest to `key`, by its full name, or by its last name if the section is wrong."""
    full = difflib.get_close_matches(key, keys, n=1, cutoff=0.75)
    last = {name.rpartition(".")[2]: name for name in reversed(keys)}
    short = difflib.get_close_matches(key.rpartition(".")[2], list(last), n=1, cutoff=0.7)
    if full:
        return full[0]
    return last[short[0]] if short else None


# --- writing --------------------------------------------------------------------------------------
def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            return "nan"
        return "inf" if value > 0 else "-inf"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # JSON's strings and numbers are TOML's too, except that JSON does not escape DEL.
    text = json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")
    return text.encode(errors="backslashreplace").decode()


def write_toml(config: Any, comments: bool = True) -> str:
    """A configuration as TOML, each setting under its meaning; unset ones are comments."""
    schema_settings = settings(type(config))
    tables: dict[str, list[str]] = {}
    for key, value in flatten(config).items():
        table, _, name = key.rpartition(".")
        if table not in tables:
            tables[table] = [f"[{table}]"] if table else []
        if comments:
            tables[table].append(f"# {schema_settings[key].help}")
        line = f"# {name} = (unset)" if value is None else f"{name} = {toml_value(value)}"
        tables[table].append(line)
    return "\n\n".join("\n".join(lines) for lines in tables.values()) + "\n"
