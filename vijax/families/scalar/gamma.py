"""Gamma distributions: q(x; a, nu) = 1/x exp{a log x + nu x - A}, shape a > 0, negative rate nu =
-b < 0. Inverse gamma distributions, the law of their reciprocals: q(x) = 1/x exp{-a log x - b / x -
A}.

    A = log Gamma(a) - a log b,   mu = (psi(a) - log b, a / b),   F = [[psi'(a), 1/b], [1/b, a/b^2]]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import Family, as_float, as_floats, family
from vijax.families.construction import constructor, delegate, numpy_or_jax
from vijax.families.discrete.dirichlet import (
    floored_log,
    positive_and_finite,
    scaled_derivative_minus_one,
)
from vijax.families.laws import GammaLaw, InverseGammaLaw
from vijax.families.numeric import special
from vijax.families.numeric.excess import log_excess, log_gamma_kernel, product_difference
from vijax.families.numeric.pathwise import (
    elasticity_minus_one,
    log_gamma_from_offset,
    sample_offset,
)


class GammaStats(NamedTuple):
    """t(x) = (log x, x)."""

    log: Float[Array, "*batch"]
    value: Float[Array, "*batch"]


@family
class Gamma(Family):
    """A gamma distribution over positive numbers, of mean shape / rate.

    log h(x) = -log(x);  t = (log(x), x);  natural parameters (shape, -rate).

    >>> q = Gamma.from_shape_rate(3.0, 2.0)
    >>> float(q.mean()), float(q.mode()), float(q.rate)
    (1.5, 1.0, 2.0)
    """

    shape: Float[Array, "*batch"]
    negative_rate: Float[Array, "*batch"]

    Stats: ClassVar[type[tuple]] = GammaStats
    event_ndims: ClassVar[tuple[int, ...]] = (0, 0)

    @classmethod
    @constructor
    def from_shape_rate(cls, shape: Any, rate: Any) -> Self:
        """Gammas of this shape and rate, broadcast; ValueError unless positive and finite."""
        xp, *values = numpy_or_jax(*as_floats(shape, rate))
        a, b = xp.broadcast_arrays(*values)
        require(positive_and_finite(a), "shape", "positive finite numbers", a)
        remedy = "A scale parameter is 1 / rate."
        require(positive_and_finite(b), "rate", "positive finite numbers", b, remedy)
        return cls(a, -b)

    @property
    def rate(self) -> Float[Array, "*batch"]:
        """b = -negative_rate."""
        return -self.negative_rate

    def log_normalizer(self) -> Float[Array, "*batch"]:
        return special.log_gamma(self.shape) - self.shape * jnp.log(self.rate)

    def stats(self, x: Float[Array, "*batch"]) -> GammaStats:
        return GammaStats(floored_log(x), as_float(x))

    def log_base_measure(self, stats: GammaStats) -> Float[Array, "*batch"]:
        return -stats.log

    def mean(self) -> Float[Array, "*batch"]:
        return self.shape / self.rate

    def marginal_laws(self) -> GammaLaw:
        return GammaLaw(self.shape, self.rate)

    def mode(self) -> Float[Array, "*batch"]:
        return jnp.maximum(self.shape - 1.0, 0.0) / self.rate

    def in_domain(self) -> Self:
        return type(self)(positive_and_finite(self.shape), positive_and_finite(self.rate))

    def flat(self) -> Self:
        return type(self)(jnp.ones_like(self.shape), jnp.zeros_like(self.negative_rate))

    def expected_stats(self) -> GammaStats:
        return GammaStats(special.digamma(self.shape) - jnp.log(self.rate), self.mean())

    def entropy(self) -> Float[Array, "*batch"]:
        return special.legendre_gap(self.shape) + special.digamma(self.shape) - jnp.log(self.rate)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """a' (m - 1 - log m) + R(a, a'), m = (a / b) / (a' / b') the ratio of the means, R the
        Bregman divergence of Stirling's remainder (`special.stirling_divergence`). Neither term is
        ever negative."""
        a, b = self.shape, self.rate
        a2, b2 = other.shape, other.rate
        shape_change, rate_change = (a - a2) / a2, (b2 - b) / b
        # Of two ways to write m - 1 this takes the one whose terms are of the size of m.
        excess = jnp.where(
            a > a2,
            shape_change * (b2 / b) + rate_change,
            shape_change + rate_change * (a / a2),
        )
        scale = log_excess(excess, jnp.log(a / a2) + jnp.log(b2 / b))
        return a2 * scale + special.stirling_divergence(a, a2)

    def log_prob(self, x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """log q(x), right in float32 at every shape; -inf if x is negative, and at 0 the limit
        (infinite for a < 1, log b for a = 1)."""
        x, a, b = as_float(x), self.shape, self.rate
        excess = product_difference(b, x, a, jnp.ones_like(a)) / a
        return log_gamma_kernel(x, a, b, excess) - special.stirling_gap(a)

    def fisher_solve(self, cotangent: GammaStats) -> Self:
        """F^-1 g in closed form: det F = r / (w b^2), with w = 1 / psi'(a) and r = a - w."""
        w = special.inverse_trigamma(self.shape)
        r = special.trigamma_deficit(self.shape)
        b = self.rate
        shape = (self.shape * cotangent.log - b * cotangent.value) * (w / r)
        return type(self)(shape, (b * cotangent.value - w * cotangent.log) * (b / r))

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape_batch"]:
        """x ~ q. For small shapes it underflows to 0, but `sample_stats` still gives log x."""
        return self.sample_stats(key, shape).value

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> GammaStats:
        return self._offset_stats(sample_offset(key, self.shape, shape))

    def pathwise_sample(self, key: PRNGKeyArray) -> tuple[GammaStats, Callable[[GammaStats], Self]]:
        """t(x) of a draw, and V: eta -> F^-1 J^T eta in closed form (Hoffman and Blei 2015, eq. 8
        and 22).

        With c = eta_log + x eta_value, g = d log x / da, G = a g: J^T eta = (g c, c / b), and so V
        eta = ((w / r) (G - 1) c, -(b / r) (w g - 1) c). Neither factor is a difference of large
        terms."""
        offset = lax.optimization_barrier(sample_offset(key, self.shape))
        stats = self._offset_stats(offset)

        def v(eta: GammaStats):
            w = special.inverse_trigamma(self.shape)
            r = special.trigamma_deficit(self.shape)
            c = (eta.log + stats.value * eta.value) / r
            shape = w * elasticity_minus_one(self.shape, offset) * c
            slope = scaled_derivative_minus_one(self.shape, offset)
            return type(self)(shape, -self.rate * slope * c)

        return stats, v

    def _offset_stats(self, offset: Float[Array, "*shape"]) -> GammaStats:
        log_x = log_gamma_from_offset(self.shape, offset) - jnp.log(self.rate)
        return GammaStats(log_x, jnp.exp(log_x))


class InverseGammaStats(NamedTuple):
    """t(x) = (log x, 1 / x)."""

    log: Float[Array, "*batch"]
    reciprocal: Float[Array, "*batch"]


@family
class InverseGamma(Family):
    """An inverse gamma distribution over positive numbers: the conjugate prior of a variance.

    A = log Gamma(shape) - shape log(scale), and E[t] = (log(scale) - psi(shape), shape / scale).

    log h(x) = -log(x);  t = (log(x), 1 / x);  natural parameters (-shape, -scale).

    >>> q = InverseGamma.from_shape_scale(3.0, 4.0)
    >>> float(q.mean()), float(q.mode())
    (2.0, 1.0)
    """

    negative_shape: Float[Array, "*batch"]
    negative_scale: Float[Array, "*batch"]

    Stats: ClassVar[type[tuple]] = InverseGammaStats
    event_ndims: ClassVar[tuple[int, ...]] = (0, 0)

    @classmethod
    @constructor
    def from_shape_scale(cls, shape: Any, scale: Any) -> Self:
        """Inverse gammas of this shape and scale, broadcast; ValueError unless both are positive
        and finite."""
        xp, *values = numpy_or_jax(*as_floats(shape, scale))
        a, b = xp.broadcast_arrays(*values)
        require(positive_and_finite(a), "shape", "positive finite numbers", a)
        require(positive_and_finite(b), "scale", "positive finite numbers", b)
        return cls(-a, -b)

    @property
    def shape(self) -> Float[Array, "*batch"]:
        """a."""
        return -self.negative_shape

    @property
    def scale(self) -> Float[Array, "*batch"]:
        """b."""
        return -self.negative_scale

    def as_gamma(self) -> Gamma:
        """The law of 1 / x."""
        return Gamma(self.shape, self.negative_scale)

    log_normalizer = delegate("log_normalizer", as_gamma)
    kl = delegate("kl", as_gamma, take=lambda q, other: other.as_gamma())
    expected_stats = delegate("expected_stats", as_gamma, lambda q, y: _invert_stats(y))
    sample_stats = delegate("sample_stats", as_gamma, lambda q, y: _invert_stats(y))
    fisher_solve = delegate(
        "fisher_solve", as_gamma, lambda q, y: _as_inverse_gamma(y), lambda q, g: _as_gamma_stats(g)
    )

    def pathwise_sample(
        self, key: PRNGKeyArray
    ) -> tuple[InverseGammaStats, Callable[[InverseGammaStats], Self]]:
        stats, v = self.as_gamma().pathwise_sample(key)
        return _invert_stats(stats), lambda eta: _as_inverse_gamma(v(_as_gamma_stats(eta)))

    def stats(self, x: Any) -> InverseGammaStats:
        """(log x, 1 / x); x below the dtype's smallest normal number counts as that number."""
        x = as_float(x)
        return InverseGammaStats(floored_log(x), 1.0 / jnp.maximum(x, jnp.finfo(x.dtype).tiny))

    def log_base_measure(self, stats: InverseGammaStats) -> Float[Array, "*batch"]:
        return -stats.log

    def mean(self) -> Float[Array, "*batch"]:
        has_mean = self.shape > 1.0
        return jnp.where(has_mean, self.scale / jnp.where(has_mean, self.shape - 1.0, 1.0), jnp.inf)

    def marginal_laws(self) -> InverseGammaLaw:
        return InverseGammaLaw(self.shape, self.scale)

    def mode(self) -> Float[Array, "*batch"]:
        return self.scale / (self.shape + 1.0)

    def in_domain(self) -> Self:
        return type(self)(positive_and_finite(self.shape), positive_and_finite(self.scale))

    def flat(self) -> Self:
        return type(self)(jnp.ones_like(self.negative_shape), jnp.zeros_like(self.negative_scale))

    def entropy(self) -> Float[Array, "*batch"]:
        """The entropy of y = 1 / x plus E[log |dx / dy|] = -2 E[log y]."""
        q = self.as_gamma()
        return q.entropy() - 2.0 * q.expected_stats().log

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x), right in float32 at every shape; -inf if x is not positive."""
        x = as_float(x)
        a, b = self.shape, self.scale
        is_valid = (x > 0) & jnp.isfinite(x)
        safe = jnp.where(is_valid, x, 1.0)
        excess = product_difference(b, jnp.ones_like(b), a, safe) / (a * safe)
        log_x = jnp.log(safe)
        density = -a * log_excess(excess, jnp.log(b / a) - log_x) - log_x - special.stirling_gap(a)
        return jnp.where(is_valid, density, jnp.where(jnp.isnan(x), jnp.nan, -jnp.inf))

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape_batch"]:
        """x ~ q. For small shapes it overflows to infinity; `sample_stats` still gives log x."""
        return jnp.exp(self.sample_stats(key, shape).log)


def _as_inverse_gamma(q: Gamma) -> Any:
    return InverseGamma(-q.shape, q.negative_rate)


def _invert_stats(stats: GammaStats) -> InverseGammaStats:
    """The statistics of 1 / y from those of y."""
    return InverseGammaStats(-stats.log, stats.value)


def _as_gamma_stats(stats: InverseGammaStats) -> GammaStats:
    return GammaStats(-stats.log, stats.reciprocal)
