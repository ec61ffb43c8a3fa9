"""The commands of `vijax`. Arguments, types and texts of `--help` are those of these functions.

A command reads its options, calls one function of another floor, prints, and returns an exit code.
What it does is on those floors. Errors and the start of the program are in `cli`."""

from __future__ import annotations

from collections.abc import Callable

from vijax.app.commands.before_runs import configs, init, many, prepare, settings, version
from vijax.app.commands.from_runs import (
    effects,
    evaluate,
    predict,
    report,
    shares,
    summary,
    topics,
    transform,
)
from vijax.app.commands.of_runs import check, compare, edit, fit, resume

LISTED = (
    fit,
    resume,
    compare,
    summary,
    topics,
    transform,
    predict,
    shares,
    effects,
    evaluate,
    check,
    edit,
    report,
    many,
    init,
    prepare,
    configs,
    settings,
    version,
)
"""In the order of `vijax --help`."""
COMMANDS: dict[str, Callable[..., int]] = {command.__name__: command for command in LISTED}
