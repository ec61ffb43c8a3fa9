"""E log sigma(z) and its derivatives for z ~ N(m, v), without nodes: a dozen closed terms, accurate
for every m and v.

With u = e^-|z|, log sigma(z) = min(z, 0) - log(1 + u), and u / (1 + u) is nearly a polynomial. Let
T be the Chebyshev polynomial of degree n. Then on 0 <= u <= 1

    u / (1 + u) = sum_{k=1..n} d_k u^k + e(u) u / (1 + u),
    e(u) = T(1 - 2u) / T(3),    |e| <= 1 / T(3) ~ 2 / 5.83^n,

with d_k whole numbers over a whole number (Cohen, Rodriguez Villegas and Zagier 2000, algorithm 1).
The integral is log(1 + u) = sum d_k u^k / k with the same relative bound. The derivative is the
curvature, with a relative error of at most (1 + 4 n^2) / T(3), since |T'| <= n^2. Expectations have
the same bounds, uniformly in m and v. With s = sqrt(v) and a = m / s they need only

    E[u^k; z > 0] = phi(a) R(k s - a),    E[u^k; z < 0] = phi(a) R(k s + a),

where R is Mills' ratio (`vijax.inference.likelihood.normal_tail`).
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.inference.likelihood.base import Moments
from vijax.inference.likelihood.normal_tail import excess

TERMS = {True: 12, False: 22}
"""n in float32 and in float64: the bound on the curvature is 7e-7 and 5e-14."""


def log_sigmoid_moments(m: Float[Array, ""], v: Float[Array, ""]) -> Moments:
    """E log sigma(z), E sigma(-z) and -E sigma(z) sigma(-z), differentiable any number of times in
    m and v.

    >>> [round(float(x), 4) for x in log_sigmoid_moments(jnp.array(1.0), jnp.array(2.0))]
    [-0.4918, 0.3249, -0.1625]
    """
    return Moments(*_expectations((0, 1, 2), m, v))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _expectations(orders: tuple[int, ...], m: Array, v: Array) -> tuple[Array, ...]:
    """Expectations of the derivatives of log sigma of these orders."""
    num_terms = TERMS[m.dtype != jnp.float64]
    size = jnp.sqrt(v + jnp.finfo(v.dtype).tiny)  # a predictor may have zero variance
    a = jnp.abs(m) / size
    steps = jnp.arange(1, num_terms + 1, dtype=m.dtype) * size
    density = jnp.exp(-0.5 * a * a) / math.sqrt(2 * math.pi)
    sign = jnp.sign(m)
    gap = steps - a
    starts = jnp.concatenate([jnp.abs(gap), steps + a, a[None]])
    tails = density / (starts + excess(starts))
    # Tails from |k s - a|, tails from k s + a, and Phi(-|a|)
    upper, lower, (beyond,) = jnp.split(tails, [len(steps), 2 * len(steps)])
    # A tail that begins below its mean is E e^-kz minus the other tail.
    upper = jnp.where(gap > 0, upper, jnp.exp(0.5 * steps * (gap - a)) - upper)
    moments = []
    for order in orders:
        weights = jnp.asarray(_weights(num_terms, order), m.dtype)
        if order % 2 == 0:
            total = jnp.sum(weights * (upper + lower), -1)
        else:
            total = sign * jnp.sum(weights * (upper - lower), -1)
        if order == 0:
            total += jnp.minimum(m, 0.0) - size * (density - a * beyond)
        if order == 1:
            total += jnp.where(m > 0, beyond, 1.0 - beyond)
        moments.append(total)
    return tuple(moments)


@_expectations.defjvp
def _expectations_jvp(
    orders: tuple[int, ...], primals: tuple, tangents: tuple
) -> tuple[tuple, tuple]:
    """Bonnet and Price: the derivative in m has the order plus one, the derivative in v half the
    order plus two."""
    needed = tuple(sorted({order + n for order in orders for n in (0, 1, 2)}))
    moments = dict(zip(needed, _expectations(needed, *primals), strict=True))
    dm, dv = tangents
    slopes = tuple(moments[o + 1] * dm + 0.5 * moments[o + 2] * dv for o in orders)
    return tuple(moments[o] for o in orders), slopes


@functools.cache
def _weights(num_terms: int, order: int) -> np.ndarray:
    """The coefficients of u^k in the derivative of -log(1 + u) for z > 0; u' is -u."""
    k = np.arange(1, num_terms + 1)
    return -((-1.0) ** order) * np.array(_alternating(num_terms)) * k ** (order - 1.0)


def _alternating(num_terms: int) -> list[float]:
    """d_k: the quotient of 1 - T(1 - 2u) / T(3) by 1 + u, from integers.

    >>> [round(d, 3) for d in _alternating(3)]
    [0.99, -0.808, 0.323]
    """
    before, chebyshev = [1], [1, -2]
    for _ in range(num_terms - 1):
        new = [0] * (len(chebyshev) + 1)
        for i, c in enumerate(chebyshev):
            new[i] += 2 * c
            new[i + 1] -= 4 * c
        for i, c in enumerate(before):
            new[i] -= c
        before, chebyshev = chebyshev, new
    scale = sum(abs(c) for c in chebyshev)  # T(3), which is T(1 - 2u) at u = -1
    numerator = [-c for c in chebyshev[:-1]]
    numerator[0] += scale
    quotient, remainder = [], 0
    for c in numerator:
        remainder = c - remainder
        quotient.append(remainder / scale)
    return quotient
