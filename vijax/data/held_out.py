"""The random numbers by which rows, documents, users and pairs are held out."""

from __future__ import annotations

import numpy as np

STREAM = 0x48656C64
"""The number of this stream of a seed: the letters "Held"."""


def held_out_generator(seed: int) -> np.random.Generator:
    """The generator of the split of a seed. It shares no number with
    `numpy.random.default_rng(seed)`, with which people simulate data: of a graph whose links were
    its first numbers, only links were held out.

    >>> split, simulation = held_out_generator(0), np.random.default_rng(0)
    >>> bool(np.isin(split.random(1000), simulation.random(1000)).any())
    False
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(STREAM,)))
