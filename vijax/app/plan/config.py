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
from vijax.app.catalogue.parts.density_algorithm import check_at_once
from vijax.app.settings.options import check_options
from vijax.app.settings.sections import DocumentPage, FitConfig, TableData
from vijax.app.settings.suited_settings import check_suited_settings
from vijax.app.settings.toml_source import (
    USUAL,
    find,
    full_key,
    override_value,
    read_overrides,
    read_toml,
    shipped,
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
    lambda name: name.isprintable() and not set(name) & set("/\\:") and name[:1] not in ("", ".", " ")
    and len(name.encode()) <= LONGEST_NAME,
    f"a name that a folder may have: at most {LONGEST_NAME} bytes, no slash, backslash, colon or "
    "control character, no dot or space in front",
)  # fmt: skip
"""So that the folder is made inside runs/, and nowhere else."""


@dataclasses.dataclass(frozen=True)
class Config:
    """The settings of a run: its name, and its sections, of classes that the model's listing names.
    `schema(model)` is the subclass for a model."""

    name: str
    data: Any
    model: Any
    algorithm: Any
    fit: FitConfig
    page: Any

    def in_precision(self) -> contextlib.AbstractContextManager:
        """The context in which all work of the run is done: the precision that it asks for."""
        return enable_x64(self.fit.precision == "float64")

    @property
    def listing(self) -> Listing:
        """The entry of the model in the catalogue."""
        return LISTINGS[self.model.name]


@functools.cache
def schema(model: str) -> Any:
    """The class of the settings of a run of a model."""
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
"""Keys that leave the steps already taken as they are, so that a run may go on under other values
of them."""


def load_config(path: str | Path, overrides: Iterable[str] = (), data: str | None = None) -> Config:
    """The configuration of a TOML file, or of one that comes with vijax by its name, with
    `key=value` overrides and another `data.path` on top. Without a name of its own it has that of
    the other data, or else of the file. Columns that a configuration of vijax names belong to its
    own data, and are left out for other data."""
    path = find(path)
    entries, overrides = read_toml(path), list(overrides)
    model = _model_name(entries, overrides)
    said = read_overrides(overrides, schema(model))
    if data is not None:
        said["data.path"] = Entry(data, "--data")
    given = said.get("data.path")
    own = entries.get("data.path")
    if given and own and given.value != own.value and path in shipped().values():
        for key in ("data.columns", "data.standardise"):  # those of its own data
            entries.pop(key, None)
        if LISTINGS[model].in_time and not _has_group(entries, said, given.value):
            entries.pop("data.group")
            entries.setdefault("data.held_out", Entry(0.0, str(path)))
    entries |= said
    for key, value in UNSET.items():
        if key in entries and entries[key].value in value:
            entries.pop(key)
    other = name_of_data(given.value) if given is not None else ""
    stem = Path(path).stem
    name = other or (stem if FOLDER_NAME.test(stem) else name_of_data(path) or "run")
    return read_config({"name": Entry(name, str(path))} | _beside(path, entries))


UNSET = {"data.group": ("none", "")}
"""Words that say of a setting that it is unset."""


def _has_group(entries: Mapping[str, Entry], said: Mapping[str, Entry], source: Any) -> bool:
    """False where the configuration names a column of groups of its own data, and other data have
    none of this name."""
    if "data.group" not in entries or "data.group" in said or not isinstance(source, str):
        return True
    dialect = {key.removeprefix("data."): entry.value for key, entry in said.items()}
    names = names_of_columns(
        source, Dialect(**{key: dialect[key] for key in Dialect._fields if key in dialect})
    )
    return names is None or entries["data.group"].value in names


def _beside(path: str | Path, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """The entries with the path of a Python file relative to its configuration; one from --set
    stays as it is."""
    entry = entries.get("model.file")
    if entry is None or entry.origin.startswith("--") or not isinstance(entry.value, str):
        return dict(entries)
    return {**entries, "model.file": entry._replace(value=str(Path(path).parent / entry.value))}


def model_key(path: str | Path, overrides: Iterable[str], key: str) -> str:
    """A key with its sections, in full, for the model that a configuration names."""
    return full_key(key, schema(_model_name(read_toml(find(path)), overrides)))


def resolved(path: str) -> str:
    """A path that holds from any working directory, where there is such a file or folder; else as
    it is."""
    local = Path(path).expanduser()
    return str(local.resolve()) if local.exists() else path


def name_of_data(path: Any) -> str:
    """A name for a run on this data: the name of the file or folder without its ending, else the
    word after the colon.

    >>> name_of_data("../my texts/reviews.2024.csv"), name_of_data("https://x.org/a.csv?y=1"), name_of_data("/")
    ('reviews_2024', 'a', '')
    """
    last = re.split(r"[?#]", str(path).rstrip("/\\"))[0]
    return re.sub(r"\W+", "_", Path(re.split(r"[/\\:]", last)[-1]).stem).strip("_")[
        : LONGEST_NAME // 4
    ]


def _model_name(entries: Mapping[str, Entry], overrides: Iterable[str]) -> str:
    """The name of the model whose settings the entries are."""
    entry = entries.get("model.name", Entry(DEFAULT_MODEL, "the default"))
    for override in overrides:
        key, _, text = override.partition("=")
        if key.strip() == "model.name":
            entry = Entry(override_value(text.strip()), f"--set {override}")
    if isinstance(entry.value, str) and entry.value in LISTINGS:
        return entry.value
    close = difflib.get_close_matches(str(entry.value), LISTINGS, n=1, cutoff=0.5)
    hint = f'; did you mean "{close[0]}"?' if close else ""
    known = ", ".join(f'"{name}"' for name in LISTINGS)
    raise ConfigError(
        f"{entry.origin}: model.name: expected one of {known}, got {entry.value!r}{hint}"
    )


def read_config(entries: Mapping[str, Entry]) -> Config:
    """The configuration that entries describe; the sections are checked against each other."""
    model = _model_name(entries, ())
    _check_whose(entries, model)
    config = _with_scales(build(schema(model), entries))
    check_options(config, entries)
    config.listing.source.check(config, entries)
    check_suited_settings(config, entries)
    _check_algorithm(config.algorithm, entries)
    check_at_once(config, entries)
    return config


def _with_scales(config: Config) -> Config:
    """The configuration with what is to become of the scales of columns, where it leaves this to
    the model."""
    if not isinstance(config.data, TableData) or config.data.standardise is not None:
        return config
    manner = config.listing.manner(config.model)
    standardise: Any = {None: False, "each": True}.get(manner, manner)
    return dataclasses.replace(
        config, data=dataclasses.replace(config.data, standardise=standardise)
    )


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


def _check_whose(entries: Mapping[str, Entry], model: str) -> None:
    """Raises a `ConfigError` on a setting that only other models have, and names them."""
    own = settings(schema(model))
    for key, entry in entries.items():
        if key in own or any(name.startswith(key + ".") for name in own):
            continue
        having = [other for other in LISTINGS if key in settings(schema(other))]
        if having:
            models = ", ".join(having)
            raise ConfigError(
                f'{entry.origin}: {key}: not a setting of model.name = "{model}", but of {models}'
            )


def differing_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The keys, those free on resume apart, whose values differ between two flat configurations,
    with both values."""
    keys = [*old, *(key for key in new if key not in old)]
    pairs = {
        key: (_plain(old.get(key)), _plain(new.get(key)))
        for key in keys
        if key not in FREE_ON_RESUME
    }
    return {key: (a, b) for key, (a, b) in pairs.items() if a != b}


def _plain(value: Any) -> Any:
    """The value with tuples as lists, as JSON gives it back."""
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def settings_text(model: str | None = None) -> str:
    """Every setting of a model, with its default and meaning, as a TOML file ready to edit."""
    if model is not None:
        _model_name({"model.name": Entry(model, "--model")}, ())
        return write_toml(schema(model)())
    others = "".join(f"#   {name:24}{listing.title}\n" for name, listing in LISTINGS.items())
    head = (
        f"# The settings of {DEFAULT_MODEL}; `vijax settings --model NAME` prints those of "
        "another model:\n#\n"
    )
    return head + others + "\n" + write_toml(schema(DEFAULT_MODEL)())


def configs_text() -> str:
    """The configurations that come with vijax, a line each: name, model, algorithm, data to try it
    on."""
    known = {name: load_config(path) for name, path in shipped().items()}
    rows = [("NAME", "model", "algorithm", "tried on")]
    rows += [(name, c.listing.title, c.algorithm.name, c.data.path) for name, c in known.items()]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[3]])
        for row in rows
    ]
    also = ", ".join(f"{model} for {name}" for model, name in USUAL.items())
    return "\n".join(
        ["vijax fit NAME", "", *lines, "", f"The name of a model stands for one of them: {also}."]
    )


def model_of(name: Any) -> str:
    """The name of a model, checked to be one."""
    return _model_name({"model.name": Entry(name, "model")}, ())
