"""Designs that no regression is made of, with the reason: responses that a law does not have, a
response without error, coefficients of one name, too many effects."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from vijax.checks import require
from vijax.data.schema.row_names import RowNames
from vijax.models.formulas.formula import Design
from vijax.models.formulas.groups import Factor
from vijax.models.formulas.laws import Law

EXACT = 1e-12
"""A share of the response that least squares leave by rounding alone."""
FIRST_ROWS = 200
"""Rows that tell in most cases whether errors are left."""
MOST_DENSE, MOST_DENSE_NORMAL = 2000, 6000
"""Effects beside those of the largest factor, at most; and of a normal law, whose matrix is
factored seldom."""
LARGEST = {4: 1e30, 8: 1e200}
"""Sizes of numbers that a density can hold, by the bytes of its floats."""
WIDEST = {4: 1e18, 8: 1e140}
"""Spreads whose squares it can hold too; their reciprocals are the narrowest."""
CONSTANT = 1e-13
"""A spread of a smaller share of the size is rounding."""


def check_sizes(design: Design) -> None:
    """Raises ValueError for columns whose size, or spread, the floats of a density cannot hold."""
    width = jnp.result_type(float).itemsize
    largest, widest = LARGEST[width], WIDEST[width]
    expected = (
        f"columns of sizes up to {largest:g} and spreads between {1 / widest:g} and {widest:g}"
    )
    for name, column in (
        (design.response, design.y),
        *zip(design.labels, design.rows.x.T, strict=True),
    ):
        size = float(np.abs(column).max(initial=0.0))
        share = float(
            (column / (size or 1.0)).std()
        )  # in units of its size: the square of 1e-300 is zero
        spread = size * share
        is_fine = size <= largest and (share <= CONSTANT or 1 / widest <= spread <= widest)
        actual = f"{name}, of size {size:.0e} and spread {spread:.0e}"
        require(
            is_fine,
            "table",
            expected,
            actual,
            f"Divide it by a power of ten: another unit of {name}.",
        )


def check_names(design: Design) -> None:
    """Raises ValueError where two coefficients have one name: levels with commas and brackets can
    read alike."""
    names = design.coefficients
    twice = (
        sorted({name for name in names if names.count(name) > 1})
        if len(set(names)) < len(names)
        else []
    )
    actual = f"several called {twice[0]!r}" if twice else ""
    remedy = "Levels with commas, colons or brackets can read alike: rename them."
    require(not twice, "table", "coefficients of distinct names", actual, remedy)


def check_responses(
    y: np.ndarray, trials: np.ndarray, law: Law, response: str, names: RowNames
) -> None:
    """Raises ValueError on responses that the law does not have; rows are named as by `names`."""
    bad = np.flatnonzero(~np.broadcast_to(np.isfinite(y) & law.allows(y, trials), y.shape))
    actual = f"{y[bad[0]]:g} in {names.name(bad[0])} ({len(bad)} such)" if len(bad) else ""
    require(
        not len(bad),
        "family",
        f'{law.expected} for "{law.name}"',
        actual,
        f"The response is {response}.",
    )
    counted = law.name == "binomial" or np.all(trials == 1)
    require(counted, "family", '"binomial" for successes among trials', repr(law.name))


def check_errors(design: Design, weights: np.ndarray) -> None:
    """Raises ValueError where columns and effects of groups give the response exactly: given the
    spreads of groups the likelihood then grows as sigma^-(N - rank) towards zero, so that the
    posterior of sigma has no end there. Where the rank is N it is proper, by the priors of
    coefficients and effects.

    Ever more rows of the groups that have the most are looked at: of most tables the first tell
    that errors are left."""
    kept = np.flatnonzero(weights > 0)
    ranks = [
        np.argsort(np.argsort(-np.bincount(of[kept]), kind="stable"))[of[kept]]
        for of in design.rows.groups
    ]
    order, size = (
        kept[np.argsort(np.max([np.zeros(len(kept)), *ranks], 0), kind="stable")],
        FIRST_ROWS,
    )
    while (left := _residual_share(design, order[:size]))[0] <= EXACT and size < len(kept):
        size *= 2
    share, rank = left
    expected = (
        f"a response that columns{' and groups' if design.factors else ''} do not give exactly"
    )
    actual = f"{design.response}, which they give to {share:.0e} of its size"
    remedy = (
        "No error is left, and sigma would be zero. Leave out the column that the response was "
        "made from."
    )
    if design.factors:
        remedy = (
            f"{remedy[:-1]}; where rows of a group repeat one response, keep one of them and "
            "leave out the group."
        )
    require(share > EXACT or len(kept) <= rank, "table", expected, actual, remedy)


def _residual_share(design: Design, rows: np.ndarray) -> tuple[float, int]:
    """The share of the response that least squares of some rows leave, and the rank of all columns.
    Effects of the first factor are taken out group by group."""
    columns = [design.rows.x[rows], (design.y - design.rows.offset)[rows, None]]
    for z, groups in zip(design.rows.z[1:], design.rows.groups[1:], strict=True):
        _, place = np.unique(groups[rows], return_inverse=True)
        columns.insert(
            0, (np.eye(place.max() + 1)[place][..., None] * z[rows, None]).reshape(len(rows), -1)
        )
    table, rank = _unit(np.concatenate(columns, 1)), 0
    for z, groups in zip(design.rows.z[:1], design.rows.groups[:1], strict=True):
        z, order = _unit(z[rows]), np.argsort(groups[rows], kind="stable")
        for own in np.split(order, 1 + np.flatnonzero(np.diff(groups[rows][order]))):
            basis = _basis(z[own])
            table[own] -= basis @ (basis.T @ table[own])
            rank += basis.shape[1]
    x, y = table[:, :-1], table[:, -1]
    basis = _basis(x)
    return float(np.linalg.norm(y - basis @ (basis.T @ y))), rank + basis.shape[1]


def _unit(columns: np.ndarray) -> np.ndarray:
    """Columns of length one, or zero."""
    sizes = np.linalg.norm(columns, axis=0)
    return columns / np.where(sizes > 0, sizes, 1.0)


def _basis(columns: np.ndarray) -> np.ndarray:
    """Orthonormal columns of the same span; what is shorter than `EXACT` is rounding."""
    vectors, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return vectors[:, sizes > EXACT]


def effects_per_group(design: Design, factor: Factor) -> int:
    """The number of effects of a group."""
    return len(factor.labels) * (len(design.against) or 1)


def check_size(design: Design, law: Law) -> None:
    """Raises ValueError where effects beside those of the largest factor are too many."""
    sizes = {
        factor.name: len(factor.levels) * effects_per_group(design, factor)
        for factor in design.factors
    }
    rest = sum(sizes.values()) - max(sizes.values(), default=0)
    most = MOST_DENSE_NORMAL if law.name == "gaussian" else MOST_DENSE
    expected = f"at most {most:,} effects beside those of the largest factor, whose matrix is dense"
    require(rest <= most, "formula", expected, sizes)
