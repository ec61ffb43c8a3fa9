"""The results of a run row by row: for its own data, in its folder (doc_topics.csv, transformed.csv
or nodes.csv); of `vijax transform`; and draws, of `vijax predict`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import jax

from vijax.app.drawing.views import spread_rows
from vijax.app.folder.loaded import Run, open_run
from vijax.app.folder.restored import reread_plan, restore, restore_run, with_data_path
from vijax.app.folder.run_end import say_remarks
from vijax.app.folder.run_folder import Say, keep_names, read_run_config
from vijax.app.plan.config import Config
from vijax.app.rows.predicted import Draws, check_has_forecasts
from vijax.app.rows.transformed import (
    Transformed,
    check_new_file,
    check_transforms,
    transform_parts,
    transform_rows,
    write_parts,
)
from vijax.app.settings.progress import Counter, announce_if_slow
from vijax.app.settings.typed_toml import ConfigError, check_seed
from vijax.app.sources.doc_topics import label_again, write_excerpts
from vijax.app.sources.documents import new_documents
from vijax.app.sources.listing import FittedRun, Listing, New
from vijax.app.sources.sampled import TableSample
from vijax.app.sources.sampled_documents import SampledDocuments
from vijax.app.sources.topic_names import topic_names

MOST_ROWS = 100_000
"""Most documents or rows in the file: a longer one would be large, and take long."""
SAMPLE = 20_000
"""Documents, evenly spread, that the page of a larger run knows instead."""
EXCERPTS = "excerpts.json"
"""The file of the beginnings of documents."""


def write_results(folder: Path, config: Config, run: FittedRun, say: Say) -> None:
    """Writes the file at the end of a run, where the model has results for single rows. An error is
    said, and does not end the run, which is saved."""
    listing = config.listing
    if listing.transform is None:
        return
    if isinstance(run.data.train, TableSample):
        one = f"vijax transform {folder} --data FILE.parquet --out {listing.source.results}.parquet"
        say(
            f"Note: {listing.source.results}.csv is left out, for the rows are read by parts; of "
            f"a file of them: {one}"
        )
        return
    (path, sample), excerpts = results_paths(folder, config), listing.source.excerpts
    is_sample = isinstance(run.data.train, SampledDocuments)
    number = sum(map(len, run.data.parts)) if not is_sample else _number_of(run)
    many = number > MOST_ROWS or is_sample
    if many:
        shown = min(SAMPLE, len(run.data.train)) if is_sample else SAMPLE
        command = f"vijax transform {folder} --out {path.stem}.parquet"
        called = listing.source.columns[0] if listing.of_documents else listing.unit
        page = f" The page shows {shown:,} of them, evenly spread." if excerpts else ""
        say(
            f"Note: {path.name} is left out, for {number:,} {called}s are many; make it: "
            f"{command}.{page}"
        )
        if excerpts is None:
            return
        path = sample
    try:
        source, train = listing.source, run.data.train
        new = (
            new_documents(source.columns, train)
            if is_sample
            else source.new(config, run.data, None, None)
        )
        if many:
            rows = spread_rows(len(new.data), SAMPLE)
            beside = {name: [values[i] for i in rows] for name, values in new.beside.items()}
            new = new._replace(data=new.data[rows], beside=beside)
        _said(config, run, new, say).write(path)
        if excerpts is not None and config.page.excerpts:
            write_excerpts(folder / EXCERPTS, excerpts(new.data))
    except Exception as error:
        say(
            f"Warning: {path.name} could not be made ({error}); try: vijax transform {folder} "
            f"--out {path.name}"
        )


def said_of(
    config: Config, run: FittedRun, source: object, column: str | None, say: Say
) -> Transformed:
    """The results for a source, or for the run's own data. Says its notes, and how many rows are
    done."""
    new = config.listing.source.new(config, run.data, source, column)
    if source is not None:
        for note in new.notes:
            say(f"Note: {note}")
    return _said(config, run, new, say)


def _said(config: Config, run: FittedRun, new: New, say: Say) -> Transformed:
    name = config.listing.source.results
    told = Counter(say, f"rows of {name}", len(new.data))
    with announce_if_slow(say, f"Making {name} ... (the program is compiled first)"):
        return transform_rows(config, run, new, told)


def _number_of(run: FittedRun) -> int:
    return run.data.whole.num_documents + (
        0 if run.data.test is None else run.data.test.num_documents
    )


def _written_by_parts(config: Config, run: FittedRun, out: Path, say: Say) -> Path:
    """Writes the results of all documents of a run that are read by parts, in the order of the
    files, held-out ones among them."""
    told = Counter(say, f"rows of {config.listing.source.results}", _number_of(run))
    write_parts(out, (part.columns() for part in transform_parts(config, run, told)))
    return out


def results_paths(folder: Path, config: Config) -> tuple[Path, Path]:
    """The paths of the file, and of that of some documents, where all were too many."""
    name = config.listing.source.results
    return folder / f"{name}.csv", folder / f"{name}_sample.csv"


def forget_results(folder: Path, config: Config) -> None:
    """Removes these files: the run goes on, and they hold no more."""
    for path in (*results_paths(folder, config), folder / EXCERPTS):
        path.unlink(missing_ok=True)


def rename_topics(folder: Path, names: tuple[str, ...]) -> None:
    """Gives topics the names of these lines, in the settings of a run and in its results for
    documents."""
    keep_names(folder, names)
    config = read_run_config(folder)
    for path in results_paths(folder, config):
        label_again(path, topic_names(config))


def transform_run(
    folder: Path,
    source: str | None,
    out: Path | None,
    column: str | None,
    training: str | None,
    say: Say,
) -> str:
    """The output of `vijax transform`: the name of the file that it has written, or CSV."""
    check_new_file(out)
    config = read_run_config(folder)
    check_transforms(config.listing)
    with config.in_precision():
        if source is None:
            run = restore(folder, reread_plan(folder, config, training))
        else:
            run = restore_run(folder, config, training)
        say_remarks(folder, say)
        if source is None and out is not None and isinstance(run.data.train, SampledDocuments):
            return str(_written_by_parts(config, run, out, say))
        found = said_of(
            with_data_path(config, training if source is None else None), run, source, column, say
        )
    return found.write_or_csv(out)


# --- `vijax predict` ------------------------------------------------------------------------------
class Asked(NamedTuple):
    """The options of `vijax predict`: what is to be drawn."""

    data: str | None = None
    rows: int | None = None
    steps: int | None = None
    draws: int = 1000
    each: bool = False
    level: float = 0.95
    seed: int = 0


def predict_run(
    folder: Path, asked: Asked, out: Path | None, training: str | None, say: Say
) -> str:
    """The output of `vijax predict`: the name of the file that it has written, or CSV."""
    check_new_file(out)
    check_asked(read_run_config(folder).listing, asked)
    run = open_run(folder, training)
    say_remarks(folder, say)
    with announce_if_slow(say, "Drawing ... (the program is compiled first)"):
        draws = _drawn(run, asked)
    for note in draws.notes if asked.data is not None else ():
        say(f"Note: {note}")
    return (draws.each() if asked.each else draws.summary(asked.level)).write_or_csv(out)


def check_asked(listing: Listing, asked: Asked) -> None:
    """Raises a `ConfigError` on options for which nothing can be drawn."""
    if listing.drawing is None:
        raise ConfigError(
            f"vijax predict draws tables, and {listing.name} has none to draw; what it says of "
            "each row or document of a file, with intervals where it has them, is written by vijax "
            "transform RUN --data FILE"
        )
    for name, other in (("data", "rows"), ("rows", "steps")):
        if getattr(asked, name) is not None and getattr(asked, other) is not None:
            raise ConfigError(f"--{name} and --{other} do not go together; give one of them")
    for name, number, least in (
        ("rows", asked.rows, 1),
        ("steps", asked.steps, 1),
        ("draws", asked.draws, 2),
    ):
        if number is not None and number < least:
            raise ConfigError(f"--{name}: expected {least} or more, got {number}")
    if not 0 < asked.level < 1:
        raise ConfigError(
            f"--level: expected a probability between 0 and 1, got {asked.level:g}; such as 0.95"
        )
    check_seed(asked.seed)
    if asked.rows is not None and listing.drawing.of_target:
        raise ConfigError(
            f"--rows: {listing.name} draws its target given the other columns: name a table of "
            "those columns, --data"
        )
    if asked.steps is not None:
        check_has_forecasts(listing)


def _drawn(run: Run, asked: Asked) -> Draws:
    key = jax.random.key(asked.seed)
    if asked.steps is not None:
        return run.forecast(key, asked.draws, asked.steps, asked.data)
    if asked.rows is not None:
        of_steps = run.config.listing.drawing is not None and run.config.listing.drawing.of_steps
        return run.predictive(key, asked.draws, [asked.rows] if of_steps else asked.rows)
    return run.predictive(key, asked.draws, asked.data, groups="same")
