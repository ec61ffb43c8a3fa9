"""Likelihoods of one observation given the output of a decoder: log p(x | output)."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.arguments import Positive, check_arguments
from vijax.checks import require
from vijax.families.numeric.logistic import softplus


class Observed(abc.ABC):
    """A likelihood of observations given the output of a network."""

    @abc.abstractmethod
    def log_prob(self, output: PyTree, x: Array) -> Float[Array, ""]:
        """log p(x | output), summed over the entries of one observation."""

    @abc.abstractmethod
    def mean(self, output: PyTree) -> Array:
        """E[x | output]."""

    @abc.abstractmethod
    def sample(self, key: PRNGKeyArray, output: PyTree) -> Array:
        """A draw of x."""

    @abc.abstractmethod
    def check(self, x: Any) -> None:
        """Raises ValueError for observations outside the support."""


@dataclasses.dataclass(frozen=True)
class bernoulli(Observed):
    """Entries 0 or 1; the output is their logits."""

    def log_prob(
        self, output: Float[Array, "*event"], x: Float[Array, "*event"]
    ) -> Float[Array, ""]:
        """sum x l - log(1 + exp l)."""
        _check_shape("logits", output, jnp.shape(x), x)
        return jnp.sum(x * output - softplus(output))

    def mean(self, output: Float[Array, "*event"]) -> Float[Array, "*event"]:
        return jax.nn.sigmoid(output)

    def sample(self, key: PRNGKeyArray, output: Float[Array, "*event"]) -> Float[Array, "*event"]:
        return jax.random.bernoulli(key, self.mean(output)).astype(output.dtype)

    def check(self, x: Any) -> None:
        """Raises ValueError unless entries are 0 or 1."""
        x = np.asarray(x)
        remedy = "Binarise grey values, x > 0.5, or use vijax.models.networks.observed.gaussian()."
        require((x == 0) | (x == 1), "data", "entries 0 or 1 for a Bernoulli decoder", x, remedy)


@check_arguments
@dataclasses.dataclass(frozen=True)
class gaussian(Observed):
    """Real entries. With `sd` the output is their means. Without it the output is a pair of means
    and log standard deviations, or of means and one log standard deviation for all entries.

    Args:
      sd: standard deviation of the noise; unset: learnt.
    """

    sd: Positive | None = None

    def log_prob(self, output: Any, x: Float[Array, "*event"]) -> Float[Array, ""]:
        mean, log_sd = self._mean_and_log_sd(output)
        _check_shape("means", mean, jnp.shape(x), x)
        if jnp.shape(log_sd) != ():  # one log sd for all entries
            _check_shape("log standard deviations", log_sd, jnp.shape(x), x)
        log_sd = jnp.broadcast_to(log_sd, jnp.shape(x))
        return jnp.sum(
            -0.5 * ((x - mean) * jnp.exp(-log_sd)) ** 2 - log_sd - 0.5 * jnp.log(2 * jnp.pi)
        )

    def mean(self, output: Any) -> Float[Array, "*event"]:
        return self._mean_and_log_sd(output)[0]

    def sample(self, key: PRNGKeyArray, output: Any) -> Float[Array, "*event"]:
        mean, log_sd = self._mean_and_log_sd(output)
        return mean + jnp.exp(log_sd) * jax.random.normal(key, mean.shape, mean.dtype)

    def check(self, x: Any) -> None:
        """Raises ValueError unless entries are finite."""
        x = np.asarray(x)
        require(np.isfinite(x), "data", "finite numbers", x)

    def _mean_and_log_sd(self, output: Any) -> tuple[Array, Array]:
        if self.sd is not None:
            return output, jnp.full_like(output, np.log(self.sd))
        is_pair = isinstance(output, tuple | list) and len(output) == 2
        remedy = "Or give the standard deviation: gaussian(sd=...)."
        require(
            is_pair,
            "decoder",
            "a pair (mean, log sd) for a Gaussian",
            type(output).__name__,
            remedy,
        )
        return output[0], output[1]


@dataclasses.dataclass(frozen=True)
class categorical(Observed):
    """Whole numbers 0, ..., K - 1; the output is logits with a last axis of K."""

    num_classes: int

    def log_prob(self, output: Float[Array, "*event K"], x: Array) -> Float[Array, ""]:
        """log softmax at the class."""
        _check_shape("logits", output, (*jnp.shape(x), self.num_classes), x)
        one_hot = jax.nn.one_hot(jnp.asarray(x, jnp.int32), self.num_classes, dtype=output.dtype)
        return jnp.sum(one_hot * jax.nn.log_softmax(output, -1))

    def mean(self, output: Float[Array, "*event K"]) -> Float[Array, "*event K"]:
        return jax.nn.softmax(output, -1)

    def sample(self, key: PRNGKeyArray, output: Float[Array, "*event K"]) -> Float[Array, "*event"]:
        """Classes, as floats."""
        return jax.random.categorical(key, output).astype(output.dtype)

    def check(self, x: Any) -> None:
        """Raises ValueError unless entries are whole numbers below the number of classes."""
        x = np.asarray(x)
        expected = f"whole numbers from 0 to {self.num_classes - 1}"
        require((x >= 0) & (x < self.num_classes) & (x == np.floor(x)), "data", expected, x)


def _check_shape(what: str, output: Any, shape: tuple[int, ...], x: Any) -> None:
    """Raises ValueError for an output of another shape, which would be broadcast against the
    observation."""
    remedy = (
        f"An observation has shape {jnp.shape(x)}: reshape what the network returns, or the data."
    )
    require(
        jnp.shape(output) == shape, "decoder", f"{what} of shape {shape}", jnp.shape(output), remedy
    )
