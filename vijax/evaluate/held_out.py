"""Held-out log predictive density of mixtures, exact given the posterior, always in float64."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from vijax.families import Family, Point
from vijax.xla.compiler import numbers_in, once_jit
from vijax.xla.precision import enable_x64


class HeldOut(NamedTuple):
    """Log predictive density of held-out observations, nats per observation.

    Attributes:
      mean: mean over observations.
      standard_error: standard error of the mean; inf for a single observation.
      log_densities: log density of each observation.
    """

    mean: float
    standard_error: float
    log_densities: Float[np.ndarray, " N"]

    @classmethod
    def of(cls, log_densities: Float[np.ndarray, " N"]) -> HeldOut:
        """Mean and standard error of the densities of N observations."""
        n = len(log_densities)
        error = float(log_densities.std(ddof=1) / np.sqrt(n)) if n > 1 else float("inf")
        return cls(float(log_densities.mean()), error, log_densities)

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """The log density of each observation, and ones."""
        return self.log_densities, np.ones(len(self.log_densities))

    def __str__(self) -> str:
        count = len(self.log_densities)
        return f"{self.mean:.3f} ± {self.standard_error:.3f} nats per observation ({count} observations)"


def log_predictive_density(
    emission: Any,
    components: Family | Point | Sequence[Family | Point],
    weights: Float[Array, " K"],
    data: PyTree,
    plug_in: bool = False,
) -> HeldOut:
    """log sum_k w_k E_q[p(y_n | component k)] for each observation.

    Args:
      emission: a `vijax.models.emission.Emission`.
      components: q of the components' parameters, or a `Point`; a sequence of these where some are of another kind.
      weights: expected weights.
      data: observations, (N, D).
      plug_in: p(y | E_q[component k]) instead of E_q[p(y | component k)], as in eq. 36 of Blei, Kucukelbir and
        McAuliffe 2017.
    """
    emission.check(data)
    with enable_x64(True):
        parts = (components,) if isinstance(components, Family | Point) else tuple(components)
        parts, weights, data = jax.tree.map(lambda x: np.asarray(x, np.float64), (parts, weights, data))
        predictive = _plug_in if plug_in else _predictive
        densities = np.asarray(_mixed(predictive, emission, parts, weights, data))
    return HeldOut.of(densities)


def _work(predictive: Any, emission: Any, parts: Any, weights: Array, data: Array) -> int:
    return numbers_in(data) * weights.size


@functools.partial(once_jit, work=_work, static_argnums=(0, 1))
def _mixed(
    predictive: Any, emission: Any, parts: tuple[Family | Point, ...], weights: Array, data: Array
) -> Float[Array, " N"]:
    return jax.nn.logsumexp(jnp.log(weights) + predictive(emission, parts, data), axis=-1)


def _predictive(emission: Any, parts: tuple[Family | Point, ...], data: Array) -> Float[Array, "N K"]:
    return jax.vmap(lambda y: jnp.concatenate([emission.log_predictive(q, y) for q in parts]))(data)


def _plug_in(emission: Any, parts: tuple[Family | Point, ...], data: Array) -> Float[Array, "N K"]:
    plain = emission.scored_as or emission
    stats = [q.stats(q.mean()) for q in parts]
    return jax.vmap(lambda y: jnp.concatenate([plain.log_likelihood(s, y) for s in stats]))(data)
