"""Laws of single numbers: mean, variance, distribution function, quantiles, intervals.

A family says what the law of each number of x is (`Family.marginal_laws`); the laws are in `vijax.families.univariate`.
Distribution functions and their inverses are SciPy's, in float64 on the host: JAX's lose all digits in float32 where
shapes are large (of a gamma of shape 1e6 a third of a standard deviation). Under `jit` the host is called back; they
are not differentiable.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.checks import require, require_numbers


class Interval(NamedTuple):
    """The ends of a central interval.

    Attributes:
      low: the lower end; half of the probability outside lies below it.
      high: the upper end; the other half lies above it.
    """

    low: Any
    high: Any


class Law(abc.ABC):
    """A distribution over numbers, or a batch of them."""

    @abc.abstractmethod
    def mean(self) -> Float[Array, "*batch"]:
        """E[x]; not a number, or infinite, where there is none."""

    @abc.abstractmethod
    def variance(self) -> Float[Array, "*batch"]:
        """Var[x]; infinite, or not a number, where there is none."""

    @abc.abstractmethod
    def cdf(self, x: Any) -> Float[Array, "*batch"]:
        """P(X <= x)."""

    @abc.abstractmethod
    def _quantile(self, p: Float[Array, "*shape_batch"]) -> Float[Array, "*shape_batch"]:
        """Quantiles at probabilities that broadcast with the batch."""

    def std(self) -> Float[Array, "*batch"]:
        """The standard deviation."""
        return jnp.sqrt(self.variance())

    def quantile(self, p: Any) -> Array:
        """The smallest x with P(X <= x) >= p.

        Args:
          p: probabilities, strictly between 0 and 1; their axes lead those of the batch.

        Raises:
          ValueError: a probability that is not between 0 and 1.

        >>> from vijax.families.univariate import NormalLaw
        >>> at = NormalLaw(jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0])).quantile([0.5, 0.975])
        >>> print(*(f"{x:.2f}" for x in at.ravel()), at.shape)
        0.00 1.00 1.96 4.92 (2, 2)
        """
        p = probabilities("p", p)
        return self._quantile(p.reshape(p.shape + (1,) * jnp.ndim(self.mean())))

    def interval(self, mass: float = 0.95) -> Interval:
        """The central interval that holds `mass` of the probability."""
        return Interval(*self.quantile(ends_of(mass)))


def probabilities(argument: str, p: Any) -> Array:
    """Probabilities as an array. Raises ValueError unless all lie strictly between 0 and 1."""
    require_numbers(argument, p)
    p = p if hasattr(p, "dtype") else np.asarray(p)
    require((p > 0) & (p < 1), argument, "probabilities between 0 and 1, neither of them", p)
    return p


def ends_of(mass: Any) -> Float[Array, " 2"]:
    """The probabilities at the two ends of a central interval.

    >>> print(ends_of(0.9))
    [0.05 0.95]
    """
    tail = 0.5 * (1.0 - probabilities("mass", mass))
    return (jnp if isinstance(tail, jax.core.Tracer) else np).stack([tail, 1.0 - tail])


def over_laws(f: Callable[..., Any], laws: Any, *values: Any) -> Any:
    """f of each law, in the structure of the laws."""
    return jax.tree.map(f, laws, *values, is_leaf=lambda x: isinstance(x, Law))


def by_scipy(f: Callable[..., np.ndarray], *args: Any) -> Float[Array, "*shape"]:
    """A function of SciPy's, which takes and returns arrays of one shape, applied to arrays that broadcast; in the
    working precision. A result too large for that, or for float64, is infinite, without a warning."""
    dtype = jnp.result_type(float)

    def there(*values: Any) -> np.ndarray:
        with np.errstate(over="ignore", divide="ignore"):
            return np.asarray(f(*(np.asarray(x, np.float64) for x in values))).astype(dtype)

    if not any(isinstance(x, jax.core.Tracer) for x in args):
        return jnp.asarray(there(*args))
    shape = jnp.broadcast_shapes(*map(jnp.shape, args))
    whole = jnp.broadcast_arrays(*map(jnp.asarray, args))
    return jax.pure_callback(there, jax.ShapeDtypeStruct(shape, dtype), *whole, vmap_method="broadcast_all")
