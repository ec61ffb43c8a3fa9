"""Short chains that begin at draws of q: they stay if q is the posterior, and else their moves
bound its errors."""

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

LEAPS = 5
"""Leapfrog steps of a transition: a quarter to a third of a turn of a normal, which leave least of
where it began."""
LONGEST, SHORTEST = 0.4, 1e-3
"""Sizes of leapfrog steps that are tried, in standard deviations of q: each half of the one
before."""
WANTED = 0.7  # mean acceptance of the first transition from which a size is accepted
# the probability that a q without error is said to have one, for any number of means and deviations
BY_CHANCE = 0.003


class Moved(NamedTuple):
    """The moves of chains from q, by name of the global, in the shape of its values.

    Attributes:
      mean: move of the mean, in standard deviations of q.
      mean_error: standard error of `mean`.
      log_sd: log of the ratio of the standard deviation at the end to that of q: above zero where q
          is too narrow.
      log_sd_error: standard error of `log_sd`.
      acceptance: mean acceptance probability of the transitions. Rejected chains stay, and tell
          nothing.
    """

    mean: dict[str, PyTree]
    mean_error: dict[str, PyTree]
    log_sd: dict[str, PyTree]
    log_sd_error: dict[str, PyTree]
    acceptance: float

    @property
    def clear(self) -> list[str]:
        """Globals with a mean or deviation that has moved by more standard errors than noise
        would."""
        count = 2 * sum(np.size(x) for x in jax.tree.leaves(self.mean))
        most = special.ndtri(1 - 0.5 * BY_CHANCE / count)
        return [name for name in self.mean if self._farthest(name)[0] > most]

    def __str__(self) -> str:
        """Describes the result in words."""
        if not self.acceptance >= 0.3:
            return (
                f"The chains hardly moved (acceptance {self.acceptance:.2f}), so that nothing is "
                "known of q."
            )
        if not self.clear:
            return (
                "No global has moved by more than noise does: these chains find nothing wrong "
                "with q."
            )
        said = [f"{name} ({self._farthest(name)[1]})" for name in self.clear]
        return f"q is not the posterior. Moved by more than noise does: {', '.join(said)}."

    def _farthest(self, name: str) -> tuple[float, str]:
        """The largest move, in standard errors and in words."""
        found = []
        for move, error, words in (
            (self.mean[name], self.mean_error[name], "a mean by {:+.2f} standard deviations"),
            (
                self.log_sd[name],
                self.log_sd_error[name],
                "a standard deviation by a factor of {:.2f}",
            ),
        ):
            moves, errors = (
                np.concatenate([np.ravel(x) for x in jax.tree.leaves(part)])
                for part in (move, error)
            )
            ratio = np.abs(moves) / np.maximum(errors, 1e-12)
            at = int(np.argmax(ratio))
            size = float(moves[at]) if "mean" in words else float(np.exp(moves[at]))
            found.append((float(ratio[at]), words.format(size)))
        return max(found)


def short_chains(
    fit: Fit, data: PyTree = None, *, key: PRNGKeyArray, num_chains: int = 512, num_steps: int = 10
) -> Moved:
    """Chains of Hamiltonian Monte Carlo that begin at draws of q, and their moves after some
    transitions.

    Each transition leaves the posterior as it is. So where q is the posterior the chains stay
    distributed as q, and every move beyond noise is an error of q. The moves of few transitions are
    less than the errors, because the chains are still on their way to the posterior: they are lower
    bounds. Locals are summed or integrated out.

    Args:
      fit: a fit of a log density, or of a model written as an energy (`vijax.energy_model`; some
        ready models are), with distributions of all globals.
      data: the data that it was fitted to; None for a density without data.
      key: random key of draws and transitions.
      num_chains: number of chains; standard errors fall as one over its root.
      num_steps: transitions of five leapfrog steps. More come nearer to the posterior.

    Returns:
      A `Moved`; `print(moved)` describes it in words.

    Raises:
      ValueError: a count below 2 (chains) or 1 (steps); a global of which only a point was found; a
        model that is no log density, or an energy with free variables; see
        `vijax.reference.log_joint`.
      ImportError: blackjax is missing; the message has the remedy.

    The leapfrog step, in the metric of q's covariance, is the longest with which seven in ten first
    transitions are accepted. Source of the transitions: R. M. Neal 2011, MCMC using Hamiltonian
    dynamics, section 3.

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
    require(
        not points,
        "fit",
        "distributions of all globals",
        f"points of {points}",
        "Fit by vijax.cavi or another.",
    )
    walkable = spec.model.log_density is not None or spec.model.free is None
    remedy = "Write it as a log density (vijax.density)."
    require(
        walkable,
        "model",
        "a log density, or an energy without free variables",
        "one with such",
        remedy,
    )
    key_draws, key_tried, key_walk, key_start = jax.random.split(key, 4)
    draws, groups = fit.posterior.sample(key_draws, (num_chains,)), read_groups(spec.model, data)
    program = cached_program(spec.model, "short chains", lambda model: step_jit(_bind(model)))
    walked = lambda key, size, count: program(hyper, groups, key_start, draws, key, size, count)
    *values, acceptance = walked(
        key_walk, _longest(lambda size: float(walked(key_tried, size, 1)[2])), num_steps
    )
    before, after = jax.tree.map(lambda x: np.asarray(x, np.float64), values)
    part = lambda i: jax.tree.map(lambda x, y: _move(x, y)[i], before, after)
    return Moved(part(0), part(1), part(2), part(3), float(acceptance))


def _bind(
    of: weakref.ref[Model],
) -> Callable[..., tuple[dict[str, PyTree], dict[str, PyTree], Float[Array, ""]]]:
    """Chains of a model from draws of its globals: their values before and after, and the mean
    acceptance."""

    def walked(
        hyper: Hyper,
        groups: PyTree,
        key_start: PRNGKeyArray,
        draws: dict[str, PyTree],
        key: PRNGKeyArray,
        size: Array,
        count: Array,
    ) -> tuple[dict[str, PyTree], dict[str, PyTree], Float[Array, ""]]:
        model: Any = of()
        walk = free_walk(model, groups, (), key_start, hyper)
        starts = jax.vmap(walk.free)(draws)
        ends, acceptance = _chains(walk.density, _covariance(starts), key, starts, size, count)
        before, after = (jax.vmap(lambda x: walk.values(x)[0])(x) for x in (starts, ends))
        return before, after, acceptance

    return walked


def _covariance(x: Float[Array, "chains D"]) -> Float[Array, "D D"] | Float[Array, " D"]:
    """Covariance of the draws; their variances alone where there are not many more draws than
    numbers."""
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
    """The ends of the chains after these transitions, and the mean acceptance probability."""
    blackjax = require_extra("blackjax", "mcmc")

    def chain(key: PRNGKeyArray, start: Array) -> tuple[Array, Array]:
        key_size, key = jax.random.split(key)
        own = size * jax.random.uniform(key_size, minval=0.7, maxval=1.0)
        kernel = blackjax.hmc(density, own, metric, LEAPS)

        def move(i: Array, now: tuple[Any, Array]) -> tuple[Any, Array]:
            state, info = kernel.step(jax.random.fold_in(key, i), now[0])
            return state, now[1] + info.acceptance_rate

        state, rates = jax.lax.fori_loop(
            0, count, move, (kernel.init(start), jnp.zeros_like(start[0]))
        )
        return state.position, rates / count

    ends, rates = jax.vmap(chain)(jax.random.split(key, len(starts)), starts)
    return ends, jnp.mean(rates)


def _longest(acceptance: Callable[[float], float]) -> float:
    """The longest acceptable step size, or the shortest tried."""
    size = LONGEST
    while size > SHORTEST and not acceptance(size) >= WANTED:
        size /= 2
    return size


def _move(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """Moves of means, in deviations, and of log deviations, each with its standard error over the
    chains."""
    least, root = np.finfo(float).tiny, np.sqrt(len(x))
    sd, sd_after = (np.maximum(draws.std(0), least) for draws in (x, y))
    # The contribution of a draw to the log of a standard deviation.
    adds, adds_after = 0.5 * ((x - x.mean(0)) / sd) ** 2, 0.5 * ((y - y.mean(0)) / sd_after) ** 2
    moves = (y - x) / sd
    mean = moves.mean(0)
    errors = [part.std(0, ddof=1) / root for part in (moves - mean * adds, adds_after - adds)]
    return mean, errors[0], np.log(sd_after / sd), errors[1]
