"""Trials of candidates against the present fit, and the record of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vijax.families import Product
from vijax.fitting.status import Status
from vijax.growing import documents, laps
from vijax.growing.present import Present, climb, map_posterior, take
from vijax.growing.proposals import Proposal


class Record:
    """The moves that were tried, and the wishes to stop.

    Attributes:
      proposals: the moves that were tried.
      accepted: number of accepted ones.
    """

    def __init__(
        self,
        callbacks: Sequence[Callable[[Proposal], Any]] = (),
        interrupted: threading.Event | None = None,
    ):
        self.proposals: list[Proposal] = []
        self.accepted = 0
        self._callbacks = callbacks
        self._interrupted = interrupted or threading.Event()
        self._stops = False

    @property
    def stops(self) -> bool:
        """True if a callback or a Ctrl-C asked for no more moves."""
        return self._stops or self._interrupted.is_set()

    @property
    def status(self) -> Status:
        """The status of a run that ends now."""
        if self._interrupted.is_set():
            return Status.INTERRUPTED
        return Status.STOPPED if self._stops else Status.CONVERGED

    def note(
        self, fit: Present, move: str, components: Any, gain: float, accepted: bool, num_laps: int
    ) -> None:
        """Notes a move, after which the present fit is `fit`, and tells the callbacks."""
        proposal = Proposal(
            move,
            tuple(map(int, components)),
            gain,
            accepted,
            fit.elbo,
            len(fit.used),
            fit.num_slots,
            num_laps,
        )
        self.proposals.append(proposal)
        answers = [callback(proposal) for callback in self._callbacks]
        self._stops |= any(answers)


def try_change(
    fit: Present, record: Record, move: str, components: Any, change: np.ndarray
) -> tuple[Present, bool]:
    """As `try_candidate`, for a map of slots."""
    return try_candidate(fit, record, move, components, map_posterior(fit, change), change)


def try_candidate(
    fit: Present,
    record: Record,
    move: str,
    components: Any,
    q: Product,
    change: np.ndarray,
    least: int = laps.LEAST,
) -> tuple[Present, bool]:
    """Accepts a candidate whose bound is above that of the present fit after equally many laps.

    Args:
      fit: the present fit.
      record: notes the move.
      move: its name, see `Proposal`.
      components: the slots that it takes from.
      q: the candidate.
      change: the map of slots that the words of documents follow.
      least: laps of the candidate in any case.

    Returns:
      The present fit after the trial, and whether the candidate was accepted. A rejected one may
      still leave a better fit: the present one after more laps.
    """
    local = documents.map_words(fit.local, change)
    candidate = climb(fit, q, local, fit.elbo, fit.task.laps_each, least)
    num_laps = int(candidate.laps)
    gain = float(candidate.elbo) - fit.elbo
    accepted = float(candidate.elbo) > fit.elbo
    if accepted:
        present = climb(fit, fit.posterior, fit.local, -np.inf, num_laps, num_laps)
        num_laps += int(present.laps)
        gain = float(candidate.elbo) - max(fit.elbo, float(present.elbo))
        accepted = bool(gain > laps.least_gain(fit.elbo))
        if accepted:
            fit = take(fit, candidate)
        elif float(present.elbo) >= fit.elbo:
            fit = take(fit, present)
    record.accepted += accepted
    record.note(fit, move, components, gain, accepted, num_laps)
    return fit, accepted
