"""Draws that move with the parameters of their law, however they were drawn: implicit reparameterisation (Figurnov,
Mohamed and Mnih 2018, eq. 6).

A draw x of a law with distribution function F(x; theta) and density p is at the quantile u = F(x; theta). At that
quantile, held fixed, F(x(theta); theta) = u gives

    dx / dtheta  =  -(dF / dtheta) / p(x; theta),

which needs no inverse of F: only its derivative in theta.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from vijax.checks import require
from vijax.families.base import as_float

Of = Callable[[Array, Any], Array]


def implicit(x: Float[Array, "*shape"], parameters: PyTree, *, cdf: Of, log_prob: Of) -> Float[Array, "*shape"]:
    """The draws `x`, unchanged, with their pathwise derivative in `parameters`.

    For laws that can be drawn, by rejection say, but have no quantile function to differentiate. Elementwise: entries
    of `x` are draws of laws of one dimension. Differentiable to any order if `cdf` and `log_prob` are.

    Args:
      x: draws of the law at `parameters`. A derivative of their own is dropped.
      parameters: parameters of the law, a pytree of floats. Only these get a derivative: what the functions close over
        is constant.
      cdf: (x, parameters) -> F(x), of the shape of `x`, differentiable in the parameters. Only its derivative in these
        matters:
        a term that does not depend on the parameters may be missing.
      log_prob: (x, parameters) -> log density, in the same units as `cdf`, of the shape of `x`.

    Raises:
      ValueError: functions that return other shapes, draws or parameters that are no floats.

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
        require(shape == x.shape, name, f"a function to arrays of the shape of x, {x.shape}", f"shape {shape}")

    def velocity(x: Array, parameters: PyTree, change: PyTree) -> Array:
        moved = jax.jvp(lambda p: cdf(x, p), (parameters,), (change,))[1]
        return -moved * jnp.exp(-log_prob(x, parameters))

    return moving(x, parameters, velocity)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def moving(x: Float[Array, "*shape"], parameters: PyTree, velocity: Callable[[Array, Any, Any], Array]) -> Array:
    """`x`, with the derivative given as a function (x, parameters, change of the parameters) -> change of x."""
    del parameters, velocity
    return x


@moving.defjvp
def _moving_jvp(velocity: Callable, primals: tuple, tangents: tuple) -> tuple:
    x = moving(*primals, velocity)  # x moves too, in derivatives of this derivative
    return x, velocity(x, primals[1], tangents[1])
