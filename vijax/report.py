"""A self-contained page of a run: topics, curves, sizes, a map of likeness, typical documents, settings.

Everything is inline (style, charts, a dozen lines of script for the search box), so the file works offline, by mail and
for ever.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import NamedTuple

from vijax.metrics import Curves, over_a_pass
from vijax.summary import Document, Topic
from vijax.svg import Bubble, Series, bubble_map, line_chart

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


class Report(NamedTuple):
    """What the page shows.

    Attributes:
      title: of the page.
      lead: a sentence under it.
      facts: the tiles: name and value; a value may have a small remark after a "|".
      topics: largest first.
      curves: what `vijax.metrics.read_curves` gives.
      settings: files to show folded away, by their names.
    """

    title: str
    lead: str
    facts: Mapping[str, str]
    topics: Sequence[Topic]
    curves: Curves
    settings: Mapping[str, str]


def render(report: Report) -> str:
    """The page, as one string of HTML."""
    style = resources.files("vijax").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(report.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"{_header(report)}\n{_curves(report.curves)}\n{_overview(report.topics)}\n{_topics(report.topics)}\n"
        f"{_settings(report.settings)}\n"
        "<footer>Made by vijax. A topic is a distribution over words, a document is a mixture of topics.</footer>\n"
        "</main>\n"
        f"<script>{SEARCH}</script>\n</body>\n</html>\n"
    )


def _header(report: Report) -> str:
    tiles = "".join(_fact(name, value) for name, value in report.facts.items())
    return (
        f'<header><h1>{_text(report.title)}</h1><p class="lead">{_text(report.lead)}</p>'
        f'<dl class="facts">{tiles}</dl></header>'
    )


def _fact(name: str, value: str) -> str:
    value, _, remark = value.partition("|")
    small = f" <small>{_text(remark.strip())}</small>" if remark else ""
    return f"<div><dt>{_text(name)}</dt><dd>{_text(value.strip())}{small}</dd></div>"


def _curves(curves: Curves) -> str:
    charts = []
    if len(curves.held_out_score):
        series = Series(curves.held_out_epoch, curves.held_out_score, curves.held_out_error, marks=True)
        note = "Document completion, nats per word, higher is better; the band is one standard error."
        charts.append(_chart("Held-out score", note, line_chart([series], "passes over the data", "held-out score")))
    if len(curves.elbo):
        series = Series(curves.epoch, over_a_pass(curves))
        note = "The bound that training maximises, nats per word, averaged over a pass up to each step."
        charts.append(_chart("ELBO per word", note, line_chart([series], "passes over the data", "ELBO per word")))
    return f'<h2>Training</h2><div class="pair">{"".join(charts)}</div>' if charts else ""


def _chart(title: str, note: str, svg: str) -> str:
    return f'<section class="card"><h3>{title}</h3><p class="note">{note}</p>{svg}</section>'


def _overview(topics: Sequence[Topic]) -> str:
    bubbles = [
        Bubble(*topic.position, topic.share, " ".join(topic.words[:2]), f"#topic-{topic.number}", _hover(topic))
        for topic in topics
    ]
    largest = max(topic.share for topic in topics)
    rows = "".join(
        f'<li><a href="#topic-{t.number}"><span class="label">{_text(t.label)}</span>'
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
        '<p class="note">The most probable words of each; numbers are per cent of the words of the topic.</p>'
        f'<div class="grid-of-topics">{cards}</div>'
        '<p id="none" class="note" hidden>No topic has that word on its list.</p>'
    )


def _topic(topic: Topic) -> str:
    most = topic.probabilities[0]
    words = "".join(
        f'<li><b>{_text(word)}</b>{_bar(p / most)}<span class="number">{_percent(p)}</span></li>'
        for word, p in list(zip(topic.words, topic.probabilities, strict=True))[:NUM_WORDS]
    )
    searchable = _text(" ".join(topic.words).lower())
    return (
        f'<article class="card topic" id="topic-{topic.number}" data-words="{searchable}">'
        f"<header><h3>{_text(topic.label)}</h3><span>topic {topic.number} · {100 * topic.share:.1f} %</span></header>"
        f'<ol class="words">{words}</ol>{_documents(topic.documents)}</article>'
    )


def _percent(p: float) -> str:
    return f"{100 * p:.1f}" if p >= 0.0995 else f"{100 * p:.2f}"


def _documents(documents: Sequence[Document]) -> str:
    if not documents:
        return ""
    items = "".join(
        f"<li><strong>{_text(doc.title)}</strong> <span>({100 * doc.share:.0f} %)</span>"
        + (f"<p>{_text(doc.excerpt)}</p>" if doc.excerpt else "")
        + "</li>"
        for doc in documents
    )
    return f"<details><summary>Most typical documents</summary><ol>{items}</ol></details>"


def _settings(settings: Mapping[str, str]) -> str:
    blocks = "".join(
        f"<details><summary>{_text(name)}</summary><pre>{_text(text)}</pre></details>"
        for name, text in settings.items()
    )
    return f'<h2>Settings</h2><section class="card">{blocks}</section>' if blocks else ""


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
