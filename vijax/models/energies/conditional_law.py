"""The law of a variable given other variables and the data, and its standard noise.

If entries depend on each other only through other variables, the law of each is bent
(`vijax.models.energies.bend`): data like counts make it skewed."""

from __future__ import annotations

import abc
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.contract.variables import Law
from vijax.models.energies.bend import MOST_BENT, SKEWNESS, bent, unbent
from vijax.models.energies.reference import Information

LOG_2PI = float(np.log(2 * np.pi))


class LawPoint(NamedTuple):
    """Coordinates at standard noise."""

    x: Float[Array, "*shape n"]
    log_volume: Float[Array, ""]  # log |d x / d z|


class ConditionalLaw(abc.ABC):
    """The law of a variable given other variables and the data."""

    @abc.abstractmethod
    def point(self, z: Float[Array, "*shape n"]) -> LawPoint:
        """The coordinates at standard noise."""

    @abc.abstractmethod
    def noise(self, x: Float[Array, "*shape n"]) -> Float[Array, "*shape n"]:
        """The standard noise of coordinates."""

    @abc.abstractmethod
    def log_law(self, x: Float[Array, "*shape n"]) -> Float[Array, ""]:
        """The log density without data."""


def conditional_law(law: Law, information: Information) -> ConditionalLaw:
    """The law of a variable given this information of the data, in the shape of the information."""
    shape, dtype = information.linear.shape, information.linear.dtype
    loc = jnp.broadcast_to(jnp.asarray(law.loc, dtype), shape)
    if jnp.ndim(law.scale) == len(shape) + 1:
        return Dependent(law, loc, information)
    return Independent(law, loc, information)


class Independent(ConditionalLaw):
    """Entries that do not depend on each other: center + sd u(z)."""

    def __init__(self, law: Law, loc: Float[Array, "*shape n"], information: Information):
        self._loc = loc
        self._scale = jnp.broadcast_to(jnp.asarray(law.scale, loc.dtype), loc.shape)
        self._sd = self._scale / jnp.sqrt(1 + information.information * self._scale * self._scale)
        pull = information.linear - information.information * loc
        # Not sd**2: the square of a large scale would overflow.
        self._center = loc + self._sd * (self._sd * pull)
        skewness = information.skew * information.information * self._sd * self._sd * self._sd
        self._bend = jnp.clip(skewness / SKEWNESS, -MOST_BENT, MOST_BENT)

    def point(self, z: Float[Array, "*shape n"]) -> LawPoint:
        change, slope = bent(z, self._bend)
        return LawPoint(self._center + self._sd * (z + change), jnp.sum(jnp.log(self._sd * slope)))

    def noise(self, x: Float[Array, "*shape n"]) -> Float[Array, "*shape n"]:
        return unbent((x - self._center) / self._sd, self._bend)

    def log_law(self, x: Float[Array, "*shape n"]) -> Float[Array, ""]:
        noise = (x - self._loc) / self._scale
        return -jnp.sum(0.5 * (noise * noise + LOG_2PI) + jnp.log(self._scale))


class Dependent(ConditionalLaw):
    """Entries with a covariance L L': center + L R'^-1 z."""

    def __init__(self, law: Law, loc: Float[Array, "*shape n"], information: Information):
        size = loc.shape[-1]
        self._loc = loc
        self._scale = scale = jnp.broadcast_to(
            jnp.asarray(law.scale, loc.dtype), (*loc.shape, size)
        )
        inner = jnp.eye(size, dtype=loc.dtype) + _product(
            _transpose(scale), information.information[..., None] * scale
        )
        self._root = jnp.linalg.cholesky(inner)
        pull = _times(_transpose(scale), information.linear - information.information * loc)
        self._center = loc + _times(
            scale, jax.scipy.linalg.cho_solve((self._root, True), pull[..., None])[..., 0]
        )

    def point(self, z: Float[Array, "*shape n"]) -> LawPoint:
        solved = jax.scipy.linalg.solve_triangular(self._root, z[..., None], trans=1, lower=True)[
            ..., 0
        ]
        volume = jnp.sum(_logs_of_diagonal(self._scale)) - jnp.sum(_logs_of_diagonal(self._root))
        return LawPoint(self._center + _times(self._scale, solved), volume)

    def noise(self, x: Float[Array, "*shape n"]) -> Float[Array, "*shape n"]:
        solved = jnp.linalg.solve(self._scale, (x - self._center)[..., None])[..., 0]
        return _times(_transpose(self._root), solved)

    def log_law(self, x: Float[Array, "*shape n"]) -> Float[Array, ""]:
        gap = (x - self._loc)[..., None]
        noise = jax.scipy.linalg.solve_triangular(self._scale, gap, lower=True)
        return -0.5 * jnp.sum(noise * noise + LOG_2PI) - jnp.sum(_logs_of_diagonal(self._scale))


def _transpose(matrix: Float[Array, "*shape n n"]) -> Float[Array, "*shape n n"]:
    return jnp.swapaxes(matrix, -1, -2)


def _times(
    matrix: Float[Array, "*shape n n"], x: Float[Array, "*shape n"]
) -> Float[Array, "*shape n"]:
    return _product(matrix, x[..., None])[..., 0]


_product = functools.partial(jnp.matmul, precision="highest")


def _logs_of_diagonal(factor: Float[Array, "*shape n n"]) -> Float[Array, "*shape n"]:
    return jnp.log(jnp.abs(jnp.diagonal(factor, axis1=-2, axis2=-1)))
