"""Predictive densities of conjugate pairs: the likelihood of an observation, its parameters integrated out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax import tree
from vijax.families.base import Family
from vijax.families.point import Point


def log_predictive(
    log_likelihood: Callable[[Any, Array], Float[Array, " K"]], q: Family | Point, y: Float[Array, ...]
) -> Float[Array, " K"]:
    """log E_q[p(y | component k)] = A(lambda + eta(y)) - A(lambda) + log h(y), exact for every conjugate pair (Pei
    2019, section on predictive distributions). It is a difference of large numbers: evaluate it in float64. For a
    `Point` it is log p(y | component k) there."""
    if isinstance(q, Point):
        return log_likelihood(q.expected_stats(), y)
    zeros = jax.tree.map(jnp.zeros_like, q.expected_stats())
    weights = jax.grad(lambda stats: jnp.sum(log_likelihood(stats, y)))(zeros)
    new = tree.add(q, q.with_naturals(weights))
    gain = new.log_normalizer() - q.log_normalizer()
    return log_likelihood(zeros, y) + jnp.sum(gain.reshape(gain.shape[0], -1), axis=1)
