"""Which pairs of variables a Hessian couples, and the few products with vectors from which all of
it can be read.

The Hessian of most models is sparse: groups are coupled to globals and not to each other, steps of
a chain to the steps beside them. Columns that share no row can be added up: one product with their
sum has the entries of all of them (Curtis, Powell and Reid 1974). Columns of hubs, which are
coupled to most others, get a product each, and by symmetry their rows are known from it too
(Coleman and More 1984)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

from vijax.automatic.gaussian import Gaussian, draw_noise
from vijax.verdict.target import Target

LOOKED = 2
"""Draws at which the whole Hessian is looked at."""
MOST_TRIALS = 12
"""Numbers of hubs that are tried."""
WORTH = 0.5
"""The share of all columns above which products by groups of columns save too little."""
ALIKE = 1e-3
"""Relative difference of a product and of the matrix that was read, above which the pattern is not
the whole one."""


class Pattern(NamedTuple):
    """The entries of a Hessian on and below its diagonal that may differ from zero, and where each
    is read."""

    directions: Float[np.ndarray, "C D"]  # the vectors that the Hessian is multiplied by
    rows: Int[np.ndarray, " entries"]
    columns: Int[np.ndarray, " entries"]
    product: Int[np.ndarray, " entries"]  # the product that has this entry
    place: Int[np.ndarray, " entries"]  # its place there

    @property
    def dim(self) -> int:
        """Number of variables."""
        return self.directions.shape[1]

    @property
    def num_products(self) -> int:
        """Number of products that a Hessian takes."""
        return len(self.directions)

    @classmethod
    def dense(cls, dim: int) -> Pattern:
        """Returns the pattern in which all pairs are coupled."""
        rows, columns = np.tril_indices(dim)
        return cls(np.eye(dim), rows, columns, columns, rows)

    def matrix(self, products: Float[np.ndarray, "C D"]) -> sparse.csr_array:
        """Returns the Hessian, (D, D), from its products with the directions."""
        values = products[self.product, self.place]
        lower = sparse.csr_array((values, (self.rows, self.columns)), shape=(self.dim, self.dim))
        return lower + sparse.tril(lower, -1).T


def find_pattern(target: Target, q: Gaussian, seed: list[int]) -> Pattern:
    """Returns the pattern of the Hessians where q is. It is dense where colouring saves little, and
    where the entries that are zero differ from place to place."""
    dim = target.dim
    at = q.from_noise(draw_noise(2 * LOOKED, dim, seed))[: LOOKED + 1]
    is_coupled = np.eye(dim, dtype=bool)
    for x in at[:LOOKED]:
        is_coupled |= target.curvatures(x, np.eye(dim)) != 0  # NaN is not zero
        pattern = color_pattern(is_coupled | is_coupled.T)
        if pattern.num_products == dim:
            return pattern
    # Elsewhere, along a random direction: a branch of the density may couple others there.
    v = np.random.default_rng([*seed, 1]).normal(size=dim) * q.sds
    read = pattern.matrix(target.curvatures(at[LOOKED], pattern.directions)) @ v
    whole = target.curvatures(at[LOOKED], v[None])[0]
    is_alike = np.linalg.norm((read - whole) * q.sds) <= ALIKE * np.linalg.norm(whole * q.sds)
    return pattern if is_alike else Pattern.dense(dim)


def color_pattern(is_coupled: Bool[np.ndarray, "D D"]) -> Pattern:
    """Returns the pattern of a symmetric matrix by few directions, dense if these would be more
    than half of all.

    >>> chain = np.abs(np.subtract.outer(np.arange(9), np.arange(9))) < 2
    >>> color_pattern(chain).num_products
    3
    >>> arrow = np.eye(9, dtype=bool); arrow[0] = arrow[:, 0] = True
    >>> pattern = color_pattern(arrow)
    >>> pattern.num_products, bool((pattern.matrix(pattern.directions @ (4 * arrow)).toarray() == 4 * arrow).all())
    (2, True)
    """
    dim = len(is_coupled)
    degrees = is_coupled.sum(0)
    order = np.argsort(-degrees, kind="stable")
    best: tuple[int, np.ndarray] | None = None
    fewest = WORTH * dim
    for num_hubs in _trials(degrees[order]):
        if num_hubs >= fewest:
            break
        hubs, rest = order[:num_hubs], np.sort(order[num_hubs:])
        inside = is_coupled[np.ix_(rest, rest)]
        if (
            num_hubs + inside.sum(0).max(initial=0) >= fewest
        ):  # the columns of one row's entries need a product each
            continue
        colours = np.full(dim, -1)
        colours[hubs] = np.arange(num_hubs)
        colours[rest] = num_hubs + _colours(sparse.csr_array(inside))
        if colours.max() + 1 < fewest:
            fewest, best = int(colours.max()) + 1, (num_hubs, colours)
    if best is None:
        return Pattern.dense(dim)
    num_hubs, colours = best
    directions = np.zeros((int(fewest), dim))
    directions[colours, np.arange(dim)] = 1
    rows, columns = np.nonzero(np.tril(is_coupled))
    # An entry in a hub's row is read from the hub's own product, for other columns of its colour
    # may be coupled to it.
    by_row = (colours[rows] < num_hubs) & (colours[columns] >= num_hubs)
    product = np.where(by_row, colours[rows], colours[columns])
    return Pattern(directions, rows, columns, product, np.where(by_row, columns, rows))


def _trials(degrees: Int[np.ndarray, " D"]) -> list[int]:
    """Numbers of hubs to try, the degrees in falling order: none, and so many that the next one is
    coupled to fewer."""
    falls = 1 + np.flatnonzero(np.diff(degrees) < 0)
    sizes = degrees[falls - 1] - degrees[falls]
    largest = falls[np.argsort(-sizes, kind="stable")[:MOST_TRIALS]]
    return [0, *sorted(int(fall) for fall in largest)]


def _colours(coupled: sparse.csr_array) -> Int[np.ndarray, " columns"]:
    """Colours of columns, so that no two of one colour share a row: each gets the first that is
    free."""
    shared = sparse.csr_array(coupled.astype(np.int32) @ coupled.astype(np.int32).T)
    colours = np.full(coupled.shape[1], -1)
    for column in range(len(colours)):
        neighbours = shared.indices[shared.indptr[column] : shared.indptr[column + 1]]
        taken = set(colours[neighbours].tolist())
        colours[column] = next(colour for colour in range(len(taken) + 1) if colour not in taken)
    return colours
