"""`row` and `full_row` make an algorithm of the table: `compose`, and N."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from vijax.contract.model import Model
from vijax.inference.compatibility import check_names
from vijax.inference.compose import SAID_OTHERWISE, Algorithm, compose
from vijax.inference.wrappers.sized import part_of, whole


def row(model: Model, defaults: Mapping[str, Any], choices: Mapping[str, Any]) -> Algorithm:
    """An algorithm with the row's own arguments (`defaults`), replaced by the user's (`choices`).
    With `num_groups` it is `vijax.part_of(alg, num_groups)`.

    Raises:
      TypeError: an unknown argument.
    """
    check_names(choices, [*inspect.signature(compose).parameters, "num_groups"], SAID_OTHERWISE)
    arguments = {**defaults, **choices}
    num_groups = arguments.pop("num_groups", None)
    alg = compose(model, **arguments)
    if num_groups is None:
        return alg
    return part_of(alg, num_groups)


def full_row(model: Model, defaults: Mapping[str, Any], choices: Mapping[str, Any]) -> Algorithm:
    """`row` of an algorithm to which bare data are the whole data set, unless `num_groups` is
    given."""
    alg = row(model, defaults, choices)
    if choices.get("num_groups") is None:
        return whole(alg)
    return alg
