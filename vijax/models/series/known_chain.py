"""Priors of Markov chains of which some probabilities are known: transitions that cannot be, as in
a left-right model, or whose probability is given; and first states likewise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from vijax.checks import require
from vijax.families import Dirichlet, Family
from vijax.families.discrete.partial_dirichlet import FREE, ROUNDING, PartialDirichlet

LEARNT = "?"
"""The text of an entry that is learnt."""


class KnownChain(NamedTuple):
    """The known probabilities of a chain of K states; NaN where they are learnt."""

    initial: Float[np.ndarray, " K"]
    transition: Float[np.ndarray, "K K"]

    @property
    def can_start(self) -> Bool[np.ndarray, " K"]:
        """True for the states in which a path may begin."""
        return self.initial != 0

    @property
    def can_follow(self) -> Bool[np.ndarray, "K K"]:
        """True for the states (columns) that may follow each (rows)."""
        return self.transition != 0

    @property
    def has_zeros(self) -> bool:
        """True if some paths are impossible."""
        return not (self.can_start.all() and self.can_follow.all())

    @property
    def goes_right(self) -> bool:
        """True if paths begin in state 0 and never go back: a left-right model."""
        never_back = not np.tril(self.can_follow, -1).any()
        return never_back and self.can_start.tolist() == [True] + [False] * (len(self.initial) - 1)

    def prior(
        self, initial: Float[np.ndarray, " K"], transition: Float[np.ndarray, "K K"]
    ) -> dict[str, Family]:
        """The priors of these concentrations, by name of global."""
        return {
            "initial": _prior(initial, self.initial),
            "transition": _prior(transition, self.transition),
        }

    def impossible(self) -> Callable[[Any, Any], Array] | None:
        """The number of impossible events of a path, as in `vijax.Structure`; None if all paths are
        possible."""
        if not self.has_zeros:
            return None
        # Plain arrays, so that models made again are equal.
        never_first, never_next = ~self.can_start, ~self.can_follow

        def count(stats: Any, group: Any) -> Float[Array, ""]:
            z = stats["z"]
            first = jnp.sum(jnp.where(never_first, z.initial, 0.0))
            return first + jnp.sum(jnp.where(never_next, z.transition, 0.0))

        return count


def known_chain(num_states: int, starts: Any, transitions: Any) -> KnownChain:
    """The known probabilities that the arguments of a model give.

    Args:
      num_states: K.
      starts: probabilities of the first state, (K,): 0 for a state in which no sequence begins, NaN
        or None for a probability that is learnt; or booleans, true for states that are possible; or
        a text such as "? 0 0". None: all are learnt.
      transitions: likewise of the next state (columns) given each (rows), (K, K); or K texts.

    Raises:
      ValueError: another shape, numbers that are no probabilities or do not sum to one, a state
        that nothing may follow or that cannot be reached.

    >>> known_chain(2, "? 0", np.array([[True, True], [False, True]])).transition.tolist()
    [[nan, nan], [0.0, 1.0]]
    """
    if isinstance(starts, str):
        starts = _read_row("starts", starts)
    if isinstance(transitions, str):
        remedy = 'Such as ["? ?", "0 ?"].'
        require(False, "transitions", "a text for each state", f"{transitions!r}", remedy)
    if isinstance(transitions, list | tuple) and any(isinstance(x, str) for x in transitions):
        transitions = [_read_row("transitions", row) for row in transitions]
    initial = _probabilities("starts", starts, (num_states,))
    chain = KnownChain(
        initial, _probabilities("transitions", transitions, (num_states, num_states))
    )
    _check_reach(chain)
    return chain


def _read_row(argument: str, row: Any) -> list[float]:
    """The numbers of a text such as "? .5 0"."""
    expected = 'texts such as "? 0.5 0", with ? for what is learnt'
    require(isinstance(row, str), argument, expected, repr(row))
    try:
        return [float(part.replace(LEARNT, "nan")) for part in row.replace(",", " ").split()]
    except ValueError:
        raise ValueError(f"{argument}: expected {expected}, got {row!r}.") from None


def _probabilities(argument: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The known probabilities; NaN where they are learnt."""
    if value is None:
        return np.full(shape, np.nan)
    try:
        # The copy of an array of objects turns None into NaN.
        array = np.array(value)
        if np.iscomplexobj(array):
            raise TypeError
        values = np.where(array, np.nan, 0.0)
        if array.dtype != bool:
            values = array.astype(float)
    except (TypeError, ValueError):
        expected = f"shape {shape} of numbers, NaN or None for what is learnt, or booleans"
        raise ValueError(f"{argument}: expected {expected}, got {value!r}.") from None
    remedy = "One entry for each state."
    require(
        values.shape == shape,
        argument,
        f"shape {shape}",
        f"shape {values.shape}",
        remedy,
    )
    is_learnt = np.isnan(values)
    require(
        is_learnt | ((values >= 0) & (values <= 1)),
        argument,
        "probabilities from 0 to 1",
        values,
    )
    total, has_learnt = np.nansum(values, axis=-1), is_learnt.any(axis=-1)
    fits = np.where(has_learnt, total < 1 - ROUNDING, np.abs(total - 1) <= ROUNDING)
    remedy = (
        "Known values of a row sum to one, or to less where others are learnt: those are "
        "NaN (on the command line ?), and true in an array of booleans."
    )
    if not fits.all():
        bad = tuple(int(i) for i in np.argwhere(~fits)[0])
        actual = f"{values[bad]}"
        if bad:
            actual += f" in row {bad[0]}"
        require(False, argument, "rows whose probabilities sum to one", actual, remedy)
    # A single probability that is left is known too.
    is_last = is_learnt & (is_learnt.sum(axis=-1, keepdims=True) == 1)
    return np.where(is_last, 1 - total[..., None], values)


def _check_reach(chain: KnownChain) -> None:
    """Raises ValueError at a state that no path reaches."""
    is_reached = chain.can_start
    for _ in range(len(is_reached)):
        is_reached = is_reached | (is_reached @ chain.can_follow)
    remedy = "Allow a transition to it, allow it as a first state, or take fewer states."
    if not is_reached.all():
        actual = f"state {np.argmin(is_reached)}, which no path reaches"
        require(False, "transitions", "states that can all be reached", actual, remedy)


def _prior(concentration: np.ndarray, probabilities: np.ndarray) -> Family:
    """A Dirichlet, or one of the entries that are learnt."""
    is_learnt = np.isnan(probabilities)
    if is_learnt.all():
        return Dirichlet.from_concentration(concentration)
    return PartialDirichlet.from_concentration(
        concentration, np.where(is_learnt, FREE, probabilities)
    )


# --- starts ---------------------------------------------------------------------------------------
def equal_parts(steps: Bool[Array, "N T"], num_states: int) -> Int[Array, "N T"]:
    """The start of a left-right model: each sequence in K equal parts."""
    length = jnp.maximum(jnp.sum(steps, axis=1, keepdims=True), 1)
    return jnp.minimum(jnp.arange(steps.shape[1])[None] * num_states // length, num_states - 1)


def renumber(
    labels: Int[Array, "N T"],
    steps: Bool[Array, "N T"],
    chain: KnownChain,
    states: Float[Array, "N T"] | None = None,
) -> Int[Array, "N T"]:
    """The labels with numbers that make few impossible transitions, and few steps of another
    number than their state where that is known: pairs of numbers are exchanged while that helps."""
    size = len(chain.initial)
    one_hot = jnp.where(steps[..., None], jax.nn.one_hot(labels, size), 0.0)
    pairs = jnp.einsum("nti,ntj->ij", one_hot[:, :-1], one_hot[:, 1:])
    first = jnp.sum(one_hot[:, 0], axis=0)
    agreement = jnp.zeros((size, size))
    if states is not None:
        agreement = jnp.einsum("ntk,ntl->kl", _marks(states, size, one_hot.dtype), one_hot)
    never_first, never_next = ~chain.can_start, ~chain.can_follow

    def cost(order: Int[Array, " K"]) -> Float[Array, ""]:
        moves = jnp.sum(jnp.where(never_next, pairs[order][:, order], 0.0))
        moves -= jnp.sum(jnp.diagonal(agreement[:, order]))
        return moves + jnp.sum(jnp.where(never_first, first[order], 0.0))

    def exchange(order: Int[Array, " K"], pair: Int[Array, " 2"]) -> Int[Array, " K"]:
        return order.at[pair].set(order[pair[::-1]])

    def improve(_: int, order: Int[Array, " K"]) -> Int[Array, " K"]:
        costs = jax.lax.map(lambda pair: cost(exchange(order, pair)), candidates)
        best = jnp.argmin(costs)
        return jnp.where(costs[best] < cost(order), exchange(order, candidates[best]), order)

    if size < 2:
        return labels
    candidates = jnp.asarray(np.stack(np.triu_indices(size, 1), axis=1))
    order = jax.lax.fori_loop(0, 2 * size, improve, jnp.arange(size))
    return jnp.argsort(order)[labels]


def nearest_to_known(
    labels: Int[Array, "N T"],
    y: Float[Array, "N T D"],
    is_seen: Bool[Array, "N T"],
    states: Float[Array, "N T"],
    num_states: int,
) -> Int[Array, "N T"]:
    """Known states where there are some, and elsewhere the nearest mean: of the steps that are
    known to have a state, or else of those with its label."""
    marked = _marks(states, num_states, y.dtype)
    is_marked = jnp.any(marked > 0, axis=-1)
    guesses = jax.nn.one_hot(labels, num_states, dtype=y.dtype)
    guesses = jnp.where(is_marked[..., None], 0.0, guesses)
    by_state, by_label = (_weighted_means(y, is_seen, weights) for weights in (marked, guesses))
    centres = jnp.where(by_state.size[:, None] > 0, by_state.mean, by_label.mean)
    is_used = (by_state.size > 0) | (by_label.size > 0)
    gaps = jnp.sum((y[..., None, :] - centres[None, None]) ** 2, axis=-1)
    nearest = jnp.argmin(jnp.where(is_used[None, None], gaps, jnp.inf), axis=-1)
    nearest = jnp.where(is_seen & is_used.any(), nearest, labels)
    return jnp.where(is_marked, jnp.argmax(marked, axis=-1), nearest)


def _marks(states: Float[Array, "N T"], num_states: int, dtype: Any) -> Float[Array, "N T K"]:
    """One for the known state of each step; zeros where it is NaN."""
    return (states[..., None] == jnp.arange(num_states, dtype=states.dtype)).astype(dtype)


class _Means(NamedTuple):
    """Means of rows by state, and the number of rows."""

    mean: Float[Array, "K D"]
    size: Float[Array, " K"]


def _weighted_means(
    y: Float[Array, "N T D"], is_seen: Bool[Array, "N T"], weights: Float[Array, "N T K"]
) -> _Means:
    weights = jnp.where(is_seen[..., None], weights, 0.0)
    count = jnp.sum(weights, axis=(0, 1))
    total = jnp.einsum("ntk,ntd->kd", weights, y, precision="highest")
    return _Means(total / jnp.maximum(count, 1)[:, None], count)


def require_possible(
    chain: KnownChain, states: Float[np.ndarray, "N T"], mask: Bool[np.ndarray, "N T"]
) -> None:
    """Raises ValueError at the first sequence whose known states no path of the chain has."""
    sequence, step = np.nonzero(mask & ~np.isnan(states))
    state = states[sequence, step].astype(int)
    is_first = np.diff(sequence, prepend=-1) != 0
    # Only the last known state matters. Gaps that are equal have one table, of where they lead.
    gap = np.where(is_first, step, np.diff(step, prepend=0))
    before = np.roll(state, 1)
    is_possible = np.ones(len(state), bool)
    for size in np.unique(gap):
        leads = np.linalg.matrix_power(chain.can_follow, int(size))
        rows = gap == size
        from_start = (chain.can_start @ leads)[state[rows]]
        is_possible[rows] = np.where(is_first[rows], from_start, leads[before[rows], state[rows]])
    bad = np.flatnonzero(~is_possible)
    if len(bad):
        k = bad[0]
        actual = (
            f"state {state[k]} in sequence {sequence[k]}, step {step[k]}, which no path has there"
        )
        remedy = "Correct it, or allow the transitions and first states that lead there."
        require(False, "data", "known states that the chain allows", actual, remedy)
