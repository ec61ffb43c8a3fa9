"""Values of families as vectors without constraints: what gradient-based samplers walk in."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from vijax import families
from vijax.checks import require
from vijax.families import CoefficientsPrecision, Family, MeanPrecision


class Coordinate(NamedTuple):
    """Attributes:
    bijector: of TFP, from free coordinates to a value.
    event_ndims: trailing axes of the free coordinates that belong to one value.
    """

    bijector: Any
    event_ndims: int

    def value(self, free: Array) -> tuple[Array, Float[Array, ""]]:
        """The value, and the sum of the log determinants."""
        log_det = self.bijector.forward_log_det_jacobian(free, event_ndims=self.event_ndims)
        return self.bijector.forward(free), jnp.sum(log_det)


def coordinates(q: Family) -> Any:
    """Coordinates for the values of a family, in the structure of a value.

    Raises:
      ValueError: its values are discrete, or no map is known for them.

    >>> from vijax.families import Gamma
    >>> free = coordinates(Gamma.from_shape_rate(1.0, 1.0))
    >>> [float(x) for x in free.value(jnp.array(0.0))]
    [1.0, 0.0]
    """
    from vijax.tfp import tfp

    tfb = tfp.bijectors
    real: Any = Coordinate(tfb.Identity(), 0)
    positive: Any = Coordinate(tfb.Exp(), 0)
    matrix: Any = Coordinate(
        tfb.Chain([tfb.CholeskyOuterProduct(), tfb.FillScaleTriL(diag_bijector=tfb.Exp(), diag_shift=None)]), 1
    )
    table: dict[type[Family], Any] = {
        families.Normal: real,
        families.MultivariateNormal: real,
        families.Gamma: positive,
        families.InverseGamma: positive,
        families.TruncatedNormal: positive,
        families.Beta: Coordinate(tfb.Sigmoid(), 0),
        families.Dirichlet: Coordinate(tfb.SoftmaxCentered(), 1),
        families.Wishart: matrix,
        families.InverseWishart: matrix,
        families.NormalGamma: MeanPrecision(real, positive),
        families.NormalWishart: MeanPrecision(real, matrix),
        families.MultivariateNormalGamma: CoefficientsPrecision(real, positive),
    }
    known = ", ".join(sorted(f.__name__ for f in table))
    require(type(q) in table, "model", f"continuous variables to sample ({known})", type(q).__name__)
    return table[type(q)]


def to_free(coordinates: Any, values: Any) -> Any:
    """Free coordinates of values."""
    return jax.tree.map(lambda c, x: c.bijector.inverse(x), coordinates, values, is_leaf=_is_coordinate)


def from_free(coordinates: Any, free: Any) -> tuple[Any, Float[Array, ""]]:
    """Values of free coordinates, and the log determinant of the map."""
    pairs = jax.tree.map(lambda c, x: c.value(x), coordinates, free, is_leaf=_is_coordinate)
    is_pair = lambda x: type(x) is tuple
    values = jax.tree.map(lambda pair: pair[0], pairs, is_leaf=is_pair)
    dets = jax.tree.leaves(jax.tree.map(lambda pair: pair[1], pairs, is_leaf=is_pair))
    return values, sum(dets, jnp.zeros(()))


def _is_coordinate(x: Any) -> bool:
    return isinstance(x, Coordinate)
