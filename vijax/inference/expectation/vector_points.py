"""Expectations of a vector's likelihood from its derivatives at the mean alone: Laplace, the delta method, and the
bound of Blei and Lafferty. They take no draws; each leaves something out, and so `vector_monte_carlo` is better.

With any of them, proximal-gradient steps on N(m, V) end where the method of that name does (Wang and Blei 2013).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from vijax.inference.expectation.vector import VectorExpectation, VectorMoments, convex_part_of, derivatives_at
from vijax.inference.likelihood import VectorLikelihood
from vijax.xla.by_value import by_value


@by_value
def laplace() -> VectorExpectation:
    """l, its gradient and its Hessian at m: the fixed point is the posterior mode, with V^-1 the negative Hessian of
    the log joint there.

    >>> from vijax.inference.likelihood import softmax
    >>> y, m, cov = jnp.array([[1.0, 0.0]]), jnp.zeros((1, 2)), jnp.eye(2)[None]
    >>> laplace()(softmax(2), y, m, cov, None).slope.tolist()
    [[0.5, -0.5]]
    """

    def estimate(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array, key: PRNGKeyArray | None) -> VectorMoments:
        del cov, key
        return VectorMoments(*jax.vmap(lambda y, m: derivatives_at(likelihood, y, m))(y, m))

    return estimate


@by_value
def delta_method() -> VectorExpectation:
    """E[l] = l(m) + tr(H(m) V) / 2, H the Hessian: the second-order Taylor expansion about m. No bound."""

    def estimate(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array, key: PRNGKeyArray | None) -> VectorMoments:
        del key

        def one(y: Any, m: Array, cov: Array) -> VectorMoments:
            def value(m: Array) -> tuple[Array, Array]:
                here, _, hessian = derivatives_at(likelihood, y, m)
                return here + 0.5 * jnp.einsum("ij,ij->", hessian, cov, precision="highest"), hessian

            (expected, hessian), slope = jax.value_and_grad(value, has_aux=True)(m)
            return VectorMoments(expected, slope, hessian)

        return jax.vmap(one)(y, m, cov)

    return estimate


@by_value
def blei_lafferty() -> VectorExpectation:
    """The lower bound of Blei and Lafferty (2007), with zeta = sum_k E e^{z_k} and q(topics) at their optima,

    E[log sum_k e^{z_k}] <= log sum_k e^{m_k + V_kk / 2},

    and the convex part of l is at least its tangent at m. It reads the variances only.

    Raises:
      ValueError: a likelihood that is not convex apart from W log sum e^z (`VectorLikelihood.total`).
    """

    def estimate(likelihood: VectorLikelihood, y: Any, m: Array, cov: Array, key: PRNGKeyArray | None) -> VectorMoments:
        del key
        total_of = convex_part_of(likelihood, "Blei and Lafferty's bound")

        def one(y: Any, m: Array, cov: Array) -> VectorMoments:
            raised, total = m + 0.5 * jnp.diagonal(cov), total_of(y)
            value, slope = jax.value_and_grad(likelihood.log_prob, 1)(y, m)
            share = jax.nn.softmax(raised)
            value += total * (jax.nn.logsumexp(m) - jax.nn.logsumexp(raised))
            return VectorMoments(value, slope + total * (jax.nn.softmax(m) - share), -total * jnp.diag(share))

        return jax.vmap(one)(y, m, cov)

    return estimate
