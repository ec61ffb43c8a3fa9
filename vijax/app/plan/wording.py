"""Remedies in the words of the command line: the library names arguments of Python functions."""

from __future__ import annotations

import functools
import re
from collections.abc import Collection

from vijax.app.settings.typed_toml import settings
from vijax.data.reading.checks import REMEDY

PHRASES = {
    "pass longer documents": "read longer documents, or with vijax fit hold none out: --set "
    "data.held_out=0",
    "; to pass the texts themselves, pass a list of them": "",
    "pass the whole vocabulary": "give the whole vocabulary (--set data.vocabulary=FILE)",
    "pass the vocabulary": "give the vocabulary (--set data.vocabulary=FILE)",
    "give vijax.data.ratings ": "",
    r"pass token_pattern='\w+'": r"--set 'data.token_pattern=\w+'",
    "stop_words=None": "--set data.stop_words=none",
    "pass a list of words": 'give a list of words (--set \'data.stop_words=["the", "and"]\')',
}
ANYWHERE_PHRASES = {
    r"Choose a start that draws, such as init=vijax\.init\.local_draws\(\), or leave restarts out": (
        "One is enough: --set fit.restarts=1"
    ),
    r"Give numbers, numpy\.asarray\(table\[.*?\], float\)": "Write the column as numbers",
    r"\b([Oo])r family=\"(\w+)\"": r"\1r --set model.family=\2",
    r"write family=\"(\w+)\"": r"--set model.family=\1",
}
"""Remedies that may stand anywhere in a message, as in warnings and for formulas."""
ARGUMENT = re.compile(r"(?:\bpass )?(?<![\w.])(\w+)=('[^']*'|\.{3}|\w+(?:\.\w+)*)?")


SETTING = re.compile(r"--set\b|\bdata\.[a-z_]+")
AS_TRAINING = "write the data as those of training were written"


def to_command_line_terms(
    message: str, options: Collection[str] = (), has_settings: bool = True
) -> str:
    """The message of an error, with the Python arguments in its remedy as options of the command,
    or else as settings.

    The text before the remedy stays.

    Args:
      message: the text of the error.
      options: the options of the command.
      has_settings: False leaves out those parts of a remedy that name a setting, for commands that
        take none.

    >>> to_command_line_terms("a.csv: expected a column 'text', got none. To mend it: pass column=...; known: 'body'.")
    "a.csv: expected a column 'text', got none. To mend it: --set data.column=COLUMN; known: 'body'."
    >>> to_command_line_terms("format: got 'x'. To mend it: rename the file, or pass format=.", ["format"])
    "format: got 'x'. To mend it: rename the file, or --format FORMAT."
    """
    for phrase, instead in ANYWHERE_PHRASES.items():
        message = re.sub(phrase, instead, message)
    problem, begins, remedy = message.partition(REMEDY)
    for phrase, instead in PHRASES.items():
        remedy = remedy.replace(phrase, instead)
    remedy = ARGUMENT.sub(lambda found: _option(found, options), remedy)
    remedy = re.sub(r"\bpass (?=\w)", "give ", remedy)
    if not has_settings:
        remedy = drop_settings(remedy)
    return problem + begins + remedy


def drop_settings(remedy: str) -> str:
    """The parts of a remedy, divided by semicolons, that need no setting.

    >>> drop_settings("correct the cells; or take rows as they lie: --set data.order=none.")
    'correct the cells.'
    >>> drop_settings("--set data.encoding=cp1252 if that reads well.")
    'write the data as those of training were written.'
    """
    if SETTING.search(remedy) is None:
        return remedy
    parts = [
        part.removeprefix("or ")
        for part in remedy.removesuffix(".").split("; ")
        if not SETTING.search(part)
    ]
    return f"{'; or '.join(parts) or AS_TRAINING}."


def _option(match: re.Match, options: Collection[str]) -> str:
    name = match[1]
    value = (match[2] or "...").strip("'")
    if value == "...":
        value = name.upper()
    if name in options:
        return f"--{name.replace('_', '-')} {value}"
    if name in _settings():
        return f"--set {_settings()[name]}={value}"
    return match[0]


@functools.cache
def _settings() -> dict[str, str]:
    """The dotted key of each setting whose last name is unique, over all models."""
    from vijax.app.catalogue import LISTINGS
    from vijax.app.plan.config import schema

    keys: dict[str, set[str]] = {}
    for model in LISTINGS:
        for key in settings(schema(model)):
            keys.setdefault(key.rpartition(".")[2], set()).add(key)
    return {name: next(iter(full)) for name, full in keys.items() if len(full) == 1}
