"""Sequences of unequal length as a padded array and the mask of its steps; draws of sequences."""

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
from vijax.data.schema.named_columns import find_names, order_by_names
from vijax.data.schema.number_arrays import array_of_numbers
from vijax.models.emission import Emission
from vijax.xla.precision import enable_x64


def pad(sequences: Any) -> tuple[Float[np.ndarray, "N T D"], Bool[np.ndarray, "N T"]]:
    """Sequences of unequal length, arrays (T_n, D), as one array and the mask of its steps. Tables
    of pandas, polars or Arrow get the columns of the first table, by name.

    Args:
      sequences: a list of sequences.

    Raises:
      ValueError: there is no sequence, one is not an array (T, D) of numbers, widths differ, or a
        table lacks a column of the first.

    >>> y, mask = pad([np.zeros((2, 1)), np.ones((3, 1))])
    >>> y.shape, mask.tolist()
    ((2, 3, 1), [[True, True, False], [True, True, True]])
    """
    aligned = _align_columns(sequences)
    rows = [_numbers(f"sequences[{n}]", sequence) for n, sequence in enumerate(aligned)]
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
    """A sequence as an array (T, D), or an empty one. ValueError for one axis, which could be steps
    or columns."""
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


def _align_columns(sequences: Any) -> list[Any]:
    """The sequences, with the columns of tables in the order of the first table."""
    sequences = list(sequences)
    columns = next(filter(None, map(find_names, sequences)), None)
    return [
        order_by_names(columns, sequence, f"sequences[{n}]") for n, sequence in enumerate(sequences)
    ]


def check_pair(
    data: PyTree, dim: int | None = None
) -> tuple[Float[np.ndarray, "N T D"], Bool[np.ndarray, "N T"]]:
    """The pair (y, mask) as NumPy arrays; ValueError if it is not a pair, a mask has gaps or no
    step exists."""
    is_pair = isinstance(data, tuple) and len(data) == 2
    require(is_pair, "data", "a pair (y, mask)", type(data).__name__, "See vijax.models.pad.")
    y, mask = map(np.asarray, data)
    fits = y.ndim == 3 and mask.shape == y.shape[:2]
    require(
        fits, "data", "y of shape (N, T, D) and mask of shape (N, T)", f"{y.shape} and {mask.shape}"
    )
    mask = mask.astype(bool)
    gaps = np.flatnonzero(np.any(mask[:, 1:] & ~mask[:, :-1], axis=1))
    actual = f"a gap in sequence {gaps[0]}" if len(gaps) else ""
    remedy = (
        "A step that was not observed is a row of NaN, where the model takes those. See "
        "vijax.models.pad."
    )
    require(not len(gaps), "data", "masks true on the first steps of each sequence", actual, remedy)
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
    """Raises ValueError for bad values at steps that exist; it names the sequence, step and column
    of the first."""
    places = np.argwhere(bad & mask[..., None])
    if len(places):
        n, t, d = map(int, places[0])
        raise ValueError(
            f"data: expected {expected}, got {y[n, t, d]} in sequence {n}, step {t}, column {d} "
            f"({len(places)} such "
            f"values). {remedy}".rstrip()
        )


def read_steps(takes_missing: bool, y: Array) -> tuple[Array, Bool[Array, "*batch T"]]:
    """The steps as an emission reads them, and the mask of those with an observation. If the
    emission has a law of missing cells, a step with some cells counts, and missing ones stay
    NaN."""
    if takes_missing:
        return y, ~jnp.isnan(y).all(axis=-1)
    return observed_steps(y)


def observed_steps(y: Array) -> tuple[Array, Bool[Array, "*batch T"]]:
    """The steps, with zeros for steps that lack a number, and the mask of the other steps."""
    if not jnp.issubdtype(y.dtype, jnp.floating):
        return y, jnp.ones(y.shape[:-1], bool)
    is_observed = ~jnp.isnan(y).any(axis=-1)
    return jnp.where(is_observed[..., None], y, 0.0), is_observed


UNITS = "sequence", "step"
"""Names of the groups and the units of a score, as printed."""


def score_sequences(densities: Callable[..., Array], q: Estimates, data: PyTree) -> Any:
    """The held-out score of sequences in nats per step, with a standard error over sequences. It is
    computed from log densities `densities(q, y, mask)` in float64."""
    from vijax.evaluate import Score

    y, mask = map(np.asarray, data)
    with enable_x64(True):
        q = jax.tree.map(lambda x: np.asarray(x, np.float64), dict(q))
        values = densities(q, np.asarray(y, np.float64), np.asarray(mask, bool))
    return Score.of(np.asarray(values), mask.sum(axis=1), units=UNITS)


class Steps(NamedTuple):
    """The layout of sequences for draws."""

    y: Float[Array, "N T D"]  # an array of the shape of the observations; only its sizes are read
    mask: Bool[Array, "N T"]  # true on the steps that exist


def steps_like(check: Any, example: Any, needs_data: str = "") -> Any:
    """like -> the layout of sequences, from lengths or from data (y, mask)."""

    def layout(like: Any) -> Steps:
        if is_sizes(like):
            require(not needs_data, "like", f"data (y, mask), {needs_data}", like)
            mask = length_masks(like)
            row = jnp.asarray(example, jnp.result_type(float))
            return Steps(jnp.broadcast_to(row, (*mask.shape, *row.shape)), jnp.asarray(mask))
        check(like)
        return Steps(jnp.asarray(like[0], jnp.result_type(float)), jnp.asarray(like[1], bool))

    return layout


def observations(layout: Steps, data: Any) -> Float[Array, "N T D"]:
    """Observations, NaN on steps that do not exist."""
    return mask_padding(layout.y, layout)


def mask_padding(y: Float[Array, "N T D"], layout: Any) -> Float[Array, "N T D"]:
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
    first, *later_keys = jax.random.split(key)
    start = jax.random.categorical(first, jnp.log(initial))

    def go(z: Array, key: PRNGKeyArray) -> tuple[Array, Array]:
        return jax.random.categorical(key, logits[z]), z

    return jax.lax.scan(go, start, jax.random.split(later_keys[0], num_steps))[1]


def last_steps(values: Array, mask: Bool[Array, "N T"]) -> Array:
    """The entry at the last step of each sequence; for a sequence without steps the first entry."""
    return values[jnp.arange(len(mask)), jnp.maximum(mask.sum(axis=1) - 1, 0)]


def next_steps(layout: Steps, num_steps: int) -> Steps:
    """The layout of the next steps: totals are those of the last existing step."""
    y = jnp.broadcast_to(
        last_steps(layout.y, layout.mask)[:, None], (len(layout.y), num_steps, layout.y.shape[-1])
    )
    return Steps(y, jnp.ones(y.shape[:2], bool))


def continue_paths(
    states: Int[Array, "N T"],
    mask: Bool[Array, "N T"],
    initial: Float[Array, " K"],
    transition: Float[Array, "K K"],
    num_steps: int,
    key: PRNGKeyArray,
) -> Int[Array, "N H"]:
    """Paths of a chain that start after the last state of each sequence."""
    has_steps = mask.any(axis=1)
    first = jnp.where(has_steps[:, None], transition[last_steps(states, mask)], initial)
    draw = lambda first, key: path(first, transition, num_steps, key)
    return jax.vmap(draw)(first, jax.random.split(key, len(mask)))


def hidden_markov(emission: Emission, check: Any) -> Generative | None:
    """Draws of a hidden Markov model; None if the emission cannot be drawn."""
    draw = emission.sample
    if draw is None:
        return None

    def local(hyper: Any, values: Values, layout: Steps, key: PRNGKeyArray) -> dict[str, Array]:
        size, num_steps = layout.mask.shape
        draw_one = lambda key: path(values["initial"], values["transition"], num_steps, key)
        return {"z": jax.vmap(draw_one)(jax.random.split(key, size))}

    def data(
        hyper: Any, values: Values, local: Values, layout: Steps, key: PRNGKeyArray
    ) -> Float[Array, "N T D"]:
        draw_one = lambda k, y, key: draw(values["components"], k, y, key)
        keys = jax.random.split(key, layout.mask.shape)
        return mask_padding(jax.vmap(jax.vmap(draw_one))(local["z"], layout.y, keys), layout)

    def ahead(
        hyper: Any, values: Values, local: Values, layout: Steps, num_steps: int, key: PRNGKeyArray
    ) -> tuple[Values, Steps]:
        laws = values["initial"], values["transition"]
        z = continue_paths(local["z"], layout.mask, *laws, num_steps, key)
        return {"z": z}, next_steps(layout, num_steps)

    needs = "whose steps have totals of their own" if emission.has_totals else ""
    return Generative(
        steps_like(check, emission.example, needs), data, local, observations, ahead=ahead
    )


def factorial(dim: int, num_chains: int, check: Any) -> Generative:
    """Draws of several chains with additive contributions."""

    def local(hyper: Any, values: Values, layout: Steps, key: PRNGKeyArray) -> dict[str, Array]:
        size, num_steps = layout.mask.shape
        keys = jax.random.split(key, (num_chains, size))
        draw_path = lambda initial, transition, key: path(initial, transition, num_steps, key)
        paths = jax.vmap(jax.vmap(draw_path, (None, None, 0)))(
            values["initial"], values["transition"], keys
        )
        return {f"z{m + 1}": z for m, z in enumerate(paths)}

    def data(
        hyper: Any, values: Values, local: Values, layout: Steps, key: PRNGKeyArray
    ) -> Float[Array, "N T D"]:
        contributions = values["contributions"]
        by_chain = contributions.coefficients.reshape(dim, num_chains, -1)
        mean = sum(by_chain[:, m].T[local[f"z{m + 1}"]] for m in range(num_chains))
        noise = jax.random.normal(key, layout.y.shape, layout.y.dtype)
        return mask_padding(mean + noise / jnp.sqrt(contributions.precision)[None, None], layout)

    def ahead(
        hyper: Any, values: Values, local: Values, layout: Steps, num_steps: int, key: PRNGKeyArray
    ) -> tuple[Values, Steps]:
        keys = jax.random.split(key, num_chains)
        laws = zip(values["initial"], values["transition"], keys, strict=True)
        paths = {
            f"z{m + 1}": continue_paths(
                local[f"z{m + 1}"], layout.mask, first, moves, num_steps, key
            )
            for m, (first, moves, key) in enumerate(laws)
        }
        return paths, next_steps(layout, num_steps)

    return Generative(steps_like(check, np.zeros(dim)), data, local, observations, ahead=ahead)


def linear_gaussian(dim: int, check: Any) -> Generative:
    """Draws of a linear-Gaussian state space."""

    def local(hyper: Any, values: Values, layout: Steps, key: PRNGKeyArray) -> dict[str, Array]:
        size, num_steps = layout.mask.shape
        draw_path = lambda key: _states(values, num_steps, key)
        return {"x": jax.vmap(draw_path)(jax.random.split(key, size))}

    def data(
        hyper: Any, values: Values, local: Values, layout: Steps, key: PRNGKeyArray
    ) -> Float[Array, "N T D"]:
        observation = values["observation"]
        mean = (
            local["x"] @ observation.coefficients[:, :-1].T
            + observation.coefficients[:, -1][None, None]
        )
        noise = jax.random.normal(key, layout.y.shape, layout.y.dtype)
        return mask_padding(mean + noise / jnp.sqrt(observation.precision)[None, None], layout)

    def ahead(
        hyper: Any, values: Values, local: Values, layout: Steps, num_steps: int, key: PRNGKeyArray
    ) -> tuple[Values, Steps]:
        draw_path = lambda x, is_there, key: _states(values, num_steps, key, x, is_there)
        ends = last_steps(local["x"], layout.mask), layout.mask.any(axis=1)
        paths = jax.vmap(draw_path)(*ends, jax.random.split(key, len(layout.mask)))
        return {"x": paths}, next_steps(layout, num_steps)

    return Generative(steps_like(check, np.zeros(dim)), data, local, observations, ahead=ahead)


def _states(
    values: Values,
    num_steps: int,
    key: PRNGKeyArray,
    last: Array | None = None,
    has_last: Any = True,
) -> Float[Array, "T K"]:
    """States of a linear-Gaussian chain: after the state `last` if `has_last`, else from the law of
    the first state."""
    law, moves = values["initial"], values["dynamics"]
    noise = jax.random.normal(key, (num_steps, *law.mean.shape), law.mean.dtype)
    go = lambda x, noise: moves.coefficients @ x + noise / jnp.sqrt(moves.precision)
    first = law.mean + noise[0] / jnp.sqrt(law.precision)
    if last is not None:
        first = jnp.where(has_last, go(last, noise[0]), first)
    later = jax.lax.scan(lambda x, noise: (go(x, noise),) * 2, first, noise[1:])[1]
    return jnp.concatenate([first[None], later])
