"""The folder of a run: what is in it, and the rules of entering.

RUN/config.toml     every setting, as resolved       RUN/summary.txt     what was found, to read (topics.txt of topics)
RUN/versions.json   what it ran on                   RUN/posterior.npz   q(beta), by variable and parameter
RUN/data.json       sizes and checksum of the data   RUN/result.json     status, score, what the page shows
RUN/vocabulary.txt  the words, by id (documents)     RUN/figures/        *.png
RUN/metrics.jsonl   a line a step, a line a score    RUN/report.html     all of it on one page
RUN/checkpoints/    the last three states
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

from vijax import checkpoint
from vijax.app.assemble import fingerprint
from vijax.app.config import Config, ConfigError, differing_keys, load_config, write_toml
from vijax.app.listing import Data
from vijax.app.typed_toml import flatten

Say = Callable[[str], None]


def read_run_config(folder: Path) -> Config:
    """The configuration of a run.

    Raises:
      ConfigError: `folder` is not a run folder.
    """
    if not (folder / "config.toml").is_file():
        raise ConfigError(f"{folder}: not a run folder (it has no config.toml); `vijax fit CONFIG.toml` makes one")
    return load_config(folder / "config.toml")


def new_folder(name: str) -> Path:
    """runs/NAME-n, with n one above those there are."""
    taken = [path.name.rpartition("-")[2] for path in Path("runs").glob(f"{name}-*")]
    return Path("runs") / f"{name}-{max((int(n) for n in taken if n.isdigit()), default=0) + 1}"


def write_beginning(folder: Path, config: Config, data: Data) -> None:
    """Makes the folder, with what is known before the first step."""
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    (folder / "config.toml").write_text(write_toml(config), encoding="utf-8")
    if config.listing.reads_documents:
        (folder / "vocabulary.txt").write_text("\n".join(data.names) + "\n", encoding="utf-8")
    write_json(folder / "versions.json", _versions())
    write_json(folder / "data.json", _data_facts(config, data))


def read_vocabulary(folder: Path) -> tuple[str, ...]:
    """The words of a run on documents, by id."""
    return tuple((folder / "vocabulary.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n"))


def _data_facts(config: Config, data: Data) -> dict[str, Any]:
    return {**config.listing.source.facts(data), "sha256": fingerprint(config, data)}


def _versions() -> dict[str, Any]:
    packages = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy", "scipy", "optax")}
    from vijax import __version__

    machine = {"platform": platform.platform(), "cpus": os.cpu_count(), "devices": [str(d) for d in jax.devices()]}
    return {"vijax": __version__, "python": platform.python_version(), **packages, **machine, "began": time.ctime()}


def check_same_data(folder: Path, config: Config, data: Data) -> None:
    """Raises a `ConfigError` if the data differ from those the run began with."""
    before, now = read_json(folder / "data.json"), _data_facts(config, data)
    if before != now:
        changed = ", ".join(
            f"{key}: {before.get(key)} then, {now[key]} now" for key in now if before.get(key) != now[key]
        )
        raise ConfigError(
            f"{folder}: the data are not those the run began with ({changed}); put them back, or start anew: vijax fit"
        )


def latest_checkpoint(folder: Path, config: Config, like: Any, say: Say) -> checkpoint.Checkpoint | None:
    """The newest whole checkpoint, of a state of the shapes of `like`; None if the run was killed before its first."""
    if not checkpoint.checkpoint_files(folder / "checkpoints"):
        return None
    found = checkpoint.latest(folder / "checkpoints", like, lambda message: say(f"Warning: {message}"))
    differing = differing_keys(found.config, flatten(config))
    if differing:
        listed = "; ".join(f"{key} was {old!r} and is {new!r}" for key, (old, new) in differing.items())
        raise ConfigError(
            f"{found.path}: written under other settings: {listed}. Put them back in {folder / 'config.toml'}, "
            "or start anew: vijax fit"
        )
    return found


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps a second process off the folder; the lock goes with this process, however that ends."""
    with (folder / ".lock").open("w") as file:
        try:
            import fcntl
        except ImportError:  # Windows: nobody keeps watch
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(f"{folder}: another process is at work on this run; wait for it to end") from error
        yield


def write_json(path: Path, value: Any) -> None:
    """Writes a file of JSON, wholly or not at all."""
    text = json.dumps(value, indent=1, ensure_ascii=False) + "\n"
    checkpoint.write_atomically(path, lambda file: file.write(text.encode()))


def read_json(path: Path) -> Any:
    """Reads one; a `ConfigError` says if it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: missing or damaged ({error}); is {path.parent} a run folder?") from error
