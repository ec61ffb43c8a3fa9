"""The page of a run: complete, self-contained, safe with any text."""

import re
import warnings
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from vijax.app.drawing import blocks, charts
from vijax.app.drawing.blocks import Table, Topics
from vijax.app.drawing.svg import nice_ticks
from vijax.app.drawing.words import page_words
from vijax.app.report.embedded import TopicPage, page_documents
from vijax.app.report.pages import warn_once_of_letters
from vijax.app.report.report import Report, _two_columns, render
from vijax.evaluate.metrics import BOUND_AXIS, Curves
from vijax.topics.summary import Document, summarise, topic_distances

VOCABULARY = ["<b>bold</b>", 'quo"te', "naïve", *(f"word{i}" for i in range(20))]
CONCENTRATION = np.random.default_rng(0).gamma(0.5, 10.0, (5, len(VOCABULARY))) + 0.1
DOCUMENTS = [[Document(f"doc {k} & co", "<script>alert(1)</script>", 0.9)] for k in range(5)]
EPOCHS = np.arange(1.0, 11.0)
CURVES = Curves(EPOCHS, -8 + 0.1 * EPOCHS, EPOCHS, -7 + 0.05 * EPOCHS, np.full(10, 0.02))
COLUMNS = {
    "document": ["<script>alert(2)</script>", *(f"doc {d} & co" for d in range(9))],
    "words": np.arange(10, 110, 10),
    **{
        f"share_{k}": column
        for k, column in enumerate(np.random.default_rng(1).dirichlet(np.ones(5), 10).T)
    },
}


STEPS = [("Other documents", "vijax transform <run> --data FILE")]


def page(concentration=CONCENTRATION, vocabulary=VOCABULARY, curves=CURVES):
    topics = summarise(concentration, vocabulary, documents=DOCUMENTS)
    distances = topic_distances(concentration / concentration.sum(axis=1, keepdims=True))
    shown = [Topics("topics", topics, distances)]
    words = page_words(concentration, vocabulary)
    documents = page_documents(COLUMNS, ["</script>"] * 10, 8) if len(topics) == 5 else None
    explored = TopicPage(topics, distances, words, 1000, documents)
    tiles, settings = {"Words": "1,000 | 40 different"}, {"config.toml": "a < b"}
    return render(
        Report(
            "A title", "A lead.", tiles, tiles, STEPS, shown, curves, settings, explored=explored
        )
    )


class Structure(HTMLParser):
    """Checks that tags close in order, and keeps ids, links and text."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.text = [], [], [], []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids += [values["id"]] if "id" in values else []
        self.links += [values[name] for name in ("href", "src") if name in values]
        if tag not in {"meta", "input"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(text):
    structure = Structure()
    structure.feed(text)
    assert structure.open == []
    return structure


def test_the_page_is_well_formed_and_its_links_lead_somewhere():
    structure = parsed(page())
    assert len(set(structure.ids)) == len(structure.ids)
    inside = [link for link in structure.links if not link.startswith("data:text/csv;")]
    assert all(link.startswith("#") and link[1:] in structure.ids for link in inside)
    assert sum(name.startswith("topic-") for name in structure.ids) == 5


def test_nothing_is_fetched_from_anywhere():
    text = page()
    assert not re.search(r"https?:|//\w|url\(|@import|<link|<img", text.replace("http-equiv", ""))


def test_words_and_documents_are_text_not_markup():
    text = page()
    assert "<b>bold</b>" not in text
    assert "&lt;b&gt;bold&lt;/b&gt;" in text
    assert "<script>alert" not in text
    assert text.count("</script>") == 2  # the data's and the script's own
    assert "a &lt; b" in text


def test_everything_promised_is_there():
    text = "".join(parsed(page()).text)
    for part in (
        "Held-out score",
        "ELBO per word",
        "Map",
        "All topics",
        "8 of 10 documents",
        "vijax transform <run>",
        "config.toml",
    ):
        assert part in text


def test_a_run_without_curves_and_with_one_topic_still_makes_a_page():
    empty = Curves(*(np.zeros(0) for _ in range(5)))
    text = page(CONCENTRATION[:1], [f"word{i}" for i in range(len(VOCABULARY))], empty)
    assert "ELBO" not in text
    assert "nan" not in text.replace("nano", "")


def test_curves_have_a_panel_each_on_a_card_of_full_width():
    x, values = [2000.0, 2001.0, 2002.0], [[1.0, 2.0, 3.0], [30.0, 20.0, 10.0]]
    block = blocks.Curves("Forecasts", "year", ["a", "b"], x, values, values, values)
    html = charts.card(block)
    assert html.startswith('<section class="card wide">')
    assert html.count("<svg") == html.count(">year</text>") == 2
    paths = re.findall(r'class="curve[^"]*" d="M([^"]*)"', html)
    heights = [[float(pair.split(",")[1]) for pair in path.split("L")] for path in paths]
    assert heights[0][0] > heights[0][-1]
    assert heights[1][0] < heights[1][-1]


def test_many_columns_of_words_are_narrow():
    row = ["a", "one two", "x " * 40, "three four", "five", "six"]
    assert '<table class="narrow">' in charts.table(Table("T", ["", *"bcdef"], [row]))
    assert '<table class="narrow">' not in charts.table(Table("T", ["", *"bc"], [row[:3]]))


def test_a_curve_goes_where_its_numbers_say():
    svg = charts.lines(blocks.Lines("", "x", "y", [0.0, 10.0], [1.0, 2.0]))
    (x0, y0), (x1, y1) = re.findall(
        r"(-?[\d.]+),(-?[\d.]+)", re.search(r'class="curve[^"]*" d="M([^"]*)"', svg)[1]
    )
    assert float(x0) < float(x1)
    assert float(y0) > float(y1)  # up is less in SVG


@pytest.mark.parametrize("values", [[], [np.nan], [1.0], [-7.0, np.nan, -6.5], [1e-9, 1e9]])
def test_charts_of_awkward_numbers_hold_only_numbers(values):
    x, y = np.arange(float(len(values))), np.array(values, float)
    svg = charts.lines(blocks.Lines("", "x", "y", x, y, y - 0.1, y + 0.1, x, y))
    assert "nan" not in svg
    assert "inf" not in svg


def test_the_rounding_of_a_bound_that_has_converged_is_not_drawn_as_a_fall():
    """Its axis is a ten-thousandth of it at the least, and numbers of seven digits have room beside
    it."""
    steps = np.arange(8.0)
    svg = charts.lines(
        blocks.Lines("", "x", "y", steps, -9531301.0 - 1e-2 * (steps > 4)), *BOUND_AXIS
    )
    heights = [
        float(y)
        for _, y in re.findall(
            r"(-?[\d.]+),(-?[\d.]+)", re.search(r'class="curve[^"]*" d="M([^"]*)"', svg)[1]
        )
    ]
    assert max(heights) - min(heights) < 1.0
    marks = re.findall(r'class="tick"[^>]*text-anchor="end">([^<]+)<', svg)
    assert 2 <= len(set(marks)) == len(marks)
    assert all(6.2 * len(mark) <= 50 for mark in marks)


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-8.2, -7.7), (3, 3), (0, 0), (1e-6, 2e6)])
def test_ticks_are_round_and_inside(low, high):
    ticks = nice_ticks(low, high)
    assert 1 <= len(ticks) <= 12
    if high > low:
        slack = 1e-6 * (high - low)
        assert all(low - slack <= tick <= high + slack for tick in ticks)


def test_sentences_in_a_table_break_their_lines():
    said = charts.table(Table("Verdict", ["", "", ""], [["verdict", 61 * "a", 1.0]]))
    assert '<td>verdict</td><td class="sentence">aaa' in said
    assert '<td class="number">' in said
    assert (
        ".sentence { white-space: normal"
        in (Path(charts.__file__).parents[1] / "report" / "report.css").read_text()
    )


def test_letters_that_a_font_lacks_are_said_once():
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        with warn_once_of_letters():
            for letter in "कखग":
                warnings.warn(
                    f"Glyph {ord(letter)} missing from font(s) DejaVu Sans.",
                    UserWarning,
                    stacklevel=1,
                )
            warnings.warn("another", UserWarning, stacklevel=1)
    said = [str(each.message) for each in given]
    assert said[0] == "another"
    assert len(said) == 2
    assert said[1].startswith(
        "The pictures in the folder figures have boxes in the place of some letters"
    )


def test_no_card_stands_beside_an_empty_half():
    card = lambda title, wide: charts.frame_card(title, "", "", is_wide=wide)
    cards = [card("a", False), card("b", True), card("c", False), card("d", False)]
    text = _two_columns(cards)
    kinds = re.findall(r'class="card( [^"]*|)"', text)
    assert kinds == [" wide lone", " wide", "", ""]


def test_a_page_without_a_score_or_verdict_says_that_nothing_was_checked():
    steps = [("What may be wrong", "vijax check runs/mine")]
    table = blocks.Table("States", ["state", "share"], [("0", 0.5)])
    hidden = blocks.Table(blocks.TITLE_OF_HIDDEN, ["by", "NDCG@20"], [("this model", 0.4)])
    curves = Curves(*(np.zeros(0) for _ in Curves._fields))
    for shown, next_steps, said in (
        ([table], steps, True),
        ([table, hidden], steps, False),
        ([table], [], False),  # a run that goes on
    ):
        page = render(Report("A title", "A lead.", {}, {}, next_steps, shown, curves, {}))
        assert ("Nothing was held out or checked" in page) == said
        assert ("How sure is it?" in page) == (said or hidden in shown)
