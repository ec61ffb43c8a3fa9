"""Exact draws from PG(1, c) by Devroye's rejection (Devroye 2009; Polson, Scott and Windle 2013)."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri
from jaxtyping import Array, Bool, Float, PRNGKeyArray

_CUT = 0.64
_LEFT_ROOT = 1 / math.sqrt(_CUT)
_LEVY_BELOW_CUT = math.erfc(_LEFT_ROOT / math.sqrt(2))


def sample_unit(key: PRNGKeyArray, c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Draws from PG(1, c), all entries at once (Polson, Scott and Windle 2013, section 4).

    w = x / 4, the density of x proportional to exp(-z^2 x / 2) sum_n (-1)^n a_n(x), z = c / 2, where a_0 is twice a
    Levy density left of the cut and an exponential right of it. Proposals, of mass: right, an exponential of rate
    K = pi^2 / 8 + z^2 / 2, pi / (2 K) exp(-K cut); left, for z cut < 1 the Levy law below the cut, to be accepted with
    exp(-z^2 x / 2), 2 P(Levy < cut); else an inverse Gaussian of mean 1 / z, of which draws beyond the cut are
    rejected, 2 exp(-z). One proposal in two or better is accepted, whatever c.

    >>> bool(jnp.abs(sample_unit(jax.random.key(0), jnp.full(20000, 2.0)).mean() - jnp.tanh(1.0) / 4) < 0.005)
    True
    """
    z = 0.5 * jnp.abs(c)

    def unfinished(carry: tuple) -> Bool[Array, ""]:
        return ~jnp.all(carry[1])

    def propose(carry: tuple) -> tuple:
        old, accepted, i = carry
        x, keep = _proposal(jax.random.fold_in(key, i), z)
        return jnp.where(accepted, old, x), accepted | keep, i + 1

    start = jnp.zeros_like(z), jnp.zeros(z.shape, bool), 0
    return 0.25 * jax.lax.while_loop(unfinished, propose, start)[0]


def _proposal(key: PRNGKeyArray, z: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Bool[Array, "*shape"]]:
    """A proposal for each entry, and whether it is accepted."""
    draw = lambda i: jax.random.uniform(jax.random.fold_in(key, i), z.shape, z.dtype, jnp.finfo(z.dtype).tiny)
    rate, small = math.pi**2 / 8 + 0.5 * z**2, z * _CUT < 1
    log_left = math.log(2.0) + jnp.where(small, math.log(_LEVY_BELOW_CUT), -z)
    log_right = jnp.log(0.5 * math.pi / rate) - rate * _CUT
    right = draw(0) < jax.nn.sigmoid(log_right - log_left)
    levy = 1 / ndtri(0.5 * _LEVY_BELOW_CUT * draw(1)) ** 2
    left = jnp.where(small, levy, _inverse_gaussian(draw(1), draw(2), jnp.where(small, 1.0, z)))
    x = jnp.where(right, _CUT - jnp.log(draw(3)) / rate, left)
    tilt = jnp.where(small & ~right, jnp.exp(-0.5 * z**2 * x), 1.0)
    inside = right | (x <= _CUT)
    return x, inside & (draw(4) < tilt * _series(jnp.where(inside, x, _CUT), right))


def _series(x: Float[Array, "*shape"], right: Bool[Array, "*shape"]) -> Float[Array, "*shape"]:
    """sum_n (-1)^n a_n(x) / a_0(x): on its side of the cut the fifth term is below 1e-16."""
    rate = jnp.where(right, 0.5 * math.pi**2 * x, 2 / x)
    terms = [(-1) ** n * (2 * n + 1) * jnp.exp(-n * (n + 1) * rate) for n in range(4)]
    return sum(terms, jnp.zeros_like(x))


def _inverse_gaussian(
    u: Float[Array, "*shape"], v: Float[Array, "*shape"], z: Float[Array, "*shape"]
) -> Float[Array, "*shape"]:
    """A draw of mean 1 / z and shape 1 (Michael, Schucany and Haas 1976): the smaller root, or the larger."""
    half = 0.5 * ndtri(u) ** 2 / z
    ratio = 1 / (1 + half + jnp.sqrt(half * (2 + half)))
    return jnp.where(v * (1 + ratio) < 1, ratio, 1 / ratio) / z
