"""Draws inside compiled programs: draws that are differentiable in the parameters of their law, and
quasi-random normals.

Implicit reparameterisation (Figurnov, Mohamed and Mnih 2018, eq. 6) differentiates draws of any
sampler. Let u = F(x; theta) be the quantile of x, F the distribution function and p the density. At
fixed u, F(x(theta); theta) = u gives

    dx / dtheta  =  -(dF / dtheta) / p(x; theta),

which needs no inverse of F, only its derivative in theta.

Quasi-random points are a Sobol sequence, a table that is made once while a program is traced. A
random digital shift flips the same binary digits of a coordinate in all points (Owen 2023,
Practical Quasi-Monte Carlo Integration, section 15.5). It makes each point uniform, so that means
over the points are unbiased, and keeps the points evenly spread."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree, UInt32

from vijax.checks import require
from vijax.families.base import as_float

LawFunction = Callable[[Array, Any], Array]


def implicit(
    x: Float[Array, "*shape"], parameters: PyTree, *, cdf: LawFunction, log_prob: LawFunction
) -> Float[Array, "*shape"]:
    """The draws `x`, unchanged, with their pathwise derivative in `parameters`.

    For laws with a sampler, such as rejection, but without a quantile function to differentiate.
    Entries of `x` are draws of laws of one dimension. Differentiable to any order if `cdf` and
    `log_prob` are.

    Args:
      x: draws of the law at `parameters`. Any derivative that they already have is dropped.
      parameters: parameters of the law, a pytree of floats. Values that the functions close over
          are constants.
      cdf: (x, parameters) -> F(x), of the shape of `x`, differentiable in the parameters; terms
        without parameters may be missing.
      log_prob: (x, parameters) -> log density, in the same units as `cdf`, of the shape of `x`.

    Raises:
      ValueError: a function returns another shape, or draws or parameters are not floats.

    >>> normal = lambda x, p: jax.scipy.stats.norm.cdf(x, p["mean"], p["scale"])
    >>> density = lambda x, p: jax.scipy.stats.norm.logpdf(x, p["mean"], p["scale"])
    >>> draw = lambda p: implicit(jnp.float32(3.0), p, cdf=normal, log_prob=density)
    >>> slope = jax.grad(draw)({"mean": 1.0, "scale": 2.0})  # of mean + scale z, z = 1
    >>> print(f"{slope['mean']:.4f} {slope['scale']:.4f}")
    1.0000 1.0000
    """
    x = as_float(x, "x")
    parameters = jax.tree.map(lambda p: as_float(p, "parameters"), parameters)
    for name, f in (("cdf", cdf), ("log_prob", log_prob)):
        shape = getattr(jax.eval_shape(f, x, parameters), "shape", None)
        expected = f"a function to arrays of the shape of x, {x.shape}"
        require(shape == x.shape, name, expected, f"shape {shape}")

    def velocity(x: Array, parameters: PyTree, change: PyTree) -> Array:
        cdf_change = jax.jvp(lambda p: cdf(x, p), (parameters,), (change,))[1]
        return -cdf_change * jnp.exp(-log_prob(x, parameters))

    return moving(x, parameters, velocity)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def moving(
    x: Float[Array, "*shape"], parameters: PyTree, velocity: Callable[[Array, Any, Any], Array]
) -> Array:
    """`x` with the derivative `velocity`, a function (x, parameters, change of the parameters) ->
    change of x."""
    return x


@moving.defjvp
def _moving_jvp(velocity: Callable, primals: tuple, tangents: tuple) -> tuple:
    x = moving(*primals, velocity)  # x moves too, in derivatives of this derivative
    return x, velocity(x, primals[1], tangents[1])


MOST = 21_201
"""The largest number of coordinates of SciPy's direction numbers."""
_BITS = 23
"""Binary digits of a uniform number; with these it is never 0 or 1 in float32."""


@functools.lru_cache(maxsize=16)
def points(count: int, dim: int) -> UInt32[np.ndarray, "count dim"]:
    """The first points of a Sobol sequence of fixed scrambling, as fractions of 2^32; ValueError if
    `dim` exceeds its coordinates.

    >>> points(4, 2).shape
    (4, 2)
    """
    from scipy.stats import qmc  # imported here, because it takes as long to import as JAX itself

    remedy = "Leave it out: draws are then independent."
    require(dim <= MOST, "quasi", f"at most {MOST} coordinates", dim, remedy)
    rule = qmc.Sobol(dim, rng=np.random.default_rng(0))
    uniforms = rule.random_base2(math.ceil(math.log2(max(count, 1))))[:count]
    return (uniforms * 2.0**32).astype(np.uint32)


def fixed_normals(count: int, dim: int, dtype: DTypeLike) -> Float[Array, "count dim"]:
    """Standard normal points without a random shift, for expectations that take no key."""
    return _normal(jnp.asarray(points(count, dim)), dtype)


def quasi_normal(
    key: PRNGKeyArray, index: Int[Array, ""], count: int, dim: int, dtype: DTypeLike
) -> Float[Array, " dim"]:
    """Point `index` of `count` standard normal points; `key` draws the shift, so points of one key
    belong together.

    >>> all_of = lambda key: jax.vmap(lambda i: quasi_normal(key, i, 64, 3, jnp.float32))(jnp.arange(64))
    >>> bool(jnp.all(jnp.abs(all_of(jax.random.key(0)).mean(0)) < 0.05))  # independent ones: 0.125 on average
    True
    """
    shift = jax.random.bits(key, (dim,), jnp.uint32)
    return _normal(jnp.asarray(points(count, dim))[index] ^ shift, dtype)


def _normal(fraction: UInt32[Array, "*shape"], dtype: DTypeLike) -> Float[Array, "*shape"]:
    cell = (fraction >> (32 - _BITS)).astype(dtype)
    return ndtri((cell + 0.5) / 2**_BITS)
