"""Checks of designs: responses outside the law, a response without error, coefficients with equal
names, too many effects."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from vijax.checks import require
from vijax.data.schema.row_names import RowNames
from vijax.models.formulas.formula import Design
from vijax.models.formulas.groups import Factor
from vijax.models.formulas.laws import Law
from vijax.models.formulas.observation import is_plain_normal

EXACT = 1e-12
"""Share of the response below which residuals of least squares are rounding."""
FIRST_ROWS = 200
"""Rows that show errors for most tables."""
MOST_DENSE, MOST_DENSE_NORMAL = 2000, 6000
"""Most effects of all factors but the largest. A normal law factors its matrix seldom, and so may
have more."""
LARGEST = {4: 1e30, 8: 1e200}
"""Largest numbers that a density can hold, by the bytes of its floats."""
WIDEST = {4: 1e18, 8: 1e140}
"""Largest spreads whose squares it can hold; their reciprocals are the smallest."""
CONSTANT = 1e-13
"""Spread below which, as a share of its size, a column is constant but for rounding."""


def check_sizes(design: Design) -> None:
    """Raises ValueError for columns whose size or spread the floats of a density cannot hold."""
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
        # In units of its size, since the square of 1e-300 is zero.
        share = float((column / (size or 1.0)).std())
        spread = size * share
        is_fine = size <= largest and (share <= CONSTANT or 1 / widest <= spread <= widest)
        actual = f"{name}, of size {size:.0e} and spread {spread:.0e}"
        remedy = f"Divide it by a power of ten: another unit of {name}."
        require(is_fine, "table", expected, actual, remedy)


def check_names(design: Design) -> None:
    """Raises ValueError if two coefficients have one name: levels with commas and brackets can read
    alike."""
    names = design.coefficients
    repeated_names: list[str] = []
    if len(set(names)) < len(names):
        repeated_names = sorted({name for name in names if names.count(name) > 1})
    actual = f"several called {repeated_names[0]!r}" if repeated_names else ""
    remedy = "Levels with commas, colons or brackets can read alike: rename them."
    require(not repeated_names, "table", "coefficients of distinct names", actual, remedy)


def check_responses(
    y: np.ndarray, trials: np.ndarray, law: Law, response: str, names: RowNames
) -> None:
    """Raises ValueError for responses that the law does not allow; `names` names the rows."""
    bad = np.flatnonzero(~np.broadcast_to(np.isfinite(y) & law.allows(y, trials), y.shape))
    actual = f"{y[bad[0]]:g} in {names.name(bad[0])} ({len(bad)} such)" if len(bad) else ""
    expected = f'{law.expected} for "{law.name}"'
    require(not len(bad), "family", expected, actual, f"The response is {response}.")
    has_own_trials = law.takes_trials or np.all(trials == 1)
    require(has_own_trials, "family", '"binomial" for successes among trials', repr(law.name))


def check_errors(design: Design, weights: np.ndarray) -> None:
    """Raises ValueError if columns and effects of groups give the response exactly. Given the
    spreads of groups the likelihood then grows as sigma^-(N - rank) towards sigma = 0, so that the
    posterior of sigma is improper. If the rank is N it is proper, by the priors of coefficients and
    effects.

    The first rows of the largest groups are checked, then twice as many, and so on: for most tables
    the first check already shows errors."""
    rows = np.flatnonzero(weights > 0)
    ranks_by_size = [np.zeros(len(rows))]
    for groups in design.rows.groups:
        sizes = np.bincount(groups[rows])
        ranks_by_size.append(np.argsort(np.argsort(-sizes, kind="stable"))[groups[rows]])
    order = rows[np.argsort(np.max(ranks_by_size, 0), kind="stable")]
    size = FIRST_ROWS
    share, rank = _residual_share(design, order[:size])
    while share <= EXACT and size < len(rows):
        size *= 2
        share, rank = _residual_share(design, order[:size])
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
    require(share > EXACT or len(rows) <= rank, "table", expected, actual, remedy)


def _residual_share(design: Design, rows: np.ndarray) -> tuple[float, int]:
    """The residual of least squares in some rows as a share of the response, and the rank of all
    columns. Effects of the first factor are eliminated group by group."""
    num_steps = sum(size for _, size, slot in design.steps if slot == 0)
    columns = [
        design.rows.x[:, design.is_main][rows],
        design.rows.steps[rows, :num_steps],
        (design.y - design.main_offset)[rows, None],
    ]
    all_z = [
        z[:, np.array(factor.slots) == 0]
        for factor, z in zip(design.factors, design.rows.z, strict=True)
    ]
    for (_, _, slot), x in zip(design.smooths, design.rows.smooths, strict=True):
        if slot == 0:
            columns.insert(0, x[rows])
    for z, groups in zip(all_z[1:], design.rows.groups[1:], strict=True):
        _, place = np.unique(groups[rows], return_inverse=True)
        by_group = np.eye(place.max() + 1)[place][..., None] * z[rows, None]
        columns.insert(0, by_group.reshape(len(rows), -1))
    table = _unit(np.concatenate(columns, 1))
    rank = 0
    for z, groups in zip(all_z[:1], design.rows.groups[:1], strict=True):
        z = _unit(z[rows])
        order = np.argsort(groups[rows], kind="stable")
        ends = 1 + np.flatnonzero(np.diff(groups[rows][order]))
        for group_rows in np.split(order, ends):
            basis = _basis(z[group_rows])
            table[group_rows] -= basis @ (basis.T @ table[group_rows])
            rank += basis.shape[1]
    x, y = table[:, :-1], table[:, -1]
    basis = _basis(x)
    return float(np.linalg.norm(y - basis @ (basis.T @ y))), rank + basis.shape[1]


def _unit(columns: np.ndarray) -> np.ndarray:
    """Columns of length one, or zero."""
    sizes = np.linalg.norm(columns, axis=0)
    return columns / np.where(sizes > 0, sizes, 1.0)


def _basis(columns: np.ndarray) -> np.ndarray:
    """Orthonormal columns of the same span, up to directions shorter than `EXACT`."""
    vectors, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return vectors[:, sizes > EXACT]


def effects_per_group(design: Design, factor: Factor) -> int:
    """Number of effects of a group."""
    return len(factor.labels) * (len(design.against) or 1)


def check_size(design: Design, law: Law) -> None:
    """Raises ValueError if the factors beside the largest have too many effects."""
    sizes = {
        factor.name: len(factor.levels) * effects_per_group(design, factor)
        for factor in design.factors
    }
    num_others = sum(sizes.values()) - max(sizes.values(), default=0)
    for name, size, _ in design.smooths:
        sizes[name] = size * (len(design.against) or 1)
        num_others += sizes[name]
    most_dense = MOST_DENSE
    if is_plain_normal(law.name, bool(design.further), design.facts):
        most_dense = MOST_DENSE_NORMAL
    expected = (
        f"at most {most_dense:,} effects beside those of the largest factor, whose matrix is dense"
    )
    require(num_others <= most_dense, "formula", expected, sizes)
