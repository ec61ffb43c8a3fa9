"""Independent normals fitted to a log density of many variables: the ELBO on fixed draws, climbed by L-BFGS
(deterministic ADVI, Giordano, Ingram and Broderick 2024)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from vijax.automatic.ascent import Mode, modes
from vijax.automatic.gaussian import SDS, Ended, Gaussian, noise_of
from vijax.automatic.target import Target
from vijax.estimator.least_squares import regression


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


def fit(target: Target, start: Mode, seed: int, max_gradients: int, num_draws: int = 32) -> Gaussian:
    """Means and standard deviations (as the diagonal `scale`): the best on fixed draws, for half of the gradients at
    most; then the running mean of messages on fresh ones, whose noise falls with all draws taken."""
    dim, noise = target.dim, noise_of(num_draws, target.dim, [seed, 0])
    noise = noise / np.sqrt((noise**2).mean(0))
    first = np.concatenate([start.x, np.log(np.clip(start.sds, 1e-6, 1.0))])
    left = max_gradients - target.num_gradients
    (best,) = modes(_OnDraws(target, noise), first[None], max(left // (2 * num_draws), 10))
    mean, log_sd = np.split(best.x, 2)
    elbo = float(best.value + 0.5 * dim * np.log(2 * np.pi * np.e))
    return _polished(target, Gaussian(mean, np.exp(log_sd), elbo, Ended.SPENT, (elbo,)), seed, num_draws, max_gradients)


def _polished(target: Target, q: Gaussian, seed: int, size: int, max_gradients: int) -> Gaussian:
    """Natural-gradient steps of size 1 / t, the fixed draws before counted as the first."""
    count = 1
    while target.num_gradients + size <= max_gradients:
        count += 1
        noise = noise_of(size, len(q.mean), [seed, count])
        _, slopes = target.slopes(q.at(noise))
        slope, curvature = regression(noise, slopes * q.scale, diagonal=True, xp=np)
        spread = (slopes * q.scale - slope + curvature * noise).std(0)
        wide = np.maximum(1 + (curvature - 1) / count, 0.1)
        q = q._replace(mean=q.mean + q.scale * slope / count / wide, scale=q.scale / np.sqrt(wide))
        error = float(np.sqrt((spread**2).mean() / (count * size)))
        q = q._replace(error=error, ended=Ended.LIMITED)
        if error < SDS:
            return q._replace(ended=Ended.CONVERGED)
    return q
