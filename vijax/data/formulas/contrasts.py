"""Categories as columns: codes with one column less than there are levels, and which factors of a
term have them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

ORDERS = ("L", "Q", "C")
"""Names of linear, quadratic and cubic contrasts, as R has them."""


class Codes(NamedTuple):
    """Columns of the levels of a category.

    Attributes:
      matrix: a row for each level, (levels, columns).
      names: of the columns.
    """

    matrix: Float[np.ndarray, "L K"]
    names: tuple[str, ...]


def full(levels: Sequence[str]) -> Codes:
    """A column for each level."""
    return Codes(np.eye(len(levels)), tuple(levels))


def treatment(levels: Sequence[str], base: str | None = None) -> Codes:
    """A column for each level but the base, the first one.

    >>> treatment(["a", "b", "c"], "b").names
    ('a', 'c')
    """
    kept = [
        place
        for place, level in enumerate(levels)
        if level != (levels[0] if base is None else base)
    ]
    return Codes(np.eye(len(levels))[:, kept], tuple(levels[place] for place in kept))


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
    """Each level but the first against the mean of those before it, as R's `contr.helmert` has
    them.

    >>> helmert(["a", "b", "c"]).matrix.tolist()
    [[-1.0, -1.0], [1.0, -1.0], [0.0, 2.0]]
    """
    size = len(levels)
    matrix = np.array(
        [
            [-1.0 if row <= k else k + 1.0 if row == k + 1 else 0.0 for k in range(size - 1)]
            for row in range(size)
        ]
    )
    return Codes(matrix, tuple(levels[1:]))


def polynomial(levels: Sequence[str]) -> Codes:
    """Linear, quadratic, ... contrasts of levels at equal distances, as R's `contr.poly` has them.

    >>> polynomial(["a", "b", "c"]).names
    ('L', 'Q')
    """
    # Orthogonal polynomials by a QR of Chebyshev's: a recurrence loses all digits beyond some tens
    # of levels.
    columns, root = np.linalg.qr(
        np.polynomial.chebyshev.chebvander(np.linspace(-1, 1, len(levels)), len(levels) - 1)
    )
    matrix = (columns * np.sign(np.diagonal(root)))[:, 1:]
    names = [ORDERS[k] if k < len(ORDERS) else str(k + 1) for k in range(len(levels) - 1)]
    return Codes(matrix, tuple(names))


BY_NAME: dict[str, Callable[..., Codes]] = {
    "Treatment": treatment,
    "Sum": sums,
    "Helmert": helmert,
    "Poly": polynomial,
}
"""Contrasts by the names that a formula has for them."""

Factor = Any
"""Whatever stands for a factor; it has a hash."""
Subterm = dict[Factor, bool]
"""Factors of a term, and whether each has a column for every level (True) or one less."""


def full_ranks(categories: Sequence[Factor], used: set[frozenset[Factor]]) -> list[Subterm]:
    """The parts of a term of categories whose columns are not yet there, so that no column depends
    on others.

    A category with a column for each level spans the constant and its contrasts. A term therefore
    spans all subsets of its factors by contrasts; what other terms have already is left out, and
    the rest is put together again where a factor may have all its levels. This is the rule of
    Chambers and Hastie (1992, section 2.4) in Smith's form (patsy).

    Args:
      categories: the factors of the term that are categories.
      used: subsets that earlier terms, with the same numbers, have; those of this one are added.

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
    """Puts one part into another that has one factor more, by contrasts: that factor then has all
    its levels."""
    for small in subterms:
        for large in subterms:
            more = [factor for factor in large if factor not in small]
            alike = all(large.get(factor) == whole for factor, whole in small.items())
            if len(large) == len(small) + 1 and alike and len(more) == 1 and not large[more[0]]:
                large[more[0]] = True
                subterms[:] = [part for part in subterms if part is not small]
                return True
    return False
