"""The normal-gamma distribution of a mean and a precision: tau ~ Gamma(a, b), mu | tau ~ N(m, 1 /
(kappa tau)).

    q(mu, tau) = tau^{-1/2} exp{kappa m (tau mu) - kappa / 2 (tau mu^2) - (b + kappa m^2 / 2) tau + a log tau - A},
    A = log Gamma(a) - a log b - log(kappa) / 2 + log(2 pi) / 2

The conjugate prior of a normal's two parameters: an observation y adds (y, -1/2, -y^2 / 2, 1/2).
Batch axes give the diagonal multivariate version. In the coordinates (m, kappa, a, b) the Fisher
matrix is block diagonal, so `fisher_solve` and V have closed forms. b is a difference of natural
parameters: float32 loses 3e-8 kappa m^2 / 2b of it, and the law amplifies this by sqrt(a).
Divergences, entropies and densities are right to 1e-3 for |m| up to 50 (1 + a)^-1/4 sqrt(b /
kappa). The constructor raises if rounding changes b by more than 1e-3; then centre the data."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import Family, as_floats, domain_mask, family, finite
from vijax.families.construction import (
    CENTRE,
    constructor,
    numpy_or_jax,
    rate_error,
    require_accuracy,
)
from vijax.families.discrete.dirichlet import floored_log, positive_and_finite
from vijax.families.laws import StudentLaw
from vijax.families.numeric.excess import less_half_product
from vijax.families.numeric.special import excess_over_log
from vijax.families.scalar.gamma import Gamma, GammaStats


class NormalGammaStats(NamedTuple):
    """t(mu, tau) = (tau mu, tau mu^2, tau, log tau)."""

    precision_times_mean: Float[Array, "*batch"]
    precision_times_square: Float[Array, "*batch"]
    precision: Float[Array, "*batch"]
    log_precision: Float[Array, "*batch"]


class MeanPrecision(NamedTuple):
    """A value: a mean and a precision."""

    mean: Float[Array, "*batch"]
    precision: Float[Array, "*batch"]


@family
class NormalGamma(Family):
    """A normal-gamma distribution over (mean, precision) of a scalar normal.

    log h(mean, precision) = -log(precision) / 2;
    t = (precision * mean, precision * mean**2, precision, log(precision));
    natural parameters (strength * location, -strength / 2, -rate - strength * location**2 / 2, shape).

    >>> q = NormalGamma.from_parameters(location=1.0, strength=2.0, shape=3.0, rate=1.5)
    >>> print(q.mean().mean, q.mean().precision, q.location, q.rate)
    1.0 2.0 1.0 1.5
    """

    strength_times_location: Float[Array, "*batch"]
    negative_half_strength: Float[Array, "*batch"]
    negative_raw_rate: Float[Array, "*batch"]
    shape: Float[Array, "*batch"]

    Stats: ClassVar = NormalGammaStats
    event_ndims: ClassVar = (0, 0, 0, 0)

    @classmethod
    @constructor
    def from_parameters(cls, location: Any, strength: Any, shape: Any, rate: Any) -> Self:
        """Normal-gammas of m, kappa, a and b, broadcast together.

        Raises:
          ValueError: a location that is not finite, another parameter that is not positive and
            finite, or a rate that rounding removes beside strength * location^2 / 2.
        """
        xp, *values = numpy_or_jax(*as_floats(location, strength, shape, rate))
        m, kappa, a, b = xp.broadcast_arrays(*values)
        require(finite(m), "location", "finite numbers", m)
        for name, value in (("strength", kappa), ("shape", a), ("rate", b)):
            require(positive_and_finite(value), name, "positive finite numbers", value)
        linear = kappa * m
        raw = b + 0.5 * kappa * m**2
        raw = raw + (b - less_half_product(raw, linear, linear, kappa))  # undo rounding of `linear`
        error = lambda b, raw, linear, kappa: rate_error(b, raw - 0.5 * linear**2 / kappa)
        require_accuracy("rate", error, b, raw, linear, kappa, remedy=CENTRE)
        return cls(linear, -0.5 * kappa, -raw, a)

    @property
    def strength(self) -> Float[Array, "*batch"]:
        """kappa: the mean is as precise as one of this many observations."""
        return -2.0 * self.negative_half_strength

    @property
    def location(self) -> Float[Array, "*batch"]:
        """m = E[mu]."""
        return self.strength_times_location / self.strength

    @property
    def rate(self) -> Float[Array, "*batch"]:
        """b."""
        linear = self.strength_times_location
        return less_half_product(-self.negative_raw_rate, linear, linear, self.strength)

    def precision_law(self) -> Gamma:
        """The marginal law of tau."""
        return Gamma(self.shape, -self.rate)

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = log Gamma(a) - a log b - log(kappa) / 2 + log(2 pi) / 2."""
        log_variance = math.log(2 * math.pi) - jnp.log(self.strength)
        return self.precision_law().log_normalizer() + 0.5 * log_variance

    def stats(self, x: MeanPrecision) -> NormalGammaStats:
        mean, precision = as_floats(*x)
        linear = precision * mean
        return NormalGammaStats(linear, precision * mean**2, precision, floored_log(precision))

    def log_base_measure(self, stats: NormalGammaStats) -> Float[Array, "*batch"]:
        return -0.5 * stats.log_precision

    def mean(self) -> MeanPrecision:
        return MeanPrecision(self.location, self.shape / self.rate)

    def mean_law(self) -> StudentLaw:
        """The marginal law of mu: Student's t with 2 a degrees of freedom, m and sqrt(b / (a
        kappa))."""
        scale = jnp.sqrt(self.rate / (self.shape * self.strength))
        return StudentLaw(2.0 * self.shape, self.location, scale)

    def marginal_laws(self) -> MeanPrecision:
        """Student's t for the mean, a gamma for the precision."""
        return MeanPrecision(self.mean_law(), self.precision_law().marginal_laws())  # type: ignore[arg-type]

    def mode(self) -> MeanPrecision:
        return MeanPrecision(self.location, jnp.maximum(self.shape - 0.5, 0.0) / self.rate)

    def in_domain(self) -> Self:
        ok = (
            positive_and_finite(self.strength)
            & positive_and_finite(self.shape)
            & positive_and_finite(self.rate)
        )
        return domain_mask(ok & jnp.isfinite(self.strength_times_location), self)

    def flat(self) -> Self:
        zero = jnp.zeros_like(self.shape)
        return type(self)(zero, zero, zero, zero + 0.5)

    def expected_stats(self) -> NormalGammaStats:
        """(m a / b, 1 / kappa + m^2 a / b, a / b, psi(a) - log b)."""
        m = self.location
        tau = self.precision_law().expected_stats()
        square = 1.0 / self.strength + m**2 * tau.value
        return NormalGammaStats(m * tau.value, square, tau.value, tau.log)

    def log_prob(self, x: MeanPrecision) -> Float[Array, "*batch"]:
        mean, precision = as_floats(*x)
        spread = self.strength * precision * (mean - self.location) ** 2
        log_scale = jnp.log(self.strength) + floored_log(precision) - math.log(2 * math.pi)
        return self.precision_law().log_prob(precision) + 0.5 * (log_scale - spread)

    def entropy(self) -> Float[Array, "*batch"]:
        tau = self.precision_law()
        log_precision = jnp.log(self.strength) + tau.expected_stats().log
        return tau.entropy() + 0.5 * (1.0 + math.log(2 * math.pi) - log_precision)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL of the precisions plus (r - 1 - log r + kappa' (a / b) (m - m')^2) / 2 with r = kappa'
        / kappa."""
        tau = self.precision_law()
        shift = other.strength * tau.mean() * (self.location - other.location) ** 2
        excess = excess_over_log(other.strength / self.strength)
        return tau.kl(other.precision_law()) + 0.5 * (excess + shift)

    def fisher_solve(self, cotangent: NormalGammaStats) -> Self:
        """F^-1 g: closed forms for m and 1 / kappa, and the gamma's solution for a and b."""
        g = cotangent
        m, kappa, tau = self.location, self.strength, self.precision_law()
        dm = (g.precision_times_mean - m * g.precision) / tau.mean()
        d_inverse = g.precision_times_square - 2.0 * m * g.precision_times_mean + m**2 * g.precision
        dgamma = tau.fisher_solve(GammaStats(g.log_precision, g.precision))
        return self._to_naturals(dm, -(kappa**2) * d_inverse, dgamma)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> MeanPrecision:
        tau, noise = self._draw(key, shape)
        mean = self.location + noise * jnp.exp(-0.5 * tau.log) / jnp.sqrt(self.strength)
        return MeanPrecision(mean, tau.value)

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> NormalGammaStats:
        """t of a draw; log tau is drawn directly, and nothing is divided by tau."""
        tau, noise = self._draw(key, shape)
        return self._stats_of_draw(tau, noise)

    def pathwise_sample(
        self, key: PRNGKeyArray
    ) -> tuple[NormalGammaStats, Callable[[NormalGammaStats], Self]]:
        """t of a draw, and V: eta -> F^-1 J^T eta, block by block in (m, kappa) and (a, b).

        With e = mu - m and s = eta_1 + 2 eta_2 mu, tau s is the slope of <eta, t> at mu: d/dm = tau
        s, d/dkappa = -tau s e / (2 kappa), and tau moves mu by d mu = -e / (2 tau) d tau."""
        key_tau, key_noise = jax.random.split(key)
        noise = self._noise(key_noise, ())
        tau, gamma_v = self.precision_law().pathwise_sample(key_tau)
        kappa, root = self.strength, jnp.exp(0.5 * tau.log)

        def v_product(eta: NormalGammaStats) -> Any:
            scaled = noise / jnp.sqrt(kappa)  # sqrt(tau) (mu - m)
            linear, square = eta.precision_times_mean, eta.precision_times_square
            m = self.location
            slope = (linear + 2.0 * square * m) * root + 2.0 * square * scaled  # sqrt(tau) s
            # tau (eta_1 mu + eta_2 mu^2 - s e / 2) as tau varies at fixed e; the part in e^2
            # cancels.
            tau_slope = (
                m * (linear + square * m) * tau.value
                + 0.5 * (linear + 2.0 * square * m) * root * scaled
            )
            dgamma = gamma_v(GammaStats(eta.log_precision + tau_slope, eta.precision))
            dm = slope * root / (kappa * self.precision_law().mean())
            return self._to_naturals(dm, -kappa * slope * scaled, dgamma)

        return self._stats_of_draw(tau, noise), v_product

    def _draw(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> tuple[GammaStats, Array]:
        key_tau, key_noise = jax.random.split(key)
        return self.precision_law().sample_stats(key_tau, shape), self._noise(key_noise, shape)

    def _noise(self, key: PRNGKeyArray, shape: tuple[int, ...]) -> Array:
        return jax.random.normal(key, shape + self.batch_shape, jnp.result_type(self.shape))

    def _stats_of_draw(self, tau: GammaStats, noise: Array) -> NormalGammaStats:
        m = self.location
        scaled = noise / jnp.sqrt(self.strength)
        root = jnp.exp(0.5 * tau.log)
        value = root * (root * m + scaled)
        return NormalGammaStats(value, (root * m + scaled) ** 2, tau.value, tau.log)

    def _to_naturals(self, dm: Array, dkappa: Array, dgamma: Gamma) -> Self:
        """The direction in natural parameters of a change of (m, kappa, a, -b)."""
        m, kappa = self.location, self.strength
        raw = dgamma.negative_rate - 0.5 * m**2 * dkappa - kappa * m * dm
        return type(self)(m * dkappa + kappa * dm, -0.5 * dkappa, raw, dgamma.shape)
