"""Charts as inline SVG, drawn by hand: no library, no script; the page's style sheet colours them,
also in the dark."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vijax.app.drawing import blocks
from vijax.evaluate.metrics import widen_axis
from vijax.numerals import format_number

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 66, 14, 14, 40
ROOM = LEFT - 12
"""Pixels for a number to the left of a chart."""
KEPT, SHOWN = 6, 3
"""Digits of a mark at least: alone, and where its step says how many it needs."""
NUM_HUES = blocks.MOST_COLOURS
"""Number of colours of classes; further classes take the first colours again; see report.css."""
LINE, LETTER = 16, 6.8
"""The line height of a legend, and the width of a letter in a wide font."""


class Axis(NamedTuple):
    """A linear map from data to pixels, and the values to mark."""

    low: float
    high: float
    start: float
    end: float
    ticks: list[float]

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    @property
    def step(self) -> float:
        """The distance of two marks."""
        return self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else self.high - self.low

    def inside(self, value: float) -> float:
        """The same of the nearest value on the axis."""
        return self(min(max(value, self.low), self.high))


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers within [low, high], and no fewer than two around it if it is a
    single point.

    >>> nice_ticks(-8.13, -7.72)
    [-8.1, -8.0, -7.9, -7.8]
    """
    if not high > low:
        low, high = low - 0.5 * max(abs(low), 1e-9), low + 0.5 * max(abs(low), 1e-9)
    raw = (high - low) / count
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = magnitude * min((m for m in (1, 2, 5, 10) if m * magnitude >= raw), default=10)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def chart(
    drawn: str,
    x: Axis,
    y: Axis,
    x_label: str,
    y_label: str,
    classes: Mapping[int, str] | None = None,
) -> str:
    """A drawing over a grid and above the name of its horizontal axis, with the colours of the
    classes below."""
    named, height = legend(classes or {}, LEFT, HEIGHT + 2)
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT + height}" role="img" '
        f'aria-label="{escape(y_label)} by '
        f'{escape(x_label)}">{grid(x, y)}{drawn}'
        f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 6}" '
        'text-anchor="middle">'
        f"{escape(x_label)}</text>{named}</svg>"
    )


def legend(classes: Mapping[int, str], left: float, top: float) -> tuple[str, int]:
    """The colours of the classes, in lines as long as there is room; and the height of these lines.

    >>> legend({}, 0.0, 0.0)
    ('', 0)
    """
    drawn, x, line = [], left, 0
    for k, name in classes.items():
        text = shorten(name, 24)
        wide = 20 + LETTER * len(text) + 8
        if x > left and x + wide > WIDTH - RIGHT:
            x, line = left, line + 1
        y = top + LINE * line
        drawn.append(
            f'<rect class="hue-{k % NUM_HUES}" x="{x:.1f}" y="{y:.1f}" width="10" height="10"/>'
            f'<text class="tick" x="{x + 14:.1f}" y="{y + 9:.1f}">{escape(text)}</text>'
        )
        x += wide
    return "".join(drawn), LINE * (line + 1) if classes else 0


def axis(
    values: Sequence[float | None], start: float, end: float, margin: float, *least: float
) -> Axis:
    """An axis that shows finite values, with a margin as a share of their range, and more than
    their rounding (`vijax.evaluate.metrics.widen_axis`)."""
    finite = [v for v in values if v is not None and math.isfinite(v)] or [0.0, 1.0]
    low, high = widen_axis(min(finite), max(finite), *least)
    low, high = low - margin * (high - low), high + margin * (high - low)
    return Axis(low, high, start, end, nice_ticks(low, high))


def grid(x: Axis, y: Axis) -> str:
    """Lines at the marks of y, and the marks of both."""
    lines = []
    for mark in y.ticks:
        lines.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(mark):.1f}" '
            f'y2="{y(mark):.1f}"/>'
        )
        lines.append(tick(LEFT - 8, y(mark) + 4, "end", mark, y.step))
    lines += [tick(x(mark), HEIGHT - BOTTOM + 17, "middle", mark, x.step) for mark in x.ticks]
    return "".join(lines)


def tick(x: float, y: float, anchor: str, value: float, step: float = 0.0) -> str:
    """A number at a mark; one of more letters than there is room for to the left of a chart is
    drawn narrower, for its minus would be cut off."""
    text = wide_minus(tick_text(value, step))
    is_wide = anchor == "end" and LETTER * len(text) > ROOM
    narrow = f' textLength="{ROOM}" lengthAdjust="spacingAndGlyphs"' if is_wide else ""
    return (
        f'<text class="tick" x="{x:.1f}" y="{y:.1f}"{narrow} text-anchor="{anchor}">{text}</text>'
    )


def tick_text(value: float, step: float = 0.0) -> str:
    """A number beside an axis whose marks are a step apart: short, and not the same as at the next
    mark. Thousands are set apart from 10,000 on: years are not.

    >>> [tick_text(value) for value in (-9_531_300.0, -953_130.0, 0.05, 2.5e9, 2010.0)]
    ['-9.5313M', '-953,130', '0.05', '2.5G', '2010']
    >>> tick_text(2_020_000.0, 1.0), tick_text(2_020_000.0, 10_000.0), tick_text(1 / 3, 0.1)
    ('2,020,000', '2.02M', '0.333')
    """
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if unit <= abs(value) < 1e15 and (step == 0 or step >= unit * 1e-4):
            return f"{format_number(value / unit, step / unit, least=KEPT)}{name}"
    return format_number(value, step, ",", least=SHOWN if step else KEPT)


def wide_minus(text: str) -> str:
    """The text of a number with a minus that is as wide as a digit."""
    return text.replace("-", "\u2212")


def escape(text: object) -> str:
    """Text for HTML, between tags and in quoted attributes."""
    return html.escape(str(text), quote=True)


def plain_chart(title: str, height: float, drawn: Sequence[str]) -> str:
    """A chart without a frame, as high as it needs."""
    name = escape(title)
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{name}">{"".join(drawn)}</svg>'
    )


def shorten(label: object, most: int = 24) -> str:
    """A label of at most this many letters."""
    text = str(label)
    return text if len(text) <= most else text[: most - 1] + "…"


def number_text(value: Any, spread: float = 0.0) -> str:
    """A value for reading (`vijax.app.drawing.blocks.show_number`), with a minus that is as wide as a
    digit."""
    return value if isinstance(value, str) else wide_minus(blocks.show_number(value, spread))


def are_numbers(*values: Any) -> bool:
    """True where all values are numbers: JSON has None for those that are not finite."""
    return all(value is not None and math.isfinite(value) for value in values)


def stretches(states: Sequence[int] | np.ndarray) -> list[tuple[int, int, int]]:
    """Stretches of one state: the start of each, its length, and the state.

    >>> stretches([0, 0, 2])
    [(0, 2, 0), (2, 1, 2)]
    """
    found: list[tuple[int, int, int]] = []
    for t, state in enumerate(states):
        if found and found[-1][2] == state:
            start, length, _ = found[-1]
            found[-1] = (start, length + 1, int(state))
        else:
            found.append((t, 1, int(state)))
    return found
