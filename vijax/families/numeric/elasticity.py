"""The elasticity of a gamma draw: how it moves with its shape at a fixed quantile, G(a, x) = a d log x / d a.

With F(x; a) the distribution function, implicit reparameterisation gives d log x / d a = -(dF/da) / (x p(x; a));
Hoffman and Blei 2015, eq. (7), calls the same derivative of the inverse distribution function J. Written in a and the
offset

    L = log x - log(a + 2/3),

which stays accurate where log x does not (at a = 1e6 a float32 log x has steps of 1e-6, as large as G's effect on it).

Two routes. In float32 G - 1 = K(t, s) - L, with t = exp(L / 3) - 1, s = (2/3) / (a + 2/3) and K one polynomial for all
shapes up to 3e6 and quantiles 1e-9 to 1 - 1e-10 (`benchmarks/fit_coefficients.py`): no regions, no branches, relative
error 4e-6 / sqrt(1 + a). In float64, and for every derivative of G, the trapezium rule gives the integral itself.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.families.numeric import coefficients
from vijax.families.numeric.special import digamma, expm1_minus_identity, horner, log_minus_digamma

_RADIUS = 1.9  # of t, in the fit
_STEP = 0.06
_TAU = np.arange(-4.2, 4.3, _STEP)
_NODES = np.exp(_TAU - np.exp(-_TAU))
_WEIGHTS = _NODES * (1.0 + np.exp(-_TAU)) * _STEP
_FARTHEST = 30.0  # exp(-x expm1(30)) is zero for any x that meets it; keeps the derivatives finite


@jax.custom_jvp
def elasticity_minus_one(shape: Float[Array, "*shape"], offset: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """G - 1, for a Gamma(shape, 1) draw x given by its offset log x - log(shape + 2/3); equal shapes and dtypes."""
    if shape.dtype == jnp.float64:
        return elasticity_by_quadrature(shape, offset) - 1.0
    return _elasticity_by_polynomial(shape, offset)


@elasticity_minus_one.defjvp
def _derivative_by_quadrature(primals: tuple, tangents: tuple) -> tuple:
    return elasticity_minus_one(*primals), jax.jvp(elasticity_by_quadrature, primals, tangents)[1]


@jax.jit
def _elasticity_by_polynomial(shape: Float[Array, "*shape"], offset: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    third = offset / 3.0
    # Short series near the mode, where exp(L / 3) - 1 would lose the digits that decide V.
    series = third * horner((1.0, 1 / 2, 1 / 6, 1 / 24, 1 / 120), third)
    t = jnp.where(jnp.abs(offset) < 0.3, series, jnp.exp(third) - 1.0)
    x = jnp.minimum(t / _RADIUS, 1.03)
    s = (2 / 3) / (shape + 2 / 3)
    total = jnp.zeros_like(x)
    for row in reversed(coefficients.ELASTICITY):
        total = total * s + horner(row, x)
    return total - offset


@jax.jit
def elasticity_by_quadrature(shape: Float[Array, "*shape"], offset: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """G by the integral of dF/da over the tail on the quantile's own side, where the integrand has one sign:

        upper, x above exp psi(a + 1):  G = a I(a),                                s = +1, b = a
        lower:                          G = x I(a + 1) + psi(a + 1) - log x,       s = -1, b = a + 1
        I(b) = int_0^inf exp(b s y - x expm1(s y)) (s (log x - psi(b)) + y) dy

    The nodes are doubly exponential in the integrand's own length; everything is differentiable, to any order.
    """
    centre = shape + 2 / 3
    log_x = offset + jnp.log(centre)
    lower = log_x < digamma(shape + 1.0)
    above_mean = offset + jnp.where(
        lower,
        jnp.log1p(-1 / (3.0 * (shape + 1.0))) + log_minus_digamma(shape + 1.0),
        jnp.log1p(2 / (3.0 * shape)) + log_minus_digamma(shape),
    )
    x = centre * jnp.exp(offset)
    slope = jnp.where(lower, 1 / 3, -2 / 3) - centre * jnp.expm1(offset)  # b - x
    b = jnp.where(lower, shape + 1.0, shape)
    integral = _tail_integral(jnp.where(lower, -1.0, 1.0).astype(x.dtype), b, x, slope, above_mean)
    return jnp.where(lower, x * integral - above_mean, shape * integral)


def _tail_integral(side: Array, b: Array, x: Array, slope: Array, above_mean: Array) -> Array:
    length = jnp.minimum(1 / jnp.maximum(jnp.sqrt(jnp.maximum(b, x)), jnp.abs(slope)), 1 / jnp.sqrt(b))
    length = jax.lax.stop_gradient(length)

    def add(total: Array, node_and_weight: Array) -> tuple[Array, None]:
        node, weight = node_and_weight
        y = jnp.minimum(length * node, _FARTHEST)
        height = jnp.exp(slope * side * y - x * expm1_minus_identity(side * y))
        return total + height * (side * above_mean + y) * (length * weight), None

    rule = jnp.stack([jnp.asarray(_NODES, x.dtype), jnp.asarray(_WEIGHTS, x.dtype)], axis=1)
    return jax.lax.scan(add, jnp.zeros_like(x), rule)[0]
