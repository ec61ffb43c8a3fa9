"""Expectations under N(m, V) of a likelihood of a vector of predictors: Monte Carlo, and Bohning's bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.families.base import require
from vijax.likelihood import VectorLikelihood


class VectorMoments(NamedTuple):
    """Expectations of l(z) = log p(y | z), z ~ N(m, V) of K dimensions.

    Attributes:
      value: E[l].
      slope: E[grad l] = dE[l]/dm.
      curvature: E[hessian l] = 2 dE[l]/dV.
    """

    value: Float[Array, "*sites"]
    slope: Float[Array, "*sites K"]
    curvature: Float[Array, "*sites K K"]


VectorExpectation = Callable[
    [VectorLikelihood, Any, Float[Array, "sites K"], Float[Array, "sites K K"], PRNGKeyArray | None], VectorMoments
]


def vector_monte_carlo(num_samples: int = 100) -> VectorExpectation:
    """Averages of l, its gradient and its Hessian over draws (Bonnet, Price): seed 001, appendix A.3.

    Raises:
      ValueError: no draws; at a call, no key.
    """
    require(num_samples >= 1, "num_samples", "an integer >= 1", num_samples)

    def estimate(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array, key: PRNGKeyArray | None) -> VectorMoments:
        if key is None:
            raise ValueError("key: expected a random key for a Monte Carlo expectation, got None.")
        noise = jax.random.normal(key, (m.shape[0], num_samples, m.shape[1]), m.dtype)

        def one(y: Any, m: Array, cov: Array, noise: Array) -> VectorMoments:
            z = m + noise @ jnp.linalg.cholesky(cov).T
            three = jax.vmap(lambda x: _derivatives(likelihood, y, x))(z)
            return VectorMoments(*(jnp.mean(x, 0) for x in three))

        return jax.vmap(one)(y, m, cov, noise)

    return estimate


def bohning() -> VectorExpectation:
    """A lower bound on E[l] for `softmax` (Bohning 1992): log sum e^z has Hessian at most A = (I - 11'/K)/2, so

    E[log sum e^z] <= log sum e^m + tr(A V)/2.

    Its curvature is constant, hence steps of size 1 on full data never lower the bound.

    Raises:
      ValueError: another likelihood.
    """

    def estimate(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array, key: PRNGKeyArray | None) -> VectorMoments:
        del key
        require(likelihood.name == "softmax", "likelihood", "softmax for Bohning's bound", likelihood.name)
        k = m.shape[-1]
        a = 0.5 * (jnp.eye(k, dtype=m.dtype) - 1.0 / k)

        def one(y: Any, m: Array, cov: Array) -> VectorMoments:
            total = jnp.sum(y)
            value = likelihood.log_prob(y, m) - 0.5 * total * jnp.sum(a * cov)
            return VectorMoments(value, y - total * jax.nn.softmax(m), -total * a)

        return jax.vmap(one)(y, m, cov)

    return estimate


def _derivatives(likelihood: VectorLikelihood, y: Any, z: Array) -> tuple[Array, Array, Array]:
    log_lik = lambda x: likelihood.log_prob(y, x)
    return log_lik(z), jax.grad(log_lik)(z), jax.hessian(log_lik)(z)
