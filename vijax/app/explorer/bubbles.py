"""The map of topics, as inline SVG: a disc for each topic, with its number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vijax.app.explorer.places import parted
from vijax.app.page.svg import escape


class Bubble(NamedTuple):
    """A disc on a map: place in [-1, 1]^2, area (any scale), number, name, target of a click, text for hovering."""

    x: float
    y: float
    size: float
    number: str
    label: str
    href: str
    title: str


def bubble_map(bubbles: Sequence[Bubble], num_names: int = 18) -> str:
    """Discs near their places, largest first, so that small ones stay on top; a number in each, and names where they
    collide with nothing."""
    side = 520.0
    covered = 0.13 * side**2 / max(sum(b.size for b in bubbles), 1e-12)
    radius = [min(max(8.0, math.sqrt(b.size * covered / math.pi)), 40.0) for b in bubbles]
    half = np.array([[3.6 * len(b.number) + 2.5, 7.0] for b in bubbles]).reshape(-1, 2)
    at = np.array([[b.x, -b.y] for b in bubbles]).reshape(-1, 2)
    wanted = side / 2 + 0.42 * side * np.clip(np.nan_to_num(at), -1.0, 1.0)
    places = parted(wanted, half, 2.0, side - 2.0)
    discs_of = np.maximum(half, 0.8 * np.array(radius)[:, None])  # names keep off these
    taken = [tuple(box) for box in np.concatenate([places - discs_of, places + discs_of], axis=1).tolist()]
    discs: list[str] = []
    names: list[str] = []
    for i in sorted(range(len(bubbles)), key=lambda i: -bubbles[i].size):
        (x, y), bubble = places[i].tolist(), bubbles[i]
        discs.append(_disc(bubble, x, y, radius[i]))
        names += _name(bubble.label, x, y, radius[i], side, taken) if len(names) < num_names else []
    return (
        f'<svg class="map" viewBox="0 0 {side:.0f} {side:.0f}" role="group" aria-label="map of topics">'
        f"{''.join(names)}{''.join(discs)}</svg>"
    )


def _disc(bubble: Bubble, x: float, y: float, radius: float) -> str:
    return (
        f'<a href="{escape(bubble.href)}" aria-label="{escape(bubble.title)}"><circle class="bubble" cx="{x:.1f}" '
        f'cy="{y:.1f}" r="{radius:.1f}"><title>{escape(bubble.title)}</title></circle>'
        f'<text class="name" x="{x:.1f}" y="{y + 4:.1f}">{escape(bubble.number)}</text></a>'
    )


def _name(label: str, x: float, y: float, radius: float, side: float, taken: list[tuple[float, ...]]) -> list[str]:
    """The label below the disc, above it, or its first word there: it takes the first place that is free."""
    for text in dict.fromkeys([label, label.partition(" ")[0]]):
        for place in (y + radius + 8, y - radius - 8):
            box = _label_box(text, x, place, side)
            if not any(_overlap(box, other) for other in taken):
                taken.append(box)
                middle = 0.5 * (box[0] + box[2])
                return [f'<text class="words" x="{middle:.1f}" y="{box[1] + 12:.1f}">{escape(text)}</text>']
    return []


def _label_box(label: str, cx: float, cy: float, side: float) -> tuple[float, float, float, float]:
    """The box of a label around (cx, cy), kept inside the picture; 11-pixel type takes 5.8 pixels a letter."""
    half = 2.9 * len(label) + 3
    cx = min(max(cx, half + 2), side - half - 2)
    cy = min(max(cy, 10.0), side - 10.0)
    return cx - half, cy - 8, cx + half, cy + 8


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
