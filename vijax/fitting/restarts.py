"""Several runs of one algorithm from different starts, side by side in one program; the best by its
objective is kept.

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

from vijax.inference.compose import Algorithm, Info, State
from vijax.inference.stopping import UNSEEN, Watch
from vijax.xla.compiler import cached_program, quick_jit

WINDOW = 10
"""The objective, an estimate where batches are parts of the data, is averaged over the last so many
steps."""
MOST_COMPARED = 1 << 24
"""The most numbers of one array of all starts that are compared."""


class Many(NamedTuple):
    """States of several runs, stacked along a leading axis, their common step, and the objective of
    each at the last steps, latest last and +inf before, by which the best run is chosen, also after
    a resume."""

    states: State
    step: Int[Array, ""]
    recent: Float[Array, "restarts window"]

    @property
    def bad_steps(self) -> Int[Array, ""]:
        """Steps skipped in a row by the best run."""
        return jnp.min(self.states.bad_steps)

    @property
    def checked(self) -> Float[Array, "restarts 3"]:
        """The objectives by which convergence is judged: one of every run."""
        return self.states.checked

    @property
    def watch(self) -> Watch:
        """The averages of noisy objectives."""
        return self.states.watch


def in_runs(state: Any, change: Callable[[State], State]) -> Any:
    """A state with a change made to it, or to the stacked states of its runs."""
    return state._replace(states=change(state.states)) if isinstance(state, Many) else change(state)


def many(alg: Algorithm, restarts: int) -> Algorithm:
    """`restarts` copies of an algorithm, on the same batches, each with its own randomness. The
    state is a `Many`, and infos have a trailing axis of restarts. For one algorithm the copies are
    made once, so that they are compiled once; they refer to it weakly, so hold it while they are
    used."""
    init = cached_program(alg.init, ("restarts", restarts), lambda init: _inits(init, restarts))
    step = cached_program(alg.step, ("restarts", restarts), lambda step: _steps(step, restarts))
    return Algorithm(init, step, alg.spec, alg.wrappers)


def _inits(one: weakref.ref[Callable], restarts: int) -> Callable[..., Many]:
    def init(key: PRNGKeyArray, batch: Any = None, hyper: Any = None) -> Many:
        alone: Any = one()
        states = jax.vmap(lambda k: alone(k, batch, hyper))(jax.random.split(key, restarts))
        return Many(states, jnp.zeros((), jnp.int32), jnp.full((restarts, WINDOW), UNSEEN))

    return init


def _steps(one: weakref.ref[Callable], restarts: int) -> Callable[..., tuple[Many, Info]]:
    def step(key: PRNGKeyArray, state: Many, batch: Any) -> tuple[Many, Info]:
        alone: Any = one()
        keys = jax.random.split(key, restarts)
        states, info = jax.vmap(alone, in_axes=(0, 0, None))(keys, state.states, batch)
        recent = jnp.concatenate(
            [state.recent[:, 1:], info.elbo[:, None].astype(state.recent.dtype)], axis=1
        )
        return Many(states, state.step + 1, recent), info

    return step


def best(state: Many) -> int:
    """The run with the highest recent objective, over the steps at which it was finite."""
    recent = np.asarray(state.recent)
    finite = np.isfinite(recent)  # skipped and future steps do not count
    count = finite.sum(axis=1)
    ends = np.where(finite, recent, 0.0).sum(axis=1, dtype=recent.dtype) / np.maximum(count, 1)
    return int(np.argmax(np.where(count > 0, ends, -np.inf)))


def best_state(state: State | Many) -> State:
    """The best run's state, or a lone run's own."""
    return _run(state.states, best(state)) if isinstance(state, Many) else state


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
    if all(
        np.array_equal(leaf, np.broadcast_to(leaf[:1], leaf.shape))
        for leaf in map(np.asarray, leaves)
    ):
        warnings.warn(
            f"restarts: all {len(state.recent)} runs begin at the same place, for the model's "
            "start draws nothing, and "
            "so they are one run. Choose a start that draws, such as init=vijax.init.drawn(), or "
            "leave restarts out.",
            EqualStartsWarning,
            stacklevel=4,
        )


def of_run(
    i: int, state: Many, trace: dict[str, np.ndarray]
) -> tuple[State, dict[str, np.ndarray]]:
    """State and trace of one run, as if it had been alone."""
    alone = {name: x if name == "step" else x[:, i] for name, x in trace.items()}
    return _run(state.states, i), alone


@quick_jit
def _run(states: State, i: int) -> State:
    """One of several states."""
    return jax.tree.map(lambda x: x[i], states)
