# ruff: noqa: RUF009  (setting() and section() are field specifiers: they return dataclasses.field)
"""What a run is made of: the sections of a configuration file, with their defaults, meanings and limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from vijax.toml_source import read_overrides, read_toml
from vijax.typed_toml import (
    FRACTION,
    POSITIVE,
    Check,
    ConfigError,
    Entry,
    at_least,
    between,
    build,
    flatten,
    section,
    setting,
    settings,
    write_toml,
)

__all__ = ["Config", "ConfigError", "differing_keys", "load_config", "read_config", "settings_text", "write_toml"]

Format = Literal["auto", "text-folder", "text-lines", "jsonl", "csv", "parquet", "npz", "matrix-market", "lda-c", "uci"]


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """[data]: the documents, and how text becomes words."""

    path: str = setting("docstrings", 'file, folder or URL; "docstrings" is the documentation of installed packages')
    format: Format = setting("auto", "how the data is stored; auto goes by the name and the first bytes")
    column: str | None = setting(None, "name of the column that holds the text (jsonl, csv, parquet)")
    vocabulary: str | None = setting(None, "file of words, one per line: names of word ids, or the words to keep")
    sha256: str | None = setting(None, "of the file at a URL; unset: that of the first download must stay")
    held_out: float = setting(0.1, "share of the documents kept out of training, for the score", between(0.0, 1.0))
    split_seed: int = setting(0, "seed of the split into training and held-out documents")
    encoding: str = setting("utf-8", "of text files")
    lowercase: bool = setting(True, "whether case is ignored")
    token_pattern: str = setting(r"(?u)[^\W\d_]{3,}", "regular expression of a word")
    stop_words: Literal["english", "none"] | tuple[str, ...] = setting(
        "english", 'words to drop: "english", "none", a list'
    )
    min_df: int | float | None = setting(
        None, "least documents a word is in: a number or a share; unset: 5", at_least(0)
    )
    max_df: int | float = setting(0.5, "most documents a word is in: a number or a share", POSITIVE)
    max_vocabulary: int = setting(10_000, "keep at most so many words, the most frequent", at_least(1))


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """[model]: the generative story."""

    name: Literal["lda"] = setting("lda", "latent Dirichlet allocation")
    num_topics: int = setting(50, "K, how many topics", at_least(1))
    alpha: float = setting(0.1, "prior concentration of a document's topics; small: few topics each", POSITIVE)
    eta: float = setting(0.1, "prior concentration of a topic's words; small: sharper topics", POSITIVE)
    learn: tuple[Literal["alpha", "eta"], ...] = setting((), "which of alpha and eta are learnt from the data")


@dataclasses.dataclass(frozen=True)
class EstepConfig:
    """[algorithm.estep]: how a document's topics are inferred."""

    name: Literal["gibbs", "cvb0", "mean_field"] = setting("cvb0", "the method")
    num_sweeps: int | None = setting(None, "gibbs: sweeps that are averaged", at_least(1))
    burn_in: int | None = setting(None, "gibbs: sweeps before those", at_least(0))
    max_iters: int | None = setting(None, "cvb0, mean_field: most iterations per document", at_least(1))
    tol: float | None = setting(None, "cvb0, mean_field: stop below this mean change of topic counts", POSITIVE)


@dataclasses.dataclass(frozen=True)
class StepSizeConfig:
    """[algorithm.step_size]: rho_t, the weight of step t's message."""

    name: Literal["default", "robbins_monro", "constant", "hold_then_decay"] = setting("default", "the schedule")
    scale: float | None = setting(None, "robbins_monro: s of s (t + tau)^-kappa", POSITIVE)
    offset: float | None = setting(None, "robbins_monro: tau; damps the first steps", at_least(1))
    kappa: float | None = setting(None, "robbins_monro, hold_then_decay: the power; 0.5 to 1", between(0.0, 1.0001))
    hold: int | None = setting(None, "hold_then_decay: steps at rho before the decay", at_least(0))
    rho: float | None = setting(None, "constant, hold_then_decay: the step size", FRACTION)


@dataclasses.dataclass(frozen=True)
class AlgorithmConfig:
    """[algorithm]: one row of the table of algorithms, by its name in the literature."""

    name: Literal["ssvi_a", "ssvi", "svi", "map", "em", "cavi"] = setting("ssvi_a", "the message to the topics")
    ramp: float | None = setting(None, "passes over the data until the full data size counts; 0: at once", at_least(0))
    damping: float | None = setting(
        None,
        "ssvi: weight of V, 0 (as ssvi_a) to 1 (undamped)",
        Check(lambda x: 0 <= x <= 1, "a number from 0 to 1"),
    )
    estep: EstepConfig = section(EstepConfig)
    step_size: StepSizeConfig = section(StepSizeConfig)


@dataclasses.dataclass(frozen=True)
class FitConfig:
    """[fit]: how long, how often, and from which seed."""

    num_epochs: int | float = setting(10, "passes over the training documents", POSITIVE)
    batch_size: int | None = setting(
        None, "documents per step; unset: 256, or all of them for em, map and cavi", at_least(1)
    )
    seed: int = setting(0, "seed of everything random: start, batches, draws", at_least(0))
    evaluate_every: int | None = setting(None, "steps between held-out scores; 0: only the last; unset: about six")
    checkpoint_every_s: float = setting(60.0, "seconds between checkpoints; 0: at every chance", at_least(0))
    progress_every_s: float = setting(5.0, "seconds between lines of progress (a terminal gets a bar)", at_least(0.1))


@dataclasses.dataclass(frozen=True)
class Config:
    """A run."""

    name: str = setting("lda", "names the run and its folder")
    data: DataConfig = section(DataConfig)
    model: ModelConfig = section(ModelConfig)
    algorithm: AlgorithmConfig = section(AlgorithmConfig)
    fit: FitConfig = section(FitConfig)

    def with_data(self, path: str, column: str | None = None) -> Config:
        """The same run on other documents, whose format is found out anew."""
        data = dataclasses.replace(self.data, path=path, column=column or self.data.column)
        if path != self.data.path:
            data = dataclasses.replace(data, vocabulary=None, sha256=None, format="auto")
        return dataclasses.replace(self, data=data)


FREE_ON_RESUME = frozenset(
    ["name", "fit.num_epochs", "fit.evaluate_every", "fit.checkpoint_every_s", "fit.progress_every_s"]
)
"""Keys that leave the steps already taken as they are, so that a run may go on under other values of them."""

TAKES: dict[str, dict[str, tuple[str, ...]]] = {
    "algorithm.estep": {
        "gibbs": ("num_sweeps", "burn_in"),
        "cvb0": ("max_iters", "tol"),
        "mean_field": ("max_iters", "tol"),
    },
    "algorithm.step_size": {
        "default": (),
        "robbins_monro": ("scale", "offset", "kappa"),
        "constant": ("rho",),
        "hold_then_decay": ("hold", "rho", "kappa"),
    },
}
"""Which settings each choice of a section's `name` reads."""


def load_config(path: str | Path, overrides: Iterable[str] = (), data: str | None = None) -> Config:
    """The configuration of a TOML file, `key=value` overrides and another `data.path` on top.

    Raises:
      ConfigError: an unknown key, a wrong type or value, or a setting the chosen method does not have.
    """
    entries = read_toml(path) | read_overrides(overrides, Config)
    if data is not None:
        entries["data.path"] = Entry(data, "--data")
    return read_config({"name": Entry(Path(path).stem, str(path))} | entries)


def read_config(entries: Mapping[str, Entry]) -> Config:
    """The configuration that entries describe, checked across its sections too."""
    config = build(Config, entries)
    values = flatten(config)
    for table, choices in TAKES.items():
        for key, entry in entries.items():
            _check_taken(key, entry, table, values[f"{table}.name"], choices)
    _check_docstrings(config, entries)
    if values["algorithm.damping"] is not None and config.algorithm.name != "ssvi":
        entry = entries["algorithm.damping"]
        raise ConfigError(f"{entry.origin}: algorithm.damping: only ssvi has V to damp, not {config.algorithm.name}")
    return config


def _check_docstrings(config: Config, entries: Mapping[str, Entry]) -> None:
    """The docstrings come with words of their own choice: settings of text do not apply, and must not seem to."""
    free = DataConfig(path="docstrings", held_out=config.data.held_out, split_seed=config.data.split_seed)
    if config.data.path != "docstrings" or config.data == free:
        return
    name = next(name for name, value in flatten(config.data).items() if value != getattr(free, name))
    entry = entries[f"data.{name}"]
    raise ConfigError(
        f'{entry.origin}: data.{name}: not for data.path = "docstrings", whose text is read in its own way'
    )


def _check_taken(key: str, entry: Entry, table: str, choice: str, choices: Mapping[str, tuple[str, ...]]) -> None:
    name = key.removeprefix(table + ".")
    if name in (key, "name") or name in choices[choice]:
        return
    takes = ", ".join(choices[choice]) or "no settings"
    having = " or ".join(other for other, names in choices.items() if name in names)
    raise ConfigError(
        f'{entry.origin}: {key}: {table}.name is "{choice}", which takes {takes}; {name} is a setting of {having}'
    )


def differing_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The keys, those free on resume apart, whose values differ between two flat configurations, with both values."""
    keys = [*old, *(key for key in new if key not in old)]
    pairs = {key: (_plain(old.get(key)), _plain(new.get(key))) for key in keys if key not in FREE_ON_RESUME}
    return {key: (a, b) for key, (a, b) in pairs.items() if a != b}


def _plain(value: Any) -> Any:
    """Tuples as lists: what JSON gives back."""
    return list(value) if isinstance(value, tuple) else value


def settings_text() -> str:
    """Every setting, with its default and meaning, as a TOML file ready to edit."""
    return write_toml(Config())


def setting_names() -> list[str]:
    """The dotted key of every setting."""
    return list(settings(Config))
