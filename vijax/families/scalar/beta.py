"""Beta distributions: q(x; a, b) = 1 / (x (1 - x))  exp{a log x + b log(1 - x) - A}.

It is the law of the first component of a Dirichlet with two components, and most methods call that
Dirichlet: the pair (x, 1 - x) is drawn as two log-gammas, so that log(1 - x) never uses a rounded 1
- x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import Family, as_float, as_floats, family
from vijax.families.construction import constructor, delegate, numpy_or_jax
from vijax.families.discrete.dirichlet import (
    Dirichlet,
    DirichletStats,
    floored_log,
    positive_and_finite,
)
from vijax.families.laws import BetaLaw
from vijax.families.numeric import special
from vijax.families.numeric.excess import log_gamma_kernel, product_difference, total_log_density


class BetaStats(NamedTuple):
    """t(x) = (log x, log(1 - x))."""

    log: Float[Array, "*batch"]
    log1m: Float[Array, "*batch"]


@family
class Beta(Family):
    """A beta distribution over (0, 1), of mean alpha / (alpha + beta).

    log h(x) = -log(x) - log(1 - x);  t = (log(x), log(1 - x));  natural parameters (alpha, beta).

    >>> q = Beta.from_alpha_beta(3.0, 1.0)
    >>> float(q.mean()), float(q.mode())
    (0.75, 1.0)
    """

    alpha: Float[Array, "*batch"]
    beta: Float[Array, "*batch"]

    Stats: ClassVar[type[tuple]] = BetaStats
    event_ndims: ClassVar[tuple[int, ...]] = (0, 0)

    @classmethod
    @constructor
    def from_alpha_beta(cls, alpha: Any, beta: Any) -> Self:
        """Betas of these parameters, broadcast; ValueError unless both are positive and finite."""
        xp, *values = numpy_or_jax(*as_floats(alpha, beta))
        a, b = xp.broadcast_arrays(*values)
        require(positive_and_finite(a), "alpha", "positive finite numbers", a)
        require(positive_and_finite(b), "beta", "positive finite numbers", b)
        return cls(a, b)

    def as_dirichlet(self) -> Dirichlet:
        """The law of (x, 1 - x)."""
        return Dirichlet(jnp.stack([self.alpha, self.beta], axis=-1))

    log_normalizer = delegate("log_normalizer", as_dirichlet)
    entropy = delegate("entropy", as_dirichlet)
    kl = delegate("kl", as_dirichlet, take=lambda q, other: other.as_dirichlet())
    sample_stats = delegate("sample_stats", as_dirichlet, lambda q, y: _unstack(y))
    fisher_solve = delegate(
        "fisher_solve", as_dirichlet, lambda q, y: _as_beta(y), lambda q, g: _stack(g)
    )

    def pathwise_sample(self, key: PRNGKeyArray) -> tuple[BetaStats, Callable[[BetaStats], Self]]:
        stats, v = self.as_dirichlet().pathwise_sample(key)
        return _unstack(stats), lambda eta: _as_beta(v(_stack(eta)))

    def stats(self, x: Float[Array, "*batch"]) -> BetaStats:
        x = as_float(x)
        return BetaStats(floored_log(x), jnp.where(x < 0.5, jnp.log1p(-x), floored_log(1.0 - x)))

    def log_base_measure(self, stats: BetaStats) -> Float[Array, "*batch"]:
        return -stats.log - stats.log1m

    def mean(self) -> Float[Array, "*batch"]:
        return self.alpha / (self.alpha + self.beta)

    def marginal_laws(self) -> BetaLaw:
        return BetaLaw(self.alpha, self.beta)

    def mode(self) -> Float[Array, "*batch"]:
        """max(alpha - 1, 0) / (max(alpha - 1, 0) + max(beta - 1, 0)); 1/2 if neither parameter
        exceeds 1."""
        return self.as_dirichlet().mode()[..., 0]

    def in_domain(self) -> Self:
        return type(self)(positive_and_finite(self.alpha), positive_and_finite(self.beta))

    def flat(self) -> Self:
        return type(self)(jnp.ones_like(self.alpha), jnp.ones_like(self.beta))

    def expected_stats(self) -> BetaStats:
        """(psi(alpha) - psi(alpha + beta), psi(beta) - psi(alpha + beta)); right also if one of
        them is nearly zero."""
        a, b = self.alpha, self.beta
        total = special.log_minus_digamma(a + b)
        log = total - special.log_minus_digamma(a) - jnp.log1p(b / a)
        return BetaStats(log, total - special.log_minus_digamma(b) - jnp.log1p(a / b))

    def log_prob(self, x: Float[Array, "*batch"]) -> Float[Array, "*batch"]:
        """log q(x), right in float32 at all parameters; -inf outside of [0, 1], and the limits at 0
        and 1."""
        x = as_float(x)
        a, b = self.alpha, self.beta
        y = 1.0 - x
        rounding = (1.0 - y) - x  # the rounding error of 1 - x
        gap = product_difference(x, b, y, a) - rounding * a  # x (a + b) - a
        n = a + b
        kernel_x = log_gamma_kernel(x, a, n, gap / a)
        kernel_y = log_gamma_kernel(y, b, n, -gap / b)
        kernels = jnp.stack([kernel_x, kernel_y], axis=-1)
        gaps = special.stirling_gap(a) + special.stirling_gap(b) - special.stirling_gap(n)
        return total_log_density(kernels) - gaps

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Float[Array, "*shape_batch"]:
        """x ~ q. Small parameters give rounded 0 or 1; `sample_stats` keeps both logarithms."""
        return jnp.exp(self.sample_stats(key, shape).log)


def _as_beta(q: Dirichlet) -> Any:
    return Beta(q.concentration[..., 0], q.concentration[..., 1])


def _stack(stats: BetaStats) -> DirichletStats:
    return DirichletStats(jnp.stack([stats.log, stats.log1m], axis=-1))


def _unstack(stats: DirichletStats) -> BetaStats:
    """log x and log(1 - x); the one nearer to zero is computed from the other as log1p(-exp)."""
    log, log1m = stats.log[..., 0], stats.log[..., 1]
    return BetaStats(_from_complement(log, log1m), _from_complement(log1m, log))


def _from_complement(
    log: Float[Array, "*batch"], log1m: Float[Array, "*batch"]
) -> Float[Array, "*batch"]:
    nearer = log1m < log
    return jnp.where(nearer, jnp.log1p(-jnp.exp(jnp.where(nearer, log1m, -1.0))), log)
