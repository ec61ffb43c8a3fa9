"""The sources of settings: TOML files, including those of vijax, and `key=value` strings. Each
value keeps its place for errors."""

from __future__ import annotations

import difflib
import functools
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vijax.app.settings.quoting import quote
from vijax.app.settings.typed_toml import ConfigError, Entry, settings


class NotTomlError(ConfigError):
    """A file that is not TOML."""


def read_toml(path: str | Path) -> dict[str, Entry]:
    """The entries of a TOML file."""
    _check_is_config_file(Path(path))
    try:
        text = Path(path).read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: there is no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise NotTomlError(f"{path}: expected a TOML file in UTF-8, got {error}") from error
    except RecursionError as error:  # deeply nested lists
        raise _too_deep(path, text) from error
    except ValueError as error:  # also numbers of thousands of digits
        raise NotTomlError(f"{path}: not valid TOML: {error}") from error
    if not _is_shallow(tables):
        raise _too_deep(path, text)
    lines = _key_lines(text)
    return {key: Entry(value, _place(path, key, lines)) for key, value in _leaves(tables).items()}


def _check_is_config_file(path: Path) -> None:
    """Raises a `ConfigError` on data in the place of a configuration, and says where data go."""
    from vijax.data.read import ENDINGS

    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    if path.is_dir() or ending in {*ENDINGS, ".npy"}:
        kind = "a folder" if path.is_dir() else "data"
        data = f"--data {quote(path)}"
        raise ConfigError(
            f"{path} is {kind}, not a configuration. Name a model, and the data after --data: "
            f"vijax fit lda {data} (texts), vijax fit mixture {data} (numbers); or have a "
            f"configuration written: vijax init lda {data}. `vijax configs` lists the names there "
            "are"
        )


def read_overrides(overrides: Iterable[str], schema: type) -> dict[str, Entry]:
    """The entries of `key=value` strings; a key may drop its sections if no other key has the same
    last name.

    >>> import dataclasses
    >>> from vijax.app.settings.typed_toml import setting
    >>> @dataclasses.dataclass
    ... class Fit:
    ...     seed: int = setting(0, "")
    >>> read_overrides(["seed=3"], Fit)
    {'seed': Entry(value=3, origin='--set seed=3')}
    """
    entries = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals:
            raise ConfigError(
                f"--set {override}: expected key=value, as in --set model.num_topics=50"
            )
        entries[full_key(key.strip(), schema)] = Entry(
            override_value(text.strip()), f"--set {override}"
        )
    return entries


def override_value(text: str) -> Any:
    """A TOML value, or else the bare word, so that a shell needs no quotes within quotes."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text
    except RecursionError as error:
        raise ConfigError(f"--set {text[:40]}...: {TOO_DEEP}") from error
    if not _is_shallow(value):
        raise ConfigError(f"--set {text[:40]}...: {TOO_DEEP}")
    return value


def full_key(key: str, schema: type) -> str:
    """A key with its sections, if no other key of the schema has its last name; else unchanged."""
    matches = [
        full_name
        for full_name in settings(schema)
        if full_name == key or full_name.endswith("." + key)
    ]
    return matches[0] if len(matches) == 1 else key


DEEPEST = 20
TOO_DEEP = (
    f"expected names of at most {DEEPEST} parts and lists nested no deeper, got more; no setting "
    "needs them"
)


def _too_deep(path: str | Path, text: str) -> NotTomlError:
    deep_lines = (
        n
        for n, line in enumerate(text.splitlines(), 1)
        if max(line.count("."), line.count("[")) > DEEPEST
    )
    number = next(deep_lines, None)
    return NotTomlError(f"{path}{f', line {number}' if number else ''}: {TOO_DEEP}")


def _is_shallow(value: Any) -> bool:
    """True if no table or list is nested deeper than any setting: their readers recurse."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [item for value in level for item in _items(value)]
    return not level


def _items(value: Any) -> Iterable[Any]:
    """The values in a table or list; none in other values."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _leaves(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= _leaves(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _key_lines(text: str) -> dict[str, int]:
    """The line of each key (or table) of a TOML text; for messages, no full parser."""
    lines = {}
    table = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[\s*([^\[\]]+?)\s*\]", line):
            table = header[1].replace('"', "") + "."
            lines[table.removesuffix(".")] = number
        elif pair := re.match(r"\s*([\w\-.\"' ]+?)\s*=", line):
            lines.setdefault(table + re.sub(r"[\"' ]", "", pair[1]), number)
    return lines


def _place(path: str | Path, key: str, lines: Mapping[str, int]) -> str:
    while key not in lines and "." in key:
        key = key.rpartition(".")[0]
    if key in lines:
        return f"{path}, line {lines[key]}"
    return str(path)


# --- configurations that come with vijax ----------------------------------------------------------
STAND_INS: Mapping[str, str] = {
    "lda": "lda_docstrings",
    "plsa": "plsa_2",
    "mixture": "gmm_full",
    "dp_mixture": "dp_mixture_blei_jordan",
    "factor_analysis": "ppca",
    "ard_regression": "ard",
    "hierarchical_regression": "hierarchical_linear",
    "gp": "gp_classification",
}
"""The configuration that stands for a model, if none has its name."""


@functools.cache
def shipped_configs() -> dict[str, Path]:
    """The configurations that come with vijax, by name: in the package, or beside it in a clone."""
    package = Path(__file__).resolve().parents[2]
    folders = [
        folder for folder in (package / "configs", package.parent / "configs") if folder.is_dir()
    ]
    if not folders:
        raise ConfigError(
            f"{package / 'configs'}: the configurations of vijax are missing; install it again"
        )
    return {path.stem: path for path in sorted(folders[0].glob("*.toml"))}


def find_config(name_or_path: str | Path) -> Path:
    """The configuration that a user names: a file, or one that comes with vijax, by its own name or
    its model's.

    >>> find_config("lda").name
    'lda_docstrings.toml'
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    configs = shipped_configs()
    name = path.stem
    if path.suffix in ("", ".toml") and str(path.parent) in (".", "configs"):
        name = STAND_INS.get(name, name)
        if name in configs:
            return configs[name]
    if path.suffix not in ("", ".toml") or path.is_dir():
        return path  # its reader says what is wrong with it
    close = difflib.get_close_matches(path.stem, [*configs, *STAND_INS], n=1, cutoff=0.6)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise ConfigError(
        f"{name_or_path}: there is no such file, and no configuration of that name comes with "
        f"vijax{hint}. `vijax configs` lists those that do"
    )
