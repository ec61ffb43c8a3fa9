"""The map of topics, as inline SVG: a disc for each topic, with its number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from vijax.app.drawing.svg import escape


class Bubble(NamedTuple):
    """A disc on a map: place in [-1, 1]^2, area (any scale), number, name, link, and title."""

    x: float
    y: float
    size: float
    number: str
    label: str
    href: str
    title: str


def bubble_map(bubbles: Sequence[Bubble], num_names: int = 18) -> str:
    """Discs near their places, largest first, so that small ones stay on top; with numbers, and
    names that do not collide."""
    side = 520.0
    covered = 0.13 * side**2 / max(sum(b.size for b in bubbles), 1e-12)
    radius = [min(max(8.0, math.sqrt(b.size * covered / math.pi)), 40.0) for b in bubbles]
    half = np.array([[3.6 * len(b.number) + 2.5, 7.0] for b in bubbles]).reshape(-1, 2)
    positions = np.array([[b.x, -b.y] for b in bubbles]).reshape(-1, 2)
    wanted = side / 2 + 0.42 * side * np.clip(np.nan_to_num(positions), -1.0, 1.0)
    places = move_apart(wanted, half, 2.0, side - 2.0)
    reserved = np.maximum(half, 0.8 * np.array(radius)[:, None])  # names keep off these
    corners = np.concatenate([places - reserved, places + reserved], axis=1)
    boxes = [tuple(box) for box in corners.tolist()]
    discs: list[str] = []
    names: list[str] = []
    for i in sorted(range(len(bubbles)), key=lambda i: -bubbles[i].size):
        x, y = places[i].tolist()
        bubble = bubbles[i]
        discs.append(_disc(bubble, x, y, radius[i]))
        if len(names) < num_names:
            names += _name(bubble.label, x, y, radius[i], side, boxes)
    return (
        f'<svg class="map" viewBox="0 0 {side:.0f} {side:.0f}" role="group" aria-label="map of '
        'topics">'
        f"{''.join(names)}{''.join(discs)}</svg>"
    )


def _disc(bubble: Bubble, x: float, y: float, radius: float) -> str:
    return (
        f'<a href="{escape(bubble.href)}" aria-label="{escape(bubble.title)}"><circle '
        f'class="bubble" cx="{x:.1f}" '
        f'cy="{y:.1f}" r="{radius:.1f}"><title>{escape(bubble.title)}</title></circle>'
        f'<text class="name" x="{x:.1f}" y="{y + 4:.1f}">{escape(bubble.number)}</text></a>'
    )


def _name(
    label: str, x: float, y: float, radius: float, side: float, boxes: list[tuple[float, ...]]
) -> list[str]:
    """The label below the disc or above it, or its first word, at the first free place."""
    for text in dict.fromkeys([label, label.partition(" ")[0]]):
        for place in (y + radius + 8, y - radius - 8):
            box = _label_box(text, x, place, side)
            if not any(_overlap(box, used) for used in boxes):
                boxes.append(box)
                middle = 0.5 * (box[0] + box[2])
                return [
                    f'<text class="words" x="{middle:.1f}" '
                    f'y="{box[1] + 12:.1f}">{escape(text)}</text>'
                ]
    return []


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _label_box(label: str, cx: float, cy: float, side: float) -> tuple[float, float, float, float]:
    """The box of a label around (cx, cy), inside the picture; a letter takes 5.8 pixels."""
    half = 2.9 * len(label) + 3
    cx = min(max(cx, half + 2), side - half - 2)
    cy = min(max(cy, 10.0), side - 10.0)
    return cx - half, cy - 8, cx + half, cy + 8


ROUNDS = 250


def move_apart(
    points: Float[np.ndarray, "n 2"], half: Float[np.ndarray, "n 2"], low: float, high: float
) -> Float[np.ndarray, "n 2"]:
    """Points moved until the boxes around them (of half sides `half`) do not overlap, as far as the
    square from `low` to `high` has room; without randomness. Too many points for small moves go to
    places of a grid, as near as possible.

    >>> moved = move_apart(np.array([[5.0, 5.0], [5.5, 5.0]]), np.full((2, 2), 1.0), 0.0, 10.0)
    >>> moved.round(2).tolist()
    [[4.25, 5.0], [6.25, 5.0]]
    """
    points = np.array(points, float)
    spiral = np.arange(len(points))[:, None] * np.array([[2.4, 2.4 + np.pi / 2]])
    first_places = np.unique(points.round(9), axis=0, return_index=True)[1]
    repeated = np.setdiff1d(np.arange(len(points)), first_places)
    points[repeated] += 1e-3 * np.cos(spiral[repeated])  # points at the place of an earlier one
    reach = half[:, None] + half[None]
    for _ in range(ROUNDS):
        differences = points[:, None] - points[None]
        overlap = reach - np.abs(differences)
        collides = (overlap > 1e-9).all(axis=-1)
        np.fill_diagonal(collides, False)
        if not collides.any():
            return points
        along = overlap.argmin(axis=-1)[..., None] == np.arange(2)  # the shorter way out
        push = np.where(along & collides[..., None], np.sign(differences) * overlap, 0.0)
        step = 0.5 * push.sum(axis=1) / np.maximum(1.0, 0.5 * collides.sum(axis=1))[:, None]
        points = np.clip(points + step, low + half, high - half)
    return _move_to_grid(points, half.max(axis=0), low, high)


def _move_to_grid(
    points: Float[np.ndarray, "n 2"], half: Float[np.ndarray, " 2"], low: float, high: float
) -> Float[np.ndarray, "n 2"]:
    """Each point at its own place of a grid, with the smallest sum of squared moves; unmoved if
    there are too few places."""
    from scipy.optimize import linear_sum_assignment  # slow to import, and seldom needed

    numbers = ((high - low) // (2 * half)).astype(int)
    if numbers.min() < 1 or numbers.prod() < len(points):
        return points
    sides = [
        np.linspace(low + reach, high - reach, number)
        for reach, number in zip(half, numbers, strict=True)
    ]
    places = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    moves = ((points[:, None] - places[None]) ** 2).sum(axis=-1)
    return places[linear_sum_assignment(moves)[1]]
