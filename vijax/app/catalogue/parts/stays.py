"""How long the states of a chain last."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

SHORTEST_LEAVE = 1e-6
"""Probability of leaving below which a state counts as never left: far below what data can tell."""


def stay_lengths(transition: Float[np.ndarray, "*chains K K"]) -> Float[np.ndarray, "*chains K"]:
    """The mean number of steps of a stay in each state; infinite for one that is never left.

    >>> stay_lengths(np.array([[0.75, 0.25], [0.0, 1.0]])).tolist()
    [4.0, inf]
    """
    leave = 1 - np.diagonal(transition, axis1=-2, axis2=-1)
    lengths = 1 / np.maximum(leave, SHORTEST_LEAVE)
    return np.where(leave < SHORTEST_LEAVE, np.inf, lengths)
