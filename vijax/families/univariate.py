"""Laws of single numbers, the marginals of families (`vijax.families.laws`)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy import special

from vijax.families.laws import Law, by_scipy
from vijax.families.numeric import half_normal
from vijax.tree import register

L = TypeVar("L", bound=Law)


@dataclass_transform(frozen_default=True)
def law(cls: type[L]) -> type[L]:
    """Class decorator: a frozen dataclass whose fields are leaves."""
    return register(dataclasses.dataclass(frozen=True)(cls))


@law
class NormalLaw(Law):
    """A normal law of this mean and standard deviation."""

    location: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        """The location."""
        return self.location

    def variance(self) -> Float[Array, "*batch"]:
        """scale^2."""
        return self.scale**2

    def cdf(self, x: Any) -> Float[Array, "*batch"]:
        """Phi((x - location) / scale)."""
        return by_scipy(lambda x, m, s: special.ndtr((x - m) / s), x, self.location, self.scale)

    def _quantile(self, p: Any) -> Array:
        return by_scipy(lambda p, m, s: m + s * special.ndtri(p), p, self.location, self.scale)


@law
class NormalMixtureLaw(Law):
    """A mixture of normals; components are the last axis of all three fields."""

    weights: Float[Array, "*batch K"]
    location: Float[Array, "*batch K"]
    scale: Float[Array, "*batch K"]

    def mean(self) -> Float[Array, "*batch"]:
        """The weighted mean of the components' means."""
        return jnp.sum(self.weights * self.location, -1)

    def variance(self) -> Float[Array, "*batch"]:
        """The variance within components and between them."""
        gap = self.location - self.mean()[..., None]
        return jnp.sum(self.weights * (self.scale**2 + gap**2), -1)

    def cdf(self, x: Any) -> Float[Array, "*batch"]:
        """The weighted mean of the components' distribution functions."""
        each = NormalLaw(self.location, self.scale).cdf(jnp.asarray(x)[..., None])
        return jnp.sum(self.weights * each, -1)

    def _quantile(self, p: Any) -> Array:
        """Quantiles by halving the range of the components' own quantiles."""
        each = NormalLaw(self.location, self.scale)._quantile(jnp.asarray(p)[..., None])
        low, high = jnp.min(each, -1), jnp.max(each, -1)
        for _ in range(60):
            middle = 0.5 * (low + high)
            below = self.cdf(middle) < p
            low, high = jnp.where(below, middle, low), jnp.where(below, high, middle)
        return 0.5 * (low + high)


@law
class GammaLaw(Law):
    """A gamma law of this shape a and rate b."""

    shape: Float[Array, "*batch"]
    rate: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        """a / b."""
        return self.shape / self.rate

    def variance(self) -> Float[Array, "*batch"]:
        """a / b^2."""
        return self.shape / self.rate**2

    def cdf(self, x: Any) -> Float[Array, "*batch"]:
        """The regularised incomplete gamma function at b x."""
        return by_scipy(lambda x, a, b: special.gammainc(a, np.maximum(b * x, 0)), x, self.shape, self.rate)

    def _quantile(self, p: Any) -> Array:
        return by_scipy(lambda p, a, b: special.gammaincinv(a, p) / b, p, self.shape, self.rate)


@law
class InverseGammaLaw(Law):
    """The law of 1 / y for a gamma y of this shape a and rate b."""

    shape: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        """b / (a - 1), infinite where a <= 1."""
        return _where_above(self.shape, 1.0, lambda a: self.scale / (a - 1.0))

    def variance(self) -> Float[Array, "*batch"]:
        """b^2 / ((a - 1)^2 (a - 2)), infinite where a <= 2."""
        return _where_above(self.shape, 2.0, lambda a: (self.scale / (a - 1.0)) ** 2 / (a - 2.0))

    def cdf(self, x: Any) -> Float[Array, "*batch"]:
        """The upper incomplete gamma function at b / x."""

        def upper(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
            positive = x > 0
            return np.where(positive, special.gammaincc(a, b / np.where(positive, x, 1)), 0)

        return by_scipy(upper, x, self.shape, self.scale)

    def _quantile(self, p: Any) -> Array:
        return by_scipy(lambda p, a, b: b / special.gammainccinv(a, p), p, self.shape, self.scale)


@law
class BetaLaw(Law):
    """A beta law of these two shapes."""

    alpha: Float[Array, "*batch"]
    beta: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        """alpha / (alpha + beta)."""
        return self.alpha / (self.alpha + self.beta)

    def variance(self) -> Float[Array, "*batch"]:
        """m (1 - m) / (alpha + beta + 1)."""
        total = self.alpha + self.beta
        return (self.alpha / total) * (self.beta / total) / (total + 1.0)

    def cdf(self, x: Any) -> Float[Array, "*batch"]:
        """The regularised incomplete beta function."""
        return by_scipy(lambda x, a, b: special.betainc(a, b, np.clip(x, 0, 1)), x, self.alpha, self.beta)

    def _quantile(self, p: Any) -> Array:
        return by_scipy(lambda p, a, b: special.betaincinv(a, b, p), p, self.alpha, self.beta)


@law
class StudentLaw(Law):
    """Student's t with these degrees of freedom, moved and scaled."""

    degrees: Float[Array, "*batch"]
    location: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        """The location; NaN for up to one degree of freedom."""
        return jnp.where(self.degrees > 1.0, self.location, jnp.nan)

    def variance(self) -> Float[Array, "*batch"]:
        """scale^2 n / (n - 2), infinite for up to two degrees of freedom."""
        return _where_above(self.degrees, 2.0, lambda n: self.scale**2 * n / (n - 2.0))

    def cdf(self, x: Any) -> Float[Array, "*batch"]:
        """Student's function at (x - location) / scale."""
        standard = lambda x, n, m, s: special.stdtr(n, (x - m) / s)
        return by_scipy(standard, x, self.degrees, self.location, self.scale)

    def _quantile(self, p: Any) -> Array:
        standard = lambda p, n, m, s: m + s * special.stdtrit(n, p)
        return by_scipy(standard, p, self.degrees, self.location, self.scale)


@law
class TruncatedNormalLaw(Law):
    """A normal law of this location and scale given x > 0, whose moments are known."""

    location: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]
    mean_value: Float[Array, "*batch"]
    variance_value: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        """The mean as given."""
        return self.mean_value

    def variance(self) -> Float[Array, "*batch"]:
        """The variance as given."""
        return self.variance_value

    def cdf(self, x: Any) -> Float[Array, "*batch"]:
        """1 - Phi((m - x) / s) / Phi(m / s)."""
        hazard = lambda x, m, s: half_normal.cumulative_hazard(np.maximum(x, 0) / s, -m / s)
        return by_scipy(lambda *args: -np.expm1(-hazard(*args)), x, self.location, self.scale)

    def _quantile(self, p: Any) -> Array:
        """The number at which the cumulative hazard is -log(1 - p)."""
        excess = lambda p, m, s: s * half_normal.excess(-np.log1p(-p), -m / s)
        return by_scipy(excess, p, self.location, self.scale)


@law
class PoissonLaw(Law):
    """A Poisson law of this rate."""

    rate: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        """The rate."""
        return self.rate

    def variance(self) -> Float[Array, "*batch"]:
        """The rate."""
        return self.rate

    def cdf(self, x: Any) -> Float[Array, "*batch"]:
        """The upper incomplete gamma function at the rate."""
        return by_scipy(_poisson, x, self.rate)

    def _quantile(self, p: Any) -> Array:
        return by_scipy(lambda p, m: _least_count(special.pdtrik(p, m), lambda k: _poisson(k, m), p), p, self.rate)


@law
class BinomialLaw(Law):
    """A binomial law: the number of `total` events of this probability that occur.

    Attributes:
      total: n.
      probs: p.
      complement: 1 - p, which cannot be computed from a p near one.
    """

    total: Float[Array, "*batch"]
    probs: Float[Array, "*batch"]
    complement: Float[Array, "*batch"]

    def mean(self) -> Float[Array, "*batch"]:
        """n p."""
        return self.total * self.probs

    def variance(self) -> Float[Array, "*batch"]:
        """n p (1 - p)."""
        return self.mean() * self.complement

    def cdf(self, x: Any) -> Float[Array, "*batch"]:
        """The incomplete beta function."""
        return by_scipy(_binomial, x, self.total, self.probs, self.complement)

    def _quantile(self, p: Any) -> Array:
        """Quantiles by halving the range of counts."""

        def least(p: np.ndarray, n: np.ndarray, *probs: Any) -> np.ndarray:
            p, n, *both = np.broadcast_arrays(p, n, *probs)
            low, high = np.full_like(n, -1.0), n
            while np.any(high - low > 1):
                middle = np.floor(0.5 * (low + high))
                below = _binomial(middle, n, *both) < p
                low, high = np.where(below, middle, low), np.where(below, high, middle)
            return high

        return by_scipy(least, p, self.total, self.probs, self.complement)


def _poisson(x: np.ndarray, rate: np.ndarray) -> np.ndarray:
    return np.where(x >= 0, special.pdtr(np.maximum(np.floor(x), 0), rate), 0)


def _binomial(x: np.ndarray, total: np.ndarray, probs: np.ndarray, complement: np.ndarray) -> np.ndarray:
    """The distribution function; for probabilities above a half by the failures, n - x or more."""
    known = np.clip(np.floor(x), 0, total)
    failures = np.where(known < total, special.bdtrc(np.maximum(total - known - 1, 0), total, complement), 1.0)
    return np.where(x >= 0, np.where(probs > 0.5, failures, special.bdtr(known, total, probs)), 0)


def _least_count(near: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray], p: np.ndarray) -> np.ndarray:
    """The least count with F >= p; `near` is a count at which F is about p."""
    above = np.ceil(np.maximum(near, 0))
    below = np.maximum(above - 1, 0)
    return np.where(cdf(below) >= p, below, above)


def _where_above(x: Array, least: float, f: Callable[[Array], Array]) -> Array:
    """f(x) where x is above, infinite elsewhere."""
    above = x > least
    return jnp.where(above, f(jnp.where(above, x, least + 1.0)), jnp.inf)
