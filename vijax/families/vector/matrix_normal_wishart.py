"""The law of the coefficients of a multivariate regression and its noise precision: L ~ Wishart(n,
P), and G | L, J x D, a matrix normal of mean M with row precision U and column precision L.

    q(G, L) = |L|^{(J-D-1)/2} exp{<U M, G L> + <-U / 2, G L G'> + <-(P + M' U M / 2), L> + n log|L| - A},
    A = A_Wishart(n, P) - D log|U| / 2 + J D log(2 pi) / 2

The conjugate prior of y ~ N(G' x, L^-1) (Rowe 2003, Multivariate Bayesian Statistics, section 8.4):
an observation adds (x y', -x x' / 2, -y y' / 2, 1/2). With J = 1 it is the normal-Wishart, with D =
1 the normal-gamma of `MultivariateNormalGamma`. In the coordinates (M, U, (P, n)) the Fisher matrix
is block diagonal, so `fisher_solve` has a closed form. P is a difference of natural parameters, as
in the normal-Wishart, with the same remedy: centre the observations."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import Family, as_floats, domain_mask, family, finite
from vijax.families.construction import (
    CENTRE,
    constructor,
    numpy_or_jax,
    require_accuracy,
    spread_error,
)
from vijax.families.laws import StudentLaw
from vijax.families.vector.matrices import (
    excess_of_ratio,
    half_log_det,
    inverse,
    positive_definite,
    solve,
    symmetric,
)
from vijax.families.vector.means_and_precision import solve_root
from vijax.families.vector.wishart import (
    BartlettDraw,
    Wishart,
    WishartStats,
    check_degrees,
    floored_log_det,
    gram,
)


class MatrixNormalWishartStats(NamedTuple):
    """t(G, L) = (G L, G L G', L, log|L|)."""

    coefficients_times_precision: Float[Array, "*batch J D"]
    quadratic: Float[Array, "*batch J J"]
    precision: Float[Array, "*batch D D"]
    log_det: Float[Array, "*batch"]


class MatrixPrecision(NamedTuple):
    """A value: coefficients, with a row for each input, and the precision matrix of the noise."""

    coefficients: Float[Array, "*batch J D"]
    precision: Float[Array, "*batch D D"]


@family
class MatrixNormalWishart(Family):
    """A matrix-normal-Wishart distribution over (coefficients, precision matrix).

    log h(coefficients, precision) = (num_rows - dim - 1) / 2 * logdet(precision);
    t = (coefficients @ precision, coefficients @ precision @ coefficients.T, precision, logdet(precision));
    natural parameters (strength @ location, -strength / 2, -inv(scale) / 2 - location.T @ strength @ location / 2,
    degrees / 2).

    >>> strength, scale = [[2.0, 0.0], [0.0, 1.0]], [[0.5, 0.0], [0.0, 1.0]]
    >>> q = MatrixNormalWishart.from_parameters([[1.0, 0.0], [0.5, -1.0]], strength, degrees=4.0, scale=scale)
    >>> print(q.mean().coefficients.round(3).tolist(), q.mean().precision.round(3).tolist())
    [[1.0, 0.0], [0.5, -1.0]] [[2.0, 0.0], [0.0, 4.0]]
    """

    strength_times_location: Float[Array, "*batch J D"]
    negative_half_strength: Float[Array, "*batch J J"]
    negative_raw_rate: Float[Array, "*batch D D"]
    half_degrees: Float[Array, "*batch"]

    Stats: ClassVar = MatrixNormalWishartStats
    event_ndims: ClassVar = (2, 2, 2, 0)

    @classmethod
    @constructor
    def from_parameters(cls, location: Any, strength: Any, degrees: Any, scale: Any) -> Self:
        """Laws from M (*batch, J, D), U (*batch, J, J), and the Wishart's degrees (*batch,) and
        scale (*batch, D, D), batch axes broadcast together.

        Raises:
          ValueError: a location that is not finite or does not fit, a strength or scale that is not
            symmetric positive definite, degrees that do not exceed D - 1, or a scale whose inverse
            rounding removes beside location' strength location.
        """
        values = as_floats(location, strength, degrees, scale)
        xp, m, strength, degrees, scale = numpy_or_jax(*values)
        fits = (
            m.ndim >= 2
            and m.shape[-1:] == scale.shape[-1:]
            and m.shape[-2:-1] == strength.shape[-1:]
        )
        expected = f"matrices of {strength.shape[-1:]} rows and {scale.shape[-1:]} columns"
        require(fits, "location", expected, m.shape)
        require(finite(m), "location", "finite numbers", m)
        strength = positive_definite(strength, "strength")
        degrees, scale = check_degrees(degrees, scale, "scale")
        batch = jnp.broadcast_shapes(m.shape[:-2], strength.shape[:-2], degrees.shape)
        m, strength, scale = (
            xp.broadcast_to(x, batch + x.shape[-2:]) for x in (m, strength, scale)
        )
        wishart = Wishart.from_degrees_scale(xp.broadcast_to(degrees, batch), scale)
        _, minus_rate, half_degrees = numpy_or_jax(wishart.negative_rate, wishart.half_degrees)
        linear = strength @ m
        raw = symmetric(0.5 * m.mT @ linear) - symmetric(minus_rate)
        require_accuracy("scale", _scale_error, scale, raw, linear, strength, remedy=CENTRE)
        return cls(linear, -0.5 * strength, -raw, half_degrees)

    @property
    def dim(self) -> int:
        """D."""
        return self.strength_times_location.shape[-1]

    @property
    def num_rows(self) -> int:
        """J."""
        return self.strength_times_location.shape[-2]

    @property
    def strength(self) -> Float[Array, "*batch J J"]:
        """U: the precision of the rows of G in units of L."""
        return -2.0 * symmetric(self.negative_half_strength)

    @property
    def location(self) -> Float[Array, "*batch J D"]:
        """M = E[G]."""
        return self._location(self._factor())

    @property
    def degrees(self) -> Float[Array, "*batch"]:
        """The Wishart's degrees of freedom."""
        return 2.0 * self.half_degrees

    @property
    def scale(self) -> Float[Array, "*batch D D"]:
        """The Wishart's scale."""
        return self.precision_law().scale

    def precision_law(self) -> Wishart:
        """The marginal law of L. Its rate follows from a rounded M^ and its residual r, because M'
        U M = M^' (U M + r) + O(r^2)."""
        m = self.location
        residual = self.strength_times_location - self.strength @ m
        square = symmetric(m.mT @ (self.strength_times_location + residual))
        return Wishart(symmetric(self.negative_raw_rate) + 0.5 * square, self.half_degrees)

    def coefficients_law(self) -> StudentLaw:
        """The marginal laws of the numbers of G: Student's t of degrees - D + 1 degrees."""
        freedom = (self.degrees - self.dim + 1.0)[..., None, None]
        rows = jnp.diagonal(inverse(self._factor()), axis1=-2, axis2=-1)
        columns = 2.0 * jnp.diagonal(self.precision_law().rate, axis1=-2, axis2=-1)
        scale = jnp.sqrt(rows[..., :, None] * columns[..., None, :] / freedom)
        return StudentLaw(jnp.broadcast_to(freedom, scale.shape), self.location, scale)

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = A_Wishart(n, P) - D log|U| / 2 + J D log(2 pi) / 2."""
        log_det = self.dim * half_log_det(self._factor())
        constant = 0.5 * self.num_rows * self.dim * math.log(2 * math.pi)
        return self.precision_law().log_normalizer() - log_det + constant

    def stats(self, x: MatrixPrecision) -> MatrixNormalWishartStats:
        g, precision = as_floats(*x)
        product = g @ precision
        quadratic = symmetric(product @ g.mT)
        return MatrixNormalWishartStats(product, quadratic, precision, floored_log_det(precision))

    def log_base_measure(self, stats: MatrixNormalWishartStats) -> Float[Array, "*batch"]:
        return 0.5 * (self.num_rows - self.dim - 1) * stats.log_det

    def mean(self) -> MatrixPrecision:
        return MatrixPrecision(self.location, self.precision_law().mean())

    def variance(self) -> MatrixPrecision:
        """Variances of coefficients and precision; `coefficients_law()` has intervals."""
        return MatrixPrecision(self.coefficients_law().variance(), self.precision_law().variance())

    def mode(self) -> MatrixPrecision:
        """(M, (n + (J - D - 1) / 2) P^-1), with precision 0 if that is negative."""
        excess = jnp.maximum(self.half_degrees + 0.5 * (self.num_rows - self.dim - 1), 0.0)
        return MatrixPrecision(self.location, 2.0 * excess[..., None, None] * self.scale)

    def in_domain(self) -> Self:
        """True if U and P are positive definite, n > (D - 1) / 2, and all are finite."""
        ok = self.precision_law().in_domain().half_degrees
        ok = ok & jnp.all(jnp.isfinite(self._factor()), (-2, -1))
        return domain_mask(ok & jnp.all(jnp.isfinite(self.strength_times_location), (-2, -1)), self)

    def flat(self) -> Self:
        zeros = jax.tree.map(jnp.zeros_like, self)
        n = jnp.full_like(self.half_degrees, 0.5 * (self.dim + 1 - self.num_rows))
        return dataclasses.replace(zeros, half_degrees=n)

    def expected_stats(self) -> MatrixNormalWishartStats:
        """(M E[L], D U^-1 + M E[L] M', E[L], E log|L|)."""
        factor = self._factor()
        law = self.precision_law().expected_stats()
        m = self._location(factor)
        product = m @ law.value
        quadratic = self.dim * inverse(factor) + symmetric(product @ m.mT)
        return MatrixNormalWishartStats(product, quadratic, law.value, law.log_det)

    def log_prob(self, x: MatrixPrecision) -> Float[Array, "*batch"]:
        """log q(L) + log q(G | L); -inf if L is not positive definite."""
        g, precision = as_floats(*x)
        factor = self._factor()
        precision_term = self.precision_law().log_prob(precision)
        eye = jnp.eye(self.dim, dtype=precision.dtype)
        precision = jnp.where(jnp.isneginf(precision_term)[..., None, None], eye, precision)
        shift = factor.mT @ (g - self._location(factor))
        spread = jnp.sum((shift @ precision) * shift, (-2, -1))
        log_scale = self.num_rows * (floored_log_det(precision) - self.dim * math.log(2 * math.pi))
        return precision_term + self.dim * half_log_det(factor) + 0.5 * (log_scale - spread)

    def entropy(self) -> Float[Array, "*batch"]:
        law = self.precision_law()
        row_term = self.dim * (1.0 + math.log(2 * math.pi)) - law.expected_stats().log_det
        log_det = self.dim * half_log_det(self._factor())
        return law.entropy() + 0.5 * self.num_rows * row_term - log_det

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL of the precisions plus [D (tr(U' U^-1) - J - log|U' U^-1|) + tr((M - M')' U' (M - M')
        E[L])] / 2."""
        p, q = self._factor(), other._factor()
        law = self.precision_law()
        shift = q.mT @ (self._location(p) - other._location(q))
        spread = self.dim * excess_of_ratio(p, q) + jnp.sum((shift @ law.mean()) * shift, (-2, -1))
        return law.kl(other.precision_law()) + 0.5 * spread

    def fisher_solve(self, cotangent: MatrixNormalWishartStats) -> Self:
        """F^-1 g: closed forms for M and D U^-1, and the Wishart's solution for P and n."""
        m, law, strength = self.location, self.precision_law(), self.strength
        linear = cotangent.coefficients_times_precision
        matrix = symmetric(cotangent.precision)
        dm = (linear - m @ matrix) @ law.rate / self.half_degrees[..., None, None]
        quadratic = symmetric(cotangent.quadratic)
        d_inverse = quadratic - 2.0 * symmetric(linear @ m.mT) + m @ matrix @ m.mT
        d_strength = -strength @ d_inverse @ strength / self.dim
        d_law = law.fisher_solve(WishartStats(matrix, cotangent.log_det))
        d_linear = d_strength @ m + strength @ dm
        raw = d_law.negative_rate - symmetric(m.mT @ (0.5 * d_strength @ m + strength @ dm))
        return type(self)(d_linear, -0.5 * d_strength, raw, d_law.half_degrees)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> MatrixPrecision:
        draw, m, scaled = self._draw(key, shape)
        return MatrixPrecision(m + solve_root(draw, scaled), gram(draw.root))

    def sample_stats(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> MatrixNormalWishartStats:
        """t of a draw, without a division by the precision. Pathwise differentiable."""
        draw, m, scaled = self._draw(key, shape)
        rooted = m @ draw.root + scaled  # G B
        product = rooted @ draw.root.mT
        return MatrixNormalWishartStats(product, gram(rooted), gram(draw.root), draw.log_det)

    def _draw(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> tuple[BartlettDraw, Array, Array]:
        """L = B B', M, and (G - M) B, whose columns are N(0, U^-1)."""
        key_precision, key_noise = jax.random.split(key)
        factor = self._factor()
        noise_shape = shape + self.strength_times_location.shape
        noise = jax.random.normal(key_noise, noise_shape, self.half_degrees.dtype)
        scaled = solve(factor, noise, trans=1)
        return self.precision_law().bartlett(key_precision, shape), self._location(factor), scaled

    def _factor(self) -> Float[Array, "*batch J J"]:
        return jnp.linalg.cholesky(self.strength)

    def _location(self, factor: Float[Array, "*batch J J"]) -> Float[Array, "*batch J D"]:
        return solve(factor, solve(factor, self.strength_times_location), trans=1)


def _scale_error(
    scale: np.ndarray, raw: np.ndarray, linear: np.ndarray, strength: np.ndarray
) -> np.ndarray:
    square = linear.swapaxes(-1, -2) @ np.linalg.solve(strength, linear)
    return spread_error(scale, 2.0 * raw - square)
