"""Categories as columns: contrasts, and the factors of a term that have a column for each level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

ORDERS = ("L", "Q", "C")
"""Names of linear, quadratic and cubic contrasts, as in R."""


class Codes(NamedTuple):
    """Columns of the levels of a category.

    Attributes:
      matrix: a row for each level, (levels, columns).
      names: names of the columns.
    """

    matrix: Float[np.ndarray, "L K"]
    names: tuple[str, ...]


def full(levels: Sequence[str]) -> Codes:
    """A column for each level."""
    return Codes(np.eye(len(levels)), tuple(levels))


def treatment(levels: Sequence[str], base: str | None = None) -> Codes:
    """A column for each level but the base, by default the first.

    >>> treatment(["a", "b", "c"], "b").names
    ('a', 'c')
    """
    if base is None:
        base = levels[0]
    places = [place for place, level in enumerate(levels) if level != base]
    return Codes(np.eye(len(levels))[:, places], tuple(levels[place] for place in places))


def sums(levels: Sequence[str], left_out: str | None = None) -> Codes:
    """Deviations of each level but the last from the mean of all levels.

    >>> sums(["a", "b", "c"]).matrix.tolist()
    [[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]
    """
    codes = treatment(levels, levels[-1] if left_out is None else left_out)
    matrix = codes.matrix.copy()
    matrix[~matrix.any(1)] = -1.0
    return Codes(matrix, codes.names)


def helmert(levels: Sequence[str]) -> Codes:
    """Each level but the first against the mean of the levels before it, as in R's `contr.helmert`.

    >>> helmert(["a", "b", "c"]).matrix.tolist()
    [[-1.0, -1.0], [1.0, -1.0], [0.0, 2.0]]
    """
    size = len(levels)
    matrix = np.zeros((size, size - 1))
    for k in range(size - 1):
        matrix[: k + 1, k] = -1.0
        matrix[k + 1, k] = k + 1.0
    return Codes(matrix, tuple(levels[1:]))


def polynomial(levels: Sequence[str]) -> Codes:
    """Linear, quadratic, ... contrasts of equidistant levels, as in R's `contr.poly`.

    >>> polynomial(["a", "b", "c"]).names
    ('L', 'Q')
    """
    # Orthogonal polynomials by a QR of Chebyshev's: a recurrence loses all digits with more than
    # some tens of levels.
    places = np.linspace(-1, 1, len(levels))
    columns, root = np.linalg.qr(np.polynomial.chebyshev.chebvander(places, len(levels) - 1))
    matrix = (columns * np.sign(np.diagonal(root)))[:, 1:]
    names = [ORDERS[k] if k < len(ORDERS) else str(k + 1) for k in range(len(levels) - 1)]
    return Codes(matrix, tuple(names))


BY_NAME: dict[str, Callable[..., Codes]] = {
    "Treatment": treatment,
    "Sum": sums,
    "Helmert": helmert,
    "Poly": polynomial,
}
"""Contrasts by their names in formulas."""

Factor = Any
"""Any hashable object for a factor."""
Subterm = dict[Factor, bool]
"""Factors of a term, and whether each has a column for every level (True) or one fewer."""


def full_ranks(categories: Sequence[Factor], used: set[frozenset[Factor]]) -> list[Subterm]:
    """The parts of a term of categories whose columns do not exist yet, so that no column depends
    on others.

    A category with a column for each level spans the constant and its contrasts. So a term spans
    all subsets of its factors by contrasts. The subsets of other terms are left out, and the
    remaining ones are joined again if a factor may have all its levels. This is the rule of
    Chambers and Hastie (1992, section 2.4) in Smith's form (patsy).

    Args:
      categories: the factors of the term that are categories.
      used: subsets of earlier terms with the same numbers; gets the subsets of this term.

    >>> used = {frozenset()}
    >>> full_ranks(["a"], used), full_ranks(["a", "b"], used)
    ([{'a': False}], [{'a': True, 'b': False}])
    """
    subterms: list[Subterm] = []
    for subset in _subsets(categories):
        if frozenset(subset) not in used:
            used.add(frozenset(subset))
            subterms.append(dict.fromkeys(subset, False))
    while _absorb_one(subterms):
        pass
    return subterms


def _subsets(items: Sequence[Factor]) -> list[tuple[Factor, ...]]:
    """All subsets, small ones first, each in the order of the items."""
    subsets: list[tuple[Factor, ...]] = [()]
    for item in items:
        subsets += [(*subset, item) for subset in subsets]
    places = {item: place for place, item in enumerate(items)}
    return sorted(subsets, key=lambda subset: (len(subset), [places[item] for item in subset]))


def _absorb_one(subterms: list[Subterm]) -> bool:
    """Joins a part with one that has one more factor, by contrasts; that factor then has all its
    levels. True if a pair was joined."""
    for small in subterms:
        for large in subterms:
            extra = [factor for factor in large if factor not in small]
            is_alike = all(large.get(factor) == is_full for factor, is_full in small.items())
            if len(large) == len(small) + 1 and is_alike and len(extra) == 1:
                if large[extra[0]]:
                    continue
                large[extra[0]] = True
                subterms[:] = [part for part in subterms if part is not small]
                return True
    return False
