"""E log sigma(z) and its derivatives for z ~ N(m, v), without nodes: a dozen closed terms, right
for every m and v.

With u = e^-|z|, log sigma(z) = min(z, 0) - log(1 + u), and u / (1 + u) is nearly a polynomial. Let
T be the Chebyshev polynomial of degree n. Then

    u / (1 + u) = sum_{k=1..n} d_k u^k + e(u) u / (1 + u),    e(u) = T(1 - 2u) / T(3),    |e| <= 1 / T(3) ~ 2 / 5.83^n

on 0 <= u <= 1, which makes d_k whole numbers over a whole number (Cohen, Rodriguez Villegas and
Zagier 2000, algorithm 1). Integrated, it gives log(1 + u) = sum d_k u^k / k with the same relative
bound, and differentiated the curvature: it has a relative error of at most (1 + 4 n^2) / T(3),
since |T'| <= n^2. Expectations keep such bounds, uniformly in m and v. So all that is needed is

    E[u^k; z > 0] = phi(a) R(k s - a),    E[u^k; z < 0] = phi(a) R(k s + a),    s = sqrt(v),  a = m / s,

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


def of_log_sigmoid(m: Float[Array, ""], v: Float[Array, ""]) -> Moments:
    """E log sigma(z), E sigma(-z) and -E sigma(z) sigma(-z), differentiable any number of times in
    m and v.

    >>> [round(float(x), 4) for x in of_log_sigmoid(jnp.array(1.0), jnp.array(2.0))]
    [-0.4918, 0.3249, -0.1625]
    """
    return Moments(*_expected((0, 1, 2), m, v))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _expected(orders: tuple[int, ...], m: Array, v: Array) -> tuple[Array, ...]:
    """Expectations of the derivatives of log sigma of these orders."""
    single = m.dtype != jnp.float64
    size = jnp.sqrt(v + jnp.finfo(v.dtype).tiny)  # a predictor may have no variance at all
    a, steps = jnp.abs(m) / size, jnp.arange(1, TERMS[single] + 1, dtype=m.dtype) * size
    at_zero, sign = jnp.exp(-0.5 * a * a) / math.sqrt(2 * math.pi), jnp.sign(m)
    gap = steps - a
    beyond_zero = jnp.concatenate([jnp.abs(gap), steps + a, a[None]])
    tails = at_zero / (beyond_zero + excess(beyond_zero))
    near, other, (beyond,) = jnp.split(tails, [len(steps), 2 * len(steps)])  # the last is Phi(-|a|)
    # Where the tail begins below its mean it is the whole, E e^-kz, less the rest.
    own = jnp.where(gap > 0, near, jnp.exp(0.5 * steps * (gap - a)) - near)
    found = []
    for order in orders:
        weights = jnp.asarray(_weights(TERMS[single], order), m.dtype)
        even = order % 2 == 0
        total = jnp.sum(weights * (own + other if even else own - other), -1)
        found.append(total if even else sign * total)
        if order == 0:
            found[-1] += jnp.minimum(m, 0.0) - size * (at_zero - a * beyond)
        if order == 1:
            found[-1] += jnp.where(m > 0, beyond, 1.0 - beyond)
    return tuple(found)


@_expected.defjvp
def _expected_jvp(orders: tuple[int, ...], primals: tuple, tangents: tuple) -> tuple[tuple, tuple]:
    """Bonnet and Price: a derivative in m raises the order by one, one in v by two, halved."""
    every = tuple(sorted({order + more for order in orders for more in (0, 1, 2)}))
    known = dict(zip(every, _expected(every, *primals), strict=True))
    dm, dv = tangents
    return tuple(known[o] for o in orders), tuple(
        known[o + 1] * dm + 0.5 * known[o + 2] * dv for o in orders
    )


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
            new[i], new[i + 1] = new[i] + 2 * c, new[i + 1] - 4 * c
        for i, c in enumerate(before):
            new[i] -= c
        before, chebyshev = chebyshev, new
    at_three = sum(abs(c) for c in chebyshev)  # T(1 - 2u) at u = -1
    quotient, rest = [], 0
    for i, c in enumerate(chebyshev[:-1]):
        rest = (at_three if i == 0 else 0) - c - rest
        quotient.append(rest / at_three)
    return quotient
