"""Linear response of independent normals on fixed draws (Giordano, Ingram and Broderick 2024).

With eta = (means, log standard deviations) at the maximum of f, the ELBO on draws x_k(eta), and G the derivative of
mean_k g(values at x_k) in eta,

    Cov[g] = G (-hess f)^-1 G'.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from vijax.automatic.dadvi import SETTLED, NotAMaximumError, OnDraws, newton, solver, unit_noise
from vijax.automatic.target import Target
from vijax.checks import require
from vijax.contract.model import Model
from vijax.families import Normal
from vijax.fitting.result import Fit
from vijax.inference.guides import Z
from vijax.models.energies.density import Frame, frame_of
from vijax.response.covariances import Covariances, covariances
from vijax.xla import keys
from vijax.xla.compiler import quick_jit

FAR = 1.0
"""Standard deviations of q between its means and those at the maximum on fixed draws, at most."""


def of_draws(
    fit: Fit, model: Model, data: Any, of: Callable | None, key: PRNGKeyArray | None, num_draws: int
) -> Covariances:
    """Returns the covariances of a log density (see `vijax.linear_response`)."""
    q: Any = fit.posterior[Z]
    remedy = "A full covariance is q's own: fit.sample, or fit.posterior['free'].cov."
    require(isinstance(q, Normal), "fit", "one with the guide vijax.guides.mean_field()", type(q).__name__, remedy)
    _check_frame(frame_of(fit.state.hyper))
    noise = _noise(fit, q, key, num_draws)
    objective = OnDraws(Target.of(model, data), noise)
    start = _free(q, frame_of(fit.state.hyper))
    top = newton(objective, start)
    remedy = "Run it longer, or fit with vijax.dadvi(model, data, key=key)."
    got = f"one from which a step still promises {top.promised:.2g} nats on fixed draws"
    require(top.promised < SETTLED, "fit", "one at a maximum of its bound", got, remedy)
    moved = float(np.max(np.abs(top.point - start)[: objective.dim] / np.exp(start[objective.dim :])))
    got = f"one from which that of these data and draws is {moved:.2g} sd away"
    require(moved < FAR, "fit", "one near the maximum of its bound", got, "Give the data that were fitted.")
    means, pushed = _expectations(model, of or (lambda values: values), top.point, noise)
    try:
        solve = solver(objective, top.point)
        solved = np.stack([solve(row) for row in pushed])
    except NotAMaximumError as error:
        require(False, "fit", "one at a maximum of its bound", f"one away from a maximum: {error}", remedy)
    return covariances(means, pushed @ solved.T)


def _check_frame(frame: Frame | None) -> None:
    """Raises ValueError where q has directions of dependence: only independent normals are corrected."""
    directed = frame is not None and frame.stretch is not None and bool(np.any(np.asarray(frame.stretch) != 1))
    remedy = "Fit with vijax.dadvi(model, data, key=key); or draw from this one, which has covariances: fit.sample."
    require(not directed, "fit", "one of independent normals", "one with directions of dependence", remedy)


def _free(q: Normal, frame: Frame | None) -> Float[np.ndarray, " 2D"]:
    """Returns means and log standard deviations of the free coordinates."""
    mean, log_sd = np.asarray(q.mean(), np.float64), 0.5 * np.log(np.asarray(q.variance(), np.float64))
    if frame is None:
        return np.concatenate([mean, log_sd])
    shift, scale = np.asarray(frame.shift, np.float64), np.asarray(frame.scale, np.float64)
    return np.concatenate([shift + scale * mean, np.log(scale) + log_sd])


def _noise(fit: Fit, q: Normal, key: PRNGKeyArray | None, num_draws: int) -> Float[np.ndarray, "draws D"]:
    """Returns the noise of the fit where it was on fixed draws, else fresh noise."""
    own = getattr(fit.report, "noise", np.zeros((0, 0)))
    if len(own):
        return own
    remedy = "Fits by vijax.dadvi have draws of their own; of others give linear_response(fit, data, key=...)."
    require(key is not None, "key", "a key of fixed draws", "none", remedy)
    assert key is not None
    return unit_noise(num_draws, q.batch_shape[0], keys.seed(key))


def _expectations(
    model: Model, of: Callable, point: np.ndarray, noise: np.ndarray
) -> tuple[PyTree, Float[np.ndarray, "M 2D"]]:
    """Returns means of the quantities over the draws, and their derivatives in the means and log standard
    deviations."""

    def mean(eta: Array, noise: Array) -> PyTree:
        center, log_sd = jnp.split(eta, 2)
        draws = center + jnp.exp(log_sd) * noise
        return jax.tree.map(lambda x: jnp.mean(x, 0), jax.vmap(lambda z: of(model.log_density.values_at(z)))(draws))

    at = jnp.asarray(point, jnp.result_type(float)), jnp.asarray(noise, jnp.result_type(float))
    slopes = jax.jacrev(lambda eta, noise: ravel_pytree(mean(eta, noise))[0])
    found, pushed = quick_jit(lambda eta, noise: (mean(eta, noise), slopes(eta, noise)))(*at)
    return found, np.asarray(pushed, np.float64)
