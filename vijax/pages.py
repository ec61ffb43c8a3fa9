"""From a run folder to what a person looks at: topics.txt, figures, report.html."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vijax import metrics
from vijax.assemble import make_algorithm
from vijax.config import Config, ConfigError
from vijax.progress import clock_time
from vijax.run_end import posterior_arrays
from vijax.run_folder import latest_checkpoint, read_json, read_run_config
from vijax.summary import Document, Topic, summarise, topics_text


class Run(NamedTuple):
    """A run folder, read.

    Attributes:
      folder: where it is.
      config: its settings.
      vocabulary: its words.
      posterior: arrays of posterior.npz, or of the newest checkpoint while there is no end yet.
      result: of result.json; empty while there is no end yet.
    """

    folder: Path
    config: Config
    vocabulary: tuple[str, ...]
    posterior: dict[str, np.ndarray]
    result: dict[str, Any]

    def topics(self, num_words: int = 12) -> list[Topic]:
        """The topics, largest first."""
        documents = [[Document(*document) for document in some] for some in self.result.get("documents", [])]
        return summarise(self.posterior["topics/concentration"], self.vocabulary, num_words, documents or None)


def read_run(folder: Path) -> Run:
    """A run, finished or not.

    Raises:
      ConfigError: not a run folder, or nothing was saved yet.
    """
    config = read_run_config(folder)
    words = tuple((folder / "vocabulary.txt").read_text(encoding="utf-8").removesuffix("\n").split("\n"))
    if (folder / "posterior.npz").is_file():
        with (folder / "posterior.npz").open("rb") as raw, np.load(raw) as file:
            return Run(folder, config, words, dict(file), read_json(folder / "result.json"))
    algorithm = make_algorithm(config, len(words))
    found = latest_checkpoint(folder, config, algorithm, say=lambda message: None)
    if found is None:
        raise ConfigError(f"{folder}: nothing was saved yet; go on with it: vijax resume {folder}")
    return Run(folder, config, words, posterior_arrays(found.tree), {})


def write_pages(folder: Path) -> Path:
    """Writes topics.txt, figures and report.html of a run; gives the path of the last.

    Raises:
      ConfigError: not a run folder, or nothing was saved yet.
    """
    from vijax.report import Report, render

    run = read_run(folder)
    topics, curves = run.topics(), metrics.read_curves(folder / "metrics.jsonl")
    (folder / "topics.txt").write_text(topics_text(topics) + "\n", encoding="utf-8")
    _write_figures(folder / "figures", run, topics, curves)
    files = {name: (folder / name).read_text(encoding="utf-8") for name in ("config.toml", "versions.json")}
    title = f"{run.config.name}: {len(topics)} topics"
    page = folder / "report.html"
    page.write_text(render(Report(title, _lead(run), _facts(run, curves), topics, curves, files)), encoding="utf-8")
    return page


def _write_figures(folder: Path, run: Run, topics: list[Topic], curves: metrics.Curves) -> None:
    from vijax import plots

    folder.mkdir(exist_ok=True)
    figures = {
        "topics": plots.topic_words(topics),
        "curves": plots.curves(curves),
        "sizes": plots.topic_sizes(topics),
        "map": plots.topic_map(topics),
        "similarity": plots.topic_similarity(run.posterior["topics/concentration"], topics),
    }
    for name, figure in figures.items():
        figure.savefig(folder / f"{name}.png")


def _lead(run: Run) -> str:
    chosen = run.config.algorithm
    data = "the docstrings of installed packages" if run.config.data.path == "docstrings" else run.config.data.path
    method = f"Latent Dirichlet allocation by {chosen.name} with {chosen.estep.name}, on {data}."
    status = run.result.get("status", "unfinished; shown as of its last checkpoint")
    return method if status.startswith("finished") else f"{method} The run is not whole: {status}."


def _facts(run: Run, curves: metrics.Curves) -> dict[str, str]:
    data, result = read_json(run.folder / "data.json"), run.result
    facts = {
        "Documents": f"{data['documents']:,} | and {data['held_out']:,} held out",
        "Words": f"{data['tokens']:,} | {data['vocabulary']:,} different",
        "Topics": f"{len(run.posterior['topics/concentration'])} | {_hyper(run.posterior)}",
    }
    if result.get("score"):
        mean, error = result["score"]
        facts["Held-out score"] = f"{mean:.3f} | ± {error:.3f} nats per word".replace("-", "\u2212")
    if len(curves.epoch):
        facts["Passes"] = f"{curves.epoch[-1]:.3g} | {len(curves.epoch):,} steps"
    if result.get("seconds"):
        rate = data["documents"] * curves.epoch[-1] / result["seconds"] if len(curves.epoch) else 0.0
        facts["Time"] = f"{clock_time(result['seconds'])} | {rate:,.0f} documents/s overall"
    return facts


def _hyper(posterior: dict[str, np.ndarray]) -> str:
    parts = {"alpha": posterior["hyper/alpha"], "eta": posterior["hyper/eta"]}
    return ", ".join(f"{name} {_scalar(value)}" for name, value in parts.items())


def _scalar(value: np.ndarray) -> str:
    return f"{float(value):.3g}" if np.ndim(value) == 0 else f"{np.min(value):.2g} to {np.max(value):.2g}"
