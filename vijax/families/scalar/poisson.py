"""The Poisson distribution: q(x) = 1 / x! exp{log_rate x - e^log_rate} for x = 0, 1, 2, ..."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import Family, as_float, domain_mask, family, finite, positive_and_finite, ratio_or_zero
from vijax.families.construction import constructor, on_host
from vijax.families.numeric.log_factorial import deviance, is_count, log_factorial_gap, poisson_gap
from vijax.families.numeric.special import expm1_minus_identity, log_gamma
from vijax.families.scalar.poisson_draws import held, poisson_counts
from vijax.families.univariate import PoissonLaw


class PoissonStats(NamedTuple):
    """t(x) = x."""

    value: Float[Array, "*batch"]


@family
class Poisson(Family):
    """Poisson(rate), natural parameter log rate.

    log h(x) = -gammaln(x + 1);  t = (x,);  natural parameters (log(rate),).

    log h(x) = -log x! is not linear in x, so E[log h] is not log h at E[x]: it is an integral of one variable, exact
    at any rate (`vijax.families.numeric.log_factorial`), and not a truncated sum. For the same reason no Poisson is
    constant in x, and `flat` is an error.

    >>> q = Poisson.from_rate(3.0)
    >>> print(q.log_rate.round(4), q.mode(), q.log_prob(2).round(3), q.entropy().round(4))
    1.0986 3 -1.496 1.9315
    """

    log_rate: Float[Array, "*batch"]

    Stats: ClassVar = PoissonStats
    event_ndims: ClassVar = (0,)
    discrete: ClassVar = True

    @classmethod
    @constructor
    def from_rate(cls, rate: Any) -> Self:
        """Poisson laws of a positive and finite mean. Raises ValueError on others."""
        xp, rate = on_host(as_float(rate))
        require(positive_and_finite(rate), "rate", "positive finite numbers", rate)
        return cls(xp.log(rate))

    @classmethod
    @constructor
    def from_log_rate(cls, log_rate: Any) -> Self:
        """Poisson laws from the log of the mean, any finite number. Raises ValueError on others."""
        log_rate = as_float(log_rate)
        require(finite(log_rate), "log_rate", "finite numbers", log_rate)
        return cls(log_rate)

    @property
    def rate(self) -> Float[Array, "*batch"]:
        """E[x] = Var[x]."""
        return jnp.exp(self.log_rate)

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = e^log_rate."""
        return self.rate

    def stats(self, x: Any) -> PoissonStats:
        """x itself, as a float."""
        return PoissonStats(jnp.asarray(x).astype(jnp.result_type(self.log_rate)))

    def log_base_measure(self, stats: PoissonStats) -> Float[Array, "*batch"]:
        """log h(x) = -log x!."""
        return -log_gamma(1.0 + stats.value)

    def expected_log_base_measure(self) -> Float[Array, "*batch"]:
        """-E[log x!]."""
        return -poisson_gap(self.rate) - self.rate * (self.log_rate - 1.0)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Int[Array, "*shape_batch"]:
        """Counts, int32.

        Raises:
          ValueError: a rate above 2.146e9, whose counts int32 does not hold; draws at such a traced rate are -1."""
        return poisson_counts(key, self.rate, shape + self.batch_shape)

    def mean(self) -> Float[Array, "*batch"]:
        """The rate."""
        return self.rate

    def marginal_laws(self) -> PoissonLaw:
        """The law itself."""
        return PoissonLaw(self.rate)

    def mode(self) -> Int[Array, "*batch"]:
        """The rate rounded down; a whole rate is as likely as the number below it. Raises as `sample` does."""
        return jnp.where(held(self.rate), jnp.floor(self.rate), -1.0).astype(jnp.int32)

    def in_domain(self) -> Self:
        """Any finite log rate."""
        return domain_mask(jnp.isfinite(self.log_rate), self)

    def flat(self) -> Self:
        """Raises NotImplementedError."""
        raise NotImplementedError("no Poisson is constant in x, so that maximum likelihood has no flat prior: use map.")

    def expected_stats(self) -> PoissonStats:
        """The rate."""
        return PoissonStats(self.rate)

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x), with no difference of large numbers; -inf where x is no count."""
        (x,) = self.stats(x)
        return jnp.where(is_count(x), -deviance(x, self.log_rate) - log_factorial_gap(x), -jnp.inf)

    def entropy(self) -> Float[Array, "*batch"]:
        """log(2 pi e rate) / 2 + O(1 / rate), in nats."""
        return poisson_gap(self.rate)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """rate (e^d - 1 - d), d = log(rate' / rate)."""
        return self.rate * expm1_minus_identity(other.log_rate - self.log_rate)

    def fisher_product(self, tangent: Self) -> PoissonStats:
        """rate v."""
        return PoissonStats(self.rate * tangent.log_rate)

    def fisher_solve(self, cotangent: PoissonStats) -> Self:
        """g / rate; 0 where the rate underflows: no count can have been informative there."""
        return type(self)(ratio_or_zero(cotangent.value, self.rate))
