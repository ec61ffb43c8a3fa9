"""The loop of births, merges and deletes, each accepted by the exact bound (Hughes and Sudderth
2013; Hughes, Kim and Sudderth 2015)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax import tree
from vijax.algorithms import cavi
from vijax.arguments import Size
from vijax.checks import check_key, require, require_integers, require_on_host
from vijax.contract.model import Model
from vijax.families import Product
from vijax.fitting.fingerprint import mark_words
from vijax.fitting.interrupt import interrupt_flag
from vijax.fitting.result import Fit
from vijax.growing import moves
from vijax.growing.births import try_births
from vijax.growing.present import Present, begin, settle
from vijax.growing.proposals import Proposal
from vijax.growing.task import prepare
from vijax.growing.trials import Record
from vijax.inference.compose import Algorithm
from vijax.inference.spec import Spec
from vijax.inference.state import State
from vijax.inference.step import initial_state

LEAST_SLOTS = 8
"""Slots at the start, at least, unless they are set."""


def grow(
    make: Callable[[int], Model],
    data: Any,
    *,
    key: PRNGKeyArray,
    start: Size = 1,
    algorithm: Callable[[Model], Algorithm] = cavi,
    slots: Size | None = None,
    most: Size = 256,
    patience: Size = 2,
    laps_each: Size = 100,
    trim: bool = False,
    callbacks: Sequence[Callable[[Proposal], Any]] = (),
) -> Fit:
    """Fits a model of as many components as the data ask for: births, merges and deletes (Hughes
    and Sudderth 2013).

    A merge adds one component's data to another's; a delete hands a component's data to all others.
    A birth divides the data of one component by a small model: into two, and into more if nothing
    else has helped; and later the words that documents have of several topics together. For states
    of a chain, transitions that no path has are tried again. A candidate is given laps of the
    algorithm, and is accepted if its bound is above that of the present fit after equally many
    laps. So the bound never falls. Moves come in rounds, until `patience` rounds in a row have
    accepted none.

    The model has a fixed number of slots for components. If they are full it is doubled, and the
    programs are compiled for the new number.

    Args:
      make: number of slots -> model, such as `lambda k:
        vijax.models.dp_mixture(emission.full_gaussian(k, 2))`: a mixture of a Dirichlet process, or
        a finite one, a hidden Markov model (`vijax.models.hmm`), or topics of a hierarchical
        Dirichlet process (`vijax.models.hdp`). If the prior of the slots in use depends on the
        number of slots, as the prior of transitions does, the bound changes when they are doubled.
      data: data of the model, in memory.
      key: random key of the start and of births.
      start: number of components at the start, by the model's own start.
      algorithm: model -> the algorithm of laps, `vijax.cavi` or `lambda model:
          vijax.memoized(model, num_parts=10)`.
      slots: number of slots at the start; unset: the least power of two with room for twice the
        components, and 8 at least.
      most: number of slots that is not exceeded; births that have no room are not tried.
      patience: rounds without an accepted move after which it ends. The first divides components in
        two, the second also into eight, the third into sixteen, and so on: more rounds find many
        small components. For topics the second also divides four together into eight, the third
        eight into sixteen.
      laps_each: laps at most that a candidate, or the fit between moves, is given.
      trim: ends with a model that has only the slots with data (two at least), in which the fit
          settles again.
      callbacks: called with each `Proposal`; one that returns true stops the run.

    Returns:
      A `Fit` of the model with its last number of slots; components are in order of their sizes,
      empty slots last. Its trace has an entry for each move that was tried, in the fields of
      `vijax.growing.Proposal`; the first is the start, the last the end. `fit.trace["in_use"][-1]`
      is the number of components that hold data. A Ctrl-C lets the present move finish; the fit
      then has the moves accepted before, and `fit.status` says that it was interrupted.

    Raises:
      ValueError: an algorithm other than these; more components at the start than `most`; a model
          without slots.

    >>> import numpy as np, vijax as vi
    >>> y = np.random.default_rng(0).normal(size=(90, 1)) + np.repeat([-9.0, 0.0, 9.0], 30)[:, None]
    >>> make = lambda k: vi.models.dp_mixture(vi.models.emission.unit_gaussian(k, dim=1))
    >>> fit = vi.grow(make, y, key=jax.random.key(0))
    >>> int(fit.trace["in_use"][-1]), sorted(fit.posterior["components"].mean()[:3, 0].round().astype(int).tolist())
    (3, [-9, 0, 9])
    """
    require_on_host("vijax.grow", data, key)
    check_key(key)
    require_integers(start=start, most=most, patience=patience, laps_each=laps_each)
    if slots is None:
        slots = max(LEAST_SLOTS, 1 << (2 * start - 1).bit_length())
    size = min(slots, most)
    expected = f"at most the number of slots, {size}"
    require(start <= size, "start", expected, start, "Raise most, or slots.")
    with interrupt_flag() as interrupted:
        record = Record(callbacks, interrupted)
        task, setting = prepare(make, algorithm, data, size, most, laps_each)
        key_start, key_rounds = jax.random.split(key)
        fit = begin(task, setting, key_start, start)
        record.note(fit, "start", (), fit.elbo, True, 0)
        fit = _rounds(fit, record, key_rounds, patience)
        if trim:
            fit = moves.trim(fit)
        return _finish(fit, record)


def _rounds(fit: Present, record: Record, key: PRNGKeyArray, patience: int) -> Present:
    """Rounds of moves, until `patience` of them in a row have accepted none."""
    quiet = 0
    number = 0
    while quiet < patience and not record.stops:
        accepted = record.accepted
        if quiet == 0:  # after a quiet round these moves would be the same again
            fit = moves.try_sort(fit, record)
            fit = moves.try_merges(fit, record)
            fit = moves.try_deletes(fit, record)
            fit = moves.try_entries(fit, record)
        fit = try_births(fit, record, jax.random.fold_in(key, number), quiet)
        quiet = 0 if record.accepted > accepted else quiet + 1
        number += 1
    return fit


def _finish(fit: Present, record: Record) -> Fit:
    """The result: the fit once it has settled, with the trace of all moves."""
    before = fit.elbo
    fit = settle(fit)
    record.note(fit, "end", (), fit.elbo - before, True, 0)
    spec = fit.setting.alg.spec
    columns = zip(*record.proposals, strict=True)
    trace = {name: _column(name, x) for name, x in zip(Proposal._fields, columns, strict=True)}
    steps = np.cumsum(trace["laps"])
    state = state_at(spec, fit.posterior)
    state = state._replace(step=jnp.asarray(steps[-1], jnp.int32))
    vocabulary = fit.task.vocabulary
    if vocabulary is not None:
        state = state._replace(data=jnp.asarray(mark_words(vocabulary)))
    alg = fit.task.algorithm(fit.task.make(fit.num_slots))
    return Fit(alg, state, {"step": steps, **trace}, record.status, vocabulary=vocabulary)


def state_at(spec: Spec, posterior: Product) -> State:
    """The state of step 0 at a posterior, by which an algorithm goes on from there."""
    return initial_state(spec, tree.as_arrays(spec.model.hyper), posterior)


def _column(name: str, values: Sequence[Any]) -> np.ndarray:
    """The values of a field of `Proposal`; components as text, such as "0 3"."""
    if name == "components":
        return np.array([" ".join(map(str, x)) for x in values])
    return np.array(values)
