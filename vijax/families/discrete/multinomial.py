"""The multinomial distribution: q(x) = n! / prod_k x_k! exp{<logits, x> - n logsumexp(logits)}, sum_k x_k = n."""

from __future__ import annotations

import math
import operator
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import Family, domain_mask, family, static_field
from vijax.families.construction import constructor
from vijax.families.discrete.categorical import Categorical, CategoricalStats, complements
from vijax.families.laws import BinomialLaw
from vijax.families.numeric.log_factorial import binomial_gap, deviance, is_count, log_factorial_gap
from vijax.families.numeric.special import log_gamma

PIECE = 1 << 20
"""The largest total drawn at once."""


class MultinomialStats(NamedTuple):
    """t(x) = x, the counts."""

    counts: Float[Array, "*batch K"]


@family
class Multinomial(Family):
    """Counts of `total` independent draws of a `Categorical`; the natural parameters are its logits.

    log h(x) = gammaln(total + 1) - sum(gammaln(x + 1));  t = (x,);  natural parameters (logits,).

    The total is static, one for all members of a batch. Totals that are data (the allocation of a count Y to K
    components, `Y log p(z)`) need no family: log Y! - sum log z_k! is in the model's log joint too, cancels against
    the entropy's, and leaves the bound Y logsumexp(logits), whose gradient in the logits is E[z].

    As with the `Categorical`, F is singular along constant logits. log h(x) is not linear in x: its mean is an exact
    integral (`vijax.families.numeric.log_factorial`), and `flat` is an error.

    >>> q = Multinomial.from_probs([0.5, 0.25, 0.25], 4)
    >>> print(q.mean(), q.mode(), f"{q.entropy():.4f}")
    [2. 1. 1.] [2 1 1] 2.3726
    """

    logits: Float[Array, "*batch K"]
    total: int = static_field()

    Stats: ClassVar = MultinomialStats
    event_ndims: ClassVar = (1,)
    discrete: ClassVar = True

    @classmethod
    @constructor
    def from_probs(cls, probs: Any, total: int) -> Self:
        """Multinomials from probabilities along the last axis, as `Categorical.from_probs`, and the number of draws.

        Raises:
          ValueError: a probability is negative, they do not sum to one, or `total` is no integer >= 0.
        """
        return cls(Categorical.from_probs(probs).logits, _checked(total))

    @classmethod
    @constructor
    def from_logits(cls, logits: Any, total: int) -> Self:
        """Multinomials from unnormalised log probabilities. Raises ValueError unless they are finite and `total` is an
        integer >= 0."""
        return cls(Categorical.from_logits(logits).logits, _checked(total))

    @property
    def probs(self) -> Float[Array, "*batch K"]:
        """The probability of each category in one draw."""
        return jax.nn.softmax(self.logits)

    def as_categorical(self) -> Categorical:
        """The law of one draw."""
        return Categorical(self.logits)

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = n logsumexp(logits)."""
        return self.total * jax.nn.logsumexp(self.logits, axis=-1)

    def stats(self, x: Any) -> MultinomialStats:
        """The counts, as floats."""
        return MultinomialStats(jnp.asarray(x).astype(jnp.result_type(self.logits)))

    def log_base_measure(self, stats: MultinomialStats) -> Float[Array, "*batch"]:
        """log h(x) = log n! - sum_k log x_k!."""
        return self._log_total_factorial() - jnp.sum(log_gamma(1.0 + stats.counts), -1)

    def expected_log_base_measure(self) -> Float[Array, "*batch"]:
        """log n! - sum_k E[log x_k!], where x_k ~ Binomial(n, p_k)."""
        return self.log_normalizer() - self.dot(self.expected_stats()) - self.entropy()

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Int[Array, "*shape_batch K"]:
        """Counts, int32. For a large total they are sums of draws of `PIECE` each, because `jax.random.binomial`
        decides in float32 by terms of the total's size (at 1e8 its variances are a fifth off), and counts in floats.

        Raises:
          ValueError: a total above 2^31 - 1, which int32 does not hold."""
        require(self.total < 2**31, "total", "at most 2^31 - 1, as counts are int32", self.total)
        size = shape + self.logits.shape
        draw = lambda key, n: jax.random.multinomial(key, n, self.probs, shape=size).astype(jnp.int32)
        pieces, rest = divmod(max(self.total - 1, 0), PIECE)  # at least one remains: the draw of a small total
        add = lambda i, counts: counts + draw(jax.random.fold_in(key, i), PIECE)
        last = draw(key, rest + min(self.total, 1))
        return last if pieces == 0 else jax.lax.fori_loop(0, pieces, add, last)

    def mean(self) -> Float[Array, "*batch K"]:
        """n p."""
        return self.total * self.probs

    def marginal_laws(self) -> BinomialLaw:
        """Binomial(n, p_k) for category k."""
        return BinomialLaw(jnp.asarray(self.total, self.logits.dtype), self.probs, complements(self.probs))

    def mode(self) -> Int[Array, "*batch K"]:
        """The most probable counts: draws are handed out one by one to the largest p_k / (x_k + 1) (D'Hondt's method),
        after the first n p_k, rounded down, that each category is known to receive."""
        start = jnp.floor(self.mean() * (1.0 - 1e-6))
        left = lambda x: self.total - jnp.sum(x, -1, keepdims=True)

        def hand_out(x: Array) -> Array:
            next_one = jax.nn.one_hot(jnp.argmax(self.logits - jnp.log1p(x), -1), x.shape[-1], dtype=x.dtype)
            return jnp.where(left(x) > 0, x + next_one, x)

        return jax.lax.while_loop(lambda x: jnp.any(left(x) > 0), hand_out, start).astype(jnp.int32)

    def in_domain(self) -> Self:
        """All logits finite."""
        return domain_mask(jnp.all(jnp.isfinite(self.logits), -1), self)

    def expected_stats(self) -> MultinomialStats:
        """n p."""
        return MultinomialStats(self.mean())

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x), with no difference of large numbers; minus infinity unless x are counts that sum to the total."""
        adds_up = jnp.sum(jnp.asarray(x), -1) == self.total  # integers, so the sum is exact
        (x,) = self.stats(x)
        log_mean = self.as_categorical().log_probs + math.log(max(self.total, 1e-30))
        each = jnp.sum(deviance(x, log_mean) + log_factorial_gap(x), -1)
        log_prob = log_factorial_gap(jnp.asarray(self.total, x.dtype)) - each
        return jnp.where(jnp.all(is_count(x), -1) & adds_up, log_prob, -jnp.inf)

    def entropy(self) -> Float[Array, "*batch"]:
        """sum_k [E log x_k! - m_k log m_k + m_k] - [log n! - n log n + n], m = n p, in nats."""
        n = jnp.asarray(self.total, self.logits.dtype)
        return jnp.sum(binomial_gap(n, self.probs), -1) - log_factorial_gap(n)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """n KL(p || p'), both of one total."""
        return self.total * self.as_categorical().kl(other.as_categorical())

    def fisher_product(self, tangent: Self) -> MultinomialStats:
        """n p (v - <p, v>)."""
        return MultinomialStats(self.total * self.as_categorical().fisher_product(tangent.as_categorical()).one_hot)

    def fisher_solve(self, cotangent: MultinomialStats) -> Self:
        """The categorical's solution of F x = g / n, for which <p, x> = 0; zero where n is."""
        g = CategoricalStats(cotangent.counts * (1.0 / self.total if self.total else 0.0))
        return type(self)(self.as_categorical().fisher_solve(g).logits, self.total)

    def _log_total_factorial(self) -> Array:
        return log_gamma(jnp.asarray(1.0 + self.total, self.logits.dtype))


def _checked(total: Any) -> int:
    try:
        n = operator.index(total)
    except TypeError:
        n = -1
    require(n >= 0, "total", "an integer >= 0", total, "It is static; for totals that are data see the class.")
    return n
