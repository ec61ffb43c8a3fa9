"""The best Gaussian approximation of a density by L-BFGS on (m, L), to judge E-steps."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.xla.lapack import guard_lapack

LogJoint = Callable[[Float[Array, " K"]], Float[Array, ""]]


def gaussian_bound(
    log_joint: LogJoint,
    mean: Array,
    factor: Array,
    noise: Float[Array, "S K"],
    weights: Float[Array, " S"] | None = None,
) -> Float[Array, ""]:
    """E_q[log p(y, z)] + H[q] at q = N(m, L L'); the expectation is an average over m + L e.

    Args:
      log_joint: z -> log p(y, z).
      mean: m.
      factor: L, lower triangular with a positive diagonal.
      noise: standard normal draws e, or nodes of a quadrature.
      weights: weights of the nodes, summing to one; equal if None.

    >>> nodes, weights = jnp.array([[1.0], [-1.0]]), jnp.array([0.5, 0.5])
    >>> half = lambda z: -0.5 * jnp.sum(z**2) - 0.5 * jnp.log(2 * jnp.pi)
    >>> abs(float(gaussian_bound(half, jnp.zeros(1), jnp.eye(1), nodes, weights))) < 1e-6
    True
    """
    values = jax.vmap(lambda e: log_joint(mean + factor @ e))(noise)
    expected = jnp.mean(values) if weights is None else weights @ values
    entropy = jnp.sum(jnp.log(jnp.diagonal(factor))) + 0.5 * len(mean) * (1 + np.log(2 * np.pi))
    return expected + entropy


def gaussian_by_lbfgs(
    log_joint: LogJoint,
    mean: Array,
    noise: Float[Array, "S K"],
    weights: Float[Array, " S"] | None = None,
    factor: Array | None = None,
    max_iters: int = 2000,
) -> tuple[np.ndarray, np.ndarray]:
    """Maximises `gaussian_bound` over m and L, whose diagonal is optimised as its logarithm.

    Args:
      log_joint: z -> log p(y, z); float64 is best.
      mean: start of m.
      noise, weights: as in `gaussian_bound`. (m, L) has K (K + 3) / 2 coordinates, and overfits too
          few draws.
      factor: start of L; the identity if None.
      max_iters: largest number of iterations of L-BFGS.

    Returns:
      (m, L).

    >>> from vijax.reference import gaussian_by_lbfgs
    >>> nodes, weights = jnp.array([[1.0], [-1.0]]), jnp.array([0.5, 0.5])
    >>> m, root = gaussian_by_lbfgs(lambda z: -0.5 * jnp.sum((z - 3.0) ** 2) / 4.0, jnp.zeros(1), nodes, weights)
    >>> print(m.round(2), root.round(2))
    [3.] [[2.]]
    """
    import scipy.optimize  # slow to import

    size = len(mean)
    lower = np.tril_indices(size, -1)

    def unpack(x: Array) -> tuple[Array, Array]:
        factor = jnp.diag(jnp.exp(x[size : 2 * size]))
        return x[:size], factor.at[lower].set(x[2 * size :])

    @jax.jit
    @guard_lapack
    def loss_and_slope(x: Array) -> tuple[Array, Array]:
        loss = lambda x: -gaussian_bound(log_joint, *unpack(x), noise, weights)
        return jax.value_and_grad(loss)(x)

    def call(x: np.ndarray) -> tuple[np.ndarray, ...]:
        values = loss_and_slope(jnp.asarray(x, noise.dtype))
        return tuple(np.asarray(value, np.float64) for value in values)

    root = np.eye(size) if factor is None else np.asarray(factor)
    start = np.concatenate([np.asarray(mean), np.log(np.diagonal(root)), root[lower]])
    options = {"maxiter": max_iters, "maxfun": 2 * max_iters, "ftol": 1e-13, "gtol": 1e-7}
    result = scipy.optimize.minimize(call, start, jac=True, method="L-BFGS-B", options=options)
    m, factor = unpack(jnp.asarray(result.x))
    return np.asarray(m), np.asarray(factor)
