"""Rows of training as the density of a regression reads them: in units of size one, by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vijax.checks import require
from vijax.models.formulas.effects.crossed_normal import row_sums
from vijax.models.formulas.form import Form
from vijax.models.formulas.formula import Design
from vijax.models.formulas.laws import Law

MOST_NUMBERS = 2**29
"""Most numbers in the rows of a table, padding included."""


def rows_in_units(
    design: Design, law: Law, form: Form, weights: np.ndarray
) -> dict[str, np.ndarray]:
    """The rows of training in units of size one."""
    location = np.array(form.units.location)
    turn = np.array(form.units.turn).reshape(2 * [len(form.labels)])
    turn = turn[:: form.predictors, :: form.predictors]
    x = (design.rows.x - law.is_ordered * np.array(form.centre)) @ turn
    is_constant = np.ptp(x, axis=0) < 1e-9 * np.abs(x).max(0, initial=0.0)
    x = np.where(is_constant, x[:1], x)  # without rounding
    y, offset = design.y, design.rows.offset
    if law.is_location_scale:
        main = design.is_main
        y = (y - design.main_offset - design.rows.x[:, main] @ location[main]) / form.units.size
        offset = _offsets_in_units(form, offset)
    x = np.concatenate([x, design.rows.steps - law.is_ordered * _step_means(form)], 1)
    rows = {"x": x, "y": y, "weight": weights} | _facts_in_units(design, law, form)
    all_rows = np.zeros(len(x), int)
    columns, groups = list(design.rows.z), list(design.rows.groups)
    if form.smooths and not columns:
        columns, groups = [np.zeros((len(x), 0))], [all_rows]
    columns += design.rows.smooths
    groups += [all_rows] * len(form.smooths)
    for i, z in enumerate(columns):
        rows[f"z{i}"] = z / np.array(form.terms[i].sizes[: z.shape[1]])
    rows.setdefault("z0", np.zeros((len(x), 0)))
    rows |= {"trials": design.trials, "offset": offset}
    return rows | {f"group{i}": group for i, group in enumerate(groups)}


def _facts_in_units(design: Design, law: Law, form: Form) -> dict[str, np.ndarray]:
    """The facts of rows of training, in the units of the response."""
    facts = dict(design.facts)
    if not law.is_location_scale:
        return facts
    location = np.array(form.units.location)[design.is_main]
    base = design.main_offset + design.rows.x[:, design.is_main] @ location
    for name in ("end", "lowest", "highest"):
        if name in facts:
            facts[name] = (facts[name] - base) / form.units.size
    if "se" in facts:
        facts["se"] = facts["se"] / form.units.size
    return facts


def _step_means(form: Form) -> np.ndarray:
    """Means of the indicators of all steps of monotone terms."""
    return np.array([mean for term, *_ in form.monotone_terms() for mean in term.centre])


def _offsets_in_units(form: Form, offset: np.ndarray) -> np.ndarray:
    """Offsets in units of size one, where that of the response is subtracted from it."""
    if not form.parameters:
        return np.zeros(len(offset))
    offset = offset.copy()
    offset[:, 0] = 0.0
    if "sigma" in form.parameters:
        offset[:, 1 + form.parameters.index("sigma")] -= np.log(form.units.size)
    return offset


def to_data(
    rows: dict[str, np.ndarray], form: Form, counts: Sequence[int]
) -> dict[str, np.ndarray]:
    """The data of the density. For several factors: all rows as one group, or sums over rows for a
    normal law. For one factor: rows by group, padded with rows of weight zero, or the triangular
    factors of the groups' rows for a normal law. `counts` are the numbers of groups."""
    is_normal = form.is_plain_normal
    if len(counts) > 1:
        group = rows
        if is_normal:
            group = row_sums({**rows, "weight": _squared_scales(rows)}, counts)
            group["count"] = np.array(rows["weight"].sum())
        return {name: values[None] for name, values in group.items()}
    size = len(rows["y"])
    without_factors = np.zeros(size, int) if is_normal else np.arange(size)
    groups = rows["group0"] if counts else without_factors
    unread = ("group0", "trials", "offset") if is_normal else ("group0",)
    columns = {name: values for name, values in rows.items() if name not in unread}
    padded = _pad_groups(columns, groups, max(counts, default=0))
    return _factors(padded) if is_normal else padded


def _pad_groups(
    rows: Mapping[str, np.ndarray], groups: np.ndarray, number: int
) -> dict[str, np.ndarray]:
    """Rows by group, (groups, rows of the largest group, ...); padding has weight zero. Groups
    up to `number` may have no rows."""
    counts = np.bincount(groups, minlength=number)
    order = np.argsort(groups, kind="stable")
    starts = np.cumsum(counts) - counts
    width = sum(int(np.prod(values.shape[1:])) for values in rows.values())
    size = int(counts.max()) * len(counts) * width
    remedy = (
        f"Groups are padded to the largest, of {counts.max():,} rows where the mean is "
        f"{counts.mean():.0f}: divide it, "
        "or leave small groups out."
    )
    expected = f"at most {MOST_NUMBERS:,} numbers, padding included"
    require(size <= MOST_NUMBERS, "table", expected, f"{size:,}", remedy)
    place = np.arange(counts.max())
    is_row = place < counts[:, None]
    starts = np.minimum(starts, len(groups) - 1)[:, None]  # those of empty groups at the end
    places = order[np.where(is_row, starts + place, starts)]
    padded = {name: values[places] for name, values in rows.items()}
    return padded | {"weight": np.where(is_row, padded["weight"], 0.0)}


def _squared_scales(rows: Mapping[str, np.ndarray]) -> np.ndarray:
    """Weights times precisions: the squares by which rows of a normal law are scaled."""
    return rows["weight"] * rows.get("precision", 1.0)


def _factors(rows: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The triangular factors of the groups' rows, for a normal law: they have the same squares in
    as many rows as there are columns, and need no difference of large numbers."""
    weight = np.sqrt(_squared_scales(rows))[..., None]
    table = np.concatenate([rows["z0"], rows["x"], rows["y"][..., None]], 2) * weight
    if table.shape[1] > table.shape[2]:
        table = np.linalg.qr(table, mode="r")
    d = rows["z0"].shape[2]
    factors = {"z0": table[..., :d], "x": table[..., d:-1], "y": table[..., -1]}
    return factors | {"offset": np.zeros_like(factors["y"]), "count": rows["weight"].sum(1)}
