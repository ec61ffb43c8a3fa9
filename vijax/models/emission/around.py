"""Gaussian emissions whose components have coordinates about nearby places instead of zero.

Messages hold squares of the data. For a component at 1,000,000 with a deviation of a thousandth,
the square of the mean is 1e18 times the variance, and float64 has sixteen digits. About a place
near the component nothing cancels."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from vijax.checks import require
from vijax.models.emission.base import Emission, Marginal, require_complete
from vijax.xla.by_value import cache_by_value


@cache_by_value
def around(emission: Emission, places: Any) -> Emission:
    """The emission of observations less the place of each component: means are differences from
    these places.

    Args:
      emission: one of the Gaussian emissions but `tied_gaussian`, or `blurred` of one. Its prior is
          of the differences.
      places: (K, D).

    Raises:
      ValueError: places of another shape, or components that share parameters.

    >>> from vijax.models.emission import diagonal_gaussian
    >>> from vijax.families import NormalGamma
    >>> q = NormalGamma.from_parameters(np.full((2, 1), 0.5), np.ones((2, 1)), np.ones((2, 1)), np.ones((2, 1)))
    >>> near = around(diagonal_gaussian(2, dim=1), np.array([[0.0], [7.0]]))
    >>> print(np.asarray(near.log_likelihood(q.expected_stats(), np.array([7.5])), float).round(2))
    [-26.21  -1.71]
    """
    require_complete(emission, "around(emission, places)")
    places = np.asarray(places)
    shape = emission.num_components, emission.example.shape[-1]
    require(places.shape == shape, "places", f"shape {shape}", places.shape)
    is_separate = emission.shared_by is None
    require(is_separate, "emission", "components that share no parameters", "tied_gaussian")

    def log_likelihood(s: Any, y: Array) -> Float[Array, " K"]:
        def component_density(stats: Any, place: Array) -> Float[Array, ""]:
            single = jax.tree.map(lambda x: x[None], stats)
            return emission.log_likelihood(single, y - place)[0]

        return jax.vmap(component_density)(s, places)

    marginal = emission.marginal
    if marginal is not None:
        marginal = Marginal(_marginal_around(marginal, places), is_linear=marginal.is_linear)
    scored_as = None if emission.scored_as is None else around(emission.scored_as, places)
    return dataclasses.replace(
        emission,
        log_likelihood=log_likelihood,
        scored_as=scored_as,
        predictive=None,
        sample=None,
        expects=None,
        marginal=marginal,
    )


def _marginal_around(marginal: Marginal, places: np.ndarray) -> Any:
    """The density of the observed cells of a row less the place of each component."""

    def log_likelihood(s: Any, y: Array, noise: float = 0.0) -> Float[Array, " K"]:
        def component_density(stats: Any, place: Array) -> Float[Array, ""]:
            single = jax.tree.map(lambda x: x[None], stats)
            return marginal.log_likelihood(single, y - place, noise)[0]

        return jax.vmap(component_density)(s, jnp.asarray(places))

    return log_likelihood
