"""Counts over categories given a vector of predictors: the softmax likelihood, and mixtures under softmax weights."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.families.numeric.log_factorial import deviance, log_factorial_gap
from vijax.inference.likelihood.base import require_sites

Averages = tuple[Float[Array, ""], Float[Array, " K"], Float[Array, "K K"]]


@dataclasses.dataclass(frozen=True)
class VectorLikelihood:
    """p(y | z) of one observation given a *vector* z: see `vijax.expectation.vector_monte_carlo` and `bohning`.

    Attributes:
      log_prob: (y, z) -> log p(y | z), z of shape (K,).
      name: its name in messages.
      check: raises ValueError for observations outside the support, naming the first such site.
      total: y -> W, where log_prob is convex in z apart from -W log sum_k e^{z_k}; else None.
      averages: (y, draws of z) -> means over the draws of log_prob, its gradient and its Hessian, where there is a
        faster way than automatic differentiation at each; else None.
    """

    log_prob: Callable[[Any, Float[Array, " K"]], Float[Array, ""]]
    name: str
    check: Callable[[Any], None]
    total: Callable[[Any], Float[Array, ""]] | None = None
    averages: Callable[[Any, Float[Array, "draws K"]], Averages] | None = None


def softmax(num_categories: int) -> VectorLikelihood:
    """p(y | z) = Multinomial(y; softmax(z)), y a vector of K counts: one 1 among zeros for a single label.

    log p(y | z) = <y, z> - W log sum_k e^{z_k} + log W! - sum_k log y_k!,   W = sum_k y_k.

    >>> round(float(jnp.exp(softmax(3).log_prob(jnp.array([1.0, 0.0, 0.0]), jnp.zeros(3)))), 4)
    0.3333
    """

    def log_prob(y: Any, z: Array) -> Array:
        """Without a difference of terms of the size of W log W."""
        counts = jnp.asarray(y, z.dtype)
        total = jnp.sum(counts)
        log_mean = jax.nn.log_softmax(z) + jnp.log(jnp.maximum(total, jnp.finfo(z.dtype).tiny))
        return log_factorial_gap(total) - jnp.sum(deviance(counts, log_mean) + log_factorial_gap(counts))

    def check(y: Any) -> None:
        counts = np.asarray(y)
        ok = (counts >= 0) & (counts == np.floor(counts)) & (counts.shape[-1] == num_categories)
        require_sites(ok, "softmax", f"{num_categories} counts 0, 1, 2, ...", counts)

    return VectorLikelihood(log_prob, "softmax", check, total=jnp.sum)


def softmax_mixture() -> VectorLikelihood:
    """Words of a document whose topics have shares softmax(z) (Khan et al. 2016, appendix A.3, eq. 34); y = (rows,
    counts):

    log p(y | z) = sum_n c_n log sum_k rows_nk softmax(z)_k,

    rows_nk being the probability, up to a factor per word, of word n in topic k, positive; c_n = 0 in padding.

    >>> rows, counts = jnp.array([[1.0, 0.5]]), jnp.array([2.0])
    >>> round(float(softmax_mixture().log_prob((rows, counts), jnp.zeros(2))), 4)  # 2 log 0.75
    -0.5754
    """

    def log_prob(y: Any, z: Array) -> Array:
        rows, counts = y
        mixed = jnp.einsum("nk,k->n", rows, jax.nn.softmax(z), precision="highest")
        return jnp.einsum("n,n->", counts, jnp.log(jnp.where(counts > 0, mixed, 1.0)), precision="highest")

    def check(y: Any) -> None:
        rows, counts = (np.asarray(part) for part in y)
        require_sites((counts >= 0) & np.isfinite(counts), "softmax_mixture", "counts >= 0", counts)
        require_sites((rows > 0) & np.isfinite(rows), "softmax_mixture", "positive word probabilities", rows)

    return VectorLikelihood(log_prob, "softmax_mixture", check, total=lambda y: jnp.sum(y[1]), averages=_averages)


def _averages(y: Any, z: Float[Array, "draws K"]) -> Averages:
    """Averages of the derivatives of `softmax_mixture`, with responsibilities phi_n ~ rows_n softmax(z):

    gradient  sum_n c_n phi_n - W softmax(z)
    Hessian   sum_n c_n (diag phi_n - phi_n phi_n') - W (diag pi - pi pi'),  pi = softmax(z)
    """
    rows, counts = y
    share = jax.nn.softmax(z)
    mixed = jnp.einsum("nk,sk->sn", rows, share, precision="highest")
    mixed = jnp.where(counts > 0, mixed, 1.0)
    value = jnp.mean(jnp.einsum("sn,n->s", jnp.log(mixed), counts, precision="highest"))
    topics = rows * share[:, None, :] / mixed[:, :, None]
    slope = jnp.einsum("snk,n->k", topics, counts, precision="highest") / len(z)
    weighted = (jnp.sqrt(counts)[:, None] * topics).reshape(-1, z.shape[1])
    second = jnp.einsum("ik,il->kl", weighted, weighted, precision="highest") / len(z)
    total, mean_share = jnp.sum(counts), jnp.mean(share, 0)
    second_share = jnp.einsum("sk,sl->kl", share, share, precision="highest") / len(z)
    gradient = slope - total * mean_share
    return value, gradient, jnp.diag(gradient) - second + total * second_share
