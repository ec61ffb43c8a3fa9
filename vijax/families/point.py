"""A point estimate in place of a distribution, and predictive densities of conjugate pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax import tree
from vijax.families.base import Family


@tree.register
@dataclasses.dataclass(frozen=True)
class Point:
    """The mode of `law`, which EM and MAP estimate. Code that reads the means of a posterior, such
    as held-out scores, gets this point: no distribution was inferred, and under a flat prior the
    mean of `law` is not the estimate.

    >>> from vijax.families import Gamma
    >>> point = Point(Gamma.from_shape_rate(3.0, 2.0))
    >>> print(point.mean(), point.expected_stats().log.round(3))
    1.0 0.0
    """

    law: Family

    def mean(self) -> Any:
        """The point estimate."""
        return self.law.mode()

    def stats(self, x: Any) -> Any:
        """Sufficient statistics of a value."""
        return self.law.stats(x)

    def expected_stats(self) -> Any:
        """Sufficient statistics of the point."""
        return self.law.stats(self.law.mode())


def log_predictive(
    log_likelihood: Callable[[Any, Any], Float[Array, " K"]], q: Family | Point, y: Any
) -> Float[Array, " K"]:
    """log E_q[p(y | component k)] = A(lambda + eta(y)) - A(lambda) + log h(y), exact for every
    conjugate pair (Pei 2019, section on predictive distributions). Evaluate it in float64, because
    it is a difference of large numbers. For a `Point` it is log p(y | component k) at the point."""
    if isinstance(q, Point):
        return log_likelihood(q.expected_stats(), y)
    zeros = jax.tree.map(jnp.zeros_like, q.expected_stats())
    weights = jax.grad(lambda stats: jnp.sum(log_likelihood(stats, y)))(zeros)
    new = tree.add(q, q.with_naturals(weights))
    gain = new.log_normalizer() - q.log_normalizer()
    return log_likelihood(zeros, y) + jnp.sum(gain.reshape(gain.shape[0], -1), axis=1)
