"""Laws of single numbers: mean, variance, distribution function, quantiles, intervals.

A family names the law of each number of x (`Family.marginal_laws`). Distribution functions and
their inverses call SciPy, in float64 on the host, because JAX's lose all digits in float32 for
large shapes (a third of a standard deviation for a gamma of shape 1e6). Under `jit` they call back
to the host. They are not differentiable."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from vijax.checks import require, require_numbers
from vijax.families.numeric import normal_tails
from vijax.tree import register

L = TypeVar("L", bound="Law")


class Interval(NamedTuple):
    """The ends of a central interval: equal probability lies below `low` and above `high`."""

    low: Any
    high: Any


class Law(abc.ABC):
    """A distribution over numbers, or a batch of distributions; a frozen dataclass of arrays."""

    _cdf: ClassVar[Callable[..., Any]]  # (x, *fields) -> P(X <= x), for NumPy arrays
    _inverse: ClassVar[Callable[..., Any]]  # (p, *fields) -> quantiles

    @abc.abstractmethod
    def mean(self) -> Float[Array, "*batch"]:
        """E[x]; NaN or infinite if it does not exist."""

    @abc.abstractmethod
    def variance(self) -> Float[Array, "*batch"]:
        """Var[x]; NaN or infinite if it does not exist."""

    def cdf(self, x: Any) -> Float[Array, "*batch"]:
        """P(X <= x)."""
        return call_scipy(self._cdf, x, *jax.tree.leaves(self))

    def _quantile(self, p: Float[Array, "*shape_batch"]) -> Float[Array, "*shape_batch"]:
        """Quantiles at probabilities that broadcast with the batch."""
        return call_scipy(self._inverse, p, *jax.tree.leaves(self))

    def std(self) -> Float[Array, "*batch"]:
        """The standard deviation."""
        return jnp.sqrt(self.variance())

    def quantile(self, p: Any) -> Array:
        """The smallest x with P(X <= x) >= p; the axes of p come before the batch axes. ValueError
        unless every p is strictly between 0 and 1.

        >>> at = NormalLaw(jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0])).quantile([0.5, 0.975])
        >>> print(*(f"{x:.2f}" for x in at.ravel()), at.shape)
        0.00 1.00 1.96 4.92 (2, 2)
        """
        p = probabilities("p", p)
        return self._quantile(p.reshape(p.shape + (1,) * jnp.ndim(self.mean())))

    def interval(self, mass: float = 0.95) -> Interval:
        """The central interval that holds `mass` of the probability."""
        return Interval(*self.quantile(tail_probabilities(mass)))


def probabilities(argument: str, p: Any) -> Array:
    """Probabilities as an array. Raises ValueError unless all are strictly between 0 and 1."""
    require_numbers(argument, p)
    if not hasattr(p, "dtype"):
        p = np.asarray(p)
    require((p > 0) & (p < 1), argument, "probabilities between 0 and 1, neither of them", p)
    return p


def tail_probabilities(mass: Any) -> Float[Array, " 2"]:
    """The probabilities at the two ends of a central interval.

    >>> print(tail_probabilities(0.9))
    [0.05 0.95]
    """
    tail = 0.5 * (1.0 - probabilities("mass", mass))
    xp: Any = jnp if isinstance(tail, jax.core.Tracer) else np
    return xp.stack([tail, 1.0 - tail])


def map_laws(f: Callable[..., Any], laws: Any, *values: Any) -> Any:
    """f(law, ...) for each law, in the structure of the laws."""
    return jax.tree.map(f, laws, *values, is_leaf=lambda x: isinstance(x, Law))


def call_scipy(f: Callable[..., np.ndarray], *args: Any) -> Float[Array, "*shape"]:
    """An elementwise SciPy function of arrays that broadcast, in the working precision. Overflow
    gives infinity without a warning."""
    dtype = jnp.result_type(float)

    def call(*values: Any) -> np.ndarray:
        with np.errstate(over="ignore", divide="ignore"):
            return np.asarray(f(*(np.asarray(x, np.float64) for x in values))).astype(dtype)

    if not any(isinstance(x, jax.core.Tracer) for x in args):
        return jnp.asarray(call(*args))
    result = jax.ShapeDtypeStruct(jnp.broadcast_shapes(*map(jnp.shape, args)), dtype)
    arrays = jnp.broadcast_arrays(*map(jnp.asarray, args))
    return jax.pure_callback(call, result, *arrays, vmap_method="broadcast_all")


@dataclass_transform(frozen_default=True)
def law(cls: type[L]) -> type[L]:
    """Class decorator: a frozen dataclass whose fields are leaves."""
    return register(dataclasses.dataclass(frozen=True)(cls))


@law
class NormalLaw(Law):
    """The normal law of this mean and standard deviation."""

    location: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        return self.location

    def variance(self) -> Float[Array, "*batch"]:
        return self.scale**2

    _cdf = staticmethod(lambda x, m, s: special.ndtr((x - m) / s))
    _inverse = staticmethod(lambda p, m, s: m + s * special.ndtri(p))


@law
class NormalMixtureLaw(Law):
    """A mixture of normals; the last axis of all three fields is the component."""

    weights: Float[Array, "*batch K"]
    location: Float[Array, "*batch K"]
    scale: Float[Array, "*batch K"]

    def mean(self) -> Float[Array, "*batch"]:
        return jnp.sum(self.weights * self.location, -1)

    def variance(self) -> Float[Array, "*batch"]:
        gap = self.location - self.mean()[..., None]
        return jnp.sum(self.weights * (self.scale**2 + gap**2), -1)

    def cdf(self, x: Any) -> Float[Array, "*batch"]:
        components = NormalLaw(self.location, self.scale).cdf(jnp.asarray(x)[..., None])
        return jnp.sum(self.weights * components, -1)

    def _quantile(self, p: Any) -> Array:
        """Quantiles by bisection between the components' quantiles."""
        components = NormalLaw(self.location, self.scale)._quantile(jnp.asarray(p)[..., None])
        low = jnp.min(components, -1)
        high = jnp.max(components, -1)
        for _ in range(60):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < p
            low = jnp.where(below, middle, low)
            high = jnp.where(below, high, middle)
        return 0.5 * (low + high)


@law
class GammaLaw(Law):
    """The gamma law of this shape a and rate b."""

    shape: Float[Array, "*batch"]
    rate: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        return self.shape / self.rate

    def variance(self) -> Float[Array, "*batch"]:
        return self.shape / self.rate**2

    _cdf = staticmethod(lambda x, a, b: special.gammainc(a, np.maximum(b * x, 0)))
    _inverse = staticmethod(lambda p, a, b: special.gammaincinv(a, p) / b)


@law
class InverseGammaLaw(Law):
    """The law of 1 / y for a gamma y of this shape a and rate b."""

    shape: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        return _infinite_up_to(1.0, self.shape, lambda a: self.scale / (a - 1.0))

    def variance(self) -> Float[Array, "*batch"]:
        variance = lambda a: (self.scale / (a - 1.0)) ** 2 / (a - 2.0)
        return _infinite_up_to(2.0, self.shape, variance)

    _cdf = staticmethod(
        lambda x, a, b: np.where(x > 0, special.gammaincc(a, b / np.where(x > 0, x, 1)), 0)
    )
    _inverse = staticmethod(lambda p, a, b: b / special.gammainccinv(a, p))


@law
class BetaLaw(Law):
    """The beta law of these two shapes."""

    alpha: Float[Array, "*batch"]
    beta: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        return self.alpha / (self.alpha + self.beta)

    def variance(self) -> Float[Array, "*batch"]:
        total = self.alpha + self.beta
        return (self.alpha / total) * (self.beta / total) / (total + 1.0)

    _cdf = staticmethod(lambda x, a, b: special.betainc(a, b, np.clip(x, 0, 1)))
    _inverse = staticmethod(lambda p, a, b: special.betaincinv(a, b, p))


@law
class StudentLaw(Law):
    """Student's t with these degrees of freedom, location and scale."""

    degrees: Float[Array, "*batch"]
    location: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        return jnp.where(self.degrees > 1.0, self.location, jnp.nan)

    def variance(self) -> Float[Array, "*batch"]:
        return _infinite_up_to(2.0, self.degrees, lambda n: self.scale**2 * n / (n - 2.0))

    _cdf = staticmethod(lambda x, n, m, s: special.stdtr(n, (x - m) / s))
    _inverse = staticmethod(lambda p, n, m, s: m + s * special.stdtrit(n, p))


@law
class TruncatedNormalLaw(Law):
    """The normal law of this location and scale given x > 0; its two moments are fields."""

    location: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]
    mean_value: Float[Array, "*batch"]
    variance_value: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        return self.mean_value

    def variance(self) -> Float[Array, "*batch"]:
        return self.variance_value

    @staticmethod
    def _cdf(x: np.ndarray, m: np.ndarray, s: np.ndarray, *_: np.ndarray) -> np.ndarray:
        """1 - Phi((m - x) / s) / Phi(m / s), by the cumulative hazard."""
        return -np.expm1(-normal_tails.cumulative_hazard(np.maximum(x, 0) / s, -m / s))

    @staticmethod
    def _inverse(p: np.ndarray, m: np.ndarray, s: np.ndarray, *_: np.ndarray) -> np.ndarray:
        """The x whose cumulative hazard is -log(1 - p)."""
        return s * normal_tails.excess(-np.log1p(-p), -m / s)


@law
class PoissonLaw(Law):
    """A Poisson law of this rate."""

    rate: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        return self.rate

    def variance(self) -> Float[Array, "*batch"]:
        return self.rate

    _cdf = staticmethod(
        lambda x, m: np.where(x >= 0, special.pdtr(np.maximum(np.floor(x), 0), m), 0)
    )

    @staticmethod
    def _inverse(p: np.ndarray, m: np.ndarray) -> np.ndarray:
        """The smallest count with F >= p: one of the two next to the real x with F(x) = p."""
        above = np.ceil(np.maximum(special.pdtrik(p, m), 0))
        below = np.maximum(above - 1, 0)
        return np.where(PoissonLaw._cdf(below, m) >= p, below, above)


@law
class BinomialLaw(Law):
    """A binomial law: the number of `total` events of this probability that occur."""

    total: Float[Array, "*batch"]
    probs: Float[Array, "*batch"]
    complement: Float[Array, "*batch"]  # 1 - p, which cannot be computed from a p near one

    def mean(self) -> Float[Array, "*batch"]:
        return self.total * self.probs

    def variance(self) -> Float[Array, "*batch"]:
        return self.mean() * self.complement

    @staticmethod
    def _cdf(
        x: np.ndarray, total: np.ndarray, probs: np.ndarray, complement: np.ndarray
    ) -> np.ndarray:
        """P(X <= x); for probabilities above a half as P(n - x failures or more)."""
        count = np.clip(np.floor(x), 0, total)
        enough_failures = special.bdtrc(np.maximum(total - count - 1, 0), total, complement)
        by_failures = np.where(count < total, enough_failures, 1.0)
        by_successes = special.bdtr(count, total, probs)
        return np.where(x >= 0, np.where(probs > 0.5, by_failures, by_successes), 0)

    @staticmethod
    def _inverse(p: np.ndarray, total: np.ndarray, *probs: np.ndarray) -> np.ndarray:
        """Quantiles by bisection over the counts."""
        p, n, *probs_and_complement = np.broadcast_arrays(p, total, *probs)
        low = np.full_like(n, -1.0)
        high = n
        while np.any(high - low > 1):
            middle = np.floor(0.5 * (low + high))
            below = BinomialLaw._cdf(middle, n, *probs_and_complement) < p
            low = np.where(below, middle, low)
            high = np.where(below, high, middle)
        return high


def _infinite_up_to(bound: float, x: Array, f: Callable[[Array], Array]) -> Array:
    """f(x) if x is above `bound`, else infinity."""
    above = x > bound
    return jnp.where(above, f(jnp.where(above, x, bound + 1.0)), jnp.inf)
