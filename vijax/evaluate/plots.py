"""Figures of fits as Matplotlib `Figure`s, outside of Matplotlib's global state: save them, or show
them in a notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from vijax.evaluate.metrics import BOUND_AXIS, Curves, average_last_pass, axis_low, widen_axis
from vijax.extras import require_extra
from vijax.terminal import printable
from vijax.topics.summary import Topic

Figure = Any
BLUE, INK, SOFT, LINE = "#2a6fdb", "#1b2330", "#5c6778", "#e3e7ed"


def topic_words(topics: Sequence[Topic], num_words: int = 8, most: int = 24) -> Figure:
    """Bars of the most probable words of each topic, for at most `most` topics.

    >>> from vijax.topics.summary import summarise
    >>> figure = topic_words(summarise(np.array([[3.0, 1.0], [1.0, 2.0]]), ["sun", "sea"]))
    >>> [axes.get_title(loc="left") for axes in figure.axes]
    ['topic 0 · 57.1 %', 'topic 1 · 42.9 %']
    """
    plain_topics = _plain_words(topics[:most])
    columns = min(4, len(plain_topics))
    rows = math.ceil(len(plain_topics) / columns)
    figure = new_figure(3.1 * columns, 0.28 * (num_words + 2) * rows + 0.2)
    axes = np.atleast_1d(figure.subplots(rows, columns)).ravel()
    for topic, ax in zip(plain_topics, axes, strict=False):
        _bars(ax, topic.probabilities[:num_words], topic.words[:num_words], 0.62, 9)
        ax.set_xticks([])
        title = f"topic {topic.number} · {100 * topic.share:.1f} %"
        ax.set_title(title, fontsize=9, loc="left", color=INK)
    for ax in axes[len(plain_topics) :]:
        figure.delaxes(ax)
    return figure


def curves(measured: Curves, per: str = "word", score_unit: str | None = None) -> Figure:
    """Held-out score with its standard error, and ELBO per word (or other datum), against passes
    over the data. `score_unit` is the unit of the score; nats per the same datum if None."""
    figure = new_figure(9.0, 3.4)
    scores, elbos = figure.subplots(1, 2)
    scores.errorbar(
        measured.held_out_epoch, measured.held_out_score, measured.held_out_error,
        color=BLUE, marker="o", markersize=4, capsize=2, linewidth=1.6,
    )  # fmt: skip
    epoch = measured.epoch
    smooth = average_last_pass(measured)
    elbos.plot(epoch, measured.elbo, color=BLUE, linewidth=0.6, alpha=0.3, label="of each batch")
    elbos.plot(epoch, smooth, color=BLUE, linewidth=1.6, label="over a pass")
    finite = smooth[np.isfinite(smooth)]
    if len(finite):
        low, high = widen_axis(axis_low(finite), float(finite.max()), *BOUND_AXIS)
        margin = 0.05 * (high - low)
        elbos.set_ylim(low - margin, high + margin)
    unit = score_unit or f"nats per {per}"
    for ax, title in ((scores, f"held-out score, {unit}"), (elbos, f"ELBO per {per}, nats")):
        ax.set_title(plain(title), fontsize=10, loc="left", color=INK)
        ax.set_xlabel("passes over the data", fontsize=9, color=SOFT)
        ax.grid(axis="y", color=LINE)
        bare(ax, keep=("bottom",))
    elbos.legend(frameon=False, fontsize=8, loc="lower right")
    return figure


def topic_sizes(topics: Sequence[Topic], most: int = 60) -> Figure:
    """Bars of the shares of all words of the topics, in the order of the topics."""
    plain_topics = _plain_words(topics[:most])
    figure = new_figure(6.4, 0.9 + 0.19 * len(plain_topics))
    ax = figure.subplots()
    _bars(
        ax,
        [100 * topic.share for topic in plain_topics],
        [topic.label for topic in plain_topics],
        0.66,
        8,
    )
    ax.margins(y=0.01)
    ax.set_xlabel("% of all words", fontsize=9, color=SOFT)
    ax.grid(axis="x", color=LINE)
    return figure


def _bars(
    ax: Any, widths: Sequence[float], labels: Sequence[str], height: float, fontsize: int
) -> None:
    places = np.arange(len(labels))
    ax.barh(places, widths, color=BLUE, height=height)
    ax.set_yticks(places, labels, fontsize=fontsize)
    ax.invert_yaxis()
    bare(ax, keep=())


def topic_map(topics: Sequence[Topic], num_labels: int = 25) -> Figure:
    """Topics as discs: close if their words are similar, with an area that grows with the share."""
    figure = new_figure(7.0, 7.0)
    ax = figure.subplots()
    x, y = np.array([topic.position for topic in topics]).T
    shares = np.array([topic.share for topic in topics])
    areas = 2200 * shares / max(float(shares.max()), 1e-300) + 30
    ax.scatter(x, y, s=areas, color=BLUE, alpha=0.3, edgecolors=BLUE)
    for topic in _plain_words(topics[:num_labels]):
        ax.annotate(topic.label, topic.position, fontsize=8, ha="center", va="center", color=INK)
    ax.set(xlim=(-1.15, 1.15), ylim=(-1.15, 1.15), aspect="equal", xticks=[], yticks=[])
    bare(ax, keep=())
    return figure


def topic_similarity(
    distances: Float[np.ndarray, "topics topics"], topics: Sequence[Topic]
) -> Figure:
    """Heat map of distances between topics (`vijax.topics.summary.topic_distances`), in the order
    of a hierarchical clustering; the diagonal is blank, because it compares nothing."""
    from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    numbers = [topic.number for topic in topics]
    distances = np.nan_to_num(np.asarray(distances, np.float64)[np.ix_(numbers, numbers)], nan=1.0)
    flat = squareform(distances, checks=False)
    order = list(range(len(numbers)))
    if len(numbers) > 2:
        clusters = optimal_leaf_ordering(linkage(flat, "average"), flat)
        order = leaves_list(clusters).tolist()
    side = max(4.5, 0.16 * len(numbers) + 2.4)
    figure = new_figure(side, side + 0.8)
    ax = figure.subplots()
    nearest = float(np.min(flat, initial=1.0))  # colours span the differences between topics
    diagonal = np.eye(len(order), dtype=bool)
    values = np.ma.masked_where(diagonal, distances[np.ix_(order, order)])
    image = ax.imshow(values, cmap="Blues_r", vmin=min(nearest, 0.95), vmax=1.0)
    labels = [topic.label for topic in _plain_words([topics[i] for i in order])]
    ax.set_yticks(np.arange(len(order)), labels, fontsize=7)
    ax.set_xticks(np.arange(len(order)), labels, fontsize=7, rotation=90)
    bare(ax, keep=())
    figure.colorbar(image, ax=ax, shrink=0.6, label="Jensen-Shannon distance")
    return figure


def predictive_check(check: Any) -> Figure:
    """A picture of a `vijax.evaluate.PredictiveCheck`: the statistic of replicated data and of the
    data. A statistic with many entries is drawn as intervals, and a statistic that reads the
    globals as points, replicated data against data.

    >>> from vijax.evaluate import PredictiveCheck
    >>> replicated = np.arange(10.0)
    >>> figure = predictive_check(PredictiveCheck(np.array(3.0), replicated, np.array(0.7), "mean"))
    >>> figure.axes[0].get_title(loc="left")
    'mean · p-value 0.700'
    """
    figure = new_figure(6.0, 3.4)
    ax = figure.subplots()
    replicated = np.asarray(check.replicated, np.float64)
    title = plain(check.name)
    if replicated.ndim > 1:
        _plot_intervals(ax, check, replicated)
    else:
        title += f" · p-value {float(check.p_value):.3f}"
        plot = _plot_pairs if check.reads_globals else _plot_histogram
        plot(ax, check, replicated)
    ax.set_title(title, fontsize=10, loc="left", color=INK)
    bare(ax, keep=("bottom",))
    ax.legend(frameon=False, fontsize=8)
    return figure


def _plot_histogram(ax: Any, check: Any, replicated: np.ndarray) -> None:
    """The histogram of a number, and the number of the data."""
    bins = min(20, max(5, len(replicated) // 20))
    ax.hist(replicated, bins=bins, color=BLUE, alpha=0.55, label="replicated data")
    ax.axvline(float(check.observed), color=INK, linewidth=2, label="the data")
    ax.set_xlabel(plain(check.name), fontsize=9, color=SOFT)
    ax.set_yticks([])


def _plot_intervals(ax: Any, check: Any, replicated: np.ndarray) -> None:
    """Intervals of each entry, and the values of the data."""
    flat = replicated.reshape(len(replicated), -1)
    low, middle, high = np.quantile(flat, [0.05, 0.5, 0.95], axis=0)
    places = np.arange(flat.shape[1])
    ax.vlines(places, low, high, color=BLUE, alpha=0.55, linewidth=3, label="replicated data, 90 %")
    ax.scatter(places, middle, s=8, color=BLUE, zorder=3)
    observed = np.asarray(check.observed, np.float64)
    if check.reads_globals:
        observed = observed.mean(axis=0)
    ax.scatter(places, observed.ravel(), s=22, color=INK, marker="x", zorder=4, label="the data")
    ax.set_xlabel("entry", fontsize=9, color=SOFT)
    ax.grid(axis="y", color=LINE)


def _plot_pairs(ax: Any, check: Any, replicated: np.ndarray) -> None:
    """A point for each draw: the p-value is the share of points above the diagonal."""
    observed = np.asarray(check.observed, np.float64)
    ends = [min(observed.min(), replicated.min()), max(observed.max(), replicated.max())]
    ax.plot(ends, ends, color=SOFT, linewidth=1)
    ax.scatter(observed, replicated, s=6, color=BLUE, alpha=0.5, label="one draw of the globals")
    ax.set_xlabel("of the data", fontsize=9, color=SOFT)
    ax.set_ylabel("of replicated data", fontsize=9, color=SOFT)


def plain(text: str, most: int = 60) -> str:
    r"""Text for Matplotlib, which reads a pair of dollars as a formula and fails at half a
    surrogate pair. It is cut to `most` letters, because Matplotlib does not draw a picture whose
    labels leave no room.

    >>> print(plain("$100 and $200"))
    \$100 and \$200
    """
    letters = printable(text)
    if len(letters) > most:
        letters = f"{letters[: most - 1]}…"
    return letters.replace("$", r"\$")


def _plain_words(topics: Sequence[Topic]) -> list[Topic]:
    short = lambda topic: tuple(plain(word, 20) for word in topic.words)
    return [topic._replace(words=short(topic), name=plain(topic.name, 60)) for topic in topics]


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; sizes are in inches."""
    matplotlib_figure = require_extra("matplotlib.figure")
    figure = matplotlib_figure.Figure(figsize=(width, height), layout="constrained", dpi=120)
    figure.set_facecolor("white")
    return figure


def bare(ax: Any, keep: tuple[str, ...]) -> None:
    """Removes the ticks of axes, and the sides of the frame that are not in `keep`."""
    for name, spine in ax.spines.items():
        spine.set_visible(name in keep)
        spine.set_color(LINE)
    ax.tick_params(length=0, colors=SOFT)
    ax.set_axisbelow(True)
