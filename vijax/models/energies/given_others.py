"""The law of a variable given other variables and the data, and its standard noise.

Where entries depend on each other only through other variables, the law of each is bent, too, because data as counts
are skewed. A standard normal z becomes

    u(z) = (z + a (sqrt(1 + z^2) - m)) / sqrt(1 + v a^2),    |a| < 1,

with mean 0 and variance 1 (m and v are mean and variance of sqrt(1 + z^2)) and a skewness of about 3 c a, c being the
covariance of z^2 and sqrt(1 + z^2). It rises everywhere, is like a normal of another scale in either tail, and
z is known where u is.
"""

from __future__ import annotations

import abc
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.contract.variables import Law
from vijax.models.energies.reference import Said

LOG_2PI = float(np.log(2 * np.pi))
MEAN, VARIANCE, COVARIANCE = 1.3545308, 0.1652463, 0.5648908
"""m, v and c above."""
MOST_BENT = 0.6
"""Largest |a|: a skewness of 1."""


class Moved(NamedTuple):
    """Coordinates at standard noise."""

    x: Float[Array, "*shape n"]
    log_volume: Float[Array, ""]  # log |d x / d z|


class GivenOthers(abc.ABC):
    """The law of a variable given others and the data."""

    @abc.abstractmethod
    def point(self, z: Float[Array, "*shape n"]) -> Moved:
        """The coordinates at standard noise."""

    @abc.abstractmethod
    def noise(self, x: Float[Array, "*shape n"]) -> Float[Array, "*shape n"]:
        """The standard noise of coordinates."""

    @abc.abstractmethod
    def log_law(self, x: Float[Array, "*shape n"]) -> Float[Array, ""]:
        """The log density without data."""


def given_others(law: Law, said: Said) -> GivenOthers:
    """The law of a variable, of the shape of what the data say of it."""
    shape, dtype = said.linear.shape, said.linear.dtype
    loc = jnp.broadcast_to(jnp.asarray(law.loc, dtype), shape)
    if jnp.ndim(law.scale) == len(shape) + 1:
        return Dependent(law, loc, said)
    return Independent(law, loc, said)


class Independent(GivenOthers):
    """Entries that do not depend on each other: center + sd u(z)."""

    def __init__(self, law: Law, loc: Float[Array, "*shape n"], said: Said):
        self._loc = loc
        self._scale = jnp.broadcast_to(jnp.asarray(law.scale, loc.dtype), loc.shape)
        self._sd = self._scale / jnp.sqrt(1 + said.information * self._scale * self._scale)
        pull = said.linear - said.information * loc
        self._center = loc + self._sd * (self._sd * pull)  # no square of a large scale times zero
        skewness = said.skew * said.information * self._sd * self._sd * self._sd
        self._bend = jnp.clip(skewness / (3 * COVARIANCE), -MOST_BENT, MOST_BENT)
        self._unit = jnp.sqrt(1 + VARIANCE * self._bend * self._bend)

    def point(self, z: Float[Array, "*shape n"]) -> Moved:
        far = jnp.sqrt(1 + z * z)
        u = (z + self._bend * (far - MEAN)) / self._unit
        slope = (1 + self._bend * z / far) / self._unit
        return Moved(self._center + self._sd * u, jnp.sum(jnp.log(self._sd * slope)))

    def noise(self, x: Float[Array, "*shape n"]) -> Float[Array, "*shape n"]:
        a = self._bend
        w = (x - self._center) / self._sd * self._unit + a * MEAN
        return (w - a * jnp.sqrt(w * w + (1 - a * a))) / (1 - a * a)

    def log_law(self, x: Float[Array, "*shape n"]) -> Float[Array, ""]:
        noise = (x - self._loc) / self._scale
        return -jnp.sum(0.5 * (noise * noise + LOG_2PI) + jnp.log(self._scale))


class Dependent(GivenOthers):
    """Entries whose law has a factor L of its covariance: center + L R'^-1 z."""

    def __init__(self, law: Law, loc: Float[Array, "*shape n"], said: Said):
        size = loc.shape[-1]
        self._loc = loc
        self._scale = scale = jnp.broadcast_to(jnp.asarray(law.scale, loc.dtype), (*loc.shape, size))
        inner = jnp.eye(size, dtype=loc.dtype) + _turned(scale) @ (said.information[..., None] * scale)
        self._root = jnp.linalg.cholesky(inner)
        pull = _times(_turned(scale), said.linear - said.information * loc)
        self._center = loc + _times(scale, jax.scipy.linalg.cho_solve((self._root, True), pull[..., None])[..., 0])

    def point(self, z: Float[Array, "*shape n"]) -> Moved:
        solved = jax.scipy.linalg.solve_triangular(self._root, z[..., None], trans=1, lower=True)[..., 0]
        volume = jnp.sum(_logs_of_diagonal(self._scale)) - jnp.sum(_logs_of_diagonal(self._root))
        return Moved(self._center + _times(self._scale, solved), volume)

    def noise(self, x: Float[Array, "*shape n"]) -> Float[Array, "*shape n"]:
        solved = jnp.linalg.solve(self._scale, (x - self._center)[..., None])[..., 0]
        return _times(_turned(self._root), solved)

    def log_law(self, x: Float[Array, "*shape n"]) -> Float[Array, ""]:
        gap = (x - self._loc)[..., None]
        noise = jax.scipy.linalg.solve_triangular(self._scale, gap, lower=True)
        return -0.5 * jnp.sum(noise * noise + LOG_2PI) - jnp.sum(_logs_of_diagonal(self._scale))


def _turned(matrix: Float[Array, "*shape n n"]) -> Float[Array, "*shape n n"]:
    return jnp.swapaxes(matrix, -1, -2)


def _times(matrix: Float[Array, "*shape n n"], x: Float[Array, "*shape n"]) -> Float[Array, "*shape n"]:
    return (matrix @ x[..., None])[..., 0]


def _logs_of_diagonal(factor: Float[Array, "*shape n n"]) -> Float[Array, "*shape n"]:
    return jnp.log(jnp.abs(jnp.diagonal(factor, axis1=-2, axis2=-1)))
