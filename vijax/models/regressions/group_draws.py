"""Responses drawn from hierarchical regressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from vijax.checks import require
from vijax.contract.queries import Generative, Values
from vijax.inference.likelihood import Likelihood
from vijax.models.emission.gaussian import normal_draw

Responses = Callable[[Values, Float[Array, "J n"], PRNGKeyArray], Float[Array, "J n"]]
"""(values of the globals, x' b, key) -> y."""
Groups = tuple[Array, Array, Array]


def real_responses(values: Values, mean: Float[Array, "J n"], key: PRNGKeyArray) -> Float[Array, "J n"]:
    """Normal draws of precision `noise`."""
    return mean + jax.random.normal(key, mean.shape, mean.dtype) / jnp.sqrt(values["noise"])


def labels_of(likelihood: Likelihood) -> Responses:
    """Labels drawn from a likelihood of x' b."""
    draw: Any = likelihood.sample
    return lambda values, mean, key: draw(key, mean)


def of_population(responses: Responses, check: Callable[[Any], None]) -> Generative:
    """Draws for groups whose coefficients come from one population."""

    def layout(like: Any) -> Groups:
        triple = isinstance(like, tuple)
        remedy = "See vijax.models.group_rows."
        require(triple, "like", "data (x, y, mask), of which x and mask are kept", type(like).__name__, remedy)
        check(like)
        x, y, mask = like
        dtype = jnp.result_type(float)
        return jnp.asarray(x, dtype), jnp.asarray(y, dtype), jnp.asarray(mask, bool)

    def local(hyper: Any, values: Values, layout: Groups, key: PRNGKeyArray) -> dict[str, Array]:
        people = values["population"]
        full = people.precision.ndim == 2
        factor = jnp.linalg.cholesky(people.precision) if full else jnp.diag(jnp.sqrt(people.precision))
        one = lambda key: normal_draw(key, people.mean, factor)
        return {"coefficients": jax.vmap(one)(jax.random.split(key, len(layout[0])))}

    def data(hyper: Any, values: Values, local: Values, layout: Groups, key: PRNGKeyArray) -> Float[Array, "J n"]:
        x, _, mask = layout
        mean = jnp.einsum("jnd,jd->jn", x, local["coefficients"], precision="highest")
        return jnp.where(mask, responses(values, mean, key), jnp.nan)

    observed = lambda layout, data: jnp.where(layout[2], layout[1], jnp.nan)
    found = lambda stats, local: {"coefficients": local["coefficients"]}  # the other locals only augment
    return Generative(layout, data, local, observed, found)
