"""Several runs of one algorithm from different starts, side by side in one program; the best by its objective is kept.

The objective of a mixture has many optima (seed 002, section 2.5); restarts are the customary remedy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from vijax.algorithm import Algorithm, Info, State


class Many(NamedTuple):
    """States of several runs, stacked along a leading axis, and the step they are all at."""

    states: State
    step: Int[Array, ""]

    @property
    def bad_steps(self) -> Int[Array, ""]:
        """Steps skipped in a row by the run that fares best."""
        return jnp.min(self.states.bad_steps)


def many(alg: Algorithm, restarts: int) -> Algorithm:
    """`restarts` copies of an algorithm, on the same batches, each with randomness of its own. Its state is a `Many`,
    and what it reports has a trailing axis of restarts."""

    def init(key: PRNGKeyArray, batch: Any = None) -> Many:
        states = jax.vmap(lambda k: alg.init(k, batch))(jax.random.split(key, restarts))
        return Many(states, jnp.zeros((), jnp.int32))

    def step(key: PRNGKeyArray, state: Many, batch: Any) -> tuple[Many, Info]:
        keys = jax.random.split(key, restarts)
        states, info = jax.vmap(alg.step, in_axes=(0, 0, None))(keys, state.states, batch)
        return Many(states, state.step + 1), info

    return Algorithm(init, step, alg.spec)  # type: ignore[arg-type]


def best(trace: dict[str, np.ndarray], window: int = 10) -> int:
    """The run with the highest objective, averaged over the last steps (which matters where it is an estimate)."""
    ends = np.mean(trace["elbo"][-window:], axis=0)
    return int(np.argmax(np.where(np.isfinite(ends), ends, -np.inf)))


def of_run(i: int, state: Many, trace: dict[str, np.ndarray]) -> tuple[State, dict[str, np.ndarray]]:
    """State and trace of one run, as if it had been alone."""
    alone = {name: x if name == "step" else x[:, i] for name, x in trace.items()}
    return jax.tree.map(lambda x: x[i], state.states), alone
