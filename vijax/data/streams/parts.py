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
    """The first place of part i of a pass, and the place behind its last; sizes of parts differ by
    one group at most.

    >>> [part_of_pass(8, 3, i) for i in range(3)]
    [(0, 3), (3, 6), (6, 8)]
    """
    size, num_larger = divmod(num_groups, num_parts)  # `more` parts have one group more
    first = i * size + min(i, num_larger)
    return first, first + size + (i < num_larger)


def padded_part(
    data: PyTree, places: np.ndarray, rows: np.ndarray, num_groups: int, slots: int
) -> Minibatch:
    """A part of a pass as a batch, padded to `slots` rows.

    Args:
      data: arrays with the rows of the part among theirs.
      places: places of the rows in `data`; one place to pad with if the part has no rows.
      rows: numbers of the rows in the data set.
      num_groups: N.
      slots: rows of the batch.
    """
    padded = np.pad(places, (0, slots - len(places)), mode="edge")
    data = jax.tree.map(lambda x: np.asarray(x)[padded], data)
    weights = (np.arange(slots) < len(rows)).astype(np.float32)
    rows = np.pad(rows, (0, slots - len(rows)), constant_values=num_groups).astype(np.int32)
    return Minibatch(data, np.float32(num_groups), weights, rows=rows)  # type: ignore[arg-type]
