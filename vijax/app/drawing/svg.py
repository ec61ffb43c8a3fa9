"""Charts as inline SVG, without a library or script; the page's style sheet colours them."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vijax.app.drawing import blocks
from vijax.evaluate.metrics import widen_axis
from vijax.numerals import format_number

WIDTH = 460
HEIGHT = 260
LEFT = 66
RIGHT = 14
TOP = 14
BOTTOM = 40
ROOM = LEFT - 12
"""Pixels for a number to the left of a chart."""
KEPT = 6
"""Least number of digits of a mark without a step."""
SHOWN = 3
"""Least number of digits of a mark whose step tells how many it needs."""
NUM_HUES = blocks.MOST_COLOURS
"""Number of colours of classes; further classes reuse the first colours; see report.css."""
LINE = 16
"""Line height of a legend."""
LETTER = 6.8
"""Width of a letter in a wide font."""


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
        """The distance between two marks."""
        if len(self.ticks) > 1:
            return self.ticks[1] - self.ticks[0]
        return self.high - self.low

    def inside(self, value: float) -> float:
        """The pixel of the nearest value on the axis."""
        return self(min(max(value, self.low), self.high))


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers within [low, high]; at least two around a single point.

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
    drawing: str,
    x: Axis,
    y: Axis,
    x_label: str,
    y_label: str,
    classes: Mapping[int, str] | None = None,
) -> str:
    """A drawing over a grid, above the name of its horizontal axis and the colours of classes."""
    legend_text, height = legend(classes or {}, LEFT, HEIGHT + 2)
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT + height}" role="img" '
        f'aria-label="{escape(y_label)} by '
        f'{escape(x_label)}">{grid(x, y)}{drawing}'
        f'<text class="axis" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 6}" '
        'text-anchor="middle">'
        f"{escape(x_label)}</text>{legend_text}</svg>"
    )


def legend(classes: Mapping[int, str], left: float, top: float) -> tuple[str, int]:
    """The colours of the classes, in lines that fit the chart; and the height of these lines.

    >>> legend({}, 0.0, 0.0)
    ('', 0)
    """
    parts = []
    x = left
    line = 0
    for k, name in classes.items():
        text = shorten(name, 24)
        wide = 20 + LETTER * len(text) + 8
        if x > left and x + wide > WIDTH - RIGHT:
            x, line = left, line + 1
        y = top + LINE * line
        parts.append(
            f'<rect class="hue-{k % NUM_HUES}" x="{x:.1f}" y="{y:.1f}" width="10" height="10"/>'
            f'<text class="tick" x="{x + 14:.1f}" y="{y + 9:.1f}">{escape(text)}</text>'
        )
        x += wide
    return "".join(parts), LINE * (line + 1) if classes else 0


def axis(
    values: Sequence[float | None], start: float, end: float, margin: float, *least: float
) -> Axis:
    """An axis for finite values, with a margin as a share of their range; the range is at least
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
    """A number at a mark. A number too long for the space to the left of a chart is drawn narrower,
    so that its minus is not cut off."""
    text = wide_minus(tick_text(value, step))
    is_wide = anchor == "end" and LETTER * len(text) > ROOM
    narrow = f' textLength="{ROOM}" lengthAdjust="spacingAndGlyphs"' if is_wide else ""
    return (
        f'<text class="tick" x="{x:.1f}" y="{y:.1f}"{narrow} text-anchor="{anchor}">{text}</text>'
    )


def tick_text(value: float, step: float = 0.0) -> str:
    """A number beside an axis whose marks are a step apart: short, but different from the next
    mark. Thousands have commas from 10,000 on, so years have none.

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
    """The text of a number with a minus as wide as a digit."""
    return text.replace("-", "\u2212")


def escape(text: object) -> str:
    """Text for HTML, between tags and in quoted attributes."""
    return html.escape(str(text), quote=True)


def plain_chart(title: str, height: float, parts: Sequence[str], width: int = WIDTH) -> str:
    """A chart without a frame, as high as needed."""
    name = escape(title)
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" role="img" '
        f'aria-label="{name}">{"".join(parts)}</svg>'
    )


def shorten(label: object, most: int = 24) -> str:
    """A label of at most `most` letters."""
    text = str(label)
    return text if len(text) <= most else text[: most - 1] + "…"


def number_text(value: Any, spread: float = 0.0) -> str:
    """A value for reading (`blocks.show_number`), with a minus as wide as a digit."""
    if isinstance(value, str):
        return value
    return wide_minus(blocks.show_number(value, spread))


def are_numbers(*values: Any) -> bool:
    """True if all values are numbers: JSON has None for numbers that are not finite."""
    return all(value is not None and math.isfinite(value) for value in values)


def stretches(states: Sequence[int] | np.ndarray) -> list[tuple[int, int, int]]:
    """Runs of one state: the start of each, its length, and the state.

    >>> stretches([0, 0, 2])
    [(0, 2, 0), (2, 1, 2)]
    """
    runs: list[tuple[int, int, int]] = []
    for t, state in enumerate(states):
        if runs and runs[-1][2] == state:
            start, length, _ = runs[-1]
            runs[-1] = (start, length + 1, int(state))
        else:
            runs.append((t, 1, int(state)))
    return runs
