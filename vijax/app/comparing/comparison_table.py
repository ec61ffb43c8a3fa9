"""A comparison of runs as a table, and its conclusions in words."""

from __future__ import annotations

from typing import Any

from vijax.app.comparing.comparison import Compared, Comparison
from vijax.app.page import blocks


def table(found: Comparison) -> blocks.Table:
    """A row for each run."""
    has_topics = any(run.coherence for run in found.runs)
    has_remarks = any(run.remark for run in found.runs)
    header = ["run", *(key.rpartition(".")[2] for key in found.keys), "score", "error", "behind", "its error"]
    if found.training:
        header = [name for name in header if "error" not in name]
    header += ["NPMI"] * has_topics + ["remark"] * has_remarks

    def row(run: Compared) -> list[Any]:
        score = [None, None] if run.score is None else [float(run.score.mean), float(run.score.standard_error)]
        behind = [None, None] if run.behind is None else [float(x) for x in run.behind]
        topics = [None if run.coherence is None else float(run.coherence.mean)] * has_topics
        values = [v if isinstance(v, int | float | str) else str(v) for v in run.values]
        if found.training:
            score, behind = score[:1], behind[:1]
        return [run.folder.name, *values, *score, *behind, *topics, *[run.remark] * has_remarks]

    title = (
        "Runs on the data they were fitted to (NOT held out)" if found.training else "Runs on the same held-out data"
    )
    return blocks.Table(title, header, [row(run) for run in found.runs], note(found))


def note(found: Comparison) -> str:
    """The meaning of the columns, and the conclusions."""
    best = found.runs[found.best]
    if found.training:
        return (
            f"The best is {best.folder.name}, {best.score}; higher is better. Nothing was held out: this is the bound "
            "on the log evidence of the training data, the mean of the last pass. It counts what a model could explain "
            "but need not, so that more parts do not always win; for point estimates (em, map) they do. No standard "
            "errors are known."
        )
    close = [found.runs[i].folder.name for i in found.as_good if i != found.best]
    said = f"The best is {best.folder.name}, {best.score}; higher is better. "
    said += "behind: how much worse a run is, with the standard error of this difference, which is paired by unit. "
    if close:
        return said + f"Not clearly worse (by no more than two such errors): {', '.join(close)}."
    return said + "All others are clearly worse (by more than two such errors)."
