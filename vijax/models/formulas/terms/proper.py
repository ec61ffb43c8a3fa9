"""Posteriors under flat priors of coefficients: where the data leave them improper.

The log likelihood of a row falls without end as its predictor grows, falls, or does both. With flat
priors the posterior is improper if there is a direction d of the coefficients along which no row
falls (Albert and Anderson 1984; Chen and Shao 2001, theorem 1, for binary rows). Each row gives
conditions on x d: = 0 where it falls on both sides, >= 0 or <= 0 where on one. They are a cone A d
>= 0, and a linear program looks for a direction in it. Rows without a condition are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy import optimize

from vijax.checks import require
from vijax.models.formulas.formula import Design, name_at_level
from vijax.models.formulas.laws import Law
from vijax.models.formulas.observation import STATUS
from vijax.models.formulas.priors import FLAT_KINDS, Prior

FIRST_CONDITIONS = 1000
"""Conditions that are looked at first; more only where these leave a direction."""
ROUNDING = 1e-9
"""Singular values, and gains of directions, below it are zero; columns have size one."""
LEAST_PART = 1e-4
"""Least part of a coefficient in a direction that is named."""
MOST_NAMED = 5
ENDLESS = ("wald", "vonmises")
"""Laws whose density does not vanish as the predictor grows: of all rows at once."""
REMEDY = (
    'Give proper priors: priors={{"*": "flat", "{name}": ("normal", 0, 2.5)}}, or leave out '
    '"{name}".'
)


def check_flat(
    design: Design, law: Law, priors: Mapping[str, Prior], weights: Float[np.ndarray, " N"]
) -> None:
    """Raises ValueError if flat priors leave the posterior improper; the error names the
    coefficients."""
    fault = find_fault(design, law, priors, weights)
    if fault is not None:
        require(False, "priors", *fault)


def find_fault(
    design: Design, law: Law, priors: Mapping[str, Prior], weights: Float[np.ndarray, " N"]
) -> tuple[str, str, str] | None:
    """The expected, the actual and the remedy where a posterior is improper; else None."""
    is_flat = {name for name, prior in priors.items() if prior[0] in FLAT_KINDS}
    if not is_flat:
        return None
    names, cone = _conditions(design, law, is_flat, weights)
    expected = "data from which a posterior under flat priors is proper"
    if names and law.name in ENDLESS:
        actual = f"{law.name!r}, whose likelihood stays as the predictor grows"
        return expected, actual, "Flat priors are for other families: leave priors= out."
    if names and {"lowest", "highest"} & design.facts.keys():
        actual = "a truncated response, whose likelihood stays as mean and spread grow together"
        return expected, actual, "Leave priors= out."
    direction = find_direction(cone)
    if direction is not None:
        parts = np.abs(direction) > LEAST_PART * np.abs(direction).max()
        culprits = [name for name, is_part in zip(names, parts, strict=True) if is_part]
        actual = (
            "rows whose likelihood does not fall along a direction of "
            f"{culprits[:MOST_NAMED]}: columns depend on others, or separate the responses"
        )
        return expected, actual, REMEDY.format(name=culprits[-1])
    flat_lengths = [name for name in is_flat if "_ell" in name and name not in names]
    for process, kernel in design.kernels.items():
        for name in kernel.length_names(process):
            if any(flat.startswith(name) for flat in flat_lengths):
                actual = f"a flat prior of {name}, of which long ones are all alike"
                remedy = f'Give it a prior: "{name}": ("lognormal", 1, 0.8).'
                return expected, actual, remedy
    fault = _sigma_fault(design, law, priors, weights)
    if fault is not None:
        return fault
    return _sd_fault(design, law, priors, weights)


def find_direction(cone: Float[np.ndarray, "C p"]) -> Float[np.ndarray, " p"] | None:
    """A direction d with A d >= 0; None where there is only zero.

    >>> separated = np.array([[1.0, 2.0], [-1.0, 3.0]])
    >>> find_direction(separated) is not None, find_direction(np.vstack([separated, -separated]))
    (True, None)
    """
    p = cone.shape[1]
    if not p:
        return None
    sizes = np.abs(cone).max(0, initial=0.0)
    if np.any(sizes == 0):
        return (sizes == 0).astype(float)
    cone = np.unique(cone / sizes, axis=0)
    order = np.random.default_rng(0).permutation(len(cone))
    cone = cone[order]
    size = FIRST_CONDITIONS
    while True:  # more conditions have fewer directions
        direction = _search(cone[:size])
        if direction is None:
            return None
        if size >= len(cone):
            return direction / sizes
        size *= 4


def _search(cone: np.ndarray) -> np.ndarray | None:
    """A direction of the null space, or one with the largest sum of A d in a box."""
    _, values, vectors = np.linalg.svd(cone, full_matrices=True)
    rank = int(np.sum(values > ROUNDING * np.sqrt(len(cone))))
    if rank < cone.shape[1]:
        return vectors[-1]
    best = optimize.linprog(-cone.sum(0), A_ub=-cone, b_ub=np.zeros(len(cone)), bounds=(-1, 1))
    if best.status != 0 or -best.fun <= ROUNDING * len(cone) ** 0.5:
        return None
    return best.x


# --- conditions of rows ---------------------------------------------------------------------------
def _conditions(
    design: Design, law: Law, is_flat: set[str], weights: np.ndarray
) -> tuple[list[str], Float[np.ndarray, "C p"]]:
    """The coefficients with flat priors, and the conditions A on their directions."""
    rows = np.flatnonzero(weights > 0)
    levels = design.against or (None,)
    labels = [label for label, slot in zip(design.labels, design.slots, strict=True) if slot == 0]
    x, y = design.rows.x[rows][:, design.is_main], design.y[rows]
    wanted = np.array([name_at_level(label, levels[0]) in is_flat for label in labels], bool)
    if design.against:
        names = [name_at_level(label, level) for label in labels for level in levels]
        places = [i for i, name in enumerate(names) if name in is_flat]
        cone = _named_conditions(x, _seen_categories(law, y, len(levels) + 1))
        return [names[i] for i in places], cone[:, places]
    names = [label for label in labels if label in is_flat]
    x = x[:, wanted]
    if law.is_ordered:
        cuts = [f"threshold[{k}]" for k in range(len(design.levels) - 1)]
        all_names = [*cuts, *design.labels]
        cone = _ordered_conditions(design, rows, len(cuts), law.has_steps)
        places = [i for i, name in enumerate(all_names) if name in is_flat]
        return [all_names[i] for i in places], cone[:, places]
    rises, falls = _free_sides(law, y, design.trials[rows], design.facts, rows)
    return names, np.concatenate([x[~falls], -x[~rises]])


def _free_sides(
    law: Law, y: np.ndarray, trials: np.ndarray, facts: Mapping[str, Any], rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """True for rows whose likelihood does not vanish as the predictor rises; and as it falls."""
    none = np.zeros(len(y), bool)
    if "status" in facts:
        status = facts["status"][rows]
        return status == STATUS["right"], status == STATUS["left"]
    if law.name == "bernoulli" or law.takes_trials:
        rises, falls = y == trials, y == 0
        if law.name == "zero_inflated_binomial":
            return rises | (y == 0), falls
        return rises, falls
    if law.name in ("poisson", "negativebinomial"):
        return none, y == 0
    if law.name.startswith("hurdle_") and law.is_cut:
        return y == 0, y <= 1
    if law.name.startswith(("zero_inflated_", "hurdle_")):
        return y == 0, y == 0
    return none, none


def _named_conditions(
    x: Float[np.ndarray, "N q"], is_seen: Bool[np.ndarray, "N K"]
) -> Float[np.ndarray, "C coefficients"]:
    """x d_y >= x d_k for the categories y of a row and each other category k, d = 0 of the base."""
    parts = []
    number = is_seen.shape[1] - 1
    for category in range(number + 1):
        category_rows = x[is_seen[:, category]]
        for rival in range(number + 1):
            if rival == category:
                continue
            block = np.zeros((len(category_rows), x.shape[1], number))
            if category:
                block[:, :, category - 1] += category_rows
            if rival:
                block[:, :, rival - 1] -= category_rows
            parts.append(block.reshape(len(category_rows), x.shape[1] * number))
    return np.concatenate(parts)


def _seen_categories(law: Law, y: np.ndarray, number: int) -> Bool[np.ndarray, "N K"]:
    """True for the categories that a row has."""
    if law.has_counts:
        return y > 0
    return y.astype(int)[:, None] == np.arange(number)


def _ordered_conditions(
    design: Design, rows: np.ndarray, cuts: int, has_steps: bool
) -> Float[np.ndarray, "C cuts+p"]:
    """d_y - x d >= 0 below the cutpoint above a row, and x d - d_k >= 0 above the one below it, k =
    y - 1; of steps above all of them."""
    x, y = design.rows.x[rows], design.y[rows].astype(int)
    slots = np.array(design.slots, int)
    parts = []
    for k in range(cuts):
        columns = x * ((slots == 0) | (slots == k + 1))
        cut = np.zeros((len(x), cuts))
        cut[:, k] = 1.0
        margin = np.concatenate([cut, -columns], 1)
        goes_on = y == k + 1
        if has_steps:
            goes_on = y > k
        parts += [margin[y == k], -margin[goes_on]]
    return np.concatenate(parts)


# --- spreads --------------------------------------------------------------------------------------
def _sigma_fault(
    design: Design, law: Law, priors: Mapping[str, Prior], weights: np.ndarray
) -> tuple[str, str, str] | None:
    """A flat prior of sigma needs two rows more than there are flat coefficients. Rows count whose
    likelihood falls as 1 / sigma: not those beyond one bound, which tends to 1/2, and not those
    truncated on both sides, which tends to one over the width."""
    if priors.get("sigma", ("",))[0] not in FLAT_KINDS:
        return None
    counts = np.ones(len(design.y), bool)
    if law.name.startswith("hurdle"):  # zeros say nothing of sigma
        counts = design.y != 0
    facts = design.facts
    if "status" in facts:
        counts = (facts["status"] == STATUS["none"]) | (facts["status"] == STATUS["interval"])
    if "lowest" in facts and "highest" in facts:
        counts = ~(np.isfinite(facts["lowest"]) & np.isfinite(facts["highest"]))
    total = float(weights[counts].sum())
    flat = sum(prior[0] in FLAT_KINDS for name, prior in priors.items() if name in design.labels)
    if total - flat > 1:
        return None
    number = f"more than {flat + 1} rows that tell sigma"
    expected = f"{number}, for flat priors of sigma and {flat} coefficients"
    return expected, f"{total:g}", 'Give sigma a prior: "sigma": ("half_normal", 1).'


def _sd_fault(
    design: Design, law: Law, priors: Mapping[str, Prior], weights: np.ndarray
) -> tuple[str, str, str] | None:
    """A flat prior of an sd of groups needs two groups more than coefficients between groups, which
    its effects can replace (Gelman 2006, section 3.2; three groups for an intercept). Groups count
    whose likelihood vanishes as their effect grows on either side."""
    rows = np.flatnonzero(weights > 0)
    x = design.rows.x[rows][:, design.is_main]
    for factor, z, groups in zip(design.factors, design.rows.z, design.rows.groups, strict=True):
        for i, label in enumerate(factor.labels):
            names = [
                name_at_level(f"{label}|{factor.name}_sigma", level)
                for level in design.against or (None,)
            ]
            if not any(priors[name][0] in FLAT_KINDS for name in names):
                continue
            between = _shared_dimensions(x, z[rows, i], groups[rows])
            bounded = _bounded_groups(design, law, z[:, i], groups, weights)
            if bounded - between < 2:
                expected = f"{between + 2} groups of {factor.name!r} or more whose responses differ"
                remedy = f'Give it a prior: "{names[0]}": ("half_normal", 1).'
                return f"{expected}, for a flat prior of {names[0]}", f"{bounded}", remedy
    return None


def _bounded_groups(
    design: Design, law: Law, z: np.ndarray, groups: np.ndarray, weights: np.ndarray
) -> int:
    """The number of groups whose likelihood vanishes as their effect rises, and as it falls."""
    y, size = design.y, int(groups.max()) + 1
    counts = (weights > 0) & (z != 0)
    if law.is_named:
        rows, categories = np.nonzero(_seen_categories(law, y[counts], len(design.levels)))
        pairs = np.unique(np.stack([groups[counts][rows], categories], 1), axis=0)
        return int(np.sum(np.bincount(pairs[:, 0], minlength=size) > 1))
    rises, falls = _free_sides(law, y, design.trials, design.facts, np.arange(len(y)))
    if law.is_ordered:
        rises, falls = y == len(design.levels) - 1, y == 0
    ends_above = np.where(z > 0, ~rises, ~falls) & counts
    ends_below = np.where(z > 0, ~falls, ~rises) & counts
    has_end = [
        np.bincount(groups[is_end], minlength=size) > 0 for is_end in (ends_above, ends_below)
    ]
    return int(np.sum(has_end[0] & has_end[1]))


def _shared_dimensions(x: np.ndarray, z: np.ndarray, groups: np.ndarray) -> int:
    """The number of dimensions that columns and the columns of a group effect share."""
    sizes = np.bincount(groups, z**2)
    products = np.stack([np.bincount(groups, z * column, len(sizes)) for column in x.T], 1)
    slopes = products / np.where(sizes > 0, sizes, 1.0)[:, None]
    remainder = x - z[:, None] * slopes[groups]
    rank: Any = np.linalg.matrix_rank
    return int(rank(x)) - int(rank(remainder, tol=ROUNDING * np.abs(x).max() * len(x) ** 0.5))
