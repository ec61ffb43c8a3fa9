"""Some of the sites: what a step reads."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from vijax.batch import as_minibatch
from vijax.families.base import require
from vijax.models.predictors import PredictorModel


class Batch(NamedTuple):
    """Some of the N sites.

    Attributes:
      rows: which.
      y: their observations.
      weights: 1 for a site, 0 for padding.
      total: N.
    """

    rows: Int[Array, " batch"]
    y: Array
    weights: Float[Array, " batch"]
    total: Float[Array, ""]

    @property
    def scale(self) -> Float[Array, ""]:
        """N / S."""
        return self.total / jnp.maximum(jnp.sum(self.weights), 1)


def as_batch(batch: Any, model: PredictorModel, dtype: Any) -> Batch:
    """The rows, observations and weights of a step, checked against the model as far as shapes can tell.

    Raises:
      ValueError: an empty batch, or one of a data set of another size than the model's.
    """
    given = as_minibatch(batch, model.num_sites, True)
    expected = "{'site': rows, 'y': observations}, as model.data is"
    require(isinstance(given.data, dict) and set(given.data) == {"site", "y"}, "batch", expected, type(given.data))
    size = jnp.shape(given.data["site"])[0]
    require(size > 0, "batch", "at least one site", size)
    total = model.num_sites if given.num_groups is None else given.num_groups
    if not isinstance(total, jax.core.Tracer):
        require(int(total) == model.num_sites, "batch.num_groups", f"N = {model.num_sites} sites", total)
    rows = given.data["site"]
    if not isinstance(rows, jax.core.Tracer):
        inside = (np.asarray(rows) >= 0) & (np.asarray(rows) < model.num_sites)
        require(inside, "batch", f"sites from 0 to {model.num_sites - 1}", rows)
    weights = jnp.ones(size, dtype) if given.weights is None else jnp.asarray(given.weights, dtype)
    return Batch(jnp.asarray(rows), given.data["y"], weights, jnp.asarray(total, dtype))
