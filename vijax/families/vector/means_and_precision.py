"""The closed forms of laws of means and one precision matrix, L ~ Wishart(n, P), mu_j | L ~ N(m_j,
(kappa_j L)^-1), summed over the means. A family of one mean has no axis of means, and gets one
inside."""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Callable
from typing import Any, Self

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families.base import Family, as_floats, domain_mask, positive_and_finite
from vijax.families.laws import StudentLaw
from vijax.families.numeric.special import excess_over_log
from vijax.families.scalar.normal_gamma import MeanPrecision
from vijax.families.vector.matrices import solve, symmetric
from vijax.families.vector.wishart import BartlettDraw, Wishart, WishartStats, floored_log_det, gram


class MeansAndPrecision(Family):
    """The base class of laws of one mean or several, and one precision matrix."""

    strength_times_location: Array
    negative_raw_rate: Float[Array, "*batch D D"]
    negative_half_strength: Array
    half_degrees: Float[Array, "*batch"]

    @abc.abstractmethod
    def precision_law(self) -> Wishart:
        """The marginal law of the precision matrix."""

    @abc.abstractmethod
    def mean_law(self) -> StudentLaw:
        """The marginal laws of the numbers of the means."""

    @property
    def strength(self) -> Array:
        """kappa: how many observations each mean is worth."""
        return -2.0 * self.negative_half_strength

    @property
    def location(self) -> Array:
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

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """The Wishart's A, and D log(2 pi / kappa_j) / 2 of each mean."""
        of_means = 0.5 * self.dim * jnp.sum(math.log(2 * math.pi) - jnp.log(self._kappa), -1)
        return self.precision_law().log_normalizer() + of_means

    def stats(self, x: MeanPrecision) -> Any:
        means, precision = as_floats(*x)
        means = self._many(means, 1)
        return self._as_stats(
            products(precision, means), precision, means, floored_log_det(precision)
        )

    def log_base_measure(self, stats: Any) -> Float[Array, "*batch"]:
        return 0.5 * (self._num_means - self.dim - 1) * stats.log_det

    def mean(self) -> MeanPrecision:
        return MeanPrecision(self.location, self.precision_law().mean())

    def variance(self) -> MeanPrecision:
        """Variances of means and precision; intervals of the means are those of `mean_law()`."""
        return MeanPrecision(self.mean_law().variance(), self.precision_law().variance())

    def mode(self) -> MeanPrecision:
        """(m, (n + (J - D - 1) / 2) P^-1), with precision 0 where that is negative."""
        excess = jnp.maximum(self.half_degrees + 0.5 * (self._num_means - self.dim - 1), 0.0)
        return MeanPrecision(self.location, 2.0 * excess[..., None, None] * self.scale)

    def in_domain(self) -> Self:
        """Every kappa positive, P positive definite, n > (D - 1) / 2, all finite."""
        ok = self.precision_law().in_domain().half_degrees & jnp.all(
            positive_and_finite(self._kappa), -1
        )
        return domain_mask(ok & jnp.all(jnp.isfinite(self._m), (-2, -1)), self)

    def flat(self) -> Self:
        zeros = jax.tree.map(jnp.zeros_like, self)
        n = jnp.full_like(self.half_degrees, 0.5 * (self.dim + 1 - self._num_means))
        return dataclasses.replace(zeros, half_degrees=n)

    def expected_stats(self) -> Any:
        """(E[L] m_j, E[L], D / kappa_j + m_j' E[L] m_j, E log|L|)."""
        m, of_precision = self._m, self.precision_law().expected_stats()
        product = products(of_precision.value, m)
        return self._as_stats(
            product, of_precision.value, m, of_precision.log_det, self.dim / self._kappa
        )

    def log_prob(self, x: MeanPrecision) -> Float[Array, "*batch"]:
        """log q(L) + sum_j log q(mu_j | L); -inf where L is not positive definite."""
        means, precision = as_floats(*x)
        of_precision = self.precision_law().log_prob(precision)
        eye = jnp.eye(self.dim, dtype=precision.dtype)
        precision = jnp.where(jnp.isneginf(of_precision)[..., None, None], eye, precision)
        shift = self._many(means, 1) - self._m
        spread = self._kappa * dots(shift, products(precision, shift))
        log_scale = (
            self.dim * (jnp.log(self._kappa) - math.log(2 * math.pi))
            + floored_log_det(precision)[..., None]
        )
        return of_precision + 0.5 * jnp.sum(log_scale - spread, -1)

    def entropy(self) -> Float[Array, "*batch"]:
        law = self.precision_law()
        of_each = self.dim * (1.0 + math.log(2 * math.pi) - jnp.log(self._kappa))
        return law.entropy() + 0.5 * (
            jnp.sum(of_each, -1) - self._num_means * law.expected_stats().log_det
        )

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL of the precisions, and for each mean [D (r - 1 - log r) + kappa' (m - m')' E[L] (m -
        m')] / 2 with r = kappa' / kappa."""
        law, shift = self.precision_law(), self._m - other._m
        distance = other._kappa * dots(shift, products(law.mean(), shift))
        of_each = self.dim * excess_over_log(other._kappa / self._kappa) + distance
        return law.kl(other.precision_law()) + 0.5 * jnp.sum(of_each, -1)

    def fisher_solve(self, cotangent: Any) -> Self:
        """F^-1 g: the changes of m and D / kappa that g asks for, and the Wishart's solution for
        its own two."""
        law, m, kappa = self.precision_law(), self._m, self._kappa
        linear, matrix = (
            self._many(cotangent.precision_times_mean, 1),
            symmetric(cotangent.precision),
        )
        gap = linear - products(matrix, m)
        dm = products(law.rate, gap) / self.half_degrees[..., None, None]
        d_inverse = self._many(cotangent.quadratic) - dots(m, linear + gap)
        return self._moved(
            dm,
            -(kappa**2) * d_inverse / self.dim,
            law.fisher_solve(WishartStats(matrix, cotangent[3])),
        )

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> MeanPrecision:
        draw, scaled = self._draw(key, shape)
        return MeanPrecision(
            self.location + self._own(solve_root(draw, scaled), 1), gram(draw.root)
        )

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Any:
        """t of a draw, with nothing divided by the precision; differentiable in the parameters."""
        return self._stats_of_draw(*self._draw(key, shape))

    def pathwise_sample(self, key: PRNGKeyArray) -> tuple[Any, Callable[[Any], Self]]:
        """t of a draw, and V: eta -> F^-1 J^T eta, block by block in m, kappa and (P, n).

        With e = mu - m, s = eta_1 + 2 eta_3 mu, L s is the slope of <eta, t> at mu: d/dm = L s,
        d/dkappa = -e' L s / (2 kappa), and L moves mu by -L^-1 dL e / 2 (the transport of a normal
        with its covariance), so that d/dL is sym(eta_2 + eta_1 m' + eta_3 m m' + (eta_1 + 2 eta_3
        m) e' / 2), summed over the means."""
        draw, scaled = lax.optimization_barrier(self._draw(key, ()))
        law, m, kappa = self.precision_law(), self._m, self._kappa

        def v_product(eta: Any) -> Any:
            linear, quadratic = (
                self._many(eta.precision_times_mean, 1),
                self._many(eta.quadratic)[..., None],
            )
            slope_at_m = linear + 2.0 * quadratic * m
            step = solve_root(draw, scaled)
            slope = products(draw.root.mT, slope_at_m) + 2.0 * quadratic * scaled  # B' s
            scales = kappa[..., None] * self.half_degrees[..., None, None]
            dm = products(law.rate, products(draw.root, slope)) / scales
            dkappa = -kappa * dots(slope, scaled) / self.dim
            matrix = sum_of_products(linear + quadratic * m, m) + 0.5 * sum_of_products(
                slope_at_m, step
            )
            return self._moved(
                dm, dkappa, law.bartlett_v(draw, WishartStats(eta.precision + matrix, eta.log_det))
            )

        return self._stats_of_draw(draw, scaled), v_product

    def _draw(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> tuple[BartlettDraw, Array]:
        """L = B B', and B' (mu_j - m_j), which is N(0, 1 / kappa_j)."""
        key_precision, key_noise = jax.random.split(key)
        noise = jax.random.normal(
            key_noise, shape + self.strength_times_location.shape, self.half_degrees.dtype
        )
        scaled = self._many(noise, 1) / jnp.sqrt(self._kappa)[..., None]
        return self.precision_law().bartlett(key_precision, shape), scaled

    def _stats_of_draw(self, draw: BartlettDraw, scaled: Array) -> Any:
        rooted = products(draw.root.mT, self._m) + scaled  # B' mu_j
        make: Any = self.Stats
        product, quadratic = (
            self._own(products(draw.root, rooted), 1),
            self._own(dots(rooted, rooted)),
        )
        return make(product, gram(draw.root), quadratic, draw.log_det)

    def _moved(self, dm: Array, dkappa: Array, law: Wishart) -> Self:
        """The direction in natural parameters of a change of (m, kappa, -P, n)."""
        m, kappa = self._m, self._kappa[..., None]
        raw = 0.5 * sum_of_products(dkappa[..., None] * m, m) + symmetric(
            sum_of_products(kappa * m, dm)
        )
        linear = dkappa[..., None] * m + kappa * dm
        make: Any = type(self)
        return make(
            self._own(linear, 1),
            law.negative_rate - raw,
            self._own(-0.5 * dkappa),
            law.half_degrees,
        )

    @property
    def _m(self) -> Float[Array, "*batch J D"]:
        return self._many(self.location, 1)

    @property
    def _kappa(self) -> Float[Array, "*batch J"]:
        return self._many(self.strength)

    @property
    def _num_means(self) -> int:
        return self._kappa.shape[-1]

    def _many(self, x: Array, event_ndim: int = 0) -> Array:
        """The array with an axis of means before its last `event_ndim`."""
        return x if self.event_ndims[2] else jnp.expand_dims(x, -1 - event_ndim)

    def _own(self, x: Array, event_ndim: int = 0) -> Array:
        """The array in the family's own shape: without the axis of means, where there is one
        mean."""
        return x if self.event_ndims[2] else jnp.squeeze(x, -1 - event_ndim)

    def _as_stats(
        self, product: Array, precision: Array, m: Array, log_det: Array, more: Any = 0.0
    ) -> Any:
        make: Any = self.Stats
        return make(self._own(product, 1), precision, self._own(more + dots(m, product)), log_det)


def products(matrix: Array, vectors: Array) -> Float[Array, "*batch J D"]:
    """The matrix times each of J vectors."""
    return jnp.einsum("...ik,...jk->...ji", matrix, vectors, precision="highest")


def dots(x: Array, y: Array) -> Float[Array, "*batch J"]:
    """x_j' y_j."""
    return jnp.einsum("...jd,...jd->...j", x, y, precision="highest")


def sum_of_products(x: Array, y: Array) -> Float[Array, "*batch D D"]:
    """sum_j x_j y_j'."""
    return jnp.einsum("...ji,...jk->...ik", x, y, precision="highest")


def solve_root(draw: BartlettDraw, x: Array) -> Array:
    """B'^-1 x_j = C T'^-1 x_j, C the Cholesky factor of P."""
    return products(draw.factor, solve(draw.triangle, x.mT, trans=1).mT)
