"""`vijax effects`: comparisons, slopes, predictions and marginal means of a run of `glmm`, its
variance explained, its effects by group, and how far its priors move its estimates."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from vijax.app.catalogue.glmm import make_model
from vijax.app.folder.restored import restore_run
from vijax.app.folder.run_end import say_remarks
from vijax.app.folder.run_folder import Say, read_run_config
from vijax.app.plan.config import Config
from vijax.app.settings.typed_toml import ConfigError
from vijax.app.sources.listing import FittedRun
from vijax.trust.priors import prior_influence

Question = Literal["comparisons", "slopes", "predictions", "means", "variance", "groups", "priors"]
Kind = Literal["difference", "ratio", "lift", "odds_ratio", "log_ratio", "log_odds_ratio"]
Groups = Literal["same", "new", "zero"]


class EffectsRequest(NamedTuple):
    """A question about effects; `vijax effects` describes the fields."""

    question: Question = "comparisons"
    columns: tuple[str, ...] = ()
    kind: Kind = "difference"
    by: tuple[str, ...] = ()
    at: tuple[str, ...] = ()
    groups: Groups | None = None
    link: bool = False
    data: str | None = None
    level: float = 0.9
    draws: int = 1000


ROWS = ("at", "groups", "link", "data", "level", "draws")
USED = {
    "comparisons": ("columns", "kind", "by", *ROWS),
    "slopes": ("columns", "by", *ROWS),
    "predictions": ("by", *ROWS),
    "means": ("columns", *ROWS),
    "variance": ("level", "draws"),
    "groups": ("level", "draws"),
    "priors": (),
}
"""The fields that a question reads."""


def _check_used(request: EffectsRequest) -> None:
    """Raises ConfigError for an option that the question does not read."""
    used = USED[request.question]
    for field in request._fields[1:]:
        is_given = getattr(request, field) != EffectsRequest._field_defaults[field]
        if is_given and field not in used:
            option = {"columns": "--of"}.get(field, f"--{field}")
            questions = [question for question, fields in USED.items() if field in fields]
            raise ConfigError(
                f"{option}: --ask {request.question} does not take it. Leave it out, or ask one "
                f"of: {', '.join(questions)}"
            )


def effects_of_run(folder: Path, request: EffectsRequest, training: str | None, say: Say) -> Any:
    """The answer, which prints, and whose `columns()` can be written.

    Raises:
      ConfigError: a run of another model.
      ValueError: a question that the model cannot answer.
    """
    _check_used(request)
    config = read_run_config(folder)
    if config.listing.name != "glmm":
        raise ConfigError(
            f"{folder}: expected a run of glmm, got one of {config.listing.name}; see: vijax "
            f"summary {folder}"
        )
    say_remarks(folder, say)
    with config.in_precision():
        run = restore_run(folder, config, training)
        return _answer(config, run, request, say)


def _answer(config: Config, run: FittedRun, request: EffectsRequest, say: Say) -> Any:
    model = make_model(run.settings, run.data.train)
    key = run.key
    if request.question == "priors":
        return prior_influence(run.fit, key=key)
    common = {"key": key, "level": request.level, "num_draws": request.draws}
    if request.question == "variance":
        return model.explained_variance(run.fit, **common)
    if request.question == "groups":
        return model.effects_by_group(run.fit, **common)
    try:
        return _answer_at_rows(model, run, request, _read_table(config, run, request.data, say))
    except ValueError as error:
        if "expected levels of" in str(error) and _has_marks((*request.columns, *request.at)):
            raise ValueError(f"{str(error).removesuffix('.')}. {QUOTES}") from error
        raise


def _has_marks(texts: Sequence[str]) -> bool:
    return any(mark in text for text in texts for mark in ":,")


def _answer_at_rows(model: Any, run: FittedRun, request: EffectsRequest, newdata: Any) -> Any:
    """The answer to a question about rows."""
    common = {"key": run.key, "level": request.level, "num_draws": request.draws}
    rows = {**common, "newdata": newdata, "at": _read_values(request.at), "groups": request.groups}
    rows["scale"] = ("response", "link")[request.link]
    if request.question == "means":
        if newdata is None:
            rows["newdata"] = "balanced"
        return model.marginal_means(run.fit, _names(request), **rows)
    rows["by"] = list(request.by)
    if request.question == "predictions":
        return model.predictions(run.fit, **rows)
    if request.question == "slopes":
        return model.slopes(run.fit, list(request.columns) or None, **rows)
    return model.comparisons(run.fit, _read_changes(request.columns), kind=request.kind, **rows)


QUOTES = (
    "A level with a colon or a comma stands in double quotes, as in --of 'h=\"a:b\":c' and "
    "--at 'h=\"x,y\"'."
)


def _names(request: EffectsRequest) -> list[str]:
    """The columns of marginal means."""
    if not request.columns:
        raise ConfigError("--of: expected columns whose levels have means: --of h")
    return list(request.columns)


def _read_table(config: Config, run: FittedRun, path: str | None, say: Say) -> Any:
    """The rows of a file; None for those of training."""
    if path is None:
        return None
    new = config.listing.source.new(config, run.data, path, None)
    for note in new.notes:
        say(f"Note: {note}")
    return new.data.table


def _read_changes(texts: Sequence[str]) -> dict[str, Any] | None:
    """The columns that are compared with the change of each; None for all columns.

    >>> _read_changes(["x", "dose=5", "h=pairwise", "k=a:b", "t=1:2.5"])
    {'x': None, 'dose': 5.0, 'h': 'pairwise', 'k': ('a', 'b'), 't': ('1', '2.5')}
    >>> _read_changes(['h="a:b":c', '"x=1"=2', 'k="a:b"'])
    {'h': ('a:b', 'c'), 'x=1': 2.0, 'k': 'a:b'}
    """
    changes: dict[str, Any] = {}
    for text in texts:
        name, _, change = _split_name(text)
        _check_once(name, changes, "--of", "Ask once for each change.")
        ends = _split(change, ":")
        if len(ends) > 2:
            raise ConfigError(f"--of: expected two values, h=a:b, got {text!r}. {QUOTES}")
        if len(ends) == 2:
            changes[name] = (ends[0], ends[1])
        else:
            changes[name] = _read_value(ends[0]) or None
    return changes or None


def _read_values(texts: Sequence[str]) -> dict[str, list[Any]] | None:
    """Values by column, from texts such as x=1,2.

    >>> _read_values(["x=1,2", "h=a"])
    {'x': ['1', '2'], 'h': ['a']}
    >>> _read_values(['h="x,y",z'])
    {'h': ['x,y', 'z']}
    """
    values: dict[str, list[Any]] = {}
    for text in texts:
        name, sign, cells = _split_name(text)
        if not sign or not cells:
            raise ConfigError(f"--at: expected values by column, x=1,2, got {text!r}")
        _check_once(name, values, "--at", "Write --at x=1,2 for several values.")
        values[name] = _split(cells, ",")
    return values or None


def _split_name(text: str) -> tuple[str, str, str]:
    """The name before "=", this sign, and the text after it. A name in double quotes may have the
    sign itself."""
    quoted = re.fullmatch('"([^"]+)"(?:(=)(.*))?', text, re.DOTALL)
    if quoted is None:
        return text.partition("=")
    name, sign, value = quoted.groups(default="")
    return name, sign, value


def _split(text: str, mark: str) -> list[str]:
    """The parts between marks. Marks in double quotes divide nothing."""
    if not text:
        return [""]
    try:
        (parts,) = csv.reader([text], delimiter=mark, skipinitialspace=True, strict=True)
    except csv.Error as error:
        raise ConfigError(
            f"--of, --at: expected double quotes around a whole level, got {text!r} ({error}). "
            f"{QUOTES}"
        ) from error
    return [part.strip() for part in parts]


def _check_once(name: str, others: Mapping[str, Any], option: str, remedy: str) -> None:
    """Raises ConfigError for a column that stands twice."""
    if name in others:
        raise ConfigError(f"{option}: expected each column once, got {name!r} twice. {remedy}")


def _read_value(text: str) -> Any:
    """A number, or a text that is none."""
    try:
        return float(text)
    except ValueError:
        return text.strip()
