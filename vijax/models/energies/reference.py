"""The information of data on variables whose law depends on others: a normal for each coordinate,
which may depend on other variables."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

NUM_DRIVERS = 16
"""Combinations of variables on which the information may depend."""
LARGEST_GROWTH = 10.0
"""Largest change of log J: far from the points where it was learnt, the affine function is
arbitrary."""


class Trends(NamedTuple):
    """The part of the information that depends on variables without a law: log J and h / J are
    affine in a few combinations t = drivers x - center of these variables."""

    linear: Float[Array | np.ndarray, " D"]  # h at t = 0
    information: Float[Array | np.ndarray, " D"]  # J at t = 0
    drivers: Float[Array | np.ndarray, "K D"]  # zero except for variables without a law
    center: Float[Array | np.ndarray, " K"]
    growth: Float[Array | np.ndarray, "D K"]  # slopes of log J in t
    shift: Float[Array | np.ndarray, "D K"]  # slopes of h / J in t

    @classmethod
    def none(cls, dim: int) -> Trends:
        """No part that depends on other variables."""
        zeros = functools.partial(np.zeros, dtype=jnp.result_type(float))
        return cls(
            linear=zeros(dim),
            information=zeros(dim),
            drivers=zeros((NUM_DRIVERS, dim)),
            center=zeros(NUM_DRIVERS),
            growth=zeros((dim, NUM_DRIVERS)),
            shift=zeros((dim, NUM_DRIVERS)),
        )

    def evaluate(self, x: Float[Array, " D"]) -> tuple[Float[Array, " D"], Float[Array, " D"]]:
        """h and J of this part; entries of x with a law are not read."""
        times = functools.partial(jnp.matmul, precision="highest")
        t = times(jnp.asarray(self.drivers), x) - self.center
        log_growth = jnp.clip(times(jnp.asarray(self.growth), t), -LARGEST_GROWTH, LARGEST_GROWTH)
        factor = jnp.exp(log_growth)
        linear = self.linear + self.information * times(jnp.asarray(self.shift), t)
        return factor * linear, factor * self.information


class Information(NamedTuple):
    """The information of data on coordinates x at values of other variables: roughly h x - J x^2 /
    2 + s J (x - c)^3 / 6, where c is the middle."""

    linear: Float[Array, " D"]  # h
    information: Float[Array, " D"]  # J
    skew: Float[Array, " D"]  # s

    def part(self, rows: slice, shape: tuple[int, ...]) -> Information:
        """The information on some coordinates, in the shape of a variable."""
        return Information(*(part[rows].reshape(shape) for part in self))


class Reference(NamedTuple):
    """An approximation of the information of data on each coordinate, h x - J x^2 / 2: a constant
    part and one that depends on other variables; and its skewness."""

    linear: Float[Array | np.ndarray, " D"]  # h of the constant part
    # J of the constant part, not negative; infinite for variables that are their own coordinates
    information: Float[Array | np.ndarray, " D"]
    # Third derivative of the log likelihood relative to J, in units of 1 / x
    skew: Float[Array | np.ndarray, " D"]
    trends: Trends

    @classmethod
    def constant(
        cls, linear: Float[np.ndarray, " D"], information: Float[np.ndarray, " D"]
    ) -> Reference:
        """Information that does not depend on other variables."""
        dtype = jnp.result_type(float)
        dim = len(linear)
        return cls(
            linear=np.asarray(linear, dtype),
            information=np.asarray(information, dtype),
            skew=np.zeros(dim, dtype),
            trends=Trends.none(dim),
        )

    @classmethod
    def no_information(cls, dim: int) -> Reference:
        """The information of data without any."""
        return cls.constant(np.zeros(dim), np.zeros(dim))

    @classmethod
    def identity(cls, dim: int) -> Reference:
        """Infinite information: the coordinates are the variables."""
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
        """True if the coordinates are the variables."""
        return bool(np.isinf(np.asarray(self.information)).all())
