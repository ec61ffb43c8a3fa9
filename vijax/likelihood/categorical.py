"""Counts over K categories given a vector of predictors: the softmax, or multinomial, likelihood."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from vijax.likelihood.base import require_sites


@dataclasses.dataclass(frozen=True)
class VectorLikelihood:
    """p(y | z) of one observation given a *vector* z: see `vijax.expectation.vector_monte_carlo` and `bohning`.

    Attributes:
      log_prob: (y, z) -> log p(y | z), z of shape (K,).
      name: what messages call it.
      check: raises ValueError for observations outside the support, naming the first such site.
    """

    log_prob: Callable[[Any, Float[Array, " K"]], Float[Array, ""]]
    name: str
    check: Callable[[Any], None]


def softmax(num_categories: int) -> VectorLikelihood:
    """p(y | z) = Multinomial(y; softmax(z)), y a vector of K counts: one 1 among zeros for a single label.

    log p(y | z) = <y, z> - W log sum_k e^{z_k} + log W! - sum_k log y_k!,   W = sum_k y_k.

    >>> round(float(jnp.exp(softmax(3).log_prob(jnp.array([1.0, 0.0, 0.0]), jnp.zeros(3)))), 4)
    0.3333
    """

    def log_prob(y: Any, z: Array) -> Array:
        total = jnp.sum(y)
        constant = gammaln(total + 1.0) - jnp.sum(gammaln(y + 1.0))
        return jnp.sum(y * z) - total * jax.nn.logsumexp(z) + constant

    def check(y: Any) -> None:
        counts = np.asarray(y)
        ok = (counts >= 0) & (counts == np.floor(counts)) & (counts.shape[-1] == num_categories)
        require_sites(ok, "softmax", f"{num_categories} counts 0, 1, 2, ...", counts)

    return VectorLikelihood(log_prob, "softmax", check)
