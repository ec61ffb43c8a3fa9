"""Figures: they hold what they were given, and draw without a display."""

import io

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from vijax.evaluate import plots
from vijax.evaluate.metrics import Curves
from vijax.topics.summary import summarise, topic_distances

CONCENTRATION = np.random.default_rng(0).gamma(0.3, 10.0, (7, 40)) + 0.1
TOPICS = summarise(CONCENTRATION, [f"word{i}" for i in range(40)])


def draw(figure):
    file = io.BytesIO()
    figure.savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")
    return figure


def test_word_bars_have_the_probabilities():
    figure = draw(plots.topic_words(TOPICS, num_words=5, most=6))
    assert len(figure.axes) == 6
    widths = [bar.get_width() for bar in figure.axes[0].patches]
    np.testing.assert_allclose(widths, TOPICS[0].probabilities[:5])
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == list(
        TOPICS[0].words[:5]
    )


def test_sizes_are_in_per_cent_and_add_up():
    bars = draw(plots.topic_sizes(TOPICS)).axes[0].patches
    np.testing.assert_allclose(sum(bar.get_width() for bar in bars), 100.0)


@pytest.mark.parametrize("number", [0, 1, 120])
def test_curves_of_any_length(number):
    epochs = np.arange(float(number))
    curves = Curves(epochs, -8.0 + 0.01 * epochs, epochs, -7.0 + 0.0 * epochs, 0.1 + 0.0 * epochs)
    left, right = draw(plots.curves(curves)).axes
    np.testing.assert_array_equal(right.lines[0].get_ydata(), curves.elbo)
    assert "held-out" in left.get_title(loc="left")


@pytest.mark.parametrize("number", [1, 2, 7])
def test_map_and_heat_map_for_few_and_many_topics(number):
    topics = summarise(CONCENTRATION[:number], None)
    places = draw(plots.topic_map(topics)).axes[0].collections[0].get_offsets()
    np.testing.assert_allclose(places, [topic.position for topic in topics])
    probs = CONCENTRATION[:number] / CONCENTRATION[:number].sum(axis=1, keepdims=True)
    ax = draw(plots.topic_similarity(topic_distances(probs), topics)).axes[0]
    image = ax.images[0].get_array()
    np.testing.assert_array_equal(image.mask, np.eye(number, dtype=bool))  # nothing to compare
    np.testing.assert_allclose(image, image.T)
    labels = [
        [label.get_text() for label in axis.get_ticklabels()] for axis in (ax.xaxis, ax.yaxis)
    ]
    assert labels[0] == labels[1]
    assert sorted(labels[0]) == sorted(topic.label for topic in topics)
