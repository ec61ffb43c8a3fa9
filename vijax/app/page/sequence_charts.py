"""Sequences on the page: the states of many, a strip each; and one in full, its states below it."""

from __future__ import annotations

import itertools

import numpy as np

from vijax.app.page import blocks
from vijax.app.page.svg import (
    LEFT,
    NUM_HUES,
    RIGHT,
    WIDTH,
    Axis,
    axis,
    escape,
    known,
    legend,
    plain_chart,
    shortened,
    stretches,
    tick,
)


def strips(block: blocks.Strips) -> str:
    """A row for each sequence, a colour for each state."""
    longest = max((len(row) for row in block.states), default=1)
    left, row = 8 + 6.2 * min(18, max(len(str(label)) for label in block.labels)), 18
    width = (WIDTH - left - RIGHT) / max(longest, 1)
    drawn = []
    for i, (label, states) in enumerate(zip(block.labels, block.states, strict=True)):
        drawn.append(
            f'<text class="tick" x="{left - 6:.0f}" y="{row * i + 13}" text-anchor="end">'
            f"{escape(shortened(label, 18))}</text>"
        )
        for start, length, state in stretches(states):
            if state >= 0:
                drawn.append(
                    f'<rect class="hue-{state % NUM_HUES}" x="{left + width * start:.1f}" y="{row * i + 3}" '
                    f'width="{width * length:.2f}" height="{row - 5}"><title>state {state}, steps {start} to '
                    f"{start + length - 1}</title></rect>"
                )
    whole = row * len(block.labels) + 6
    states = blocks.legend_of(state for states in block.states for state in states if state >= 0)
    named, height = legend(states, left, whole)
    return plain_chart(block.title, whole + height, [*drawn, named])


PANEL, STRIP, GAP = 84, 30, 8
"""Heights of a column's curve and of the strip of probabilities, and the gap between them."""


def course(block: blocks.Course) -> str:
    """The columns of a sequence, one below the other, over the path of its states; then the probability of each state
    at each step, as heights of its colour that add up to one."""
    steps = len(block.states)
    x = axis([0.0, max(steps, 1)], LEFT, WIDTH - RIGHT, margin=0.0)
    drawn = [_panel(block, d, x, (PANEL + GAP) * d) for d in range(len(block.columns))]
    top = (PANEL + GAP) * len(block.columns)
    drawn.append(f'<text class="tick" x="{LEFT - 8}" y="{top + 19}" text-anchor="end">state</text>')
    drawn.append(_probabilities(block, x, top))
    drawn += [tick(x(mark), top + STRIP + 16, "middle", mark) for mark in x.ticks]
    drawn.append(f'<text class="axis" x="{WIDTH / 2:.0f}" y="{top + STRIP + 32}" text-anchor="middle">step</text>')
    named, height = legend(blocks.legend_of(range(len(block.probabilities))), LEFT, top + STRIP + 42)
    return plain_chart(block.title, top + STRIP + 42 + height, [*drawn, named])


def _panel(block: blocks.Course, d: int, x: Axis, top: float) -> str:
    """One column over the colours of the path."""
    y = axis([v for v in block.values[d] if known(v)], top + PANEL, top, margin=0.08)
    behind = "".join(
        f'<rect class="hue-{state % NUM_HUES} behind" x="{x(start):.1f}" y="{top}" height="{PANEL}" '
        f'width="{x(start + length) - x(start):.2f}"/>'
        for start, length, state in stretches(block.states)
        if state >= 0
    )
    ends = "".join(tick(LEFT - 8, y(mark) + 4, "end", mark) for mark in (y.ticks[0], y.ticks[-1]))
    places = [f"{x(t + 0.5):.1f},{y(v):.1f}" for t, v in enumerate(block.values[d]) if known(v)]
    name = f'<text class="tick" x="{LEFT + 4}" y="{top + 12}">{escape(shortened(block.columns[d]))}</text>'
    return f'{behind}{ends}<path class="course" d="M{"L".join(places)}"/>{name}'


def _probabilities(block: blocks.Course, x: Axis, top: float) -> str:
    """A band for each state, whose height at a step is the probability of the state."""
    probabilities = np.array([[v if known(v) else 0.0 for v in row] for row in block.probabilities], float)
    below = np.clip(np.vstack([np.zeros(len(block.states)), np.cumsum(probabilities, axis=0)]), 0.0, 1.0)
    return "".join(
        f'<path class="hue-{k % NUM_HUES} part" d="M{"L".join([*_steps(x, top, high), *_steps(x, top, low)[::-1]])}Z">'
        f"<title>state {k}</title></path>"
        for k, (low, high) in enumerate(itertools.pairwise(below))
        if len(block.states)
    )


def _steps(x: Axis, top: float, level: np.ndarray) -> list[str]:
    """The corners of a line that is level within each step."""
    changes = np.flatnonzero(np.abs(np.diff(level)) > 5e-3) + 1  # finer detail is not visible
    starts, ends = [0, *changes.tolist()], [*changes.tolist(), len(level)]
    heights = [f"{top + STRIP * (1.0 - level[start]):.1f}" for start in starts]
    return [f"{x(t):.1f},{h}" for start, end, h in zip(starts, ends, heights, strict=True) for t in (start, end)]
