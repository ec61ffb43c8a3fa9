"""Several means and the one precision matrix that they share: L ~ Wishart(n, P), mu_j | L ~ N(m_j, (kappa_j L)^-1), J
of them, independent given L.

    q(mu, L) = |L|^{(J-D-1)/2} exp{sum_j [<kappa_j m_j, L mu_j> - kappa_j / 2 (mu_j' L mu_j)]
               + <-(P + sum_j kappa_j m_j m_j' / 2), L> + n log|L| - A},
    A = A_Wishart(n, P) + sum_j [D log(2 pi) - D log(kappa_j)] / 2

The conjugate prior of Gaussian components of one covariance ("tied"): an observation y of component j adds y to the
j-th location, -1/2 to its strength, and (-y y' / 2, 1/2) to the shared two. With D = 1 it is one gamma for J means: a
component whose covariance is a multiple of the identity ("spherical"), its coordinates the means. With J = 1 it is the
normal-Wishart (`normal_wishart.py`), whose closed forms these are, summed over the means; its remarks on float32 hold
for sum_j kappa_j m_j m_j' / 2 here.
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
from vijax.families.base import Family, as_floats, domain_mask, family, finite, positive_and_finite
from vijax.families.construction import constructor, on_host
from vijax.families.held import CENTRE, lost_spread, require_held
from vijax.families.numeric.special import excess_over_log
from vijax.families.scalar.normal_gamma import MeanPrecision
from vijax.families.univariate import StudentLaw
from vijax.families.vector.matrices import solve, symmetric, transpose
from vijax.families.vector.normal_wishart import NormalWishart
from vijax.families.vector.wishart import BartlettDraw, Wishart, WishartStats, checked_degrees, floored_log_det, gram


class NormalsWishartStats(NamedTuple):
    """t(mu, L) = (L mu_j, L, mu_j' L mu_j, log|L|)."""

    precision_times_mean: Float[Array, "*batch J D"]
    precision: Float[Array, "*batch D D"]
    quadratic: Float[Array, "*batch J"]
    log_det: Float[Array, "*batch"]


@family
class NormalsWishart(Family):
    """A law of J means and one precision matrix.

    log h(mean, precision) = (num_means - dim - 1) / 2 * logdet(precision);
    t = (mean @ precision, precision, sum((mean @ precision) * mean, 1), logdet(precision));
    natural parameters (strength[:, None] * location, -inv(scale) / 2 - (strength * location.T) @ location / 2,
    -strength / 2, degrees / 2).

    >>> q = NormalsWishart.from_parameters(
    ...     location=[[1.0, 0.0], [0.0, 3.0]], strength=2.0, degrees=4.0, scale=[[0.5, 0.0], [0.0, 1.0]]
    ... )
    >>> print(q.mean().mean.tolist(), q.mean().precision.round(3).tolist())
    [[1.0, 0.0], [0.0, 3.0]] [[2.0, 0.0], [0.0, 4.0]]
    """

    strength_times_location: Float[Array, "*batch J D"]
    negative_raw_rate: Float[Array, "*batch D D"]
    negative_half_strength: Float[Array, "*batch J"]
    half_degrees: Float[Array, "*batch"]

    Stats: ClassVar[type[tuple]] = NormalsWishartStats
    event_ndims: ClassVar[tuple[int, ...]] = (2, 2, 1, 0)

    @classmethod
    @constructor
    def from_parameters(cls, location: Any, strength: Any, degrees: Any, scale: Any) -> Self:
        """Laws from m (*batch, J, D), kappa (*batch, J) or one for all, and the Wishart's degrees (*batch,) and scale
        (*batch, D, D).

        Raises:
          ValueError: as `NormalWishart.from_parameters`.
        """
        xp, m, kappa, degrees, scale = on_host(*as_floats(location, strength, degrees, scale))
        fits = m.ndim >= 2 and m.shape[-1:] == scale.shape[-1:]
        require(fits, "location", f"J vectors of {scale.shape[-1:]}", m.shape)
        require(finite(m), "location", "finite numbers", m)
        require(positive_and_finite(kappa), "strength", "positive finite numbers", kappa)
        degrees, scale = checked_degrees(degrees, scale, "scale")
        batch = jnp.broadcast_shapes(m.shape[:-2], kappa.shape[:-1], degrees.shape)
        m, kappa = xp.broadcast_to(m, batch + m.shape[-2:]), xp.broadcast_to(kappa, batch + m.shape[-2:-1])
        wishart = Wishart.from_degrees_scale(xp.broadcast_to(degrees, batch), scale)
        _, rate, half_degrees = on_host(wishart.rate, wishart.half_degrees)
        linear = kappa[..., None] * m
        raw = rate + 0.5 * xp.einsum("...ji,...jk->...ik", linear, m)
        require_held("scale", _lost_scale, xp.broadcast_to(scale, raw.shape), raw, linear, kappa, remedy=CENTRE)
        return cls(linear, -raw, -0.5 * kappa, half_degrees)

    @property
    def strength(self) -> Float[Array, "*batch J"]:
        """kappa_j: the number of observations that each mean is worth."""
        return -2.0 * self.negative_half_strength

    @property
    def location(self) -> Float[Array, "*batch J D"]:
        """m_j = E[mu_j]."""
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

    @property
    def num_means(self) -> int:
        """J."""
        return self.strength_times_location.shape[-2]

    def precision_law(self) -> Wishart:
        """The marginal law of the precision matrix."""
        raw = 0.5 * _sum_of_products(self.strength_times_location, self.location)
        return Wishart(symmetric(self.negative_raw_rate + raw), self.half_degrees)

    def each(self) -> NormalWishart:
        """The marginal laws of (mu_j, L), with a batch axis of J."""
        law, shape = self.precision_law(), self.strength.shape
        outer = jnp.einsum("...ji,...jk->...jik", self.strength_times_location, self.location)
        raw = law.negative_rate[..., None, :, :] - 0.5 * outer
        half_degrees = jnp.broadcast_to(self.half_degrees[..., None], shape)
        return NormalWishart(self.strength_times_location, raw, self.negative_half_strength, half_degrees)

    # --- the law ----------------------------------------------------------------------------------------------
    def log_normalizer(self) -> Float[Array, "*batch"]:
        """The Wishart's A, and D log(2 pi / kappa_j) / 2 of each mean."""
        of_means = 0.5 * self.dim * jnp.sum(math.log(2 * math.pi) - jnp.log(self.strength), -1)
        return self.precision_law().log_normalizer() + of_means

    def stats(self, x: MeanPrecision) -> NormalsWishartStats:
        """(L mu_j, L, mu_j' L mu_j, log|L|) of a pair (means, precision)."""
        means, precision = as_floats(*x)
        product = _products(precision, means)
        return NormalsWishartStats(product, precision, _dots(means, product), floored_log_det(precision))

    def log_base_measure(self, stats: NormalsWishartStats) -> Float[Array, "*batch"]:
        """log h = (J - D - 1) / 2 log|L|."""
        return 0.5 * (self.num_means - self.dim - 1) * stats.log_det

    def mean(self) -> MeanPrecision:
        """(m, n P^-1)."""
        return MeanPrecision(self.location, self.precision_law().mean())

    def mean_law(self) -> StudentLaw:
        """The marginal laws of the numbers of mu, as for the normal-Wishart."""
        return self.each().mean_law()

    def variance(self) -> MeanPrecision:
        """Variances of means and precision; intervals of the means are those of `mean_law()`."""
        return MeanPrecision(self.mean_law().variance(), self.precision_law().variance())

    def mode(self) -> MeanPrecision:
        """(m, (n + (J - D - 1) / 2) P^-1), with precision 0 where that is negative."""
        excess = jnp.maximum(self.half_degrees + 0.5 * (self.num_means - self.dim - 1), 0.0)
        return MeanPrecision(self.location, 2.0 * excess[..., None, None] * self.scale)

    def in_domain(self) -> Self:
        """Every kappa positive, P positive definite, n > (D - 1) / 2, all finite."""
        ok = self.precision_law().in_domain().half_degrees & jnp.all(positive_and_finite(self.strength), -1)
        return domain_mask(ok & jnp.all(jnp.isfinite(self.strength_times_location), (-2, -1)), self)

    def flat(self) -> Self:
        """n = (D + 1 - J) / 2, the others zero."""
        zeros = jax.tree.map(jnp.zeros_like, self)
        n = jnp.full_like(self.half_degrees, 0.5 * (self.dim + 1 - self.num_means))
        return dataclasses.replace(zeros, half_degrees=n)

    # --- closed forms -----------------------------------------------------------------------------------------
    def expected_stats(self) -> NormalsWishartStats:
        """(E[L] m_j, E[L], D / kappa_j + m_j' E[L] m_j, E log|L|)."""
        m, of_precision = self.location, self.precision_law().expected_stats()
        product = _products(of_precision.value, m)
        quadratic = self.dim / self.strength + _dots(m, product)
        return NormalsWishartStats(product, of_precision.value, quadratic, of_precision.log_det)

    def log_prob(self, x: MeanPrecision) -> Float[Array, "*batch"]:
        """log q(L) + sum_j log q(mu_j | L); -inf where L is not positive definite."""
        means, precision = as_floats(*x)
        of_precision = self.precision_law().log_prob(precision)
        eye = jnp.eye(self.dim, dtype=precision.dtype)
        precision = jnp.where(jnp.isneginf(of_precision)[..., None, None], eye, precision)
        shift = means - self.location
        spread = self.strength * _dots(shift, _products(precision, shift))
        log_scale = self.dim * (jnp.log(self.strength) - math.log(2 * math.pi)) + floored_log_det(precision)[..., None]
        return of_precision + 0.5 * jnp.sum(log_scale - spread, -1)

    def entropy(self) -> Float[Array, "*batch"]:
        """H[L] + sum_j E H[mu_j | L]."""
        law = self.precision_law()
        of_each = self.dim * (1.0 + math.log(2 * math.pi) - jnp.log(self.strength))
        return law.entropy() + 0.5 * (jnp.sum(of_each, -1) - self.num_means * law.expected_stats().log_det)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL of the precisions, and of each mean as in the normal-Wishart."""
        law, shift = self.precision_law(), self.location - other.location
        distance = other.strength * _dots(shift, _products(law.mean(), shift))
        of_each = self.dim * excess_over_log(other.strength / self.strength) + distance
        return law.kl(other.precision_law()) + 0.5 * jnp.sum(of_each, -1)

    def fisher_solve(self, cotangent: NormalsWishartStats) -> Self:
        """F^-1 g: for each mean as in the normal-Wishart, and the Wishart's solution for its own two."""
        law, m, kappa = self.precision_law(), self.location, self.strength
        linear, matrix = cotangent.precision_times_mean, symmetric(cotangent.precision)
        gap = linear - _products(matrix, m)
        dm = _products(law.rate, gap) / self.half_degrees[..., None, None]
        d_inverse = cotangent.quadratic - _dots(m, linear + gap)
        return self._moved(dm, -(kappa**2) * d_inverse / self.dim, law.fisher_solve(WishartStats(matrix, cotangent[3])))

    # --- sampling ---------------------------------------------------------------------------------------------
    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> MeanPrecision:
        """(mu, L) ~ q."""
        draw, scaled = self._draw(key, shape)
        return MeanPrecision(self.location + _solve_root(draw, scaled), gram(draw.root))

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> NormalsWishartStats:
        """t of a draw, with nothing divided by the precision; differentiable in the parameters."""
        return self._stats_of_draw(*self._draw(key, shape))

    def pathwise_sample(self, key: PRNGKeyArray) -> tuple[NormalsWishartStats, Callable[[NormalsWishartStats], Self]]:
        """t of a draw, and V: eta -> F^-1 J^T eta, block by block as in the normal-Wishart; terms of the means in L are
        summed."""
        draw, scaled = lax.optimization_barrier(self._draw(key, ()))
        law, m, kappa = self.precision_law(), self.location, self.strength

        def v_product(eta: NormalsWishartStats) -> Any:
            linear, quadratic = eta.precision_times_mean, eta.quadratic[..., None]
            slope_at_m = linear + 2.0 * quadratic * m
            step = _solve_root(draw, scaled)
            slope = _products(transpose(draw.root), slope_at_m) + 2.0 * quadratic * scaled  # B' s
            scales = kappa[..., None] * self.half_degrees[..., None, None]
            dm = _products(law.rate, _products(draw.root, slope)) / scales
            dkappa = -kappa * _dots(slope, scaled) / self.dim
            matrix = _sum_of_products(linear + quadratic * m, m) + 0.5 * _sum_of_products(slope_at_m, step)
            return self._moved(dm, dkappa, law.bartlett_v(draw, WishartStats(eta.precision + matrix, eta.log_det)))

        return self._stats_of_draw(draw, scaled), v_product

    def _draw(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> tuple[BartlettDraw, Array]:
        """L = B B', and B' (mu_j - m_j), which is N(0, 1 / kappa_j)."""
        key_precision, key_noise = jax.random.split(key)
        noise = jax.random.normal(key_noise, shape + self.strength_times_location.shape, self.half_degrees.dtype)
        return self.precision_law().bartlett(key_precision, shape), noise / jnp.sqrt(self.strength)[..., None]

    def _stats_of_draw(self, draw: BartlettDraw, scaled: Array) -> NormalsWishartStats:
        rooted = _products(transpose(draw.root), self.location) + scaled  # B' mu_j
        return NormalsWishartStats(_products(draw.root, rooted), gram(draw.root), _dots(rooted, rooted), draw.log_det)

    def _moved(self, dm: Array, dkappa: Array, law: Wishart) -> Self:
        """The direction in natural parameters of a change of (m, kappa, -P, n)."""
        m, kappa = self.location, self.strength[..., None]
        raw = 0.5 * _sum_of_products(dkappa[..., None] * m, m) + symmetric(_sum_of_products(kappa * m, dm))
        linear = dkappa[..., None] * m + kappa * dm
        return type(self)(linear, law.negative_rate - raw, -0.5 * dkappa, law.half_degrees)


def _products(matrix: Array, vectors: Array) -> Float[Array, "*batch J D"]:
    """The matrix times each of J vectors."""
    return jnp.einsum("...ik,...jk->...ji", matrix, vectors, precision="highest")


def _dots(x: Array, y: Array) -> Float[Array, "*batch J"]:
    return jnp.einsum("...jd,...jd->...j", x, y, precision="highest")


def _sum_of_products(x: Array, y: Array) -> Float[Array, "*batch D D"]:
    """sum_j x_j y_j'."""
    return jnp.einsum("...ji,...jk->...ik", x, y, precision="highest")


def _solve_root(draw: BartlettDraw, x: Array) -> Array:
    """B'^-1 x_j = C T'^-1 x_j, C the Cholesky factor of P."""
    return _products(draw.factor, transpose(solve(draw.triangle, transpose(x), trans=1)))


def _lost_scale(scale: np.ndarray, raw: np.ndarray, linear: np.ndarray, strength: np.ndarray) -> np.ndarray:
    squares = np.einsum("...ji,...jk->...ik", linear, linear / strength[..., None])
    return lost_spread(scale, 2.0 * raw - squares)
