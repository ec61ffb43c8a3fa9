"""Rows of training as the density of a regression reads them: in units of size one, and by
group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vijax.checks import require
from vijax.models.formulas.effects.crossed_normal import row_sums
from vijax.models.formulas.form import Form
from vijax.models.formulas.formula import Design
from vijax.models.formulas.laws import Law

MOST_NUMBERS = 2**29
"""Numbers of the rows of a table, with padding, at most."""


def rows_in_units(
    design: Design, law: Law, form: Form, weights: np.ndarray
) -> dict[str, np.ndarray]:
    """The rows of training in units of size one."""
    location, turn = (
        np.array(form.units.location),
        np.array(form.units.turn).reshape(2 * [len(form.labels)]),
    )
    turn = turn[:: form.predictors, :: form.predictors]
    x, offset = (design.rows.x - law.is_ordered * np.array(form.centre)) @ turn, design.rows.offset
    x = np.where(
        np.ptp(x, axis=0) < 1e-9 * np.abs(x).max(0, initial=0.0), x[:1], x
    )  # a constant, without rounding
    z = {
        f"z{i}": z / np.array(form.effects[i].sizes[: z.shape[1]])
        for i, z in enumerate(design.rows.z)
    }
    y = (
        (design.y - offset - design.rows.x @ location) / form.units.size
        if law.is_location_scale
        else design.y
    )
    rows = {"x": x, "y": y, "weight": weights, **(z or {"z0": np.zeros((len(x), 0))})}
    rows |= {
        "trials": design.trials,
        "offset": np.zeros(len(x)) if law.is_location_scale else offset,
    }
    return rows | {f"group{i}": groups for i, groups in enumerate(design.rows.groups)}


def to_data(rows: dict[str, np.ndarray], law: Law, counts: Sequence[int]) -> dict[str, np.ndarray]:
    """Rows by group, padded with rows of weight zero; of a normal law the triangular factors of the
    groups' rows. Of several factors, with these numbers of groups, all rows as one group, or sums
    over them."""
    normal = law.name == "gaussian"
    if len(counts) > 1:
        return {
            name: values[None]
            for name, values in (row_sums(rows, counts) if normal else rows).items()
        }
    size = len(rows["y"])
    groups = rows["group0"] if counts else np.zeros(size, int) if normal else np.arange(size)
    left_out = ("group0", "trials", "offset") if normal else ("group0",)
    padded = _pad_groups(
        {name: values for name, values in rows.items() if name not in left_out}, groups
    )
    return _factors(padded) if normal else padded


def _pad_groups(rows: Mapping[str, np.ndarray], groups: np.ndarray) -> dict[str, np.ndarray]:
    counts = np.bincount(groups)
    order = np.argsort(groups, kind="stable")
    starts = np.cumsum(counts) - counts
    width = sum(int(np.prod(values.shape[1:])) for values in rows.values())
    size = int(counts.max()) * len(counts) * width
    remedy = (
        f"Groups are padded to the largest, of {counts.max():,} rows where the mean is "
        f"{counts.mean():.0f}: divide it, "
        "or leave small groups out."
    )
    require(
        size <= MOST_NUMBERS,
        "table",
        f"at most {MOST_NUMBERS:,} numbers, padding included",
        f"{size:,}",
        remedy,
    )
    place = np.arange(counts.max())
    there = place < counts[:, None]
    at = order[np.where(there, starts[:, None] + place, starts[:, None])]
    padded = {name: values[at] for name, values in rows.items()}
    return padded | {"weight": np.where(there, padded["weight"], 0.0)}


def _factors(rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Groups of a normal law, as the triangular factors of their rows: of the same squares, in as
    many rows as there are columns, and without a difference of large numbers."""
    weight = np.sqrt(rows["weight"])[..., None]
    table = np.concatenate([rows["z0"], rows["x"], rows["y"][..., None]], 2) * weight
    if table.shape[1] > table.shape[2]:
        table = np.linalg.qr(table, mode="r")
    d = rows["z0"].shape[2]
    factors = {"z0": table[..., :d], "x": table[..., d:-1], "y": table[..., -1]}
    return factors | {"offset": np.zeros_like(factors["y"]), "count": rows["weight"].sum(1)}
