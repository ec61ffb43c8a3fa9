"""The present fit of a model that grows, as a value; its laps, and changes of its slots."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from vijax.contract.batch import Minibatch
from vijax.families import Product
from vijax.growing import documents, laps, restarts
from vijax.growing.slots import STICKS, count_slots
from vijax.growing.task import FEW, Setting, Task, all_rows, model_prior

HELD = 0.5
"""Observations from which a slot counts as in use."""


@dataclasses.dataclass(frozen=True, eq=False)
class Present:
    """A fit of the task's model with some number of slots.

    Attributes:
      task: the task.
      setting: the model with this number of slots.
      posterior: q.
      local: the words that documents have of each topic; None for other models.
      elbo: the bound before the last lap; -inf if laps have still to compute it.
    """

    task: Task
    setting: Setting
    posterior: Product
    local: Any
    elbo: float = -np.inf

    @property
    def num_slots(self) -> int:
        """K."""
        return count_slots(self.task.axes, self.setting.prior)

    @property
    def data(self) -> Minibatch:
        """All data, with the words that documents have of each topic."""
        return self.task.batches._replace(local=self.local)

    @functools.cached_property
    def rows(self) -> laps.Rows:
        """Observations by their likeliest slot."""
        return laps.rows(self.setting.alg, self.posterior, self.task.batches)

    @functools.cached_property
    def counts(self) -> np.ndarray:
        """Observations in each slot."""
        # Sticks count no more than tables, and what they add counts as transitions
        if self.task.is_chain and STICKS in self.posterior:
            counts = laps.count_steps(self.setting.alg, self.posterior, self.task.batches)
        else:
            counts = laps.count(self.task.axes, self.posterior, self.setting.prior)
        return np.asarray(counts, float)

    @property
    def used(self) -> np.ndarray:
        """Slots that hold observations, in their order."""
        return np.flatnonzero(self.counts >= HELD)

    @property
    def num_free(self) -> int:
        """The number of slots that hold no observations."""
        return self.num_slots - len(self.used)


# --- the start ------------------------------------------------------------------------------------
def begin(task: Task, setting: Setting, key: PRNGKeyArray, start: int) -> Present:
    """The first fit, with `start` components."""
    num_slots = count_slots(task.axes, setting.prior)
    small = task.small(max(start, FEW))
    if task.has_topics:
        q = small.init(key, documents.merge_batches(task.batches)).posterior
    else:
        rows = all_rows(task.batches)
        q = laps.divide(small, task.axes, key, task.batches, rows, -1, 0).posterior
    number = count_slots(task.axes, q)
    places = np.zeros(number, int) if start == 1 else np.arange(number)
    change = np.zeros((num_slots, number))
    change[places, np.arange(number)] = 1.0
    q = laps.map_slots(task.axes, q, model_prior(small), jnp.asarray(change), setting.prior)
    local = None
    if task.has_topics:
        local = restarts.first_words(setting.alg.spec.model, task.batches)
    return settle(Present(task, setting, q, local))


# --- laps -----------------------------------------------------------------------------------------
def climb(
    fit: Present, q: Product, local: Any, target: float, most: int, least: int = laps.LEAST
) -> laps.Ascent:
    """Laps from a posterior q in the setting of the present fit; see `laps.climb`."""
    batches = fit.task.batches._replace(local=local)
    return laps.climb(fit.setting.alg, q, batches, fit.task.key, target, most, least)


def take(fit: Present, ascent: laps.Ascent) -> Present:
    """The fit at the end of an ascent."""
    return dataclasses.replace(
        fit, posterior=ascent.posterior, local=ascent.local, elbo=float(ascent.elbo)
    )


def settle(fit: Present) -> Present:
    """The fit after laps until its bound has settled."""
    ascent = climb(fit, fit.posterior, fit.local, -np.inf, fit.task.laps_each)
    # A bound that had settled before may be lower by rounding
    return take(fit, ascent) if float(ascent.elbo) >= fit.elbo else fit


# --- slots ----------------------------------------------------------------------------------------
def map_posterior(fit: Present, change: np.ndarray) -> Product:
    """The posterior after a map of slots, (K, K)."""
    prior = fit.setting.prior
    return laps.map_slots(fit.task.axes, fit.posterior, prior, jnp.asarray(change), prior)


def resize(fit: Present, change: np.ndarray) -> Present:
    """The settled fit with other slots, which `change`, (L, K), makes of the present ones."""
    setting = fit.task.setting(len(change))
    q = laps.map_slots(
        fit.task.axes, fit.posterior, fit.setting.prior, jnp.asarray(change), setting.prior
    )
    return settle(Present(fit.task, setting, q, documents.map_words(fit.local, change)))


def make_room(fit: Present, number: int) -> Present | None:
    """The fit with `number` free slots at least, doubled if it has fewer than one more; None if
    there may be no more slots."""
    if fit.num_free >= number + 1:
        return fit
    if 2 * fit.num_slots > fit.task.most:
        return fit if fit.num_free >= number else None
    return resize(fit, np.eye(2 * fit.num_slots, fit.num_slots))


def sort_slots(
    fit: Present, change: np.ndarray, more: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """The place of each slot in order of sizes after a change (with `more` observations in each),
    and the change followed by that order."""
    places = rank_sizes(change @ fit.counts + more)
    return places, permutation(places) @ change


def rank_sizes(sizes: np.ndarray) -> np.ndarray:
    """The place of each slot in order of sizes, the largest first.

    >>> rank_sizes(np.array([1.0, 5.0, 3.0]))
    array([2, 0, 1])
    """
    return np.argsort(np.argsort(-sizes, kind="stable"), kind="stable")


def permutation(places: np.ndarray) -> np.ndarray:
    """The matrix that puts slot i in place places[i]."""
    return np.eye(len(places))[:, np.argsort(places)].T
