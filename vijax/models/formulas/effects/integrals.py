"""Integrals over the effects v ~ N(0, I) of one group: log of the integral of N(v; 0, I) prod_n
p(y_n | a_n + B_n v).

a_n is a number and B_n a row; or a_n has the C predictors of one data row, and B_n a row for each.
Let g_n and -W_n, C x C, be the gradient and the Hessian of log p(y_n | eta) in the predictors. Then
the integrand has the gradient sum_n B_n' g_n - v and the curvature I + sum_n B_n' W_n B_n.

For a normal law the integral has a closed form. For other laws it is computed by adaptive
Gauss-Hermite quadrature (Naylor and Smith 1982; Pinheiro and Chao 2006, equation 7), with nodes
about the mode of the integrand in units of its curvature. One node is Laplace's approximation.

The search for the mode is not differentiated. One more Newton step, which is, leaves the mode where
it is and has the derivative of the mode by the implicit function theorem, so that gradients are
exact. Away from a mode the log likelihood of several predictors may be convex, as that of a normal
law in its mean and the logarithm of its sigma is at large residuals. There Newton's steps go by the
absolute diagonals of W_n instead, which are positive."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

LogLik = Callable[[Any, Float[Array, " n *C"]], Float[Array, " n"]]
"""(parameters, predictors of rows) -> log likelihoods of rows."""

LOG_2PI = math.log(2 * math.pi)
LEAST_PIVOT = 0.1
"""Least squared pivot of a curvature. The log likelihood of several predictors may be convex away
from a mode, so that its curvature with that of the effects is not positive there."""


def normal_integral(
    r: Float[Array, " n"], b: Float[Array, "n d"], sigma: Float[Array, ""], count: Float[Array, ""]
) -> Float[Array, ""]:
    """log N(r; 0, sigma^2 I + B B') of `count` rows. Rows of zeros add nothing, so that r and B may
    be the triangular factor of these rows.

    The quadratic form is the minimum over v of |r - B v|^2 / sigma^2 + |v|^2. The difference of
    |r|^2 / sigma^2 and the part that v explains would lose all digits for large r and B, and the
    density would have modes due to rounding."""
    v, factor = law_of_normal(r, b, sigma)
    squares = jnp.sum((r - b @ v) ** 2) / sigma**2 + jnp.sum(v**2)
    return -0.5 * (count * (LOG_2PI + 2 * jnp.log(sigma)) + squares) - _log_det(factor)


def law_of_normal(
    r: Float[Array, " n"], b: Float[Array, "n d"], sigma: Float[Array, ""]
) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
    """The mean of v given r, and the factor of its precision."""
    factor = cholesky(b.T @ b / sigma**2 + jnp.eye(b.shape[1], dtype=b.dtype))
    return backward(factor, forward(factor, b.T @ r / sigma**2)), factor


def quadrature(
    log_lik: LogLik,
    parameters: Any,
    a: Float[Array, " n *C"],
    b: Float[Array, "n *C d"],
    nodes: int,
    may_be_convex: bool = False,
) -> Float[Array, ""]:
    """The log integral for any law, with this number of nodes a dimension; `may_be_convex` as in
    `find_mode`."""
    if b.shape[-1] == 0:
        return jnp.sum(log_lik(parameters, a))
    mode, factor = find_mode(log_lik, parameters, a, b, may_be_convex)
    places, log_weights = product_grid(nodes, b.shape[-1])
    v = mode[None] + jax.vmap(lambda t: backward(factor, t))(jnp.asarray(places, b.dtype))
    log_joint = jax.vmap(lambda v: joint(log_lik, parameters, a, b, v))(v)
    return jax.nn.logsumexp(log_joint + jnp.asarray(log_weights, b.dtype)) - _log_det(factor)


def find_mode(
    log_lik: LogLik,
    parameters: Any,
    a: Float[Array, " n *C"],
    b: Float[Array, "n *C d"],
    may_be_convex: bool = False,
) -> tuple[Float[Array, " d"], Float[Array, "d d"]]:
    """The mode of the integrand, and the factor of its curvature at the mode. `may_be_convex` says
    that the log likelihood of a row may be convex in its predictors."""
    fixed = jax.lax.stop_gradient((parameters, a, b))
    # Jitted to be traced once for all calls below, and inside this function to be freed with it.
    value = jax.jit(functools.partial(joint, log_lik))
    slopes = jax.jit(functools.partial(_slopes, log_lik, may_be_convex))
    promise = lambda factor, x: jnp.sum(forward(factor, x) ** 2)
    mode = climb(
        lambda v: value(*fixed, v),
        lambda v: slopes(*fixed, v),
        lambda factor, x: backward(factor, forward(factor, x)),
        promise,
        jnp.zeros(b.shape[-1], b.dtype),
    )
    mode = jax.lax.stop_gradient(mode)
    slope, _ = slopes(parameters, a, b, mode)
    fixed_slope, factor = slopes(*fixed, mode)
    step = backward(factor, forward(factor, slope))
    v = mode + shorten(step, promise(factor, fixed_slope))
    return v, slopes(parameters, a, b, v)[1]


def shorten(step: Any, promise: Any) -> Any:
    """The last Newton step, of length at most one in units of the curvature: where a search ends
    before it is at the mode, a whole step could go anywhere. `promise` is its squared length."""
    share = jax.lax.rsqrt(jnp.maximum(jax.lax.stop_gradient(promise), 1.0))
    return jax.tree.map(lambda x: share * x, step)


def joint(log_lik: LogLik, parameters: Any, a: Array, b: Array, v: Array) -> Float[Array, ""]:
    """The log of the integrand."""
    return jnp.sum(log_lik(parameters, a + b @ v)) - 0.5 * jnp.sum(v**2) - 0.5 * v.size * LOG_2PI


def _slopes(
    log_lik: LogLik, may_be_convex: bool, parameters: Any, a: Array, b: Array, v: Array
) -> tuple[Array, Array]:
    """The gradient of the log integrand, and the factor of its curvature; or, where that is not
    positive, of a curvature that is."""
    slope, weights = slopes_of_rows(log_lik, parameters, a + b @ v)
    gradient = slope.reshape(-1) @ b.reshape(-1, v.size) - v
    # With one predictor, or categories, pivots are one or more.
    if not may_be_convex:
        return gradient, cholesky(_curvature(weights, b), LEAST_PIVOT)
    # The matrix is chosen before it is factorised: a factor that is no number, though not chosen,
    # would make the derivative none. The root of a negative number is no number, and no number is
    # larger than another.
    curvature = _curvature(weights, b)
    pivots = jnp.diagonal(cholesky(jax.lax.stop_gradient(curvature))) ** 2
    is_positive = jnp.all(pivots > LEAST_PIVOT)
    matrix = jnp.where(is_positive, curvature, _curvature(absolute_diagonals(weights), b))
    return gradient, cholesky(matrix)


def _curvature(weights: Float[Array, "n C C"], b: Float[Array, "n *C d"]) -> Float[Array, "d d"]:
    """I + sum_n B_n' W_n B_n."""
    d = b.shape[-1]
    weighted = times_weights(weights, b.reshape(*weights.shape[:2], d)).reshape(-1, d)
    return weighted.T @ b.reshape(-1, d) + jnp.eye(d, dtype=b.dtype)


def absolute_diagonals(weights: Float[Array, "n C C"]) -> Float[Array, "n C C"]:
    """The absolute diagonals of W_n: weights that are never negative."""
    eye = jnp.eye(weights.shape[1], dtype=weights.dtype)
    return jnp.abs(weights) * eye[None]


def slopes_of_rows(
    log_lik: LogLik, parameters: Any, eta: Float[Array, " n *C"]
) -> tuple[Array, Float[Array, "n C C"]]:
    """The gradient in eta, and minus the Hessian of each row. With one predictor it is zero where
    the log likelihood is convex."""
    # Rows depend on their own eta alone, so that one tangent gives the Hessians of all rows.
    gradient = jax.grad(lambda eta: jnp.sum(log_lik(parameters, eta)))
    if eta.ndim == 1:
        slope, bend = jax.jvp(gradient, (eta,), (jnp.ones_like(eta),))
        return slope, jnp.maximum(-bend, 0.0)[:, None, None]
    hessian_column = lambda e: jax.jvp(gradient, (eta,), (jnp.broadcast_to(e, eta.shape),))[1]
    return gradient(eta), -jax.vmap(hessian_column, out_axes=2)(
        jnp.eye(eta.shape[1], dtype=eta.dtype)
    )


def times_weights(
    weights: Float[Array, "n C C"], columns: Float[Array, "n C d"]
) -> Float[Array, "n C d"]:
    """W_n B_n for each row."""
    return jnp.sum(weights[..., None] * columns[:, None], 2)


def repeat_blocks(z: Float[Array, "n d"], copies: int) -> Float[Array, "n C C*d"]:
    """I (x) z_n for each row: all effects of the first predictor, then of the second, and so on.

    >>> repeat_blocks(jnp.array([[1.0, 2.0]]), 2)[0].tolist()
    [[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 1.0, 2.0]]
    """
    blocks = jnp.eye(copies, dtype=z.dtype)[None, :, :, None] * z[:, None, None]
    return blocks.reshape(len(z), copies, -1)


MOST_STEPS, ENOUGH = 50, 1e-4
"""Most steps of a search; it ends after a step that promises less than half of `ENOUGH` nats."""


def climb(value: Callable, slopes: Callable, solve: Callable, promise: Callable, start: Any) -> Any:
    """The mode of a function, by Newton steps that are cut if the function would fall.

    Args:
      value: v -> the value of the function.
      slopes: v -> its gradient, and the factor of its curvature.
      solve: (factor, gradient) -> the step.
      promise: (factor, gradient) -> twice the gain that the step promises.
      start: the first v.
    """

    def is_unfinished(state: tuple) -> Array:
        _, _, _, gain, count = state
        return (gain > ENOUGH) & (count < MOST_STEPS)

    def step(state: tuple) -> tuple:
        v, old_value, size, _, count = state
        slope, factor = slopes(v)
        new_v = jax.tree.map(lambda x, dx: x + size * dx, v, solve(factor, slope))
        new_value = value(new_v)
        rises = new_value >= old_value - 1e-6 * jnp.abs(old_value)
        best = jax.tree.map(
            lambda new, old: jnp.where(rises, new, old), (new_v, new_value), (v, old_value)
        )
        size = jnp.where(rises, jnp.minimum(1.0, 2 * size), 0.25 * size)
        return *best, size, promise(factor, slope), count + 1

    first_value = value(start)
    size, gain = jnp.ones_like(first_value), jnp.full_like(first_value, jnp.inf)
    start_state = (start, first_value, size, gain, 0)
    return jax.lax.while_loop(is_unfinished, step, start_state)[0]


def product_grid(nodes: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Points t and log weights of a product rule for integrals of f(t) dt."""
    t, w = np.polynomial.hermite_e.hermegauss(nodes)
    places = np.array(list(itertools.product(t, repeat=dim)))
    weights = np.array(list(itertools.product(np.log(w), repeat=dim))).sum(1)
    return places, weights + 0.5 * (places**2).sum(1)


# --- small matrices, entry by entry: stacks of them are then plain arithmetic ---------------------
def cholesky(a: Float[Array, "d d"], least_pivot: float = 0.0) -> Float[Array, "d d"]:
    """The lower factor of a small matrix; its squared pivots are `least_pivot` or more."""
    d = a.shape[0]
    f: list[list[Any]] = [[jnp.zeros((), a.dtype)] * d for _ in range(d)]
    for i in range(d):
        for j in range(i + 1):
            remainder = a[i, j] - sum((f[i][k] * f[j][k] for k in range(j)), jnp.zeros((), a.dtype))
            if i == j and least_pivot:
                remainder = jnp.maximum(remainder, least_pivot)
            f[i][j] = jnp.sqrt(remainder) if i == j else remainder / f[j][j]
    if d:
        return jnp.stack([jnp.stack(row) for row in f])
    return a


def forward(factor: Float[Array, "d d"], x: Float[Array, " d"]) -> Float[Array, " d"]:
    """factor^-1 x."""
    y: list[Any] = []
    for i in range(x.size):
        earlier = sum((factor[i, k] * y[k] for k in range(i)), jnp.zeros((), x.dtype))
        y.append((x[i] - earlier) / factor[i, i])
    return jnp.stack(y) if y else x


def backward(factor: Float[Array, "d d"], x: Float[Array, " d"]) -> Float[Array, " d"]:
    """factor'^-1 x."""
    y: dict[int, Any] = {}
    for i in reversed(range(x.size)):
        later = sum((factor[k, i] * y[k] for k in range(i + 1, x.size)), jnp.zeros((), x.dtype))
        y[i] = (x[i] - later) / factor[i, i]
    if y:
        return jnp.stack([y[i] for i in range(x.size)])
    return x


def _log_det(factor: Float[Array, "d d"]) -> Float[Array, ""]:
    return jnp.sum(jnp.log(jnp.diagonal(factor)))
