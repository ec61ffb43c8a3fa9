"""Linear-Gaussian state-space models, missing entries allowed (Hoffman and Blei 2015, section 2.1).

    x_1 ~ N(m, 1 / p),   x_tk ~ N(a_k' x_{t-1}, 1 / q_k),   y_td ~ N(c_d' x_t + b_d, 1 / r_d),

independently over k = 1..K and d = 1..D, each pair of coefficients and precision, (m_k, p_k), (a_k,
q_k) and ((c_d, b_d), r_d), from a normal-gamma prior. A sequence is a group; its path x is one
joint local variable. q(x) is a Gaussian chain whose potentials are the gradient of the energy in
its statistics. Its normaliser is computed by the Kalman filter, its expected statistics by the
smoother. `em` is the algorithm of Shumway and Stoffer (1982), `cavi` that of Beal (2003, chapter 5)
with learnt state noise.

The likelihood determines x only up to an invertible linear map (independent noise over k is no
restriction: a map makes it independent). Priors choose weakly among equals; `em`, which has none,
stays near its start, where states have variance about one. Compare quantities that do not depend on
the map: predictions, likelihoods, the eigenvalues of the dynamics. A column that is never observed
has no maximum either; `em` leaves its coefficients and noise at their start, and counts this among
the retractions."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from vijax.arguments import Positive, Size, check_arguments
from vijax.contract import init as starts
from vijax.contract.expected import (
    STANDARDISE,
    PriorExpectation,
    expecting,
    place_scale_strain,
    steps,
)
from vijax.contract.model import Estimates, Model
from vijax.contract.room import limit_sizes
from vijax.families import (
    LinearGaussianChain,
    LinearGaussianChainStats,
    MultivariateNormalGamma,
    NormalGamma,
    Product,
)
from vijax.models.energies.energy import zero_stats
from vijax.models.energies.energy_model import ready_model
from vijax.models.series.sequences import check_pair, check_values, linear_gaussian, score_sequences
from vijax.spreads import is_rounding
from vijax.tree import to_device
from vijax.xla.by_value import cache_by_value
from vijax.xla.compiler import once_jit

_LOG_2PI = math.log(2 * math.pi)


@cache_by_value
@limit_sizes
@check_arguments
def linear_gaussian_state_space(
    dim: Size,
    num_states: Size,
    strength: Positive = 0.01,
    shape: Positive = 1.0,
    rate: Positive = 1.0,
) -> Model:
    """A linear-Gaussian state-space model (linear dynamical system) with a bias.

    Priors are about zero and of scale one: bring columns of another place or scale to mean 0 and
    deviation 1.

    Args:
      dim: D, columns of the observations.
      num_states: K, dimension of the state.
      strength: prior precision of the coefficients m, a, c and b, in units of their noise
        precision, counted in observations.
      shape: shape of the gamma prior of all noise precisions.
      rate: rate of the same prior; data of another scale than one want another rate.

    Returns:
      A `Model` with globals `initial` (NormalGamma, batch (K,)), `dynamics` and `observation`
      (MultivariateNormalGamma over (a_k, q_k), batch (K,), and over ((c_d, b_d), r_d), batch (D,)),
      and the local `x`. Data: a pair (y, mask) of shapes (N, T, D) and (N, T), the mask true on the
      steps that exist, which come first (`vijax.models.pad`). NaN marks a missing entry; steps of
      NaN after the last observation are forecasts. `fit.locals(data, key=key)["x"]` is the law of
      the paths: `.mean()` are smoothed states. `fit.score` is the log density of sequences at the
      posterior means, in nats per step.

    >>> import vijax as vi
    >>> t = np.arange(60.0)
    >>> y = np.stack([np.sin(t / 3), np.cos(t / 3)], 1) + 0.1 * np.random.default_rng(0).normal(size=(60, 2))
    >>> data = vi.models.pad([y, y[:30]])
    >>> model = linear_gaussian_state_space(dim=2, num_states=2, rate=0.01)
    >>> fit = vi.fit(vi.cavi(model), data, num_steps=20, key=jax.random.key(0))
    >>> turn = np.angle(np.linalg.eigvals(fit.posterior["dynamics"].mean().coefficients))
    >>> print(np.sort(turn).round(2))  # a rotation by a third of a radian a step
    [-0.33  0.33]
    """
    plain_model = ready_model(
        globals={
            "initial": NormalGamma.from_parameters(np.zeros(num_states), strength, shape, rate),
            "dynamics": regression_prior(num_states, num_states, strength, shape, rate),
            "observation": regression_prior(dim, num_states + 1, strength, shape, rate),
        },
        locals=functools.partial(path_template, num_states),
        energy=energy,
        example=(np.linspace(-1.0, 1.0, 2 * dim).reshape(2, dim), np.array([True, True])),
        init=start_by_windows(num_states),
        check_data=lambda data: _check(data, dim),
        score=lambda hyper, q, data, key: score(q, data, dim),
        generative=linear_gaussian(dim, lambda data: _check(data, dim)),
    )
    return expecting(plain_model, expected_of_observations(dim, strength, shape, rate))


def expected_of_observations(
    dim: int, strength: float, shape: float, rate: float
) -> PriorExpectation:
    """The D observed columns that the priors of coefficients and noise expect."""
    strain = place_scale_strain(0.0, strength, 2.0 * rate, 2.0 * shape)
    deviation = math.sqrt(rate / shape)
    columns = lambda data: steps(data)[:, :dim]
    return PriorExpectation(
        columns, strain, f"about 0 and of deviation {deviation:.3g}", STANDARDISE
    )


def energy(stats: Any, group: tuple[Float[Array, "T D"], Bool[Array, " T"]]) -> Float[Array, ""]:
    """log p(y, x | globals) of one sequence, in the statistics of all variables."""
    y, mask = group
    x = stats["x"]
    first = first_terms(stats["initial"], x.value[0], jnp.diagonal(x.outer[0]))
    return (
        jnp.where(mask[0], first, 0.0)
        + _dynamics_terms(stats["dynamics"], x, mask)
        + observation_terms(stats["observation"], x, y, mask)
    )


def first_terms(s: Any, value: Float[Array, " K"], square: Float[Array, " K"]) -> Float[Array, ""]:
    """log N(x; m, 1 / p), summed over components, from the statistics of (m, p) and of x."""
    spread = s.precision * square - 2 * s.precision_times_mean * value + s.precision_times_square
    return 0.5 * jnp.sum(s.log_precision - spread - _LOG_2PI)


def _dynamics_terms(
    s: Any, x: LinearGaussianChainStats, mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """sum_t log N(x_t; A x_{t-1}, 1 / q), from sums of the path's statistics over the transitions
    that exist."""
    moves = mask[1:].astype(x.value.dtype)
    cross = jnp.einsum("t,tij->ij", moves, x.cross, precision="highest")
    before = jnp.einsum("t,tij->ij", moves, x.outer[:-1], precision="highest")
    after = jnp.einsum("t,tkk->k", moves, x.outer[1:], precision="highest")
    pull = jnp.vdot(s.precision_times_value, cross.T) - 0.5 * jnp.vdot(
        jnp.sum(s.precision_times_outer, 0), before
    )
    log_constant = jnp.sum(moves) * jnp.sum(s.log_precision - _LOG_2PI)
    return pull + 0.5 * (log_constant - jnp.vdot(s.precision, after))


def observation_terms(
    s: Any, x: LinearGaussianChainStats, y: Float[Array, "T D"], mask: Bool[Array, " T"]
) -> Float[Array, ""]:
    """sum over observed entries of log N(y_td; c_d' x_t + b_d, 1 / r_d)."""
    is_observed = (mask[:, None] & ~jnp.isnan(y)).astype(x.value.dtype)
    y = jnp.where(is_observed > 0, y, 0.0)
    # Coefficients (c, b) meet the statistics of (x, 1).
    linear = jnp.einsum("td,tk->dk", y, x.value, precision="highest")
    pull = jnp.vdot(s.precision_times_value[:, :-1], linear) + s.precision_times_value[
        :, -1
    ] @ jnp.sum(y, 0)
    square, cross = s.precision_times_outer[:, :-1, :-1], s.precision_times_outer[:, :-1, -1]
    cross = 0.5 * (cross + s.precision_times_outer[:, -1, :-1])
    spread = jnp.vdot(square, jnp.einsum("td,tij->dij", is_observed, x.outer, precision="highest"))
    spread += 2 * jnp.vdot(
        cross, jnp.einsum("td,tk->dk", is_observed, x.value, precision="highest")
    )
    count = jnp.sum(is_observed, 0)
    spread += jnp.vdot(s.precision_times_outer[:, -1, -1], count) + jnp.vdot(
        s.precision, jnp.sum(y**2, 0)
    )
    return pull + 0.5 * (jnp.vdot(count, s.log_precision - _LOG_2PI) - spread)


@cache_by_value
def start_by_windows(num_states: int, variance: float = 0.05) -> starts.Init:
    """The start: states that predict the next steps. They are the leading principal components,
    scaled to variance one, of windows (y_t, ..., y_{t+L-1}) of the standardised observations, with
    missing entries at their means. L is large enough for K states: the windows of a noiseless
    system span its states (observability). States count as known up to `variance`, so that all
    noise precisions have a mode, as points need; a little noise from the key separates restarts."""

    def start(key: PRNGKeyArray, context: starts.Context) -> Product:
        y, mask = context.data().data
        y = jnp.asarray(y, jnp.result_type(float))
        mask = jnp.asarray(mask, bool) & context.counts()[:, None]
        scores = window_scores(y, mask, num_states)
        scores += 0.1 * jax.random.normal(key, scores.shape, scores.dtype)
        chain: Any = path_template(num_states, (y[0], mask[0]))["x"]
        exact = jax.vmap(lambda x, steps: chain.with_context(steps).stats(x))(scores, mask)
        covariance = variance * jnp.eye(num_states, dtype=scores.dtype)[None, None]
        spread = jnp.where(mask[..., None, None], covariance, 0.0)
        return context.conditional({"x": exact._replace(outer=exact.outer + spread)})

    return start


def window_scores(
    y: Float[Array, "N T D"], mask: Bool[Array, "N T"], num_states: int
) -> Float[Array, "N T K"]:
    """Leading principal components of windows, scaled to variance one; zero for missing
    components."""
    is_observed = mask[..., None] & ~jnp.isnan(y)
    count = jnp.maximum(jnp.sum(is_observed, (0, 1), dtype=y.dtype), 1)
    y = jnp.where(is_observed, y, 0.0)
    mean = jnp.sum(y, (0, 1)) / count
    y = jnp.where(is_observed, y - mean[None, None], 0.0)
    spread = jnp.sqrt(jnp.sum(y**2, (0, 1)) / count)
    y = jnp.where(is_rounding(spread, mean), 0.0, y / jnp.where(spread > 0, spread, 1.0))
    length = -(-num_states // y.shape[-1]) + 1
    shifted = [jnp.pad(y[:, i:], ((0, 0), (0, min(i, y.shape[1])), (0, 0))) for i in range(length)]
    windows = jnp.concatenate(shifted, -1)
    flat = windows.reshape(-1, windows.shape[-1])
    vectors = jnp.linalg.eigh(flat.T @ flat)[1][:, ::-1][:, :num_states]
    scores = windows @ vectors
    scale = jnp.sqrt(jnp.sum(scores**2, (0, 1)) / jnp.maximum(jnp.sum(mask, dtype=y.dtype), 1))
    return scores / jnp.where(scale > 0, scale, 1.0)[None, None]


def score(q: Estimates, data: PyTree, dim: int) -> Any:
    """Held-out log density of sequences at the posterior means of the globals (after EM and MAP at
    the point estimate), by the Kalman filter in float64: nats per step, with a standard error over
    sequences."""
    _check(data, dim)
    at_means = lambda q, y, mask: log_densities(
        {n: family.stats(family.mean()) for n, family in q.items()}, y, mask
    )
    return score_sequences(at_means, q, data)


def _work(stats: Any, y: Array, mask: Array) -> int:
    return int(y.size * stats["initial"].precision.shape[0] ** 2)


@functools.partial(once_jit, work=_work)
def log_densities(
    stats: Any, y: Float[Array, "N T D"], mask: Bool[Array, "N T"]
) -> Float[Array, " N"]:
    """log p(y_n | globals) of the observed entries of each sequence, at the statistics of a
    point."""
    num_states = stats["initial"].precision.shape[0]

    def log_density(group: tuple[Array, Array]) -> Float[Array, ""]:
        chain = path_template(num_states, group)["x"]
        value, naturals = jax.value_and_grad(lambda x: energy({**stats, **x}, group))(
            zero_stats({"x": chain})
        )
        return value + chain.with_naturals(naturals["x"]).log_normalizer()

    return jax.vmap(log_density)((y, mask))


def path_template(num_states: int, group: tuple[Array, Array]) -> dict[str, Any]:
    """The template of q(x): standard normals."""
    y, mask = group
    dtype, steps = jnp.result_type(float), len(y)
    precision = to_device(-0.5 * np.eye(num_states, dtype=dtype))
    square = jnp.broadcast_to(precision, (steps, num_states, num_states))
    linear = jnp.zeros((steps, num_states), dtype)
    cross = jnp.zeros((steps - 1, num_states, num_states), dtype)
    return {"x": LinearGaussianChain(linear, square, cross, jnp.asarray(mask, bool))}


def regression_prior(
    size: int, width: int, strength: float, shape: float, rate: float
) -> MultivariateNormalGamma:
    """The prior of `size` independent regressions on `width` columns."""
    return MultivariateNormalGamma.from_parameters(
        np.zeros((size, width)), strength * np.eye(width), shape, rate
    )


def _check(data: PyTree, dim: int) -> None:
    y, mask = check_pair(data, dim)
    check_values(np.isinf(y), y, mask, "finite numbers, or NaN where an entry is missing")
