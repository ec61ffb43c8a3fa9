"""The results of a run for single rows: of its own data, in its folder (doc_topics.csv,
transformed.csv or nodes.csv), and of other data (`vijax transform`); and draws (`vijax
predict`)."""

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
from vijax.app.settings.quoting import quote
from vijax.app.settings.typed_toml import ConfigError, check_seed
from vijax.app.sources.doc_topics import relabel_topics, write_excerpts
from vijax.app.sources.documents import new_documents
from vijax.app.sources.listing import FittedRun, Listing, New
from vijax.app.sources.sampled import TableSample
from vijax.app.sources.sampled_documents import SampledDocuments
from vijax.app.sources.topic_names import topic_names

MOST_ROWS = 100_000
"""Most documents or rows in the file: more would make a large file, and take long."""
SAMPLE = 20_000
"""Number of documents, evenly spread, that the page of a larger run has instead."""
EXCERPTS = "excerpts.json"
"""The file of the beginnings of documents."""


def write_results(folder: Path, config: Config, run: FittedRun, say: Say) -> None:
    """Writes the file of results at the end of a run, if the model has results for single rows. An
    error is printed and does not end the run, which is saved."""
    listing = config.listing
    if listing.transform is None:
        return
    if isinstance(run.data.train, TableSample):
        results = listing.source.results
        command = f"vijax transform {quote(folder)} --data FILE.parquet --out {results}.parquet"
        say(
            f"Note: {listing.source.results}.csv is left out, for the rows are read by parts; of "
            f"a file of them: {command}"
        )
        return
    path, sample_path = results_paths(folder, config)
    is_sample = isinstance(run.data.train, SampledDocuments)
    number = _num_documents(run) if is_sample else sum(map(len, run.data.parts))
    is_large = number > MOST_ROWS or is_sample
    if is_large:
        _note_large(folder, config, run, number, say)
        if listing.source.excerpts is None:
            return
    out = sample_path if is_large else path
    try:
        _write_own_results(folder, config, run, out, is_large, say)
    except Exception as error:
        say(
            f"Warning: {out.name} could not be made ({error}); try: vijax transform "
            f"{quote(folder)} --out {out.name}"
        )


def _note_large(folder: Path, config: Config, run: FittedRun, number: int, say: Say) -> None:
    """Says that the results of a large run are left out, and how to make them."""
    listing = config.listing
    path, _ = results_paths(folder, config)
    command = f"vijax transform {quote(folder)} --out {path.stem}.parquet"
    unit = listing.source.columns[0] if listing.of_documents else listing.unit
    page = ""
    if listing.source.excerpts:
        is_sample = isinstance(run.data.train, SampledDocuments)
        num_shown = min(SAMPLE, len(run.data.train)) if is_sample else SAMPLE
        page = f" The page shows {num_shown:,} of them, evenly spread."
    say(
        f"Note: {path.name} is left out, for {number:,} {unit}s are many; make it: {command}.{page}"
    )


def _write_own_results(
    folder: Path, config: Config, run: FittedRun, out: Path, is_large: bool, say: Say
) -> None:
    """Writes the results for the run's own data, for evenly spread rows of a large run."""
    source = config.listing.source
    if isinstance(run.data.train, SampledDocuments):
        new = new_documents(source.columns, run.data.train)
    else:
        new = source.new(config, run.data, None, None)
    if is_large:
        rows = spread_rows(len(new.data), SAMPLE)
        beside = {name: [values[i] for i in rows] for name, values in new.beside.items()}
        new = new._replace(data=new.data[rows], beside=beside)
    _transform_new(config, run, new, say).write(out)
    if source.excerpts is not None and config.page.excerpts:
        write_excerpts(folder / EXCERPTS, source.excerpts(new.data))


def transform_source(
    config: Config, run: FittedRun, source: object, column: str | None, say: Say
) -> Transformed:
    """The results for a source, or for the run's own data. Prints notes and progress."""
    new = config.listing.source.new(config, run.data, source, column)
    if source is not None:
        for note in new.notes:
            say(f"Note: {note}")
    return _transform_new(config, run, new, say)


def _transform_new(config: Config, run: FittedRun, new: New, say: Say) -> Transformed:
    name = config.listing.source.results
    counter = Counter(say, f"rows of {name}", len(new.data))
    with announce_if_slow(say, f"Making {name} ... (the program is compiled first)"):
        return transform_rows(config, run, new, counter)


def _num_documents(run: FittedRun) -> int:
    held_out = 0 if run.data.test is None else run.data.test.num_documents
    return run.data.whole.num_documents + held_out


def _write_by_parts(config: Config, run: FittedRun, out: Path, say: Say) -> Path:
    """Writes the results for all documents of a run that are read by parts, held-out ones too, in
    the order of the files."""
    counter = Counter(say, f"rows of {config.listing.source.results}", _num_documents(run))
    write_parts(out, (part.columns() for part in transform_parts(config, run, counter)))
    return out


def results_paths(folder: Path, config: Config) -> tuple[Path, Path]:
    """The paths of the file of results, and of the file for some documents of a large run."""
    name = config.listing.source.results
    return folder / f"{name}.csv", folder / f"{name}_sample.csv"


def remove_results(folder: Path, config: Config) -> None:
    """Removes these files: the run is resumed, and they no longer hold."""
    for path in (*results_paths(folder, config), folder / EXCERPTS):
        path.unlink(missing_ok=True)


def rename_topics(folder: Path, names: tuple[str, ...]) -> None:
    """Gives topics the names in these lines, in the settings of a run and in its results."""
    keep_names(folder, names)
    config = read_run_config(folder)
    for path in results_paths(folder, config):
        relabel_topics(path, topic_names(config))


def transform_run(
    folder: Path,
    source: str | None,
    out: Path | None,
    column: str | None,
    training: str | None,
    say: Say,
) -> str:
    """The output of `vijax transform`: the name of the file written, or CSV."""
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
            return str(_write_by_parts(config, run, out, say))
        moved = with_data_path(config, training if source is None else None)
        results = transform_source(moved, run, source, column, say)
    return results.write_or_csv(out)


# --- `vijax predict` ------------------------------------------------------------------------------
class PredictRequest(NamedTuple):
    """The options of `vijax predict`."""

    data: str | None = None
    rows: int | None = None
    steps: int | None = None
    draws: int = 1000
    each: bool = False
    level: float = 0.9
    seed: int = 0


def predict_run(
    folder: Path, request: PredictRequest, out: Path | None, training: str | None, say: Say
) -> str:
    """The output of `vijax predict`: the name of the file written, or CSV."""
    check_new_file(out)
    check_request(read_run_config(folder).listing, request)
    run = open_run(folder, training)
    say_remarks(folder, say)
    with announce_if_slow(say, "Drawing ... (the program is compiled first)"):
        draws = _draw(run, request)
    if request.data is not None:
        for note in draws.notes:
            say(f"Note: {note}")
    rows = draws.each() if request.each else draws.summary(request.level)
    return rows.write_or_csv(out)


def check_request(listing: Listing, request: PredictRequest) -> None:
    """Raises a `ConfigError` on options for which nothing can be drawn."""
    if listing.drawing is None:
        raise ConfigError(
            f"vijax predict draws tables, and {listing.name} has none to draw; what it says of "
            "each row or document of a file, with intervals where it has them, is written by vijax "
            "transform RUN --data FILE"
        )
    for first, second in (("data", "rows"), ("rows", "steps")):
        if getattr(request, first) is not None and getattr(request, second) is not None:
            raise ConfigError(f"--{first} and --{second} do not go together; give one of them")
    for first, number, minimum in (
        ("rows", request.rows, 1),
        ("steps", request.steps, 1),
        ("draws", request.draws, 2),
    ):
        if number is not None and number < minimum:
            raise ConfigError(f"--{first}: expected {minimum} or more, got {number}")
    if not 0 < request.level < 1:
        raise ConfigError(
            f"--level: expected a probability between 0 and 1, got {request.level:g}; such as 0.9"
        )
    check_seed(request.seed)
    if request.rows is not None and listing.drawing.of_target:
        raise ConfigError(
            f"--rows: {listing.name} draws its target given the other columns: name a table of "
            "those columns, --data"
        )
    if request.steps is not None:
        check_has_forecasts(listing)


def _draw(run: Run, request: PredictRequest) -> Draws:
    key = jax.random.key(request.seed)
    if request.steps is not None:
        return run.forecast(key, request.draws, request.steps, request.data)
    if request.rows is not None:
        of_steps = run.config.listing.drawing is not None and run.config.listing.drawing.of_steps
        return run.predictive(key, request.draws, [request.rows] if of_steps else request.rows)
    return run.predictive(key, request.draws, request.data, groups="same")
