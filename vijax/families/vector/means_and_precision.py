"""Closed forms of laws of means and one precision matrix: L ~ Wishart(n, P), mu_j | L ~ N(m_j,
(kappa_j L)^-1), j = 1..J. A family of one mean has no axis of means; these methods add it."""

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
        """kappa: each mean is as precise as one of this many observations."""
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
        """The Wishart's A plus D log(2 pi / kappa_j) / 2 for each mean."""
        means_term = 0.5 * self.dim * jnp.sum(math.log(2 * math.pi) - jnp.log(self._kappa), -1)
        return self.precision_law().log_normalizer() + means_term

    def stats(self, x: MeanPrecision) -> Any:
        means, precision = as_floats(*x)
        means = self._add_means_axis(means, 1)
        product = products(precision, means)
        return self._as_stats(product, precision, means, floored_log_det(precision))

    def log_base_measure(self, stats: Any) -> Float[Array, "*batch"]:
        return 0.5 * (self._num_means - self.dim - 1) * stats.log_det

    def mean(self) -> MeanPrecision:
        return MeanPrecision(self.location, self.precision_law().mean())

    def variance(self) -> MeanPrecision:
        """Variances of means and precision; `mean_law()` has the intervals of the means."""
        return MeanPrecision(self.mean_law().variance(), self.precision_law().variance())

    def mode(self) -> MeanPrecision:
        """(m, (n + (J - D - 1) / 2) P^-1), with precision 0 if that is negative."""
        excess = jnp.maximum(self.half_degrees + 0.5 * (self._num_means - self.dim - 1), 0.0)
        return MeanPrecision(self.location, 2.0 * excess[..., None, None] * self.scale)

    def in_domain(self) -> Self:
        """True if all kappa are positive, P is positive definite, n > (D - 1) / 2, all finite."""
        ok = self.precision_law().in_domain().half_degrees
        ok = ok & jnp.all(positive_and_finite(self._kappa), -1)
        return domain_mask(ok & jnp.all(jnp.isfinite(self._m), (-2, -1)), self)

    def flat(self) -> Self:
        zeros = jax.tree.map(jnp.zeros_like, self)
        n = jnp.full_like(self.half_degrees, 0.5 * (self.dim + 1 - self._num_means))
        return dataclasses.replace(zeros, half_degrees=n)

    def expected_stats(self) -> Any:
        """(E[L] m_j, E[L], D / kappa_j + m_j' E[L] m_j, E log|L|)."""
        m = self._m
        precision, log_det = self.precision_law().expected_stats()
        product = products(precision, m)
        return self._as_stats(product, precision, m, log_det, self.dim / self._kappa)

    def log_prob(self, x: MeanPrecision) -> Float[Array, "*batch"]:
        """log q(L) + sum_j log q(mu_j | L); -inf if L is not positive definite."""
        means, precision = as_floats(*x)
        precision_term = self.precision_law().log_prob(precision)
        eye = jnp.eye(self.dim, dtype=precision.dtype)
        precision = jnp.where(jnp.isneginf(precision_term)[..., None, None], eye, precision)
        shift = self._add_means_axis(means, 1) - self._m
        spread = self._kappa * dots(shift, products(precision, shift))
        log_kappa = self.dim * (jnp.log(self._kappa) - math.log(2 * math.pi))
        log_scale = log_kappa + floored_log_det(precision)[..., None]
        return precision_term + 0.5 * jnp.sum(log_scale - spread, -1)

    def entropy(self) -> Float[Array, "*batch"]:
        law = self.precision_law()
        terms = self.dim * (1.0 + math.log(2 * math.pi) - jnp.log(self._kappa))
        log_dets = self._num_means * law.expected_stats().log_det
        return law.entropy() + 0.5 * (jnp.sum(terms, -1) - log_dets)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL of the precisions plus, for each mean, [D (r - 1 - log r) + kappa' (m - m')' E[L] (m -
        m')] / 2 with r = kappa' / kappa."""
        law = self.precision_law()
        shift = self._m - other._m
        distances = other._kappa * dots(shift, products(law.mean(), shift))
        terms = self.dim * excess_over_log(other._kappa / self._kappa) + distances
        return law.kl(other.precision_law()) + 0.5 * jnp.sum(terms, -1)

    def fisher_solve(self, cotangent: Any) -> Self:
        """F^-1 g: closed forms for m and D / kappa, and the Wishart's solution for P and n."""
        law, m, kappa = self.precision_law(), self._m, self._kappa
        linear = self._add_means_axis(cotangent.precision_times_mean, 1)
        matrix = symmetric(cotangent.precision)
        gap = linear - products(matrix, m)
        dm = products(law.rate, gap) / self.half_degrees[..., None, None]
        d_inverse = self._add_means_axis(cotangent.quadratic) - dots(m, linear + gap)
        dkappa = -(kappa**2) * d_inverse / self.dim
        d_law = law.fisher_solve(WishartStats(matrix, cotangent[3]))
        return self._to_naturals(dm, dkappa, d_law)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> MeanPrecision:
        draw, scaled = self._draw(key, shape)
        shift = self._drop_means_axis(solve_root(draw, scaled), 1)
        return MeanPrecision(self.location + shift, gram(draw.root))

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Any:
        """t of a draw, without a division by the precision; differentiable in the parameters."""
        return self._stats_of_draw(*self._draw(key, shape))

    def pathwise_sample(self, key: PRNGKeyArray) -> tuple[Any, Callable[[Any], Self]]:
        """t of a draw, and V: eta -> F^-1 J^T eta, block by block in m, kappa and (P, n).

        With e = mu - m and s = eta_1 + 2 eta_3 mu, L s is the slope of <eta, t> at mu: d/dm = L s,
        d/dkappa = -e' L s / (2 kappa), and L moves mu by -L^-1 dL e / 2 (the transport of a normal
        with its covariance). Hence d/dL is sym(eta_2 + eta_1 m' + eta_3 m m' + (eta_1 + 2 eta_3 m)
        e' / 2), summed over the means."""
        draw, scaled = lax.optimization_barrier(self._draw(key, ()))
        law, m, kappa = self.precision_law(), self._m, self._kappa

        def v_product(eta: Any) -> Any:
            linear = self._add_means_axis(eta.precision_times_mean, 1)
            quadratic = self._add_means_axis(eta.quadratic)[..., None]
            slope_at_m = linear + 2.0 * quadratic * m
            step = solve_root(draw, scaled)
            slope = products(draw.root.mT, slope_at_m) + 2.0 * quadratic * scaled  # B' s
            scales = kappa[..., None] * self.half_degrees[..., None, None]
            dm = products(law.rate, products(draw.root, slope)) / scales
            dkappa = -kappa * dots(slope, scaled) / self.dim
            constant = sum_of_products(linear + quadratic * m, m)
            matrix = constant + 0.5 * sum_of_products(slope_at_m, step)
            d_law = law.bartlett_v(draw, WishartStats(eta.precision + matrix, eta.log_det))
            return self._to_naturals(dm, dkappa, d_law)

        return self._stats_of_draw(draw, scaled), v_product

    def _draw(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> tuple[BartlettDraw, Array]:
        """L = B B', and B' (mu_j - m_j), which is N(0, 1 / kappa_j)."""
        key_precision, key_noise = jax.random.split(key)
        noise_shape = shape + self.strength_times_location.shape
        noise = jax.random.normal(key_noise, noise_shape, self.half_degrees.dtype)
        scaled = self._add_means_axis(noise, 1) / jnp.sqrt(self._kappa)[..., None]
        return self.precision_law().bartlett(key_precision, shape), scaled

    def _stats_of_draw(self, draw: BartlettDraw, scaled: Array) -> Any:
        rooted = products(draw.root.mT, self._m) + scaled  # B' mu_j
        make: Any = self.Stats
        product = self._drop_means_axis(products(draw.root, rooted), 1)
        quadratic = self._drop_means_axis(dots(rooted, rooted))
        return make(product, gram(draw.root), quadratic, draw.log_det)

    def _to_naturals(self, dm: Array, dkappa: Array, law: Wishart) -> Self:
        """The direction in natural parameters of a change of (m, kappa, -P, n)."""
        m = self._m
        kappa = self._kappa[..., None]
        squares = 0.5 * sum_of_products(dkappa[..., None] * m, m)
        raw = squares + symmetric(sum_of_products(kappa * m, dm))
        linear = self._drop_means_axis(dkappa[..., None] * m + kappa * dm, 1)
        make: Any = type(self)
        strength = self._drop_means_axis(-0.5 * dkappa)
        return make(linear, law.negative_rate - raw, strength, law.half_degrees)

    @property
    def _m(self) -> Float[Array, "*batch J D"]:
        return self._add_means_axis(self.location, 1)

    @property
    def _kappa(self) -> Float[Array, "*batch J"]:
        return self._add_means_axis(self.strength)

    @property
    def _num_means(self) -> int:
        return self._kappa.shape[-1]

    def _add_means_axis(self, x: Array, event_ndim: int = 0) -> Array:
        """x with an axis of means before its last `event_ndim` axes."""
        has_axis = self.event_ndims[2] > 0
        return x if has_axis else jnp.expand_dims(x, -1 - event_ndim)

    def _drop_means_axis(self, x: Array, event_ndim: int = 0) -> Array:
        """x in the shape of the family: without the axis of means for a family of one mean."""
        has_axis = self.event_ndims[2] > 0
        return x if has_axis else jnp.squeeze(x, -1 - event_ndim)

    def _as_stats(
        self, product: Array, precision: Array, m: Array, log_det: Array, variance: Any = 0.0
    ) -> Any:
        """t from L m_j, L, m_j and log|L|, with `variance` added to m_j' L m_j."""
        make: Any = self.Stats
        quadratic = self._drop_means_axis(variance + dots(m, product))
        return make(self._drop_means_axis(product, 1), precision, quadratic, log_det)


def products(matrix: Array, vectors: Array) -> Float[Array, "*batch J D"]:
    """The matrix times each of the J vectors."""
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
