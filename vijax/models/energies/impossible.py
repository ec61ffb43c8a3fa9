"""Events of probability zero in a model written as an energy: structural zeros.

A log joint of minus infinity cannot be a term of an energy, because at a statistic of 0 it is 0 times -inf. So the
model has two multilinear functions, the energy E of possible events and the number C of impossible events:

    log p(y_n, z_n | beta) = E    where C = 0,    -inf    where C > 0.

Under q the expectation of C is C at the mean statistics, a sum of products of probabilities: it is zero exactly if q
gives no impossible event any weight. Each event costs `PENALTY`, in the natural parameters alone, where it makes a
probability underflow to exactly zero; the bound adds PENALTY times C, which is then PENALTY times 0. E and C are never
added before C is known to be zero, because the sum would lose E in float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.families import Categorical

PENALTY = -1e20
"""Nats of an impossible event: out of reach of any data, and 1e18 of them are finite in float32."""

Stats = Mapping[str, Any]


class Affine(NamedTuple):
    """An affine function of the statistics of locals of which no two are coupled: value + <slopes, t(z)>.

    Attributes:
      value: the function at statistics of zero.
      slopes: its gradient, by name of local.
    """

    value: Float[Array, ""]
    slopes: dict[str, Any]

    def at(self, stats: Stats) -> Float[Array, ""]:
        """The value at statistics of the locals."""
        terms = jax.tree.map(jnp.vdot, self.slopes, dict(stats))
        return self.value + sum(jax.tree.leaves(terms))


def penalised(template: Any, natural: Any, count: Any) -> Any:
    """Natural parameters that give impossible values probability zero.

    Args:
      template: a member of the family.
      natural: gradient of the energy in its statistics.
      count: gradient of the number of impossible events.

    Returns:
      natural + PENALTY count. For a categorical the smallest count of any class is subtracted first, which changes no
      probability: where all classes are impossible under q of the others, the least impossible remain, with their own
      natural parameters, and coordinate ascent goes on towards possible values.
    """
    if isinstance(template, Categorical):
        count = jax.tree.map(_above_least, count)
    leaves = zip(jax.tree.leaves(natural), jax.tree.leaves(count), strict=True)
    return template.with_naturals([n + PENALTY * c for n, c in leaves])


def _above_least(count: Float[Array, "*batch K"]) -> Float[Array, "*batch K"]:
    """Counts less the smallest of them; differences as small as rounding count as zero, because times the penalty they
    would outweigh everything."""
    gap = count - jnp.min(count, axis=-1, keepdims=True)
    return jnp.where(gap > 1e-6 * jnp.max(jnp.abs(count), axis=-1, keepdims=True), gap, 0.0)
