"""A self-contained page of a run: facts, curves, what was found (`vijax.app.blocks`), settings.

Everything is inline (style, charts, a dozen lines of script for the search box), so the file works offline, by mail and
for ever.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import NamedTuple

from vijax.app import blocks, charts, topic_cards
from vijax.app.svg import Series, line_chart
from vijax.metrics import Curves, over_a_pass


class Report(NamedTuple):
    """What the page shows.

    Attributes:
      title: of the page.
      lead: a sentence under it.
      facts: the tiles: name and value; a value may have a small remark after a "|".
      shown: the blocks of what was found.
      curves: what `vijax.metrics.read_curves` gives.
      settings: files to show folded away, by their names.
      per: what bounds are per.
      score_per: what scores are per.
    """

    title: str
    lead: str
    facts: Mapping[str, str]
    shown: Sequence[blocks.Block]
    curves: Curves
    settings: Mapping[str, str]
    per: str = "word"
    score_per: str = "word"


def render(report: Report) -> str:
    """The page, as one string of HTML."""
    style = resources.files("vijax.app").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(report.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"{_header(report)}\n{_curves(report.curves, report.per, report.score_per)}\n{_found(report.shown)}\n"
        f"{_settings(report.settings)}\n<footer>Made by vijax.</footer>\n</main>\n</body>\n</html>\n"
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


def _found(shown: Sequence[blocks.Block]) -> str:
    """Topics have a layout of their own; other blocks are cards side by side."""
    topics = [topic_cards.sections(block.topics) for block in shown if isinstance(block, blocks.Topics)]
    cards = [charts.card(block) for block in shown if not isinstance(block, blocks.Topics)]
    found = f'<h2>What was found</h2><div class="pair">{"".join(cards)}</div>' if cards else ""
    return "".join(topics) + found


def _curves(curves: Curves, per: str, score_per: str) -> str:
    drawn = []
    if len(curves.held_out_score):
        series = Series(curves.held_out_epoch, curves.held_out_score, curves.held_out_error, marks=True)
        measure = "Document completion, nats" if score_per == "word" else "Log predictive density, nats"
        note = f"{measure} per {score_per}, higher is better; the band is one standard error."
        drawn.append(_chart("Held-out score", note, line_chart([series], "passes over the data", "held-out score")))
    if len(curves.elbo):
        series = Series(curves.epoch, over_a_pass(curves))
        note = f"The bound that training maximises, nats per {per}, averaged over a pass up to each step."
        drawn.append(_chart(f"ELBO per {per}", note, line_chart([series], "passes over the data", f"ELBO per {per}")))
    return f'<h2>Training</h2><div class="pair">{"".join(drawn)}</div>' if drawn else ""


def _chart(title: str, note: str, svg: str) -> str:
    return f'<section class="card"><h3>{title}</h3><p class="note">{note}</p>{svg}</section>'


def _settings(settings: Mapping[str, str]) -> str:
    blocks = "".join(
        f"<details><summary>{_text(name)}</summary><pre>{_text(text)}</pre></details>"
        for name, text in settings.items()
    )
    return f'<h2>Settings</h2><section class="card">{blocks}</section>' if blocks else ""


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
