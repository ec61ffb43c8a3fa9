"""The inner loop: a chunk of steps in one compiled call, with no host round trip between steps."""

from __future__ import annotations

import dataclasses
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray, PyTree

from vijax.contract.batch import Minibatch
from vijax.contract.general import drop_points, with_points
from vijax.contract.intake import check_fits
from vijax.contract.model import Hyper, Model
from vijax.data.loader import ArrayLoader, Loader
from vijax.fitting.restarts import Many, update_runs
from vijax.fitting.step_infos import InfoTables
from vijax.inference.state import Info, State
from vijax.inference.stopping import CHECK_EVERY, observed
from vijax.xla.compiler import cached_program, count_numbers, step_jit, training_jit
from vijax.xla.random_bits import fused_key

NETWORK = 1 << 17
"""Numbers in the optimiser's memory from which learnt points count as networks: Adam keeps two for
each weight."""


SMALL = 1 << 16
"""Numbers in a minibatch below which 50 minibatches take little memory."""


class ChunkEnd(NamedTuple):
    """The end of a chunk: the steps that it took, and how many of the last were bad."""

    num_run: Any
    bad_steps: Any


def run_chunk(
    step: Callable,
    length: int,
    key: PRNGKeyArray,
    points: Hyper,
    state: Any,
    batches: Minibatch,
    num_steps: Int[Array, ""] | np.int32,
    is_watched: bool = False,
    max_bad_steps: int = 10,
    is_queued: bool = False,
    in_turn: bool = False,
) -> tuple[Any, InfoTables, ChunkEnd]:
    """Runs `num_steps` <= `length` steps; the randomness of step t is fold_in(key, t).

    The trip count is dynamic, so chunks of any number of steps share one executable: nothing
    recompiles at the end of a run, and it cannot change the numbers of a run where it was
    interrupted.

    Args:
      step: an `Algorithm.step`: one algorithm, one executable, which lives as long as this
          function.
      length: capacity of the chunk.
      key: random key of the run.
      points: points that the step reads and the state does not hold
          (`vijax.contract.general.constants`).
      state: the state, which is donated.
      batches: stacked along a leading axis of `length`; or of 1, when every step reads the same
          data.
      num_steps: number of steps to run.
      is_watched: True if the state's `watch` observes the objective of every step.
      max_bad_steps: skipped steps in a row after which the chunk ends early, at a step that is a
        multiple of `look_every`: a long chunk ends where short ones do.
      is_queued: True if nobody has looked at the chunk before it: after a run of bad steps it takes
        none.
      in_turn: True if `step` is that of a single run, and `state` has several, which take it in
        turn. Numbers are those of runs side by side, up to rounding.

    Returns:
      The state after the steps; the infos of the steps, valid up to `num_steps`, without the bounds
      of single groups; and the end of the chunk, which can be read when the state is donated.
    """
    optimiser = getattr(state, "states", state).opt_state  # with restarts the memory of all runs
    jit = training_jit if count_numbers(optimiser) >= NETWORK else step_jit
    chunk: Callable = _chunk
    if in_turn:
        chunk = _chunk_in_turn
    make = lambda step_ref: jit(partial(chunk, step_ref), static_argnums=(0, 6), donate_argnums=3)
    program = cached_program(step, (chunk, jit), make)
    return program(
        length,
        key,
        points,
        state,
        batches,
        num_steps,
        is_watched,
        np.int32(max_bad_steps),
        np.bool_(is_queued),
    )


def _chunk(
    step_ref: weakref.ref[Callable],
    length: int,
    key: PRNGKeyArray,
    points: Hyper,
    state: State,
    batches: Minibatch,
    num_steps: Int[Array, ""],
    is_watched: bool,
    max_bad_steps: Int[Array, ""],
    is_queued: Bool[Array, ""],
) -> tuple[State, InfoTables, ChunkEnd]:
    step: Any = step_ref()
    num_steps = jnp.where(is_queued & (state.bad_steps >= max_bad_steps), 0, num_steps)
    look = look_every(all(x.shape[0] == 1 for x in jax.tree.leaves(batches)))

    @jax.jit  # so that it is traced once, though it is called for its shapes and for its numbers
    def take_step(state: State, i: Array) -> tuple[State, Info]:
        batch = jax.tree.map(lambda x: x[jnp.minimum(i, x.shape[0] - 1)], batches)
        state = update_runs(state, lambda runs: with_points(runs, points))
        state, info = step(jax.random.fold_in(fused_key(key), state.step), state, batch)
        state = update_runs(state, lambda runs: drop_points(runs, points))
        return state, info._replace(per_group=None)  # as large as the data, and nobody reads it

    def has_next(carry: tuple[Array, Any, InfoTables]) -> Array:
        i, state, _ = carry
        is_good = (i == 0) | (state.step % look != 0) | (state.bad_steps < max_bad_steps)
        return (i < num_steps) & is_good

    def body(carry: tuple[Array, Any, InfoTables]) -> tuple[Array, Any, InfoTables]:
        i, state, tables = carry
        state, info = take_step(state, i)
        return i + 1, state, tables.with_row(i, info)

    tables = InfoTables.empty(length, jax.eval_shape(take_step, state, jnp.int32(0))[1])
    num_run, state, tables = jax.lax.while_loop(has_next, body, (jnp.int32(0), state, tables))
    if is_watched:
        state = _observe(state, tables.infos().elbo, num_run)
    return state, tables, ChunkEnd(num_run, state.bad_steps)


def look_every(is_full: bool) -> int:
    """Steps between two looks for a run of bad steps: on full data, or on minibatches."""
    return CHECK_EVERY if is_full else 10


def most_steps(loader: Loader, is_followed: bool) -> int:
    """The usual capacity of a chunk. On minibatches, which take memory, it is small if callbacks
    follow the chunks or the batches are not small arrays."""
    if loader.steps_per_epoch == 1:
        return 500
    is_small = (
        isinstance(loader, ArrayLoader)
        and count_numbers(loader.data) < SMALL * loader.steps_per_epoch
    )
    return 50 if is_small and not is_followed else look_every(is_full=False)


def _observe(state: Any, elbo: Array, num_steps: Array) -> Any:
    """The state after its watch has observed the objectives of the chunk. (Not done in the step: a
    second use of the objective inside it would compile to another rounding of the reported one.)"""
    observe = observed if elbo.ndim == 1 else jax.vmap(observed)

    def observe_all(runs: State) -> State:
        watch = jax.lax.fori_loop(
            0, num_steps, lambda i, watch: observe(watch, elbo[i]), runs.watch
        )
        return runs._replace(watch=watch)

    return update_runs(state, observe_all)


def runs_of_one_shape(batches: Iterable[Minibatch]) -> Iterator[list[Minibatch]]:
    """Batches in their order, as lists of consecutive batches of one shape."""

    def shape(batch: Minibatch) -> tuple[Any, list[tuple[int, ...]]]:
        leaves, structure = jax.tree.flatten(batch)
        return structure, [np.shape(leaf) for leaf in leaves]

    for _, run in itertools.groupby(batches, shape):
        yield list(run)


def stack(batches: Iterator[PyTree], length: int, count: int) -> PyTree:
    """`count` batches along a leading axis of `length`, followed by zeros that no step reads."""

    def stack_leaves(*leaves: Any) -> np.ndarray:
        first = np.asarray(leaves[0])
        table = np.zeros((length, *first.shape), first.dtype)
        for i, leaf in enumerate(leaves):
            table[i] = leaf
        check_fits(table)
        return table

    return jax.tree.map(stack_leaves, *[next(batches) for _ in range(count)])


# --- several runs in turn -------------------------------------------------------------------------
_Runs = tuple[State, Array, InfoTables]
"""States, recent objectives and infos, each with a leading axis of runs."""


def takes_turns(model: Model) -> bool:
    """True where each run takes a few steps and then the next run the same steps, for documents on
    a processor. A step of topics moves tables that fill the cache by themselves, and calls kernels
    that take one run at a time: side by side it costs twice as much."""
    return model.form.documents is not None and jax.default_backend() == "cpu"


def _chunk_in_turn(
    step_ref: weakref.ref[Callable],
    length: int,
    key: PRNGKeyArray,
    points: Hyper,
    state: Many,
    batches: Minibatch,
    num_steps: Int[Array, ""],
    is_watched: bool,
    max_bad_steps: Int[Array, ""],
    is_queued: Bool[Array, ""],
) -> tuple[Many, InfoTables, ChunkEnd]:
    step: Any = step_ref()
    num_steps = jnp.where(is_queued & (state.bad_steps >= max_bad_steps), 0, num_steps)
    restarts = len(state.recent)
    look = look_every(all(x.shape[0] == 1 for x in jax.tree.leaves(batches)))

    @jax.jit  # so that it is traced once, though it is called for its shapes and for its numbers
    def take_step(run: Int[Array, ""], i: Array, state: State) -> tuple[State, Info]:
        batch = jax.tree.map(lambda x: x[jnp.minimum(i, x.shape[0] - 1)], batches)
        keys = jax.random.split(jax.random.fold_in(fused_key(key), state.step), restarts)
        state, info = step(keys[run], with_points(state, points), batch)
        return drop_points(state, points), info._replace(per_group=None)

    def take_turn(run: Int[Array, ""], begin: Array, end: Array, whole: _Runs) -> _Runs:
        """The runs after one of them has taken the steps from `begin` to `end`."""
        one_state, one_recent, one_tables = jax.tree.map(lambda x: x[run], whole)

        def body(i: Array, carry: tuple[State, Array, InfoTables]) -> Any:
            state, recent, tables = carry
            state, info = take_step(run, i, state)
            recent = jnp.append(recent[1:], info.elbo.astype(recent.dtype))
            return state, recent, tables.with_row(i, info)

        moved_run = jax.lax.fori_loop(begin, end, body, (one_state, one_recent, one_tables))
        return jax.tree.map(lambda all_runs, x: all_runs.at[run].set(x), whole, moved_run)

    def has_next(carry: tuple[Array, Array, _Runs]) -> Array:
        i, common_step, runs = carry
        bad_steps = jnp.min(runs[0].bad_steps)
        is_good = (i == 0) | (common_step % look != 0) | (bad_steps < max_bad_steps)
        return (i < num_steps) & is_good

    def take_round(carry: tuple[Array, Array, _Runs]) -> tuple[Array, Array, _Runs]:
        """All runs to the next step at which bad runs may end the chunk."""
        i, common_step, runs = carry
        end = jnp.minimum(i + look - common_step % look, num_steps)
        runs = jax.lax.fori_loop(
            0, restarts, lambda run, whole: take_turn(run, i, end, whole), runs
        )
        return end, common_step + (end - i), runs

    first_run = jax.eval_shape(lambda states: jax.tree.map(lambda x: x[0], states), state.states)
    info = jax.eval_shape(take_step, jnp.int32(0), jnp.int32(0), first_run)[1]
    tables = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (restarts, *x.shape)), InfoTables.empty(length, info)
    )
    begin = jnp.int32(0), state.step, (state.states, state.recent, tables)
    num_run, last_step, (states, recent, tables) = jax.lax.while_loop(has_next, take_round, begin)
    result, table = Many(states, last_step, recent), _with_last_axis(tables, restarts)
    if is_watched:
        result = _observe(result, table.infos().elbo, num_run)
    return result, table, ChunkEnd(num_run, result.bad_steps)


def _with_last_axis(tables: InfoTables, restarts: int) -> InfoTables:
    """Tables of runs, with the runs along an axis of each number, as of runs side by side."""
    kinds = tuple(((restarts, *shape), dtype) for shape, dtype in tables.kinds)
    tables_of_runs = tuple(jnp.moveaxis(table, 0, 2) for table in tables.tables)
    return dataclasses.replace(tables, tables=tables_of_runs, kinds=kinds)
