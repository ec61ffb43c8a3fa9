"""The law of regression coefficients and their noise precision: tau ~ Gamma(a, b), w | tau ~ N(m,
(tau L)^-1).

    q(w, tau) = tau^{D/2 - 1} exp{<L m, tau w> + <-L / 2, tau w w'> - (b + m' L m / 2) tau + a log tau - A},
    A = log Gamma(a) - a log b - log|L| / 2 + D log(2 pi) / 2

The conjugate prior of y ~ N(w' x, 1 / tau) (Blei, Kucukelbir and McAuliffe 2017, appendix A): an
observation adds (y x, -x x' / 2, -y^2 / 2, 1/2). In the coordinates (m, L, a, b) the Fisher matrix
is block diagonal, so `fisher_solve` has a closed form. b is a difference of natural parameters:
float32 loses 6e-8 m' L m / 2b of it, and the law amplifies this by sqrt(a). With c the condition
number of the correlations of L, divergences, entropies and densities are right to 1e-3 for c up to
1e4 and |m| up to 50 (1 + a)^-1/4 / sqrt(c) standard deviations of N(0, b L^-1). The constructor
raises if rounding changes b by more than 1e-3; then centre y."""

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
    RESCALE,
    constructor,
    mean_error,
    numpy_or_jax,
    rate_error,
    require_accuracy,
)
from vijax.families.discrete.dirichlet import floored_log, positive_and_finite
from vijax.families.laws import StudentLaw
from vijax.families.scalar.gamma import Gamma, GammaStats
from vijax.families.vector.matrices import (
    excess_of_ratio,
    half_log_det,
    inverse,
    matvec,
    outer,
    positive_definite,
    solve_lower,
    solve_upper,
    symmetric,
)


class MultivariateNormalGammaStats(NamedTuple):
    """t(w, tau) = (tau w, tau w w', tau, log tau)."""

    precision_times_value: Float[Array, "*batch D"]
    precision_times_outer: Float[Array, "*batch D D"]
    precision: Float[Array, "*batch"]
    log_precision: Float[Array, "*batch"]


class CoefficientsPrecision(NamedTuple):
    """A value: coefficients and a noise precision."""

    coefficients: Float[Array, "*batch D"]
    precision: Float[Array, "*batch"]


@family
class MultivariateNormalGamma(Family):
    """A normal-gamma distribution over (coefficients, noise precision).

    log h(coefficients, precision) = (dim / 2 - 1) * log(precision);
    t = (precision * coefficients, precision * outer(coefficients, coefficients), precision, log(precision));
    natural parameters (strength @ location, -strength / 2, -rate - location @ strength @ location / 2, shape).

    >>> q = MultivariateNormalGamma.from_parameters([1.0, 0.0], [[2.0, 0.0], [0.0, 1.0]], shape=3.0, rate=1.5)
    >>> print(q.mean().coefficients.round(3), f"{q.mean().precision:.3f} {q.rate:.3f}")
    [1. 0.] 2.000 1.500
    """

    strength_times_location: Float[Array, "*batch D"]
    negative_half_strength: Float[Array, "*batch D D"]
    negative_raw_rate: Float[Array, "*batch"]
    shape: Float[Array, "*batch"]

    Stats: ClassVar = MultivariateNormalGammaStats
    event_ndims: ClassVar = (1, 2, 0, 0)

    @classmethod
    @constructor
    def from_parameters(cls, location: Any, strength: Any, shape: Any, rate: Any) -> Self:
        """Laws from m (*batch, D), L (*batch, D, D), a and b (*batch,), batch axes broadcast
        together.

        Raises:
          ValueError: a location that is not finite or does not fit, a strength that is not
            symmetric positive definite, a shape or rate that is not positive and finite, a rate
            that rounding removes beside location' strength location / 2, or a location that
            rounding its product with the strength changes.
        """
        xp, m, strength, a, b = numpy_or_jax(*as_floats(location, strength, shape, rate))
        fits = m.ndim >= 1 and strength.shape[-2:] == 2 * m.shape[-1:]
        expected = "a vector (..., D) for a strength (..., D, D)"
        require(fits, "location", expected, f"{m.shape} and {strength.shape}")
        require(finite(m), "location", "finite numbers", m)
        strength = positive_definite(strength, "strength")
        for name, value in (("shape", a), ("rate", b)):
            require(positive_and_finite(value), name, "positive finite numbers", value)
        batch = jnp.broadcast_shapes(m.shape[:-1], strength.shape[:-2], a.shape, b.shape)
        m = xp.broadcast_to(m, batch + m.shape[-1:])
        strength = xp.broadcast_to(strength, batch + strength.shape[-2:])
        a = xp.broadcast_to(a, batch)
        b = xp.broadcast_to(b, batch)
        linear = matvec(strength, m)
        raw = b + 0.5 * xp.sum(m * linear, -1)
        require_accuracy("rate", _raw_rate_error, b, raw, linear, strength, remedy=CENTRE)
        require_accuracy("location", _location_error, m, linear, strength, a, b, remedy=RESCALE)
        return cls(linear, -0.5 * strength, -raw, a)

    @property
    def dim(self) -> int:
        """D."""
        return self.strength_times_location.shape[-1]

    @property
    def strength(self) -> Float[Array, "*batch D D"]:
        """L: the precision of w in units of tau."""
        return -2.0 * symmetric(self.negative_half_strength)

    @property
    def location(self) -> Float[Array, "*batch D"]:
        """m = E[w]."""
        return self._location(self._factor())

    @property
    def rate(self) -> Float[Array, "*batch"]:
        """b."""
        return self._rate(self._factor())

    def precision_law(self) -> Gamma:
        """The marginal law of tau."""
        return Gamma(self.shape, -self.rate)

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = log Gamma(a) - a log b - log|L| / 2 + D log(2 pi) / 2."""
        log_det = half_log_det(self._factor())
        constant = 0.5 * self.dim * math.log(2 * math.pi)
        return self.precision_law().log_normalizer() - log_det + constant

    def stats(self, x: CoefficientsPrecision) -> MultivariateNormalGammaStats:
        w, tau = as_floats(*x)
        scaled = tau[..., None] * w
        return MultivariateNormalGammaStats(scaled, outer(scaled, w), tau, floored_log(tau))

    def log_base_measure(self, stats: MultivariateNormalGammaStats) -> Float[Array, "*batch"]:
        return (0.5 * self.dim - 1.0) * stats.log_precision

    def mean(self) -> CoefficientsPrecision:
        return CoefficientsPrecision(self.location, self.shape / self.rate)

    def coefficients_law(self) -> StudentLaw:
        """The marginal laws of the numbers of w: Student's t with 2 a degrees of freedom, m and the
        square root of b / a times the diagonal of L^-1."""
        variances = jnp.diagonal(inverse(self._factor()), axis1=-2, axis2=-1)
        scale = jnp.sqrt(variances * (self.rate / self.shape)[..., None])
        degrees = jnp.broadcast_to(2.0 * self.shape[..., None], scale.shape)
        return StudentLaw(degrees, self.location, scale)

    def marginal_laws(self) -> CoefficientsPrecision:
        """Student's t for the coefficients, a gamma for the precision."""
        return CoefficientsPrecision(self.coefficients_law(), self.precision_law().marginal_laws())  # type: ignore[arg-type]

    def mode(self) -> CoefficientsPrecision:
        """(m, (a + D / 2 - 1) / b), with precision 0 if that is negative."""
        excess = jnp.maximum(self.shape + 0.5 * self.dim - 1.0, 0.0)
        return CoefficientsPrecision(self.location, excess / self.rate)

    def in_domain(self) -> Self:
        """True if L is positive definite, a and b are positive, and all are finite."""
        factor = self._factor()
        ok = jnp.all(jnp.isfinite(factor), (-2, -1)) & positive_and_finite(self.shape)
        has_location = jnp.all(jnp.isfinite(self.strength_times_location), -1)
        ok &= positive_and_finite(self._rate(factor)) & has_location
        return domain_mask(ok, self)

    def flat(self) -> Self:
        zeros = jax.tree.map(jnp.zeros_like, self)
        return dataclasses.replace(zeros, shape=jnp.full_like(self.shape, 1.0 - 0.5 * self.dim))

    def expected_stats(self) -> MultivariateNormalGammaStats:
        """(m a / b, L^-1 + m m' a / b, a / b, psi(a) - log b)."""
        factor = self._factor()
        m = self._location(factor)
        tau = self.precision_law().expected_stats()
        scaled = tau.value[..., None] * m
        square = inverse(factor) + outer(scaled, m)
        return MultivariateNormalGammaStats(scaled, square, tau.value, tau.log)

    def log_prob(self, x: CoefficientsPrecision) -> Float[Array, "*batch"]:
        w, tau = as_floats(*x)
        factor = self._factor()
        spread = tau * jnp.sum(matvec(factor.mT, w - self._location(factor)) ** 2, -1)
        log_scale = self.dim * (floored_log(tau) - math.log(2 * math.pi))
        precision_term = self.precision_law().log_prob(tau)
        return precision_term + half_log_det(factor) + 0.5 * (log_scale - spread)

    def entropy(self) -> Float[Array, "*batch"]:
        law = self.precision_law()
        coefficient_term = self.dim * (1.0 + math.log(2 * math.pi) - law.expected_stats().log)
        return law.entropy() + 0.5 * coefficient_term - half_log_det(self._factor())

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL of the precisions plus [tr(L' L^-1) - D - log|L' L^-1| + (a / b) (m - m')' L' (m -
        m')] / 2."""
        p, q = self._factor(), other._factor()
        law = self.precision_law()
        shift = matvec(q.mT, self._location(p) - other._location(q))
        spread = excess_of_ratio(p, q) + law.mean() * jnp.sum(shift**2, -1)
        return law.kl(other.precision_law()) + 0.5 * spread

    def fisher_solve(self, cotangent: MultivariateNormalGammaStats) -> Self:
        """F^-1 g: closed forms for m and L^-1, and the gamma's solution for a and b."""
        m, law, strength = self.location, self.precision_law(), self.strength
        linear = cotangent.precision_times_value
        matrix = symmetric(cotangent.precision_times_outer)
        tau = cotangent.precision
        dm = (linear - tau[..., None] * m) / law.mean()[..., None]
        d_inverse = matrix - 2.0 * symmetric(outer(linear, m)) + tau[..., None, None] * outer(m, m)
        d_strength = -strength @ d_inverse @ strength
        dgamma = law.fisher_solve(GammaStats(cotangent.log_precision, tau))
        d_linear = matvec(d_strength, m)
        raw = dgamma.negative_rate - jnp.sum(m * (0.5 * d_linear + matvec(strength, dm)), -1)
        return type(self)(d_linear + matvec(strength, dm), -0.5 * d_strength, raw, dgamma.shape)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> CoefficientsPrecision:
        tau, m, scaled = self._draw(key, shape)
        return CoefficientsPrecision(m + scaled * jnp.exp(-0.5 * tau.log)[..., None], tau.value)

    def sample_stats(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> MultivariateNormalGammaStats:
        """t of a draw, with log tau drawn directly. Pathwise differentiable."""
        tau, m, scaled = self._draw(key, shape)
        root = jnp.exp(0.5 * tau.log)[..., None]
        rooted = root * m + scaled  # sqrt(tau) w
        square = outer(rooted, rooted)
        return MultivariateNormalGammaStats(root * rooted, square, tau.value, tau.log)

    def _draw(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> tuple[GammaStats, Array, Array]:
        """tau, m, and sqrt(tau) (w - m), which is N(0, L^-1)."""
        key_tau, key_noise = jax.random.split(key)
        factor = self._factor()
        noise_shape = shape + self.strength_times_location.shape
        noise = jax.random.normal(key_noise, noise_shape, self.shape.dtype)
        tau = self.precision_law().sample_stats(key_tau, shape)
        return tau, self._location(factor), solve_upper(factor, noise)

    def _factor(self) -> Float[Array, "*batch D D"]:
        return jnp.linalg.cholesky(self.strength)

    def _location(self, factor: Float[Array, "*batch D D"]) -> Float[Array, "*batch D"]:
        return solve_upper(factor, solve_lower(factor, self.strength_times_location))

    def _rate(self, factor: Float[Array, "*batch D D"]) -> Float[Array, "*batch"]:
        """b, from m and the residual r = L m - L m^ for a rounded m^: m' L m = m^' (L m + r) +
        O(r^2)."""
        m = self._location(factor)
        linear = self.strength_times_location
        residual = linear - matvec(self.strength, m)
        return -self.negative_raw_rate - 0.5 * jnp.sum(m * (linear + residual), -1)


def _raw_rate_error(
    rate: np.ndarray, raw: np.ndarray, linear: np.ndarray, strength: np.ndarray
) -> np.ndarray:
    """The relative change of a rate b that is stored as b + m' L m / 2."""
    location = np.linalg.solve(strength, linear[..., None])[..., 0]
    return rate_error(rate, raw - 0.5 * np.sum(location * linear, -1))


def _location_error(
    location: np.ndarray, linear: np.ndarray, strength: np.ndarray, shape: Any, rate: Any
) -> np.ndarray:
    """The change of a location that is stored as L m, in standard deviations."""
    return mean_error(linear, strength, location) * np.sqrt(shape / rate)
