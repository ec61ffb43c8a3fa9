"""A map of coordinates that straightens funnels and bananas: what is narrow or bent along one axis becomes neither.

With orthonormal columns, the first of which is the axis, e = turn (v, y), and of each of the others

    y_j = exp(g_j(v)) (w_j + b_j (v^2 - 1)),    g_j(v) = a_j v + c_j (sqrt(1 + v^2) - 1):

where (v, w) is N(0, I), y is as wide as the axis says, and bends with it. A hierarchy "not centred" is such a map (b and
c zero, v the logarithm of its scale; Papaspiliopoulos, Roberts and Skold 2007), and so is the transport map of degree two
in one variable (Marzouk et al. 2016).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


class Bend(NamedTuple):
    """(v, w) -> shift + scale turn (v, y).

    Attributes:
      shift: (D,).
      scale: lower triangle (D, D).
      turn: orthonormal (D, D), the axis first.
      widening: a, (D - 1,).
      flare: c, (D - 1,).
      bow: b, (D - 1,).
    """

    shift: Float[Array | np.ndarray, " D"]
    scale: Float[Array | np.ndarray, "D D"]
    turn: Float[Array | np.ndarray, "D D"]
    widening: Float[Array | np.ndarray, " D-1"]
    flare: Float[Array | np.ndarray, " D-1"]
    bow: Float[Array | np.ndarray, " D-1"]

    @classmethod
    def none(cls, dim: int, dtype: Any = np.float64) -> Bend:
        """The map that changes nothing."""
        zero, eye = np.zeros(dim, dtype), np.eye(dim, dtype=dtype)
        return cls(zero, eye, eye, zero[1:], zero[1:], zero[1:])

    def point(self, z: Any, xp: Any = jnp) -> Any:
        """Where points (..., D) go."""
        v, w = z[..., :1], z[..., 1:]
        y = xp.exp(self.log_widths(v, xp)) * (w + self.bow * (v**2 - 1))
        return self.shift + xp.concatenate([v, y], -1) @ (self.scale @ self.turn).T

    def log_widths(self, v: Any, xp: Any = jnp) -> Any:
        """g, at (..., 1)."""
        return self.widening * v + self.flare * (xp.sqrt(1 + v**2) - 1)

    def log_det(self, z: Any, xp: Any = jnp) -> Any:
        """log |d point / d z|."""
        return xp.sum(xp.log(xp.abs(xp.diagonal(self.scale)))) + xp.sum(self.log_widths(z[..., :1], xp), -1)
