"""The parts of a pass over a data set: evenly cut, padded to one size."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import PyTree

from vijax.contract.batch import Minibatch


def order_of_parts(seed: int, epoch: int, num_parts: int) -> np.ndarray:
    """The order in which a pass visits the parts of a data set."""
    return np.random.default_rng([seed, epoch, num_parts]).permutation(num_parts).astype(np.int32)


def part_of_pass(num_groups: int, num_parts: int, i: int) -> tuple[int, int]:
    """The first place of part i of a pass, and the place behind its last: parts differ by one group
    at most.

    >>> [part_of_pass(8, 3, i) for i in range(3)]
    [(0, 3), (3, 6), (6, 8)]
    """
    least, more = divmod(num_groups, num_parts)  # number of parts with one group more
    first = i * least + min(i, more)
    return first, first + least + (i < more)


def padded_part(
    data: PyTree, here: np.ndarray, rows: np.ndarray, num_groups: int, slots: int
) -> Minibatch:
    """A part of a pass as a batch, padded to so many slots: the rows `here` of the arrays, which
    are `rows` of the whole set. Where there are no rows, `here` is one to pad with."""
    data = jax.tree.map(
        lambda x: np.asarray(x)[np.pad(here, (0, slots - len(here)), mode="edge")], data
    )
    weights = (np.arange(slots) < len(rows)).astype(np.float32)
    rows = np.pad(rows, (0, slots - len(rows)), constant_values=num_groups).astype(np.int32)
    return Minibatch(data, np.float32(num_groups), weights, rows=rows)  # type: ignore[arg-type]
