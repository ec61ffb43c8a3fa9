"""Independent normals fitted to a log density of many variables: the ELBO on fixed draws, climbed by L-BFGS
(deterministic ADVI, Giordano, Ingram and Broderick 2024)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from vijax.automatic.ascent import ENOUGH, Mode, modes, never
from vijax.automatic.gaussian import Ended, Gaussian, noise_of
from vijax.automatic.on_draws import OnDraws
from vijax.checks import require


def unit_noise(num_draws: int, dim: int, seed: int) -> Float[np.ndarray, "draws D"]:
    """Fixed noise of which every coordinate has mean zero and variance one exactly."""
    noise = noise_of(num_draws, dim, [seed, 0])
    return noise / np.sqrt((noise**2).mean(0))


def on_draws(
    objective: OnDraws, start: Mode, max_steps: int, enough: float = ENOUGH, stopped: Callable[[], bool] = never
) -> Gaussian:
    """The best independent normals on fixed draws, by L-BFGS."""
    first = np.concatenate([start.x, np.log(np.clip(start.sds, 1e-6, 1.0))])
    found = modes(objective, first[None], max_steps, enough, stopped)
    remedy = "Give variables narrower priors, or supports that exclude what is impossible."
    expected = "a finite one at draws around its mode"
    require(bool(found), "log_density", expected, "one that is not", remedy)
    return as_gaussian(found[0].x, found[0].value)


def as_gaussian(point: Float[np.ndarray, " 2D"], value: float, ended: Ended = Ended.SPENT) -> Gaussian:
    """The normals of means and log standard deviations; the ELBO with its constant."""
    mean, log_sd = np.split(point, 2)
    elbo = float(value + 0.5 * len(mean) * np.log(2 * np.pi * np.e))
    return Gaussian(mean, np.exp(log_sd), elbo, ended, (elbo,))


def point_of(q: Gaussian) -> Float[np.ndarray, " 2D"]:
    """Means and log standard deviations."""
    return np.concatenate([q.mean, np.log(q.scale)])
