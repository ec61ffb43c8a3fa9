"""Emissions of rows whose state is known at some of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from vijax.checks import require
from vijax.models.emission.base import Emission
from vijax.xla.by_value import cache_by_value

IMPOSSIBLE = -1e20
"""Log density of a row in a state that it is known not to have: more than any data can outweigh."""


@cache_by_value
def with_labels(emission: Emission) -> Emission:
    """The emission for rows with one more cell, the last: the number of their state, 0 to K - 1,
    where it is known, and NaN where it is not (semi-supervised learning).

    A row has the density of its other cells, times the indicator of its state; scores are joint
    densities of cells and known states given the model. Draws have the number of their state in
    the last cell. Rows of NaN but for the label count by it alone.

    Args:
      emission: an emission of a hidden Markov model (`hmm`, `hdp_hmm`).

    Raises:
      ValueError: an emission with labels, or of bags of words.

    >>> from vijax.models.emission import unit_gaussian
    >>> e, s = unit_gaussian(3, dim=1), unit_gaussian(3, dim=1).prior.expected_stats()
    >>> print(with_labels(e).log_likelihood(s, jnp.array([0.0, 1.0])) > -1e19)
    [False  True False]
    """
    expected = "one of rows without labels"
    require(not emission.has_labels, "emission", expected, "with_labels(...)")
    require(not emission.has_totals, "emission", expected, "bags of words")
    num_states = emission.num_components
    width = emission.example.shape[-1]

    def log_likelihood(s: Any, y: Float[Array, " C"]) -> Float[Array, " K"]:
        cells, is_read = _cells(emission, y)
        return exclude(y[-1], jnp.where(is_read, emission.log_likelihood(s, cells), 0.0))

    def predictive(q: Any, y: Float[Array, " C"]) -> Float[Array, " K"]:
        cells, is_read = _cells(emission, y)
        return exclude(y[-1], jnp.where(is_read, emission.log_predictive(q, cells), 0.0))

    def check(data: Any) -> None:
        data = np.asarray(data)
        fits = data.ndim == 2 and data.shape[1] == width + 1
        shape = f"an array of shape (N, {width + 1}), the last column the number of the state"
        require(fits, "data", shape, f"shape {data.shape}")
        cells = data[:, :-1]
        if not emission.takes_missing:
            cells = cells[~np.isnan(cells).any(axis=1)]
        if len(cells):
            emission.check(cells)
        labels = data[:, -1]
        is_state = (labels >= 0) & (labels < num_states) & (labels == np.floor(labels))
        remedy = "Number the states from 0."
        expected = f"numbers of states from 0 to {num_states - 1} in the last column, or NaN"
        bad = labels[~(is_state | np.isnan(labels))]
        if len(bad):
            require(False, "data", expected, f"{bad[0]:g} ({len(bad)} such values)", remedy)

    def sample(p: Any, k: Array, y: Float[Array, " C"], key: PRNGKeyArray) -> Float[Array, " C"]:
        draw: Any = emission.sample
        return jnp.append(draw(p, k, y[:-1], key), jnp.asarray(k, y.dtype))

    return dataclasses.replace(
        emission,
        log_likelihood=log_likelihood,
        predictive=predictive,
        example=np.append(np.asarray(emission.example, float), -1.0),
        check=check,
        sample=emission.sample and sample,
        scored_as=emission.scored_as and with_labels(emission.scored_as),
        marginal=None,
        takes_missing=True,
        unlabelled=emission,
    )


def exclude(label: Float[Array, ""], fits: Float[Array, " K"]) -> Float[Array, " K"]:
    """The log densities, impossible in states other than a known one."""
    return jnp.where(other_states(label, len(fits)), IMPOSSIBLE, fits)


def other_states(label: Float[Array, "*batch"], num_states: int) -> Bool[Array, "*batch K"]:
    """True for the states that a row with this label does not have; none if it is no number of a
    state."""
    is_it = label[..., None] == jnp.arange(num_states, dtype=label.dtype)
    return ~is_it & jnp.any(is_it, axis=-1, keepdims=True)


def _cells(emission: Emission, y: Float[Array, " C"]) -> tuple[Float[Array, " D"], Bool[Array, ""]]:
    """The cells before the label, and False if the emission cannot read them."""
    cells = y[:-1]
    if emission.takes_missing:
        return cells, jnp.ones((), bool)
    is_read = ~jnp.isnan(cells).any()
    return jnp.where(is_read, cells, 0.0), is_read
