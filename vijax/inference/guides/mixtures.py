"""Guides that are mixtures."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax.arguments import Size, checked
from vijax.families.numeric import draws as quasi
from vijax.families.vector.normal_mixture import NormalMixture
from vijax.inference.guides.base import Guide


@checked
@dataclasses.dataclass(frozen=True)
class mixture(Guide):
    """A mixture of normals, each with a covariance of its own: K (D + 1) (D + 2) / 2 numbers, for posteriors that are
    skewed, bent, heavy-tailed or have several modes.

    `vijax.auto` adds its components one by one where it sees a need, and finds modes by itself: try that first. In
    `vijax.advi(model, guide=vijax.guides.mixture(4))` an optimiser moves all of it, by draws that are differentiable in
    the weights too (Figurnov, Mohamed and Mnih 2018). There components begin side by side, and a mode far from every
    start is not found.

    Args:
      components: K, how many normals.

    Raises:
      ValueError: fewer than one.

    >>> q = mixture(3).at(jnp.array([1.0, -1.0]), 2.0)
    >>> print(q.center.shape, q.mean().round(3), q.std().round(3))
    (3, 2) [ 1. -1.] [2. 2.]
    """

    components: Size = 8
    is_correlated: ClassVar[bool] = True
    sticks: ClassVar[bool] = True

    def at(self, mean: Float[Array, " D"], sd: float) -> NormalMixture:
        """See `Guide`: half of the variance is between the components."""
        places = quasi.fixed_normals(self.components, mean.size, mean.dtype)
        places = places - jnp.mean(places, 0)
        share = 0.5 if self.components > 1 else 0.0
        places = sd * share**0.5 * places / jnp.maximum(jnp.std(places, 0), 1e-6)
        scale = jnp.log(sd * (1 - share) ** 0.5) * jnp.eye(mean.size, dtype=mean.dtype)
        each = jnp.broadcast_to(scale, (self.components, *scale.shape))
        return NormalMixture(jnp.zeros(self.components, mean.dtype), mean + places, each)
