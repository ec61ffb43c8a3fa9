"""Independent normals fitted to a log density of many variables: the ELBO on fixed draws, climbed by L-BFGS
(deterministic ADVI, Giordano, Ingram and Broderick 2024)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from vijax.automatic.ascent import Mode, modes
from vijax.automatic.gaussian import Ended, Gaussian, noise_of
from vijax.automatic.target import Target


class _OnDraws:
    """The ELBO on fixed draws as a function of means and log standard deviations, up to a constant."""

    def __init__(self, target: Target, noise: np.ndarray):
        self._target, self._noise = target, noise

    def slopes(self, points: Float[np.ndarray, "points 2D"]) -> tuple[np.ndarray, np.ndarray]:
        """Values and gradients."""
        pairs = [self._at(*np.split(point, 2)) for point in points]
        return np.array([value for value, _ in pairs]), np.stack([slope for _, slope in pairs])

    def _at(self, mean: np.ndarray, log_sd: np.ndarray) -> tuple[float, np.ndarray]:
        sd = np.exp(log_sd)
        values, slopes = self._target.slopes(mean + sd * self._noise)
        bad = not np.isfinite(values).all()
        of_sd = (slopes * self._noise).mean(0) * sd + 1
        return -np.inf if bad else values.mean() + log_sd.sum(), np.concatenate([slopes.mean(0), of_sd])


def fit(target: Target, start: Mode, seed: int, num_draws: int = 32, max_steps: int = 200) -> Gaussian:
    """Means and standard deviations (as the diagonal `scale`) that are best on the draws."""
    noise = noise_of(num_draws, target.dim, [seed, 0])
    first = np.concatenate([start.x, np.log(np.clip(start.sds, 1e-6, 1.0))])
    (best,) = modes(_OnDraws(target, noise), first[None], max_steps)
    mean, log_sd = np.split(best.x, 2)
    elbo = best.value + 0.5 * target.dim * np.log(2 * np.pi * np.e)
    return Gaussian(mean, np.exp(log_sd), float(elbo), Ended.CONVERGED, (float(elbo),))
