"""Integrals over the effects of several factors of a normal law, by sums over rows that are made
once.

With r = y - X b, the rows' weights W and v ~ N(0, I) the effects of all groups in units of their
covariance L L',

    H = I + L' Z' W Z L / sigma^2,   g = L' Z' W r / sigma^2,
    log p(y) = -n/2 log(2 pi sigma^2) - (r' W r / sigma^2 - g' H^-1 g) / 2 - log det H / 2     (n the sum of W),

and v given y is N(H^-1 g, H^-1). Z' W Z, Z' W (X, y), and the triangular factor of (X, y) hold all
that the rows say. The effects of the first factor have blocks of their own in H and leave by
elimination; the Schur complement of the rest is dense (Bates et al. 2015, section 3). The gradient
of its log determinant is its inverse: no factor is gone through backwards. `vijax.auto` reads the
same likelihood from points of it in float64 (`interpolated`)."""

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
"""Passes over the rows for the squares that nothing explains, at most."""
AT_ITS_LIMIT = 7
"""The number by which `scipy.sparse.linalg.lsmr` says that it made all its passes without an
answer."""
SLACK = 1e-3
"""Share of these squares that is left to rounding."""
BLOCK = 1 << 20
"""Numbers of the first factor's products with the others that are multiplied at once."""


class Scales(NamedTuple):
    """The sizes of effects and errors.

    Attributes:
      factors: the triangular factors of the covariances of the effects of each factor.
      counts: their numbers of groups.
      sigma: the standard deviation of the errors.
    """

    factors: Sequence[Float[Array, "d d"]]
    counts: tuple[int, ...]
    sigma: Float[Array, ""]

    def scale_by_sigma(
        self, x: Float[Array, "*rest R"], is_left: bool = False
    ) -> Float[Array, "*rest R"]:
        """x L / sigma, the last axis over the effects of all factors but the first; L x / sigma
        where `is_left`."""
        parts, start = [], 0
        for factor, count in zip(self.factors[1:], self.counts[1:], strict=True):
            stop = start + count * len(factor)
            turned = factor.T if is_left else factor
            own = x[..., start:stop].reshape(*x.shape[:-1], count, len(factor)) @ (
                turned / self.sigma
            )
            parts.append(own.reshape(*x.shape[:-1], -1))
            start = stop
        return jnp.concatenate(parts, -1)


def row_sums(rows: Mapping[str, np.ndarray], counts: Sequence[int]) -> dict[str, np.ndarray]:
    """The sums over rows, of J groups of d effects of the first factor, and R effects of the
    others: Z' W Z as `own` (J, d, d), as `across` (K, d) for the groups `pair_first` and the
    effects `pair_rest` that meet in a row, and as `rest` at the places `rest_row`, `rest_column`;
    Z' W (X, y) as `of_first` (J, d, p + 1) and `of_rest` (R, p + 1), the triangular factor of (X,
    y) as `table`, the sum of the weights as `count`, and as `least` the squares that no
    coefficients and effects explain. `counts` are the numbers of groups of the factors."""
    weight, table = rows["weight"], np.c_[rows["x"], rows["y"]]
    first, *others = (
        sparse_columns(rows[f"z{i}"], rows[f"group{i}"], count) for i, count in enumerate(counts)
    )
    rest, d = sp.hstack(others, "csr"), rows["z0"].shape[1]
    of_first, of_rest = (z.multiply(weight[:, None]).T.tocsr() for z in (first, rest))
    own = np.zeros((counts[0], d, d))
    for a, b in np.ndindex(d, d):
        own[:, a, b] = np.bincount(
            rows["group0"], weight * rows["z0"][:, a] * rows["z0"][:, b], counts[0]
        )
    pairs = _pairs(of_first @ rest, d)
    squares = (of_rest @ rest).tocoo()
    return {
        "own": own,
        "pair_first": pairs.first,
        "pair_rest": pairs.rest,
        "across": pairs.across,
        "rest_row": squares.row,
        "rest_column": squares.col,
        "rest": squares.data,
        "of_first": (of_first @ table).reshape(counts[0], d, -1),
        "of_rest": of_rest @ table,
        "table": np.linalg.qr(
            np.r_[np.sqrt(weight)[:, None] * table, np.zeros((table.shape[1],) * 2)], mode="r"
        ),
        "count": np.array(weight.sum()),
        "least": np.array(_residual_squares(weight, table, [first, *others])),
    }


class _Pairs(NamedTuple):
    """Groups of the first factor, and effects of the others, that meet in a row, with the sums of
    their products."""

    first: np.ndarray
    rest: np.ndarray
    across: np.ndarray


def _pairs(across: Any, d: int) -> _Pairs:
    """The pairs in order, of a sparse matrix (J d, R)."""
    listed = across.tocoo()
    width = across.shape[1]
    pairs, place = np.unique(
        listed.row.astype(np.int64) // d * width + listed.col, return_inverse=True
    )
    values = np.zeros((len(pairs), d))
    values[place, listed.row % d] = listed.data
    return _Pairs(pairs // width, pairs % width, values)


def _residual_squares(
    weight: np.ndarray, table: np.ndarray, effects: Sequence[sp.csr_array]
) -> float:
    """The weighted squares of y that columns and effects leave by least squares; `table` is (X,
    y)."""
    columns = (
        sp.hstack([sp.csr_array(table[:, :-1]), *effects], "csr")
        .multiply(np.sqrt(weight)[:, None])
        .tocsr()
    )
    y = np.sqrt(weight) * table[:, -1]
    solution, why_it_ended, *_ = lsmr(columns, y, atol=1e-8, btol=1e-8, maxiter=MOST_PASSES)
    if why_it_ended == AT_ITS_LIMIT:
        return 0.0
    return float(np.sum((y - columns @ solution) ** 2)) * (1 - SLACK)


def sparse_columns(z: np.ndarray, groups: np.ndarray, count: int) -> sp.csr_array:
    """Z of a factor: the columns of its groups, one group after another."""
    size, d = z.shape
    places = (groups[:, None] * d + np.arange(d)).ravel()
    return sp.csr_array((z.ravel(), places, np.arange(0, size * d + 1, d)), (size, count * d))


def log_integral(
    sums: Mapping[str, Any], b: Float[Array, " p"], scales: Scales
) -> Float[Array, ""]:
    """log p(y) at coefficients b."""
    c = _coefficients(b)
    reduced = _eliminate(sums, c, scales)
    half_log_det, explained = half_log_det_and_squares(reduced.schur, reduced.of_rest)
    diagonals = jnp.diagonal(reduced.blocks, axis1=-2, axis2=-1)
    half_log_det += jnp.sum(jnp.log(diagonals))
    explained += jnp.sum(reduced.of_first**2)
    left = jnp.sum((sums["table"] @ c / scales.sigma) ** 2) - explained
    # A difference of large numbers where r is large: rounding must not take it below what no
    # effects explain.
    left = jnp.maximum(left, sums["least"] / scales.sigma**2)
    return -0.5 * (sums["count"] * (LOG_2PI + 2 * jnp.log(scales.sigma)) + left) - half_log_det


def draw(
    sums: Mapping[str, Any], b: Float[Array, " p"], scales: Scales, key: PRNGKeyArray
) -> Effects:
    """Effects v, drawn given y."""
    reduced = _eliminate(sums, _coefficients(b), scales)
    noise = noise_like(key, Effects(reduced.of_first, reduced.of_rest))
    factor = jnp.linalg.cholesky(reduced.schur)
    whitened = solve_triangular(factor, reduced.of_rest, lower=True) + noise.others
    others = solve_triangular(factor, whitened, lower=True, trans=1)
    moved = scales.scale_by_sigma(others[None], is_left=True)[0]
    met = (
        jnp.zeros_like(reduced.of_first)
        .at[sums["pair_first"]]
        .add(sums["across"] * moved[sums["pair_rest"]][:, None])
    )
    first = reduced.of_first + noise.first - jnp.einsum("jde,je->jd", reduced.roots, met)
    return Effects(jax.vmap(backward)(reduced.blocks, first), others)


def _coefficients(b: Array) -> Float[Array, " p_and_one"]:
    """The coefficients of (X, y) in r."""
    return jnp.concatenate([-b, jnp.ones(1, b.dtype)])


class _Elimination(NamedTuple):
    """H after the effects of the first factor have left.

    Attributes:
      blocks: triangular factors of their own blocks, (J, d, d).
      roots: blocks^-1 L' / sigma, (J, d, d).
      schur: the Schur complement of the rest, (R, R).
      of_first: blocks^-1 g, (J, d).
      of_rest: g of the rest, less what the first factor explains, (R,).
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
    of_pairs = jnp.sum(sums["across"] * explained[sums["pair_first"]], 1)
    left = sums["of_rest"] @ c / scales.sigma
    left = left.at[sums["pair_rest"]].add(-of_pairs)
    size = len(left)
    dense = -_explained_by_first(sums, roots, size)
    dense = dense.at[sums["rest_row"], sums["rest_column"]].add(sums["rest"])
    schur = scales.scale_by_sigma(scales.scale_by_sigma(dense).T) + jnp.eye(size, dtype=dense.dtype)
    return _Elimination(blocks, roots, schur, of_first, scales.scale_by_sigma(left[None])[0])


def _explained_by_first(
    sums: Mapping[str, Any], roots: Float[Array, "J d d"], size: int
) -> Float[Array, "R R"]:
    """The part of the squares of the other effects that those of the first factor explain, some
    groups at a time."""
    total, d, _ = roots.shape
    groups = max(1, min(total, BLOCK // max(size * d, 1)))
    blocks = -(-total // groups)
    across = jnp.zeros((blocks * groups, size, d), roots.dtype)
    across = across.at[sums["pair_first"], sums["pair_rest"]].set(sums["across"])
    padded = jnp.concatenate([roots, jnp.zeros((blocks * groups - total, d, d), roots.dtype)])
    split = lambda x: x.reshape(blocks, groups, *x.shape[1:])

    @jax.checkpoint
    def add(total: Array, some: tuple[Array, Array]) -> tuple[Array, None]:
        whitened = jnp.einsum("jre,jde->jdr", *some).reshape(-1, size)
        return total + whitened.T @ whitened, None

    return jax.lax.scan(add, jnp.zeros((size, size), roots.dtype), (split(across), split(padded)))[
        0
    ]


@jax.custom_jvp
def half_log_det_and_squares(
    matrix: Float[Array, "R R"], vector: Float[Array, " R"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """log det A / 2 and v' A^-1 v of a positive definite matrix; their derivatives by its
    inverse."""
    factor = jnp.linalg.cholesky(matrix)
    whitened = solve_triangular(factor, vector, lower=True)
    return jnp.sum(jnp.log(jnp.diagonal(factor))), jnp.sum(whitened**2)


@half_log_det_and_squares.defjvp
def _jvp_by_inverse(given: Any, moved: Any) -> Any:
    (matrix, vector), (of_matrix, of_vector) = given, moved
    factor = jnp.linalg.cholesky(matrix)
    inverse = cho_solve((factor, True), jnp.eye(len(vector), dtype=matrix.dtype))
    solution = cho_solve((factor, True), vector)
    values = jnp.sum(jnp.log(jnp.diagonal(factor))), jnp.vdot(vector, solution)
    of_squares = 2 * jnp.vdot(solution, of_vector) - solution @ of_matrix @ solution
    return values, (0.5 * jnp.vdot(inverse, of_matrix), of_squares)
