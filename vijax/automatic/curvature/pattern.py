"""The pairs of variables that a Hessian couples, and the few products with vectors that determine
it.

The Hessian of most models is sparse: groups are coupled to globals and not to each other, steps of
a chain to their neighbours. Columns that share no row can be added: one product with their sum has
the entries of all of them (Curtis, Powell and Reid 1974). Columns of hubs, which are coupled to
most other variables, get a product each, which by symmetry gives their rows too (Coleman and More
1984)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import sparse

from vijax.automatic.gaussian import Gaussian, draw_noise
from vijax.verdict.target import Target

DRAWS = 2
"""Draws at which the full Hessian is computed."""
MOST_TRIALS = 12
"""Numbers of hubs that are tried, at most."""
WORTH = 0.5
"""Products by groups of columns must be fewer than this share of all columns."""
ALIKE = 1e-3
"""Relative error of a product with the matrix that was read, above which the pattern lacks
entries."""


class Pattern(NamedTuple):
    """The entries of a Hessian on and below its diagonal that may differ from zero, and the places
    where they are read."""

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
        """The pattern in which all pairs are coupled."""
        rows, columns = np.tril_indices(dim)
        return cls(np.eye(dim), rows, columns, columns, rows)

    def matrix(self, products: Float[np.ndarray, "C D"]) -> sparse.csr_array:
        """The Hessian, (D, D), from its products with the directions."""
        values = products[self.product, self.place]
        lower = sparse.csr_array((values, (self.rows, self.columns)), shape=(self.dim, self.dim))
        return lower + sparse.tril(lower, -1).T


def find_pattern(target: Target, q: Gaussian, seed: list[int]) -> Pattern:
    """The pattern of the Hessians at q. It is dense if colouring saves little, or if different
    entries are zero at different points."""
    dim = target.dim
    draws = q.from_noise(draw_noise(2 * DRAWS, dim, seed))[: DRAWS + 1]
    is_coupled = np.eye(dim, dtype=bool)
    for x in draws[:DRAWS]:
        is_coupled |= target.curvatures(x, np.eye(dim)) != 0  # NaN is not zero
        pattern = color_pattern(is_coupled | is_coupled.T)
        if pattern.num_products == dim:
            return pattern
    # At another point, in a random direction: a branch of the density may couple other pairs there.
    x = draws[DRAWS]
    v = np.random.default_rng([*seed, 1]).normal(size=dim) * q.sds
    product = pattern.matrix(target.curvatures(x, pattern.directions)) @ v
    exact = target.curvatures(x, v[None])[0]
    error = np.linalg.norm((product - exact) * q.sds)
    is_complete = error <= ALIKE * np.linalg.norm(exact * q.sds)
    return pattern if is_complete else Pattern.dense(dim)


def color_pattern(is_coupled: Bool[np.ndarray, "D D"]) -> Pattern:
    """The pattern of a symmetric matrix with few directions; dense if it needs more than half of
    all.

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
        hubs = order[:num_hubs]
        others = np.sort(order[num_hubs:])
        coupled = is_coupled[np.ix_(others, others)]
        largest_row = coupled.sum(0).max(initial=0)  # its columns need a product each
        if num_hubs + largest_row >= fewest:
            continue
        colours = np.full(dim, -1)
        colours[hubs] = np.arange(num_hubs)
        colours[others] = num_hubs + colour_columns(sparse.csr_array(coupled))
        if colours.max() + 1 < fewest:
            fewest = int(colours.max()) + 1
            best = (num_hubs, colours)
    if best is None:
        return Pattern.dense(dim)
    num_hubs, colours = best
    directions = np.zeros((int(fewest), dim))
    directions[colours, np.arange(dim)] = 1
    rows, columns = np.nonzero(np.tril(is_coupled))
    # An entry in a hub's row is read from the hub's product: other columns of the entry's colour
    # may be coupled to the hub.
    by_row = (colours[rows] < num_hubs) & (colours[columns] >= num_hubs)
    product = np.where(by_row, colours[rows], colours[columns])
    return Pattern(directions, rows, columns, product, np.where(by_row, columns, rows))


def _trials(degrees: Int[np.ndarray, " D"]) -> list[int]:
    """Numbers of hubs to try, for degrees in falling order: 0, and numbers after which the degree
    falls most."""
    falls = 1 + np.flatnonzero(np.diff(degrees) < 0)
    sizes = degrees[falls - 1] - degrees[falls]
    largest = falls[np.argsort(-sizes, kind="stable")[:MOST_TRIALS]]
    return [0, *sorted(int(fall) for fall in largest)]


def colour_columns(coupled: sparse.csr_array) -> Int[np.ndarray, " columns"]:
    """Colours of columns, so that no two columns of one colour share a row: each column gets the
    first free colour."""
    shared = sparse.csr_array(coupled.astype(np.int32) @ coupled.astype(np.int32).T)
    colours = np.full(coupled.shape[1], -1)
    for column in range(len(colours)):
        neighbours = shared.indices[shared.indptr[column] : shared.indptr[column + 1]]
        used = set(colours[neighbours].tolist())
        colours[column] = next(colour for colour in range(len(used) + 1) if colour not in used)
    return colours
