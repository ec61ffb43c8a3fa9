"""The files of a run folder for readers: summary.txt, figures, report.html."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vijax.app.answers.shares import all_shares
from vijax.app.drawing import blocks, exports
from vijax.app.folder.claim import unwritable
from vijax.app.folder.restored import reread_plan, restore
from vijax.app.folder.run_end import read_end
from vijax.app.folder.run_folder import facts_remedy, read_facts, read_run_config
from vijax.app.plan.config import Config
from vijax.app.report.embedded import Explored, explored_of
from vijax.app.report.report import Report, render, training
from vijax.app.report.stale import forget_stale
from vijax.app.settings.progress import clock_time
from vijax.app.settings.typed_toml import DamagedError
from vijax.app.sources.topic_names import name_topics, topic_names
from vijax.evaluate import metrics
from vijax.evaluate.units import unit_of
from vijax.families import Dirichlet
from vijax.files import own_folder, write_atomically, write_text
from vijax.terminal import printable


class Run(NamedTuple):
    """A run folder, read.

    Attributes:
      folder: its path.
      config: its settings.
      shown: the blocks of its page.
      result: contents of result.json; empty while the run has not ended.
      concentration: concentration of the words of topics, while the run has not ended.
    """

    folder: Path
    config: Config
    shown: list[blocks.Block]
    result: dict[str, Any]
    concentration: np.ndarray | None = None


def read_run(folder: Path) -> Run:
    """A run, finished or not: for an unfinished one its newest checkpoint is described again."""
    config, result = read_run_config(folder), read_end(folder)
    if result is not None:
        return Run(folder, config, name_topics(result["blocks"], topic_names(config)), result)
    with config.in_precision():
        run = restore(folder, reread_plan(folder, config))
        topics = run.posterior.get("topics")
        words = np.asarray(topics.concentration, float) if isinstance(topics, Dirichlet) else None
        return Run(
            folder,
            config,
            name_topics(config.listing.describe(run), topic_names(config)),
            {},
            words,
        )


def write_pages(folder: Path) -> Path:
    """Writes summary.txt, figures, tables and report.html of a run; returns the path of
    report.html."""
    run = read_run(folder)
    curves = metrics.read_curves(folder / "metrics.jsonl")
    try:
        write_text(summary_path(folder), f"{found_text(run)}\n")
        drawn = _write_figures(own_folder(folder / "figures"), run, curves)
        explored, curves_shown = (
            _explored(run),
            training(curves, run.config.listing.per, _score_unit(run)),
        )
        groups = (
            [all_shares(group, explored.topics) for group in explored.groups] if explored else []
        )
        listed = {
            f"{name}.csv": text
            for name, text in exports.tables([*run.shown, *curves_shown, *groups])
        }
        for name, text in listed.items():
            write_text(own_folder(folder / "tables") / name, text)
        write_text(folder / "report.html", _page(run, curves, explored))
        forget_stale(folder, {"tables": listed, "figures": drawn})
    except OSError as error:
        raise unwritable(folder, error) from error
    return folder / "report.html"


def _page(run: Run, curves: metrics.Curves, explored: Explored | None) -> str:
    files = [run.folder / name for name in ("config.toml", "versions.json")]
    settings = {
        path.name: path.read_text(encoding="utf-8", errors="replace")
        for path in files
        if path.is_file()
    }
    topics = [block.title for block in run.shown if isinstance(block, blocks.Topics)]
    title = f"{run.config.name}: {topics[0] if topics else run.config.listing.title}"
    per = run.config.listing.per, _score_unit(run)
    return render(
        Report(title, _lead(run), _facts(run, curves), run.shown, curves, settings, *per, explored)
    )


def _explored(run: Run) -> Explored | None:
    """The explored topics on the page of a run of topics; None for other runs."""
    topics = [block for block in run.shown if isinstance(block, blocks.Topics)]
    if not topics or not run.config.listing.of_documents:
        return None
    facts = read_facts(run.folder)
    tokens = facts.get("tokens")
    known = tokens if isinstance(tokens, int) else None
    return explored_of(run.folder, run.config, topics[0], known, run.concentration)


def summary_path(folder: Path) -> Path:
    """The path of the file with a run's results, in words and numbers."""
    return folder / "summary.txt"


def summary_text(run: Run) -> str:
    """The text of summary.txt, and the score."""
    score = run.result.get("score_text")
    return found_text(run) + (f"\n\nHeld-out score: {printable(score)}" if score else "")


def found_text(run: Run) -> str:
    """The results of a run, in words and numbers; an unfinished run says so first."""
    return printable(
        "\n\n".join(
            part for part in (_unfinished(run), blocks.text(run.shown, folder="tables/")) if part
        )
    )


def _unfinished(run: Run) -> str:
    """The state of an unfinished run, and how to go on; empty for a finished one."""
    status = run.result.get("status")
    if status is None:
        return f"Unfinished: as of its last checkpoint. Go on: vijax resume {run.folder}"
    if status.startswith(("finished", "converged")):
        return ""
    why = status.partition(";")[0]  # the rest speaks of Python
    more = (
        f". Go on: vijax resume {run.folder}"
        if status.startswith(("interrupted", "stopped"))
        else ""
    )
    return f"Not complete: {why}{more}"


def _write_figures(folder: Path, run: Run, curves: metrics.Curves) -> list[str]:
    """Writes the figures; returns the names of their files."""
    from vijax.app.drawing import figures
    from vijax.evaluate import plots

    shown = [
        ("curves", plots.curves(curves, run.config.listing.per, _score_unit(run))),
        *figures.pictures(run.shown),
    ]
    written = [f"{name}.png" for name, _ in shown]
    with one_word_on_letters():
        for name, (_, figure) in zip(written, shown, strict=True):
            write_atomically(folder / name, functools.partial(figure.savefig, format="png"))
    return written


@contextlib.contextmanager
def one_word_on_letters() -> Iterator[None]:
    """Matplotlib warns of each letter that its font lacks; one warning says it for all of them."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        yield
    are_of_letters = [str(each.message).startswith("Glyph ") for each in given]
    for each in itertools.compress(given, map(operator.not_, are_of_letters)):
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    if any(are_of_letters):
        warnings.warn(
            "The pictures in the folder figures have boxes in the place of some letters, which the "
            "font of Matplotlib lacks. The page report.html has them all.",
            stacklevel=4,
        )


def _lead(run: Run) -> str:
    chosen, path = run.config.algorithm, run.config.data.path
    data = "the docstrings of installed packages" if path == "docstrings" else path
    estep = f" with {chosen.estep.name}" if hasattr(chosen, "estep") else ""
    title = run.config.listing.title
    words = ", in steps by words" if getattr(chosen, "lazy", None) else ""
    method = f"{title[0].upper()}{title[1:]}, by {chosen.name}{estep}{words}, on {data}."
    how = _unfinished(run)
    return f"{method} {how}{'' if how.endswith('.') or not how else '.'}".strip()


def _facts(run: Run, curves: metrics.Curves) -> dict[str, str]:
    known, result = read_facts(run.folder), run.result
    try:
        facts = dict(run.config.listing.source.tiles(known))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        fault = f"{run.folder / 'data.json'}: damaged ({type(error).__name__}: {error})"
        raise DamagedError(fault, facts_remedy(run.folder)) from error
    if result.get("score") and result.get("score_text"):
        mean, deviation = result["score"]
        spread = f"± {deviation:.3f} " if np.isfinite(deviation) else ""
        facts["Held-out score"] = f"{mean:.3f} | {spread}{unit_of(result['score_text'])}".replace(
            "-", "\u2212"
        )
    if len(curves.epoch):
        ended = (
            ", then it had converged" if str(result.get("status")).startswith("converged") else ""
        )
        facts["Passes"] = f"{curves.epoch[-1]:.3g} | {len(curves.epoch):,} steps{ended}"
    if result.get("seconds"):
        facts["Time"] = (
            f"{clock_time(result['seconds'])} | {result['seconds']:,.1f} seconds of training"
        )
    return facts


def _score_unit(run: Run) -> str:
    """The unit of the score, as the score itself says; before there is one, that of the model's
    scores."""
    said, listing = run.result.get("score_text"), run.config.listing
    return unit_of(said) if said else listing.score_unit or f"nats per {listing.per}"
