"""Expectations under N(m, V) of a likelihood of a vector of predictors: Monte Carlo, and Bohning's bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require, require_integers
from vijax.inference.likelihood import VectorLikelihood
from vijax.xla.by_value import by_value


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


@by_value
def vector_monte_carlo(num_samples: int = 100, antithetic: bool = False, matched: bool = False) -> VectorExpectation:
    """Averages of l, its gradient and its Hessian over draws (Bonnet, Price): Khan et al. 2016, appendix A.3.

    Args:
      num_samples: draws a site.
      antithetic: draws in pairs m + e, m - e: functions that are odd about m then average to their expectation exactly,
        which makes the slope much more accurate.
      matched: draws whose average (z - m)(z - m)' is V itself (of fewer pairs than dimensions, draws at right angles):
        quadratic functions then average to their expectation exactly, others with a bias of order 1 / num_samples.

    Raises:
      ValueError: no draws, or an odd number of them in pairs; at a call, no key.
    """
    require_integers(num_samples=num_samples)
    require(not antithetic or num_samples % 2 == 0, "num_samples", "an even number, for pairs", num_samples)

    def estimate(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array, key: PRNGKeyArray | None) -> VectorMoments:
        if key is None:
            raise ValueError("key: expected a random key for a Monte Carlo expectation, got None.")
        averages = likelihood.averages or _averages_of(likelihood)
        z = gaussian_draws(key, m, jnp.linalg.cholesky(cov), num_samples, antithetic, matched)
        return VectorMoments(*jax.vmap(averages)(y, z))

    return estimate


def gaussian_draws(
    key: PRNGKeyArray,
    m: Float[Array, "sites K"],
    factor: Float[Array, "sites K K"],
    num_samples: int,
    antithetic: bool = True,
    matched: bool = False,
) -> Float[Array, "sites samples K"]:
    """Draws from N(m, L L') of each site; `antithetic` and `matched` as in `vector_monte_carlo`."""
    count = num_samples // 2 if antithetic else num_samples
    noise = jax.random.normal(key, (m.shape[0], count, m.shape[1]), m.dtype)
    noise = _matched(noise) if matched else noise
    shift = jnp.einsum("dsj,dij->dsi", noise, factor, precision="highest")
    return m[:, None, :] + (jnp.concatenate([shift, -shift], 1) if antithetic else shift)


def _matched(noise: Float[Array, "sites count K"]) -> Float[Array, "sites count K"]:
    """The noise, changed so that its average e e' is the identity; with fewer draws than dimensions, orthogonal."""
    count, size = noise.shape[1:]
    if count < size:
        return size**0.5 * jnp.linalg.qr(noise.mT)[0].mT
    return count**0.5 * jnp.linalg.qr(noise)[0]


@by_value
def bohning() -> VectorExpectation:
    """A lower bound on E[l] (Bohning 1992): log sum e^z has Hessian at most A = (I - 11'/K)/2, so

    E[log sum e^z] <= log sum e^m + tr(A V)/2,

    and the convex part of l is at least its tangent at m, whose expectation is its value there. The curvature is
    constant, hence steps of size 1 on full data never lower the bound of `softmax`.

    Raises:
      ValueError: a likelihood that is not convex apart from W log sum e^z (`VectorLikelihood.total`).
    """

    def estimate(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array, key: PRNGKeyArray | None) -> VectorMoments:
        del key
        total_of = convex_part_of(likelihood, "Bohning's bound")
        k = m.shape[-1]
        a = 0.5 * (jnp.eye(k, dtype=m.dtype) - 1.0 / k)

        def one(y: Any, m: Array, cov: Array) -> VectorMoments:
            value, slope = jax.value_and_grad(likelihood.log_prob, 1)(y, m)
            return VectorMoments(value - 0.5 * total_of(y) * jnp.sum(a * cov), slope, -total_of(y) * a)

        return jax.vmap(one)(y, m, cov)

    return estimate


def convex_part_of(likelihood: VectorLikelihood, bound: str) -> Callable[[Any], Float[Array, ""]]:
    """y -> W, where log p(y | z) + W log sum_k e^{z_k} is convex in z; else ValueError."""
    expected = f"softmax or softmax_mixture for {bound}"
    require(likelihood.total is not None, "likelihood", expected, likelihood.name)
    return likelihood.total  # type: ignore[return-value]


def _averages_of(likelihood: VectorLikelihood) -> Callable[[Any, Array], tuple[Array, Array, Array]]:
    """(y, draws) -> means of l, its gradient and its Hessian."""
    return lambda y, z: tuple(jnp.mean(x, 0) for x in jax.vmap(lambda x: derivatives_at(likelihood, y, x))(z))  # type: ignore[return-value]


def derivatives_at(likelihood: VectorLikelihood, y: Any, z: Array) -> tuple[Array, Array, Array]:
    """l, its gradient and its Hessian at z."""
    if likelihood.averages is not None:
        return likelihood.averages(y, z[None])
    log_lik = lambda x: likelihood.log_prob(y, x)
    return log_lik(z), jax.grad(log_lik)(z), jax.hessian(log_lik)(z)
