"""Wishart distributions over positive definite D x D matrices, as the matrix gamma of shape n and
rate P:

    q(X) = |X|^{-(D+1)/2} exp{<-P, X> + n log|X| - A},     A = sum_i log Gamma(n - i/2) + D(D-1)/4 log(pi) - n log|P|,

i = 0..D-1; n = degrees / 2 > (D-1)/2 and P = scale^-1 / 2. With D = 1 it is Gamma(n, P). Only the
symmetric part of the matrix parameter matters; F is zero on its complement. In float32 P holds the
scale to 3e-8 times the condition number of its correlations. Divergences, entropies and densities
are right to 1e-3 if that number times sqrt(degrees) is below 3e3."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import Family, as_float, as_floats, domain_mask, family, finite
from vijax.families.construction import (
    RESCALE,
    constructor,
    numpy_or_jax,
    require_accuracy,
    spread_error,
)
from vijax.families.numeric import special
from vijax.families.numeric.pathwise import (
    elasticity_minus_one,
    log_gamma_from_offset,
    sample_offset,
)
from vijax.families.scalar.gamma import Gamma
from vijax.families.vector.matrices import (
    half_log_det,
    inverse,
    invert_positive_definite,
    positive_definite,
    solve,
    symmetric,
)


class WishartStats(NamedTuple):
    """t(X) = (X, log|X|)."""

    value: Float[Array, "*batch D D"]
    log_det: Float[Array, "*batch"]


class BartlettDraw(NamedTuple):
    """A draw X = B B' with B = M T, M = C'^-1, P = C C', and T lower triangular, T_ii^2 ~ Gamma(n -
    i/2), T_ij ~ N(0, 1/2)."""

    root: Float[Array, "*shape D D"]  # B
    triangle: Float[Array, "*shape D D"]  # T
    factor: Float[Array, "*batch D D"]  # C
    whitener: Float[Array, "*batch D D"]  # M
    offset: Float[Array, "*shape D"]  # of the gammas, from `sample_offset`
    log_det: Float[Array, "*shape"]  # log|X|


@family
class Wishart(Family):
    """A Wishart distribution, of mean degrees * scale: the conjugate prior of a precision matrix.

    log h(x) = -(dim + 1) / 2 * logdet(x);  t = (x, logdet(x));  natural parameters (-inv(scale) / 2, degrees / 2).

    >>> q = Wishart.from_degrees_scale(4.0, [[0.5, 0.0], [0.0, 1.0]])
    >>> print(q.mean().round(3).tolist(), q.half_degrees)
    [[2.0, 0.0], [0.0, 4.0]] 2.0
    """

    negative_rate: Float[Array, "*batch D D"]
    half_degrees: Float[Array, "*batch"]

    Stats: ClassVar[type[tuple]] = WishartStats
    event_ndims: ClassVar[tuple[int, ...]] = (2, 0)

    @classmethod
    @constructor
    def from_degrees_scale(cls, degrees: Any, scale: Any) -> Self:
        """Wisharts from degrees of freedom (*batch,) and scale matrix (*batch, D, D), broadcast
        over the batch axes.

        Raises:
          ValueError: degrees that do not exceed D - 1, a scale that is not symmetric positive
            definite, or a scale that rounding its inverse changes: in float32 from a condition
            number of some 1e5.
        """
        degrees, scale = check_degrees(degrees, scale, "scale")
        _, double_rate = numpy_or_jax(invert_positive_definite(scale))
        require_accuracy("scale", spread_error, scale, double_rate, remedy=RESCALE)
        return cls(-0.5 * double_rate, 0.5 * degrees)

    @property
    def rate(self) -> Float[Array, "*batch D D"]:
        """P = scale^-1 / 2."""
        return -symmetric(self.negative_rate)

    @property
    def degrees(self) -> Float[Array, "*batch"]:
        """2 n."""
        return 2.0 * self.half_degrees

    @property
    def scale(self) -> Float[Array, "*batch D D"]:
        """P^-1 / 2."""
        return 0.5 * inverse(self._cholesky())

    @property
    def dim(self) -> int:
        """D."""
        return self.negative_rate.shape[-1]

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = log Gamma_D(n) - n log|P|."""
        constant = 0.25 * self.dim * (self.dim - 1) * math.log(math.pi)
        log_gammas = jnp.sum(special.log_gamma(self._shapes()), -1)
        return constant + log_gammas - self.half_degrees * self._log_det_rate()

    def stats(self, x: Any) -> WishartStats:
        """(X, log|X|), with log|X| at least D log(tiny), which is -87.3 D in float32."""
        x = as_float(x)
        return WishartStats(x, floored_log_det(x))

    def log_base_measure(self, stats: WishartStats) -> Float[Array, "*batch"]:
        return -0.5 * (self.dim + 1) * stats.log_det

    def mean(self) -> Float[Array, "*batch D D"]:
        return self.degrees[..., None, None] * self.scale

    def variance(self) -> Float[Array, "*batch D D"]:
        """degrees (s_ij^2 + s_ii s_jj)."""
        s = self.scale
        diagonal = jnp.diagonal(s, axis1=-2, axis2=-1)
        squares = s**2 + diagonal[..., :, None] * diagonal[..., None, :]
        return self.degrees[..., None, None] * squares

    def mode(self) -> Float[Array, "*batch D D"]:
        """(n - (D + 1) / 2) P^-1, or 0 if n is below (D + 1) / 2."""
        excess = jnp.maximum(self.half_degrees - 0.5 * (self.dim + 1), 0.0)
        return 2.0 * excess[..., None, None] * self.scale

    def in_domain(self) -> Self:
        ok = jnp.all(jnp.isfinite(self._cholesky()), (-2, -1)) & jnp.isfinite(self.half_degrees)
        return domain_mask(ok & (self.half_degrees > 0.5 * (self.dim - 1)), self)

    def flat(self) -> Self:
        half_degrees = jnp.full_like(self.half_degrees, 0.5 * (self.dim + 1))
        return type(self)(jnp.zeros_like(self.negative_rate), half_degrees)

    def expected_stats(self) -> WishartStats:
        digammas = jnp.sum(special.digamma(self._shapes()), -1)
        return WishartStats(self.mean(), digammas - self._log_det_rate())

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(X), without a difference of large numbers; -inf if X is not positive definite in
        its precision."""
        factor = self._cholesky()
        return self.log_density(symmetric(factor.mT @ as_float(x) @ factor), -0.5 * (self.dim + 1))

    def log_density(self, whitened: Array, power: float) -> Float[Array, "*batch"]:
        """log q(X) + (power + (D + 1) / 2) log|X| from C' X C = T T', P = C C': the squares of the
        diagonal of T are gammas of shape x_i = n - i/2, and its other entries normals of variance
        1/2 (Bartlett, 1933)."""
        definite = jnp.all(jnp.isfinite(jnp.linalg.cholesky(lax.stop_gradient(whitened))), (-2, -1))
        eye = jnp.eye(self.dim, dtype=whitened.dtype)
        triangle = jnp.linalg.cholesky(jnp.where(definite[..., None, None], whitened, eye))
        squares = jnp.diagonal(triangle, axis1=-2, axis2=-1) ** 2
        shapes = self._shapes()
        gammas = Gamma(shapes, -jnp.ones_like(shapes)).log_prob(squares)
        diagonal = gammas + (1.0 + 0.5 * self._index() + power) * jnp.log(squares)
        normals = -0.25 * self.dim * (self.dim - 1) * math.log(math.pi)
        constant = normals - power * self._log_det_rate()
        below = jnp.sum(jnp.tril(triangle, -1) ** 2, (-2, -1))
        return jnp.where(definite, jnp.sum(diagonal, -1) - below + constant, -jnp.inf)

    def entropy(self) -> Float[Array, "*batch"]:
        """sum_i [g(x_i) + (D + 1 - i) psi(x_i) / 2 + i / 2] + D(D-1)/4 log(pi) - (D + 1) / 2
        log|P|, x_i = n - i/2 and g = `special.legendre_gap`."""
        d, i, x = self.dim, self._index(), self._shapes()
        terms = special.legendre_gap(x) + 0.5 * (d + 1 - i) * special.digamma(x) + 0.5 * i
        constant = 0.25 * d * (d - 1) * math.log(math.pi)
        return jnp.sum(terms, -1) + constant - 0.5 * (d + 1) * self._log_det_rate()

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL(self || other) from the factors C of P and F of P', with R = C^-1 F: the sum of the
        divergences of gammas with shapes x_i, x'_i and rates 1, R_ii^2, of i (R_ii^2 - 1 - log
        R_ii^2) / 2, and of n R_ij^2 over i > j. No term is negative."""
        x = self._shapes()
        ratio = solve(self._cholesky(), other._cholesky())
        squares = jnp.diagonal(ratio, axis1=-2, axis2=-1) ** 2
        terms = Gamma(x, -jnp.ones_like(x)).kl(Gamma(other._shapes(), -squares))
        terms = terms + 0.5 * self._index() * special.excess_over_log(squares)
        below = jnp.sum(jnp.tril(ratio, -1) ** 2, (-2, -1))
        return jnp.sum(terms, -1) + self.half_degrees * below

    def fisher_solve(self, cotangent: WishartStats) -> Self:
        """F^-1 g: dn c = g_2 - tr(P g_1) / n with c = sum_i psi'(x_i) - D / n, and d(-P) = (P g_1 P
        - dn P) / n."""
        g, p = symmetric(cotangent.value), self.rate
        trace = jnp.sum(p * g, (-2, -1))
        return self._solution((cotangent.log_det - trace / self.half_degrees), p @ g @ p)

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape_batch D D"]:
        return self.sample_stats(key, shape).value

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> WishartStats:
        """(X, log|X|) of a draw (Bartlett, 1933), differentiable in the parameters."""
        draw = self.bartlett(key, shape)
        return WishartStats(gram(draw.root), draw.log_det)

    def pathwise_sample(
        self, key: PRNGKeyArray
    ) -> tuple[WishartStats, Callable[[WishartStats], Self]]:
        """t(X) of a draw, and V: eta -> F^-1 J^T eta in closed form (`bartlett_v`)."""
        draw = lax.optimization_barrier(self.bartlett(key))
        return WishartStats(gram(draw.root), draw.log_det), lambda eta: self.bartlett_v(draw, eta)

    def bartlett(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> BartlettDraw:
        """A draw, by its triangular factor."""
        key_gamma, key_normal = jax.random.split(key)
        shapes = self._shapes()
        factor = self._cholesky()
        offset = sample_offset(key_gamma, shapes, shape)
        log_gammas = log_gamma_from_offset(shapes, offset)
        noise_shape = (*shape, *self.negative_rate.shape)
        noise = jax.random.normal(key_normal, noise_shape, self.negative_rate.dtype)
        eye = jnp.eye(self.dim, dtype=noise.dtype)
        triangle = math.sqrt(0.5) * jnp.tril(noise, -1) + eye * jnp.exp(0.5 * log_gammas)[..., None]
        whitener = solve(factor, jnp.broadcast_to(eye, factor.shape), trans=1)
        log_det = jnp.sum(log_gammas, -1) - 2.0 * half_log_det(factor)
        return BartlettDraw(whitener @ triangle, triangle, factor, whitener, offset, log_det)

    def bartlett_v(self, draw: BartlettDraw, eta: WishartStats) -> Any:
        """V eta at a draw X = B B'.

        P moves X by dX = -(P^-1 dP X + X dP P^-1) / 2, by a square root of P^-1 that needs no
        derivative of a Cholesky factor; n moves the gammas. With H = sym(eta_1), Q = M' H M, c_i =
        (T' Q)_ii T_ii, d_i = d log gamma_i / dn, the right-hand side g_2 - tr(P g_1) / n of
        `fisher_solve` is

            sum_i (c_i + eta_2) (d_i - 1 / n) - tr(T' Q S) / n,    S the strictly lower part of T.

        Its terms are all of order n^-1/2: the terms of order 1 have cancelled on paper."""
        h = symmetric(eta.value)
        n, x, t = self.half_degrees, self._shapes(), draw.triangle
        half = t.mT @ (draw.whitener.mT @ h @ draw.whitener)
        c = jnp.diagonal(half, axis1=-2, axis2=-1) * jnp.diagonal(t, axis1=-2, axis2=-1)
        slope = (elasticity_minus_one(x, draw.offset) + 0.5 * self._index() / n[..., None]) / x
        off_diagonal = jnp.sum(half.mT * jnp.tril(t, -1), (-2, -1))
        drive = jnp.sum((c + eta.log_det[..., None]) * slope, -1) - off_diagonal / n
        product = symmetric(self.rate @ gram(draw.root) @ h)
        return self._solution(drive, product + eta.log_det[..., None, None] * self.rate)

    def _solution(self, drive: Array, matrix: Array) -> Self:
        """The direction with dn c = `drive`, c = sum_i psi'(x_i) - D / n, and d(-P) = (`matrix` -
        dn P) / n."""
        n, x = self.half_degrees, self._shapes()
        terms = (special.trigamma_excess(x) + 0.5 * self._index() / n[..., None]) / x
        dn = drive / jnp.sum(terms, -1)
        d_rate = symmetric(matrix - dn[..., None, None] * self.rate) / n[..., None, None]
        return type(self)(d_rate, dn)

    def _index(self) -> Float[Array, "*ones D"]:
        """0, 1, ..., D - 1 along the last axis, with an axis of size 1 for each batch axis."""
        index = jnp.arange(self.dim, dtype=self.half_degrees.dtype)
        return index.reshape(*[1] * self.half_degrees.ndim, -1)

    def _shapes(self) -> Float[Array, "*batch D"]:
        """x_i = n - i/2."""
        return self.half_degrees[..., None] - 0.5 * self._index()

    def _cholesky(self) -> Float[Array, "*batch D D"]:
        return jnp.linalg.cholesky(self.rate)

    def _log_det_rate(self) -> Float[Array, "*batch"]:
        return 2.0 * half_log_det(self._cholesky())


# --- shared with the inverse Wishart and the normal-Wishart ---------------------------------------
def check_degrees(degrees: Any, matrix: Any, name: str) -> tuple[Array, Array]:
    """Degrees and matrix of one dtype, broadcast to common batch axes; ValueError naming the
    argument that is wrong."""
    xp, degrees, matrix = numpy_or_jax(*as_floats(degrees, matrix))
    is_square = matrix.ndim >= 2 and matrix.shape[-1] == matrix.shape[-2]
    require(is_square, name, "a matrix (..., D, D)", f"shape {matrix.shape}")
    matrix = positive_definite(matrix, name)
    limit = matrix.shape[-1] - 1
    is_enough = (degrees > limit) & finite(degrees)
    require(is_enough, "degrees", f"finite numbers above D - 1 = {limit}", degrees)
    batch = jnp.broadcast_shapes(degrees.shape, matrix.shape[:-2])
    return xp.broadcast_to(degrees, batch), xp.broadcast_to(matrix, batch + matrix.shape[-2:])


def gram(root: Array) -> Array:
    """B B', exactly symmetric."""
    return symmetric(root @ root.mT)


def floored_log_det(x: Array) -> Array:
    """log|X|, at least D times the log of the smallest normal number."""
    lowest = x.shape[-1] * math.log(float(jnp.finfo(x.dtype).tiny))
    return jnp.maximum(jnp.linalg.slogdet(x)[1], lowest)
