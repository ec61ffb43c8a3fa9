"""Blocks of a page as Matplotlib figures, for figures/*.png."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from vijax.app.drawing import blocks
from vijax.app.drawing.cuts import part_to_draw
from vijax.app.drawing.exports import free_name
from vijax.app.drawing.svg import stretches
from vijax.evaluate import plots
from vijax.evaluate.metrics import widen_axis
from vijax.evaluate.plots import BLUE, INK, LINE, SOFT, Figure, bare, new_figure

_array = blocks.as_numbers
HUES = (
    BLUE,
    "#d9622b",
    "#2f9e6e",
    "#b6479b",
    "#8a6d1f",
    "#5d5fc9",
    "#0f8fa9",
    "#c23b4e",
    "#6f7f2a",
    "#7a5c46",
)


def pictures(page_blocks: Iterable[blocks.Block]) -> Iterator[tuple[str, Figure]]:
    """File names and figures of the blocks that are drawn; blocks of one title are numbered."""
    names_used = {"curves"}
    for name, figure in _block_figures(page_blocks):
        yield free_name(name, names_used), figure


def _block_figures(page_blocks: Iterable[blocks.Block]) -> Iterator[tuple[str, Figure]]:
    """The titles of the blocks that are drawn, as file names, and their figures."""
    for block in page_blocks:
        if isinstance(block, blocks.Topics):
            topics = [topic for topic in block.topics if topic.words]
            yield "topics", plots.topic_words(topics)
            yield "sizes", plots.topic_sizes(topics)
            yield "map", plots.topic_map(topics)
            yield "similarity", plots.topic_similarity(np.asarray(block.distances), topics)
        elif type(block) in DRAWN:
            yield blocks.file_name(block), DRAWN[type(block)](_plain(_with_part_title(block)))


def _with_part_title(block: Any) -> Any:
    """A block as it is drawn; its title says if that is a part."""
    part: Any = part_to_draw(block)
    if part is block or not isinstance(block, blocks.Intervals):
        return part
    title = f"{block.title} (the first {len(part.labels)} of {len(block.labels)})"
    return part._replace(title=title)


def _plain(block: Any) -> Any:
    """A block whose texts Matplotlib draws unchanged: title, axes, and shortened labels."""

    def read(value: Any) -> Any:
        if isinstance(value, str):
            return plots.plain(value)
        if isinstance(value, list | tuple) and any(isinstance(item, str) for item in value):
            return [plots.plain(str(item), 24) for item in value]
        return value

    return type(block)(*map(read, block))


def lines(block: blocks.Lines) -> Figure:
    """A curve in its band, over points."""
    figure, ax = _axes(6.4, 4.2, block)
    if len(block.low):
        ax.fill_between(
            _array(block.x),
            _array(block.low),
            _array(block.high),
            color=BLUE,
            alpha=0.18,
            linewidth=0,
        )
    ax.plot(
        _array(block.points_x), _array(block.points_y), ".", color=HUES[1], markersize=4, alpha=0.7
    )
    ax.plot(_array(block.x), _array(block.y), color=BLUE)
    ax.set(xlabel=block.x_label, ylabel=block.y_label)
    values = blocks.values_in_view(block)
    if values:
        low, high = widen_axis(min(values), max(values))
        margin = 0.05 * (high - low)
        ax.set_ylim(low - margin, high + margin)
    return figure


def scatter(block: blocks.Scatter) -> Figure:
    """Points in the colours of their classes, and outlines."""
    figure, ax = _axes(6.0, 5.2, block)
    hues = [HUES[int(k) % len(HUES)] for k in block.classes]
    ax.scatter(_array(block.x), _array(block.y), c=hues, s=9, alpha=0.55, linewidths=0)
    for k, x, y in block.outlines:
        ax.plot(_array(x), _array(y), color=HUES[int(k) % len(HUES)], linewidth=1.6)
    ax.set(xlabel=block.x_label, ylabel=block.y_label)
    classes = blocks.scatter_legend(block)
    for k, name in classes.items():
        ax.scatter([], [], c=HUES[k % len(HUES)], s=20, label=name)
    if classes:
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=8)
    return figure


def intervals(block: blocks.Intervals) -> Figure:
    """A line for each quantity, the 90 % interval about its mean."""
    figure, ax = _axes(6.0, 0.9 + 0.24 * len(block.labels), block)
    places = np.arange(len(block.labels))
    ax.errorbar(
        _array(block.mean),
        places,
        xerr=blocks.NINETY * _array(block.deviation),
        fmt="o",
        color=BLUE,
        markersize=4,
    )
    ax.axvline(0, color=SOFT, linewidth=0.8)
    ax.set_yticks(places, block.labels, fontsize=8)
    ax.invert_yaxis()
    return figure


def heat(block: blocks.Heat) -> Figure:
    """A cell for each entry."""
    values = blocks.heat_colours(block)
    width = min(12.0, max(4.0, 1.6 + 0.3 * values.shape[1]))
    height = max(2.6, 1.2 + 0.26 * values.shape[0])
    figure, ax = _axes(width, height, block)
    signed = bool(np.nanmin(values, initial=0.0) < 0)
    largest = float(np.nanmax(np.abs(values), initial=1e-12))
    image = ax.imshow(
        values,
        cmap="RdBu" if signed else "Blues",
        vmin=-largest if signed else 0,
        vmax=largest,
        aspect="auto",
    )
    ax.set_yticks(np.arange(len(block.rows)), block.rows, fontsize=8)
    cell = (figure.get_figwidth() - 1.6) / values.shape[1]  # inches; a character takes about 0.08
    label_step = math.ceil((0.08 * max(map(len, block.columns)) + 0.1) / cell)
    ax.set_xticks(
        np.arange(0, values.shape[1], label_step), list(block.columns)[::label_step], fontsize=8
    )
    ax.grid(False)
    figure.colorbar(image, ax=ax, shrink=0.8)
    return figure


def curves(block: blocks.Curves) -> Figure:
    """Panels, up to three in a row."""
    across = min(3, len(block.names)) or 1
    rows = -(-len(block.names) // across) or 1
    figure = new_figure(2.8 * across, 0.8 + 1.5 * rows)
    axes = np.atleast_1d(figure.subplots(rows, across, sharex=True)).ravel()
    for ax in axes[len(block.names) :]:
        ax.set_visible(False)
    for ax, name, *parts in zip(
        axes, block.names, block.values, block.lowest, block.highest, strict=False
    ):
        value, low, high = map(_array, parts)
        ax.fill_between(_array(block.x), low, high, color=BLUE, alpha=0.18, linewidth=0)
        ax.plot(_array(block.x), value, color=BLUE)
        ax.set_title(name, fontsize=8, loc="left", color=INK)
        ax.tick_params(labelbottom=True, labelsize=8)
        bare(ax, keep=("bottom",))
    figure.suptitle(block.title, fontsize=10, x=0.01, ha="left", color=INK)
    figure.supxlabel(block.x_label, fontsize=8)
    return figure


def arcs(block: blocks.Arcs) -> Figure:
    """Names below one another, and an arc for each edge, wider for larger weights."""
    figure, ax = _axes(6.0, 0.9 + 0.24 * len(block.names), block)
    heaviest = max((weight for *_, weight in block.edges), default=1.0) or 1.0
    turn = np.linspace(0, np.pi, 40)
    for i, j, weight in block.edges:
        reach = 0.5 * abs(i - j)
        width = 0.5 + 3.5 * weight / heaviest
        ax.plot(
            reach * np.sin(turn),
            0.5 * (i + j) - reach * np.cos(turn),
            color=BLUE,
            alpha=0.5,
            linewidth=width,
        )
    ax.plot(np.zeros(len(block.names)), np.arange(len(block.names)), "o", color=BLUE, markersize=4)
    ax.set_yticks(np.arange(len(block.names)), block.names, fontsize=8)
    ax.set_xticks([])
    ax.grid(False)
    ax.invert_yaxis()
    return figure


def tree(block: blocks.Tree) -> Figure:
    """Leaves below one another, and a bracket for each join, at its height from the leaves."""
    figure, ax = _axes(6.4, 0.9 + 0.24 * len(block.names), block)
    for (a, i), (b, j), c in blocks.brackets(block):
        ax.plot([a, c, c, b], [i, i, j, j], color=BLUE, linewidth=1.2)
    ax.set_yticks(np.arange(len(block.names)), block.names, fontsize=8)
    ax.set_xlabel(block.unit, fontsize=8)
    ax.grid(False)
    ax.invert_yaxis()
    return figure


def strips(block: blocks.Strips) -> Figure:
    """A row for each sequence, a colour for each state."""
    from matplotlib.colors import ListedColormap

    longest = max(len(row) for row in block.states)
    states = np.array([[*row, *[-1] * (longest - len(row))] for row in block.states])
    figure, ax = _axes(7.0, 0.9 + 0.26 * len(states), block)
    colours = np.ma.masked_less(states, 0) % len(HUES)
    ax.imshow(
        colours,
        cmap=ListedColormap(HUES),
        vmin=0,
        vmax=len(HUES) - 1,
        aspect="auto",
        interpolation="nearest",
    )
    ax.set_yticks(np.arange(len(states)), block.labels, fontsize=8)
    ax.grid(False)
    ax.set_xlabel("step")
    return figure


def course(block: blocks.Course) -> Figure:
    """The columns of a sequence over the colours of its path, and probabilities of states."""
    number = len(block.columns)
    edges = blocks.step_edges(block)
    middles = (0.5 * (edges[1:] + edges[:-1]))[: len(block.states)]
    figure = new_figure(7.0, 0.9 + 1.2 * number + 0.8)
    axes = np.atleast_1d(
        figure.subplots(number + 1, 1, sharex=True, height_ratios=[1.2] * number + [0.6])
    )
    for ax, column, values in zip(axes, block.columns, block.values, strict=False):
        for start, length, state in stretches(block.states):
            if state >= 0:
                ax.axvspan(
                    edges[start],
                    edges[start + length],
                    color=HUES[state % len(HUES)],
                    alpha=0.16,
                    linewidth=0,
                )
        ax.plot(middles, _array(values), color=INK, linewidth=1.0)
        ax.set_ylabel(column, fontsize=8)
    hues = [HUES[k % len(HUES)] for k in range(len(block.probabilities))]
    axes[-1].stackplot(middles, *map(_array, block.probabilities), colors=hues, step="mid")
    axes[-1].set(ylim=(0, 1), yticks=[], xlabel=block.x_label, ylabel="state")
    axes[0].set_title(block.title, fontsize=10, loc="left", color=INK)
    for ax in axes:
        bare(ax, keep=("bottom",))
    return figure


def images(block: blocks.Images) -> Figure:
    """Rows of grey images, a gap between them."""
    across = max(map(len, block.images), default=1) or 1
    high, wide = block.height + 1, block.width + 1
    sheet = np.full((high * len(block.labels), wide * across), np.nan)
    for i, row in enumerate(block.images):
        for j, image in enumerate(row):
            tile = _array(image).reshape(block.height, block.width)
            sheet[high * i : high * i + block.height, wide * j : wide * j + block.width] = tile
    width = max(4.0, 0.6 * across + 1.4)
    height = max(1.2, 0.7 * len(block.labels) * block.height / block.width + 0.6)
    figure, ax = _axes(width, height, block)
    low_value, high_value = blocks.pixel_range(block)
    ax.imshow(sheet, cmap="Greys", vmin=low_value, vmax=high_value, interpolation="nearest")
    ax.set_yticks(high * np.arange(len(block.labels)) + block.height / 2, block.labels, fontsize=8)
    ax.set_xticks([])
    ax.grid(False)
    return figure


def _axes(width: float, height: float, block: Any) -> tuple[Figure, Any]:
    figure = new_figure(width, height)
    ax = figure.subplots()
    ax.set_title(block.title, fontsize=10, loc="left", color=INK)
    ax.grid(color=LINE)
    bare(ax, keep=("bottom",))
    return figure, ax


DRAWN: dict[type, Callable[[Any], Figure]] = {
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
