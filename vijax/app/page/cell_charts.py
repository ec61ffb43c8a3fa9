"""Matrices and images on the page: cells with a colour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vijax.app.page import blocks
from vijax.app.page.svg import RIGHT, WIDTH, escape, known, number_text, plain_chart, shortened, stretches


def heat(block: blocks.Heat) -> str:
    """A cell for each entry: blue above zero, orange below, its number in it where there is room."""
    values = np.array([[np.nan if v is None else v for v in row] for row in block.values], float)
    shades = blocks.coloured(block)
    left, top = 8 + 6.2 * min(18, max(len(str(label)) for label in block.rows)), 20
    width, height = (WIDTH - left - 4) / max(1, values.shape[1]), min(34.0, max(12.0, 300 / values.shape[0]))
    most = float(np.nanmax(np.abs(shades), initial=1e-12))
    drawn = [
        f'<text class="tick" x="{left - 6:.0f}" y="{top + height * (i + 0.5) + 4:.1f}" text-anchor="end">'
        f"{escape(shortened(label, 18))}</text>"
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
        title = f"<title>{escape(block.rows[i])}, {escape(block.columns[j])}: {number_text(float(value))}</title>"
        share = 0.0 if np.isnan(shades[i, j]) else abs(value) / most
        drawn.append(f'<rect class="{"down" if value < 0 else "up"}" {place} fill-opacity="{share:.3f}">{title}</rect>')
        if width >= 34 and height >= 14:
            ink = "on" if share > 0.55 else "in"
            drawn.append(
                f'<text class="{ink}" x="{left + width * (j + 0.5):.1f}" y="{top + height * (i + 0.5) + 4:.1f}" '
                f'text-anchor="middle">{"" if np.isnan(value) else number_text(float(f"{value:.2g}"))}</text>'
            )
    return plain_chart(block.title, top + height * values.shape[0] + 4, drawn)


LEVELS = 15
"""Shades of grey of an image, beside white."""


def images(block: blocks.Images) -> str:
    """Each image as one path for each shade, of horizontal stretches: a tenth of the text of as many rectangles."""
    across = max(map(len, block.images), default=1) or 1
    left = 8 + 6.2 * min(18, max((len(str(label)) for label in block.labels), default=0))
    step = min(90.0, (WIDTH - left - RIGHT) / across)
    size = (step - 4) / max(block.width, block.height)
    row, (low, high) = size * block.height + 6, blocks.value_range(block)
    drawn = []
    for i, (label, some) in enumerate(zip(block.labels, block.images, strict=True)):
        place = f'x="{left - 6:.0f}" y="{row * i + row / 2 + 4:.1f}" text-anchor="end"'
        drawn.append(f'<text class="tick" {place}>{escape(shortened(label, 18))}</text>')
        for j, image in enumerate(some):
            shades = [round(LEVELS * (v - low) / (high - low)) if known(v) else 0 for v in image]
            drawn.append(_shaded(shades, block.width, left + step * j, row * i, size))
    return plain_chart(block.title, row * len(block.labels) + 4, drawn)


def _shaded(shades: Sequence[int], width: int, left: float, top: float, size: float) -> str:
    """One image: a frame, and a path for each shade."""
    paths: dict[int, list[str]] = {}
    for y in range(len(shades) // width):
        for x, length, shade in stretches(shades[y * width : (y + 1) * width]):
            if shade:
                paths.setdefault(shade, []).append(f"M{x} {y}h{length}v1h-{length}z")
    drawn = "".join(
        f'<path class="shade" fill-opacity="{shade / LEVELS:.2f}" d="{"".join(d)}"/>' for shade, d in paths.items()
    )
    frame = f'<path class="frame" d="M0 0h{width}v{len(shades) // width}h-{width}z"/>'
    return f'<g transform="translate({left:.1f} {top:.1f}) scale({size:.3f})">{frame}{drawn}</g>'
