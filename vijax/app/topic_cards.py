"""Topics on the page of a run: a map of likeness, sizes, and a card each, with typical documents and a search box."""

from __future__ import annotations

from collections.abc import Sequence

from vijax.app.svg import Bubble, bubble_map, escape
from vijax.summary import Document, Topic

NUM_WORDS = 12

SEARCH = """
const box = document.getElementById("search"), none = document.getElementById("none");
box.addEventListener("input", () => {
  const wanted = box.value.trim().toLowerCase();
  let shown = 0;
  for (const topic of document.querySelectorAll(".topic")) {
    topic.hidden = !topic.dataset.words.includes(wanted);
    shown += !topic.hidden;
  }
  none.hidden = shown > 0;
});
"""


def sections(topics: Sequence[Topic]) -> str:
    """All of it."""
    return f"{_overview(topics)}\n{_topics(topics)}\n<script>{SEARCH}</script>"


def _overview(topics: Sequence[Topic]) -> str:
    bubbles = [
        Bubble(*topic.position, topic.share, " ".join(topic.words[:2]), f"#topic-{topic.number}", _hover(topic))
        for topic in topics
    ]
    largest = max([topic.share for topic in topics] + [1e-300])
    rows = "".join(
        f'<li><a href="#topic-{t.number}"><span class="label">{escape(t.label)}</span>'
        f'{_bar(t.share / largest)}<span class="number">{100 * t.share:.1f} %</span></a></li>'
        for t in topics
    )
    return (
        '<h2>Topics at a glance</h2><div class="pair">'
        '<section class="card"><h3>Likeness</h3><p class="note">Topics that use the same words lie close together '
        "(Jensen-Shannon distance, laid out in two dimensions). Area is size. Click to read.</p>"
        f"{bubble_map(bubbles)}</section>"
        '<section class="card"><h3>Sizes</h3><p class="note">Share of all words that each topic accounts for.</p>'
        f'<ol class="sizes">{rows}</ol></section></div>'
    )


def _hover(topic: Topic) -> str:
    return f"Topic {topic.number}, {100 * topic.share:.1f} %: {', '.join(topic.words[:8])}"


def _bar(share: float) -> str:
    return f'<span class="bar"><i style="width:{100 * share:.1f}%"></i></span>'


def _topics(topics: Sequence[Topic]) -> str:
    cards = "".join(_topic(topic) for topic in topics)
    return (
        f'<div class="heading"><h2>The {len(topics)} topics, largest first</h2>'
        '<input id="search" type="search" placeholder="Find a word in the topics" aria-label="Find a word"></div>'
        '<p class="note">A topic is a distribution over words, a document is a mixture of topics. The most probable '
        "words of each; numbers are per cent of the words of the topic.</p>"
        f'<div class="grid-of-topics">{cards}</div>'
        '<p id="none" class="note" hidden>No topic has that word on its list.</p>'
    )


def _topic(topic: Topic) -> str:
    most = max(topic.probabilities[0], 1e-300)
    words = "".join(
        f'<li><b>{escape(word)}</b>{_bar(p / most)}<span class="number">{_percent(p)}</span></li>'
        for word, p in list(zip(topic.words, topic.probabilities, strict=True))[:NUM_WORDS]
    )
    searchable = escape(" ".join(topic.words).lower())
    return (
        f'<article class="card topic" id="topic-{topic.number}" data-words="{searchable}">'
        f"<header><h3>{escape(topic.label)}</h3><span>topic {topic.number} · {100 * topic.share:.1f} %</span></header>"
        f'<ol class="words">{words}</ol>{_documents(topic.documents)}</article>'
    )


def _percent(p: float) -> str:
    return f"{100 * p:.1f}" if p >= 0.0995 else f"{100 * p:.2f}"


def _documents(documents: Sequence[Document]) -> str:
    if not documents:
        return ""
    items = "".join(
        f"<li><strong>{escape(doc.title)}</strong> <span>({100 * doc.share:.0f} %)</span>"
        + (f"<p>{escape(doc.excerpt)}</p>" if doc.excerpt else "")
        + "</li>"
        for doc in documents
    )
    return f"<details><summary>Most typical documents</summary><ol>{items}</ol></details>"
