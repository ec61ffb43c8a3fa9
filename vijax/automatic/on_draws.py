"""The ELBO of independent normals on fixed draws, a smooth function of means and log standard deviations, with its
Hessian (deterministic ADVI, Giordano, Ingram and Broderick 2024).

With draws x_k = m + s e_k of fixed noise e_k, and l = log s,

    f(m, l) = mean_k log p(x_k) + sum l.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from vijax.automatic.target import Target

WIDEST = 40.0
"""Log standard deviation beyond which float32 holds no draws: what gets there is improper."""


class OnDraws:
    """f as a function of points (m, l) of length 2D, up to a constant.

    Attributes:
      dim: D.
      noise: e, (draws, D).
    """

    def __init__(self, target: Target, noise: Float[np.ndarray, "draws D"]):
        self.dim, self.noise, self._target = target.dim, noise, target

    def slopes(self, points: Float[np.ndarray, "points 2D"]) -> tuple[np.ndarray, np.ndarray]:
        """Values and gradients; -inf where a draw has no density."""
        pairs = [self._at(point) for point in points]
        return np.array([value for value, _ in pairs]), np.stack([slope for _, slope in pairs])

    def rounding(self, value: float) -> float:
        """What the working precision may make of a value."""
        return 4 * self._target.epsilon * max(abs(value), 1.0)

    def hessian(self, point: Float[np.ndarray, " 2D"]) -> Float[np.ndarray, "2D 2D"]:
        """All second derivatives: D^2 numbers a draw."""
        x, moved, slopes = self._draws(point)
        blocks = np.zeros((2, 2, self.dim, self.dim))
        for some, change in zip(self._target.hessians(x), moved, strict=True):
            right = some * change
            blocks += np.array([[some, right], [right.T, change[:, None] * right]])
        blocks /= len(x)
        blocks[1, 1] += np.diag((slopes * moved).mean(0))
        return np.block([[blocks[0, 0], blocks[0, 1]], [blocks[1, 0], blocks[1, 1]]])

    def product(self, point: Float[np.ndarray, " 2D"]) -> Product:
        """v -> Hessian v, without the Hessian."""
        return Product(self._target, *self._draws(point))

    def scales(self, point: Float[np.ndarray, " 2D"]) -> Float[np.ndarray, " 2D"]:
        """Rough standard deviations of the solution: what minus the Hessian would be of a normal with this variance."""
        return np.concatenate([np.exp(point[self.dim :]), np.full(self.dim, np.sqrt(0.5))])

    def _at(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        mean, log_sd = np.split(point, 2)
        if log_sd.max() > WIDEST:
            return -np.inf, np.zeros_like(point)
        moved = np.exp(log_sd) * self.noise
        values, slopes = self._target.slopes(mean + moved)
        bad = not np.isfinite(values).all()
        with np.errstate(over="ignore", invalid="ignore"):  # far out, on the way of a search
            of_sd = (slopes * moved).mean(0) + 1
        return -np.inf if bad else values.mean() + log_sd.sum(), np.concatenate([slopes.mean(0), of_sd])

    def _draws(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x, s e, and the gradients at x."""
        mean, log_sd = np.split(point, 2)
        moved = np.exp(log_sd) * self.noise
        return mean + moved, moved, self._target.slopes(mean + moved)[1]


class Product:
    """v -> Hessian v at one point: one Hessian-vector product of log p a draw."""

    def __init__(self, target: Target, x: np.ndarray, moved: np.ndarray, slopes: np.ndarray):
        self._target, self._x, self._moved, self._own = target, x, moved, (slopes * moved).mean(0)

    def __call__(self, v: Float[np.ndarray, " 2D"]) -> Float[np.ndarray, " 2D"]:
        """Of one vector."""
        of_mean, of_log_sd = np.split(v, 2)
        pushed = self._target.products(self._x, of_mean + self._moved * of_log_sd)
        return np.concatenate([pushed.mean(0), (pushed * self._moved).mean(0) + self._own * of_log_sd])
