"""The folder of a run: what is in it, and the rules of entering.

RUN/config.toml     every setting, as resolved       RUN/topics.txt      the topics, to read
RUN/versions.json   what it ran on                   RUN/posterior.npz   q(beta), by variable and parameter
RUN/data.json       sizes and checksum of the data   RUN/result.json     status, score, typical documents
RUN/vocabulary.txt  the words, by id                 RUN/figures/        *.png
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
from vijax.assemble import Data, fingerprint
from vijax.config import Config, ConfigError, differing_keys, load_config, write_toml
from vijax.typed_toml import flatten

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
    (folder / "vocabulary.txt").write_text("\n".join(data.vocabulary) + "\n", encoding="utf-8")
    write_json(folder / "versions.json", _versions())
    write_json(folder / "data.json", _data_facts(data))


def _data_facts(data: Data) -> dict[str, Any]:
    return {
        "documents": data.train.num_documents,
        "held_out": 0 if data.test is None else data.test.num_documents,
        "tokens": data.train.num_tokens,
        "vocabulary": len(data.vocabulary),
        "sha256": fingerprint(data),
    }


def _versions() -> dict[str, Any]:
    packages = {name: metadata.version(name) for name in ("jax", "jaxlib", "numpy", "scipy", "optax")}
    from vijax import __version__

    machine = {"platform": platform.platform(), "cpus": os.cpu_count(), "devices": [str(d) for d in jax.devices()]}
    return {"vijax": __version__, "python": platform.python_version(), **packages, **machine, "began": time.ctime()}


def check_same_data(folder: Path, data: Data) -> None:
    """Raises a `ConfigError` if the data differ from those the run began with."""
    before, now = read_json(folder / "data.json"), _data_facts(data)
    if before != now:
        changed = ", ".join(
            f"{key}: {before.get(key)} then, {now[key]} now" for key in now if before.get(key) != now[key]
        )
        raise ConfigError(
            f"{folder}: the data are not those the run began with ({changed}); put them back, or start anew: vijax fit"
        )


def latest_checkpoint(folder: Path, config: Config, algorithm: Any, say: Say) -> checkpoint.Checkpoint | None:
    """The newest whole checkpoint; None if the run was killed before its first."""
    if not checkpoint.checkpoint_files(folder / "checkpoints"):
        return None
    like = jax.eval_shape(algorithm.init, jax.random.key(0))
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
