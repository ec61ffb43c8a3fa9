"""The loop of births, merges and deletes, each accepted by the exact bound (Hughes and Sudderth
2013; Hughes, Kim and Sudderth 2015)."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from vijax import tree
from vijax.algorithms import cavi
from vijax.arguments import Size
from vijax.checks import check_key, require, require_integers, require_on_host
from vijax.contract.model import Model
from vijax.data.loader import as_loader, loader_words
from vijax.families import MarkovChain, Product
from vijax.fitting.fingerprint import mark_words
from vijax.fitting.interrupt import interrupt_flag
from vijax.fitting.loop import stack
from vijax.fitting.result import Fit
from vijax.fitting.status import Status
from vijax.growing import documents, laps, restarts
from vijax.growing.proposals import Proposal, apart, merge_gains, pairs_to_merge
from vijax.growing.slots import STICKS, axes_of, has_counts, slots_in
from vijax.growing.states import entered, relabelled
from vijax.inference.compose import Algorithm, build_algorithm, initial_state
from vijax.inference.estep import EStep
from vijax.inference.wrappers.sized import Sized

HELD = 0.5
"""Observations from which a slot counts as in use."""
LEAST_SLOTS = 8
FEW, MANY = 2, 8
"""Components into which a birth divides one; many where few have not helped, then twice as many,
and so on."""
NEAR = 5.0
"""Merges of topics are tried that may lose less than this many nats: what a stick saves is not
counted."""
HOPELESS = 20.0
"""A birth that loses more nats than this before any lap is not followed: its laps seldom make that
good."""


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

    A merge adds one component's data to another's; a delete hands a component's data to all others;
    a birth divides the data of one, by a small model of its own: into two, and where nothing else
    has helped into more; and then the words of several topics, which documents have together. Of
    states, transitions that no path has are tried again. A candidate is given laps of the
    algorithm, and is accepted where its bound is above that of the present fit after equally many
    laps. So the bound never falls. Moves go on in rounds, until `patience` rounds one after the
    other have accepted none.

    The model has a fixed number of slots for components. Where they are full it is doubled, and the
    programs are compiled for the new number.

    Args:
      make: number of slots -> model, such as `lambda k:
        vijax.models.dp_mixture(emission.full_gaussian(k, 2))`: a mixture of a Dirichlet process, or
        a finite one, a hidden Markov model (`vijax.models.hmm`), or topics of a hierarchical
        Dirichlet process (`vijax.models.hdp`). Where its prior of the slots in use depends on their
        number, as that of transitions does, the bound changes when they are doubled.
      data: data of the model, in memory.
      key: random key of the start and of births.
      start: number of components at the start, by the model's own start.
      algorithm: model -> the algorithm of laps, `vijax.cavi` or `lambda model:
          vijax.memoized(model, num_parts=10)`.
      slots: number of slots at the start; unset: the least power of two with room for twice the
        components, and 8 at least.
      most: number of slots that is not exceeded; births that have no room are not tried.
      patience: rounds without an accepted move after which it ends. The first divides components in
        two, the second also into eight, the third into sixteen, and so on: more find many small
        components. Of topics, four together are divided into eight, then eight into sixteen.
      laps_each: laps at most that a candidate, or the fit between moves, is given.
      trim: at the end, a model of only as many slots as hold data (two at least), in which the fit
          settles again.
      callbacks: called with each `Proposal`; one that returns true stops the run.

    Returns:
      A `Fit` of the model of so many slots; components are in order of their sizes, empty slots
      last. Its trace has an entry for each move that was tried, in the fields of
      `vijax.growing.Proposal`; the first is the start, the last the end. `fit.trace["in_use"][-1]`
      is the number of components that hold data. A Ctrl-C lets the move under way finish; the fit
      is then of what was accepted before, and `fit.status` says that it was interrupted.

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
    size = max(LEAST_SLOTS, 1 << (2 * start - 1).bit_length()) if slots is None else slots
    size = min(size, most)
    require(
        start <= size,
        "start",
        f"at most the number of slots, {size}",
        start,
        "Raise most, or slots.",
    )
    with interrupt_flag() as interrupted:
        growth = _Growth(make, algorithm, data, size, most, laps_each, callbacks, interrupted)
        key_start, key_rounds = jax.random.split(key)
        growth.begin(key_start, start)
        quiet, round_ = 0, 0
        while quiet < patience and not growth.stopped:
            before = growth.accepted
            if quiet == 0:  # they are the same moves again, where nothing was accepted
                growth.sort()
                growth.merges()
                growth.deletes()
                growth.entries()
            growth.births(jax.random.fold_in(key_rounds, round_), quiet)
            quiet = 0 if growth.accepted > before else quiet + 1
            round_ += 1
        if trim:
            growth.trim()
        return growth.end()


class _Growth:
    """The present fit, and the moves on it; holds what is done with the data on the device."""

    def __init__(
        self,
        make: Callable[[int], Model],
        algorithm: Callable[[Model], Algorithm],
        data: Any,
        size: int,
        most: int,
        laps_each: int,
        callbacks: Sequence[Callable[[Proposal], Any]],
        interrupted: threading.Event | None = None,
    ):
        self.make, self.algorithm, self.most, self.laps_each = (
            functools.cache(make),
            algorithm,
            most,
            laps_each,
        )
        self.callbacks, self.is_told_to_stop, self.accepted = callbacks, False, 0
        self.interrupted = interrupted or threading.Event()
        self.proposals: list[Proposal] = []
        self.alg = self._algorithm(size)
        loader = as_loader(data, self.alg.spec.model, None, 0, self.alg.spec.messages.num_parts)
        self.vocabulary = loader_words(loader)
        count = loader.steps_per_epoch
        self.batches = jax.tree.map(
            jax.device_put, stack(iter(loader.batches(0, count)), count, count)
        )
        self.key = jax.random.key(0)  # no step of these algorithms draws
        self.prior = self._prior(self.alg)
        self.axes = axes_of(self.prior, self._prior(self._small(FEW + (size == FEW))))
        self.of_documents = self.alg.spec.model.form.documents is not None
        self.is_chain = not self.of_documents and self._check_slots(size)
        self.q: Product
        self.local = (
            restarts.first_words(self.alg.spec.model, self.batches) if self.of_documents else None
        )
        self.elbo = -np.inf

    @property
    def stopped(self) -> bool:
        """True where no more moves are wanted: a callback or a Ctrl-C said so."""
        return self.is_told_to_stop or self.interrupted.is_set()

    # --- the start and the end --------------------------------------------------------------------
    def begin(self, key: PRNGKeyArray, start: int) -> None:
        """The first fit, of so many components."""
        alone = start == 1
        first = self._small(max(start, FEW))
        if self.of_documents:
            q = first.init(key, documents.merged_into_one(self.batches)).posterior
        else:
            q = laps.divided(first, self.axes, key, self.batches, self._all_rows(), -1, 0).posterior
        num = slots_in(self.axes, q)
        change = np.zeros((self.num_slots, num))
        change[np.zeros(num, int) if alone else np.arange(num), np.arange(num)] = 1.0
        self.q = laps.changed(self.axes, q, self._prior(first), jnp.asarray(change), self.prior)
        self._settle()
        self._note("start", (), self.elbo, True, 0)

    def trim(self) -> None:
        """Drops the slots that hold no observations."""
        _, change = self._sorted(np.eye(self.num_slots))
        self._resize(change[: max(FEW, len(self.used))])

    def end(self) -> Fit:
        """The fit, once it has settled."""
        before = self.elbo
        self._settle()
        self._note("end", (), self.elbo - before, True, 0)
        state = initial_state(self.alg.spec, tree.as_arrays(self.alg.spec.model.hyper), self.q)
        status = Status.STOPPED if self.is_told_to_stop else Status.CONVERGED
        status = Status.INTERRUPTED if self.interrupted.is_set() else status
        columns = zip(*self.proposals, strict=True)
        trace = {name: _column(name, x) for name, x in zip(Proposal._fields, columns, strict=True)}
        steps = np.cumsum(trace["laps"])
        state = state._replace(step=jnp.asarray(steps[-1], jnp.int32))
        alg = self.algorithm(self.make(self.num_slots))
        if self.vocabulary is not None:
            state = state._replace(data=jnp.asarray(mark_words(self.vocabulary)))
        return Fit(alg, state, {"step": steps, **trace}, status, vocabulary=self.vocabulary)

    # --- moves ------------------------------------------------------------------------------------
    def sort(self) -> None:
        """Components in order of their sizes, which sticks like best, where laps have changed
        it."""
        _, change = self._sorted(np.eye(self.num_slots))
        if np.any(np.diff(self.counts) > HELD):
            self._try_change("sort", (), change)

    def merges(self) -> None:
        """Merges, until none of those that may gain is accepted."""
        rejected: set[tuple[float, float]] = set()
        while not self.stopped:
            gains = self._merge_gains()
            sizes = self.counts.round(2)
            pairs = [
                p for p in pairs_to_merge(gains, self.used) if tuple(sizes[list(p)]) not in rejected
            ]
            if not pairs:
                return
            together = apart(pairs)
            if len(together) > 1 and self._merge(together):
                continue
            for pair in pairs:
                if self._merge([pair]) or self.stopped:
                    break
                rejected.add(tuple(sizes[list(pair)]))

    def deletes(self) -> None:
        """Deletes, the smallest component first."""
        crumbs = np.flatnonzero((self.counts < HELD) & (self.counts > 1e-3))
        if len(crumbs):
            self._delete(crumbs)
        left = list(self.used[::-1])
        while left and len(self.used) > 1 and not self.stopped:
            slot = left.pop(0)
            if (order := self._delete(np.array([slot]))) is not None:
                left = [int(order[i]) for i in left]

    def entries(self) -> None:
        """Transitions that no path has any more, between states in use, until none helps."""
        better = self.is_chain
        while better and not self.stopped:
            q = entered(self.axes, self.q, jnp.asarray(self.counts >= HELD, float))
            # The weights at the top follow the entries, and the rows of states not in use follow
            # these, a lap later.
            better = self._try("entries", (), q, np.eye(self.num_slots), laps.LEAST + 1)

    def births(self, key: PRNGKeyArray, quiet: int) -> None:
        """Births in each component that holds two observations or more, the largest first.

        Each is divided in two, by the small model's own start, and from one observation alone, that
        which is explained worst. After quiet rounds also into many, a topic with those near it, and
        from an observation at random."""
        left, number = [int(k) for k in self.used if self.counts[k] >= 2], 0
        ways = [
            (FEW, False),
            (FEW, True),
            *([(MANY << (quiet - 1), False)] if quiet else []),
        ]
        while left and not self.stopped:
            slot = left.pop(0)
            for pieces, by_row in ways:
                key_birth, number = jax.random.fold_in(key, number), number + 1
                if self.stopped or self.counts[slot] < (2 if by_row else 2 * pieces):
                    continue
                by_slot = by_row and not (self.of_documents or self.is_chain)
                seed = self._row_of(key_birth, slot, quiet > 0) if by_slot else int(by_row) - 1
                born = self._birth_of_states if self.is_chain else self._birth
                born = self._birth_of_topics if self.of_documents else born
                if (order := born(key_birth, slot, pieces, seed)) is not None:
                    left, slot = [int(order[i]) for i in left], int(order[slot])

    def _merge_gains(self) -> np.ndarray:
        if not self.of_documents:
            return np.asarray(merge_gains(self.axes, self.q, self.prior))
        name = documents.TOPICS
        of_words = merge_gains(tuple(x for x in self.axes if x[0] == name), *self._only(name))
        return np.asarray(of_words + documents.merge_terms(self.alg, self.q, self._data)) + NEAR

    def _only(self, name: str) -> tuple[Product, Product]:
        return Product({name: self.q[name]}), Product({name: self.prior[name]})

    def _merge(self, pairs: list[tuple[int, int]]) -> bool:
        change = np.eye(self.num_slots)
        for a, b in pairs:
            change[a] += change[b]
            change[b] = 0.0
        _, change = self._sorted(change)
        return self._try_change("merge", [slot for pair in pairs for slot in pair], change)

    def _delete(self, slots: np.ndarray) -> np.ndarray | None:
        """The new places of the old slots, where it is accepted."""
        change = np.eye(self.num_slots)
        change[slots] = 0.0
        order, change = self._sorted(change)
        return order if self._try_change("delete", slots, change) else None

    def _row_of(self, key: PRNGKeyArray, slot: int, at_random: bool) -> int:
        """An observation of a slot."""
        inside, bound = (
            np.asarray(self.rows.slot).ravel() == slot,
            np.asarray(self.rows.bound).ravel(),
        )
        if not at_random or not inside.any():
            return int(np.argmin(np.where(inside, bound, np.inf)))
        return int(np.flatnonzero(inside)[int(jax.random.randint(key, (), 0, inside.sum()))])

    def _birth(self, key: PRNGKeyArray, slot: int, pieces: int, seed: int) -> np.ndarray | None:
        """The new places of the old slots, where it is accepted."""
        weights, small = (
            jnp.where(self.rows.slot == slot, self.rows.share, 0.0),
            self._small(pieces),
        )
        found = laps.divided(small, self.axes, key, self.batches, weights, seed, self.laps_each)
        return self._put(
            np.array([slot]),
            pieces,
            found.posterior,
            np.asarray(found.sizes),
            small,
            float(found.entropy),
        )

    def _put(
        self,
        slots: np.ndarray,
        pieces: int,
        found: Product,
        sizes: np.ndarray,
        small: Algorithm,
        entropy: float,
    ) -> np.ndarray | None:
        """Tries the pieces of some slots, of the small model, in these and in free slots."""
        held = np.argsort(-sizes)[: np.sum(sizes >= HELD)]
        if len(held) < 2 or not self._make_room(len(held) - len(slots)):
            return None
        places = np.append(slots, np.setdiff1d(np.arange(self.num_slots), self.used))[: len(held)]
        put, keep = np.zeros((self.num_slots, pieces)), np.eye(self.num_slots)
        put[slots[0]] = 1.0  # pieces that hold next to nothing stay there
        put[:, held] = np.eye(self.num_slots)[:, places]
        keep[np.append(slots, places)] = 0.0
        order, keep = self._sorted(keep, put @ sizes)
        put = _permuted(order) @ put
        shared = keep.copy()  # the words of documents go to the pieces by their sizes
        shared[:, slots] += (put @ sizes / np.sum(sizes))[:, None]
        given = self.q, self.prior, jnp.asarray(keep), found, self._prior(small), jnp.asarray(put)
        q, gain = laps.filled(self.axes, *given)
        first = float(gain) + entropy  # what it gains before any lap
        if first < -HOPELESS and not self.of_documents:
            self._note("birth", tuple(map(int, slots)), first, False, 0)
            return None
        return order if self._try("birth", slots, q, shared) else None

    def _birth_of_topics(
        self, key: PRNGKeyArray, slot: int, pieces: int, seed: int
    ) -> np.ndarray | None:
        """As `_birth`, of a topic and those nearest it, half as many as pieces; from one document
        where `seed` is not below zero."""
        small, alone = self._small(pieces), seed >= 0
        near = np.asarray(documents.nearness(self._data))[slot]
        far = np.where(self.used == slot, -np.inf, -near[self.used])
        slots = self.used[np.argsort(far, kind="stable")[: pieces // 2]]
        given = (
            self.axes,
            self.q,
            self._data,
            key,
            np.isin(np.arange(self.num_slots), slots),
            alone,
            self.laps_each,
        )
        found, sizes = documents.divided(self.alg, small, *given)
        return self._put(slots, pieces, found, np.asarray(sizes), small, 0.0)

    def _birth_of_states(
        self, key: PRNGKeyArray, slot: int, pieces: int, seed: int
    ) -> np.ndarray | None:
        """As `_birth`, of a state of a chain; from one stretch of steps where `seed` is not below
        zero."""
        if (pieces > FEW and self.num_slots - len(self.used) < pieces) or not self._make_room(
            pieces - 1
        ):
            return None
        free = np.setdiff1d(np.arange(self.num_slots), self.used)
        places = jnp.asarray(np.append(slot, free[: pieces - 1]))
        q, gain = relabelled(self.alg, self.q, self.batches, key, slot, places, seed >= 0)
        q = self._with_sticks(q, slot, places)
        sizes = np.asarray(laps.counted(self.axes, q, self.prior), float)
        if np.sum(sizes[np.asarray(places)] >= HELD) < 2:
            return None
        if (
            float(gain) < -HOPELESS and seed < 0
        ):  # a stretch is seldom all of one state before any lap
            self._note("birth", (slot,), float(gain), False, 0)
            return None
        order = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable")
        q = laps.changed(self.axes, q, self.prior, jnp.asarray(_permuted(order)), self.prior)
        return order if self._try("birth", [slot], q, _permuted(order)) else None

    def _with_sticks(self, q: Product, slot: int, places: Array) -> Product:
        """Paths imply no sticks: each piece of a state has those of the state."""
        if STICKS not in self.q:
            return q
        change = jnp.eye(self.num_slots).at[places].set(0.0).at[places, slot].set(1.0)
        ours = laps.changed(self.axes, self.q, self.prior, change, self.prior)
        return Product({**q, STICKS: ours[STICKS]})

    def _try_change(self, move: str, components: Any, change: np.ndarray) -> bool:
        """As `_try`, of a map of slots."""
        q = laps.changed(self.axes, self.q, self.prior, jnp.asarray(change), self.prior)
        return self._try(move, components, q, change)

    def _try(
        self, move: str, components: Any, q: Product, change: np.ndarray, least: int = laps.LEAST
    ) -> bool:
        """Takes a candidate that is better than the present fit after equally many laps; true where
        it did. The words that documents have of each topic follow a map of slots."""
        found = self._climb(
            q, documents.moved(self.local, change), self.elbo, self.laps_each, least
        )
        taken, better = int(found.laps), float(found.elbo) > self.elbo
        if better:
            ours = self._climb(self.q, self.local, -np.inf, taken, taken)
            taken += int(ours.laps)
            gain = float(found.elbo) - max(self.elbo, float(ours.elbo))
            better = gain > laps.settled(self.elbo)
            if better or float(ours.elbo) >= self.elbo:
                self._take(found if better else ours)
        else:
            gain = float(found.elbo) - self.elbo
        self.accepted += better
        self._note(move, tuple(map(int, components)), gain, better, taken)
        return better

    def _climb(
        self, q: Product, local: Any, target: float, most: int, least: int = laps.LEAST
    ) -> laps.Climbed:
        return laps.climb(
            self.alg, q, self.batches._replace(local=local), self.key, target, most, least
        )

    def _take(self, found: laps.Climbed) -> None:
        self.q, self.local, self.elbo = found.posterior, found.local, float(found.elbo)

    # --- what they share --------------------------------------------------------------------------
    @property
    def num_slots(self) -> int:
        """K."""
        return slots_in(self.axes, self.prior)

    @property
    def _data(self) -> Any:
        """All data, with the words that documents have of each topic."""
        return self.batches._replace(local=self.local)

    @functools.cached_property
    def _rows_of(self) -> tuple[Any, laps.Rows]:
        return self.q, laps.rows(self.alg, self.q, self.batches)

    @property
    def rows(self) -> laps.Rows:
        """Observations by their likeliest slot."""
        if self._rows_of[0] is not self.q:
            del self._rows_of
        return self._rows_of[1]

    @functools.cached_property
    def _counts_of(self) -> tuple[Any, np.ndarray]:
        if (
            self.is_chain and STICKS in self.q
        ):  # transitions have what sticks add, sticks no more than tables
            return self.q, np.asarray(laps.steps_in(self.alg, self.q, self.batches), float)
        return self.q, np.asarray(laps.counted(self.axes, self.q, self.prior), float)

    @property
    def counts(self) -> np.ndarray:
        """Observations in each slot."""
        if self._counts_of[0] is not self.q:
            del self._counts_of
        return self._counts_of[1]

    @property
    def used(self) -> np.ndarray:
        """Slots that hold observations, in their order."""
        return np.flatnonzero(self.counts >= HELD)

    def _sorted(
        self, change: np.ndarray, more: np.ndarray | float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """The place of each slot in order of sizes after a change, and the change with that order
        after it."""
        sizes = change @ self.counts + more
        order = np.argsort(np.argsort(-sizes, kind="stable"), kind="stable")
        return order, _permuted(order) @ change

    def _make_room(self, number: int) -> bool:
        """Doubles the slots where fewer are free; false where there may be no more."""
        if self.num_slots - len(self.used) >= number + 1:
            return True
        if 2 * self.num_slots > self.most:
            return self.num_slots - len(self.used) >= number
        self._resize(np.eye(2 * self.num_slots, self.num_slots))
        return True

    def _resize(self, change: np.ndarray) -> None:
        """Goes on with a model of another number of slots, of which the change makes these."""
        old, self.alg = self.prior, self._algorithm(len(change))
        self.prior = self._prior(self.alg)
        self.q = laps.changed(self.axes, self.q, old, jnp.asarray(change), self.prior)
        self.local, self.elbo = documents.moved(self.local, change), -np.inf
        self._settle()

    def _settle(self) -> None:
        found = self._climb(self.q, self.local, -np.inf, self.laps_each)
        if float(found.elbo) >= self.elbo:  # else a bound that has settled differs by rounding
            self._take(found)

    def _note(self, *said: Any) -> None:
        move, components, gain, accepted, taken = said
        proposal = Proposal(
            move, components, gain, accepted, self.elbo, len(self.used), self.num_slots, taken
        )
        self.proposals.append(proposal)
        asked = [callback(proposal) for callback in self.callbacks]
        self.is_told_to_stop |= any(asked)

    def _algorithm(self, size: int) -> Algorithm:
        alg = self.algorithm(self.make(size))
        spec = alg.spec
        remedy = "Such as algorithm=lambda model: vijax.memoized(model, num_parts=10)."
        wrapped = any(not isinstance(wrapper, Sized) for wrapper in alg.wrappers)
        is_process = spec.model.form.documents is None or STICKS in self._prior(alg)
        require(
            is_process, "make", "a model of rows, or vijax.models.hdp", "another model of documents"
        )
        known = spec.name in ("cavi", "memoized") and not wrapped and not spec.learn
        require(
            known,
            "algorithm",
            "vijax.cavi or vijax.memoized, which learn no hyperparameters",
            spec.name,
            remedy,
        )
        exact = isinstance(spec.estep, EStep) and spec.estep.is_ascent
        require(
            exact, "algorithm", "an E-step that ascends, whose bound is exact", repr(spec.estep)
        )
        return build_algorithm(spec)

    def _check_slots(self, size: int) -> bool:
        """True where slots are the states of a chain."""
        law = (
            laps.classes_of(self.alg, self.prior, self.batches)
            if has_counts(self.axes, self.prior)
            else None
        )
        found = (
            0
            if law is None
            else law.num_states
            if isinstance(law, MarkovChain)
            else law.num_classes
        )
        expected = f"a model of {size} classes of observations, whose weights have a posterior"
        require(
            found - size in (0, 1),
            "make",
            expected,
            "another",
            "Such as vijax.models.dp_mixture or mixture.",
        )
        return isinstance(law, MarkovChain)

    def _small(self, size: int) -> Algorithm:
        """Coordinate ascent of a model of so many slots."""
        return build_algorithm(cavi(self.make(size)).spec)

    def _prior(self, alg: Algorithm) -> Product:
        return alg.spec.model.prior(tree.as_arrays(alg.spec.model.hyper))

    def _all_rows(self) -> Array:
        return jnp.asarray(self.batches.weights)


def _permuted(order: np.ndarray) -> np.ndarray:
    """The matrix that puts slot i in place order[i]."""
    return np.eye(len(order))[:, np.argsort(order)].T


def _column(name: str, values: Sequence[Any]) -> np.ndarray:
    if name == "components":
        return np.array([" ".join(map(str, x)) for x in values])
    return np.array(values)
