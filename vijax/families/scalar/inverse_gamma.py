"""Inverse gamma distributions, the law of 1 / y where y ~ Gamma(a, b): q(x) = 1/x exp{-a log x - b / x - A}."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import Family, as_float, as_floats, family
from vijax.families.construction import constructor, on_host
from vijax.families.discrete.dirichlet import floored_log, positive_and_finite
from vijax.families.laws import InverseGammaLaw
from vijax.families.numeric import special
from vijax.families.numeric.excess import log_excess, product_difference
from vijax.families.scalar.gamma import Gamma, GammaStats


class InverseGammaStats(NamedTuple):
    """t(x) = (log x, 1 / x)."""

    log: Float[Array, "*batch"]
    reciprocal: Float[Array, "*batch"]


@family
class InverseGamma(Family):
    """An inverse gamma distribution over positive numbers: the conjugate prior of a variance.

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
        """Inverse gammas of this shape and scale, broadcast; ValueError unless both are positive and finite."""
        xp, *values = on_host(*as_floats(shape, scale))
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

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = log Gamma(a) - a log b."""
        return self.as_gamma().log_normalizer()

    def stats(self, x: Any) -> InverseGammaStats:
        """(log x, 1 / x); x below the dtype's smallest normal number counts as that number."""
        x = as_float(x)
        return InverseGammaStats(floored_log(x), 1.0 / jnp.maximum(x, jnp.finfo(x.dtype).tiny))

    def log_base_measure(self, stats: InverseGammaStats) -> Float[Array, "*batch"]:
        """log h(x) = -log x."""
        return -stats.log

    def mean(self) -> Float[Array, "*batch"]:
        """b / (a - 1), infinite where a <= 1."""
        return jnp.where(self.shape > 1.0, self.scale / jnp.where(self.shape > 1.0, self.shape - 1.0, 1.0), jnp.inf)

    def marginal_laws(self) -> InverseGammaLaw:
        """The law itself."""
        return InverseGammaLaw(self.shape, self.scale)

    def mode(self) -> Float[Array, "*batch"]:
        """b / (a + 1)."""
        return self.scale / (self.shape + 1.0)

    def in_domain(self) -> Self:
        """a > 0 and b > 0, both finite."""
        return type(self)(positive_and_finite(self.shape), positive_and_finite(self.scale))

    def flat(self) -> Self:
        """a = -1, b = 0."""
        return type(self)(jnp.ones_like(self.negative_shape), jnp.zeros_like(self.negative_scale))

    def expected_stats(self) -> InverseGammaStats:
        """(log b - psi(a), a / b)."""
        return _inverted(self.as_gamma().expected_stats())

    def entropy(self) -> Float[Array, "*batch"]:
        """The entropy of y = 1 / x, and E[log |dx / dy|] = -2 E[log y]."""
        q = self.as_gamma()
        return q.entropy() - 2.0 * q.expected_stats().log

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL of the gammas."""
        return self.as_gamma().kl(other.as_gamma())

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x), right in float32 at every shape; -inf where x is not positive."""
        x, a, b = as_float(x), self.shape, self.scale
        inside = (x > 0) & jnp.isfinite(x)
        safe = jnp.where(inside, x, 1.0)
        excess = product_difference(b, jnp.ones_like(b), a, safe) / (a * safe)
        log_x = jnp.log(safe)
        inner = -a * log_excess(excess, jnp.log(b / a) - log_x) - log_x - special.stirling_gap(a)
        return jnp.where(inside, inner, jnp.where(jnp.isnan(x), jnp.nan, -jnp.inf))

    def fisher_solve(self, cotangent: InverseGammaStats) -> Self:
        """F^-1 g."""
        return self._from_gamma(self.as_gamma().fisher_solve(_of_gamma(cotangent)))

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Float[Array, "*shape_batch"]:
        """x ~ q; overflows to infinity for small shapes, where `sample_stats` still gives log x."""
        return jnp.exp(self.sample_stats(key, shape).log)

    def sample_stats(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> InverseGammaStats:
        """(log x, 1 / x) of a draw, differentiable in the parameters."""
        return _inverted(self.as_gamma().sample_stats(key, shape))

    def pathwise_sample(self, key: PRNGKeyArray) -> tuple[InverseGammaStats, Callable[[InverseGammaStats], Self]]:
        """t(x) of a draw, and V: eta -> F^-1 J^T eta, the gamma's."""
        stats, v = self.as_gamma().pathwise_sample(key)
        return _inverted(stats), lambda eta: self._from_gamma(v(_of_gamma(eta)))

    def _from_gamma(self, q: Gamma) -> Self:
        return type(self)(-q.shape, q.negative_rate)


def _inverted(stats: GammaStats) -> InverseGammaStats:
    """The statistics of 1 / y from those of y."""
    return InverseGammaStats(-stats.log, stats.value)


def _of_gamma(stats: InverseGammaStats) -> GammaStats:
    return GammaStats(-stats.log, stats.reciprocal)
