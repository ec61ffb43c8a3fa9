"""Positions of discs of a map, moved apart a little so that each number can be read."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

ROUNDS = 250


def parted(
    points: Float[np.ndarray, "n 2"], half: Float[np.ndarray, "n 2"], low: float, high: float
) -> Float[np.ndarray, "n 2"]:
    """Points moved until the boxes about them (of half sides `half`) do not overlap, as far as there is room in the
    square from `low` to `high`; nothing in it is random. Where they are too many for small moves, all go to places of a
    grid, as near as possible.

    >>> moved = parted(np.array([[5.0, 5.0], [5.5, 5.0]]), np.full((2, 2), 1.0), 0.0, 10.0)
    >>> moved.round(2).tolist()
    [[4.25, 5.0], [6.25, 5.0]]
    """
    points = np.array(points, float)
    spiral = np.arange(len(points))[:, None] * np.array([[2.4, 2.4 + np.pi / 2]])
    points = np.where(_same(points)[:, None], points + 1e-3 * np.cos(spiral), points)
    reach = half[:, None] + half[None]
    for _ in range(ROUNDS):
        away = points[:, None] - points[None]
        over = reach - np.abs(away)
        hit = (over > 1e-9).all(axis=-1)
        np.fill_diagonal(hit, False)
        if not hit.any():
            return points
        along = over.argmin(axis=-1)[..., None] == np.arange(2)  # the shorter way out
        push = np.where(along & hit[..., None], np.sign(away) * over, 0.0)
        step = 0.5 * push.sum(axis=1) / np.maximum(1.0, 0.5 * hit.sum(axis=1))[:, None]
        points = np.clip(points + step, low + half, high - half)
    return _on_a_grid(points, half.max(axis=0), low, high)


def _on_a_grid(
    points: Float[np.ndarray, "n 2"], half: Float[np.ndarray, " 2"], low: float, high: float
) -> Float[np.ndarray, "n 2"]:
    """Each point on its own place of a grid, by the smallest sum of squared moves; unmoved where places are too few."""
    from scipy.optimize import linear_sum_assignment  # slow to import, and seldom needed

    numbers = ((high - low) // (2 * half)).astype(int)
    if numbers.min() < 1 or numbers.prod() < len(points):
        return points
    sides = [np.linspace(low + reach, high - reach, number) for reach, number in zip(half, numbers, strict=True)]
    places = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    moves = ((points[:, None] - places[None]) ** 2).sum(axis=-1)
    return places[linear_sum_assignment(moves)[1]]


def _same(points: np.ndarray) -> np.ndarray:
    """True for points that coincide with an earlier one."""
    _, first = np.unique(points.round(9), axis=0, return_index=True)
    same = np.ones(len(points), bool)
    same[first] = False
    return same
