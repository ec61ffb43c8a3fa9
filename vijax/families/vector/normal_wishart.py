"""The normal-Wishart distribution of a mean and a precision matrix: L ~ Wishart(n, P), mu | L ~ N(m, (kappa L)^-1).

    q(mu, L) = |L|^{-D/2} exp{<kappa m, L mu> + <-(P + kappa m m' / 2), L> - kappa / 2 (mu' L mu) + n log|L| - A},
    A = A_Wishart(n, P) - D log(kappa) / 2 + D log(2 pi) / 2

The conjugate prior of a multivariate normal's two parameters: an observation y adds (y, -y y' / 2, -1/2, 1/2). In the
coordinates (m, kappa, (P, n)) the Fisher matrix is block diagonal, which makes `fisher_solve` and V closed forms of
O(D^3). P is a difference of natural parameters: float32 loses 3e-8 of kappa m m' / 2 in it, which the law shows
sqrt(degrees) times. With c the condition number of the scale's correlations times sqrt(degrees), divergences, entropies
and densities are right to 1e-3 where c is up to 1e3 and |m| up to 50 / sqrt(c) of its own spreads (of N(0, (kappa
P)^-1)); the constructor raises where more than 1e-3 of P goes. Centre the data then.

The normal-inverse-Wishart, a law of (mu, L^-1), has these statistics and parameters: it is this family relabelled,
and there is no class for it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import Family, as_floats, domain_mask, family, finite
from vijax.families.construction import constructor, on_host
from vijax.families.discrete.dirichlet import positive_and_finite
from vijax.families.held import CENTRE, lost_spread, require_held
from vijax.families.numeric.excess import less_half_product
from vijax.families.numeric.special import excess_over_log
from vijax.families.scalar.normal_gamma import MeanPrecision
from vijax.families.univariate import StudentLaw
from vijax.families.vector.matrices import inverse, matvec, outer, solve_upper, symmetric, transpose
from vijax.families.vector.wishart import BartlettDraw, Wishart, WishartStats, checked_degrees, floored_log_det, gram


class NormalWishartStats(NamedTuple):
    """t(mu, L) = (L mu, L, mu' L mu, log|L|)."""

    precision_times_mean: Float[Array, "*batch D"]
    precision: Float[Array, "*batch D D"]
    quadratic: Float[Array, "*batch"]
    log_det: Float[Array, "*batch"]


@family
class NormalWishart(Family):
    """A normal-Wishart distribution over (mean, precision matrix) of a multivariate normal.

    log h(mean, precision) = -dim / 2 * logdet(precision);
    t = (precision @ mean, precision, mean @ precision @ mean, logdet(precision));
    natural parameters (strength * location, -inv(scale) / 2 - strength * outer(location, location) / 2,
    -strength / 2, degrees / 2).

    >>> q = NormalWishart.from_parameters(
    ...     location=[1.0, 0.0], strength=2.0, degrees=4.0, scale=[[0.5, 0.0], [0.0, 1.0]]
    ... )
    >>> print(q.mean().mean, q.mean().precision.round(3).tolist())
    [1. 0.] [[2.0, 0.0], [0.0, 4.0]]
    """

    strength_times_location: Float[Array, "*batch D"]
    negative_raw_rate: Float[Array, "*batch D D"]
    negative_half_strength: Float[Array, "*batch"]
    half_degrees: Float[Array, "*batch"]

    Stats: ClassVar = NormalWishartStats
    event_ndims: ClassVar = (1, 2, 0, 0)

    @classmethod
    @constructor
    def from_parameters(cls, location: Any, strength: Any, degrees: Any, scale: Any) -> Self:
        """Normal-Wisharts from m (*batch, D), kappa (*batch,), and a Wishart's degrees (*batch,), scale (*batch, D, D).

        Raises:
          ValueError: a location that is not finite or does not fit, a strength that is not positive and finite, degrees
            that do not exceed D - 1, a scale that is not symmetric positive definite, or whose inverse is lost beside
            strength * location location'.
        """
        xp, m, kappa, degrees, scale = on_host(*as_floats(location, strength, degrees, scale))
        require(m.ndim >= 1 and m.shape[-1:] == scale.shape[-1:], "location", f"vectors of {scale.shape[-1:]}", m.shape)
        require(finite(m), "location", "finite numbers", m)
        require(positive_and_finite(kappa), "strength", "positive finite numbers", kappa)
        degrees, scale = checked_degrees(degrees, scale, "scale")
        batch = jnp.broadcast_shapes(m.shape[:-1], kappa.shape, degrees.shape)
        m, kappa = xp.broadcast_to(m, batch + m.shape[-1:]), xp.broadcast_to(kappa, batch)
        wishart = Wishart.from_degrees_scale(xp.broadcast_to(degrees, batch), scale)
        _, rate, half_degrees = on_host(wishart.rate, wishart.half_degrees)
        linear, raw = kappa[..., None] * m, rate + 0.5 * kappa[..., None, None] * outer(m, m)
        raw = raw + (rate - _rate(raw, linear, kappa))  # the effect of rounding `linear`
        require_held("scale", _lost_scale, xp.broadcast_to(scale, raw.shape), -raw, linear, kappa, remedy=CENTRE)
        return cls(linear, -raw, -0.5 * kappa, half_degrees)

    @property
    def strength(self) -> Float[Array, "*batch"]:
        """kappa: the number of observations that the mean is worth."""
        return -2.0 * self.negative_half_strength

    @property
    def location(self) -> Float[Array, "*batch D"]:
        """m = E[mu]."""
        return self.strength_times_location / self.strength[..., None]

    @property
    def degrees(self) -> Float[Array, "*batch"]:
        """The Wishart's degrees of freedom."""
        return 2.0 * self.half_degrees

    @property
    def scale(self) -> Float[Array, "*batch D D"]:
        """The Wishart's scale."""
        return self.precision_law().scale

    @property
    def dim(self) -> int:
        """D."""
        return self.strength_times_location.shape[-1]

    def precision_law(self) -> Wishart:
        """The marginal law of the precision matrix."""
        rate = _rate(-self.negative_raw_rate, self.strength_times_location, self.strength)
        return Wishart(-rate, self.half_degrees)

    # --- the law ----------------------------------------------------------------------------------------------
    def log_normalizer(self) -> Float[Array, "*batch"]:
        """The Wishart's A, and D log(2 pi / kappa) / 2."""
        return self.precision_law().log_normalizer() + 0.5 * self.dim * (math.log(2 * math.pi) - jnp.log(self.strength))

    def stats(self, x: MeanPrecision) -> NormalWishartStats:
        """(L mu, L, mu' L mu, log|L|) of a pair (mean, precision)."""
        mean, precision = as_floats(*x)
        product = matvec(precision, mean)
        return NormalWishartStats(product, precision, jnp.sum(mean * product, -1), floored_log_det(precision))

    def log_base_measure(self, stats: NormalWishartStats) -> Float[Array, "*batch"]:
        """log h = -D / 2 log|L|."""
        return -0.5 * self.dim * stats.log_det

    def mean(self) -> MeanPrecision:
        """(m, n P^-1)."""
        return MeanPrecision(self.location, self.precision_law().mean())

    def mean_law(self) -> StudentLaw:
        """The marginal laws of the numbers of mu: Student's t with f = degrees - D + 1 degrees of freedom."""
        freedom = self.degrees - self.dim + 1.0
        spread = jnp.diagonal(inverse(jnp.linalg.cholesky(self.scale)), axis1=-2, axis2=-1)
        scale = jnp.sqrt(spread / (self.strength * freedom)[..., None])
        return StudentLaw(jnp.broadcast_to(freedom[..., None], scale.shape), self.location, scale)

    def variance(self) -> MeanPrecision:
        """Variances of mean and precision. Intervals of the mean are those of `mean_law()`; for a precision matrix only
        the diagonal has a law in closed form."""
        return MeanPrecision(self.mean_law().variance(), self.precision_law().variance())

    def mode(self) -> MeanPrecision:
        """(m, (n - D / 2) P^-1), with precision 0 where n <= D / 2."""
        excess = jnp.maximum(self.half_degrees - 0.5 * self.dim, 0.0)
        return MeanPrecision(self.location, 2.0 * excess[..., None, None] * self.scale)

    def in_domain(self) -> Self:
        """kappa positive, P positive definite, n > (D - 1) / 2, all finite."""
        ok = self.precision_law().in_domain().half_degrees & positive_and_finite(self.strength)
        return domain_mask(ok & jnp.all(jnp.isfinite(self.strength_times_location), -1), self)

    def flat(self) -> Self:
        """n = D / 2, the others zero."""
        zeros = jax.tree.map(jnp.zeros_like, self)
        return dataclasses.replace(zeros, half_degrees=jnp.full_like(self.half_degrees, 0.5 * self.dim))

    # --- closed forms -----------------------------------------------------------------------------------------
    def expected_stats(self) -> NormalWishartStats:
        """(E[L] m, E[L], D / kappa + m' E[L] m, E log|L|)."""
        m, of_precision = self.location, self.precision_law().expected_stats()
        product = matvec(of_precision.value, m)
        quadratic = self.dim / self.strength + jnp.sum(m * product, -1)
        return NormalWishartStats(product, of_precision.value, quadratic, of_precision.log_det)

    def log_prob(self, x: MeanPrecision) -> Float[Array, "*batch"]:
        """log q(L) + log q(mu | L); -inf where L is not positive definite."""
        mean, precision = as_floats(*x)
        of_precision = self.precision_law().log_prob(precision)
        eye = jnp.eye(self.dim, dtype=precision.dtype)
        precision = jnp.where(jnp.isneginf(of_precision)[..., None, None], eye, precision)
        shift = mean - self.location
        spread = self.strength * jnp.sum(shift * matvec(precision, shift), -1)
        log_scale = self.dim * (jnp.log(self.strength) - math.log(2 * math.pi)) + floored_log_det(precision)
        return of_precision + 0.5 * (log_scale - spread)

    def entropy(self) -> Float[Array, "*batch"]:
        """H[L] + E H[mu | L]."""
        law = self.precision_law()
        of_mean = self.dim * (1.0 + math.log(2 * math.pi) - jnp.log(self.strength)) - law.expected_stats().log_det
        return law.entropy() + 0.5 * of_mean

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL of the precisions, and [D (r - 1 - log r) + kappa' (m - m')' E[L] (m - m')] / 2, r = kappa' / kappa."""
        law, shift = self.precision_law(), self.location - other.location
        distance = other.strength * jnp.sum(shift * matvec(law.mean(), shift), -1)
        of_mean = self.dim * excess_over_log(other.strength / self.strength) + distance
        return law.kl(other.precision_law()) + 0.5 * of_mean

    def fisher_solve(self, cotangent: NormalWishartStats) -> Self:
        """F^-1 g: the changes of m and D / kappa that g asks for, and the Wishart's solution for its own two."""
        law, m, kappa = self.precision_law(), self.location, self.strength
        linear, matrix = cotangent.precision_times_mean, symmetric(cotangent.precision)
        gap = linear - matvec(matrix, m)
        dm = matvec(law.rate, gap) / self.half_degrees[..., None]
        d_inverse = cotangent.quadratic - jnp.sum(m * (linear + gap), -1)
        return self._moved(dm, -(kappa**2) * d_inverse / self.dim, law.fisher_solve(WishartStats(matrix, cotangent[3])))

    # --- sampling ---------------------------------------------------------------------------------------------
    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> MeanPrecision:
        """(mu, L) ~ q."""
        draw, scaled = self._draw(key, shape)
        return MeanPrecision(self.location + _solve_root(draw, scaled), gram(draw.root))

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> NormalWishartStats:
        """t of a draw, with nothing divided by the precision; differentiable in the parameters."""
        return self._stats_of_draw(*self._draw(key, shape))

    def pathwise_sample(self, key: PRNGKeyArray) -> tuple[NormalWishartStats, Callable[[NormalWishartStats], Self]]:
        """t of a draw, and V: eta -> F^-1 J^T eta, block by block in m, kappa and (P, n).

        With e = mu - m, s = eta_1 + 2 eta_3 mu, L s is the slope of <eta, t> at mu: d/dm = L s, d/dkappa = -e' L s /
        (2 kappa), and L moves mu by -L^-1 dL e / 2 (the transport of a normal with its covariance), so that d/dL is
        sym(eta_2 + eta_1 m' + eta_3 m m' + (eta_1 + 2 eta_3 m) e' / 2).
        """
        draw, scaled = lax.optimization_barrier(self._draw(key, ()))
        law, m, kappa = self.precision_law(), self.location, self.strength

        def v_product(eta: NormalWishartStats) -> Any:
            linear, quadratic = eta.precision_times_mean, eta.quadratic[..., None]
            slope_at_m = linear + 2.0 * quadratic * m
            step = _solve_root(draw, scaled)
            slope = matvec(transpose(draw.root), slope_at_m) + 2.0 * quadratic * scaled  # B' s
            dm = matvec(law.rate, matvec(draw.root, slope)) / (kappa * self.half_degrees)[..., None]
            dkappa = -kappa * jnp.sum(slope * scaled, -1) / self.dim
            matrix = eta.precision + outer(linear + quadratic * m, m) + 0.5 * outer(slope_at_m, step)
            return self._moved(dm, dkappa, law.bartlett_v(draw, WishartStats(matrix, eta.log_det)))

        return self._stats_of_draw(draw, scaled), v_product

    def _draw(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> tuple[BartlettDraw, Array]:
        """L = B B', and B' (mu - m), which is N(0, 1 / kappa)."""
        key_precision, key_noise = jax.random.split(key)
        noise = jax.random.normal(key_noise, shape + self.strength_times_location.shape, self.half_degrees.dtype)
        return self.precision_law().bartlett(key_precision, shape), noise / jnp.sqrt(self.strength)[..., None]

    def _stats_of_draw(self, draw: BartlettDraw, scaled: Array) -> NormalWishartStats:
        rooted = matvec(transpose(draw.root), self.location) + scaled  # B' mu
        return NormalWishartStats(matvec(draw.root, rooted), gram(draw.root), jnp.sum(rooted**2, -1), draw.log_det)

    def _moved(self, dm: Array, dkappa: Array, law: Wishart) -> Self:
        """The direction in natural parameters of a change of (m, kappa, -P, n)."""
        m, kappa = self.location, self.strength
        raw = 0.5 * dkappa[..., None, None] * outer(m, m) + kappa[..., None, None] * symmetric(outer(m, dm))
        linear = dkappa[..., None] * m + kappa[..., None] * dm
        return type(self)(linear, law.negative_rate - raw, -0.5 * dkappa, law.half_degrees)


def _solve_root(draw: BartlettDraw, x: Array) -> Array:
    """B'^-1 x = C T'^-1 x, C the Cholesky factor of P."""
    return matvec(draw.factor, solve_upper(draw.triangle, x))


def _rate(raw: Array, linear: Array, strength: Array) -> Array:
    """P of the raw rate P + kappa m m' / 2."""
    return less_half_product(raw, linear[..., :, None], linear[..., None, :], strength[..., None, None])


def _lost_scale(scale: np.ndarray, raw: np.ndarray, linear: np.ndarray, strength: np.ndarray) -> np.ndarray:
    squares = linear[..., :, None] * linear[..., None, :] / strength[..., None, None]
    return lost_spread(scale, -2.0 * raw - squares)
