"""Sweeps: runs that differ in one setting, in one folder, on data that are read once; then all are
compared.

SWEEP/sweep.json the setting, the names of the runs, with which settings and data the sweep began
SWEEP/configs/NAME.toml the configuration of each run SWEEP/NAME/ a run folder each
SWEEP/comparison.* the table as text and CSV, and a figure, once all have ended
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vijax.app.answers.comparison import Comparison, compare
from vijax.app.answers.comparison_files import write_comparison
from vijax.app.folder.claim import claim_folder, hold_lock
from vijax.app.folder.run_end import read_whole_end
from vijax.app.folder.run_folder import (
    KEPT,
    Say,
    changed_facts,
    check_same_settings,
    data_facts,
    listed_changes,
    read_facts,
    read_json,
    read_run_config,
    write_json,
)
from vijax.app.plan.config import FOLDER_NAME, Config, ConfigError, load_config, model_key
from vijax.app.plan.plan import Plan
from vijax.app.runs.run import begin, prepare_config, read, resume
from vijax.app.settings.quoting import quote
from vijax.app.settings.typed_toml import DamagedError, flatten, toml_value, write_toml
from vijax.app.sources.listing import Data
from vijax.files import own_folder, write_text
from vijax.fitting import checkpoint
from vijax.fitting.status import Status

FILE = "sweep.json"
SETTINGS, DATA = "settings", "data"
"""The entries of the file with what the sweep began with."""
STOPPED = (Status.INTERRUPTED, Status.STOPPED)


class UnfinishedError(KeyboardInterrupt):
    """A sweep was stopped; the message says how to resume it."""


def is_sweep(folder: Path) -> bool:
    """True for the folder of a sweep."""
    return (folder / FILE).is_file()


def sweep(
    config: str | Path,
    overrides: Iterable[str],
    data: str | None,
    folder: Path | None,
    setting: str,
    say: Say,
) -> tuple[Path, Comparison]:
    """A run for each value of a setting, KEY=VALUE,VALUE,..., in a new folder (runs/NAME-sweep-1,
    -2, ... if `folder` is None); for the other arguments see `vijax fit`.

    Raises:
      UnfinishedError: the sweep was stopped.
    """
    overrides = list(overrides)
    key, values = _parse_setting(setting)
    key = model_key(config, overrides, key)
    configs = [
        prepare_config(load_config(config, [*overrides, f"{key}={value}"], data))
        for value in values
    ]
    values_read = [flatten(run_config)[key] for run_config in configs]
    _check(key, values_read)
    names = [_name(key, value) for value in values_read]
    with claim_folder(folder, f"{configs[0].name}-sweep") as folder:
        run_data = _read_data(configs[0], say)
        for name, run_config in zip(names, configs, strict=True):
            write_text(own_folder(folder / "configs") / f"{name}.toml", write_toml(run_config))
        settings = {name: flatten(_config(folder, name)) for name in names}
        beginning = {SETTINGS: settings, DATA: _facts(configs[0], run_data)}
        write_json(folder / FILE, {"setting": key, "runs": names, **beginning})
        say(f"Sweep folder: {folder}")
        return folder, _run_all(folder, names, run_data, say)


def resume_sweep(folder: Path, say: Say) -> Comparison:
    """Starts or resumes all runs of a sweep that have not ended.

    Raises:
      ConfigError: settings or data are not those the sweep began with. Nothing is changed then.
    """
    names = _names(folder)
    with hold_lock(folder):
        beginning = read_json(folder / FILE, "begin the sweep again")
        _check_same_settings(folder, names, beginning)
        config = _config(folder, names[0])
        data = _read_data(config, say)
        _check_same_data(folder, names, beginning, _facts(config, data))
        return _run_all(folder, names, data, say)


def _run_all(folder: Path, names: Sequence[str], data: Data, say: Say) -> Comparison:
    for number, name in enumerate(names, 1):
        label = f"{name} ({number} of {len(names)})"
        if _has_ended(folder / name, say):
            say(f"--- {label}: has ended")
            continue
        say(f"--- {label}")
        if _run(folder, name, data, say) in STOPPED:
            raise UnfinishedError(
                f"the sweep was stopped in {name}; go on with what is missing: vijax resume "
                f"{folder}"
            )
    comparison = compare([folder / name for name in names], say, data)
    write_comparison(folder, comparison)
    return comparison


def _run(folder: Path, name: str, data: Data, say: Say) -> Status:
    config = _config(folder, name)
    run = folder / name
    try:
        if (run / "config.toml").is_file():
            return resume(run, say, data).status
        return begin(config, run, say, data).status
    except KeyboardInterrupt as stopped:
        raise UnfinishedError(
            f"{stopped or 'stopped'}. All of the sweep: vijax resume {quote(folder)}"
        ) from None


def _has_ended(run: Path, say: Say) -> bool:
    """True if a run needs nothing more: its user has not stopped it, and its end is whole."""
    end = read_whole_end(run, say)
    if end is None:
        return False
    stopped = tuple(str(status).partition(":")[0] for status in STOPPED)
    return not end["status"].startswith(stopped)


def _config(folder: Path, name: str) -> Config:
    return load_config(folder / "configs" / f"{name}.toml")


def _read_data(config: Config, say: Say) -> Data:
    """The data, on which all runs can be compared."""
    with config.in_precision():
        data = read(config, say)
        if data.test is None:
            raise ConfigError(
                "--sweep: runs are compared on held-out data, and there are none; set "
                "data.held_out=0.1"
            )
        if not config.listing.has_score(Plan(config, data).algorithm.spec.model):
            raise ConfigError(
                f"--sweep: {config.listing.name} has no held-out score by which runs could be "
                "compared"
            )
    return data


# --- what the sweep began with --------------------------------------------------------------------
def _facts(config: Config, data: Data) -> dict[str, Any]:
    """The sizes and checksums of the data, the same for all runs of a sweep."""
    with config.in_precision():
        return data_facts(Plan(config, data))


def _check_same_settings(folder: Path, names: Sequence[str], beginning: Mapping[str, Any]) -> None:
    """Raises a `ConfigError` if a run has other settings than those with which the sweep, or the
    run itself, began."""
    noted = beginning.get(SETTINGS, {})  # sweeps before this was noted have none
    for name in names:
        settings = _json_settings(flatten(_config(folder, name)))
        earlier = noted.get(name, settings)
        pairs = {key: (earlier.get(key), settings.get(key)) for key in {**settings, **earlier}}
        differing = {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
        if differing:
            changes = listed_changes(differing)
            raise ConfigError(
                f"{folder / 'configs' / name}.toml: other settings than those the sweep began "
                f"with: {changes}. Put them back, or {_again(folder, names)}"
            )
        run = folder / name
        recorded = checkpoint.latest_config(run / "checkpoints")
        if recorded is not None and (run / "config.toml").is_file():
            check_same_settings(run, read_run_config(run), recorded)


def _check_same_data(
    folder: Path, names: Sequence[str], beginning: Mapping[str, Any], facts: Mapping[str, Any]
) -> None:
    """Raises a `ConfigError` if the data are others than those with which the sweep, or one of its
    runs, began."""
    beginnings = {"sweep": (folder, beginning.get(DATA, facts))}  # older sweeps have not noted them
    for run in (folder / name for name in names):
        if _has_begun(run):
            beginnings[f"run {run.name}"] = (run, read_facts(run))
    for title, (place, earlier) in beginnings.items():
        then = {key: value for key, value in earlier.items() if key != KEPT}
        changes = changed_facts(then, facts)
        if changes:
            raise ConfigError(
                f"{place}: the data are not those the {title} began with ({changes}); put them "
                f"back, or {_again(folder, names)}"
            )


def _has_begun(run: Path) -> bool:
    return (run / "config.toml").is_file()


def _json_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a file of JSON gives them back."""
    return json.loads(json.dumps(settings))


def _again(folder: Path, names: Sequence[str]) -> str:
    """The remedy: the same sweep in another folder."""
    key = str(read_json(folder / FILE, "begin the sweep again").get("setting"))
    swept = (flatten(_config(folder, name)).get(key) for name in names)
    texts = [toml_value(x).strip('"') for x in swept if x is not None]
    first = quote(folder / "configs" / f"{names[0]}.toml")
    setting = quote(f"{key}={','.join(texts)}")
    return f"start again in another folder: vijax fit {first} --sweep {setting} --out FOLDER"


# --- the setting ----------------------------------------------------------------------------------
def _parse_setting(setting: str) -> tuple[str, list[str]]:
    """The key and its values, which are separated by commas outside brackets."""
    key, equals, text = setting.partition("=")
    values = [value.strip() for value in re.split(r",(?![^\[]*\])", text)]
    if not equals or not key.strip() or len(values) < 2 or not all(values):
        raise ConfigError(
            f"--sweep {setting}: expected a setting and two values or more, as in --sweep "
            "model.num_topics=10,20,50"
        )
    return key.strip(), values


def _check(key: str, values: Sequence[Any]) -> None:
    if key == "name" or key.startswith("data."):
        raise ConfigError(
            f"--sweep {key}: runs of a sweep have the same data, so that they can be compared; "
            "use --set"
        )
    repeated = [value for i, value in enumerate(values) if value in values[:i]]
    if repeated:
        value = toml_value(repeated[0])
        raise ConfigError(f"--sweep {key}: expected different values, got {value} more than once")


def _name(key: str, value: Any) -> str:
    """The name of a run's folder.

    >>> _name("model.num_topics", 10), _name("algorithm.step_size.name", "constant"), _name("model.alpha", 0.05)
    ('num_topics-10', 'step_size.name-constant', 'alpha-0.05')
    """
    text = re.sub(r"[^\w.+-]+", "_", str(value)).strip("_")
    return f"{key.partition('.')[2] or key}-{text}"


def _names(folder: Path) -> list[str]:
    """The names of the runs of a sweep, checked to lead to no other folder."""
    any_run = quote(folder / "RUN")
    remedy = (
        f"begin the sweep again, or go on with each of its runs (vijax resume {any_run}) and then "
        f"compare them (vijax compare {any_run} {any_run})"
    )
    names = read_json(folder / FILE, remedy).get("runs")
    is_name = lambda name: isinstance(name, str) and FOLDER_NAME.test(name)
    if not isinstance(names, list) or not names or not all(map(is_name, names)):
        raise DamagedError(
            f"{folder / FILE}: damaged: expected a list of the names of runs", remedy
        )
    return names
