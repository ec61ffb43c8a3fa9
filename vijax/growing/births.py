"""Births: the data of one component, or the words of several topics, divided among more.

Each function takes the present fit and the record, and returns the present fit after it."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from vijax.families import Product
from vijax.growing import documents, laps
from vijax.growing.present import HELD, Present, make_room, permutation, rank_sizes, sort_slots
from vijax.growing.slots import STICKS
from vijax.growing.states import divide_state
from vijax.growing.task import FEW, model_prior
from vijax.growing.trials import Record, try_candidate

MANY = 8
"""Components into which a birth divides one if `FEW` have not helped; then twice as many, and so
on."""
HOPELESS = 20.0
"""A birth that loses more nats than this before any lap is not followed: its laps seldom make that
good."""

Outcome = tuple[Present, np.ndarray | None]
"""The present fit after a trial, and the new places of the old slots; None if it was rejected."""


class Pieces(NamedTuple):
    """The components of a small model of the data of some slots.

    Attributes:
      posterior: of the small model, with J slots.
      prior: its prior.
      sizes: observations of each of its components, (J,).
      entropy: of the classes of the observations; 0 for topics.
    """

    posterior: Product
    prior: Product
    sizes: np.ndarray
    entropy: float


def try_births(fit: Present, record: Record, key: PRNGKeyArray, quiet: int) -> Present:
    """Tries births in each component that holds two observations or more, the largest first.

    Each component is divided in two, by the small model's own start, and from a single observation:
    the one that is explained worst. After `quiet` rounds without an accepted move it is also
    divided into many (a topic together with those near it), and the single observation is drawn at
    random."""
    ways = [(FEW, False), (FEW, True)]
    if quiet:
        ways.append((MANY << (quiet - 1), False))
    number = 0
    queue = [int(k) for k in fit.used if fit.counts[k] >= 2]
    while queue and not record.stops:
        slot = queue.pop(0)
        for pieces, by_row in ways:
            key_birth = jax.random.fold_in(key, number)
            number += 1
            least = 2 if by_row else 2 * pieces
            if record.stops or fit.counts[slot] < least:
                continue
            fit, places = _try_birth(fit, record, key_birth, slot, pieces, by_row, quiet > 0)
            if places is not None:
                queue = [int(places[i]) for i in queue]
                slot = int(places[slot])
    return fit


def _try_birth(
    fit: Present,
    record: Record,
    key: PRNGKeyArray,
    slot: int,
    pieces: int,
    by_row: bool,
    at_random: bool,
) -> Outcome:
    """Divides a slot; from a single document, stretch of steps or row if `by_row`, a row that is
    the worst explained or drawn `at_random`."""
    if fit.task.has_topics:
        return _divide_topics(fit, record, key, slot, pieces, by_row)
    if fit.task.is_chain:
        return _divide_state(fit, record, key, slot, pieces, by_row)
    row = _choose_row(fit, key, slot, at_random) if by_row else -1
    return _divide_rows(fit, record, key, slot, pieces, row)


# --- rows -----------------------------------------------------------------------------------------
def _choose_row(fit: Present, key: PRNGKeyArray, slot: int, at_random: bool) -> int:
    """An observation of a slot: the one that is explained worst, or any."""
    is_inside = np.asarray(fit.rows.slot).ravel() == slot
    if not at_random or not is_inside.any():
        bounds = np.asarray(fit.rows.bound).ravel()
        return int(np.argmin(np.where(is_inside, bounds, np.inf)))
    number = int(jax.random.randint(key, (), 0, is_inside.sum()))
    return int(np.flatnonzero(is_inside)[number])


def _divide_rows(
    fit: Present, record: Record, key: PRNGKeyArray, slot: int, pieces: int, row: int
) -> Outcome:
    task = fit.task
    small = task.small(pieces)
    weights = jnp.where(fit.rows.slot == slot, fit.rows.share, 0.0)
    division = laps.divide(small, task.axes, key, task.batches, weights, row, task.laps_each)
    sizes = np.asarray(division.sizes)
    found = Pieces(division.posterior, model_prior(small), sizes, float(division.entropy))
    return _try_pieces(fit, record, np.array([slot]), found)


# --- topics ---------------------------------------------------------------------------------------
def _divide_topics(
    fit: Present, record: Record, key: PRNGKeyArray, slot: int, pieces: int, by_document: bool
) -> Outcome:
    """Divides a topic with those nearest it, half as many as pieces; `by_document` from one."""
    task = fit.task
    small = task.small(pieces)
    nearness = np.asarray(documents.nearness(fit.data))[slot]
    distance = np.where(fit.used == slot, -np.inf, -nearness[fit.used])
    slots = fit.used[np.argsort(distance, kind="stable")[: pieces // 2]]
    posterior, sizes = documents.divide_topics(
        fit.setting.alg,
        small,
        task.axes,
        fit.posterior,
        fit.data,
        key,
        np.isin(np.arange(fit.num_slots), slots),
        by_document,
        task.laps_each,
    )
    found = Pieces(posterior, model_prior(small), np.asarray(sizes), 0.0)
    return _try_pieces(fit, record, slots, found)


# --- pieces in slots ------------------------------------------------------------------------------
def _try_pieces(fit: Present, record: Record, slots: np.ndarray, found: Pieces) -> Outcome:
    """Tries the pieces of some slots in these slots and in free ones."""
    held = np.argsort(-found.sizes)[: np.sum(found.sizes >= HELD)]
    if len(held) < 2:
        return fit, None
    roomy = make_room(fit, len(held) - len(slots))
    if roomy is None:
        return fit, None
    fit = roomy
    free = np.setdiff1d(np.arange(fit.num_slots), fit.used)
    targets = np.append(slots, free)[: len(held)]
    put = np.zeros((fit.num_slots, len(found.sizes)))
    put[slots[0]] = 1.0  # pieces that hold next to nothing stay there
    put[:, held] = np.eye(fit.num_slots)[:, targets]
    keep = np.eye(fit.num_slots)
    keep[np.append(slots, targets)] = 0.0
    places, keep = sort_slots(fit, keep, put @ found.sizes)
    put = permutation(places) @ put
    q, gain = laps.fill_slots(
        fit.task.axes,
        fit.posterior,
        fit.setting.prior,
        jnp.asarray(keep),
        found.posterior,
        found.prior,
        jnp.asarray(put),
    )
    first_gain = float(gain) + found.entropy  # before any lap
    if first_gain < -HOPELESS and not fit.task.has_topics:
        record.note(fit, "birth", slots, first_gain, False, 0)
        return fit, None
    change = keep.copy()  # the words of documents go to the pieces by their sizes
    change[:, slots] += (put @ found.sizes / np.sum(found.sizes))[:, None]
    fit, accepted = try_candidate(fit, record, "birth", slots, q, change)
    return fit, places if accepted else None


# --- states ---------------------------------------------------------------------------------------
def _divide_state(
    fit: Present, record: Record, key: PRNGKeyArray, slot: int, pieces: int, by_stretch: bool
) -> Outcome:
    """Divides a state of a chain; from one stretch of steps if `by_stretch`."""
    if pieces > FEW and fit.num_free < pieces:
        return fit, None
    roomy = make_room(fit, pieces - 1)
    if roomy is None:
        return fit, None
    fit = roomy
    task = fit.task
    free = np.setdiff1d(np.arange(fit.num_slots), fit.used)
    targets = jnp.asarray(np.append(slot, free[: pieces - 1]))
    q, gain = divide_state(
        fit.setting.alg, fit.posterior, task.batches, key, slot, targets, by_stretch
    )
    q = _copy_sticks(fit, q, slot, targets)
    prior = fit.setting.prior
    sizes = np.asarray(laps.count(task.axes, q, prior), float)
    if np.sum(sizes[np.asarray(targets)] >= HELD) < 2:
        return fit, None
    # A stretch is seldom all of one state before any lap
    if float(gain) < -HOPELESS and not by_stretch:
        record.note(fit, "birth", (slot,), float(gain), False, 0)
        return fit, None
    places = rank_sizes(sizes)
    change = permutation(places)
    q = laps.map_slots(task.axes, q, prior, jnp.asarray(change), prior)
    fit, accepted = try_candidate(fit, record, "birth", [slot], q, change)
    return fit, places if accepted else None


def _copy_sticks(fit: Present, q: Product, slot: int, targets: Array) -> Product:
    """Paths imply no sticks: each piece of a state has the sticks of the state."""
    if STICKS not in fit.posterior:
        return q
    change = jnp.eye(fit.num_slots).at[targets].set(0.0).at[targets, slot].set(1.0)
    prior = fit.setting.prior
    copies = laps.map_slots(fit.task.axes, fit.posterior, prior, change, prior)
    return Product({**q, STICKS: copies[STICKS]})
