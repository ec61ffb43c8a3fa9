"""Newton's steps to the top of a smooth function, and linear systems in minus its Hessian: by a dense factor up to some
hundreds of coordinates, beyond that by conjugate gradients on Hessian-vector products (Nocedal and Wright 2006,
algorithms 5.3 and 7.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import linalg

from vijax.automatic.ascent import never
from vijax.automatic.on_draws import OnDraws

MOST_DENSE = 200
"""D up to which the Hessian is formed."""
ENOUGH, SETTLED = 1e-8, 1e-4
"""Nats that a further step may still promise at the top; and at what counts as one where rounding allows no less."""
TOL = 1e-6
"""Residual at which conjugate gradients end, relative to the right-hand side."""

Solve = Callable[[Float[np.ndarray, " 2D"]], Float[np.ndarray, " 2D"]]


class NotATop(ValueError):
    """The Hessian is not negative definite here."""


def solver(objective: OnDraws, point: Float[np.ndarray, " 2D"]) -> Solve:
    """b -> x with (-Hessian) x = b.

    Raises:
      NotATop: the Hessian is not negative definite; of conjugate gradients, not in a direction that they met.
    """
    if objective.dim > MOST_DENSE:
        product, scales = objective.product(point), objective.scales(point)
        return lambda b: _conjugate_gradients(lambda v: -product(v), b, scales)
    hessian = objective.hessian(point)
    try:
        factor = linalg.cho_factor(-0.5 * (hessian + hessian.T))
    except (linalg.LinAlgError, ValueError) as error:
        raise NotATop(str(error)) from error
    return lambda b: linalg.cho_solve(factor, b)


def _conjugate_gradients(
    product: Callable[[np.ndarray], np.ndarray], b: np.ndarray, scales: np.ndarray
) -> Float[np.ndarray, " 2D"]:
    """Preconditioned by rough standard deviations of the solution."""
    x, left = np.zeros_like(b), scales * b
    direction, size = left, float(left @ left)
    goal = TOL**2 * size
    for _ in range(4 * len(b)):
        if size <= goal:
            break
        pushed = scales * product(scales * direction)
        curvature = float(direction @ pushed)
        if not curvature > 0:
            raise NotATop(f"curvature {curvature} in a direction")
        x, left = x + size / curvature * direction, left - size / curvature * pushed
        new = float(left @ left)
        direction, size = left + new / size * direction, new
    return scales * x


class Top(NamedTuple):
    """Where Newton's steps ended.

    Attributes:
      point: (2D,).
      value: of the function there.
      promised: nats that a further step still sees above; infinite where the Hessian is that of no top.
    """

    point: Float[np.ndarray, " 2D"]
    value: float
    promised: float


def climbed(
    objective: OnDraws, point: Float[np.ndarray, " 2D"], max_steps: int = 10, stopped: Callable[[], bool] = never
) -> Top:
    """The top near a point, by Newton's steps, halved where they would lead down, until only rounding is left, or it is
    `stopped`."""
    (value,), (slope,) = objective.slopes(point[None])
    promised = np.inf
    for _ in range(max_steps):
        if stopped():
            break
        try:
            step = solver(objective, point)(slope)
        except NotATop:
            return Top(point, float(value), np.inf)
        before, promised = promised, 0.5 * float(slope @ step)
        if promised < ENOUGH or (before < SETTLED and promised > 0.5 * before):
            break
        for size in 0.5 ** np.arange(8):
            (new,), (new_slope,) = objective.slopes(point[None] + size * step)
            if new >= value - objective.rounding(value):
                break
        else:
            break
        point, value, slope = point + size * step, new, new_slope
    return Top(point, float(value), promised)
