"""The log density of a model in free coordinates, for samplers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax import families, tree
from vijax.checks import require
from vijax.constrain import positive, positive_definite, real, simplex, unit_interval
from vijax.contract.batch import Minibatch
from vijax.contract.intake import cast_data
from vijax.contract.model import Hyper, Model
from vijax.contract.variables import Z
from vijax.data.loader import all_groups
from vijax.families import CoefficientsPrecision, Family, MeanPrecision
from vijax.models.energies.density import LogDensity
from vijax.models.energies.energy import model_energy
from vijax.reference.log_joint import log_joint


class Walk(NamedTuple):
    """The log density of a model in free coordinates."""

    # Log density of free coordinates, up to a constant
    density: Callable[[Array], Float[Array, ""]]
    # (globals, sampled locals) at free coordinates
    values: Callable[[Array], tuple[dict[str, Any], dict[str, Any]]]
    # Free coordinates of a draw of q, if no locals are sampled
    free: Callable[[dict[str, Any]], Float[Array, " D"]]
    origin: Float[Array, " D"]  # centre of the starts of chains
    spread: float  # standard deviation of the starts


def read_groups(model: Model, data: PyTree) -> PyTree:
    """Checks data, and returns them in the form of `free_walk`."""
    if model.log_density is not None:
        return all_groups(data, model)
    return jax.tree.map(jnp.asarray, cast_data(model, data))


def free_walk(
    model: Model,
    data: PyTree,
    sampled: Sequence[str],
    key: PRNGKeyArray,
    hyper: Hyper | None = None,
) -> Walk:
    """Returns the walk of a log density, or of an energy with all but the sampled locals integrated
    out.

    The data are from `read_groups`. Data and hyperparameters may be traced; None means the
    hyperparameters of the model. The key is for the initial posterior of the model."""
    hyper = tree.as_arrays(model.hyper if hyper is None else hyper)
    if model.log_density is not None:
        return _density_walk(model.log_density, data, sampled, hyper)
    return _energy_walk(model, data, sampled, key, hyper)


def _density_walk(
    log_density: LogDensity, data: PyTree, sampled: Sequence[str], hyper: Hyper
) -> Walk:
    require(not sampled, "sampled", "none: a density has no locals", list(sampled))

    def density(x: Array) -> Float[Array, ""]:
        return log_density.log_prior_at(x) + jnp.sum(log_density.log_liks_at(x, data))

    def values(x: Array) -> tuple[dict[str, Any], dict[str, Any]]:
        return log_density.visible(log_density.values_and_derived(x)), {}

    free = lambda draw: log_density.point(hyper, draw[Z])
    return Walk(density, values, free, jnp.zeros(log_density.variables.dim), 0.5)


def _energy_walk(
    model: Model, data: PyTree, sampled: Sequence[str], key: PRNGKeyArray, hyper: Hyper
) -> Walk:
    density = log_joint(model, data, sampled, hyper)
    posterior = model.init(hyper, key, model.prior(hyper), Minibatch(data, None))
    sampled_locals = lambda y: {name: model_energy(model).locals(y)[name] for name in sampled}
    templates = jax.vmap(sampled_locals)(data)
    laws = {**posterior, **templates}
    free = {name: coordinates(q) for name, q in laws.items()}
    means = {name: q.mean() for name, q in laws.items()}
    origin, unravel = ravel_pytree(to_free(free, means))

    def split_values(x: Array) -> tuple[dict[str, Any], dict[str, Any]]:
        values, _ = from_free(free, unravel(x))
        return {n: values[n] for n in posterior}, {n: values[n] for n in sampled}

    def free_density(x: Array) -> Float[Array, ""]:
        return density(*split_values(x)) + from_free(free, unravel(x))[1]

    def free_point(values: dict[str, Any]) -> Float[Array, " D"]:
        return ravel_pytree(to_free(free, {name: values[name] for name in posterior}))[0]

    return Walk(free_density, split_values, free_point, origin, 0.1)


# --- values of families as free coordinates -------------------------------------------------------
_REAL: Any = real()
_POSITIVE: Any = positive()
_MATRIX: Any = positive_definite()

CONSTRAINTS: dict[type[Family], Any] = {
    families.Normal: _REAL,
    families.MultivariateNormal: _REAL,
    families.Gamma: _POSITIVE,
    families.InverseGamma: _POSITIVE,
    families.TruncatedNormal: _POSITIVE,
    families.Beta: unit_interval(),
    families.Dirichlet: simplex(),
    families.Wishart: _MATRIX,
    families.InverseWishart: _MATRIX,
    families.NormalGamma: MeanPrecision(_REAL, _POSITIVE),
    families.NormalWishart: MeanPrecision(_REAL, _MATRIX),
    families.NormalsWishart: MeanPrecision(_REAL, _MATRIX),
    families.MultivariateNormalGamma: CoefficientsPrecision(_REAL, _POSITIVE),
    families.MatrixNormalWishart: families.MatrixPrecision(_REAL, _MATRIX),
}
"""Supports of families, in the structure of a value."""


def coordinates(q: Family) -> Any:
    """Returns the constraints of the values of a family, in the structure of a value.

    Raises:
      ValueError: a family whose values are discrete, or not in `CONSTRAINTS`.

    >>> from vijax.families import Gamma
    >>> coordinates(Gamma.from_shape_rate(1.0, 1.0))
    positive()
    """
    kind = type(q)
    names = ", ".join(sorted(f.__name__ for f in CONSTRAINTS))
    expected = f"continuous variables to sample ({names})"
    require(kind in CONSTRAINTS, "model", expected, kind.__name__)
    return CONSTRAINTS[kind]


def to_free(coordinates: Any, values: Any) -> Any:
    """Returns the free coordinates of values."""
    return jax.tree.map(lambda constraint, x: constraint.free(x), coordinates, values)


def from_free(coordinates: Any, free: Any) -> tuple[Any, Float[Array, ""]]:
    """Returns the values at free coordinates, and the log determinant of the map."""
    values = jax.tree.map(lambda constraint, x: constraint.point(x), coordinates, free)
    log_dets = jax.tree.map(lambda constraint, x: constraint.log_det(x), coordinates, free)
    return values, sum(jax.tree.leaves(log_dets), jnp.zeros(()))
