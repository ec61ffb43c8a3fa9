"""The categorical distribution in its overcomplete form, q(x = k) = exp{logits_k -
logsumexp(logits)}, and the counts of n draws from it, the multinomial q(x) = n! / prod_k x_k!
exp{<logits, x> - n logsumexp(logits)}, sum_k x_k = n."""

from __future__ import annotations

import math
import operator
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import (
    Family,
    as_float,
    domain_mask,
    family,
    finite,
    ratio_or_zero,
    static_field,
)
from vijax.families.construction import constructor, delegate, numpy_or_jax
from vijax.families.laws import BinomialLaw
from vijax.families.numeric.classes import log_sum_exp, softmax
from vijax.families.numeric.log_factorial import binomial_gap, deviance, is_count, log_factorial_gap
from vijax.families.numeric.special import expm1_minus_identity, log_gamma


class Discrete(Family):
    """A law of classes or counts: its natural parameters are any finite numbers, and its only
    statistic has the mean `mean()`."""

    discrete: ClassVar[bool] = True

    def in_domain(self) -> Self:
        finite = jnp.isfinite(jax.tree.leaves(self)[0])
        return domain_mask(jnp.all(finite, -1) if self.event_ndims[0] else finite, self)

    def stats(self, x: Any) -> Any:
        return self.Stats(jnp.asarray(x).astype(jnp.result_type(jax.tree.leaves(self)[0])))

    def expected_stats(self) -> Any:
        return self.Stats(self.mean())


class CategoricalStats(NamedTuple):
    """t(x) = the one-hot vector of x."""

    one_hot: Float[Array, "*batch K"]


@family
class Categorical(Discrete):
    """Categorical over K classes 0..K-1, natural parameters the logits (event axis last).

    log h(x) = 0;  t = (one_hot(x),);  natural parameters (logits,).

    A constant added to the logits changes nothing: F is singular in that direction, and
    `fisher_solve` returns the solution x with sum_k p_k x_k = 0.

    >>> q = Categorical.from_probs([0.5, 0.25, 0.25])
    >>> print(q.mode(), q.log_prob(2).round(4), q.entropy().round(4))
    0 -1.3863 1.0397
    """

    logits: Float[Array, "*batch K"]

    Stats: ClassVar = CategoricalStats
    event_ndims: ClassVar = (1,)

    @classmethod
    @constructor
    def from_logits(cls, logits: Any) -> Self:
        """Categoricals from unnormalised log probabilities; ValueError unless finite, with at least
        one axis."""
        logits = as_float(logits)
        _require_axis("logits", logits)
        remedy = "For zero probabilities use from_probs."
        require(finite(logits), "logits", "finite numbers", logits, remedy)
        return cls(logits)

    @classmethod
    @constructor
    def from_probs(cls, probs: Any) -> Self:
        """Categoricals from probabilities along the last axis; zeros become the smallest normal
        float. ValueError if one is negative, or if they do not sum to one within 1e-4."""
        xp, probs = numpy_or_jax(as_float(probs))
        _require_axis("probs", probs)
        require(probs >= 0, "probs", "non-negative numbers", probs)
        total = xp.sum(probs, -1)
        sums = f"sums in [{xp.min(total)}, {xp.max(total)}]"
        remedy = "Divide by the sum, or use from_logits(log(weights))."
        require(xp.abs(total - 1) < 1e-4, "probs", "rows that sum to one", sums, remedy)
        return cls(xp.log(xp.maximum(probs, jnp.finfo(probs.dtype).tiny)))

    @property
    def probs(self) -> Float[Array, "*batch K"]:
        """P(x = k)."""
        return softmax(self.logits)

    @property
    def log_probs(self) -> Float[Array, "*batch K"]:
        """log P(x = k), with a small relative error even if P is nearly one."""
        first = _is_largest(self.logits)
        largest = jnp.sum(jnp.where(first, self.logits, 0.0), -1, keepdims=True)
        shifted = self.logits - largest
        others = jnp.sum(jnp.where(first, 0.0, jnp.exp(shifted)), -1, keepdims=True)
        return shifted - jnp.log1p(others)

    @property
    def num_classes(self) -> int:
        """K."""
        return self.logits.shape[-1]

    def log_normalizer(self) -> Float[Array, "*batch"]:
        return log_sum_exp(self.logits)

    def stats(self, x: Int[Array, "*batch"]) -> CategoricalStats:
        dtype = jnp.result_type(self.logits)
        return CategoricalStats(jax.nn.one_hot(x, self.num_classes, dtype=dtype))

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Int[Array, "*shape_batch"]:
        """Class indices."""
        return jax.random.categorical(key, self.logits, shape=shape + self.batch_shape)

    def mean(self) -> Float[Array, "*batch K"]:
        """The probabilities: the mean of the one-hot vector."""
        return self.probs

    def variance(self) -> Float[Array, "*batch K"]:
        """p (1 - p), the variances of the one-hot vector; classes have no quantiles."""
        return self.probs * complements(self.probs)

    def mode(self) -> Int[Array, "*batch"]:
        """The most probable class; of several the first."""
        return jnp.argmax(self.logits, axis=-1)

    def log_prob(self, x: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        """log q(x); minus infinity if x is not one of 0..K-1."""
        (one_hot,) = self.stats(x)
        return jnp.where(jnp.any(one_hot > 0, -1), jnp.sum(one_hot * self.log_probs, -1), -jnp.inf)

    def entropy(self) -> Float[Array, "*batch"]:
        return -jnp.sum(self.probs * self.log_probs, -1)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """sum_k p_k (log p_k - log p'_k) from `relative_entropy_terms`, which are not negative."""
        return jnp.sum(relative_entropy_terms(self.log_probs, other.log_probs), -1)

    def fisher_product(self, tangent: Self) -> CategoricalStats:
        v = tangent.logits
        return CategoricalStats(self.probs * (v - jnp.sum(self.probs * v, -1, keepdims=True)))

    def fisher_solve(self, cotangent: CategoricalStats) -> Self:
        """g / p - sum(g), with 0 for g / p if p underflows. F has the range of vectors that sum to
        zero, as gradients in the logits do; any other part of g is dropped."""
        g = cotangent.one_hot
        return type(self)(ratio_or_zero(g, self.probs) - jnp.sum(g, -1, keepdims=True))


def complements(probs: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
    """1 - p; for the largest p computed as the sum of the others.

    >>> print(complements(jnp.array([1.0, 1e-20, 2e-20])))
    [3.e-20 1.e+00 1.e+00]
    """
    first = _is_largest(probs)
    others = jnp.sum(jnp.where(first, 0.0, probs), -1, keepdims=True)
    return jnp.where(first, others, 1.0 - probs)


def _is_largest(x: Float[Array, "*batch K"]) -> Bool[Array, "*batch K"]:
    """True at the first of the largest entries."""
    return jnp.arange(x.shape[-1])[(None,) * (x.ndim - 1)] == jnp.argmax(x, -1, keepdims=True)


def relative_entropy_terms(
    log_p: Float[Array, "*shape"], log_p2: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """p (e^d - 1 - d) = p' - p - p d with d = log p' - log p: terms that are not negative, and
    whose sum over all classes is KL(p || p')."""
    d = log_p2 - log_p
    p = jnp.exp(log_p)
    is_small = jnp.abs(d) < 0.5
    by_series = p * expm1_minus_identity(jnp.where(is_small, d, 0.0))
    return jnp.where(is_small, by_series, jnp.exp(log_p2) - p - p * d)


def _require_axis(argument: str, x: Array) -> None:
    has_classes = x.ndim >= 1 and x.shape[-1] >= 1
    expected = "an array whose last axis holds the classes"
    require(has_classes, argument, expected, f"shape {x.shape}")


PIECE = 1 << 20
"""The largest total that is drawn at once."""


class MultinomialStats(NamedTuple):
    """t(x) = x, the counts."""

    counts: Float[Array, "*batch K"]


@family
class Multinomial(Discrete):
    """Counts of `total` independent draws of a `Categorical`; the natural parameters are its
    logits.

    log h(x) = gammaln(total + 1) - sum(gammaln(x + 1));  t = (x,);  natural parameters (logits,).

    The total is static, one for all members of a batch. Totals that are data, as when a count Y is
    allocated to K components, need no family: log Y! - sum log z_k! is in the model's log joint and
    in the entropy, cancels, and leaves the bound Y logsumexp(logits), whose gradient in the logits
    is E[z].

    As for the `Categorical`, F is singular along constant logits. log h(x) is not linear in x: its
    mean is an exact integral (`vijax.families.numeric.log_factorial`), and `flat` raises an error.

    >>> q = Multinomial.from_probs([0.5, 0.25, 0.25], 4)
    >>> print(q.mean(), q.mode(), f"{q.entropy():.4f}")
    [2. 1. 1.] [2 1 1] 2.3726
    """

    logits: Float[Array, "*batch K"]
    total: int = static_field()

    Stats: ClassVar = MultinomialStats
    event_ndims: ClassVar = (1,)

    @classmethod
    @constructor
    def from_probs(cls, probs: Any, total: int) -> Self:
        """Multinomials from probabilities along the last axis and the number of draws; raises as
        `Categorical.from_probs` does, and ValueError unless `total` is an integer >= 0."""
        return cls(Categorical.from_probs(probs).logits, _check_total(total))

    @classmethod
    @constructor
    def from_logits(cls, logits: Any, total: int) -> Self:
        """Multinomials from unnormalised log probabilities; ValueError unless these are finite and
        `total` is an integer >= 0."""
        return cls(Categorical.from_logits(logits).logits, _check_total(total))

    @property
    def probs(self) -> Float[Array, "*batch K"]:
        """The probability of each category in one draw."""
        return softmax(self.logits)

    def as_categorical(self) -> Categorical:
        """The law of one draw."""
        return Categorical(self.logits)

    kl = delegate(
        "kl", as_categorical, lambda q, kl: q.total * kl, lambda q, other: other.as_categorical()
    )

    def log_normalizer(self) -> Float[Array, "*batch"]:
        return self.total * log_sum_exp(self.logits)

    def log_base_measure(self, stats: MultinomialStats) -> Float[Array, "*batch"]:
        log_total = log_gamma(jnp.asarray(1.0 + self.total, self.logits.dtype))
        return log_total - jnp.sum(log_gamma(1.0 + stats.counts), -1)

    def expected_log_base_measure(self) -> Float[Array, "*batch"]:
        """log n! - sum_k E[log x_k!], where x_k ~ Binomial(n, p_k)."""
        return self.log_normalizer() - self.dot(self.expected_stats()) - self.entropy()

    def sample(
        self, key: PRNGKeyArray, shape: tuple[int, ...] = ()
    ) -> Int[Array, "*shape_batch K"]:
        """Counts, int32. A large total is a sum of draws of `PIECE` each, because
        `jax.random.binomial` compares terms of the size of the total in float32 (at 1e8 its
        variances are a fifth off), and counts in floats. ValueError if the total is above 2^31 - 1,
        the largest int32."""
        require(self.total < 2**31, "total", "at most 2^31 - 1, as counts are int32", self.total)
        size = shape + self.logits.shape

        def draw(key: PRNGKeyArray, n: int) -> Array:
            return jax.random.multinomial(key, n, self.probs, shape=size).astype(jnp.int32)

        # At least one count stays for the last draw, so that a small total is a single draw.
        num_pieces, remainder = divmod(max(self.total - 1, 0), PIECE)
        last = draw(key, remainder + min(self.total, 1))
        if num_pieces == 0:
            return last
        add = lambda i, counts: counts + draw(jax.random.fold_in(key, i), PIECE)
        return jax.lax.fori_loop(0, num_pieces, add, last)

    def mean(self) -> Float[Array, "*batch K"]:
        return self.total * self.probs

    def marginal_laws(self) -> BinomialLaw:
        total = jnp.asarray(self.total, self.logits.dtype)
        return BinomialLaw(total, self.probs, complements(self.probs))

    def mode(self) -> Int[Array, "*batch K"]:
        """The most probable counts. Each category starts with n p_k rounded down, which it always
        receives; each further draw goes to the largest p_k / (x_k + 1) (D'Hondt's method)."""
        start = jnp.floor(self.mean() * (1.0 - 1e-6))
        is_short = lambda x: self.total - jnp.sum(x, -1, keepdims=True) > 0

        def add_draw(x: Array) -> Array:
            category = jnp.argmax(self.logits - jnp.log1p(x), -1)
            draw = jax.nn.one_hot(category, x.shape[-1], dtype=x.dtype)
            return jnp.where(is_short(x), x + draw, x)

        counts = jax.lax.while_loop(lambda x: jnp.any(is_short(x)), add_draw, start)
        return counts.astype(jnp.int32)

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x), without a difference of large numbers; minus infinity unless x are counts that
        sum to the total."""
        adds_up = jnp.sum(jnp.asarray(x), -1) == self.total  # integers, so the sum is exact
        (x,) = self.stats(x)
        log_mean = self.as_categorical().log_probs + math.log(max(self.total, 1e-30))
        gaps = jnp.sum(deviance(x, log_mean) + log_factorial_gap(x), -1)
        log_prob = log_factorial_gap(jnp.asarray(self.total, x.dtype)) - gaps
        return jnp.where(jnp.all(is_count(x), -1) & adds_up, log_prob, -jnp.inf)

    def entropy(self) -> Float[Array, "*batch"]:
        """sum_k [E log x_k! - m_k log m_k + m_k] - [log n! - n log n + n], m = n p, in nats."""
        n = jnp.asarray(self.total, self.logits.dtype)
        return jnp.sum(binomial_gap(n, self.probs), -1) - log_factorial_gap(n)

    def fisher_product(self, tangent: Self) -> MultinomialStats:
        product = self.as_categorical().fisher_product(tangent.as_categorical())
        return MultinomialStats(self.total * product.one_hot)

    def fisher_solve(self, cotangent: MultinomialStats) -> Self:
        """The categorical's solution of F x = g / n, with <p, x> = 0; zero if n is 0."""
        scale = 1.0 / self.total if self.total else 0.0
        g = CategoricalStats(cotangent.counts * scale)
        return type(self)(self.as_categorical().fisher_solve(g).logits, self.total)


def _check_total(total: Any) -> int:
    try:
        n = operator.index(total)
    except TypeError:
        n = -1
    remedy = "It is static; for totals that are data see the class."
    require(n >= 0, "total", "an integer >= 0", total, remedy)
    return n
