"""Forms of a conditional density whose integral is known, as functions of one free coordinate z:

    Beta:           f(z) = a log s(z) + b log s(-z),    s the logistic function,
    gamma:          f(z) = a z - b exp(z),
    inverse gamma:  f(z) = -a z - b exp(-z),
    normal:         f(z) = a z - b z^2 / 2.

Each is linear in a and b. So two slopes determine them, at any two points."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from vijax.families.numeric.special import stirling_gap

Numbers = Float[Array | np.ndarray, "*shape"]
SMALLEST = 1e-6
"""The least a and b for a mode."""
HALF_LOG_TWO_PI = 0.5 * float(np.log(2 * np.pi))


class Form(abc.ABC):
    """A form, f(z) = a t(z) + b u(z)."""

    @abc.abstractmethod
    def basis(self, z: Numbers) -> tuple[Numbers, Numbers]:
        """The slopes t'(z) and u'(z)."""

    def solve(
        self, z: tuple[Numbers, Numbers], slopes: tuple[Numbers, Numbers]
    ) -> tuple[Numbers, Numbers]:
        """a and b from the slopes of f at two points."""
        (t, u), (t2, u2) = self.basis(z[0]), self.basis(z[1])
        determinant = t * u2 - t2 * u
        a = (slopes[0] * u2 - slopes[1] * u) / determinant
        b = (slopes[1] * t - slopes[0] * t2) / determinant
        return a, b

    def slope(self, z: Numbers, a: Numbers, b: Numbers) -> Numbers:
        """f'(z)."""
        t, u = self.basis(z)
        return a * t + b * u

    @abc.abstractmethod
    def is_proper(self, a: Numbers, b: Numbers) -> Bool[Any, "*shape"]:
        """True where the integral is finite."""

    @abc.abstractmethod
    def middle(self, a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
        """The mode of f, and the standard deviation by its curvature there; where rounding has made
        a or b negative, those of small numbers."""

    @abc.abstractmethod
    def log_integral(self, z: Numbers, a: Numbers, b: Numbers) -> Numbers:
        """log of the integral of exp(f), less f(z)."""

    @abc.abstractmethod
    def draw(self, key: PRNGKeyArray, a: Numbers, b: Numbers) -> Numbers:
        """A draw of z from the density exp(f), normalised."""


@dataclasses.dataclass(frozen=True)
class BetaForm(Form):
    """The logit of a beta variable."""

    def basis(self, z: Numbers) -> tuple[Numbers, Numbers]:
        return jax.nn.sigmoid(-z), -jax.nn.sigmoid(z)

    def is_proper(self, a: Numbers, b: Numbers) -> Bool[Any, "*shape"]:
        return (a > 0) & (b > 0)

    def middle(self, a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
        a, b = _floor(a), _floor(b)
        return jnp.log(a) - jnp.log(b), jnp.sqrt(1 / a + 1 / b)

    def log_integral(self, z: Numbers, a: Numbers, b: Numbers) -> Numbers:
        total = a + b
        # log B(a, b) by Stirling's formula, so that terms of size a log a cancel with those of f.
        from_a = a * (jnp.log(a / total) + jax.nn.softplus(-z))
        from_b = b * (jnp.log(b / total) + jax.nn.softplus(z))
        return from_a + from_b + stirling_gap(a) + stirling_gap(b) - stirling_gap(total)

    def draw(self, key: PRNGKeyArray, a: Numbers, b: Numbers) -> Numbers:
        first, second = jax.random.split(key)
        return jax.random.loggamma(first, a) - jax.random.loggamma(second, b)


@dataclasses.dataclass(frozen=True)
class GammaForm(Form):
    """The logarithm of a gamma variable; with the sign -1 of an inverse gamma variable."""

    sign: int = 1

    def basis(self, z: Numbers) -> tuple[Numbers, Numbers]:
        return jnp.full_like(z, self.sign), -self.sign * jnp.exp(self.sign * z)

    def is_proper(self, a: Numbers, b: Numbers) -> Bool[Any, "*shape"]:
        return (a > 0) & (b > 0)

    def middle(self, a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
        a, b = _floor(a), _floor(b)
        return self.sign * (jnp.log(a) - jnp.log(b)), 1 / jnp.sqrt(a)

    def log_integral(self, z: Numbers, a: Numbers, b: Numbers) -> Numbers:
        y = self.sign * z
        # log Gamma(a) - a log b - a y + b exp(y), in terms of which none is of size a log a.
        return stirling_gap(a) + a * (jnp.log(a / b) - y) + (b * jnp.exp(y) - a)

    def draw(self, key: PRNGKeyArray, a: Numbers, b: Numbers) -> Numbers:
        return self.sign * (jax.random.loggamma(key, a) - jnp.log(b))


@dataclasses.dataclass(frozen=True)
class NormalForm(Form):
    """A normal variable."""

    def basis(self, z: Numbers) -> tuple[Numbers, Numbers]:
        return jnp.ones_like(z), -z

    def solve(
        self, z: tuple[Numbers, Numbers], slopes: tuple[Numbers, Numbers]
    ) -> tuple[Numbers, Numbers]:
        # In this order errors of b cancel in the mean a / b, also where it is far from zero.
        b = (slopes[0] - slopes[1]) / (z[1] - z[0])
        return slopes[0] + b * z[0], b

    def is_proper(self, a: Numbers, b: Numbers) -> Bool[Any, "*shape"]:
        return b > 0

    def middle(self, a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
        b = _floor(b)
        return a / b, 1 / jnp.sqrt(b)

    def log_integral(self, z: Numbers, a: Numbers, b: Numbers) -> Numbers:
        return HALF_LOG_TWO_PI - 0.5 * jnp.log(b) + 0.5 * (a - b * z) ** 2 / b

    def draw(self, key: PRNGKeyArray, a: Numbers, b: Numbers) -> Numbers:
        return a / b + jax.random.normal(key, jnp.shape(a), jnp.result_type(a)) / jnp.sqrt(b)


def _floor(x: Numbers) -> Numbers:
    return jnp.maximum(x, SMALLEST)


NORMAL = NormalForm()
FORMS: tuple[Form, ...] = (NORMAL, BetaForm(), GammaForm(), GammaForm(-1))
"""All forms; at most one of them fits."""
