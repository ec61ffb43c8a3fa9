"""Densities of regressions that differ in numbers alone: units, priors and the rows themselves.

A `Form` of one response is split into a form that all responses share and into its numbers. Numbers
that are traced make a form again inside a compiled program, so that one program has all of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vijax.models.formulas.form import Form
from vijax.models.formulas.form.parts import Effects, Units

Numbers = dict[str, Any]
"""The numbers of a form by name; those of priors are a list."""


def split(form: Form, effects: tuple[Effects, ...]) -> tuple[Form, Numbers]:
    """The form that all responses share, and the numbers of this one. `effects` have the units of
    the effects of groups that all responses share."""
    p = len(form.labels)
    constant = form.constant
    for term, shared in zip(form.effects, effects, strict=True):
        constant += sum(map(math.log, term.sizes)) - sum(map(math.log, shared.sizes))
    units = Units((0.0,) * p, (0.0,) * p, tuple(map(tuple, np.eye(p).tolist())), 1.0, (1.0,) * p)
    shared_form = dataclasses.replace(
        form,
        effects=effects,
        centre=(0.0,) * len(form.centre),
        units=units,
        priors=tuple((name, (prior[0], *(1.0,) * len(prior[1:]))) for name, prior in form.priors),
        constant=0.0,
    )
    numbers = {
        "location": np.array(form.units.location),
        "shift": np.array(form.units.shift),
        "turn": np.array(form.units.turn).reshape(p, p),
        "size": np.array(form.units.size),
        "sizes": np.array(form.units.sizes),
        "centre": np.array(form.centre),
        "constant": np.array(constant),
        "priors": [np.array(prior[1:], float) for _, prior in form.priors],
    }
    return shared_form, numbers


def join(shared: Form, numbers: Mapping[str, Any]) -> Form:
    """The form with these numbers, which may be traced."""
    units = Units(*(numbers[name] for name in Units._fields))
    pairs = zip(shared.priors, numbers["priors"], strict=True)
    priors = tuple((name, (prior[0], *x)) for (name, prior), x in pairs)
    return dataclasses.replace(
        shared,
        units=units,
        centre=tuple(numbers["centre"]),
        priors=priors,
        constant=numbers["constant"],
    )


def stack(parts: Sequence[Any]) -> Any:
    """Dicts, lists and arrays of one structure, stacked along a first axis."""
    first = parts[0]
    if isinstance(first, dict):
        return {name: stack([part[name] for part in parts]) for name in first}
    if isinstance(first, list):
        return [stack([part[i] for part in parts]) for i in range(len(first))]
    return np.stack(parts)
