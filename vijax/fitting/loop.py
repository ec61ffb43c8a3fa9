"""The inner loop: a chunk of steps in one compiled call, with no host round trip between steps."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from vijax.contract.batch import Minibatch
from vijax.contract.general import with_points, without_points
from vijax.contract.intake import check_fits
from vijax.contract.model import Hyper
from vijax.data.loader import ArrayLoader, Loader
from vijax.fitting.restarts import in_runs
from vijax.fitting.step_infos import Told
from vijax.inference.compose import Info, State
from vijax.inference.stopping import CHECK_EVERY, observed
from vijax.xla.compiler import cached_program, count_numbers, step_jit, training_jit
from vijax.xla.random_bits import fused_key

NETWORK = 1 << 17
"""Numbers that the optimiser of learnt points keeps, from which these are networks: Adam keeps two
for each weight."""


SMALL = 1 << 16
"""Numbers in a minibatch, below which 50 of them take little memory."""


def run_chunk(
    step: Callable,
    length: int,
    key: PRNGKeyArray,
    points: Hyper,
    state: State,
    batches: Minibatch,
    num_steps: Int[Array, ""] | np.int32,
    is_watched: bool = False,
    max_bad_steps: int = 10,
) -> tuple[State, Told]:
    """`num_steps` <= `length` steps; the randomness of step t is fold_in(key, t).

    The trip count is dynamic, so chunks of any number of steps share one executable: nothing
    recompiles at the end of a run, and where a run is stopped and goes on cannot change its
    numbers.

    Args:
      step: an `Algorithm.step`: one algorithm, one executable, which lives as long as this
          function.
      length: capacity of the chunk.
      key: random key of the run.
      points: more points that the step reads, and the state does not hold
          (`vijax.contract.general.constants`).
      state: the state, which is donated.
      batches: stacked along a leading axis of `length`; or of 1, when every step reads the same
          data.
      num_steps: number of steps to run.
      is_watched: the state's `watch` is shown the objective of every step.
      max_bad_steps: skipped steps in a row with which the chunk ends before its time, at a step
        that is a multiple of `look_every`: so a long chunk ends where short ones do.

    Returns:
      The state after the steps, and their infos, valid up to `num_steps`; without the groups' own
      bounds.
    """
    learnt = getattr(state, "states", state).opt_state  # of restarts those of all
    compiled = training_jit if count_numbers(learnt) >= NETWORK else step_jit
    make = lambda step: compiled(partial(_chunk, step), static_argnums=(0, 6), donate_argnums=3)
    program = cached_program(step, ("chunk", compiled), make)
    return program(
        length, key, points, state, batches, num_steps, is_watched, np.int32(max_bad_steps)
    )


def _chunk(
    step_of: weakref.ref[Callable],
    length: int,
    key: PRNGKeyArray,
    points: Hyper,
    state: State,
    batches: Minibatch,
    num_steps: Int[Array, ""],
    is_watched: bool,
    max_bad_steps: Int[Array, ""],
) -> tuple[State, Told]:
    step: Any = step_of()
    look = look_every(all(x.shape[0] == 1 for x in jax.tree.leaves(batches)))

    @jax.jit  # so that it is traced once, though it is called for its shapes and for its numbers
    def one(state: State, i: Array) -> tuple[State, Info]:
        batch = jax.tree.map(lambda x: x[jnp.minimum(i, x.shape[0] - 1)], batches)
        state = in_runs(state, lambda runs: with_points(runs, points))
        state, info = step(jax.random.fold_in(fused_key(key), state.step), state, batch)
        state = in_runs(state, lambda runs: without_points(runs, points))
        return state, info._replace(per_group=None)  # as large as the data, and nobody reads it

    def goes_on(carry: tuple[Array, Any, Told]) -> Array:
        i, state, _ = carry
        return (i < num_steps) & (
            (i == 0) | (state.step % look != 0) | (state.bad_steps < max_bad_steps)
        )

    def body(carry: tuple[Array, Any, Told]) -> tuple[Array, Any, Told]:
        i, state, told = carry
        state, info = one(state, i)
        return i + 1, state, told.with_row(i, info)

    told = Told.empty(length, jax.eval_shape(one, state, jnp.int32(0))[1])
    taken, state, told = jax.lax.while_loop(goes_on, body, (jnp.int32(0), state, told))
    return _watched(state, told.infos().elbo, taken) if is_watched else state, told


def look_every(is_whole: bool) -> int:
    """Steps after which a run of many skipped steps is looked for, on all data and on
    minibatches."""
    return CHECK_EVERY if is_whole else 10


def most_steps(loader: Loader, is_seen: bool) -> int:
    """The capacity of a chunk where none is given: few steps of minibatches, which take memory, if
    callbacks see them or they are not small arrays."""
    if loader.steps_per_epoch == 1:
        return 500
    small = (
        isinstance(loader, ArrayLoader)
        and count_numbers(loader.data) < SMALL * loader.steps_per_epoch
    )
    return 50 if small and not is_seen else look_every(False)


def _watched(state: Any, elbo: Array, num_steps: Array) -> Any:
    """The state with the objectives seen by its watch. (Not done in the step: a second use of the
    objective inside it would compile to another rounding of the reported one.)"""
    see = observed if elbo.ndim == 1 else jax.vmap(observed)

    def change(runs: State) -> State:
        return runs._replace(
            watch=jax.lax.fori_loop(0, num_steps, lambda i, seen: see(seen, elbo[i]), runs.watch)
        )

    return in_runs(state, change)


def runs_of_one_shape(batches: Iterable[Minibatch]) -> Iterator[list[Minibatch]]:
    """Batches in their order, with consecutive ones of one shape together."""
    shape = lambda batch: (
        jax.tree.structure(batch),
        [np.shape(leaf) for leaf in jax.tree.leaves(batch)],
    )
    for _, alike in itertools.groupby(batches, shape):
        yield list(alike)


def stacked(batches: Iterator[Minibatch], length: int, count: int) -> PyTree:
    """`count` batches stacked along a leading axis of `length`, the rest zeros that no step
    reads."""
    parts = [next(batches) for _ in range(count)]

    def stack(*xs: Any) -> np.ndarray:
        first = np.asarray(xs[0])
        out = np.zeros((length, *first.shape), first.dtype)
        for i, x in enumerate(xs):
            out[i] = x
        check_fits(out)
        return out

    return jax.tree.map(stack, *parts)
