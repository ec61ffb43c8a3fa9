"""From a run folder to what a person looks at: summary.txt, figures, report.html."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from vijax import metrics
from vijax.app import blocks, exports
from vijax.app.assemble import load_data, make_algorithm, state_like, state_needs_data
from vijax.app.claim import unwritable
from vijax.app.config import Config, ConfigError
from vijax.app.listing import Data, Seen
from vijax.app.run_end import end_of
from vijax.app.run_folder import Say, latest_checkpoint, read_json, read_run_config, read_vocabulary
from vijax.app.typed_toml import LARGEST
from vijax.data import Corpus
from vijax.families import Dirichlet
from vijax.files import own_folder, write_atomically, write_text
from vijax.progress import clock_time
from vijax.restarts import best_state
from vijax.result import Fit
from vijax.summary import Topic, summarise
from vijax.terminal import printable


class Run(NamedTuple):
    """A run folder, read.

    Attributes:
      folder: where it is.
      config: its settings.
      shown: the blocks of its page.
      result: of result.json; empty while there is no end yet.
    """

    folder: Path
    config: Config
    shown: list[blocks.Block]
    result: dict[str, Any]


def read_run(folder: Path) -> Run:
    """A run, finished or not: of one that is not, what its newest checkpoint holds is described again.

    Raises:
      ConfigError: not a run folder, nothing was saved yet, or a file of it is damaged.
    """
    config, result = read_run_config(folder), end_of(folder)
    if result is not None:
        return Run(folder, config, result["blocks"], result)
    with config.in_precision():
        seen = restore(folder, config, load_data(config))
        return Run(folder, config, list(config.listing.describe(seen)), {})


def read_topics(folder: Path, num_words: int) -> list[Topic]:
    """The topics of a run, finished or not, largest first.

    Raises:
      ConfigError: not a run of a topic model, or nothing was saved yet.
    """
    config = read_run_config(folder)
    with config.in_precision():
        seen = restore(folder, config)
    topics = seen.posterior.get("topics")
    if not isinstance(topics, Dirichlet):
        raise ConfigError(f"{folder}: a run of {config.listing.name}, which has no topics; see: vijax summary {folder}")
    return summarise(np.asarray(topics.concentration), seen.data.names, num_words)


def score_other(folder: Path, path: str, column: str | None, seed: int, say: Say) -> Any:
    """The score of a run on other data.

    Raises:
      ConfigError: nothing was saved yet.
      ValueError: data that cannot be read, or that are not of the run's columns.
    """
    if not 0 <= seed <= LARGEST:
        raise ConfigError(f"--seed: expected an integer from 0 to 2^63 - 1, got {seed}")
    config = read_run_config(folder)
    with config.in_precision():
        seen = restore(folder, config)
        other = config.listing.source.other(config, seen.data, path, column)
        for note in getattr(other, "notes", ()):
            say(f"Note: {note}")
        return config.listing.scored(seen._replace(data=Data(seen.data.train, other), key=jax.random.key(seed)))


def restore(folder: Path, config: Config, data: Data | None = None) -> Seen:
    """The fit that the newest checkpoint of a run holds. Of documents, its words are enough to make the model again,
    unless its state holds something of each document; other data are read once more.

    Raises:
      ConfigError: nothing was saved yet.
    """
    if data is None:
        data = _only_words(folder) if config.listing.reads_documents else load_data(config)
        if config.listing.reads_documents and state_needs_data(config, make_algorithm(config, data)):
            data = load_data(config)
    algorithm = make_algorithm(config, data)
    found = latest_checkpoint(folder, config, state_like(config, algorithm, data), say=lambda message: None)
    if found is None:
        raise ConfigError(f"{folder}: nothing was saved yet; go on with it: vijax resume {folder}")
    fit = Fit(algorithm, best_state(found.tree), {}, None)
    return Seen(fit, data, config.model, jax.random.key(config.fit.seed))


def _only_words(folder: Path) -> Data:
    """A corpus that stands for the run's, of whose words alone the model is made: one document of each word once."""
    words = read_vocabulary(folder)
    return Data(Corpus.from_counts(np.ones((1, len(words)), int), words), None)


def write_pages(folder: Path) -> Path:
    """Writes summary.txt, figures, tables and report.html of a run; gives the path of the last.

    Raises:
      ConfigError: not a run folder, or nothing was saved yet.
      OSError: the folder cannot be written to.
    """
    run = read_run(folder)
    curves = metrics.read_curves(folder / "metrics.jsonl")
    try:
        write_text(summary_path(folder), f"{found_text(run)}\n")
        _write_figures(own_folder(folder / "figures"), run, curves)
        _write_tables(folder / "tables", run)
        write_text(folder / "report.html", _page(run, curves))
    except OSError as error:
        raise unwritable(folder, error) from error
    return folder / "report.html"


def _page(run: Run, curves: metrics.Curves) -> str:
    from vijax.app.report import Report, render

    files = [run.folder / name for name in ("config.toml", "versions.json")]
    settings = {path.name: path.read_text(encoding="utf-8", errors="replace") for path in files if path.is_file()}
    per = run.config.listing.per, _score_per(run)
    return render(Report(_title(run), _lead(run), _facts(run, curves), run.shown, curves, settings, *per))


def summary_path(folder: Path) -> Path:
    """The file that holds what a run found, in words and numbers."""
    return folder / "summary.txt"


def summary_text(run: Run) -> str:
    """What summary.txt says, and the score."""
    score = run.result.get("score_text")
    return found_text(run) + (f"\n\nHeld-out score: {printable(score)}" if score else "")


def found_text(run: Run) -> str:
    """What a run found, in words and numbers; what is not complete says so first."""
    return printable("\n\n".join(part for part in (_unfinished(run), blocks.text(run.shown), _units(run)) if part))


def _units(run: Run) -> str:
    """In which units numbers are, where they are not those of the data."""
    scaled = getattr(run.config.data, "standardise", False) and run.shown
    return "In units of standardised columns (mean 0, deviation 1 in the training rows)." if scaled else ""


def _unfinished(run: Run) -> str:
    """How a run stands that has not come to its end, and how to go on; empty of one that has."""
    status = run.result.get("status")
    if status is None:
        return f"Unfinished: as of its last checkpoint. Go on: vijax resume {run.folder}"
    if status.startswith(("finished", "converged")):
        return ""
    why = status.partition(";")[0]  # what follows speaks of Python
    more = f". Go on: vijax resume {run.folder}" if status.startswith(("interrupted", "stopped")) else ""
    return f"Not complete: {why}{more}"


def _title(run: Run) -> str:
    topics = [block.title for block in run.shown if isinstance(block, blocks.Topics)]
    return f"{run.config.name}: {topics[0] if topics else run.config.listing.title}"


def _write_figures(folder: Path, run: Run, curves: metrics.Curves) -> None:
    from vijax import plots
    from vijax.app import figures

    shown = [("curves", plots.curves(curves, run.config.listing.per, _score_per(run))), *figures.pictures(run.shown)]
    for name, figure in shown:
        write_atomically(folder / f"{name}.png", functools.partial(figure.savefig, format="png"))


def _write_tables(folder: Path, run: Run) -> None:
    for name, text in exports.tables(run.shown):
        write_text(own_folder(folder) / f"{name}.csv", text)


def _lead(run: Run) -> str:
    chosen, path = run.config.algorithm, run.config.data.path
    data = "the docstrings of installed packages" if path == "docstrings" else path
    estep = f" with {chosen.estep.name}" if hasattr(chosen, "estep") else ""
    title = run.config.listing.title
    method = f"{title[0].upper()}{title[1:]}, by {chosen.name}{estep}, on {data}."
    how = _unfinished(run)
    return f"{method} {how}{'' if how.endswith('.') or not how else '.'}".strip()


def _facts(run: Run, curves: metrics.Curves) -> dict[str, str]:
    path, result = run.folder / "data.json", run.result
    try:
        facts = dict(run.config.listing.source.tiles(read_json(path)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path}: damaged ({type(error).__name__}: {error})") from error
    if result.get("score") and result.get("score_text"):
        mean, deviation = result["score"]
        facts["Held-out score"] = f"{mean:.3f} | ± {deviation:.3f} {_after_unit(result['score_text'])}".replace(
            "-", "\u2212"
        )
    if len(curves.epoch):
        facts["Passes"] = f"{curves.epoch[-1]:.3g} | {len(curves.epoch):,} steps"
    if result.get("seconds"):
        facts["Time"] = f"{clock_time(result['seconds'])} | {result['seconds']:,.1f} seconds of training"
    return facts


def _score_per(run: Run) -> str:
    """What the score is per, as the score itself says; before there is one, what bounds are per."""
    said = run.result.get("score_text")
    return _after_unit(said).removeprefix("nats per ") if said else run.config.listing.per


def _after_unit(score: str) -> str:
    """The words of a score, without its numbers and its parenthesis.

    >>> _after_unit("-1.0 ± 0.1 nats per row (20 rows)")
    'nats per row'
    """
    return "nats" + score.partition(" nats")[2].partition(" (")[0]
