"""Values of families as vectors without constraints, for gradient-based samplers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax import families
from vijax.checks import require
from vijax.constrain import positive, positive_definite, real, simplex, unit_interval
from vijax.families import CoefficientsPrecision, Family, MeanPrecision

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
}
"""The registry: supports of families, in the structure of a value."""


def coordinates(q: Family) -> Any:
    """The constraints of the values of a family, in the structure of a value.

    Raises:
      ValueError: its values are discrete, or no map is known for them.

    >>> from vijax.families import Gamma
    >>> coordinates(Gamma.from_shape_rate(1.0, 1.0))
    positive()
    """
    known = ", ".join(sorted(f.__name__ for f in CONSTRAINTS))
    require(type(q) in CONSTRAINTS, "model", f"continuous variables to sample ({known})", type(q).__name__)
    return CONSTRAINTS[type(q)]


def to_free(coordinates: Any, values: Any) -> Any:
    """Free coordinates of values."""
    return jax.tree.map(lambda constraint, x: constraint.free(x), coordinates, values)


def from_free(coordinates: Any, free: Any) -> tuple[Any, Float[Array, ""]]:
    """Values of free coordinates, and the log determinant of the map."""
    values = jax.tree.map(lambda constraint, x: constraint.point(x), coordinates, free)
    log_dets = jax.tree.map(lambda constraint, x: constraint.log_det(x), coordinates, free)
    return values, sum(jax.tree.leaves(log_dets), jnp.zeros(()))
