"""The Bernoulli distribution: q(x) = exp{logit x - log(1 + e^logit)} for x in {0, 1}."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.checks import require
from vijax.families.base import as_float, family, finite, ratio_or_zero
from vijax.families.construction import constructor, numpy_or_jax
from vijax.families.discrete.categorical import Discrete, relative_entropy_terms
from vijax.families.laws import BinomialLaw
from vijax.families.numeric.logistic import log_sigmoid, softplus


class BernoulliStats(NamedTuple):
    """t(x) = x."""

    value: Float[Array, "*batch"]


@family
class Bernoulli(Discrete):
    """Bernoulli(p), natural parameter log p/(1-p).

    log h(x) = 0;  t = (x,);  natural parameters (log(probs / (1 - probs)),).

    >>> q = Bernoulli.from_probs(0.25)
    >>> print(q.logit.round(4), q.probs, q.log_prob(0).round(4))
    -1.0986 0.25 -0.2877
    """

    logit: Float[Array, "*batch"]

    Stats: ClassVar = BernoulliStats
    event_ndims: ClassVar = (0,)

    @classmethod
    @constructor
    def from_logit(cls, logit: Any) -> Self:
        """Bernoulli laws of log odds; ValueError unless these are finite."""
        logit = as_float(logit)
        remedy = "For a certain event use from_probs."
        require(finite(logit), "logit", "finite log odds", logit, remedy)
        return cls(logit)

    @classmethod
    @constructor
    def from_probs(cls, probs: Any) -> Self:
        """Bernoulli laws of P(x = 1); ValueError outside [0, 1]. 0 and 1 become the nearest numbers
        whose log odds are finite."""
        xp, probs = numpy_or_jax(as_float(probs))
        require((probs >= 0) & (probs <= 1), "probs", "probabilities in [0, 1]", probs)
        tiny = jnp.finfo(probs.dtype).tiny
        return cls(xp.log(xp.maximum(probs, tiny)) - xp.log(xp.maximum(1 - probs, tiny)))

    @property
    def probs(self) -> Float[Array, "*batch"]:
        """P(x = 1)."""
        return jax.nn.sigmoid(self.logit)

    def log_normalizer(self) -> Float[Array, "*batch"]:
        return softplus(self.logit)

    def sample(self, key: PRNGKeyArray, shape: tuple[int, ...] = ()) -> Int[Array, "*shape_batch"]:
        """Draws of 0 and 1, int32."""
        return jax.random.bernoulli(key, self.probs, shape + self.batch_shape).astype(jnp.int32)

    def mean(self) -> Float[Array, "*batch"]:
        return self.probs

    def marginal_laws(self) -> BinomialLaw:
        return BinomialLaw(jnp.ones_like(self.logit), self.probs, jax.nn.sigmoid(-self.logit))

    def mode(self) -> Int[Array, "*batch"]:
        """The more probable of 0 and 1; 0 if they are equally probable."""
        return (self.logit > 0).astype(jnp.int32)

    def log_prob(self, x: Any) -> Float[Array, "*batch"]:
        """log q(x), without a difference of large numbers; -inf if x is neither 0 nor 1."""
        (x,) = self.stats(x)
        log_prob = jnp.where(x == 1, log_sigmoid(self.logit), log_sigmoid(-self.logit))
        return jnp.where((x == 0) | (x == 1), log_prob, -jnp.inf)

    def entropy(self) -> Float[Array, "*batch"]:
        complement = jax.nn.sigmoid(-self.logit)
        return self.probs * softplus(-self.logit) + complement * softplus(self.logit)

    def kl(self, other: Self) -> Float[Array, "*batch"]:
        """KL(self || other), the sum of two `relative_entropy_terms`, which are not negative."""

        def term(sign: int) -> Array:
            log_p, log_p2 = log_sigmoid(sign * self.logit), log_sigmoid(sign * other.logit)
            return relative_entropy_terms(log_p, log_p2)

        return term(1) + term(-1)

    def fisher_product(self, tangent: Self) -> BernoulliStats:
        return BernoulliStats(self._variance() * tangent.logit)

    def fisher_solve(self, cotangent: BernoulliStats) -> Self:
        """g / (p (1-p)); 0 if the variance p (1-p), and so F, underflows."""
        return type(self)(ratio_or_zero(cotangent.value, self._variance()))

    def _variance(self) -> Float[Array, "*batch"]:
        return self.probs * jax.nn.sigmoid(-self.logit)
