"""Coefficients and sds that the data of a regression do not tell apart, so that their priors do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from vijax.data.formulas.functions import find_columns
from vijax.models.formulas.formula import Design
from vijax.models.formulas.groups import Factor
from vijax.models.formulas.laws import Law
from vijax.models.formulas.laws.law import mean_direction

ROUNDING = 1e-9
"""Length below which what other columns leave of a column, as a share of it, is rounding."""
EPS = 10 * float(np.finfo(float).eps)
LEAST_PART = 1e-6
"""Least coefficient of a column that has a part in another."""
FAR_DIRECTION = 2.5
"""Radians of a mean direction beyond which angles are about the end of the link."""
MOST_NAMED = 5
"""Most columns that a sentence names."""


class OnlyPriorWarning(UserWarning):
    """A coefficient, or an sd of groups, that only its prior tells; levels without means; angles
    about a direction that the link does not reach."""


def prior_notes(
    design: Design, law: Law, weights: Float[np.ndarray, " N"] | None
) -> tuple[str, ...]:
    """A sentence for each kind of unknowns that the data of a regression do not tell.

    >>> from vijax.models.formulas.formula import read
    >>> from vijax.models.formulas.laws import LAWS
    >>> table = {"y": [1.0, 2.0, 4.0], "x": [1.0, 2.0, 0.0], "c": [5.0, 5.0, 5.0]}
    >>> for note in prior_notes(read("y ~ x + c", table), LAWS["gaussian"], np.ones(3)): print(note)
    'c' is constant beside the intercept: the data do not tell its coefficient, which has its prior.
    """
    if weights is None:
        weights = np.ones(len(design.y))
    rows = np.flatnonzero(weights > 0)
    notes = []
    for slot in range(1 + len(design.further)):
        notes += _column_notes(design, law, rows, slot)
    notes += _mean_notes(design)
    for i, factor in enumerate(design.factors):
        notes += _group_notes(design, factor, np.bincount(design.rows.groups[i][rows]))
        if law.name == "gaussian" and "1" in factor.labels and not (design.further or design.facts):
            notes += _row_notes(factor, np.bincount(design.rows.groups[i], weights))
    if law.is_circular:
        notes += _direction_notes(design, weights)
    return tuple(notes)


# --- columns --------------------------------------------------------------------------------------
def _column_notes(design: Design, law: Law, rows: np.ndarray, slot: int) -> list[str]:
    """Sentences on columns of a predictor that are constant, or that depend on columns before
    them."""
    intercept = f"{design.prefixes[slot]}Intercept"
    own_slots = zip(design.labels, design.slots, strict=True)
    is_slope = np.array(
        [label != intercept and column_slot == slot for label, column_slot in own_slots], bool
    )
    labels = [label for label, is_own in zip(design.labels, is_slope, strict=True) if is_own]
    x = design.rows.x[rows][:, is_slope]
    has_level = law.is_ordered or intercept in design.labels  # cutpoints are intercepts
    sizes = np.abs(x).max(0, initial=0.0)
    if has_level:
        x = x - x.mean(0)
    lengths = np.sqrt(np.mean(x**2, 0))
    is_constant = lengths <= EPS * sizes
    notes = []
    if is_constant.any():
        notes.append(_constant_note(np.array(labels)[is_constant].tolist(), has_level))
    varying = np.flatnonzero(~is_constant)
    dependences = _find_dependences(
        x[:, varying] / lengths[varying], sizes[varying] / lengths[varying]
    )
    if dependences:
        names = [labels[place] for place in varying]
        pairs = [(names[j], [names[i] for i in sources]) for j, sources in dependences]
        notes.append(_dependence_note(pairs))
    return notes


def _constant_note(names: list[str], has_level: bool) -> str:
    verb, object_text = "are", "their coefficients, which have their priors"
    if len(names) == 1:
        verb, object_text = "is", "its coefficient, which has its prior"
    fault = "zero in all rows"
    if has_level:
        fault = "constant beside the intercept"
    return f"{_quoted_list(names)} {verb} {fault}: the data do not tell {object_text}."


def _dependence_note(pairs: list[tuple[str, list[str]]]) -> str:
    parts = [f"{name!r} from {_quoted_list(sources)}" for name, sources in pairs[:MOST_NAMED]]
    tail = ""
    if len(pairs) > MOST_NAMED:
        tail = f", and {len(pairs) - MOST_NAMED:,} more"
    return (
        f"Columns follow from those before them ({'; '.join(parts)}{tail}): the data tell only "
        "sums of such coefficients, and their priors divide these."
    )


def _find_dependences(
    x: Float[np.ndarray, "N p"], condition: Float[np.ndarray, " p"]
) -> list[tuple[int, list[int]]]:
    """Columns that earlier ones give but for rounding, each with these; columns have mean square
    one. `condition` is the size of the numbers in each column as a multiple of its spread."""
    size, p = x.shape
    if not p:
        return []
    triangle = np.asarray(np.linalg.qr(x / np.sqrt(size), mode="r"))
    limit = ROUNDING + EPS * np.maximum.accumulate(condition)
    if len(triangle) == p and np.all(np.abs(np.diagonal(triangle)) > limit):
        return []
    remainders = triangle.copy()
    bases: list[int] = []
    dependences = []
    for j in range(p):
        length = np.linalg.norm(remainders[:, j])
        if length > limit[j]:
            bases.append(j)
            direction = remainders[:, j] / length
            remainders -= direction[:, None] * (direction @ remainders)
        else:
            dependences.append((j, _find_parts(triangle, bases, j)))
    return dependences


def _find_parts(triangle: np.ndarray, bases: list[int], j: int) -> list[int]:
    """The columns among `bases` whose combination column j is."""
    solution = np.linalg.lstsq(triangle[:, bases], triangle[:, j], rcond=None)[0]
    return np.array(bases)[np.abs(solution) > LEAST_PART].tolist()


def _mean_notes(design: Design) -> Iterator[str]:
    """Sentences on smooth functions of levels that have no means of their own: each function is
    about zero."""
    grouping = {name for factor in design.factors for name in factor.columns}
    for learnt in design.learnt:
        categories = {
            learnt.categories[part.term[0]].column.name
            for part in learnt.parts
            if len(part.term) == 1 and part.term[0] in learnt.categories
        }
        for term in learnt.smooths:
            if term.by is None or term.levels is None or term.kernel is not None:
                continue  # the mean of a Gaussian process is free
            name = next(iter(find_columns(term.by)))
            if name not in categories | grouping:
                yield (
                    f"The functions {term.node} have mean zero, so that levels of {name!r} differ "
                    f"in shape alone: write {term.by} + {term.node} for means of their own."
                )


def _direction_notes(design: Design, weights: np.ndarray) -> Iterator[str]:
    """A sentence on angles about pi, where the link ends."""
    centre = mean_direction(design.y, weights)
    if abs(centre) > FAR_DIRECTION:
        name = design.response
        yield (
            f"The mean direction of {name!r} is {centre:.2f}: the link, tan(m / 2), ends at pi, so "
            "that no coefficient leads across it. Give angles about another direction, "
            f"numpy.angle(numpy.exp(1j * ({name} - {centre:.2f}))), and add it to predictions."
        )


# --- groups ---------------------------------------------------------------------------------------
def _group_notes(design: Design, factor: Factor, counts: np.ndarray) -> Iterator[str]:
    """Sentences on a factor of one group, and on one whose levels are columns too."""
    sds = ", ".join(f"{label}|{factor.name}_sigma" for label in factor.labels)
    if np.count_nonzero(counts) == 1:
        yield (
            f"{factor.name!r} has one group: the data hardly tell {sds} and its effects, which "
            "have their priors."
        )
        return
    main_effects = [part.term for part in design.common.parts if len(part.term) == 1]
    for node, category in design.common.categories.items():
        if (node,) in main_effects and (category.column.name,) == factor.columns:
            yield (
                f"{factor.name!r} has a coefficient and an effect for each level: the data tell "
                f"only their sums, which the prior of {sds} divides."
            )
            return


def _row_notes(factor: Factor, counts: np.ndarray) -> Iterator[str]:
    """A sentence on a factor with a group for each row of a normal law."""
    if len(counts) > 1 and np.all(counts[counts > 0] == 1):
        yield (
            f"Each row has a group of {factor.name!r} of its own: the data tell only the sum of "
            f"the squares of 1|{factor.name}_sigma and sigma, which their priors divide."
        )


def _quoted_list(names: list[str]) -> str:
    quoted = [repr(name) for name in names[:MOST_NAMED]]
    tail = ""
    if len(names) > MOST_NAMED:
        tail = f" and {len(names) - MOST_NAMED:,} more"
    return ", ".join(quoted) + tail
