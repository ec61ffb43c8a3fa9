"""The categorical distribution in its overcomplete form: q(x = k) = exp{logits_k - logsumexp(logits)}."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import Family, as_float, domain_mask, family, finite, ratio_or_zero
from vijax.families.construction import constructor, on_host
from vijax.families.numeric.special import expm1_minus_identity


class CategoricalStats(NamedTuple):
    """t(x) = the one-hot vector of x."""

    one_hot: Float[Array, "*batch K"]


@family
class Categorical(Family):
    """Categorical over K classes 0..K-1, natural parameters the logits (event axis last).

    log h(x) = 0;  t = (one_hot(x),);  natural parameters (logits,).

    A constant added to the logits changes nothing: F is singular in that direction, and `fisher_solve` returns the
    solution x with sum_k p_k x_k = 0.

    >>> q = Categorical.from_probs([0.5, 0.25, 0.25])
    >>> print(q.mode(), q.log_prob(2).round(4), q.entropy().round(4))
    0 -1.3863 1.0397
    """

    logits: Float[Array, "*batch K"]

    Stats: ClassVar = CategoricalStats
    event_ndims: ClassVar = (1,)
    discrete: ClassVar = True

    @classmethod
    @constructor
    def from_logits(cls, logits: Any) -> Self:
        """Categoricals from unnormalised log probabilities. Raises ValueError unless finite, with at least one axis."""
        logits = as_float(logits)
        _require_axis("logits", logits)
        require(finite(logits), "logits", "finite numbers", logits, "For zero probabilities use from_probs.")
        return cls(logits)

    @classmethod
    @constructor
    def from_probs(cls, probs: Any) -> Self:
        """Categoricals from probabilities along the last axis; zeros become the smallest normal float.

        Raises:
          ValueError: a probability is negative, or they do not sum to one within 1e-4.
        """
        xp, probs = on_host(as_float(probs))
        _require_axis("probs", probs)
        require(probs >= 0, "probs", "non-negative numbers", probs)
        total = xp.sum(probs, -1)
        require(
            xp.abs(total - 1) < 1e-4,
            "probs",
            "rows that sum to one",
            f"sums in [{xp.min(total)}, {xp.max(total)}]",
            "Divide by the sum, or use from_logits(log(weights)).",
        )
        return cls(xp.log(xp.maximum(probs, jnp.finfo(probs.dtype).tiny)))

    @property
    def probs(self) -> Float[Array, "*batch K"]:
        """P(x = k)."""
        return jax.nn.softmax(self.logits)

    @property
    def log_probs(self) -> Float[Array, "*batch K"]:
        """log P(x = k), with small relative error also where P is nearly one."""
        first = _is_largest(self.logits)
        largest = jnp.sum(jnp.where(first, self.logits, 0.0), -1, keepdims=True)
        shifted = self.logits - largest
        return shifted - jnp.log1p(jnp.sum(jnp.where(first, 0.0, jnp.exp(shifted)), -1, keepdims=True))

    @property
    def num_classes(self) -> int:
        """K."""
        return self.logits.shape[-1]

    def log_normalizer(self) -> Float[Array, "*batch"]:
        """A = logsumexp(logits)."""
        return jax.nn.logsumexp(self.logits, axis=-1)

    def stats(self, x: Int[Array, "*batch"]) -> CategoricalStats:
        """One-hot vectors of class indices."""
        return CategoricalStats(jax.nn.one_hot(x, self.num_classes, dtype=jnp.result_type(self.logits)))

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Int[Array, "*shape_batch"]:
        """Class indices."""
        return jax.random.categorical(key, self.logits, shape=shape + self.batch_shape)

    def mean(self) -> Float[Array, "*batch K"]:
        """The probabilities: the mean of the one-hot vector."""
        return self.probs

    def variance(self) -> Float[Array, "*batch K"]:
        """p (1 - p), the variances of the one-hot vector. Classes have no order, and so no quantiles."""
        return self.probs * complements(self.probs)

    def mode(self) -> Int[Array, "*batch"]:
        """The most probable class; the first of several."""
        return jnp.argmax(self.logits, axis=-1)

    def in_domain(self) -> Self:
        """All logits finite."""
        return domain_mask(jnp.all(jnp.isfinite(self.logits), -1), self)

    def expected_stats(self) -> CategoricalStats:
        """The probabilities."""
        return CategoricalStats(self.probs)

    def log_prob(self, x: Int[Array, "*batch"]) -> Float[Array, "*batch"]:
        """log q(x), minus infinity where x is none of 0..K-1."""
        (one_hot,) = self.stats(x)
        return jnp.where(jnp.any(one_hot > 0, -1), jnp.sum(one_hot * self.log_probs, -1), -jnp.inf)

    def entropy(self) -> Float[Array, "*batch"]:
        """-sum_k p_k log p_k, in nats."""
        return -jnp.sum(self.probs * self.log_probs, -1)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """sum_k p_k (log p_k - log p'_k), as a sum of terms that are not negative (`relative_entropy_terms`)."""
        return jnp.sum(relative_entropy_terms(self.log_probs, other.log_probs), -1)

    def fisher_product(self, tangent: Self) -> CategoricalStats:
        """p (v - <p, v>)."""
        v = tangent.logits
        return CategoricalStats(self.probs * (v - jnp.sum(self.probs * v, -1, keepdims=True)))

    def fisher_solve(self, cotangent: CategoricalStats) -> Self:
        """g / p - sum(g), 0 for g / p where p underflows: F is zero there too. A gradient in the logits sums to zero;
        the part of `g` that does not is outside of the range of F, and is dropped."""
        g = cotangent.one_hot
        return type(self)(ratio_or_zero(g, self.probs) - jnp.sum(g, -1, keepdims=True))


def complements(probs: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
    """1 - p; for the largest p it is the sum of the others.

    >>> print(complements(jnp.array([1.0, 1e-20, 2e-20])))
    [3.e-20 1.e+00 1.e+00]
    """
    first = _is_largest(probs)
    return jnp.where(first, jnp.sum(jnp.where(first, 0.0, probs), -1, keepdims=True), 1.0 - probs)


def _is_largest(x: Float[Array, "*batch K"]) -> Bool[Array, "*batch K"]:
    """True at the first of the largest entries."""
    return jnp.arange(x.shape[-1]) == jnp.argmax(x, -1, keepdims=True)


def relative_entropy_terms(log_p: Float[Array, "*shape"], log_p2: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """p (e^d - 1 - d) = p' - p - p d with d = log p' - log p: over all classes they sum to KL(p || p'), and none is
    negative."""
    d, p = log_p2 - log_p, jnp.exp(log_p)
    near = jnp.abs(d) < 0.5
    return jnp.where(near, p * expm1_minus_identity(jnp.where(near, d, 0.0)), jnp.exp(log_p2) - p - p * d)


def _require_axis(argument: str, x: Array) -> None:
    require(
        x.ndim >= 1 and x.shape[-1] >= 1, argument, "an array whose last axis holds the classes", f"shape {x.shape}"
    )
