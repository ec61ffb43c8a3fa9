"""The log density of a model in free coordinates, for samplers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import tree
from vijax.checks import require
from vijax.contract.batch import Minibatch
from vijax.contract.intake import taken
from vijax.contract.model import Hyper, Model
from vijax.fitting.loader import all_groups
from vijax.models.energies.density import LogDensity
from vijax.models.energies.energy import energy_of
from vijax.reference.log_joint import log_joint
from vijax.reference.unconstrained import coordinates, from_free, to_free


class Walk(NamedTuple):
    """The log density of a model in free coordinates.

    Attributes:
      density: log density of free coordinates, up to a constant.
      values: (globals, sampled locals) at free coordinates.
      free: the free coordinates of globals, where no locals are sampled.
      origin: start of the chains,
      spread: and the spread of starts about it.
    """

    density: Callable[[Array], Float[Array, ""]]
    values: Callable[[Array], tuple[dict[str, Any], dict[str, Any]]]
    free: Callable[[dict[str, Any]], Float[Array, " D"]]
    origin: Float[Array, " D"]
    spread: float


def groups_of(model: Model, data: PyTree) -> PyTree:
    """Data as `walk_of` takes them, their numbers checked."""
    if model.log_density is not None:
        return all_groups(data, model)
    return jax.tree.map(jnp.asarray, taken(model, data))


def walk_of(model: Model, data: PyTree, sampled: Sequence[str], key: PRNGKeyArray, hyper: Hyper | None = None) -> Walk:
    """The walk of a log density, or of an energy whose locals are integrated out except those that are sampled.

    Args:
      model: see `vijax.reference.nuts`.
      data: from `groups_of`; they may be traced, as may the hyperparameters.
      sampled: names of locals.
      key: random key of the start of the model's posterior.
      hyper: hyperparameters; the model's own if None.
    """
    if model.log_density is not None:
        return _of_density(model.log_density, data, sampled)
    return _of_energy(model, data, sampled, key, tree.as_arrays(model.hyper if hyper is None else hyper))


def _of_density(own: LogDensity, data: PyTree, sampled: Sequence[str]) -> Walk:
    require(not sampled, "sampled", "none: a density has no locals", list(sampled))

    def density(x: Array) -> Float[Array, ""]:
        return own.log_prior_at(x) + jnp.sum(own.log_liks_at(x, data))

    free = lambda values: own.variables.coordinates({name: values[name] for name in own.variables.names})
    return Walk(density, lambda x: (own.values_at(x), {}), free, jnp.zeros(own.variables.dim), 0.5)


def _of_energy(model: Model, data: PyTree, sampled: Sequence[str], key: PRNGKeyArray, hyper: Hyper) -> Walk:
    density = log_joint(model, data, sampled, hyper)
    posterior = model.init(hyper, key, model.prior(hyper), Minibatch(data, None))
    templates = jax.vmap(lambda y: {name: energy_of(model).locals(y)[name] for name in sampled})(data)
    free = {name: coordinates(q) for name, q in {**posterior, **templates}.items()}
    means = {name: q.mean() for name, q in {**posterior, **templates}.items()}
    origin, unravel = ravel_pytree(to_free(free, means))

    def values_of(x: Array) -> tuple[dict[str, Any], dict[str, Any]]:
        values, _ = from_free(free, unravel(x))
        return {n: values[n] for n in posterior}, {n: values[n] for n in sampled}

    def free_density(x: Array) -> Float[Array, ""]:
        return density(*values_of(x)) + from_free(free, unravel(x))[1]

    def free_of(values: dict[str, Any]) -> Float[Array, " D"]:
        return ravel_pytree(to_free(free, {name: values[name] for name in posterior}))[0]

    return Walk(free_density, values_of, free_of, origin, 0.1)
