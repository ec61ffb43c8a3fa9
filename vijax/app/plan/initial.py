"""`vijax init`: a configuration to edit, with comments, after a look at the data."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vijax.app.catalogue.parts.density_algorithm import model_rows
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import (
    LISTINGS,
    ConfigError,
    absolute_path,
    check_model_name,
    load_config,
    name_of_data,
    schema,
)
from vijax.app.plan.look import (
    Look,
    look_at_documents,
    look_at_graph,
    look_at_ratings,
    look_at_table,
)
from vijax.app.plan.plan import Plan
from vijax.app.settings.quoting import quote
from vijax.app.settings.sections import DocumentData, GraphData, RatingData, TableData
from vijax.app.settings.toml_source import find_config, read_overrides, read_toml
from vijax.app.settings.typed_toml import settings, toml_value
from vijax.data.tables.table import naming_rows
from vijax.files import write_text
from vijax.terminal import printable

LOOKS = {
    DocumentData: look_at_documents,
    RatingData: look_at_ratings,
    TableData: look_at_table,
    GraphData: look_at_graph,
}
"""The function that looks at the data, by the class of [data]."""


def _find_look(section: type) -> Any:
    """The function for a class of [data], or for the class that it extends."""
    return next(LOOKS[kind] for kind in section.__mro__ if kind in LOOKS)


def write_initial(model: str, data: str, out: Path | None, overrides: Iterable[str] = ()) -> Path:
    """Writes a configuration of a model for some data (a file, folder or URL), and returns its
    path.

    Args:
      model: the name of a model, or of a configuration that comes with vijax.
      data: the data.
      out: the file to write; None names it after data and model.
      overrides: settings that the user knows already, as `key=value`.

    Raises:
      ConfigError: the file exists, or a fit would refuse the data.
    """
    path = out or Path(f"{name_of_data(data)}_{model}.toml")
    if path.exists():
        raise ConfigError(f"{path} exists: name another file with --out, or remove it")
    if path.suffix != ".toml":
        raise ConfigError(f"--out: expected a name that ends in .toml, got {path}")
    write_text(path, initial_text(model, data, overrides))
    try:
        _check(path)
    except ValueError as error:
        path.unlink()
        raise ConfigError(
            f"{data} does not suit {model}, and no configuration is written: {error}"
        ) from error
    return path


def _check(path: Path) -> None:
    """Raises ValueError if a fit would refuse the rows; documents have been read as by a fit."""
    config = load_config(path)
    listing = config.listing
    if issubclass(listing.source.section, DocumentData):
        return
    plan = Plan(config, load_data(config))
    check = plan.model.form.check
    if check is not None:
        train = plan.data.train
        with naming_rows(train):
            check(model_rows(plan.model, plan.arrange(train)))


def initial_text(model: str, data: str, overrides: Iterable[str] = ()) -> str:
    """The text of the configuration."""
    entries = read_toml(find_config(model))
    base = {key: entry.value for key, entry in entries.items() if not key.startswith("data.")}
    name = check_model_name(base.get("model.name", "lda"))
    base = {"model.name": name, **base}
    if name == "density":
        raise ConfigError(
            "vijax init: a density is a Python file of yours; begin with that of `vijax fit "
            "density`"
        )
    user_settings = {
        key: entry.value for key, entry in read_overrides(overrides, schema(name)).items()
    }
    for key, remedy in {
        "data.path": "name the data after --data",
        "model.name": "name the model in its place",
    }.items():
        if key in user_settings:
            raise ConfigError(
                f"--set {key}: {remedy}, as in vijax init {name} --data {quote(data)}"
            )
    config = load_config(find_config(model), overrides, data)
    look = _find_look(LISTINGS[name].source.section)(data, LISTINGS[name], config, user_settings)
    proposed = {"data.path": absolute_path(data)} | {
        key: value for key, value in base.items() if key not in look.without
    }
    return _text(name, data, proposed | look.settings | user_settings, look)


def _text(model: str, data: str, chosen: dict[str, Any], look: Look) -> str:
    schema_settings = settings(schema(model))
    lines = [
        _comment(
            f"{LISTINGS[model].title} of {Path(data).name or data}, begun by `vijax init {model}`."
        ),
        "#",
    ]
    lines += [_comment(fact) for fact in look.facts]
    lines += ["#", "# Every other setting and its default: vijax settings --model " + model]
    for table in ("", "data", "model", "algorithm", "fit", "page"):
        of_table = lambda key, table=table: key.partition(".")[0] == (table or key)
        keys = [key for key in schema_settings if key in chosen and of_table(key)]
        if table and keys:
            lines += ["", f"[{table}]"]
        for key in keys:
            lines.append(_comment(schema_settings[key].help))
            if key in look.why:
                lines.append(_comment(look.why[key]))
            lines.append(f"{key.removeprefix(table + '.')} = {toml_value(chosen[key])}")
    return "\n".join(lines) + "\n"


def _comment(text: str) -> str:
    r"""A comment of one line. Names from the data may hold line ends, after which TOML would read
    settings.

    >>> _comment("a\n[fit]\nseed = 1")
    '# a\\n[fit]\\nseed = 1'
    """
    on_one_line = text.replace("\n", "\\n").replace("\t", " ")
    return f"# {printable(on_one_line)}"
