"""The folder of a run: its files, how it is started and entered.

RUN/config.toml     every setting, as resolved       RUN/summary.txt     what was found, to read
RUN/versions.json   what it ran on                   RUN/posterior.npz   q(beta), by variable and parameter
RUN/data.json       sizes and checksums of the data  RUN/result.json     status, score, what the page shows
RUN/vocabulary.txt  the words, by id (documents)     RUN/figures/        *.png
RUN/columns.json    names, classes, scales (tables)  RUN/report.html     all of it on one page
RUN/metrics.jsonl   a line a step, a line a score    RUN/tables/         *.csv
RUN/checkpoints/    the last three states            RUN/.lock           held by the process at work
RUN/stage/          the stage from which a stopped fit of auto or dadvi resumes
RUN/mixture.json    the number of normals, if auto has kept a mixture
RUN/pages.json      the names of the tables and figures that were written last
RUN/processes/      signs of life, while several processes are at work

A run that has ended also holds the results for each of its documents, rows or nodes, training and
held-out: RUN/doc_topics.csv (with RUN/excerpts.json, their beginnings), RUN/transformed.csv or
RUN/nodes.csv, for up to 100,000. `vijax transform RUN --out FILE` writes the file for more, `vijax
transform RUN --data NEW --out FILE` for other data.

config.toml is written last, before the first step: a folder without it is not yet a run, and `vijax
fit` may start there."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from vijax.app.plan.config import Config, ConfigError, differing_keys, load_config, write_toml
from vijax.app.plan.plan import Plan
from vijax.app.settings.quoting import quote
from vijax.app.settings.toml_source import NotTomlError
from vijax.app.settings.typed_toml import DamagedError, Entry, flatten, toml_value
from vijax.app.sources.listing import Data
from vijax.app.sources.topic_names import check_names
from vijax.files import own_folder, write_text
from vijax.fitting import checkpoint

Say = Callable[[str], None]
UNITS = "sha256_of_units"
"""The entry of data.json with a checksum of units and times."""
DATA_CHECKSUMS = "checksums of data.json"
"""The entry among a checkpoint's settings that identifies the data; no setting has such blanks."""
KEPT = "kept"
"""The entry of data.json with the checksum of each file that a run keeps of its data."""


def read_run_config(folder: Path) -> Config:
    """The configuration of a run."""
    if not folder.exists():
        raise ConfigError(
            f"{folder}: there is no such folder; name that of a run of vijax fit, such as "
            "runs/lda-1"
        )
    if (folder / "sweep.json").is_file():
        raise ConfigError(
            f"{folder}: the folder of a sweep; name one of the runs in it, which comparison.txt "
            "lists"
        )
    path = folder / "config.toml"
    is_saved = bool(checkpoint.checkpoint_files(folder / "checkpoints"))
    if is_saved and _is_lost(path):
        remedy = f"write it again, as the last checkpoint has it: vijax resume {quote(folder)}"
        raise DamagedError(f"{path}: missing or empty", remedy)
    if not path.is_file():
        raise ConfigError(
            f"{folder}: not a run folder: it has no config.toml. If a run was stopped while it "
            "began, nothing of it was saved; begin it again: vijax fit CONFIG.toml --out "
            f"{quote(folder)}"
        )
    try:
        return load_config(path)
    except NotTomlError as error:
        resume_hint = ""
        if is_saved:
            command = f"vijax resume {quote(folder)}"
            resume_hint = f", or remove it, and have the last checkpoint's written: {command}"
        raise ConfigError(f"{error}; correct it{resume_hint}") from error
    except ConfigError as error:
        raise ConfigError(f"{error}{version_hint(folder)}") from error


def mend_config(folder: Path, say: Say) -> None:
    """Writes a lost config.toml again, as the newest whole checkpoint has it."""
    path = folder / "config.toml"
    if not _is_lost(path) or not checkpoint.checkpoint_files(folder / "checkpoints"):
        return
    settings = checkpoint.latest_config(folder / "checkpoints")
    if settings is None:
        raise DamagedError(
            f"{path}: missing or empty, and no checkpoint can be read",
            "fit again in another folder",
        )
    settings = {key: value for key, value in settings.items() if key != DATA_CHECKSUMS}
    lines = [
        f"{key} = {toml_value(value)}\n" for key, value in settings.items() if value is not None
    ]
    write_text(path, "".join(lines))
    write_text(path, write_toml(load_config(path)))
    say(f"Warning: {path} was missing or empty; it is written again, as the last checkpoint has it")


def keep_names(folder: Path, names: tuple[str, ...]) -> None:
    """Adds names of topics to config.toml; they replace earlier names of the same topics."""
    config = with_names(read_run_config(folder), names)
    write_text(folder / "config.toml", write_toml(config))


def with_names(config: Config, names: Sequence[str]) -> Config:
    """The settings with names of topics as lines "7: film", which replace earlier names.

    Raises:
      ConfigError: a run without topics, or lines that name none.
    """
    if not hasattr(config.page, "names"):
        raise ConfigError(f"--name: a run of {config.listing.name}, which has no topics to name")
    names_by_topic = {line.partition(":")[0].strip(): line for line in (*config.page.names, *names)}
    page = dataclasses.replace(config.page, names=tuple(names_by_topic.values()))
    config = dataclasses.replace(config, page=page)
    check_names(config, {"page.names": Entry(names, "--name")})
    return config


def _is_lost(path: Path) -> bool:
    return not path.exists() or (path.is_file() and not path.read_bytes().strip())


def write_beginning(folder: Path, plan: Plan) -> None:
    """Writes the files known before the first step; config.toml last, which makes it a run."""
    own_folder(folder / "checkpoints")
    write_json(folder / "versions.json", _versions_now() | {"began": time.ctime()})
    write_data_files(folder, plan)
    write_text(folder / "config.toml", write_toml(plan.config))


def write_data_files(folder: Path, plan: Plan) -> None:
    """Writes what a run keeps of its data, and data.json with the checksums of these files."""
    source = plan.config.listing.source
    source.keep(folder, plan.data)
    sums = {
        name: checksum(folder / name) for name in source.kept_files if (folder / name).is_file()
    }
    write_json(folder / "data.json", {**data_facts(plan), KEPT: sums})


def read_data_files(folder: Path, config: Config) -> Data | None:
    """Data that stand in for the run's, from the files that it has kept; None if its kind of data
    keeps none.

    Raises:
      DamagedError: a file is not as the run wrote it; one changed digit would change predictions.
    """
    source = config.listing.source
    data = source.kept(folder)
    sums = read_facts(folder).get(KEPT)
    if not isinstance(sums, dict):
        fault = f"{folder / 'data.json'}: damaged: it has no checksums of the run's files"
        raise DamagedError(fault, facts_remedy(folder))
    for name, checksum_then in sums.items():
        path = folder / Path(name).name
        if not path.is_file() or checksum(path) != checksum_then:
            fault = (
                f"{path}: damaged: it is not as the run wrote it (its checksum in data.json is "
                "another)"
            )
            raise DamagedError(fault, f"write it again: vijax resume {quote(folder)}")
    return data


def checksum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def data_facts(plan: Plan) -> dict[str, Any]:
    """The sizes and the checksums of the data of a run, in types of JSON."""
    sums = {"sha256": plan.fingerprint, UNITS: plan.units_fingerprint}
    return {**plan.config.listing.source.facts(plan.data), **sums}


def check_same_data(folder: Path, plan: Plan) -> None:
    """Raises a `ConfigError` if the data differ from those with which the run began."""
    then = read_facts(folder)
    then.pop(KEPT, None)
    changed = changed_facts(then, data_facts(plan))
    if changed:
        raise ConfigError(
            f"{folder}: the data are not those the run began with ({changed}); put them back, or "
            f"{_again(folder)}"
        )


def changed_facts(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The facts of data that differ, in words; empty if none does. Of checksums the first twelve
    digits are told."""
    differing = [key for key in {**now, **then} if then.get(key) != now.get(key)]
    lengths = {"sha256": 12, UNITS: 12}
    read = lambda key, facts: str(facts.get(key))[: lengths.get(key)]
    return ", ".join(f"{key}: {read(key, then)} then, {read(key, now)} now" for key in differing)


def _again(folder: Path) -> str:
    """The remedy of a run whose data or settings are others now.

    >>> _again(Path("my runs"))
    "start again in another folder: vijax fit 'my runs/config.toml' --out FOLDER"
    """
    config = quote(folder / "config.toml")
    return f"start again in another folder: vijax fit {config} --out FOLDER"


def check_same_settings(folder: Path, config: Config, settings: Mapping[str, Any]) -> None:
    """Raises a `ConfigError` if settings that may not change differ from those that a checkpoint of
    the run has recorded."""
    then = {key: value for key, value in settings.items() if key != DATA_CHECKSUMS}
    differing = differing_keys(then, flatten(config))
    if differing:
        raise ConfigError(
            f"{folder / 'checkpoints'}: written under other settings: {listed_changes(differing)}. "
            f"Put them back in {folder / 'config.toml'}, or {_again(folder)}"
        )


def listed_changes(differing: Mapping[str, tuple[Any, Any]]) -> str:
    """Settings with the values that they had and have, in words."""
    changes = (f"{key} was {pair[0]!r} and is {pair[1]!r}" for key, pair in differing.items())
    return "; ".join(changes)


def latest_checkpoint(
    folder: Path, config: Config, like: Any, say: Say, name: str = "checkpoints"
) -> checkpoint.Checkpoint | None:
    """The newest whole checkpoint of a state shaped as `like`; None if none was written yet."""
    if not checkpoint.checkpoint_files(folder / name):
        return None

    def check(settings: Mapping[str, Any]) -> None:
        _check_same_facts(folder, settings.get(DATA_CHECKSUMS, {}))
        check_same_settings(folder, config, settings)

    return checkpoint.latest(folder / name, like, lambda message: say(f"Warning: {message}"), check)


def noted_settings(folder: Path, config: Config) -> dict[str, Any]:
    """Records of a checkpoint on its run: the settings, and the checksums of the data."""
    return {**flatten(config), DATA_CHECKSUMS: _checksums_of_data(folder)}


def _checksums_of_data(folder: Path) -> dict[str, str]:
    facts = read_facts(folder)
    return {name: str(facts[name]) for name in ("sha256", UNITS) if name in facts}


def _check_same_facts(folder: Path, noted: Mapping[str, str]) -> None:
    """Raises a `DamagedError` if data.json is of other data than the checkpoints."""
    sums = _checksums_of_data(folder)
    if any(sums.get(name, value) != value for name, value in noted.items()):
        fault = (
            f"{folder / 'data.json'}: the file of another run: the checkpoints here are of other "
            "data"
        )
        raise DamagedError(
            fault,
            f"put back data.json and what lies beside it, or {_again(folder)}",
        )


def read_facts(folder: Path) -> dict[str, Any]:
    """The contents of data.json: the data with which a run began."""
    path = folder / "data.json"
    facts = read_json(path, facts_remedy(folder))
    if "sha256" not in facts:
        raise DamagedError(f"{path}: damaged: it has no checksum of the data", facts_remedy(folder))
    return facts


def facts_remedy(folder: Path) -> str:
    """The remedy if it is no longer known with which data a run began."""
    return f"which data the run began with is not known any more: {_again(folder)}"


def write_json(path: Path, value: Any) -> None:
    """Writes a file of JSON, wholly or not at all."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The object in a file of JSON; `DamagedError` with the remedy if it cannot be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(f"{path}: missing or damaged ({error})", remedy) from error
    if not isinstance(value, dict):
        raise DamagedError(
            f"{path}: damaged: expected an object of JSON, got {type(value).__name__}", remedy
        )
    return value


# --- versions.json --------------------------------------------------------------------------------
PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "optax")
COMPARED = ("vijax", "python", *PACKAGES, "compiled_esteps")


def note_versions(folder: Path, step: int) -> str:
    """Records changed versions of the software on resume; returns a remark on them, or ""."""
    versions = _versions_now()
    record = _read_versions(folder)
    if record is None:
        write_json(folder / "versions.json", versions | {"resumed_at_step": step})
        return (
            f"{folder / 'versions.json'} was missing or damaged: what the run began on is not "
            "known any more"
        )
    later = record.get("later")
    earlier = later if isinstance(later, list) else []
    latest = earlier[-1] if earlier and isinstance(earlier[-1], dict) else record
    versions_then = {name: latest.get(name, versions[name]) for name in COMPARED}
    differing = [name for name in COMPARED if versions_then[name] != versions[name]]
    if not differing:
        return ""
    entry = {"later": [*earlier, versions | {"resumed_at_step": step, "began": time.ctime()}]}
    write_json(folder / "versions.json", record | entry)
    listed = "; ".join(
        f"{name} {versions_then[name]} then, {versions[name]} now" for name in differing
    )
    return (
        f"the run was last at work with other versions ({listed}): its numbers may differ in the "
        "last digits"
    )


def version_hint(folder: Path) -> str:
    """The addition to an error if another version of vijax made the run; else empty."""
    remark = version_remark(folder)
    if not remark:
        return ""
    return f" The run {remark}: use that version, or fit again."


EDIT_NOTE = "edit_note"
"""The key in versions.json of a remark on the fit that an edit began with."""


def edit_note(folder: Path) -> str:
    """The remark on the fit that an edit of topics began with; "" for other runs."""
    path = folder / "versions.json"
    if not path.is_file():
        return ""
    return str(read_json(path, "resume the run").get(EDIT_NOTE, ""))


def version_remark(folder: Path) -> str:
    """A text saying that another version of vijax made the run; else empty."""
    from vijax import __version__

    version = (_read_versions(folder) or {}).get("vijax")
    if version in (None, __version__):
        return ""
    return f"was made by vijax {str(version)[:40]}, and this is {__version__}"


def _versions_now() -> dict[str, Any]:
    from vijax import __version__
    from vijax.xla import native

    packages = {name: metadata.version(name) for name in PACKAGES}
    machine = {
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "devices": [str(d) for d in jax.devices()],
    }
    program = {"vijax": __version__, "python": platform.python_version()}
    return {**program, **packages, "compiled_esteps": native.is_installed(), **machine}


def _read_versions(folder: Path) -> dict[str, Any] | None:
    try:
        return read_json(folder / "versions.json", "")
    except DamagedError:
        return None
