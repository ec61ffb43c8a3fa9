"""Dynamics for each state of a chain: regressions of a step on the steps before it.

    x_t - a x_{t-1} | z_t = k ~ N(G_k' f_t, L_k^-1),   f_t = (x_{t-1}, ..., x_{t-P}, u_t, 1),

(G_k, L_k) matrix-normal-Wishart, a the persistence, u_t inputs. The regressions explain the change:
a smooth path is large beside its changes, and its squares would leave float32 no digits for the
noise. Autoregressive hidden Markov models observe x; switching linear dynamical systems do not."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from vijax.checks import require
from vijax.families import LinearGaussianChainStats, MatrixNormalWishart
from vijax.models.series.sequences import check_pair, check_values

LOG_2PI = math.log(2 * math.pi)


class Form(NamedTuple):
    """The form of the dynamics."""

    dim: int  # D, columns that the dynamics move
    num_lags: int  # P
    num_inputs: int  # M, the last columns of the data
    persistence: float = 0.0  # a

    @property
    def num_features(self) -> int:
        """J, numbers in f_t."""
        return self.dim * self.num_lags + self.num_inputs + 1


def dynamics_prior(
    form: Form, num_states: int, strength: float, degrees: float | None, variance: float
) -> MatrixNormalWishart:
    """The prior of the dynamics, the same for all states: x_t is a x_{t-1} plus noise."""
    dim, features = form.dim, form.num_features
    location = np.zeros((num_states, features, dim))
    if degrees is None:
        degrees = dim + 2.0
    scale = np.eye(dim) / (degrees * variance)
    return MatrixNormalWishart.from_parameters(
        location, strength * np.eye(features), degrees, scale
    )


def lag_columns(x: Float[Array, "T D"], num_lags: int) -> Float[Array, "T PD"]:
    """x_{t-1}, ..., x_{t-P} side by side; zeros before the first step.

    >>> print(lag_columns(jnp.array([[1.0], [2.0], [3.0]]), 2).tolist())
    [[0.0, 0.0], [1.0, 0.0], [2.0, 1.0]]
    """
    steps = len(x)
    shifted = [jnp.pad(x, ((lag, 0), (0, 0)))[:steps] for lag in range(1, num_lags + 1)]
    return jnp.concatenate([*shifted, jnp.zeros((steps, 0), x.dtype)], -1)


def step_features(
    form: Form, x: Float[Array, "T D"], inputs: Float[Array, "T M"]
) -> Float[Array, "T J"]:
    """f_t of every step of a known path."""
    return jnp.concatenate(
        [lag_columns(x, form.num_lags), inputs, jnp.ones((len(x), 1), x.dtype)], -1
    )


def step_changes(form: Form, x: Float[Array, "T D"]) -> Float[Array, "T D"]:
    """x_t - a x_{t-1} of every step of a known path."""
    if form.num_lags:
        return x - form.persistence * lag_columns(x, 1)
    return x


def known_steps(form: Form, y: Any, mask: Any) -> Bool[Array, "*batch T"]:
    """True on steps that the dynamics explain: they and the P steps before them are complete."""
    is_whole = mask & jnp.all(jnp.isfinite(y[..., : form.dim]), -1)
    is_known = is_whole
    for lag in range(1, form.num_lags + 1):
        pad = [(0, 0)] * (is_whole.ndim - 1) + [(lag, 0)]
        is_known = is_known & jnp.pad(is_whole, pad)[..., : is_whole.shape[-1]]
    return is_known


def step_densities(
    s: Any, features: Float[Array, "T J"], change: Float[Array, "T D"]
) -> Float[Array, "T K"]:
    """log N(change_t; G_k' f_t, L_k^-1) of each step and state, from statistics of (G_k, L_k)."""
    product = lambda subscripts, *of: jnp.einsum(subscripts, *of, precision="highest")
    pull = product(
        "tkd,td->tk", product("tj,kjd->tkd", features, s.coefficients_times_precision), change
    )
    of_mean = product("tki,ti->tk", product("tj,kji->tki", features, s.quadratic), features)
    of_noise = product("tkd,td->tk", product("td,kde->tke", change, s.precision), change)
    return pull + 0.5 * (s.log_det[None] - of_mean - of_noise - change.shape[-1] * LOG_2PI)


def expected_step_densities(
    form: Form, s: Any, x: LinearGaussianChainStats, inputs: Float[Array, "T M"]
) -> Float[Array, "S K"]:
    """The mean of `step_densities` over a path of one lag, from the statistics of its pairs: steps
    2, 3, ..., T."""
    a = form.persistence
    inputs_and_one = jnp.concatenate([inputs[1:], jnp.ones_like(x.value[1:, :1])], -1)
    times = lambda left, right: left[:, :, None] * right[:, None, :]
    change = x.value[1:] - a * x.value[:-1]
    products = jnp.concatenate([x.cross - a * x.outer[:-1], times(inputs_and_one, change)], 1)
    corner = times(inputs_and_one, x.value[:-1])
    features = jnp.concatenate(
        [
            jnp.concatenate([x.outer[:-1], corner.mT], 2),
            jnp.concatenate([corner, times(inputs_and_one, inputs_and_one)], 2),
        ],
        1,
    )
    squares = x.outer[1:] - a * (x.cross + x.cross.mT) + a**2 * x.outer[:-1]
    dot = lambda moments, of: jnp.einsum("tij,kij->tk", moments, of, precision="highest")
    pull = dot(products, s.coefficients_times_precision)
    spread = dot(features, s.quadratic) + dot(squares, s.precision)
    return pull + 0.5 * (s.log_det[None] - spread - form.dim * LOG_2PI)


class Motion(NamedTuple):
    """A draw of the dynamics."""

    coefficients: Float[Array, "K J D"]
    root: Float[Array, "K D D"]  # root root' is the covariance of the noise
    persistence: float

    @classmethod
    def from_values(cls, form: Form, values: Any) -> Motion:
        """The dynamics from coefficients and precisions."""
        factor = jnp.linalg.cholesky(values.precision)
        eye = jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
        return cls(
            values.coefficients, solve_triangular(factor.mT, eye, lower=False), form.persistence
        )

    def follow(
        self,
        states: Int[Array, " T"],
        inputs: Float[Array, "T M"],
        before: Float[Array, "P D"],
        fixed: Float[Array, "T D"],
        key: PRNGKeyArray,
    ) -> Float[Array, "T D"]:
        """A path after the steps `before`, the latest first. Steps whose row of `fixed` has no NaN
        take its values."""

        def go(before: Array, inputs: tuple) -> tuple[Array, Array]:
            k, u, noise, fixed = inputs
            features = jnp.concatenate([before.ravel(), u, jnp.ones(1, u.dtype)])
            x = features @ self.coefficients[k] + self.root[k] @ noise
            if len(before):
                x = x + self.persistence * before[0]
            x = jnp.where(jnp.any(jnp.isnan(fixed)), x, fixed)
            return jnp.concatenate([x[None], before])[: len(before)], x

        noise = jax.random.normal(key, fixed.shape, fixed.dtype)
        return jax.lax.scan(go, before, (states, inputs, noise, fixed))[1]


def check_columns(
    data: PyTree, dim: int, num_inputs: int
) -> tuple[np.ndarray, Bool[np.ndarray, "N T"]]:
    """The pair (y, mask); ValueError if columns do not fit, a value is infinite, or an input is
    missing."""
    y, mask = check_pair(data, dim + num_inputs)
    check_values(np.isinf(y), y, mask, "finite numbers, or NaN where an entry is missing")
    bad = np.isnan(y) & (np.arange(y.shape[-1]) >= dim)
    check_values(bad, y, mask, "inputs (the last columns) that are all known", "Impute them.")
    return y, mask


def require_known_runs(
    y: np.ndarray, mask: Bool[np.ndarray, "N T"], dim: int, num_lags: int
) -> None:
    """Raises ValueError if no sequence has `num_lags` + 1 complete steps in a row: nothing would be
    fitted."""
    is_whole = mask & np.isfinite(y[..., :dim]).all(-1)
    runs = np.cumsum(np.pad(is_whole, [(0, 0), (1, num_lags)]), 1)
    is_enough = (runs[:, num_lags + 1 :] - runs[:, : -num_lags - 1] > num_lags).any()
    expected = f"a sequence with {num_lags + 1} steps in a row that are known in all columns"
    require(is_enough, "data", expected, "none", "Each step is modelled given those before it.")


def require_first_steps(
    y: np.ndarray, mask: Bool[np.ndarray, "N T"], dim: int, num_lags: int
) -> None:
    """Raises ValueError unless each sequence begins with `num_lags` complete steps, after which it
    is drawn."""
    is_known = mask & np.isfinite(y[..., :dim]).all(-1)
    bad = np.flatnonzero(is_known[:, :num_lags].sum(1) < num_lags)
    actual = f"sequence {bad[0]}" if len(bad) else ""
    expected = f"sequences whose first {num_lags} steps are known, after which they are drawn"
    require(
        not len(bad), "data", expected, actual, "Cut off what comes before the first known steps."
    )
