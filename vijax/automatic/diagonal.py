"""Independent normals fitted to a log density of many variables: the ELBO on fixed draws, climbed by L-BFGS
(deterministic ADVI, Giordano, Ingram and Broderick 2024)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from vijax.automatic.ascent import ENOUGH, Mode, modes, never
from vijax.automatic.gaussian import SDS, Ended, Gaussian, noise_of
from vijax.automatic.on_draws import OnDraws
from vijax.automatic.target import Target
from vijax.checks import require
from vijax.estimator.least_squares import regression

OFF, FAR = 0.5, 1e6
"""How far whitened slopes and curvatures may be from those of an optimum, at an end that is called one; and how many
times as wide as at its start a normal gets whose density is improper."""


def fit(
    target: Target,
    start: Mode,
    seed: int,
    max_gradients: int,
    stopped: Callable[[], bool] = never,
    num_draws: int = 32,
) -> Gaussian:
    """Means and standard deviations (as the diagonal `scale`): the best on fixed draws, for half of the gradients at
    most; then the running mean of messages on fresh ones, whose noise falls with all draws taken. It ends as it stands
    when it is `stopped`."""
    noise = unit_noise(num_draws, target.dim, seed)
    left = max_gradients - target.num_gradients
    q = on_draws(OnDraws(target, noise), start, max(left // (2 * num_draws), 10), stopped=stopped)
    return _polished(target, q, start, seed, num_draws, max_gradients, stopped)


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


def _polished(
    target: Target,
    q: Gaussian,
    start: Mode,
    seed: int,
    size: int,
    max_gradients: int,
    stopped: Callable[[], bool] = never,
) -> Gaussian:
    """Natural-gradient steps of size 1 / t, the fixed draws before counted as the first."""
    count, mean_slope, mean_curvature = 1, np.zeros(target.dim), np.ones(target.dim)
    while target.num_gradients + size <= max_gradients:
        if stopped():
            return q._replace(ended=Ended.INTERRUPTED)
        count += 1
        noise = noise_of(size, len(q.mean), [seed, count])
        _, slopes = target.slopes(q.at(noise))
        slope, curvature = regression(noise, slopes * q.scale, diagonal=True, xp=np)
        spread = (slopes * q.scale - slope + curvature * noise).std(0)
        wide = np.maximum(1 + (curvature - 1) / count, 0.1)
        q = q._replace(mean=q.mean + q.scale * slope / count / wide, scale=q.scale / np.sqrt(wide))
        late = 2 / (count + 1)  # later steps count more: they are nearer to where q ends
        mean_slope += late * (slope - mean_slope)
        mean_curvature += late * (curvature - mean_curvature)
        error = float(np.sqrt((spread**2).mean() / (count * size)))
        q = q._replace(error=error, ended=Ended.LIMITED)
        if error < SDS:
            q = q._replace(ended=Ended.CONVERGED)
            break
    off = max(OFF, 5 * q.error)  # noise of the means themselves
    return q._replace(ended=_ended(q, start, mean_slope, mean_curvature, off))


def _ended(q: Gaussian, start: Mode, slope: np.ndarray, curvature: np.ndarray, off: float) -> Ended:
    """As q says, if it is at an optimum: where whitened slopes are 0 and curvatures 1. A coordinate of which the
    density says nothing has none, and its standard deviation grows for ever."""
    flat = curvature < 1 - off
    if bool((flat & (q.scale > FAR * np.clip(start.sds, 1e-6, 1.0))).any()):
        return Ended.UNBOUNDED
    return Ended.SPENT if max(np.abs(slope).max(), np.abs(curvature - 1).max()) > off else q.ended
