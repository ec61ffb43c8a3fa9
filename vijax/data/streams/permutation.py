"""A random order of any number of rows that takes no memory: the row at a place is computed from a
seed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int


@dataclasses.dataclass(frozen=True)
class Permutation:
    """A permutation of 0, ..., size - 1 by a keyed Feistel network (Luby and Rackoff 1988) with
    alternating halves.

    It permutes numbers with as many bits as size - 1, and permutes a number outside again until it
    is inside (Black and Rogaway 2002, section 4: cycle walking). So it takes no memory, whatever
    the size. Narrow halves mix slowly: short orders take more rounds.

    Attributes:
      size: number of rows.
      seed: integers of 0 or more.

    >>> Permutation(6, (0, 3))(np.arange(6))
    array([1, 5, 2, 3, 0, 4])
    """

    size: int
    seed: tuple[int, ...]

    def __call__(self, places: Int[np.ndarray, " n"] | Sequence[int]) -> Int[np.ndarray, " n"]:
        """The rows at these places."""
        rows = self._permute(np.asarray(places, np.uint64))
        while len(too_large := np.flatnonzero(rows >= self.size)):
            rows[too_large] = self._permute(rows[too_large])
        return rows.astype(np.int64)

    @property
    def _bits(self) -> int:
        return max(2, (self.size - 1).bit_length())

    @functools.cached_property
    def _keys(self) -> np.ndarray:
        return np.random.SeedSequence(self.seed).generate_state(8 + 64 // self._bits, np.uint64)

    def _permute(self, numbers: np.ndarray) -> np.ndarray:
        low_bits = np.uint64(self._bits // 2)
        bits = self._bits
        masks = np.uint64((1 << bits // 2) - 1), np.uint64((1 << bits - bits // 2) - 1)
        low = numbers & masks[0]
        high = numbers >> low_bits
        for i, key in enumerate(self._keys):
            if i % 2:
                high = high ^ (_mix(low, key) & masks[1])
            else:
                low = low ^ (_mix(high, key) & masks[0])
        return (high << low_bits) | low


def _mix(x: np.ndarray, key: np.uint64) -> np.ndarray:
    """Bits that look random, made of a number and a key: the finaliser of MurmurHash3 (Appleby
    2011)."""
    x = x + key
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ (x >> np.uint64(33))) * np.uint64(factor)
    return x ^ (x >> np.uint64(33))
