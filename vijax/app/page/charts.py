"""Blocks of a page as HTML: tables, and charts as inline SVG that the page's style sheet colours."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import Any

import numpy as np

from vijax.app.page import blocks, exports
from vijax.app.page.cell_charts import heat, images
from vijax.app.page.sequence_charts import course, strips
from vijax.app.page.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    NUM_HUES,
    RIGHT,
    TOP,
    WIDTH,
    axis,
    chart,
    escape,
    known,
    number_text,
    plain_chart,
    shortened,
)
from vijax.app.page.views import thinned

LARGEST_FILE = 200_000
"""Letters of CSV that a card holds itself; longer ones are in the folder of the run alone."""


def card(block: blocks.Block) -> str:
    """A block as a card of the page, with its numbers as CSV."""
    files = list(exports.tables([block]))
    saved = "".join(_saved(name, text, name.removeprefix(files[0][0])) for name, text in files)
    return framed(block.title, block.note, DRAWN[type(block)](block), saved)


def framed(title: str, note: str, drawn: str, beside: str = "") -> str:
    """A card: title and note are text, the drawing and the links beside the title are markup."""
    said = f'<p class="note">{escape(note)}</p>' if note else ""
    head = f"<h3>{escape(title)}</h3>{f'<span>{beside}</span>' if beside else ''}"
    return f'<section class="card"><div class="heading">{head}</div>{said}{drawn}</section>'


def _saved(name: str, text: str, part: str) -> str:
    """A link that saves a CSV file which the page itself holds."""
    if len(text) > LARGEST_FILE:
        return ""
    data, what = urllib.parse.quote(text, safe=",;:/()+", errors="replace"), part.replace("_", " ")
    return (
        f'<a class="save" download="{escape(name)}.csv" href="data:text/csv;charset=utf-8,{data}" '
        f'title="Save {escape(name)}.csv">CSV{f" of{what}" if what else ""}</a>'
    )


def table(block: blocks.Table) -> str:
    """A table with words to the left, numbers to the right."""
    numeric = [all(not isinstance(row[i], str) for row in block.rows) for i in range(len(block.header))]
    kinds = [' class="number"' if right else "" for right in numeric]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(block.header, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{k}>{escape(number_text(v))}</td>" for v, k in zip(row, kinds, strict=True)) + "</tr>"
        for row in block.rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


MOST_ON_CURVE = 600
"""Points of a curve that a screen shows; of more an even part is drawn."""
MOST_TITLED = 100
"""Points that say their numbers under the mouse."""


def lines(block: blocks.Lines, *least: float) -> str:
    """A curve in its band, over points; `least` as of `vijax.app.page.svg.axis`, of what is upright."""
    rows = thinned(len(block.x), MOST_ON_CURVE) if len(block.x) else ()
    part = lambda values: [values[i] for i in rows]
    x = axis([*block.x, *block.points_x], LEFT, WIDTH - RIGHT, margin=0.0)
    y = axis(
        _seen(*(map(_finite, (block.y, block.low, block.high, block.points_y)))), HEIGHT - BOTTOM, TOP, 0.05, *least
    )
    band = ""
    if len(block.low):
        upper, lower = (_places(x, y, part(block.x), part(edge)) for edge in (block.high, block.low))
        band = f'<path class="band band-0" d="M{"L".join([*upper, *reversed(lower)])}Z"/>' if len(upper) > 1 else ""
    titled = len(block.points_x) <= MOST_TITLED
    points = "".join(
        f'<circle class="point hue-1" cx="{x(a):.1f}" cy="{y.inside(b):.1f}" r="2.2">'
        f"{f'<title>{a:,.4g}: {b:.4f}</title>' if titled else ''}</circle>"
        for a, b in zip(block.points_x, block.points_y, strict=True)
        if known(a, b)
    )
    curve = f'<path class="curve curve-0" d="M{"L".join(_places(x, y, part(block.x), part(block.y)))}"/>'
    return chart(points + band + curve, x, y, block.x_label, block.y_label)


def _seen(y: np.ndarray, low: np.ndarray, high: np.ndarray, points: np.ndarray) -> list[float]:
    """The range of the vertical axis: points and curve, and only a part of a band that is far wider."""
    core = np.concatenate([y, points])
    reach = 2.0 * (np.ptp(core) if len(core) else 1.0)
    low, high = np.maximum(low, core.min(initial=0.0) - reach), np.minimum(high, core.max(initial=0.0) + reach)
    return [*core, *low, *high]


def _finite(values: Any) -> np.ndarray:
    array = np.array([np.nan if value is None else value for value in values], float)
    return array[np.isfinite(array)]


def _places(x: Any, y: Any, xs: Any, ys: Any) -> list[str]:
    """Pixels of points inside the vertical axis; points beyond it are moved to its edge."""
    return [f"{x(a):.1f},{y.inside(b):.1f}" for a, b in zip(xs, ys, strict=True) if known(a, b)]


def scatter(block: blocks.Scatter) -> str:
    """Points in the colours of their classes, and outlines."""
    x = axis([*block.x, *(v for _, xs, _ in block.outlines for v in xs)], LEFT, WIDTH - RIGHT, margin=0.04)
    y = axis([*block.y, *(v for _, _, ys in block.outlines for v in ys)], HEIGHT - BOTTOM, TOP, margin=0.04)
    points = "".join(
        f'<circle class="point hue-{int(k) % NUM_HUES}" cx="{x(a):.1f}" cy="{y(b):.1f}" r="2"/>'
        for a, b, k in zip(block.x, block.y, block.classes, strict=True)
        if known(a, b)
    )
    outlines = "".join(
        f'<path class="outline hue-{int(k) % NUM_HUES}" d="M{"L".join(_places(x, y, xs, ys))}"/>'
        for k, xs, ys in block.outlines
    )
    name = f'<text class="axis" x="4" y="10">{escape(block.y_label)}</text>'
    named = blocks.classes_of(block)
    return chart(points + outlines + name, x, y, block.x_label, block.y_label, named)


def intervals(block: blocks.Intervals) -> str:
    """A line for each quantity, two standard deviations to either side of its mean."""
    left, row = 8 + 6.2 * min(24, max(len(str(label)) for label in block.labels)), 19
    height = row * len(block.labels) + 26
    there = [(m, d) for m, d in zip(block.mean, block.deviation, strict=True) if known(m, d)]
    reach = [m + side * d for m, d in there for side in (-2, 2)]
    x = axis([*reach, 0.0], left, WIDTH - RIGHT, margin=0.03)
    drawn = [
        f'<line class="grid" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="0" y2="{height - 22}"/>'
        f'<text class="tick" x="{x(t):.1f}" y="{height - 6}" text-anchor="middle">{number_text(float(t))}</text>'
        for t in x.ticks
    ]
    drawn.append(f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{height - 22}"/>')
    for i, (label, mean, deviation) in enumerate(zip(block.labels, block.mean, block.deviation, strict=True)):
        y = row * i + 11
        drawn.append(
            f'<text class="tick" x="{left - 8:.0f}" y="{y + 4}" text-anchor="end">{escape(shortened(label))}</text>'
        )
        if not known(mean, deviation):
            continue
        low, high = x(mean - 2 * deviation), x(mean + 2 * deviation)
        said = f"{label}: {number_text(float(mean))} ± {number_text(float(deviation))}"
        drawn.append(
            f'<line class="curve curve-0" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>'
            f'<circle class="mark mark-0" cx="{x(mean):.1f}" cy="{y}" r="3.5">'
            f"<title>{escape(said)}</title></circle>"
        )
    return plain_chart(block.title, height, drawn)


DRAWN: dict[type, Callable[[Any], str]] = {
    blocks.Table: table,
    blocks.Lines: lines,
    blocks.Scatter: scatter,
    blocks.Intervals: intervals,
    blocks.Heat: heat,
    blocks.Strips: strips,
    blocks.Course: course,
    blocks.Images: images,
}
