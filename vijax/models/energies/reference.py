"""The information of data on variables whose law depends on others: a normal for each coordinate,
and what it moves with."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

NUM_DRIVERS = 16
"""Combinations of variables that may move what the data say of others."""
LARGEST_GROWTH = 10.0
"""Largest change of a log J: far from where it was learnt, an affine function may be anything."""


class Trends(NamedTuple):
    """A part of what the data say that moves with variables without a law: log J and h / J are
    affine in few combinations t = drivers x - center of these."""

    linear: Float[Array | np.ndarray, " D"]  # h where t is zero
    information: Float[Array | np.ndarray, " D"]  # J there
    drivers: Float[Array | np.ndarray, "K D"]  # zero but for variables without a law
    center: Float[Array | np.ndarray, " K"]
    growth: Float[Array | np.ndarray, "D K"]  # of log J with t
    shift: Float[Array | np.ndarray, "D K"]  # of h / J with t

    @classmethod
    def none(cls, dim: int) -> Trends:
        """Nothing moves."""
        zeros = functools.partial(np.zeros, dtype=jnp.result_type(float))
        wide = dim, NUM_DRIVERS
        return cls(
            zeros(dim), zeros(dim), zeros(wide[::-1]), zeros(NUM_DRIVERS), zeros(wide), zeros(wide)
        )

    def evaluate(self, x: Float[Array, " D"]) -> tuple[Float[Array, " D"], Float[Array, " D"]]:
        """h and J of this part; entries of x with a law are not read."""
        times = functools.partial(jnp.matmul, precision="highest")
        t = times(jnp.asarray(self.drivers), x) - self.center
        grown = jnp.clip(times(jnp.asarray(self.growth), t), -LARGEST_GROWTH, LARGEST_GROWTH)
        factor = jnp.exp(grown)
        return factor * (
            self.linear + self.information * times(jnp.asarray(self.shift), t)
        ), factor * self.information


class Information(NamedTuple):
    """The information of data on coordinates x at values of other variables: about h x - J x^2 / 2
    + s J (x - c)^3 / 6, c being the middle."""

    linear: Float[Array, " D"]  # h
    information: Float[Array, " D"]  # J
    skew: Float[Array, " D"]  # s

    def part(self, rows: slice, shape: tuple[int, ...]) -> Information:
        """That of some coordinates, in the shape of a variable."""
        return Information(*(part[rows].reshape(shape) for part in self))


class Reference(NamedTuple):
    """The stand-in for the information of data on each coordinate, h x - J x^2 / 2: a fixed part,
    and one that moves with other variables; and how skewed it is."""

    linear: Float[Array | np.ndarray, " D"]  # h of the fixed part
    # J of it, not negative; infinite for variables that are their own coordinates
    information: Float[Array | np.ndarray, " D"]
    # Third derivative of what the data say, relative to J, in units of 1 / x
    skew: Float[Array | np.ndarray, " D"]
    trends: Trends

    @classmethod
    def constant(
        cls, linear: Float[np.ndarray, " D"], information: Float[np.ndarray, " D"]
    ) -> Reference:
        """One that is the same whatever other variables are."""
        dtype = jnp.result_type(float)
        skew = np.zeros(len(linear), dtype)
        return cls(
            np.asarray(linear, dtype),
            np.asarray(information, dtype),
            skew,
            Trends.none(len(linear)),
        )

    @classmethod
    def no_information(cls, dim: int) -> Reference:
        """That of data which say nothing."""
        return cls.constant(np.zeros(dim), np.zeros(dim))

    @classmethod
    def identity(cls, dim: int) -> Reference:
        """That of free coordinates: all variables stay as they are."""
        return cls.constant(np.zeros(dim), np.full(dim, np.inf))

    def information_at(self, x: Float[Array, " D"]) -> Information:
        """The information of data at values of the variables without a law; other entries of x are
        not read."""
        linear, information = self.trends.evaluate(x)
        fixed = jnp.where(jnp.isinf(self.information), 0.0, self.information)
        return Information(
            jnp.asarray(self.linear + linear), fixed + information, jnp.asarray(self.skew)
        )

    @property
    def is_identity(self) -> bool:
        """True where all variables stay as they are."""
        return bool(np.isinf(np.asarray(self.information)).all())
