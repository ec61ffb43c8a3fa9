"""What a model says of the run's own data, in its folder: doc_topics.csv, transformed.csv or nodes.csv."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vijax.app.kinds.listing import New, Seen
from vijax.app.rows.column_files import as_csv, check_ending
from vijax.app.rows.doc_topics import write_excerpts
from vijax.app.rows.transformed import Transformed, check_transforms, transformed
from vijax.app.runs.patience import Counter, announced
from vijax.app.runs.remarks import say_remarks
from vijax.app.runs.restored import again, at, restore
from vijax.app.runs.run_folder import Say, read_run_config
from vijax.app.settings.config import Config, ConfigError

MOST_ROWS = 100_000
"""Of more documents or rows the file is left out: it would be large, and take long."""
SAMPLE = 20_000
"""Documents, evenly spread, that the page of a run on more knows instead."""


def write_results(folder: Path, config: Config, seen: Seen, say: Say) -> None:
    """Writes the file at the end of a run, where the model has something to say of single rows. What goes wrong is
    said, and is no end of the run, which is saved."""
    listing = config.listing
    if listing.transform is None:
        return
    path, excerpts = results_path(folder, config), listing.source.excerpts
    number = sum(len(part) for part in seen.data if part is not None)
    many = number > MOST_ROWS
    if many:
        command = f"vijax transform {folder} --out {path.stem}.parquet"
        page = f" The page shows {SAMPLE:,} of them, evenly spread." if excerpts else ""
        say(f"Note: {path.name} is left out, for {number:,} {listing.unit}s are many; make it: {command}.{page}")
        if excerpts is None:
            return
        path = sample_path(folder, config)
    try:
        new = listing.source.new(config, seen.data, None, None)
        new = _spread(new, SAMPLE) if many else new
        _said(config, seen, new, say).write(path)
        if excerpts is not None and config.page.excerpts:
            write_excerpts(excerpts_path(folder), excerpts(new.data))
    except Exception as error:
        say(f"Warning: {path.name} could not be made ({error}); try: vijax transform {folder} --out {path.name}")


def said_of(config: Config, seen: Seen, source: object, column: str | None, say: Say) -> Transformed:
    """What the model says of a source, or of the run's own data; tells its notes, and how far it is."""
    new = config.listing.source.new(config, seen.data, source, column)
    if source is not None:
        for note in new.notes:
            say(f"Note: {note}")
    return _said(config, seen, new, say)


def _said(config: Config, seen: Seen, new: New, say: Say) -> Transformed:
    name = config.listing.source.results
    told = Counter(say, f"rows of {name}", len(new.data))
    with announced(say, f"Making {name} ... (the program is compiled first)"):
        return transformed(config.listing, seen, new, told)


def results_path(folder: Path, config: Config) -> Path:
    """Where the file is."""
    return folder / f"{config.listing.source.results}.csv"


def sample_path(folder: Path, config: Config) -> Path:
    """Where the file is of some of the documents, where all were too many."""
    return folder / f"{config.listing.source.results}_sample.csv"


def _spread(new: New, size: int) -> New:
    """So many of the documents, evenly spread."""
    rows = np.unique(np.linspace(0, len(new.data) - 1, min(size, len(new.data))).astype(int))
    beside = {name: [values[i] for i in rows] for name, values in new.beside.items()}
    return new._replace(data=new.data[rows], beside=beside)


def excerpts_path(folder: Path) -> Path:
    """Where it is kept how documents begin."""
    return folder / "excerpts.json"


def forget_results(folder: Path, config: Config) -> None:
    """Removes them: the run goes on, and what they say holds no more."""
    for path in (results_path(folder, config), sample_path(folder, config), excerpts_path(folder)):
        path.unlink(missing_ok=True)


def transform_run(
    folder: Path, source: str | None, out: Path | None, column: str | None, training: str | None, say: Say
) -> str:
    """What `vijax transform` prints: the name of the file that it has written, or CSV.

    Raises:
      ConfigError: the model says nothing of single rows; a file that is there already, or of another ending.
      ValueError: data that cannot be read, or are not such as the run's.
    """
    if out is not None and check_ending(out) and out.exists():
        raise ConfigError(f"--out: {out} exists; name another file, or remove it")
    config = read_run_config(folder)
    check_transforms(config.listing)
    with config.in_precision():
        data = again(folder, config, training) if source is None else None
        seen = restore(folder, config, data, training)
        say_remarks(folder, say)
        found = said_of(at(config, training if source is None else None), seen, source, column, say)
    return as_csv(found.columns()).rstrip("\n") if out is None else str(found.write(out))
