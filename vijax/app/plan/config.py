"""The configuration of a run: the sections of a file, as the model that it names has them."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vijax.app.catalogue import LISTINGS
from vijax.app.catalogue.parts.density_algorithm import check_at_once_settings
from vijax.app.settings.options import check_options
from vijax.app.settings.sections import DatedData, DocumentPage, FitConfig, TableData
from vijax.app.settings.suited_settings import check_suited_settings
from vijax.app.settings.toml_source import (
    STAND_INS,
    find_config,
    full_key,
    override_value,
    read_overrides,
    read_toml,
    shipped_configs,
)
from vijax.app.settings.typed_toml import (
    ConfigError,
    Entry,
    build,
    section,
    setting,
    settings,
    write_toml,
)
from vijax.app.sources.listing import Listing
from vijax.arguments import Limit
from vijax.data.tables.formats import Dialect
from vijax.data.tables.table_files import names_of_columns
from vijax.files import local_path
from vijax.xla.precision import enable_x64

__all__ = [
    "Config",
    "ConfigError",
    "differing_keys",
    "load_config",
    "read_config",
    "settings_text",
    "write_toml",
]

DEFAULT_MODEL = "lda"

LONGEST_NAME = 100
FOLDER_NAME = Limit(
    lambda name: name.isprintable() and not set(name) & set("/\\:")
    and name[:1] not in ("", ".", " ") and len(name.encode()) <= LONGEST_NAME,
    f"a name that a folder may have: at most {LONGEST_NAME} bytes, no slash, backslash, colon or "
    "control character, no dot or space in front",
)  # fmt: skip
"""So that the folder is made inside runs/ and nowhere else."""


@dataclasses.dataclass(frozen=True)
class Config:
    """The settings of a run: its name and its sections, whose classes the model's listing names.
    `schema(model)` is the subclass for a model."""

    name: str
    data: Any
    model: Any
    algorithm: Any
    fit: FitConfig
    page: Any

    def in_precision(self) -> contextlib.AbstractContextManager:
        """The context for all work of the run: the precision that it asks for."""
        return enable_x64(self.fit.precision == "float64")

    @property
    def listing(self) -> Listing:
        """The entry of the model in the catalogue."""
        return LISTINGS[self.model.name]


@functools.cache
def schema(model: str) -> Any:
    """The class of the settings of a model's runs."""
    listing = LISTINGS[model]
    fields: list[Any] = [
        ("name", str, setting(model, "names the run and its folder", FOLDER_NAME)),
        ("data", listing.source.section, section(listing.source.section)),
        ("model", listing.settings, section(listing.settings)),
        ("algorithm", listing.algorithm, section(listing.algorithm)),
        ("fit", FitConfig, section(FitConfig)),
        ("page", listing.source.page, section(listing.source.page)),
    ]
    return dataclasses.make_dataclass("Config", fields, bases=(Config,), frozen=True)


FREE_ON_RESUME = frozenset(
    [
        "name",
        "fit.num_epochs",
        "fit.convergence",
        "fit.devices",
        "fit.evaluate_every",
        "fit.checkpoint_every_s",
        "fit.progress_every_s",
        *(f"page.{field.name}" for field in dataclasses.fields(DocumentPage)),
    ]
)
"""Keys that do not change the steps already taken: a resumed run may have other values."""


def load_config(path: str | Path, overrides: Iterable[str] = (), data: str | None = None) -> Config:
    """The configuration of a TOML file, or of one that comes with vijax by its name, with
    `key=value` overrides and another `data.path` on top.

    A configuration without a name is named after `data`, or after the file. Columns that a
    configuration of vijax names are left out for other data.
    """
    path = find_config(path)
    entries = read_toml(path)
    overrides = list(overrides)
    model = _model_name(entries, overrides)
    overriding = read_overrides(overrides, schema(model))
    if data is not None:
        overriding["data.path"] = Entry(data, "--data")
    other_data = overriding.get("data.path")
    own_data = entries.get("data.path")
    has_other_data = other_data and own_data and other_data.value != own_data.value
    if other_data and has_other_data and path in shipped_configs().values():
        for key in ("data.columns", "data.standardise"):  # those of its own data
            entries.pop(key, None)
        if issubclass(LISTINGS[model].source.section, DatedData):
            entries.pop("data.time", None)
        if LISTINGS[model].in_time and not _has_group(entries, overriding, other_data.value):
            entries.pop("data.group")
            entries.setdefault("data.held_out", Entry(0.0, str(path)))
    entries |= overriding
    for key, value in UNSET.items():
        if key in entries and entries[key].value in value:
            entries.pop(key)
    name = name_of_data(other_data.value) if other_data is not None else ""
    if not name and FOLDER_NAME.test(Path(path).stem):
        name = Path(path).stem
    if not name:
        name = name_of_data(path) or "run"
    return read_config({"name": Entry(name, str(path))} | _resolve_model_file(path, entries))


UNSET = {"data.group": ("none", "")}
"""Words that stand for an unset setting."""


def _has_group(entries: Mapping[str, Entry], overriding: Mapping[str, Entry], source: Any) -> bool:
    """False if the configuration names a column of groups that `source` does not have."""
    if "data.group" not in entries or "data.group" in overriding or not isinstance(source, str):
        return True
    values = {key.removeprefix("data."): entry.value for key, entry in overriding.items()}
    dialect = Dialect(**{key: values[key] for key in Dialect._fields if key in values})
    names = names_of_columns(source, dialect)
    return names is None or entries["data.group"].value in names


def _resolve_model_file(path: str | Path, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """The entries, with a Python file of the configuration relative to the configuration."""
    entry = entries.get("model.file")
    if entry is None or entry.origin.startswith("--") or not isinstance(entry.value, str):
        return dict(entries)
    return {**entries, "model.file": entry._replace(value=str(Path(path).parent / entry.value))}


def model_key(path: str | Path, overrides: Iterable[str], key: str) -> str:
    """A key with its sections, in full, for the model that a configuration names."""
    return full_key(key, schema(_model_name(read_toml(find_config(path)), overrides)))


def absolute_path(path: str) -> str:
    """The absolute path of an existing file or folder; other texts are unchanged."""
    local = local_path(path)
    return str(local.resolve()) if local.exists() else path


def name_of_data(path: Any) -> str:
    """A name for a run on this data: the name of the file or folder without its ending, else the
    word after the colon.

    >>> name_of_data("../my texts/reviews.2024.csv"), name_of_data("https://x.org/a.csv?y=1"), name_of_data("/")
    ('reviews_2024', 'a', '')
    """
    address = re.split(r"[?#]", str(path).rstrip("/\\"))[0]
    last = re.split(r"[/\\:]", address)[-1]
    name = re.sub(r"\W+", "_", Path(last).stem).strip("_")
    return name[: LONGEST_NAME // 4]


def _model_name(entries: Mapping[str, Entry], overrides: Iterable[str]) -> str:
    """The name of the model to which the entries belong."""
    entry = entries.get("model.name", Entry(DEFAULT_MODEL, "the default"))
    for override in overrides:
        key, _, text = override.partition("=")
        if key.strip() == "model.name":
            entry = Entry(override_value(text.strip()), f"--set {override}")
    if isinstance(entry.value, str) and entry.value in LISTINGS:
        return entry.value
    close = difflib.get_close_matches(str(entry.value), LISTINGS, n=1, cutoff=0.5)
    hint = f'; did you mean "{close[0]}"?' if close else ""
    names = ", ".join(f'"{name}"' for name in LISTINGS)
    raise ConfigError(
        f"{entry.origin}: model.name: expected one of {names}, got {entry.value!r}{hint}"
    )


def read_config(entries: Mapping[str, Entry]) -> Config:
    """The configuration that entries describe; the sections are checked against each other."""
    model = _model_name(entries, ())
    _check_model_has(entries, model)
    config = _with_scales(build(schema(model), entries))
    check_options(config, entries)
    config.listing.source.check(config, entries)
    check_suited_settings(config, entries)
    _check_algorithm(config.algorithm, entries)
    check_at_once_settings(config, entries)
    return config


def _with_scales(config: Config) -> Config:
    """The configuration, with `data.standardise` as the model wants it if it is unset."""
    if not isinstance(config.data, TableData) or config.data.standardise is not None:
        return config
    manner = config.listing.manner(config.model)
    standardise: Any = {None: False, "each": True}.get(manner, manner)
    data = dataclasses.replace(config.data, standardise=standardise)
    return dataclasses.replace(config, data=data)


def _check_algorithm(algorithm: Any, entries: Mapping[str, Entry]) -> None:
    """Raises a `ConfigError` on settings that the algorithm does not read."""
    if getattr(algorithm, "damping", None) is not None and algorithm.name != "ssvi":
        entry = entries["algorithm.damping"]
        raise ConfigError(
            f"{entry.origin}: algorithm.damping: only ssvi has V to damp, not {algorithm.name}"
        )
    if getattr(algorithm, "points", ()) and algorithm.name not in ("cavi", "svi"):
        entry = entries["algorithm.points"]
        raise ConfigError(
            f"{entry.origin}: algorithm.points: a setting of cavi and svi, not of {algorithm.name}"
        )
    if getattr(algorithm, "inner_steps", 1) > 1 and not algorithm.memory:
        entry = entries["algorithm.inner_steps"]
        raise ConfigError(
            f"{entry.origin}: algorithm.inner_steps: more than 1 needs algorithm.memory = true"
        )


def _check_model_has(entries: Mapping[str, Entry], model: str) -> None:
    """Raises a `ConfigError` on a setting that only other models have, and names them."""
    model_settings = settings(schema(model))
    for key, entry in entries.items():
        if key in model_settings or any(name.startswith(key + ".") for name in model_settings):
            continue
        owners = [other for other in LISTINGS if key in settings(schema(other))]
        if owners:
            models = ", ".join(owners)
            raise ConfigError(
                f'{entry.origin}: {key}: not a setting of model.name = "{model}", but of {models}'
            )


def differing_keys(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The keys whose values differ between two flat configurations, with both values; keys free on
    resume do not count."""
    keys = [*then, *(key for key in now if key not in then)]
    pairs = {
        key: (_plain(then.get(key)), _plain(now.get(key)))
        for key in keys
        if key not in FREE_ON_RESUME
    }
    return {key: (a, b) for key, (a, b) in pairs.items() if a != b}


def _plain(value: Any) -> Any:
    """The value with tuples as lists, as JSON gives it back."""
    if not isinstance(value, tuple | list):
        return value
    return [_plain(item) for item in value]


SECTIONS = ("data", "model", "algorithm", "fit", "page")
"""The sections of a configuration."""


def settings_text(model: str | None = None, section: str | None = None) -> str:
    """Every setting of a model, or of one section, with its default and meaning, as a TOML file
    ready to edit. `ConfigError` at an unknown model, or a section that it does not have."""
    if section is not None:
        name = model or DEFAULT_MODEL
        parts = re.split(r"(?m)^(?=\[)", settings_text(name))
        parts = [part for part in parts if part.startswith((f"[{section}]", f"[{section}."))]
        if not parts:
            raise ConfigError(
                f"settings: expected a section of {name}, which has no [{section}], got "
                f"{section!r}; all of its settings: vijax settings {name}"
            )
        return "".join(parts)
    if model is not None:
        _model_name({"model.name": Entry(model, "--model")}, ())
        return write_toml(schema(model)())
    other_models = "".join(f"#   {name:24}{listing.title}\n" for name, listing in LISTINGS.items())
    head = (
        f"# The settings of {DEFAULT_MODEL}; `vijax settings --model NAME` prints those of "
        "another model:\n#\n"
    )
    return head + other_models + "\n" + write_toml(schema(DEFAULT_MODEL)())


def configs_text() -> str:
    """The configurations that come with vijax, one per line: name, model, algorithm, data."""
    configs = {name: load_config(path) for name, path in shipped_configs().items()}
    rows = [("NAME", "model", "algorithm", "tried on")]
    rows += [(name, c.listing.title, c.algorithm.name, c.data.path) for name, c in configs.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, row[3]]))
    stand_ins = ", ".join(f"{model} for {name}" for model, name in STAND_INS.items())
    note = f"The name of a model stands for one of them: {stand_ins}."
    return "\n".join(["vijax fit NAME", "", *lines, "", note])


def check_model_name(name: Any) -> str:
    """The name of a model; a `ConfigError` for other names."""
    return _model_name({"model.name": Entry(name, "model")}, ())
