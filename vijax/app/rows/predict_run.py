"""`vijax predict`: draws of data from a run folder, as means and intervals or one by one."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import jax

from vijax.app.kinds.listing import Listing
from vijax.app.rows.column_files import as_csv, check_ending
from vijax.app.rows.predicted import Draws, check_of_steps
from vijax.app.runs.loaded import Run, read
from vijax.app.runs.patience import announced
from vijax.app.runs.remarks import say_remarks
from vijax.app.runs.run_folder import Say, read_run_config
from vijax.app.settings.typed_toml import LARGEST, ConfigError


class Asked(NamedTuple):
    """The options of `vijax predict`: what is to be drawn."""

    data: str | None = None
    rows: int | None = None
    steps: int | None = None
    draws: int = 1000
    each: bool = False
    level: float = 0.95
    seed: int = 0


def predict_run(folder: Path, asked: Asked, out: Path | None, training: str | None, say: Say) -> str:
    """The output of `vijax predict`: the name of the file that it has written, or CSV.

    Raises:
      ConfigError: options that do not go together or are out of range; a model that draws no tables; a file that exists
        already, or has another ending.
      ValueError: data that cannot be read, or are unlike the run's.
    """
    if out is not None and check_ending(out) and out.exists():
        raise ConfigError(f"--out: {out} exists; name another file, or remove it")
    check(read_run_config(folder).listing, asked)
    run = read(folder, training)
    say_remarks(folder, say)
    with announced(say, "Drawing ... (the program is compiled first)"):
        draws = _drawn(run, asked)
    for note in draws.notes if asked.data is not None else ():
        say(f"Note: {note}")
    table = draws.each() if asked.each else draws.summary(asked.level)
    return as_csv(table.columns()).rstrip("\n") if out is None else str(table.write(out))


def check(listing: Listing, asked: Asked) -> None:
    """Raises a `ConfigError` on options for which nothing can be drawn."""
    if listing.drawing is None:
        raise ConfigError(
            f"vijax predict is for models of tables, which {listing.name} is not; in Python: "
            "vijax.load(RUN).predictive(key, n, like)"
        )
    for name, other in (("data", "rows"), ("rows", "steps")):
        if getattr(asked, name) is not None and getattr(asked, other) is not None:
            raise ConfigError(f"--{name} and --{other} do not go together; give one of them")
    for name, number, least in (("rows", asked.rows, 1), ("steps", asked.steps, 1), ("draws", asked.draws, 2)):
        if number is not None and number < least:
            raise ConfigError(f"--{name}: expected {least} or more, got {number}")
    if not 0 < asked.level < 1:
        raise ConfigError(f"--level: expected a probability between 0 and 1, got {asked.level:g}; such as 0.95")
    if not 0 <= asked.seed <= LARGEST:
        raise ConfigError(f"--seed: expected an integer from 0 to 2^63 - 1, got {asked.seed}")
    if asked.rows is not None and listing.drawing.of_target:
        raise ConfigError(
            f"--rows: {listing.name} draws its target given the other columns: name a table of those columns, --data"
        )
    if asked.steps is not None:
        check_of_steps(listing)


def _drawn(run: Run, asked: Asked) -> Draws:
    key = jax.random.key(asked.seed)
    if asked.steps is not None:
        return run.forecast(key, asked.draws, asked.steps, asked.data)
    if asked.rows is not None:
        of_steps = run.config.listing.drawing is not None and run.config.listing.drawing.of_steps
        return run.predictive(key, asked.draws, [asked.rows] if of_steps else asked.rows)
    return run.predictive(key, asked.draws, asked.data, groups="same")
