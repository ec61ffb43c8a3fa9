"""`row` makes an algorithm of the table: `compose`, and wrappers by short arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from vijax.checks import require
from vijax.contract.model import Model
from vijax.inference.compatibility import check_names
from vijax.inference.compose import OLD_ARGUMENTS, Algorithm, compose
from vijax.inference.wrappers.axis import over_axis
from vijax.inference.wrappers.beside import averaged, warm
from vijax.inference.wrappers.sized import part_of, whole
from vijax.topics import all_words, by_words
from vijax.topics.own_words import word_tables

WITH_ARGUMENT: dict[str, Callable[..., Algorithm]] = {
    "num_groups": part_of,
    "axis": over_axis,
    "average_after": averaged,
}
SHORT = (*WITH_ARGUMENT, "full_data", "warm_starts", "lazy", "active_topics", "left_out")
"""Arguments of every named algorithm, each short for a wrapper. Beyond `WITH_ARGUMENT`, these stand
for `vijax.whole`, `vijax.warm`, and `vijax.topics.by_words` with `active` and `left_out`;
`lazy=False` stands for `vijax.topics.all_words`."""


def row(model: Model, defaults: Mapping[str, Any], choices: Mapping[str, Any]) -> Algorithm:
    """An algorithm with the row's own arguments (`defaults`), replaced by the user's (`choices`).

    Raises:
      TypeError: an unknown argument.
    """
    check_names(choices, [*inspect.signature(compose).parameters, *SHORT], OLD_ARGUMENTS)
    arguments = {**defaults, **choices}
    short = {name: arguments.pop(name) for name in SHORT if name in arguments}
    alg = compose(model, **arguments)
    if short.get("full_data") and short.get("num_groups") is None:
        alg = whole(alg)
    for name, wrapper in WITH_ARGUMENT.items():
        if short.get(name) is not None:
            alg = wrapper(alg, short[name])
    if short.get("warm_starts"):
        alg = warm(alg)
    active = short.get("active_topics")
    left_out = short.get("left_out", 0.0)
    if short.get("lazy"):
        return by_words(alg, active, left_out, choices.get("penalty_every"))
    remedy = "Give lazy=True too, or take vijax.topics.by_words(alg, active, left_out)."
    require(active is None, "active_topics", "none without lazy=True", active, remedy)
    require(left_out == 0, "left_out", "0 without active_topics", left_out, remedy)
    return all_words(alg) if short.get("lazy") is False and word_tables(model) else alg
