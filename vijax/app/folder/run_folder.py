"""The folder of a run: its files, and how it is begun and entered.

RUN/config.toml     every setting, as resolved       RUN/summary.txt     what was found, to read
RUN/versions.json   what it ran on                   RUN/posterior.npz   q(beta), by variable and parameter
RUN/data.json       sizes and checksums of the data  RUN/result.json     status, score, what the page shows
RUN/vocabulary.txt  the words, by id (documents)     RUN/figures/        *.png
RUN/columns.json    names, classes, scales (tables)  RUN/report.html     all of it on one page
RUN/metrics.jsonl   a line a step, a line a score    RUN/tables/         *.csv
RUN/checkpoints/    the last three states            RUN/.lock           held by the process at work
RUN/stage/          the stage of auto and dadvi from which a stopped fit goes on
RUN/mixture.json    the number of normals, where auto has kept a mixture
RUN/pages.json      the names of the tables and figures that were written last
RUN/processes/      signs of life, while several processes are at work

A run that has ended also holds the results for each of its own documents, rows or nodes, held-out
ones too: RUN/doc_topics.csv (with RUN/excerpts.json, their beginnings), RUN/transformed.csv or
RUN/nodes.csv, for up to 100,000. `vijax transform RUN --out FILE` writes the file for more, `vijax
transform RUN --data NEW --out FILE` for other data.

config.toml is written last, before the first step: a folder without it is no run yet, and `vijax
fit` may begin there."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from vijax.app.folder.earlier import noise_of_then, with_noise_of_then
from vijax.app.plan.config import Config, ConfigError, differing_keys, load_config, write_toml
from vijax.app.plan.plan import Plan
from vijax.app.settings.toml_source import NotTomlError
from vijax.app.settings.typed_toml import DamagedError, Entry, flatten, toml_value
from vijax.app.sources.listing import Data
from vijax.app.sources.topic_names import check_names
from vijax.files import own_folder, write_text
from vijax.fitting import checkpoint

Say = Callable[[str], None]
UNITS = "sha256_of_units"
"""The entry of data.json with a checksum of units and times."""
OF_DATA = "checksums of data.json"
"""The entry among a checkpoint's settings that says of which data the run is: no setting has blanks
in its name."""
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
    path, is_saved = (
        folder / "config.toml",
        bool(checkpoint.checkpoint_files(folder / "checkpoints")),
    )
    if is_saved and _is_lost(path):
        remedy = f"write it again, as the last checkpoint has it: vijax resume {folder}"
        raise DamagedError(f"{path}: missing or empty", remedy)
    if not path.is_file():
        raise ConfigError(
            f"{folder}: not a run folder: it has no config.toml. If a run was stopped while it "
            f"began, nothing of it was saved; begin it again: vijax fit CONFIG.toml --out {folder}"
        )
    try:
        return with_noise_of_then(folder, load_config(path))
    except NotTomlError as error:
        other = (
            f", or remove it, and have the last checkpoint's written: vijax resume {folder}"
            if is_saved
            else ""
        )
        raise ConfigError(f"{error}; correct it{other}") from error
    except ConfigError as error:
        raise ConfigError(f"{error}{other_version(folder)}") from error


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
    written = {
        key: value for key, value in settings.items() if value is not None and key != OF_DATA
    }
    lines = [f"{key} = {toml_value(value)}\n" for key, value in written.items()]
    write_text(path, "".join(lines))
    write_text(path, write_toml(load_config(path)))
    say(f"Warning: {path} was missing or empty; it is written again, as the last checkpoint has it")


def keep_names(folder: Path, names: tuple[str, ...]) -> None:
    """Adds names of topics to config.toml, in the place of earlier ones of the same topics."""
    path, config = folder / "config.toml", read_run_config(folder)
    if not hasattr(config.page, "names"):
        raise ConfigError(f"--name: a run of {config.listing.name}, which has no topics to name")
    new = {line.partition(":")[0].strip(): line for line in (*config.page.names, *names)}
    config = dataclasses.replace(
        config, page=dataclasses.replace(config.page, names=tuple(new.values()))
    )
    check_names(config, {"page.names": Entry(names, "--name")})
    write_text(path, write_toml(config))


def _is_lost(path: Path) -> bool:
    return not path.exists() or (path.is_file() and not path.read_bytes().strip())


def write_beginning(folder: Path, plan: Plan) -> None:
    """Writes the files that are known before the first step; config.toml last, with which the run
    exists."""
    own_folder(folder / "checkpoints")
    write_json(folder / "versions.json", _versions_now() | {"began": time.ctime()})
    write_kept(folder, plan)
    write_text(folder / "config.toml", write_toml(plan.config))


def write_kept(folder: Path, plan: Plan) -> None:
    """Writes what a run keeps of its data, and data.json with the checksums of these files."""
    source = plan.config.listing.source
    source.keep(folder, plan.data)
    sums = {
        name: checksum(folder / name) for name in source.kept_files if (folder / name).is_file()
    }
    write_json(folder / "data.json", {**_data_facts(plan), KEPT: sums})


def read_kept(folder: Path, config: Config) -> Data | None:
    """Data that stand in for the run's, from the files that it has kept; None where its kind of
    data has none. A file that is not as the run wrote it is a `DamagedError`: one digit changed
    would be other predictions."""
    source = config.listing.source
    data = source.kept(folder)
    sums = read_facts(folder).get(KEPT, {})  # a run of an earlier version has none
    for name, before in sums.items() if isinstance(sums, dict) else ():
        path = folder / Path(name).name
        if not path.is_file() or checksum(path) != before:
            fault = (
                f"{path}: damaged: it is not as the run wrote it (its checksum in data.json is "
                "another)"
            )
            raise DamagedError(fault, f"write it again: vijax resume {folder}")
    return data


def checksum(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _data_facts(plan: Plan) -> dict[str, Any]:
    sums = {"sha256": plan.fingerprint, UNITS: plan.fingerprint_of_units}
    return {**plan.config.listing.source.facts(plan.data), **sums}


def check_same_data(folder: Path, plan: Plan) -> None:
    """Raises a `ConfigError` if the data differ from those the run began with."""
    before, now = read_facts(folder), _data_facts(plan)
    before.pop(KEPT, None)
    if UNITS not in before:  # a run of an earlier version
        now.pop(UNITS)
    if before != now:
        changed = ", ".join(
            f"{key}: {before.get(key)} then, {now[key]} now"
            for key in now
            if before.get(key) != now[key]
        )
        raise ConfigError(
            f"{folder}: the data are not those the run began with ({changed}); put them back, or "
            "start again: vijax fit"
        )


def latest_checkpoint(
    folder: Path, config: Config, like: Any, say: Say, name: str = "checkpoints"
) -> checkpoint.Checkpoint | None:
    """The newest whole checkpoint, of a state of the shapes of `like`; None if the run was killed
    before its first."""
    if not checkpoint.checkpoint_files(folder / name):
        return None

    def check(settings: Mapping[str, Any]) -> None:
        before = dict(settings)
        _check_same_facts(folder, before.pop(OF_DATA, None))
        differing = differing_keys({**before, **noise_of_then(folder, before)}, flatten(config))
        if differing:
            listed = "; ".join(
                f"{key} was {old!r} and is {new!r}" for key, (old, new) in differing.items()
            )
            raise ConfigError(
                f"{folder / name}: written under other settings: {listed}. Put them back in "
                f"{folder / 'config.toml'}, or start again: vijax fit"
            )

    return checkpoint.latest(folder / name, like, lambda message: say(f"Warning: {message}"), check)


def noted_settings(folder: Path, config: Config) -> dict[str, Any]:
    """The part of a run that a checkpoint keeps: its settings, and the checksums of its data."""
    return {**flatten(config), OF_DATA: _checksums_of_data(folder)}


def _checksums_of_data(folder: Path) -> dict[str, str]:
    facts = read_facts(folder)
    return {name: str(facts[name]) for name in ("sha256", UNITS) if name in facts}


def _check_same_facts(folder: Path, noted: Mapping[str, str] | None) -> None:
    """Raises a `DamagedError` where data.json is that of a run on other data than the checkpoint's;
    a checkpoint of an earlier version does not say."""
    if noted is None:
        return
    now = _checksums_of_data(folder)
    if any(now.get(name, value) != value for name, value in noted.items()):
        fault = (
            f"{folder / 'data.json'}: the file of another run: the checkpoints here are of other "
            "data"
        )
        raise DamagedError(
            fault,
            "put back data.json and what lies beside it, or begin again: vijax fit "
            f"{folder / 'config.toml'}",
        )


def read_facts(folder: Path) -> dict[str, Any]:
    """The contents of data.json: the data that a run began with."""
    path = folder / "data.json"
    found = read_json(path, no_facts(folder))
    if "sha256" not in found:
        raise DamagedError(f"{path}: damaged: it has no checksum of the data", no_facts(folder))
    return found


def no_facts(folder: Path) -> str:
    """The remedy where it is no longer known which data a run began with."""
    return (
        "which data the run began with is not known any more: fit it again, vijax fit "
        f"{folder / 'config.toml'}"
    )


def write_json(path: Path, value: Any) -> None:
    """Writes a file of JSON, wholly or not at all."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """The object in a file of JSON; `DamagedError` with the remedy where it cannot be read."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(f"{path}: missing or damaged ({error})", remedy) from error
    if not isinstance(found, dict):
        raise DamagedError(
            f"{path}: damaged: expected an object of JSON, got {type(found).__name__}", remedy
        )
    return found


# --- versions.json --------------------------------------------------------------------------------
PACKAGES = ("jax", "jaxlib", "numpy", "scipy", "optax")
COMPARED = ("vijax", "python", *PACKAGES, "compiled_esteps")


def note_versions(folder: Path, step: int) -> str:
    """Adds the versions with which a run goes on, where they have changed. The remark about it;
    empty without one."""
    now, known = _versions_now(), _known_versions(folder)
    if known is None:
        write_json(folder / "versions.json", now | {"resumed_at_step": step})
        return (
            f"{folder / 'versions.json'} was missing or damaged: what the run began on is not "
            "known any more"
        )
    later = known.get("later")
    before = (
        later[-1] if isinstance(later, list) and later and isinstance(later[-1], dict) else known
    )
    then = {name: before.get(name, now[name]) for name in COMPARED}
    changed = [
        f"{name} {then[name]} then, {now[name]} now" for name in COMPARED if then[name] != now[name]
    ]
    if not changed:
        return ""
    rest = later if isinstance(later, list) else []
    added = {"later": [*rest, now | {"resumed_at_step": step, "began": time.ctime()}]}
    write_json(folder / "versions.json", known | added)
    listed = "; ".join(changed)
    return (
        f"the run was last at work with other versions ({listed}): its numbers may differ in the "
        "last digits"
    )


def other_version(folder: Path) -> str:
    """The addition to an error where a run was made by another version of vijax; else empty."""
    made = made_by_another(folder)
    return f" The run {made}: use that version, or fit again." if made else ""


def made_by_another(folder: Path) -> str:
    """The words which say that a run was made by another version of vijax; else empty."""
    from vijax import __version__

    made = (_known_versions(folder) or {}).get("vijax")
    return (
        ""
        if made in (None, __version__)
        else f"was made by vijax {str(made)[:40]}, and this is {__version__}"
    )


def _versions_now() -> dict[str, Any]:
    from vijax import __version__
    from vijax.xla import native

    packages = {name: metadata.version(name) for name in PACKAGES}
    machine = {
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "devices": [str(d) for d in jax.devices()],
    }
    own = {"vijax": __version__, "python": platform.python_version()}
    return {**own, **packages, "compiled_esteps": native.is_installed(), **machine}


def _known_versions(folder: Path) -> dict[str, Any] | None:
    try:
        return read_json(folder / "versions.json", "")
    except DamagedError:
        return None
