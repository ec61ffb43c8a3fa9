"""The random numbers by which rows, documents, users and pairs are held out."""

from __future__ import annotations

import numpy as np

STREAM = 0x48656C64
"""The number of this stream of a seed; the letters of "Held"."""


def held_out_generator(seed: int) -> np.random.Generator:
    """The generator of the split of a seed. It has nothing in common with
    `numpy.random.default_rng(seed)`, by which people simulate data: a graph whose links are its
    first numbers had links held out and nothing else.

    >>> own, users = held_out_generator(0), np.random.default_rng(0)
    >>> bool(np.isin(own.random(1000), users.random(1000)).any())
    False
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM,)))
