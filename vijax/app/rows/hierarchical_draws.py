"""Targets drawn from hierarchical regressions: for groups seen in training by their own coefficients, for others by
coefficients drawn from the population."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.app.kinds.listing import Drawing, Seen
from vijax.app.kinds.tables import design, grouped
from vijax.inference import likelihood
from vijax.models.emission.gaussian import normal_draw

LAWS = {"probit": likelihood.bernoulli_probit, "logistic": likelihood.bernoulli_logit}
"""The likelihoods of two classes given the predictor, by the name of the response."""


def group_numbers(train: Any, table: Any) -> Int[np.ndarray, " N"]:
    """For each row the place of its group among the groups of training; new groups come after these."""
    if train.groups is None:
        return np.zeros(table.num_rows, int)
    known = {name: place for place, name in enumerate(train.group_names)}
    places = np.array([known.setdefault(name, len(known)) for name in table.group_names])
    return places[table.groups]


def _draw(seen: Seen, table: Any, key: PRNGKeyArray, num_draws: int, groups: Any) -> np.ndarray:
    del groups  # each row says which
    keys = jax.random.split(key, 4)
    group, train = group_numbers(seen.data.train, table), seen.data.train
    sampled = seen.fit.sample(keys[0], num_draws)
    q = seen.fit.locals(grouped(train, seen.settings), key=seen.key)["coefficients"]
    known = q.sample(keys[1], (num_draws,))
    number = max(int(group.max()) + 1 - known.shape[1], 0)
    others = _of_population(sampled["population"], num_draws, number, keys[2])
    coefficients = jnp.concatenate([known, others], axis=1)[:, group]
    mean = jnp.einsum("nd,snd->sn", jnp.asarray(design(table, seen.settings)), coefficients, precision="highest")
    return np.asarray(_responses(seen, sampled, mean, keys[3]))[..., None]


def _of_population(people: Any, num_draws: int, number: int, key: PRNGKeyArray) -> Float[Array, "draws J D"]:
    """Coefficients of a number of groups of which nothing is known."""
    full = people.precision.ndim == 3
    factor = jnp.linalg.cholesky(people.precision) if full else jax.vmap(jnp.diag)(jnp.sqrt(people.precision))
    keys = jax.random.split(key, (num_draws, number))
    of_draw = lambda mean, factor, keys: jax.vmap(lambda key: normal_draw(key, mean, factor))(keys)
    return jax.vmap(of_draw)(people.mean, factor, keys)


def _responses(seen: Seen, sampled: Any, mean: Array, key: PRNGKeyArray) -> Array:
    if seen.settings.response.name == "linear":
        noise = jax.random.normal(key, mean.shape, mean.dtype)
        return mean + noise / jnp.sqrt(sampled["noise"])[:, None]
    law: Any = LAWS[seen.settings.response.name]()
    return law.sample(key, mean)


DRAWING = Drawing(_draw, of_target=True)
