"""Short chains that start at draws of q: they keep the distribution q if q is the posterior;
otherwise their moves are lower bounds on the errors of q."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from scipy import special

from vijax.checks import require, require_integers
from vijax.contract.model import Hyper, Model
from vijax.extras import require_extra
from vijax.fitting.result import Fit
from vijax.reference.walk import free_walk, read_groups
from vijax.xla.compiler import cached_program, step_jit

NUM_LEAPFROGS = 5
"""Leapfrog steps of a transition: a quarter to a third of the period of a normal, after which a
chain depends least on its start."""
LONGEST = 0.4
"""Largest size of a leapfrog step, in standard deviations of q; sizes are halved from it."""
SHORTEST = 1e-3
"""Smallest size of a leapfrog step."""
ACCEPTANCE = 0.7
"""Mean acceptance of the first transition at which a size is accepted."""
FALSE_ALARMS = 0.003
"""The probability of an alarm for a q without errors, for any number of means and deviations."""


class Moved(NamedTuple):
    """The moves of chains from q, by name of the global, in the shape of its values.

    Attributes:
      mean: move of the mean, in standard deviations of q.
      mean_error: standard error of `mean`.
      log_sd: log ratio of the standard deviation at the end to that of q; above zero if q is too
          narrow.
      log_sd_error: standard error of `log_sd`.
      acceptance: mean acceptance probability of the transitions. Chains whose proposals are
          rejected do not move, and show nothing.
    """

    mean: dict[str, PyTree]
    mean_error: dict[str, PyTree]
    log_sd: dict[str, PyTree]
    log_sd_error: dict[str, PyTree]
    acceptance: float

    @property
    def clear(self) -> list[str]:
        """Globals with a mean or standard deviation that has moved by more than noise."""
        count = 2 * sum(np.size(x) for x in jax.tree.leaves(self.mean))
        limit = special.ndtri(1 - 0.5 * FALSE_ALARMS / count)
        return [name for name in self.mean if self._largest_move(name)[0] > limit]

    def __str__(self) -> str:
        """Describes the result in words."""
        if not self.acceptance >= 0.3:
            acceptance = f"acceptance {self.acceptance:.2f}"
            return f"The chains hardly moved ({acceptance}), so that nothing is known of q."
        if not self.clear:
            nothing = "these chains find nothing wrong with q"
            return f"No global has moved by more than noise does: {nothing}."
        moves = [f"{name} ({self._largest_move(name)[1]})" for name in self.clear]
        return f"q is not the posterior. Moved by more than noise does: {', '.join(moves)}."

    def _largest_move(self, name: str) -> tuple[float, str]:
        """The largest move, in standard errors and in words."""
        mean_ratio, shift = _largest_ratio(self.mean[name], self.mean_error[name])
        sd_ratio, log_factor = _largest_ratio(self.log_sd[name], self.log_sd_error[name])
        factor = float(np.exp(log_factor))
        return max(
            (mean_ratio, f"a mean by {shift:+.2f} standard deviations"),
            (sd_ratio, f"a standard deviation by a factor of {factor:.2f}"),
        )


def _largest_ratio(moves: PyTree, errors: PyTree) -> tuple[float, float]:
    """The largest move in standard errors, and the move itself."""
    flat = lambda x: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(x)])
    flat_moves = flat(moves)
    ratios = np.abs(flat_moves) / np.maximum(flat(errors), 1e-12)
    largest = int(np.argmax(ratios))
    return float(ratios[largest]), float(flat_moves[largest])


def short_chains(
    fit: Fit, data: PyTree = None, *, key: PRNGKeyArray, num_chains: int = 512, num_steps: int = 10
) -> Moved:
    """The moves of chains of Hamiltonian Monte Carlo that start at draws of q.

    Each transition keeps the posterior. So if q is the posterior, the chains keep the distribution
    q, and every move beyond noise is an error of q. After few transitions the chains are still on
    their way to the posterior, and their moves are less than the errors: they are lower bounds.
    Locals are summed or integrated out.

    Args:
      fit: a fit of a log density, or of a model written as an energy (`vijax.energy_model`; some
        ready models are), with distributions of all globals.
      data: the data of the fit; None for a density without data.
      key: random key of draws and transitions.
      num_chains: number of chains; standard errors fall as one over its root.
      num_steps: number of transitions of five leapfrog steps; more come nearer to the posterior.

    Returns:
      A `Moved`; `print(moved)` describes it in words.

    Raises:
      ValueError: a count below 2 (chains) or 1 (steps); a global that is a point; a model that is
        not a log density, or an energy with free variables; or as for `vijax.reference.log_joint`.
      ImportError: blackjax is missing; the message has the remedy.

    The leapfrog step, in the metric of the covariance of q, is the longest for which seven in ten
    first transitions are accepted. Source of the transitions: R. M. Neal 2011, MCMC using
    Hamiltonian dynamics, section 3.

    >>> import vijax as vi
    >>> pair = vi.density({"x": vi.free(), "y": vi.free()}, lambda v: -(v["x"] ** 2) - 5 * (v["x"] - v["y"]) ** 2)
    >>> fit = vi.fit(vi.advi(pair), num_steps=500, key=jax.random.key(0))  # independent normals
    >>> moved = short_chains(fit, key=jax.random.key(1))
    >>> moved.clear, bool(moved.log_sd["x"] > 0.2)  # q is too narrow
    (['x', 'y'], True)
    """
    require_extra("blackjax", "mcmc")
    require_integers(2, num_chains=num_chains)
    require_integers(num_steps=num_steps)
    spec, hyper = fit.alg.spec, fit.state.hyper
    points = [name for name in fit.posterior if spec.is_point(name)]
    expected = "distributions of all globals"
    require(not points, "fit", expected, f"points of {points}", "Fit by vijax.cavi or another.")
    is_density = spec.model.log_density is not None or spec.model.free is None
    expected = "a log density, or an energy without free variables"
    remedy = "Write it as a log density (vijax.density)."
    require(is_density, "model", expected, "one with such", remedy)
    key_draws, key_trial, key_chains, key_start = jax.random.split(key, 4)
    draws = fit.posterior.sample(key_draws, (num_chains,))
    groups = read_groups(spec.model, data)
    program = cached_program(spec.model, "short chains", lambda model: step_jit(_bind(model)))
    run = lambda key, size, count: program(hyper, groups, key_start, draws, key, size, count)
    size = _find_step_size(lambda size: float(run(key_trial, size, 1)[2]))
    *values, acceptance = run(key_chains, size, num_steps)
    before, after = jax.tree.map(lambda x: np.asarray(x, np.float64), values)
    part = lambda i: jax.tree.map(lambda x, y: _measure_moves(x, y)[i], before, after)
    return Moved(part(0), part(1), part(2), part(3), float(acceptance))


def _bind(
    model_ref: weakref.ref[Model],
) -> Callable[..., tuple[dict[str, PyTree], dict[str, PyTree], Float[Array, ""]]]:
    """The function that runs chains of a model from draws of its globals, and returns the values
    before and after, and the mean acceptance."""

    def run(
        hyper: Hyper,
        groups: PyTree,
        key_start: PRNGKeyArray,
        draws: dict[str, PyTree],
        key: PRNGKeyArray,
        size: Array,
        count: Array,
    ) -> tuple[dict[str, PyTree], dict[str, PyTree], Float[Array, ""]]:
        model: Any = model_ref()
        walk = free_walk(model, groups, (), key_start, hyper)
        starts = jax.vmap(walk.free)(draws)
        ends, acceptance = _chains(walk.density, _covariance(starts), key, starts, size, count)
        before, after = (jax.vmap(lambda x: walk.values(x)[0])(x) for x in (starts, ends))
        return before, after, acceptance

    return run


def _covariance(x: Float[Array, "chains D"]) -> Float[Array, "D D"] | Float[Array, " D"]:
    """Covariance of the draws; only variances if there are fewer than ten draws for a number."""
    variances = jnp.maximum(jnp.var(x, axis=0), jnp.finfo(x.dtype).tiny ** 0.5)
    if len(x) < 10 * x.shape[1]:
        return variances
    return jnp.cov(x, rowvar=False).reshape(x.shape[1], x.shape[1]) + 1e-4 * jnp.diag(variances)


def _chains(
    density: Callable[[Array], Array],
    metric: Array,
    key: PRNGKeyArray,
    starts: Array,
    size: Array,
    count: Array,
) -> tuple[Float[Array, "chains D"], Float[Array, ""]]:
    """The ends of the chains after `count` transitions, and the mean acceptance probability."""
    blackjax = require_extra("blackjax", "mcmc")

    def chain(key: PRNGKeyArray, start: Array) -> tuple[Array, Array]:
        key_size, key = jax.random.split(key)
        chain_size = size * jax.random.uniform(key_size, minval=0.7, maxval=1.0)
        kernel = blackjax.hmc(density, chain_size, metric, NUM_LEAPFROGS)

        def move(i: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
            state, rates = carry
            state, info = kernel.step(jax.random.fold_in(key, i), state)
            return state, rates + info.acceptance_rate

        carry = kernel.init(start), jnp.zeros_like(start[0])
        state, rates = jax.lax.fori_loop(0, count, move, carry)
        return state.position, rates / count

    ends, rates = jax.vmap(chain)(jax.random.split(key, len(starts)), starts)
    return ends, jnp.mean(rates)


def _find_step_size(acceptance: Callable[[float], float]) -> float:
    """The largest acceptable step size, or the smallest that is tried."""
    size = LONGEST
    while size > SHORTEST and not acceptance(size) >= ACCEPTANCE:
        size /= 2
    return size


def _measure_moves(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """The moves of means, in standard deviations, with their standard errors over the chains, and
    the moves of log standard deviations with theirs."""
    tiny = np.finfo(float).tiny
    sd_x, sd_y = (np.maximum(draws.std(0), tiny) for draws in (x, y))
    # The contribution of each draw to the log of a standard deviation.
    terms_x = 0.5 * ((x - x.mean(0)) / sd_x) ** 2
    terms_y = 0.5 * ((y - y.mean(0)) / sd_y) ** 2
    moves = (y - x) / sd_x
    mean = moves.mean(0)
    standard_error = lambda terms: terms.std(0, ddof=1) / np.sqrt(len(x))
    mean_error = standard_error(moves - mean * terms_x)
    return mean, mean_error, np.log(sd_y / sd_x), standard_error(terms_y - terms_x)
