"""Integrals over the effects of several factors of a normal law, from sums over rows that are
computed once.

With r = y - X b, the rows' weights W and v ~ N(0, I) the effects of all groups in units of their
covariance L L',

    H = I + L' Z' W Z L / sigma^2,   g = L' Z' W r / sigma^2,
    log p(y) = -n/2 log(2 pi sigma^2) - (r' W r / sigma^2 - g' H^-1 g) / 2 - log det H / 2     (n the sum of W),

and v given y is N(H^-1 g, H^-1). Z' W Z, Z' W (X, y), and the triangular factor of (X, y) are
sufficient statistics of the rows. Each group of the first factor has a block in H; these blocks are
eliminated, and the Schur complement of the other factors is dense (Bates et al. 2015, section 3).
The gradient of its log determinant is its inverse: no factorisation is differentiated in reverse.
`vijax.auto` interpolates the same likelihood between points computed in float64
(`interpolated`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.sparse.linalg import lsmr

from vijax.models.formulas.effects.crossed import Effects, noise_like
from vijax.models.formulas.effects.integrals import LOG_2PI, backward, cholesky, forward

MOST_PASSES = 200
"""Most passes over the rows for the residual squares."""
AT_ITS_LIMIT = 7
"""The code of `scipy.sparse.linalg.lsmr` for a search that ended without an answer."""
SLACK = 1e-3
"""Share of the residual squares that may be rounding."""
BLOCK = 1 << 20
"""Most entries of the products of the first factor with the others that are computed at once."""


class Scales(NamedTuple):
    """The sizes of effects and errors.

    Attributes:
      factors: the triangular factors of the covariances of the effects of each factor.
      counts: the number of groups of each factor.
      sigma: the standard deviation of the errors.
    """

    factors: Sequence[Float[Array, "d d"]]
    counts: tuple[int, ...]
    sigma: Float[Array, ""]

    def scale_by_sigma(
        self, x: Float[Array, "*rest R"], is_left: bool = False
    ) -> Float[Array, "*rest R"]:
        """x L / sigma, where the last axis of x has the effects of all factors but the first; L x /
        sigma if `is_left`."""
        parts, start = [], 0
        for factor, count in zip(self.factors[1:], self.counts[1:], strict=True):
            stop = start + count * len(factor)
            matrix = factor.T if is_left else factor
            by_group = x[..., start:stop].reshape(*x.shape[:-1], count, len(factor))
            block = by_group @ (matrix / self.sigma)
            parts.append(block.reshape(*x.shape[:-1], -1))
            start = stop
        return jnp.concatenate(parts, -1)


def row_sums(rows: Mapping[str, np.ndarray], counts: Sequence[int]) -> dict[str, np.ndarray]:
    """The sums over rows, for J groups of d effects of the first factor and R effects of the
    others.

    `own` (J, d, d): Z' W Z of each group of the first factor.
    `across` (K, d): Z' W Z between the first factor and the others, for the K pairs of a group
    `pair_first` and an effect `pair_rest` that meet in a row.
    `rest`: the entries of Z' W Z of the others at `rest_row`, `rest_column`.
    `of_first` (J, d, p + 1) and `of_rest` (R, p + 1): Z' W (X, y).
    `table`: the triangular factor of (X, y). `count`: the sum of the weights.
    `least`: the squares that no coefficients and effects explain.

    `counts` has the number of groups of each factor."""
    weight = rows["weight"]
    table = np.c_[rows["x"], rows["y"]]
    z_first, *other_columns = (
        sparse_columns(rows[f"z{i}"], rows[f"group{i}"], count) for i, count in enumerate(counts)
    )
    z_others = sp.hstack(other_columns, "csr")
    d = rows["z0"].shape[1]
    weighted_first = z_first.multiply(weight[:, None]).T.tocsr()
    weighted_others = z_others.multiply(weight[:, None]).T.tocsr()
    blocks = np.zeros((counts[0], d, d))
    for a, b in np.ndindex(d, d):
        products = weight * rows["z0"][:, a] * rows["z0"][:, b]
        blocks[:, a, b] = np.bincount(rows["group0"], products, counts[0])
    pairs = _pairs(weighted_first @ z_others, d)
    squares = (weighted_others @ z_others).tocoo()
    weighted_table = np.sqrt(weight)[:, None] * table
    padding = np.zeros((table.shape[1],) * 2)
    return {
        "own": blocks,
        "pair_first": pairs.first,
        "pair_rest": pairs.rest,
        "across": pairs.across,
        "rest_row": squares.row,
        "rest_column": squares.col,
        "rest": squares.data,
        "of_first": (weighted_first @ table).reshape(counts[0], d, table.shape[1]),
        "of_rest": weighted_others @ table,
        "table": np.linalg.qr(np.r_[weighted_table, padding], mode="r"),
        "count": np.array(weight.sum()),
        "least": np.array(_residual_squares(weight, table, [z_first, *other_columns])),
    }


class _Pairs(NamedTuple):
    """Pairs of a group of the first factor and an effect of the others that meet in a row, with the
    sums of their products."""

    first: np.ndarray
    rest: np.ndarray
    across: np.ndarray


def _pairs(across: Any, d: int) -> _Pairs:
    """The pairs of a sparse matrix (J d, R), in order."""
    entries = across.tocoo()
    width = across.shape[1]
    codes = entries.row.astype(np.int64) // d * width + entries.col
    pairs, place = np.unique(codes, return_inverse=True)
    values = np.zeros((len(pairs), d))
    values[place, entries.row % d] = entries.data
    return _Pairs(pairs // width, pairs % width, values)


def _residual_squares(
    weight: np.ndarray, table: np.ndarray, effects: Sequence[sp.csr_array]
) -> float:
    """The weighted residual squares of y after least squares on columns and effects, less `SLACK`;
    0 if they are not found. `table` is (X, y)."""
    unweighted = sp.hstack([sp.csr_array(table[:, :-1]), *effects], "csr")
    columns = unweighted.multiply(np.sqrt(weight)[:, None]).tocsr()
    y = np.sqrt(weight) * table[:, -1]
    solution, why_it_ended, *_ = lsmr(columns, y, atol=1e-8, btol=1e-8, maxiter=MOST_PASSES)
    if why_it_ended == AT_ITS_LIMIT:
        return 0.0
    return float(np.sum((y - columns @ solution) ** 2)) * (1 - SLACK)


def sparse_columns(z: np.ndarray, groups: np.ndarray, count: int) -> sp.csr_array:
    """Z of a factor, (N, count d), group by group."""
    size, d = z.shape
    if not d:
        return sp.csr_array((size, 0))
    places = (groups[:, None] * d + np.arange(d)).ravel()
    return sp.csr_array((z.ravel(), places, np.arange(0, size * d + 1, d)), (size, count * d))


def log_integral(
    sums: Mapping[str, Any], b: Float[Array, " p"], scales: Scales
) -> Float[Array, ""]:
    """log p(y) at coefficients b."""
    c = _coefficients(b)
    elimination = _eliminate(sums, c, scales)
    half_log_det, explained = half_log_det_and_squares(elimination.schur, elimination.of_rest)
    diagonals = jnp.diagonal(elimination.blocks, axis1=-2, axis2=-1)
    half_log_det += jnp.sum(jnp.log(diagonals))
    explained += jnp.sum(elimination.of_first**2)
    residual = jnp.sum((sums["table"] @ c / scales.sigma) ** 2) - explained
    # For large r this is a difference of large numbers: rounding must not take it below the squares
    # that no effects explain.
    residual = jnp.maximum(residual, sums["least"] / scales.sigma**2)
    return -0.5 * (sums["count"] * (LOG_2PI + 2 * jnp.log(scales.sigma)) + residual) - half_log_det


def draw(
    sums: Mapping[str, Any], b: Float[Array, " p"], scales: Scales, key: PRNGKeyArray
) -> Effects:
    """Effects v, drawn given y."""
    elimination = _eliminate(sums, _coefficients(b), scales)
    noise = noise_like(key, Effects(elimination.of_first, elimination.of_rest))
    factor = jnp.linalg.cholesky(elimination.schur)
    whitened = solve_triangular(factor, elimination.of_rest, lower=True) + noise.others
    others = solve_triangular(factor, whitened, lower=True, trans=1)
    scaled = scales.scale_by_sigma(others[None], is_left=True)[0]
    explained = jnp.zeros_like(elimination.of_first)
    products = sums["across"] * scaled[sums["pair_rest"]][:, None]
    explained = explained.at[sums["pair_first"]].add(products)
    first = (
        elimination.of_first + noise.first - jnp.einsum("jde,je->jd", elimination.roots, explained)
    )
    return Effects(jax.vmap(backward)(elimination.blocks, first), others)


def _coefficients(b: Array) -> Float[Array, " p_and_one"]:
    """The coefficients of (X, y) in r."""
    return jnp.concatenate([-b, jnp.ones(1, b.dtype)])


class _Elimination(NamedTuple):
    """H after elimination of the first factor.

    Attributes:
      blocks: triangular factors of the blocks of the first factor, (J, d, d).
      roots: blocks^-1 L' / sigma, (J, d, d).
      schur: the Schur complement of the other factors, (R, R).
      of_first: blocks^-1 g of the first factor, (J, d).
      of_rest: g of the others, less the part that the first factor explains, (R,).
    """

    blocks: Float[Array, "J d d"]
    roots: Float[Array, "J d d"]
    schur: Float[Array, "R R"]
    of_first: Float[Array, "J d"]
    of_rest: Float[Array, " R"]


def _eliminate(
    sums: Mapping[str, Any], c: Float[Array, " p_and_one"], scales: Scales
) -> _Elimination:
    first = scales.factors[0] / scales.sigma
    eye = jnp.eye(len(first), dtype=first.dtype)
    blocks = jax.vmap(lambda own: cholesky(eye + first.T @ own @ first))(sums["own"])
    roots = jax.vmap(lambda block: jax.vmap(lambda column: forward(block, column))(first).T)(blocks)
    of_first = jnp.einsum("jde,je->jd", roots, sums["of_first"] @ c) / scales.sigma
    explained = jnp.einsum("jde,jd->je", roots, of_first)
    explained_by_pair = jnp.sum(sums["across"] * explained[sums["pair_first"]], 1)
    others = sums["of_rest"] @ c / scales.sigma
    others = others.at[sums["pair_rest"]].add(-explained_by_pair)
    size = len(others)
    dense = -_explained_by_first(sums, roots, size)
    dense = dense.at[sums["rest_row"], sums["rest_column"]].add(sums["rest"])
    schur = scales.scale_by_sigma(scales.scale_by_sigma(dense).T) + jnp.eye(size, dtype=dense.dtype)
    return _Elimination(blocks, roots, schur, of_first, scales.scale_by_sigma(others[None])[0])


def _explained_by_first(
    sums: Mapping[str, Any], roots: Float[Array, "J d d"], size: int
) -> Float[Array, "R R"]:
    """The part of Z' W Z of the other factors that the first factor explains, computed for some
    groups at a time."""
    total, d, _ = roots.shape
    groups = max(1, min(total, BLOCK // max(size * d, 1)))
    blocks = -(-total // groups)
    across = jnp.zeros((blocks * groups, size, d), roots.dtype)
    across = across.at[sums["pair_first"], sums["pair_rest"]].set(sums["across"])
    padded_roots = jnp.concatenate([roots, jnp.zeros((blocks * groups - total, d, d), roots.dtype)])
    split = lambda x: x.reshape(blocks, groups, *x.shape[1:])

    @jax.checkpoint
    def add(total: Array, across_and_roots: tuple[Array, Array]) -> tuple[Array, None]:
        whitened = jnp.einsum("jre,jde->jdr", *across_and_roots).reshape(-1, size)
        return total + whitened.T @ whitened, None

    start = jnp.zeros((size, size), roots.dtype)
    return jax.lax.scan(add, start, (split(across), split(padded_roots)))[0]


@jax.custom_jvp
def half_log_det_and_squares(
    matrix: Float[Array, "R R"], vector: Float[Array, " R"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """log det A / 2 and v' A^-1 v of a positive definite A; derivatives use its inverse."""
    factor = jnp.linalg.cholesky(matrix)
    whitened = solve_triangular(factor, vector, lower=True)
    return jnp.sum(jnp.log(jnp.diagonal(factor))), jnp.sum(whitened**2)


@half_log_det_and_squares.defjvp
def _jvp_by_inverse(primals: Any, tangents: Any) -> Any:
    matrix, vector = primals
    matrix_tangent, vector_tangent = tangents
    factor = jnp.linalg.cholesky(matrix)
    inverse = cho_solve((factor, True), jnp.eye(len(vector), dtype=matrix.dtype))
    solution = cho_solve((factor, True), vector)
    values = jnp.sum(jnp.log(jnp.diagonal(factor))), jnp.vdot(vector, solution)
    squares_tangent = 2 * jnp.vdot(solution, vector_tangent) - solution @ matrix_tangent @ solution
    return values, (0.5 * jnp.vdot(inverse, matrix_tangent), squares_tangent)
