"""Several runs of one algorithm from different starts, side by side in one program. The run with
the best objective wins.

The objective of a mixture has many optima (Blei, Kucukelbir and McAuliffe 2017, section 2.5);
restarts are the customary remedy."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from vijax.inference.compose import Algorithm
from vijax.inference.state import Info, State
from vijax.inference.stopping import UNSEEN, Watch
from vijax.xla.compiler import cached_program, quick_jit

WINDOW = 10
"""Last steps over which the objective is averaged: on parts of the data it is an estimate."""
MOST_COMPARED = 1 << 24
"""The most numbers of one array of all starts that are compared."""


class Many(NamedTuple):
    """States of several runs, stacked along a leading axis.

    Attributes:
      states: the states.
      step: their common step.
      recent: the objective of each run at the last steps, latest last, +inf before the first; it
        decides which run is the best, also after a resume.
    """

    states: State
    step: Int[Array, ""]
    recent: Float[Array, "restarts window"]

    @property
    def bad_steps(self) -> Int[Array, ""]:
        """Steps skipped in a row by the best run."""
        return jnp.min(self.states.bad_steps)

    @property
    def checked(self) -> Float[Array, "restarts 3"]:
        """The objectives by which convergence is judged, of each run."""
        return self.states.checked

    @property
    def watch(self) -> Watch:
        """The averages of noisy objectives."""
        return self.states.watch


def update_runs(state: Any, change: Callable[[State], State]) -> Any:
    """A state after a change: of a `Many`, its stacked states are changed."""
    if isinstance(state, Many):
        return state._replace(states=change(state.states))
    return change(state)


def many(alg: Algorithm, restarts: int) -> Algorithm:
    """`restarts` copies of an algorithm, on the same batches, each with its own randomness. The
    state is a `Many`, and infos have a trailing axis of restarts. Each algorithm has one set of
    copies, which is compiled once. The copies refer to it weakly: hold it while they are used."""
    init = cached_program(
        alg.init, ("restarts", restarts), lambda init_ref: _inits(init_ref, restarts)
    )
    step = cached_program(
        alg.step, ("restarts", restarts), lambda step_ref: _steps(step_ref, restarts)
    )
    return Algorithm(init, step, alg.spec, alg.wrappers)


def _inits(init_ref: weakref.ref[Callable], restarts: int) -> Callable[..., Many]:
    def init(key: PRNGKeyArray, batch: Any = None, hyper: Any = None) -> Many:
        init_run: Any = init_ref()
        states = jax.vmap(lambda k: init_run(k, batch, hyper))(jax.random.split(key, restarts))
        return Many(states, jnp.zeros((), jnp.int32), jnp.full((restarts, WINDOW), UNSEEN))

    return init


def _steps(step_ref: weakref.ref[Callable], restarts: int) -> Callable[..., tuple[Many, Info]]:
    def step(key: PRNGKeyArray, state: Many, batch: Any) -> tuple[Many, Info]:
        step_run: Any = step_ref()
        keys = jax.random.split(key, restarts)
        states, info = jax.vmap(step_run, in_axes=(0, 0, None))(keys, state.states, batch)
        last = info.elbo[:, None].astype(state.recent.dtype)
        recent = jnp.concatenate([state.recent[:, 1:], last], axis=1)
        return Many(states, state.step + 1, recent), info

    return step


def best(state: Many) -> int:
    """Index of the run with the highest mean of its recent finite objectives."""
    recent = np.asarray(state.recent)
    is_finite = np.isfinite(recent)  # skipped and future steps do not count
    count = is_finite.sum(axis=1)
    sums = np.where(is_finite, recent, 0.0).sum(axis=1, dtype=recent.dtype)
    means = sums / np.maximum(count, 1)
    return int(np.argmax(np.where(count > 0, means, -np.inf)))


def best_state(state: State | Many) -> State:
    """The state of the best run; the state itself if it is of a single run."""
    return _select(state.states, best(state)) if isinstance(state, Many) else state


def each_state(state: Many) -> list[State]:
    """The states of all runs, that of the best first."""
    first = best(state)
    order = [first, *(i for i in range(len(state.recent)) if i != first)]
    return [_select(state.states, i) for i in order]


def runs_to_average(state: State | Many, combine: str) -> Many | None:
    """The runs over which predictions are averaged; None where the best of them is kept."""
    if combine == "average" and isinstance(state, Many):
        return state
    return None


class EqualStartsWarning(UserWarning):
    """Several runs begin at the same place, and are one run."""


def warn_of_equal_starts(state: State | Many) -> None:
    """Warns where all of several runs begin at the same place: without randomness in the steps they
    are one run."""
    if not isinstance(state, Many):
        return
    leaves = jax.tree.leaves((state.states.posterior, state.states.local))
    if any(leaf.size > MOST_COMPARED for leaf in leaves):
        return
    arrays = map(np.asarray, leaves)
    if all(np.array_equal(array, np.broadcast_to(array[:1], array.shape)) for array in arrays):
        warnings.warn(
            f"restarts: all {len(state.recent)} runs begin at the same place, for the model's "
            "start draws nothing, and so they are one run. Choose a start that draws, such as "
            "init=vijax.init.local_draws(), or leave restarts out.",
            EqualStartsWarning,
            stacklevel=4,
        )


def one_run(
    i: int, state: Many, trace: dict[str, np.ndarray]
) -> tuple[State, dict[str, np.ndarray]]:
    """State and trace of run i, as if it had been a single run."""
    run_trace = {name: x if name == "step" else x[:, i] for name, x in trace.items()}
    return _select(state.states, i), run_trace


@quick_jit
def _select(states: State, i: int) -> State:
    """State i of several stacked ones."""
    return jax.tree.map(lambda x: x[i], states)
