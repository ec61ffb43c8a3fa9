"""The page of a run in one file: facts, results (`vijax.app.drawing.blocks`), curves, settings.

Style, charts, and for topics the script and its data are in the page, so the file works offline and
by mail. Content from data or from a run folder is always text: the functions that make markup take
text and numbers and escape them (`vijax.app.drawing.svg.escape`), and the page's policy lets no
other script run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from vijax.app.drawing import blocks, charts
from vijax.app.drawing.blocks import (
    TITLE_OF_EDIT,
    TITLE_OF_HIDDEN,
    TITLE_OF_MEASURES,
    TITLE_OF_QUALITY,
    TITLE_OF_VERDICT,
)
from vijax.app.drawing.svg import escape
from vijax.app.report import frame
from vijax.app.report.embedded import TopicPage
from vijax.evaluate.metrics import BOUND_AXIS, LONG, Curves, average_last_pass, axis_low
from vijax.evaluate.units import explain_unit, name_measure

PASSES = "passes over the data"


class Report(NamedTuple):
    """The content of the page.

    Attributes:
      title: title of the page.
      lead: a sentence under it.
      facts: the tiles: name and value; a value may have a small remark after a "|".
      course: tiles of the course of the fit, for experts.
      next_steps: what can be done next, and the command that does it.
      shown: the blocks of results.
      curves: curves from `vijax.evaluate.metrics.read_curves`.
      settings: texts of files, shown folded, by name.
      per: unit of bounds.
      score_unit: unit of scores.
      explored: the topics, if the run has some.
    """

    title: str
    lead: str
    facts: Mapping[str, str]
    course: Mapping[str, str]
    next_steps: Sequence[tuple[str, str]]
    shown: Sequence[blocks.Block]
    curves: Curves
    settings: Mapping[str, str]
    per: str = "word"
    score_unit: str = "nats per word"
    explored: TopicPage | None = None


def render(report: Report) -> str:
    """The page, as one string of HTML."""
    style = resources.files("vijax.app.report").joinpath("report.css").read_text(encoding="utf-8")
    script = ""
    script_element = ""
    if report.explored:
        style += frame.style()
        script = frame.script()
        script_element = f"<script>{script}</script>\n"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(report.title)}</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f"{_header(report)}\n{_results(report)}\n"
        f"{_next_steps(report.next_steps)}\n{_course(report)}\n"
        f"{_settings(report.settings)}\n<footer>Made by "
        f"vijax.</footer>\n</main>\n{script_element}</body>\n</html>\n"
    )


def _policy(script: str) -> str:
    """The page's policy for a browser: run its own script only, fetch nothing, send nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; base-uri "
        "'none'; form-action 'none'"
    )


def _header(report: Report) -> str:
    return (
        f'<header><h1>{escape(report.title)}</h1><p class="lead">{escape(report.lead)}</p>'
        f"{_tiles(report.facts)}</header>"
    )


def _tiles(facts: Mapping[str, str]) -> str:
    """A tile for each fact."""
    tiles = ""
    for name, fact in facts.items():
        value, _, remark = fact.partition("|")
        small = f" <small>{escape(remark.strip())}</small>" if remark else ""
        tiles += f"<div><dt>{escape(name)}</dt><dd>{escape(value.strip())}{small}</dd></div>"
    return f'<dl class="facts">{tiles}</dl>' * bool(facts)


def _results(report: Report) -> str:
    """The results: topics in their own layout, other blocks as cards side by side; then how sure
    they are."""
    topics = frame.sections(report.explored) if report.explored else ""
    results = [block for block in report.shown if not isinstance(block, blocks.Topics)]
    findings = [charts.card(block) for block in results if block.title not in HOW_SURE]
    doubts = [charts.card(block) for block in results if block.title in HOW_SURE]
    if not doubts and report.next_steps:
        doubts = [UNSURE]
    title = "What else was found" if topics else "What was found"
    return topics + _section(title, findings) + _section("How sure is it?", doubts)


UNSURE = (
    '<section class="card"><p>Nothing was held out or checked, so it is not known how well the '
    "model predicts other data. The check below says what may be wrong.</p></section>"
)
"""What stands in place of scores and verdicts where a run has none."""
HOW_SURE = (
    TITLE_OF_MEASURES,
    TITLE_OF_QUALITY,
    TITLE_OF_EDIT,
    TITLE_OF_VERDICT,
    TITLE_OF_HIDDEN,
)
"""Titles of the blocks that say how good a fit is; they follow what it found."""


def _section(title: str, cards: Sequence[str]) -> str:
    """A heading above cards; "" without cards."""
    if not cards:
        return ""
    return f"<h2>{title}</h2>{_two_columns(cards)}"


def _two_columns(cards: Sequence[str]) -> str:
    """Cards in two columns, wide ones across both; so is a card that would stand alone beside an
    empty half."""
    is_wide = [True, *(card.startswith(WIDE_CARD) for card in cards), True]
    text = ""
    for i, card in enumerate(cards):
        is_alone = is_wide[i] and is_wide[i + 2] and not is_wide[i + 1]
        text += card.replace(CARD, LONE_CARD, int(is_alone))
    return f'<div class="cards">{text}</div>'


CARD = '<section class="card"'
WIDE_CARD = '<section class="card wide"'
LONE_CARD = '<section class="card wide lone"'


def _next_steps(steps: Sequence[tuple[str, str]]) -> str:
    """The next things to do, each with its command."""
    if not steps:
        return ""
    rows = "".join(
        f"<li>{escape(purpose)}: <code>{escape(command)}</code></li>" for purpose, command in steps
    )
    return f'<h2>What next</h2><section class="card"><ul class="next">{rows}</ul></section>'


def _course(report: Report) -> str:
    """The course of the fit, for experts: score, passes and time, and curves."""
    curves = training(report.curves, report.per, report.score_unit)
    cards = [charts.card(block, *BOUND_AXIS) for block in curves]
    if not cards and not report.course:
        return ""
    tiles = _tiles(report.course)
    return f"<h2>For experts: how the fit went</h2>{tiles}{_two_columns(cards)}"


def training(curves: Curves, per: str, score_unit: str) -> list[blocks.Lines]:
    """The curves of a run: held-out scores, and the bound; without a wild start of a long curve."""
    curves_to_show = []
    if len(curves.held_out_score):
        note = (
            f"{name_measure(score_unit)}, higher is better; the band is one standard error. "
            f"{explain_unit(score_unit)}"
        )
        x = curves.held_out_epoch
        y = curves.held_out_score
        error = curves.held_out_error
        curves_to_show.append(_curve("Held-out score", note, x, y, y - error, y + error, x, y))
    if len(curves.elbo):
        note = (
            f"The bound that training maximises, nats per {per}, averaged over a pass up to each "
            "step."
        )
        curves_to_show.append(
            _curve(f"ELBO per {per}", note, curves.epoch, average_last_pass(curves))
        )
    return curves_to_show


def _curve(
    title: str, note: str, x: np.ndarray, y: np.ndarray, *more_parts: np.ndarray
) -> blocks.Lines:
    finite = y[np.isfinite(y)]
    is_shown = y >= axis_low(finite) if len(y) > LONG and len(finite) else np.isfinite(y)
    parts: list[Any] = [part[is_shown] for part in (x, y, *more_parts)]
    return blocks.Lines(title, PASSES, title.lower(), *parts)._replace(note=note)


def _settings(settings: Mapping[str, str]) -> str:
    blocks = "".join(
        f"<details><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>"
        for name, text in settings.items()
    )
    if not blocks:
        return ""
    return f'<h2>Settings</h2><section class="card">{blocks}</section>'
