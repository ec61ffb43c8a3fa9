"""Blocks of a page as HTML: tables, and charts as inline SVG that the page's style sheet colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vijax.app import blocks
from vijax.app.svg import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, axis, chart, escape

NUM_HUES = 10
"""Classes beyond so many take the first colours again; see report.css."""


def card(block: blocks.Block) -> str:
    """A block as a card of the page."""
    return framed(block.title, block.note, DRAWN[type(block)](block))


def framed(title: str, note: str, drawn: str) -> str:
    """A card: title and note are text, what was drawn is markup."""
    said = f'<p class="note">{escape(note)}</p>' if note else ""
    return f'<section class="card"><h3>{escape(title)}</h3>{said}{drawn}</section>'


def table(block: blocks.Table) -> str:
    """Words to the left, numbers to the right."""
    numeric = [all(not isinstance(row[i], str) for row in block.rows) for i in range(len(block.header))]
    kinds = [' class="number"' if right else "" for right in numeric]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(block.header, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{k}>{escape(_number(v))}</td>" for v, k in zip(row, kinds, strict=True)) + "</tr>"
        for row in block.rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _number(value: Any) -> str:
    return blocks.number(value).replace("-", "\u2212") if not isinstance(value, str) else value


def lines(block: blocks.Lines) -> str:
    """A curve in its band, over points."""
    x = axis([*block.x, *block.points_x], LEFT, WIDTH - RIGHT, margin=0.0)
    y = axis(_seen(*(map(_finite, (block.y, block.low, block.high, block.points_y)))), HEIGHT - BOTTOM, TOP, 0.05)
    band = ""
    if len(block.low):
        edge = [*_places(x, y, block.x, block.high), *reversed(_places(x, y, block.x, block.low))]
        band = f'<path class="band band-0" d="M{"L".join(edge)}Z"/>'
    points = "".join(
        f'<circle class="point hue-1" cx="{place.partition(",")[0]}" cy="{place.partition(",")[2]}" r="2.2"/>'
        for place in _places(x, y, block.points_x, block.points_y)
    )
    curve = f'<path class="curve curve-0" d="M{"L".join(_places(x, y, block.x, block.y))}"/>'
    return chart(points + band + curve, x, y, block.x_label, block.y_label)


def _seen(y: np.ndarray, low: np.ndarray, high: np.ndarray, points: np.ndarray) -> list[float]:
    """What the vertical axis shows: points and curve; of a band that is far wider, a part."""
    core = np.concatenate([y, points])
    reach = 2.0 * (np.ptp(core) if len(core) else 1.0)
    low, high = np.maximum(low, core.min(initial=0.0) - reach), np.minimum(high, core.max(initial=0.0) + reach)
    return [*core, *low, *high]


def _finite(values: Any) -> np.ndarray:
    array = np.array([np.nan if value is None else value for value in values], float)
    return array[np.isfinite(array)]


def _places(x: Any, y: Any, xs: Any, ys: Any) -> list[str]:
    """Pixels of points inside the vertical axis, which what lies beyond is moved to the edge of."""
    return [f"{x(a):.1f},{y(min(max(b, y.low), y.high)):.1f}" for a, b in zip(xs, ys, strict=True) if _known(a, b)]


def _known(*values: Any) -> bool:
    """Whether all of them are numbers: JSON has None for those that are not finite."""
    return all(value is not None and math.isfinite(value) for value in values)


def scatter(block: blocks.Scatter) -> str:
    """Points in the colours of their classes, and outlines."""
    x = axis([*block.x, *(v for _, xs, _ in block.outlines for v in xs)], LEFT, WIDTH - RIGHT, margin=0.04)
    y = axis([*block.y, *(v for _, _, ys in block.outlines for v in ys)], HEIGHT - BOTTOM, TOP, margin=0.04)
    points = "".join(
        f'<circle class="point hue-{int(k) % NUM_HUES}" cx="{x(a):.1f}" cy="{y(b):.1f}" r="2"/>'
        for a, b, k in zip(block.x, block.y, block.classes, strict=True)
        if _known(a, b)
    )
    outlines = "".join(
        f'<path class="outline hue-{int(k) % NUM_HUES}" d="M{"L".join(_places(x, y, xs, ys))}"/>'
        for k, xs, ys in block.outlines
    )
    name = f'<text class="axis" x="4" y="10">{escape(block.y_label)}</text>'
    return chart(points + outlines + name, x, y, block.x_label, block.y_label)


def intervals(block: blocks.Intervals) -> str:
    """A line a quantity, two standard deviations to either side of its mean."""
    left, row = 8 + 6.2 * min(24, max(len(str(label)) for label in block.labels)), 19
    height = row * len(block.labels) + 26
    known = [(m, d) for m, d in zip(block.mean, block.deviation, strict=True) if _known(m, d)]
    reach = [m + side * d for m, d in known for side in (-2, 2)]
    x = axis([*reach, 0.0], left, WIDTH - RIGHT, margin=0.03)
    drawn = [
        f'<line class="grid" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="0" y2="{height - 22}"/>'
        f'<text class="tick" x="{x(t):.1f}" y="{height - 6}" text-anchor="middle">{_number(float(t))}</text>'
        for t in x.ticks
    ]
    drawn.append(f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{height - 22}"/>')
    for i, (label, mean, deviation) in enumerate(zip(block.labels, block.mean, block.deviation, strict=True)):
        y = row * i + 11
        drawn.append(
            f'<text class="tick" x="{left - 8:.0f}" y="{y + 4}" text-anchor="end">{escape(_short(label))}</text>'
        )
        if not _known(mean, deviation):
            continue
        low, high = x(mean - 2 * deviation), x(mean + 2 * deviation)
        drawn.append(
            f'<line class="curve curve-0" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>'
            f'<circle class="mark mark-0" cx="{x(mean):.1f}" cy="{y}" r="3.5">'
            f"<title>{escape(str(label))}: {_number(float(mean))} ± {_number(float(deviation))}</title></circle>"
        )
    return _svg(block, height, drawn)


def _svg(block: Any, height: float, drawn: Sequence[str]) -> str:
    """A chart without a frame, as high as it must be."""
    name = escape(block.title)
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{name}">{"".join(drawn)}</svg>'


def _short(label: object, most: int = 24) -> str:
    text = str(label)
    return text if len(text) <= most else text[: most - 1] + "…"


def heat(block: blocks.Heat) -> str:
    """A cell an entry: blue above zero, orange below, its number in it where there is room."""
    values = np.array([[np.nan if v is None else v for v in row] for row in block.values], float)
    left, top = 8 + 6.2 * min(18, max(len(str(label)) for label in block.rows)), 20
    width, height = (WIDTH - left - 4) / max(1, values.shape[1]), min(34.0, max(12.0, 300 / values.shape[0]))
    most = float(np.nanmax(np.abs(values), initial=1e-12))
    drawn = [
        f'<text class="tick" x="{left - 6:.0f}" y="{top + height * (i + 0.5) + 4:.1f}" text-anchor="end">'
        f"{escape(_short(label, 18))}</text>"
        for i, label in enumerate(block.rows)
    ]
    every = max(1, int(np.ceil(7.0 * max(len(str(label)) for label in block.columns) / width)))
    drawn += [
        f'<text class="tick" x="{left + width * (j + 0.5):.1f}" y="14" text-anchor="middle">{escape(str(label))}</text>'
        for j, label in enumerate(block.columns)
        if j % every == 0
    ]
    for (i, j), value in np.ndenumerate(values):
        place = f'x="{left + width * j:.1f}" y="{top + height * i:.1f}" width="{width:.1f}" height="{height:.1f}"'
        title = f"<title>{escape(str(block.rows[i]))}, {escape(str(block.columns[j]))}: {_number(float(value))}</title>"
        share = 0.0 if np.isnan(value) else abs(value) / most
        drawn.append(f'<rect class="{"down" if value < 0 else "up"}" {place} fill-opacity="{share:.3f}">{title}</rect>')
        if width >= 34 and height >= 14:
            ink = "on" if share > 0.55 else "tick"
            drawn.append(
                f'<text class="{ink}" x="{left + width * (j + 0.5):.1f}" y="{top + height * (i + 0.5) + 4:.1f}" '
                f'text-anchor="middle">{"" if np.isnan(value) else _number(float(f"{value:.2g}"))}</text>'
            )
    whole = top + height * values.shape[0] + 4
    return (
        f'<svg viewBox="0 0 {WIDTH} {whole:.0f}" role="img" aria-label="{escape(block.title)}">{"".join(drawn)}</svg>'
    )


def strips(block: blocks.Strips) -> str:
    """A row a sequence, a colour a state."""
    longest = max((len(row) for row in block.states), default=1)
    left, row = 8 + 6.2 * min(18, max(len(str(label)) for label in block.labels)), 18
    width = (WIDTH - left - RIGHT) / max(longest, 1)
    drawn = []
    for i, (label, states) in enumerate(zip(block.labels, block.states, strict=True)):
        drawn.append(
            f'<text class="tick" x="{left - 6:.0f}" y="{row * i + 13}" text-anchor="end">'
            f"{escape(_short(label, 18))}</text>"
        )
        for start, length, state in _stretches(states):
            if state >= 0:
                drawn.append(
                    f'<rect class="hue-{state % NUM_HUES}" x="{left + width * start:.1f}" y="{row * i + 3}" '
                    f'width="{width * length:.2f}" height="{row - 5}"><title>state {state}, steps {start} to '
                    f"{start + length - 1}</title></rect>"
                )
    whole = row * len(block.labels) + 4
    return _svg(block, whole, drawn)


LEVELS = 15
"""Shades of grey of an image, beside white."""


def images(block: blocks.Images) -> str:
    """Each image as one path a shade, of horizontal stretches: a tenth of the text of as many rectangles."""
    across = max(map(len, block.images), default=1) or 1
    left = 8 + 6.2 * min(18, max((len(str(label)) for label in block.labels), default=0))
    step = min(90.0, (WIDTH - left - RIGHT) / across)
    size = (step - 4) / max(block.width, block.height)
    row, (low, high) = size * block.height + 6, blocks.value_range(block)
    drawn = []
    for i, (label, some) in enumerate(zip(block.labels, block.images, strict=True)):
        place = f'x="{left - 6:.0f}" y="{row * i + row / 2 + 4:.1f}" text-anchor="end"'
        drawn.append(f'<text class="tick" {place}>{escape(_short(label, 18))}</text>')
        for j, image in enumerate(some):
            shades = [round(LEVELS * (v - low) / (high - low)) if _known(v) else 0 for v in image]
            drawn.append(_shaded(shades, block.width, left + step * j, row * i, size))
    return _svg(block, row * len(block.labels) + 4, drawn)


def _shaded(shades: Sequence[int], width: int, left: float, top: float, size: float) -> str:
    """One image: a frame, and a path for each shade."""
    paths: dict[int, list[str]] = {}
    for y in range(len(shades) // width):
        for x, length, shade in _stretches(shades[y * width : (y + 1) * width]):
            if shade:
                paths.setdefault(shade, []).append(f"M{x} {y}h{length}v1h-{length}z")
    drawn = "".join(
        f'<path class="shade" fill-opacity="{shade / LEVELS:.2f}" d="{"".join(d)}"/>' for shade, d in paths.items()
    )
    frame = f'<path class="frame" d="M0 0h{width}v{len(shades) // width}h-{width}z"/>'
    return f'<g transform="translate({left:.1f} {top:.1f}) scale({size:.3f})">{frame}{drawn}</g>'


def _stretches(states: Sequence[int]) -> list[tuple[int, int, int]]:
    """Where each stretch of one state starts, how long it is, and the state.

    >>> _stretches([0, 0, 2])
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


DRAWN: dict[type, Callable[[Any], str]] = {
    blocks.Table: table,
    blocks.Lines: lines,
    blocks.Scatter: scatter,
    blocks.Intervals: intervals,
    blocks.Heat: heat,
    blocks.Strips: strips,
    blocks.Images: images,
}
