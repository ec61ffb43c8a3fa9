"""Sequences of unequal length, as a padded array and the mask of its steps; and sequences drawn
from the models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from vijax.checks import require
from vijax.contract.model import Estimates
from vijax.contract.queries import Generative, Values, is_sizes, length_masks
from vijax.data.schema.named_columns import in_order_of, names_of
from vijax.data.schema.number_arrays import array_of_numbers
from vijax.models.emission import Emission
from vijax.xla.precision import enable_x64


def pad(sequences: Any) -> tuple[Float[np.ndarray, "N T D"], Bool[np.ndarray, "N T"]]:
    """Sequences of unequal length, arrays (T_n, D), as one array and the mask of its steps. Of
    tables of pandas, polars or Arrow the columns are those of the first, by their names.

    Args:
      sequences: a list of them.

    Raises:
      ValueError: there is no sequence, one is no array (T, D) of numbers, they are not of one
        width, or a table lacks a column of the first.

    >>> y, mask = pad([np.zeros((2, 1)), np.ones((3, 1))])
    >>> y.shape, mask.tolist()
    ((2, 3, 1), [[True, True, False], [True, True, True]])
    """
    rows = [_numbers(f"sequences[{n}]", each) for n, each in enumerate(_in_one_order(sequences))]
    widths = {row.shape[1] for row in rows if row.ndim == 2}
    actual = f"widths {sorted(widths)}" if widths else "none that has a step"
    remedy = "Give all of them the same columns."
    require(len(widths) == 1, "sequences", "arrays (T, D) of one width D", actual, remedy)
    steps = np.array([row.shape[0] if row.ndim == 2 else 0 for row in rows])
    mask = np.arange(max(steps.max(), 1)) < steps[:, None]
    y = np.zeros((*mask.shape, widths.pop()), np.result_type(*rows, np.float32))
    for n, row in enumerate(rows):
        y[n, : steps[n]] = row
    return y, mask


def _numbers(argument: str, sequence: Any) -> np.ndarray:
    """A sequence as an array (T, D), or an empty one. One axis could be steps as well as
    columns."""
    row = np.asarray(array_of_numbers(argument, sequence))
    remedy = (
        "Write y[:, None] for T steps of one number (of a series of pandas y.to_frame()), y[None] "
        "for one step."
    )
    require(
        row.ndim == 2 or not row.size,
        argument,
        "an array (T, D), a row for each step",
        row.shape,
        remedy,
    )
    return row


def _in_one_order(sequences: Any) -> list[Any]:
    """The sequences, with the columns of tables in the order of the first of them."""
    sequences = list(sequences)
    columns = next(filter(None, map(names_of, sequences)), None)
    return [in_order_of(columns, each, f"sequences[{n}]") for n, each in enumerate(sequences)]


def check_pair(
    data: PyTree, dim: int | None = None
) -> tuple[Float[np.ndarray, "N T D"], Bool[np.ndarray, "N T"]]:
    """The pair (y, mask) as NumPy arrays; ValueError where it is no such pair, a mask has gaps or
    no step exists."""
    pair = isinstance(data, tuple) and len(data) == 2
    require(pair, "data", "a pair (y, mask)", type(data).__name__, "See vijax.models.pad.")
    y, mask = map(np.asarray, data)
    fits = y.ndim == 3 and mask.shape == y.shape[:2]
    require(
        fits, "data", "y of shape (N, T, D) and mask of shape (N, T)", f"{y.shape} and {mask.shape}"
    )
    mask = mask.astype(bool)
    gaps = np.flatnonzero(np.any(mask[:, 1:] & ~mask[:, :-1], axis=1))
    where = f"a gap in sequence {gaps[0]}" if len(gaps) else ""
    remedy = (
        "A step that was not observed is a row of NaN, where the model takes those. See "
        "vijax.models.pad."
    )
    require(not len(gaps), "data", "masks true on the first steps of each sequence", where, remedy)
    require(mask.any(), "data", "at least one step", "sequences that are all empty")
    require(dim in (None, y.shape[2]), "data", f"y of shape (N, T, {dim})", f"shape {y.shape}")
    return y, mask


def check_values(
    bad: Bool[np.ndarray, "N T D"],
    y: Float[np.ndarray, "N T D"],
    mask: Bool[np.ndarray, "N T"],
    expected: str,
    remedy: str = "",
) -> None:
    """Raises ValueError naming sequence, step and column of the first bad value of a step that
    exists."""
    where = np.argwhere(bad & mask[..., None])
    if len(where):
        n, t, d = map(int, where[0])
        raise ValueError(
            f"data: expected {expected}, got {y[n, t, d]} in sequence {n}, step {t}, column {d} "
            f"({len(where)} such "
            f"values). {remedy}".rstrip()
        )


UNITS = "sequence", "step"
"""What is scored, as it is printed."""


def score_of(densities: Callable[..., Array], q: Estimates, data: PyTree) -> Any:
    """The held-out score of sequences, nats per step with a standard error over sequences, from
    their log densities `densities(q, y, mask)` in float64."""
    from vijax.evaluate import Score

    y, mask = map(np.asarray, data)
    with enable_x64(True):
        q = jax.tree.map(lambda x: np.asarray(x, np.float64), dict(q))
        found = densities(q, np.asarray(y, np.float64), np.asarray(mask, bool))
    return Score.of(np.asarray(found), mask.sum(axis=1), units=UNITS)


class Steps(NamedTuple):
    """The layout of sequences to be drawn."""

    y: Float[Array, "N T D"]  # an array of the shape of the observations; only its sizes are read
    mask: Bool[Array, "N T"]  # true on the steps that exist


def steps_like(check: Any, example: Any, needs_data: str = "") -> Any:
    """The layout of sequences from lengths, or from data (y, mask)."""

    def layout(like: Any) -> Steps:
        if is_sizes(like):
            require(not needs_data, "like", f"data (y, mask), {needs_data}", like)
            mask = length_masks(like)
            row = jnp.asarray(example, jnp.result_type(float))
            return Steps(jnp.broadcast_to(row, (*mask.shape, *row.shape)), jnp.asarray(mask))
        check(like)
        return Steps(jnp.asarray(like[0], jnp.result_type(float)), jnp.asarray(like[1], bool))

    return layout


def observed(layout: Steps, data: Any) -> Float[Array, "N T D"]:
    """Observations, NaN on steps that do not exist."""
    return padded(layout.y, layout)


def padded(y: Float[Array, "N T D"], layout: Any) -> Float[Array, "N T D"]:
    """Observations with NaN in padding."""
    return jnp.where(layout.mask[..., None], y, jnp.nan)


def path(
    initial: Float[Array, " K"], transition: Float[Array, "K K"], num_steps: int, key: PRNGKeyArray
) -> Int[Array, " T"]:
    """States of a Markov chain, one step after another.

    Args:
      initial: probabilities of the first state.
      transition: probabilities of the next state given each.
      num_steps: T.
      key: random key of the draws.

    >>> print(path(jnp.array([1.0, 0.0]), jnp.array([[0.0, 1.0], [1.0, 0.0]]), 4, jax.random.key(0)))
    [0 1 0 1]
    """
    logits = jnp.log(transition)
    first, *rest = jax.random.split(key)
    start = jax.random.categorical(first, jnp.log(initial))

    def go(z: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        return jax.random.categorical(key, logits[z]), z

    return jax.lax.scan(go, start, jax.random.split(rest[0], num_steps))[1]


def last_of(values: Array, mask: Bool[Array, "N T"]) -> Array:
    """The entry at the last step of each sequence; for a sequence without steps the first entry."""
    return values[jnp.arange(len(mask)), jnp.maximum(mask.sum(axis=1) - 1, 0)]


def after(layout: Steps, num_steps: int) -> Steps:
    """The layout of the next steps: totals are those of the last existing step."""
    y = jnp.broadcast_to(
        last_of(layout.y, layout.mask)[:, None], (len(layout.y), num_steps, layout.y.shape[-1])
    )
    return Steps(y, jnp.ones(y.shape[:2], bool))


def paths_after(
    states: Int[Array, "N T"],
    mask: Bool[Array, "N T"],
    initial: Float[Array, " K"],
    transition: Float[Array, "K K"],
    num_steps: int,
    key: PRNGKeyArray,
) -> Int[Array, "N H"]:
    """Paths of a chain that go on from the last state of each sequence."""
    is_there = mask.any(axis=1)
    first = jnp.where(is_there[:, None], transition[last_of(states, mask)], initial)
    one = lambda first, key: path(first, transition, num_steps, key)
    return jax.vmap(one)(first, jax.random.split(key, len(mask)))


def hidden_markov(emission: Emission, check: Any) -> Generative | None:
    """Draws of a hidden Markov model; None where the emission has no method to draw."""
    draw = emission.sample
    if draw is None:
        return None

    def local(hyper: Any, values: Values, layout: Steps, key: PRNGKeyArray) -> dict[str, Array]:
        size, num_steps = layout.mask.shape
        one = lambda key: path(values["initial"], values["transition"], num_steps, key)
        return {"z": jax.vmap(one)(jax.random.split(key, size))}

    def data(
        hyper: Any, values: Values, local: Values, layout: Steps, key: PRNGKeyArray
    ) -> Float[Array, "N T D"]:
        one = lambda k, y, key: draw(values["components"], k, y, key)
        keys = jax.random.split(key, layout.mask.shape)
        return padded(jax.vmap(jax.vmap(one))(local["z"], layout.y, keys), layout)

    def ahead(
        hyper: Any, values: Values, local: Values, layout: Steps, num_steps: int, key: PRNGKeyArray
    ) -> tuple[Values, Steps]:
        laws = values["initial"], values["transition"]
        return {"z": paths_after(local["z"], layout.mask, *laws, num_steps, key)}, after(
            layout, num_steps
        )

    needs = "whose steps have totals of their own" if emission.has_totals else ""
    return Generative(
        steps_like(check, emission.example, needs), data, local, observed, ahead=ahead
    )


def factorial(dim: int, num_chains: int, check: Any) -> Generative:
    """Draws of several chains, whose contributions add up."""

    def local(hyper: Any, values: Values, layout: Steps, key: PRNGKeyArray) -> dict[str, Array]:
        size, num_steps = layout.mask.shape
        keys = jax.random.split(key, (num_chains, size))
        one = lambda initial, transition, key: path(initial, transition, num_steps, key)
        paths = jax.vmap(jax.vmap(one, (None, None, 0)))(
            values["initial"], values["transition"], keys
        )
        return {f"z{m + 1}": z for m, z in enumerate(paths)}

    def data(
        hyper: Any, values: Values, local: Values, layout: Steps, key: PRNGKeyArray
    ) -> Float[Array, "N T D"]:
        found = values["contributions"]
        by_chain = found.coefficients.reshape(dim, num_chains, -1)
        mean = sum(by_chain[:, m].T[local[f"z{m + 1}"]] for m in range(num_chains))
        noise = jax.random.normal(key, layout.y.shape, layout.y.dtype)
        return padded(mean + noise / jnp.sqrt(found.precision)[None, None], layout)

    def ahead(
        hyper: Any, values: Values, local: Values, layout: Steps, num_steps: int, key: PRNGKeyArray
    ) -> tuple[Values, Steps]:
        keys = jax.random.split(key, num_chains)
        laws = zip(values["initial"], values["transition"], keys, strict=True)
        paths = {
            f"z{m + 1}": paths_after(local[f"z{m + 1}"], layout.mask, first, moves, num_steps, key)
            for m, (first, moves, key) in enumerate(laws)
        }
        return paths, after(layout, num_steps)

    return Generative(steps_like(check, np.zeros(dim)), data, local, observed, ahead=ahead)


def linear_gaussian(dim: int, check: Any) -> Generative:
    """Draws of a linear-Gaussian state space."""

    def local(hyper: Any, values: Values, layout: Steps, key: PRNGKeyArray) -> dict[str, Array]:
        size, num_steps = layout.mask.shape
        one = lambda key: _states(values, num_steps, key)
        return {"x": jax.vmap(one)(jax.random.split(key, size))}

    def data(
        hyper: Any, values: Values, local: Values, layout: Steps, key: PRNGKeyArray
    ) -> Float[Array, "N T D"]:
        found = values["observation"]
        mean = local["x"] @ found.coefficients[:, :-1].T + found.coefficients[:, -1][None, None]
        noise = jax.random.normal(key, layout.y.shape, layout.y.dtype)
        return padded(mean + noise / jnp.sqrt(found.precision)[None, None], layout)

    def ahead(
        hyper: Any, values: Values, local: Values, layout: Steps, num_steps: int, key: PRNGKeyArray
    ) -> tuple[Values, Steps]:
        one = lambda x, is_there, key: _states(values, num_steps, key, x, is_there)
        ends = last_of(local["x"], layout.mask), layout.mask.any(axis=1)
        paths = jax.vmap(one)(*ends, jax.random.split(key, len(layout.mask)))
        return {"x": paths}, after(layout, num_steps)

    return Generative(steps_like(check, np.zeros(dim)), data, local, observed, ahead=ahead)


def _states(
    values: Values,
    num_steps: int,
    key: PRNGKeyArray,
    last: Array | None = None,
    goes_on: Any = True,
) -> Float[Array, "T K"]:
    """States of a linear-Gaussian chain: from its first law, or after the state `last` where it
    `goes_on`."""
    law, moves = values["initial"], values["dynamics"]
    noise = jax.random.normal(key, (num_steps, *law.mean.shape), law.mean.dtype)
    go = lambda x, noise: moves.coefficients @ x + noise / jnp.sqrt(moves.precision)
    first = law.mean + noise[0] / jnp.sqrt(law.precision)
    if last is not None:
        first = jnp.where(goes_on, go(last, noise[0]), first)
    rest = jax.lax.scan(lambda x, noise: (go(x, noise),) * 2, first, noise[1:])[1]
    return jnp.concatenate([first[None], rest])
