"""Moves that add no component: sorts, merges, deletes, and transitions tried again.

Each takes the present fit and the record, and returns the present fit after it."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from vijax.families import Product
from vijax.growing import documents, laps
from vijax.growing.present import HELD, Present, resize, sort_slots
from vijax.growing.proposals import disjoint_pairs, merge_gains, pairs_to_merge
from vijax.growing.states import add_entries
from vijax.growing.task import FEW
from vijax.growing.trials import Record, try_candidate, try_change

NEAR = 5.0
"""Merges of topics are tried that may lose less than this many nats: what a stick saves is not
counted."""
CRUMB = 1e-3
"""Observations above which a slot that is not in use is worth a delete."""


def trim(fit: Present) -> Present:
    """Drops the slots that hold no observations."""
    _, change = sort_slots(fit, np.eye(fit.num_slots))
    return resize(fit, change[: max(FEW, len(fit.used))])


def try_sort(fit: Present, record: Record) -> Present:
    """Tries the order of sizes, which sticks like best, if laps have changed it."""
    if not np.any(np.diff(fit.counts) > HELD):
        return fit
    _, change = sort_slots(fit, np.eye(fit.num_slots))
    fit, _ = try_change(fit, record, "sort", (), change)
    return fit


def try_entries(fit: Present, record: Record) -> Present:
    """Tries transitions between states in use that no path has any more, until none helps."""
    accepted = fit.task.is_chain
    while accepted and not record.stops:
        used = jnp.asarray(fit.counts >= HELD, float)
        q = add_entries(fit.task.axes, fit.posterior, used)
        # The weights at the top follow the entries, and the rows of states not in use follow these,
        # a lap later.
        least = laps.LEAST + 1
        stay = np.eye(fit.num_slots)
        fit, accepted = try_candidate(fit, record, "entries", (), q, stay, least)
    return fit


# --- merges ---------------------------------------------------------------------------------------
def try_merges(fit: Present, record: Record) -> Present:
    """Tries merges, until none of those that may gain is accepted."""
    rejected: set[tuple[float, ...]] = set()
    while not record.stops:
        sizes = fit.counts.round(2)
        pairs = [
            pair
            for pair in pairs_to_merge(_merge_gains(fit), fit.used)
            if tuple(sizes[list(pair)]) not in rejected
        ]
        if not pairs:
            break
        together = disjoint_pairs(pairs)
        if len(together) > 1:
            fit, accepted = _try_merge(fit, record, together)
            if accepted:
                continue
        for pair in pairs:
            fit, accepted = _try_merge(fit, record, [pair])
            if accepted or record.stops:
                break
            rejected.add(tuple(sizes[list(pair)]))
    return fit


def _merge_gains(fit: Present) -> np.ndarray:
    """The most that the bound may gain if slot b is merged into slot a, at [a, b]."""
    axes = fit.task.axes
    q = fit.posterior
    prior = fit.setting.prior
    if not fit.task.has_topics:
        return np.asarray(merge_gains(axes, q, prior))
    name = documents.TOPICS
    topic_axes = tuple(entry for entry in axes if entry[0] == name)
    topic_gains = merge_gains(topic_axes, Product({name: q[name]}), Product({name: prior[name]}))
    return np.asarray(topic_gains + documents.merge_terms(fit.setting.alg, q, fit.data)) + NEAR


def _try_merge(fit: Present, record: Record, pairs: list[tuple[int, int]]) -> tuple[Present, bool]:
    change = np.eye(fit.num_slots)
    for a, b in pairs:
        change[a] += change[b]
        change[b] = 0.0
    _, change = sort_slots(fit, change)
    return try_change(fit, record, "merge", [slot for pair in pairs for slot in pair], change)


# --- deletes --------------------------------------------------------------------------------------
def try_deletes(fit: Present, record: Record) -> Present:
    """Tries deletes, the smallest component first."""
    crumbs = np.flatnonzero((fit.counts < HELD) & (fit.counts > CRUMB))
    if len(crumbs):
        fit, _ = _try_delete(fit, record, crumbs)
    queue = list(fit.used[::-1])
    while queue and len(fit.used) > 1 and not record.stops:
        slot = queue.pop(0)
        fit, places = _try_delete(fit, record, np.array([slot]))
        if places is not None:
            queue = [int(places[i]) for i in queue]
    return fit


def _try_delete(
    fit: Present, record: Record, slots: np.ndarray
) -> tuple[Present, np.ndarray | None]:
    """The present fit after the trial, and the new places of the old slots; None if the delete was
    rejected."""
    change = np.eye(fit.num_slots)
    change[slots] = 0.0
    places, change = sort_slots(fit, change)
    fit, accepted = try_change(fit, record, "delete", slots, change)
    return fit, places if accepted else None
