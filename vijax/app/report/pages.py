"""The files of a run folder for readers: summary.txt, figures, report.html."""

from __future__ import annotations

import contextlib
import functools
import itertools
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
from vijax.app.report.embedded import TopicPage, topic_page
from vijax.app.report.report import Report, render, training
from vijax.app.report.stale import remove_stale
from vijax.app.settings.progress import clock_time
from vijax.app.settings.quoting import quote
from vijax.app.settings.typed_toml import DamagedError
from vijax.app.sources.topic_names import name_topics, topic_names
from vijax.evaluate import metrics
from vijax.evaluate.units import read_unit
from vijax.families import Dirichlet
from vijax.files import own_folder, write_atomically, write_text
from vijax.terminal import printable


class Run(NamedTuple):
    """The content of a run folder.

    Attributes:
      folder: its path.
      config: its settings.
      shown: the blocks of its page.
      result: contents of result.json; empty if the run has not ended.
      concentration: concentration of the words of topics, if the run has not ended.
    """

    folder: Path
    config: Config
    shown: list[blocks.Block]
    result: dict[str, Any]
    concentration: np.ndarray | None = None


def read_run(folder: Path) -> Run:
    """A run, finished or not: of an unfinished one the newest checkpoint is described."""
    config = read_run_config(folder)
    result = read_end(folder)
    if result is not None:
        return Run(folder, config, name_topics(result["blocks"], topic_names(config)), result)
    with config.in_precision():
        run = restore(folder, reread_plan(folder, config))
        topics = run.fit.topic_words
        words = np.asarray(topics.concentration, float) if isinstance(topics, Dirichlet) else None
        return Run(
            folder,
            config,
            name_topics(config.listing.describe(run), topic_names(config)),
            {},
            words,
        )


def write_pages(folder: Path) -> Path:
    """Writes summary.txt, figures, tables and report.html of a run; returns the last one's path."""
    run = read_run(folder)
    curves = metrics.read_curves(folder / "metrics.jsonl")
    try:
        write_text(summary_path(folder), f"{results_text(run)}\n")
        figure_names = _write_figures(own_folder(folder / "figures"), run, curves)
        page_of_topics = _topic_page(run)
        table_blocks = [*run.shown, *training(curves, run.config.listing.per, _score_unit(run))]
        if page_of_topics:
            groups = page_of_topics.groups
            table_blocks += [all_shares(group, page_of_topics.topics) for group in groups]
        table_texts = {f"{name}.csv": text for name, text in exports.tables(table_blocks)}
        for name, text in table_texts.items():
            write_text(own_folder(folder / "tables") / name, text)
        write_text(folder / "report.html", _page(run, curves, page_of_topics))
        remove_stale(folder, {"tables": table_texts, "figures": figure_names})
    except OSError as error:
        raise unwritable(folder, error) from error
    return folder / "report.html"


def _page(run: Run, curves: metrics.Curves, topics_page: TopicPage | None) -> str:
    files = [run.folder / name for name in ("config.toml", "versions.json")]
    settings = {
        path.name: path.read_text(encoding="utf-8", errors="replace")
        for path in files
        if path.is_file()
    }
    topic_titles = [block.title for block in run.shown if isinstance(block, blocks.Topics)]
    title = f"{run.config.name}: {topic_titles[0] if topic_titles else run.config.listing.title}"
    per = run.config.listing.per, _score_unit(run)
    return render(
        Report(
            title,
            _lead(run),
            _facts(run),
            _course(run, curves),
            _next_steps(run),
            run.shown,
            curves,
            settings,
            *per,
            topics_page,
        )
    )


def _topic_page(run: Run) -> TopicPage | None:
    """The page of the topics of a run; None for runs without topics."""
    topics = [block for block in run.shown if isinstance(block, blocks.Topics)]
    if not topics or not run.config.listing.of_documents:
        return None
    facts = read_facts(run.folder)
    tokens = facts.get("tokens")
    num_tokens = tokens if isinstance(tokens, int) else None
    return topic_page(run.folder, run.config, topics[0], num_tokens, run.concentration)


def summary_path(folder: Path) -> Path:
    """The path of the file with a run's results, in words and numbers."""
    return folder / "summary.txt"


def summary_text(run: Run) -> str:
    """The text of summary.txt, and the score."""
    score = run.result.get("score_text")
    if not score:
        return results_text(run)
    return f"{results_text(run)}\n\nHeld-out score: {printable(score)}"


def results_text(run: Run) -> str:
    """The results of a run, in words and numbers, after a note on an unfinished run."""
    parts = (_unfinished_note(run), blocks.text(run.shown, folder="tables/"))
    return printable("\n\n".join(filter(None, parts)))


def _unfinished_note(run: Run) -> str:
    """The state of an unfinished run, and how to resume it; empty for a finished one."""
    status = run.result.get("status")
    if status is None:
        return f"Unfinished: as of its last checkpoint. Go on: vijax resume {quote(run.folder)}"
    if status.startswith(("finished", "converged")):
        return ""
    reason = status.partition(";")[0]  # the remainder is for users of Python
    remedy = ""
    if status.startswith(("interrupted", "stopped")):
        remedy = f". Go on: vijax resume {quote(run.folder)}"
    return f"Not complete: {reason}{remedy}"


def _write_figures(folder: Path, run: Run, curves: metrics.Curves) -> list[str]:
    """Writes the figures; returns the names of their files."""
    from vijax.app.drawing import figures
    from vijax.evaluate import plots

    figures_to_write = [
        ("curves", plots.curves(curves, run.config.listing.per, _score_unit(run))),
        *figures.pictures(run.shown),
    ]
    file_names = [f"{name}.png" for name, _ in figures_to_write]
    with warn_once_of_letters():
        for name, (_, figure) in zip(file_names, figures_to_write, strict=True):
            write_atomically(folder / name, functools.partial(figure.savefig, format="png"))
    return file_names


@contextlib.contextmanager
def warn_once_of_letters() -> Iterator[None]:
    """Gives one warning for all letters that the font of Matplotlib lacks; it warns of each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    is_of_letter = lambda warning: str(warning.message).startswith("Glyph ")
    for warning in itertools.filterfalse(is_of_letter, caught):
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    if any(map(is_of_letter, caught)):
        warnings.warn(
            "The pictures in the folder figures have boxes in the place of some letters, which the "
            "font of Matplotlib lacks. The page report.html has them all.",
            stacklevel=4,
        )


def _lead(run: Run) -> str:
    path = run.config.data.path
    data = "the docstrings of installed packages" if path == "docstrings" else path
    state = _unfinished_note(run)
    if state and not state.endswith("."):
        state += "."
    return f"Learnt from {data}. {state}".strip()


def _method(run: Run) -> str:
    """The algorithm, and its E-step."""
    algorithm = run.config.algorithm
    estep = f" with {algorithm.estep.name}" if hasattr(algorithm, "estep") else ""
    words = ", in steps by words" if getattr(algorithm, "lazy", None) else ""
    return f"{algorithm.name} |{estep}{words}"


def _facts(run: Run) -> dict[str, str]:
    """The tiles on the data."""
    data_facts = read_facts(run.folder)
    try:
        return dict(run.config.listing.source.tiles(data_facts))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        fault = f"{run.folder / 'data.json'}: damaged ({type(error).__name__}: {error})"
        raise DamagedError(fault, facts_remedy(run.folder)) from error


def _next_steps(run: Run) -> list[tuple[str, str]]:
    """The next things to do with a run, and the commands."""
    if _unfinished_note(run):
        return []
    folder = quote(run.folder)
    listing = run.config.listing
    steps = []
    if listing.transform is not None:
        answer = ANSWERS.get(listing.source.results, "Results for other rows")
        steps.append((answer, f"vijax transform {folder} --data FILE --out results.csv"))
    if listing.drawing is not None and listing.drawing.of_steps:
        steps.append(("Forecasts with intervals", f"vijax predict {folder} --steps 10"))
    elif listing.drawing is not None and listing.drawing.of_target:
        steps.append(("Draws of the target", f"vijax predict {folder} --data FILE"))
    if listing.source.results == "doc_topics":
        steps.append(("Topics over time or by group", f"vijax shares {folder} --by COLUMN"))
    if run.result.get("score"):
        steps.append(("How well it predicts other data", f"vijax evaluate {folder} --data FILE"))
    steps.append(("What may be wrong, in a minute or so", f"vijax check {folder}"))
    sizes = [name for name in SIZES if hasattr(run.config.model, name)]
    if sizes:
        size = getattr(run.config.model, sizes[0])
        values = ",".join(str(value) for value in (size // 2, size, 2 * size) if value)
        config = quote(run.folder / "config.toml")
        sweep = f"vijax fit {config} --sweep model.{sizes[0]}={values}"
        steps.append(("Other sizes, compared", sweep))
    return steps


ANSWERS = {
    "doc_topics": "Topics of other documents",
    "recommendations": "Recommendations for other users",
}
"""What `vijax transform` writes, by the name of a run's own file of results."""
SIZES = ("num_topics", "num_components", "num_states", "num_factors", "num_blocks")
"""Settings of the size of a model, of which a sweep tries several."""


def _course(run: Run, curves: metrics.Curves) -> dict[str, str]:
    """The tiles on the course of a fit."""
    facts = {"Method": _method(run)}
    result = run.result
    if result.get("score") and result.get("score_text"):
        mean, deviation = result["score"]
        spread = f"± {deviation:.3f} " if np.isfinite(deviation) else ""
        score = f"{mean:.3f} | {spread}{read_unit(result['score_text'])}"
        facts["Held-out score"] = score.replace("-", "\u2212")
    if len(curves.epoch):
        has_converged = str(result.get("status")).startswith("converged")
        ending = ", then it had converged" if has_converged else ""
        facts["Passes"] = f"{curves.epoch[-1]:.3g} | {len(curves.epoch):,} steps{ending}"
    if result.get("seconds"):
        facts["Time"] = (
            f"{clock_time(result['seconds'])} | {result['seconds']:,.1f} seconds of training"
        )
    return facts


def _score_unit(run: Run) -> str:
    """The unit of the score in words; before there is a score, the unit of the model's scores."""
    score = run.result.get("score_text")
    if score:
        return read_unit(score)
    return run.config.listing.score_unit or f"nats per {run.config.listing.per}"
