"""Blocks of a page as HTML: tables, and charts as inline SVG for the page's style sheet."""

from __future__ import annotations

import itertools
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vijax.app.drawing import blocks, exports
from vijax.app.drawing.cuts import part_to_draw
from vijax.app.drawing.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    LETTER,
    NUM_HUES,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    are_numbers,
    axis,
    chart,
    escape,
    legend,
    number_text,
    plain_chart,
    shorten,
    stretches,
    tick,
    wide_minus,
)
from vijax.app.drawing.views import spread_rows

LARGEST_FILE = 200_000
"""Most letters of CSV that a card holds; longer files are only in the run's folder."""


def card(block: blocks.Block, *least: float) -> str:
    """A block as a card of the page, with its numbers as CSV; `least` as in `lines`."""
    files = list(exports.tables([block]))
    saved = "".join(_csv_link(name, text, name.removeprefix(files[0][0])) for name, text in files)
    block_drawn = part_to_draw(block)
    drawing = DRAWN[type(block_drawn)](block_drawn, *least)
    is_wide = isinstance(block_drawn, blocks.Curves) or (
        isinstance(block_drawn, blocks.Table) and _table_width(block_drawn) > MOST_LETTERS
    )
    return frame_card(block_drawn.title, block_drawn.note, drawing, saved, is_wide=is_wide)


MOST_LETTERS = 58
"""Letters of a row of a table that fit into one of two columns of cards."""


def _table_width(block: blocks.Table) -> int:
    """Letters of the widest row of a table, gaps included; sentences break their lines."""
    rows = [list(block.header), *blocks.show_rows(block.header, block.rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(block.header))]
    return sum(min(width, LONGEST_WORDS) + 2 for width in widths)


def frame_card(title: str, note: str, drawing: str, links: str = "", is_wide: bool = False) -> str:
    """A card: title and note are text, drawing and links are markup."""
    kind = "card" + is_wide * " wide"
    note_text = f'<p class="note">{escape(note)}</p>' if note else ""
    head = f"<h3>{escape(title)}</h3>{f'<span>{links}</span>' if links else ''}"
    return (
        f'<section class="{kind}"><div class="heading">{head}</div>{note_text}{drawing}</section>'
    )


def _csv_link(name: str, text: str, part: str) -> str:
    """A link that saves a CSV file from the page itself; "" for a long file."""
    if len(text) > LARGEST_FILE:
        return ""
    data = urllib.parse.quote(text, safe=",;:/()+", errors="replace")
    label = f"CSV of{part.replace('_', ' ')}" if part else "CSV"
    return (
        f'<a class="save" download="{escape(name)}.csv" href="data:text/csv;charset=utf-8,{data}" '
        f'title="Save {escape(name)}.csv">{label}</a>'
    )


def table(block: blocks.Table) -> str:
    """A table: words to the left, numbers to the right; columns of sentences break their lines."""
    columns = [[row[i] for row in block.rows] for i in range(len(block.header))]
    if len(block.rows) == 1 and list(block.header) == ["", ""]:
        return f"<p>{escape(block.rows[0][-1])}</p>"  # a verdict
    kinds = [_cell_class(column) for column in columns]
    if kinds.count("") + kinds.count(SENTENCE) > MOST_WORD_COLUMNS:
        kinds = [kind or SENTENCE for kind in kinds]
    names = zip(block.header, kinds, strict=True)
    head = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in names)
    body = ""
    for row in _cell_texts(block):
        cells = zip(row, kinds, strict=True)
        row_text = "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in cells)
        body += f"<tr>{row_text}</tr>"
    content = f"<tbody>{body}</tbody>"
    if any(block.header):
        content = f"<thead><tr>{head}</tr></thead>{content}"
    narrow = ' class="narrow"' * (kinds.count(SENTENCE) > MOST_WORD_COLUMNS)
    return f'<div class="scroll" tabindex="0"><table{narrow}>{content}</table></div>'


def _cell_texts(block: blocks.Table) -> list[list[str]]:
    """The cells of the rows, with a minus as wide as a digit in numbers."""
    texts = blocks.show_rows(block.header, block.rows)
    return [[*map(_cell_text, row, line)] for row, line in zip(block.rows, texts, strict=True)]


def _cell_text(cell: Any, text: str) -> str:
    return text if isinstance(cell, str) else wide_minus(text)


def _cell_class(column: list[Any]) -> str:
    texts = [x for x in column if isinstance(x, str)]
    if not texts:
        return ' class="number"'
    if max(map(len, texts)) > LONGEST_WORDS:
        return SENTENCE
    return ""


SENTENCE = ' class="sentence"'
MOST_WORD_COLUMNS = 4
"""Most columns of words of a table of which short ones keep to one line."""


LONGEST_WORDS = 60
"""Most characters of a cell on one line."""
MOST_ON_CURVE = 600
"""Most points of a curve on a screen; of more, evenly spread points are drawn."""
MOST_TITLED = 100
"""Most points that show their numbers under the mouse."""


def lines(block: blocks.Lines, *least: float) -> str:
    """A curve in its band, over points; `least` as in `svg.axis`, for the vertical axis. A curve of
    less than two places is a sentence."""
    if len({x for x in (*block.x, *block.points_x) if are_numbers(x)}) < 2:
        return _one_value(block)
    rows = spread_rows(len(block.x), MOST_ON_CURVE) if len(block.x) else ()
    select = lambda values: [values[i] for i in rows]
    x = axis([*block.x, *block.points_x], LEFT, WIDTH - RIGHT, margin=0.0)
    y = axis(blocks.values_in_view(block), HEIGHT - BOTTOM, TOP, 0.05, *least)
    band = ""
    if len(block.low):
        upper, lower = (
            _pixels(x, y, select(block.x), select(edge)) for edge in (block.high, block.low)
        )
        band = _band(upper, lower)
    has_titles = len(block.points_x) <= MOST_TITLED
    points = ""
    for a, b in zip(block.points_x, block.points_y, strict=True):
        if not are_numbers(a, b):
            continue
        title = ""
        if has_titles:
            title = f"<title>{number_text(a, x.step)}: {number_text(b, y.step / 10)}</title>"
        points += (
            f'<circle class="point hue-1" cx="{x(a):.1f}" cy="{y.inside(b):.1f}" r="2.2">'
            f"{title}</circle>"
        )
    path = "L".join(_pixels(x, y, select(block.x), select(block.y)))
    curve = f'<path class="curve curve-0" d="M{path}"/>'
    return chart(points + band + curve, x, y, block.x_label, block.y_label)


def _one_value(block: blocks.Lines) -> str:
    """A sentence in place of a curve of one value, or of none."""
    places = [
        *zip(block.x, block.y, strict=True),
        *zip(block.points_x, block.points_y, strict=True),
    ]
    values = [(x, y) for x, y in places if are_numbers(x, y)]
    if not values:
        return "<p>No value yet.</p>"
    x, y = values[0]
    value = number_text(float(y))
    if len(block.low) and are_numbers(block.low[0], block.high[0]):
        value += f" ± {number_text(0.5 * (float(block.high[0]) - float(block.low[0])))}"
    return f"<p>One value: {escape(value)}, at {number_text(float(x))} {escape(block.x_label)}.</p>"


def _band(upper: Sequence[str], lower: Sequence[str]) -> str:
    """The area between two curves; "" for a single point."""
    if len(upper) <= 1:
        return ""
    return f'<path class="band band-0" d="M{"L".join([*upper, *reversed(lower)])}Z"/>'


def _pixels(x: Any, y: Any, xs: Any, ys: Any) -> list[str]:
    """Pixels of points inside the vertical axis; points beyond it are moved to its edge."""
    return [
        f"{x(a):.1f},{y.inside(b):.1f}" for a, b in zip(xs, ys, strict=True) if are_numbers(a, b)
    ]


def scatter(block: blocks.Scatter) -> str:
    """Points in the colours of their classes, and outlines."""
    all_x = [*block.x, *(value for _, xs, _ in block.outlines for value in xs)]
    all_y = [*block.y, *(value for _, _, ys in block.outlines for value in ys)]
    x = axis(all_x, LEFT, WIDTH - RIGHT, margin=0.04)
    y = axis(all_y, HEIGHT - BOTTOM, TOP, margin=0.04)
    points = "".join(
        f'<circle class="point hue-{int(k) % NUM_HUES}" cx="{x(a):.1f}" cy="{y(b):.1f}" r="2"/>'
        for a, b, k in zip(block.x, block.y, block.classes, strict=True)
        if are_numbers(a, b)
    )
    outlines = "".join(
        f'<path class="outline hue-{int(k) % NUM_HUES}" d="M{"L".join(_pixels(x, y, xs, ys))}"/>'
        for k, xs, ys in block.outlines
    )
    name = f'<text class="axis" x="4" y="10">{escape(block.y_label)}</text>'
    classes = blocks.scatter_legend(block)
    return chart(points + outlines + name, x, y, block.x_label, block.y_label, classes)


def intervals(block: blocks.Intervals) -> str:
    """A line for each quantity, the 90 % interval about its mean."""
    left = 8 + LETTER * min(24, max(len(str(label)) for label in block.labels))
    row = 19
    height = row * len(block.labels) + 26
    pairs = [(m, d) for m, d in zip(block.mean, block.deviation, strict=True) if are_numbers(m, d)]
    ends = [m + side * blocks.NINETY * d for m, d in pairs for side in (-1, 1)]
    x = axis([*ends, 0.0], left, WIDTH - RIGHT, margin=0.03)
    parts = [
        f'<line class="grid" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="0" y2="{height - 22}"/>'
        f"{tick(x(t), height - 6, 'middle', t, x.step)}"
        for t in x.ticks
    ]
    parts.append(f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{height - 22}"/>')
    for i, (label, mean, deviation) in enumerate(
        zip(block.labels, block.mean, block.deviation, strict=True)
    ):
        y = row * i + 11
        parts.append(
            f'<text class="tick" x="{left - 8:.0f}" y="{y + 4}" '
            f'text-anchor="end">{escape(shorten(label))}</text>'
        )
        if not are_numbers(mean, deviation):
            continue
        reach = blocks.NINETY * deviation
        low, high = x(mean - reach), x(mean + reach)
        title = (
            f"{label}: {number_text(float(mean), float(deviation))} ± "
            f"{number_text(float(deviation))}"
        )
        parts.append(
            f'<line class="curve curve-0" x1="{low:.1f}" x2="{high:.1f}" y1="{y}" y2="{y}"/>'
            f'<circle class="mark mark-0" cx="{x(mean):.1f}" cy="{y}" r="3.5">'
            f"<title>{escape(title)}</title></circle>"
        )
    return plain_chart(block.title, height, parts)


def heat(block: blocks.Heat) -> str:
    """A cell for each entry: blue above zero, orange below; its number in it if there is room."""
    values = blocks.as_numbers(block.values)
    shades = blocks.heat_colours(block)
    left, top = 8 + LETTER * min(18, max(len(str(label)) for label in block.rows)), 20
    width = (WIDTH - left - 4) / max(1, values.shape[1])
    height = min(34.0, max(12.0, 300 / values.shape[0]))
    largest = float(np.nanmax(np.abs(shades), initial=1e-12))
    parts = [
        f'<text class="tick" x="{left - 6:.0f}" y="{top + height * (i + 0.5) + 4:.1f}" '
        'text-anchor="end">'
        f"{escape(shorten(label, 18))}</text>"
        for i, label in enumerate(block.rows)
    ]
    step = max(1, int(np.ceil(7.0 * max(len(str(label)) for label in block.columns) / width)))
    parts += [
        f'<text class="tick" x="{left + width * (j + 0.5):.1f}" y="14" '
        f'text-anchor="middle">{escape(str(label))}</text>'
        for j, label in enumerate(block.columns)
        if j % step == 0
    ]
    for (i, j), value in np.ndenumerate(values):
        place = (
            f'x="{left + width * j:.1f}" y="{top + height * i:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}"'
        )
        title = (
            f"<title>{escape(block.rows[i])}, {escape(block.columns[j])}: "
            f"{number_text(float(value))}</title>"
        )
        share = 0.0 if np.isnan(shades[i, j]) else abs(value) / largest
        parts.append(
            f'<rect class="{"down" if value < 0 else "up"}" {place} '
            f'fill-opacity="{share:.3f}">{title}</rect>'
        )
        if width >= 34 and height >= 14:
            ink = "on" if share > 0.55 else "in"
            text = "" if np.isnan(value) else number_text(float(f"{value:.2g}"))
            parts.append(
                f'<text class="{ink}" x="{left + width * (j + 0.5):.1f}" '
                f'y="{top + height * (i + 0.5) + 4:.1f}" text-anchor="middle">{text}</text>'
            )
    return plain_chart(block.title, top + height * values.shape[0] + 4, parts)


LEVELS = 15
"""Number of shades of grey of an image, besides white."""


def images(block: blocks.Images) -> str:
    """Images, each with one path per shade, which takes a tenth of the text of rectangles."""
    across = max(map(len, block.images), default=1) or 1
    left = 8 + LETTER * min(18, max((len(str(label)) for label in block.labels), default=0))
    step = min(90.0, (WIDTH - left - RIGHT) / across)
    size = (step - 4) / max(block.width, block.height)
    row = size * block.height + 6
    low, high = blocks.pixel_range(block)
    parts = []
    for i, (label, row_images) in enumerate(zip(block.labels, block.images, strict=True)):
        place = f'x="{left - 6:.0f}" y="{row * i + row / 2 + 4:.1f}" text-anchor="end"'
        parts.append(f'<text class="tick" {place}>{escape(shorten(label, 18))}</text>')
        for j, image in enumerate(row_images):
            shades = [
                round(LEVELS * (v - low) / (high - low)) if are_numbers(v) else 0 for v in image
            ]
            parts.append(_draw_image(shades, block.width, left + step * j, row * i, size))
    return plain_chart(block.title, row * len(block.labels) + 4, parts)


def _draw_image(shades: Sequence[int], width: int, left: float, top: float, size: float) -> str:
    """One image: a frame, and a path for each shade."""
    paths: dict[int, list[str]] = {}
    for y in range(len(shades) // width):
        for x, length, shade in stretches(shades[y * width : (y + 1) * width]):
            if shade:
                paths.setdefault(shade, []).append(f"M{x} {y}h{length}v1h-{length}z")
    shapes = "".join(
        f'<path class="shade" fill-opacity="{shade / LEVELS:.2f}" d="{"".join(d)}"/>'
        for shade, d in paths.items()
    )
    frame = f'<path class="frame" d="M0 0h{width}v{len(shades) // width}h-{width}z"/>'
    return f'<g transform="translate({left:.1f} {top:.1f}) scale({size:.3f})">{frame}{shapes}</g>'


def strips(block: blocks.Strips) -> str:
    """A row for each sequence, a colour for each state."""
    longest = max((len(row) for row in block.states), default=1)
    left = 8 + LETTER * min(18, max(len(str(label)) for label in block.labels))
    row = 18
    width = (WIDTH - left - RIGHT) / max(longest, 1)
    parts = []
    for i, (label, states) in enumerate(zip(block.labels, block.states, strict=True)):
        parts.append(
            f'<text class="tick" x="{left - 6:.0f}" y="{row * i + 13}" text-anchor="end">'
            f"{escape(shorten(label, 18))}</text>"
        )
        for start, length, state in stretches(states):
            if state >= 0:
                parts.append(
                    f'<rect class="hue-{state % NUM_HUES}" x="{left + width * start:.1f}" '
                    f'y="{row * i + 3}" '
                    f'width="{width * length:.2f}" height="{row - 5}"><title>state {state}, steps '
                    f"{start} to "
                    f"{start + length - 1}</title></rect>"
                )
    total = row * len(block.labels) + 6
    states = blocks.make_legend(state for states in block.states for state in states if state >= 0)
    legend_text, height = legend(states, left, total)
    return plain_chart(block.title, total + height, [*parts, legend_text])


def curves(block: blocks.Curves) -> str:
    """A panel for each curve, side by side where there is room; a single curve fills the card."""
    if len(block.names) == 1:
        (name,), (values,) = block.names, block.values
        (low,), (high,) = block.lowest, block.highest
        return lines(blocks.Lines(block.title, block.x_label, name, block.x, values, low, high))
    panels = zip(block.names, block.values, block.lowest, block.highest, strict=True)
    drawings = [_curve_panel(block, name, parts) for name, *parts in panels]
    return f'<div class="panels">{"".join(drawings)}</div>'


PANEL_WIDTH = 380
"""Width of a panel of curves."""
CURVE_HEIGHT = 130
"""Height of a curve in its panel."""


def _curve_panel(block: blocks.Curves, name: str, parts: Sequence[Any]) -> str:
    """One curve in its band, under its name."""
    top, bottom = 22, 22 + CURVE_HEIGHT
    x = axis([*block.x], LEFT, PANEL_WIDTH - RIGHT, 0.0)
    y = axis([v for part in parts for v in part], bottom, top, 0.06)
    marks = "".join(
        f'<line class="grid" x1="{LEFT}" x2="{x.end:.1f}" y1="{y(mark):.1f}" y2="{y(mark):.1f}"/>'
        f"{tick(LEFT - 8, y(mark) + 4, 'end', mark, y.step)}"
        for mark in y.ticks
    )
    marks += "".join(tick(x(mark), bottom + 17, "middle", mark, x.step) for mark in x.ticks)
    value, lower, upper = (_pixels(x, y, block.x, part) for part in parts)
    curve = f'<path class="curve curve-0" d="M{"L".join(value)}"/>' if value else ""
    label = f'<text class="in" x="{LEFT}" y="12">{escape(shorten(name, 44))}</text>'
    label += (
        f'<text class="axis" x="{(LEFT + PANEL_WIDTH - RIGHT) / 2:.0f}" y="{bottom + 34}" '
        f'text-anchor="middle">{escape(block.x_label)}</text>'
    )
    content = label + marks + _band(upper, lower) + curve
    return plain_chart(name, bottom + 40, [content], PANEL_WIDTH)


def arcs(block: blocks.Arcs) -> str:
    """Names below one another, and an arc for each edge, wider for larger weights."""
    row = 19
    left = 12 + LETTER * min(28, max((len(name) for name in block.names), default=1))
    heaviest = max((weight for *_, weight in block.edges), default=1.0) or 1.0
    place = lambda i: row * i + 11
    parts = [
        f'<text class="tick" x="{left - 10:.0f}" y="{place(i) + 4}" text-anchor="end">'
        f"{escape(shorten(name, 28))}</text>"
        f'<circle class="mark mark-0" cx="{left:.0f}" cy="{place(i)}" r="3"/>'
        for i, name in enumerate(block.names)
    ]
    furthest = max([1, *(abs(i - j) for i, j, _ in block.edges)])
    unit_reach = min(16.0, (WIDTH - RIGHT - left) / furthest)
    for i, j, weight in block.edges:
        reach = unit_reach * abs(i - j) * 4 / 3  # a cubic curve goes three quarters of the way
        parts.append(
            '<path class="curve curve-0" stroke-opacity="0.5" '
            f'style="stroke-width:{0.6 + 4 * weight / heaviest:.1f}" '
            f'd="M{left:.0f},{place(i)}C{left + reach:.0f},{place(i)} '
            f"{left + reach:.0f},{place(j)} "
            f'{left:.0f},{place(j)}"><title>{escape(block.names[i])}, {escape(block.names[j])}: '
            f"{number_text(float(weight))}</title></path>"
        )
    return plain_chart(block.title, row * len(block.names) + 6, parts)


def tree(block: blocks.Tree) -> str:
    """Leaves below one another, and a bracket for each join, at its height from the leaves."""
    row = 19
    margin = 12 + LETTER * min(28, max((len(name) for name in block.names), default=1))
    high = [height for *_, height in block.joins]
    x = axis([0.0, *high], margin, WIDTH - RIGHT, 0.0)
    bottom = row * len(block.names) + 4
    parts = [
        f'<line class="grid" x1="{x(mark):.0f}" x2="{x(mark):.0f}" y1="0" y2="{bottom}"/>'
        + tick(x(mark), bottom + 14, "middle", mark)
        for mark in x.ticks
    ]
    parts += [
        f'<text class="tick" x="{margin - 8:.0f}" y="{row * i + 15}" text-anchor="end">'
        f"{escape(shorten(name, 28))}</text>"
        for i, name in enumerate(block.names)
    ]
    parts += [
        f'<path class="curve curve-0" d="M{x(a):.1f},{row * i + 11:.1f}H{x(c):.1f}'
        f'V{row * j + 11:.1f}H{x(b):.1f}"/>'
        for (a, i), (b, j), c in blocks.brackets(block)
    ]
    parts.append(
        f'<text class="axis" x="{WIDTH - RIGHT}" y="{bottom + 32}" text-anchor="end">'
        f"{escape(block.unit)}</text>"
    )
    return plain_chart(block.title, bottom + 38, parts)


PANEL = 84
"""Height of a column's curve."""
STRIP = 30
"""Height of the strip of probabilities."""
GAP = 8
"""Gap between curves."""


def course(block: blocks.Course) -> str:
    """The columns of a sequence, one below the other, over the path of its states; then the
    probability of each state at each step, as heights of its colour that add up to one."""
    edges = blocks.step_edges(block)
    x = axis([edges[0], edges[-1]], LEFT, WIDTH - RIGHT, margin=0.0)
    parts = [_panel(block, d, x, (PANEL + GAP) * d) for d in range(len(block.columns))]
    top = (PANEL + GAP) * len(block.columns)
    parts.append(f'<text class="tick" x="{LEFT - 8}" y="{top + 19}" text-anchor="end">state</text>')
    parts.append(_probabilities(block, x, top))
    parts += [tick(x(mark), top + STRIP + 16, "middle", mark, x.step) for mark in x.ticks]
    parts.append(
        f'<text class="axis" x="{WIDTH / 2:.0f}" y="{top + STRIP + 32}" text-anchor="middle">'
        f"{escape(block.x_label)}</text>"
    )
    legend_text, height = legend(
        blocks.make_legend(range(len(block.probabilities))), LEFT, top + STRIP + 42
    )
    return plain_chart(block.title, top + STRIP + 42 + height, [*parts, legend_text])


def _panel(block: blocks.Course, d: int, x: Axis, top: float) -> str:
    """One column over the colours of the path."""
    y = axis([v for v in block.values[d] if are_numbers(v)], top + PANEL, top, margin=0.08)
    edges = blocks.step_edges(block)
    background = "".join(
        f'<rect class="hue-{state % NUM_HUES} behind" x="{x(edges[start]):.1f}" y="{top}" '
        f'height="{PANEL}" width="{x(edges[start + length]) - x(edges[start]):.2f}"/>'
        for start, length, state in stretches(block.states)
        if state >= 0
    )
    ends = "".join(
        tick(LEFT - 8, y(mark) + 4, "end", mark, y.step) for mark in (y.ticks[0], y.ticks[-1])
    )
    middles = 0.5 * (edges[1:] + edges[:-1])
    places = [
        f"{x(t):.1f},{y(v):.1f}"
        for t, v in zip(middles, block.values[d], strict=False)
        if are_numbers(v)
    ]
    name = (
        f'<text class="tick" x="{LEFT + 4}" '
        f'y="{top + 12}">{escape(shorten(block.columns[d]))}</text>'
    )
    return f'{background}{ends}<path class="course" d="M{"L".join(places)}"/>{name}'


def _probabilities(block: blocks.Course, x: Axis, top: float) -> str:
    """A band for each state; its height at a step is the probability of the state."""
    to_number = lambda value: value if are_numbers(value) else 0.0
    probabilities = np.array([[*map(to_number, row)] for row in block.probabilities], float)
    edges = blocks.step_edges(block)
    outline = lambda level: _steps(x, edges, top, level)
    levels = np.clip(
        np.vstack([np.zeros(len(block.states)), np.cumsum(probabilities, axis=0)]), 0.0, 1.0
    )
    return "".join(
        f'<path class="hue-{k % NUM_HUES} part" '
        f'd="M{"L".join([*outline(high), *outline(low)[::-1]])}Z">'
        f"<title>state {k}</title></path>"
        for k, (low, high) in enumerate(itertools.pairwise(levels))
        if len(block.states)
    )


def _steps(x: Axis, edges: np.ndarray, top: float, level: np.ndarray) -> list[str]:
    """The corners of a line that is level within each step."""
    changes = np.flatnonzero(np.abs(np.diff(level)) > 5e-3) + 1  # finer detail is not visible
    starts, ends = [0, *changes.tolist()], [*changes.tolist(), len(level)]
    heights = [f"{top + STRIP * (1.0 - level[start]):.1f}" for start in starts]
    corners = zip(starts, ends, heights, strict=True)
    return [f"{x(edges[t]):.1f},{height}" for start, end, height in corners for t in (start, end)]


DRAWN: dict[type, Callable[[Any], str]] = {
    blocks.Table: table,
    blocks.Lines: lines,
    blocks.Scatter: scatter,
    blocks.Intervals: intervals,
    blocks.Heat: heat,
    blocks.Curves: curves,
    blocks.Arcs: arcs,
    blocks.Tree: tree,
    blocks.Strips: strips,
    blocks.Course: course,
    blocks.Images: images,
}
