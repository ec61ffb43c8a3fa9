"""Integrals over the effects of several factors at once, crossed or nested, by Laplace's
approximation.

Let v ~ N(0, I) be the effects of all groups and eta = a + Z v. The integrand has the curvature H =
I + Z' W Z at its mode; W has minus the second derivatives of the log likelihood by row (C x C for a
row with C predictors). Each group of the factor with the most effects has a block A_j in H. These
blocks are eliminated first; the Schur complement S is dense:

    H = [A C; C' D],   S = D - C' A^-1 C,   log det H = log det A + log det S       (Bates et al. 2015, section 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.models.formulas.effects.integrals import (
    LOG_2PI,
    LogLik,
    absolute_diagonals,
    backward,
    cholesky,
    climb,
    forward,
    shorten,
    slopes_of_rows,
    times_weights,
)


class Columns(NamedTuple):
    """Columns of all effects, row by row, for each of C predictors.

    Attributes:
      first: columns of the factor with the most effects, (N, C, d).
      group: the group of each row in this factor, (N,).
      others: columns of the other factors, (N, C, r).
      places: the index of each column's effect among all effects of the other factors, (N, r).
      sizes: number of groups of the first factor, and of effects of the others.
      may_be_convex: True if the log likelihood of a row may be convex in its predictors.
      in_all_rows: True if every row has a column of every effect of the other factors, in their
        order: those of smooth terms alone.
    """

    first: Float[Array, "N C d"]
    group: Int[Array, " N"]
    others: Float[Array, "N C r"]
    places: Int[Array, "N r"]
    sizes: tuple[int, int]
    may_be_convex: bool = False
    in_all_rows: bool = False

    def times(self, v: Effects) -> Float[Array, "N C"]:
        """Z v."""
        first_part = jnp.sum(self.first * v.first[self.group][:, None], 2)
        if self.in_all_rows:
            return first_part + self.others @ v.others
        return first_part + jnp.sum(self.others * v.others[self.places][:, None], 2)

    def transpose_times(self, x: Float[Array, "N C"]) -> Effects:
        """Z' x."""
        groups, num_others = self.sizes
        first = jnp.sum(self.first * x[..., None], 1)
        by_group = jnp.zeros((groups, first.shape[1]), x.dtype).at[self.group].add(first)
        if self.in_all_rows:
            return Effects(by_group, x.reshape(-1) @ self.others.reshape(-1, num_others))
        others = jnp.sum(self.others * x[..., None], 1)
        return Effects(by_group, jnp.zeros(num_others, x.dtype).at[self.places].add(others))

    def curvature(self, w: Float[Array, "N C C"]) -> Curvature:
        """The factors of I + Z' W Z."""
        groups, num_others = self.sizes
        weighted, d = times_weights(w, self.first), self.first.shape[2]
        outer_sums = lambda x, y: jnp.sum(x[..., None] * y[:, :, None], 1)
        blocks = (
            jnp.zeros((groups, d, d), w.dtype).at[self.group].add(outer_sums(weighted, self.first))
        )
        across = jnp.zeros((groups, num_others, d), w.dtype)
        across = across.at[self.group[:, None], self.places].add(outer_sums(self.others, weighted))
        weighted_others = times_weights(w, self.others)
        if self.in_all_rows:
            flat = self.others.reshape(-1, num_others)
            return factorise(blocks, across, weighted_others.reshape(-1, num_others).T @ flat)
        pairs = outer_sums(weighted_others, self.others)
        dense = jnp.zeros((num_others, num_others), w.dtype)
        dense = dense.at[self.places[:, :, None], self.places[:, None]].add(pairs)
        return factorise(blocks, across, dense)

    def safe_curvature(self, w: Float[Array, "N C C"]) -> Curvature:
        """`curvature`, or where that is not positive, away from a mode, one that is."""
        exact = self.curvature(w)
        if not self.may_be_convex:
            return exact
        positive = self.curvature(absolute_diagonals(w))
        finite = jnp.array([jnp.all(jnp.isfinite(part)) for part in exact])
        return jax.tree.map(lambda x, y: jnp.where(jnp.all(finite), x, y), exact, positive)


class Effects(NamedTuple):
    """Effects of the first factor, (groups, d), and of the others, (R,)."""

    first: Float[Array, "J d"]
    others: Float[Array, " R"]


class Curvature(NamedTuple):
    """The triangular factor of H: blocks of the first factor, of the first by the other factors,
    and of the others."""

    blocks: Float[Array, "J d d"]
    across: Float[Array, "J R d"]
    rest: Float[Array, "R R"]

    def forward(self, x: Effects) -> Effects:
        """factor^-1 x."""
        first = jax.vmap(forward)(self.blocks, x.first)
        others = x.others - jnp.einsum("jrd,jd->r", self.across, first)
        return Effects(first, solve_triangular(self.rest, others, lower=True))

    def backward(self, x: Effects) -> Effects:
        """factor'^-1 x."""
        others = solve_triangular(self.rest, x.others, lower=True, trans=1)
        first = x.first - jnp.einsum("jrd,r->jd", self.across, others)
        return Effects(jax.vmap(backward)(self.blocks, first), others)

    def log_det(self) -> Float[Array, ""]:
        """Half the log determinant of H."""
        diagonals = jnp.diagonal(self.blocks, axis1=-2, axis2=-1)
        return jnp.sum(jnp.log(diagonals)) + jnp.sum(jnp.log(jnp.diagonal(self.rest)))


def factorise(
    own: Float[Array, "J d d"], across: Float[Array, "J R d"], rest: Float[Array, "R R"]
) -> Curvature:
    """The triangular factor of I + [own across; across' rest]."""
    blocks = jax.vmap(cholesky)(own + jnp.eye(own.shape[1], dtype=own.dtype)[None])
    solve_rows = lambda factor, rows: jax.vmap(lambda x: forward(factor, x))(rows)
    across = jax.vmap(solve_rows)(blocks, across)
    flat = jnp.moveaxis(across, 1, 2).reshape(-1, len(rest))
    schur = jnp.eye(len(rest), dtype=rest.dtype) + rest - flat.T @ flat
    return Curvature(blocks, across, jnp.linalg.cholesky(schur))


def laplace(
    log_lik: LogLik, parameters: Any, a: Float[Array, " N *C"], z: Columns
) -> Float[Array, ""]:
    """The log of the integral, for all rows together."""
    v, curvature = find_mode(log_lik, parameters, a, z)
    constant = 0.5 * (v.first.size + v.others.size) * LOG_2PI
    return _joint(log_lik, parameters, a, z, v) + constant - curvature.log_det()


def draw(
    log_lik: LogLik, parameters: Any, a: Float[Array, " N *C"], z: Columns, key: PRNGKeyArray
) -> Effects:
    """Effects drawn about their mode."""
    v, curvature = find_mode(log_lik, parameters, a, z)
    return _add(v, curvature.backward(noise_like(key, v)))


def noise_like(key: PRNGKeyArray, like: Effects) -> Effects:
    """Standard normal draws in the shape of these effects."""
    key_first, key_others = jax.random.split(key)
    first, others = like
    return Effects(
        jax.random.normal(key_first, first.shape, first.dtype),
        jax.random.normal(key_others, others.shape, others.dtype),
    )


def find_mode(log_lik: LogLik, parameters: Any, a: Array, z: Columns) -> tuple[Effects, Curvature]:
    """The mode and its curvature, both with their derivatives, as in `integrals.find_mode`."""
    fixed_z = Columns(*jax.lax.stop_gradient(z[:4]), *z[4:])
    fixed = (*jax.lax.stop_gradient((parameters, a)), fixed_z)
    groups, num_others = z.sizes
    start = Effects(jnp.zeros((groups, z.first.shape[2]), a.dtype), jnp.zeros(num_others, a.dtype))
    slopes = lambda v: _slopes(log_lik, *fixed, v)
    solve = lambda factor, x: factor.backward(factor.forward(x))
    decrement = lambda factor, x: sum(jnp.sum(part**2) for part in factor.forward(x))
    mode = climb(lambda v: _joint(log_lik, *fixed, v), slopes, solve, decrement, start)
    mode = jax.lax.stop_gradient(mode)
    slope, _ = _slopes(log_lik, parameters, a, z, mode)
    fixed_slope, factor = slopes(mode)
    v = _add(mode, shorten(solve(factor, slope), decrement(factor, fixed_slope)))
    return v, _slopes(log_lik, parameters, a, z, v)[1]


def _joint(log_lik: LogLik, parameters: Any, a: Array, z: Columns, v: Effects) -> Float[Array, ""]:
    """The log of the integrand."""
    squares = sum(jnp.sum(x**2) for x in v)
    size = sum(x.size for x in v)
    log_liks = log_lik(parameters, a + z.times(v).reshape(a.shape))
    return jnp.sum(log_liks) - 0.5 * squares - 0.5 * size * LOG_2PI


def _slopes(
    log_lik: LogLik, parameters: Any, a: Array, z: Columns, v: Effects
) -> tuple[Effects, Curvature]:
    """The gradient of the log integrand, and the factor of its curvature."""
    slope, weights = slopes_of_rows(log_lik, parameters, a + z.times(v).reshape(a.shape))
    slopes_of_effects = z.transpose_times(slope.reshape(weights.shape[:2]))
    gradient = Effects(slopes_of_effects.first - v.first, slopes_of_effects.others - v.others)
    return gradient, z.safe_curvature(weights)


def _add(x: Effects, y: Effects) -> Effects:
    return Effects(x.first + y.first, x.others + y.others)


def all_columns(
    by_factor: Sequence[Float[Array, "N C d"]],
    rows: Mapping[str, Any],
    counts: tuple[int, ...],
    may_be_convex: bool,
) -> Columns:
    """Columns of the effects of all factors, from those of each factor for each predictor; the
    factor with the most effects comes first. `counts` has their numbers of groups."""
    other_columns, places, start = [], [], 0
    for i in range(1, len(counts)):
        d = by_factor[i].shape[2]
        other_columns.append(by_factor[i])
        places.append(start + rows[f"group{i}"][:, None] * d + jnp.arange(d)[None])
        start += counts[i] * d
    sizes = counts[0], start
    return Columns(
        by_factor[0],
        rows["group0"],
        jnp.concatenate(other_columns, 2),
        jnp.concatenate(places, 1),
        sizes,
        may_be_convex,
        all(count == 1 for count in counts[1:]),
    )
