"""The page in a real browser, by clicks: what it shows is compared with numbers computed here.

Wanted: Python's playwright, and a Chromium or Chrome (CONTRIBUTING says how); without them these
tests are skipped. VIJAX_SCREENSHOTS names a folder for pictures of the pages."""

import csv
import json
import os
import re
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")
pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed; see CONTRIBUTING.md"
)

from playwright import sync_api

from vijax.app.cli import main
from vijax.app.drawing import blocks
from vijax.app.drawing.words import page_words
from vijax.app.report.embedded import TopicPage, page_documents
from vijax.app.report.report import Report, render
from vijax.evaluate.metrics import Curves
from vijax.topics.summary import summarise, topic_distances

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SIZES = {"wide": (1280, 900), "narrow": (360, 780)}
ODD = 'Café, "<b>résumé</b>"'
ALPHABET = "abcdefghijklmnopqrstuvwxyz"
THEMES = [
    ["rain", "storm", "cloud", "wind", "snow", "thunder", "fog", "frost", "hail", "sleet"],
    [
        "goal",
        "match",
        "team",
        "player",
        "league",
        "coach",
        "season",
        "stadium",
        "referee",
        "striker",
    ],
    ["bank", "loan", "market", "share", "profit", "dividend", "broker", "bond", "credit", "stock"],
]


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as tool:
        found = os.environ.get("VIJAX_BROWSER") or next(
            filter(None, map(shutil.which, BROWSERS)), None
        )
        try:
            started = tool.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except sync_api.Error as error:
            pytest.skip(
                "no browser starts: install chromium (see CONTRIBUTING.md) or set VIJAX_BROWSER; "
                f"{error}"[:300]
            )
        yield started
        started.close()


class Opened:
    """A page in the browser, with what it has said and asked for."""

    def __init__(self, browser, path, size="wide", dark=False, fragment=""):
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            accept_downloads=True,
        )
        self.page = self.context.new_page()
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(f"file://{path}{fragment}")

    def texts(self, selector):
        return [
            re.sub(r"\s+", " ", text).strip()
            for text in self.page.locator(selector).all_text_contents()
        ]

    def slide(self, weight):
        self.page.locator("#relevance").fill(str(weight))
        self.page.wait_for_timeout(100)

    def saved(self, selector):
        with self.page.expect_download() as download:
            self.page.locator(selector).click()
        with open(download.value.path(), newline="", encoding="utf-8") as file:
            return download.value.suggested_filename, list(csv.reader(file))

    def overflow(self):
        return self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    def close(self):
        """Nothing has gone wrong, and nothing was fetched."""
        self.context.close()
        assert self.said == []
        assert [url for url in self.asked if not url.startswith(("file:", "data:", "blob:"))] == []


@pytest.fixture
def open_page(browser):
    opened = []

    def open_one(*arguments, **named):
        opened.append(Opened(browser, *arguments, **named))
        return opened[-1]

    yield open_one
    for page in opened:
        page.close()


# --- a run of topics ------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Three themes of ten words each, documents by section and month."""
    folder, rng = tmp_path_factory.mktemp("topics"), np.random.default_rng(0)
    with open(folder / "texts.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["title", "text", "section", "day"])
        for d in range(120):
            weights = np.arange(10, 0, -1.0)
            own = rng.choice(THEMES[d % 3], rng.integers(15, 45), p=weights / weights.sum())
            other = rng.choice(THEMES[(d + 1) % 3], 6)
            title = ODD if d == 7 else f"{ALPHABET[d % 26]} report {d}"
            day = f"2024-{1 + d // 20:02d}-{1 + d % 20:02d}"
            writer.writerow(
                [title, " ".join([*own, *other]), ("weather", "sport", "money")[d % 3], day]
            )
    settings = [
        "model.num_topics=3",
        "fit.num_epochs=30",
        "fit.batch_size=40",
        "data.min_df=1",
        "data.max_df=1.0",
    ]
    given = [
        "--data",
        str(folder / "texts.csv"),
        "--out",
        str(folder / "run"),
        "--set",
        *settings,
        "page.every=month",
    ]
    assert main(["fit", "lda", *given]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def truth(run):
    """What the run holds, read without the code that makes the page."""
    with np.load(run / "posterior.npz") as arrays:
        concentration = arrays["topics/concentration"].astype(float)
    words = (run / "vocabulary.txt").read_text().split("\n")[:-1]
    with open(run / "doc_topics.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return concentration, words, rows


def leading(truth, k, weight, count):
    concentration, words, _ = truth
    p = concentration[k] / concentration[k].sum()
    overall = concentration.sum(axis=0) / concentration.sum()
    order = np.argsort(-(weight * np.log(p) + (1 - weight) * np.log(p / overall)))
    return [words[i] for i in order[:count]]


def per_cent(text):
    """The number at the end of a text."""
    return float(re.search(r"([\d.]+) %$", text)[1])


def shares(truth):
    return np.array([[float(row[f"share_{k}"]) for k in range(3)] for row in truth[2]])


def test_the_slider_orders_words_by_relevance(run, truth, open_page):
    opened = open_page(run / "report.html")
    for weight in (0.6, 0.0, 0.3, 1.0):
        opened.slide(weight)
        assert opened.texts("#relevance-value") == [str(weight).removesuffix(".0")]
        for k in range(3):
            shown = opened.texts(f"tr[data-topic='{k}'] .leading")
            assert shown == [", ".join(leading(truth, k, weight, 8))]
        chosen = int(opened.page.locator("tr.chosen").get_attribute("data-topic"))
        assert opened.texts("#topic .words b") == leading(truth, chosen, weight, 30)


def test_a_click_on_a_disc_shows_its_topic(run, truth, open_page):
    opened = open_page(run / "report.html")
    concentration, _, rows = truth
    share = concentration.sum(axis=1) / concentration.sum()
    assert sorted(opened.texts(".map .name")) == ["0", "1", "2"]
    for k in (2, 0, 1):
        opened.page.locator(f".map a[href='#topic-{k}'] circle").click()
        assert opened.page.url.endswith(f"#topic-{k}")
        assert (
            f"topic {k} · {100 * share[k]:.1f} % of all words"
            in opened.texts("#topic header span")[0]
        )
        assert opened.texts("#topic .words b")[0] == leading(truth, k, 0.6, 1)[0]
        best = rows[int(shares(truth)[:, k].argmax())]["document"]
        assert opened.texts("#topic .documents strong")[0] == best
        p = concentration / concentration.sum(axis=1, keepdims=True)
        distance = topic_distances(p)[k]
        nearest = min((j for j in range(3) if j != k), key=lambda j: distance[j])
        first = opened.texts("#topic .alike li")[0]
        assert first.startswith(f"{nearest} ")
        assert first.endswith(f"{distance[nearest]:.2f}")
    opened.page.go_back()
    assert opened.page.locator("tr.chosen").get_attribute("data-topic") == "0"


def test_the_keyboard_reaches_every_topic_and_a_link_leads_to_one(run, truth, open_page):
    opened = open_page(run / "report.html", fragment="#topic-1")
    assert "topic 1 " in opened.texts("#topic header span")[0]
    disc = opened.page.locator(".map a[href='#topic-2']")
    disc.focus()
    assert opened.texts("#pointed")[0].startswith("Topic 2, ")
    assert ", ".join(leading(truth, 2, 0.6, 8)) in opened.texts("#pointed")[0]
    opened.page.keyboard.press("Enter")
    assert "topic 2 " in opened.texts("#topic header span")[0]


def test_a_word_leads_to_its_topics(run, truth, open_page):
    opened = open_page(run / "report.html")
    concentration, words, _ = truth
    opened.page.locator("#find-word").fill("stRik")
    uses = concentration[:, words.index("striker")] / concentration[:, words.index("striker")].sum()
    assert opened.texts("#found-word h4")[0].startswith("striker")
    found = opened.texts("#found-word [data-topic-of-word]")
    assert [int(text.split()[0]) for text in found] == [
        k for k in np.argsort(-uses) if uses[k] >= 0.01
    ]
    np.testing.assert_allclose(
        list(map(per_cent, found)), 100 * np.sort(uses)[::-1][: len(found)], atol=0.51
    )
    opened.page.locator("#found-word a").first.click()
    assert f"topic {uses.argmax()} " in opened.texts("#topic header span")[0]
    opened.page.locator("#find-word").fill("no such word")
    assert opened.texts("#found-word") == ["No word of this page has that."]


def test_a_document_leads_to_its_topics(run, truth, open_page):
    opened = open_page(run / "report.html")
    opened.page.locator("#find-document").fill('cafe, "<b>RESUME')
    assert opened.texts("#found-document strong") == [ODD]
    place = [row["document"] for row in truth[2]].index(ODD)
    own = shares(truth)[place]
    chips = opened.texts("#found-document .chip")
    assert len(chips) == int((own >= 0.01).sum())
    np.testing.assert_allclose(per_cent(chips[0]), 100 * own.max(), atol=0.51)
    opened.page.locator("#found-document .chip").first.click()
    assert f"topic {own.argmax()} " in opened.texts("#topic header span")[0]
    opened.page.locator("#find-document").fill("thunder")  # a word of the texts
    assert len(opened.texts("#found-document strong")) == 20


@pytest.mark.parametrize("key", ["number", "share", "coherence"])
def test_topics_are_sorted_by_a_click_on_a_column(run, key, open_page):
    opened = open_page(run / "report.html")
    with open(run / "tables" / "topics_list.csv", newline="", encoding="utf-8") as file:
        listed = {int(row["topic"]): row for row in csv.DictReader(file)}
    values = {"number": "topic", "share": "share", "coherence": "coherence_npmi"}
    ascending = sorted(listed, key=lambda k: float(listed[k][values[key]]))
    button = opened.page.locator(f"button[data-sort='{key}']")
    seen = {}
    for _ in range(2):
        button.click()
        order = [
            int(opened.page.locator("tr[data-topic]").nth(i).get_attribute("data-topic"))
            for i in range(3)
        ]
        seen[button.locator("..").get_attribute("aria-sort")] = order
    assert seen == {"ascending": ascending, "descending": ascending[::-1]}


def test_topics_by_group_and_over_time(run, truth, open_page):
    opened = open_page(run / "report.html")
    assert opened.texts("#by option") == ["section", "day"]
    chosen = int(opened.page.locator("tr.chosen").get_attribute("data-topic"))
    words = np.array([float(row["words"]) for row in truth[2]])
    for name, shown in zip(
        opened.texts("#by-group .by b"), opened.texts("#by-group .by .number"), strict=True
    ):
        there = np.array([row["section"] == name for row in truth[2]])
        expected = 100 * (words * shares(truth)[:, chosen])[there].sum() / words[there].sum()
        np.testing.assert_allclose(per_cent(shown), expected, atol=0.51)
    opened.page.locator("#by").select_option("day")
    assert opened.page.locator("#by-group circle").count() == 6
    _, rows = opened.saved("button[data-save='groups']")
    assert rows[0] == ["day", "documents", "topic", "share", "low", "high"]
    assert len(rows) == 1 + 6 * 3
    assert all(float(low) <= float(share) <= float(high) for *_, share, low, high in rows[1:])


def test_what_is_saved_is_what_is_shown(run, truth, open_page):
    opened = open_page(run / "report.html")
    opened.slide(0.25)
    name, rows = opened.saved("button[data-save='words']")
    assert name.endswith("_words.csv")
    assert rows[0][-1] == "relevance at 0.25"
    for k in range(3):
        assert [row[2] for row in rows[1:] if row[0] == str(k)] == leading(truth, k, 0.25, 30)
    concentration, words, _ = truth
    for topic, _, word, probability, *_ in rows[1:20]:
        row = concentration[int(topic)]
        np.testing.assert_allclose(
            float(probability), row[words.index(word)] / row.sum(), rtol=1e-3
        )
    _, topics = opened.saved("button[data-save='topics']")
    assert [int(row[0]) for row in topics[1:]] == np.argsort(-concentration.sum(axis=1)).tolist()
    _, documents = opened.saved("button[data-save='documents']")
    assert {row[0] for row in documents[1:]} == {row["document"] for row in truth[2]}


def test_all_words_as_bars_follow_the_slider(run, truth, open_page):
    opened = open_page(run / "report.html")
    opened.page.locator("#cards summary").click()
    opened.slide(0)
    opened.page.wait_for_selector("[data-card]")
    for k in range(3):
        assert opened.texts(f"[data-card='{k}'] .words b") == leading(truth, k, 0.0, 12)


def test_the_page_can_be_read_without_scripts(run, truth, browser):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"file://{run / 'report.html'}")
    assert page.locator("tr[data-topic]").count() == 3
    assert page.locator("tr[data-topic='1'] .leading").inner_text() == ", ".join(
        leading(truth, 1, 0.6, 8)
    )
    assert page.locator("#find-word").is_hidden()
    context.close()


def pixels(opened):
    """The colour of the page's background, and of its text."""
    style = "getComputedStyle(document.body)"
    told = [opened.page.evaluate(f"{style}.{name}") for name in ("backgroundColor", "color")]
    return [np.mean([int(part) for part in re.findall(r"\d+", text)[:3]]) for text in told]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dark", [False, True])
def test_narrow_and_dark(run, size, dark, open_page):
    opened = open_page(run / "report.html", size, dark)
    background, ink = pixels(opened)
    assert (background < 60 and ink > 180) if dark else (background > 220 and ink < 80)
    opened.page.locator("#find-word").fill("a")
    opened.page.locator("#find-document").fill("report")
    opened.page.locator("#cards summary").click()
    assert opened.overflow() <= 0
    picture(opened, f"lda_{size}{'_dark' if dark else ''}")


def picture(opened, name):
    folder = os.environ.get("VIJAX_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        opened.page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


# --- other models ---------------------------------------------------------------------------------
def page_of(folder, shown):
    epochs = np.arange(1.0, 30.0)
    curves = Curves(epochs, -8 + 0.1 * epochs, epochs, -7 + 0.05 * epochs, np.full(29, 0.02))
    path = folder / "page.html"
    path.write_text(
        render(
            Report(
                "A title",
                "A lead.",
                {"Rows": "1,000"},
                {"Passes": "3"},
                [("Other rows", "vijax transform runs/a --data FILE --out results.csv")],
                shown,
                curves,
                {"config.toml": "a"},
            )
        )
    )
    return path


@pytest.mark.parametrize("size", SIZES)
def test_blocks_of_other_models_fit_and_save_their_numbers(tmp_path, size, open_page):
    many = [f"a rather long column {i}" for i in range(20)]
    rng = np.random.default_rng(0)
    states = np.repeat([0, 1, 2], 20)
    shown = [
        blocks.Table("Wide", many, rng.normal(size=(5, 20)).tolist()),
        blocks.Heat("Correlations", many, many, np.corrcoef(rng.normal(size=(20, 50))), "", True),
        blocks.Course("States", ["x"], [rng.normal(size=60)], states, np.eye(3)[states].T),
        blocks.Scatter(
            "Points", "x", "y", rng.normal(size=50), rng.normal(size=50), np.arange(50) % 3
        ),
        blocks.Intervals("Weights", many, rng.normal(size=20), np.ones(20)),
    ]
    opened = open_page(page_of(tmp_path, shown), size)
    assert opened.overflow() <= 0
    name, rows = opened.saved("a.save[download='wide.csv']")
    assert name == "wide.csv"
    assert rows[0] == many
    np.testing.assert_array_equal(np.array(rows[1:], float), shown[0].rows)
    diagonal = opened.page.locator("rect[fill-opacity='0.000']").count()
    assert diagonal >= 20
    picture(opened, f"blocks_{size}")


@pytest.mark.parametrize("name", ["hmm", "gmm_full", "gp_poisson", "glm"])
def test_pages_of_other_models(tmp_path, name, open_page):
    assert (
        main(
            [
                "fit",
                name,
                "--out",
                str(tmp_path / "run"),
                "--set",
                "fit.num_epochs=10",
                "fit.restarts=1",
            ]
        )
        == 0
    )
    for size in SIZES:
        for dark in (False, True):
            opened = open_page(tmp_path / "run" / "report.html", size, dark)
            assert opened.overflow() <= 0
            picture(opened, f"{name}_{size}{'_dark' if dark else ''}")


# --- size -----------------------------------------------------------------------------------------
def test_two_hundred_topics_of_twenty_thousand_words(tmp_path, open_page, capsys):
    """How long it takes to load is printed, and judged by a reader: machines differ."""
    rng = np.random.default_rng(0)
    letters = np.array(list(ALPHABET))[rng.integers(0, 26, (20_000, 7))]
    vocabulary = [f"{''.join(row)}{i}" for i, row in enumerate(letters)]
    concentration = rng.gamma(0.02, 50.0, (200, 20_000)) + 0.05
    theta = rng.dirichlet(np.full(200, 0.05), 6000)
    columns = {f"share_{k}": theta[:, k] for k in range(200)}
    columns |= {"document": [f"document {d}" for d in range(6000)], "words": np.full(6000, 100)}
    topics = summarise(concentration, vocabulary)
    probs = concentration / concentration.sum(axis=1, keepdims=True)
    excerpts = [" ".join(vocabulary[i] for i in row) for row in rng.integers(0, 20_000, (6000, 15))]
    documents = page_documents(columns, excerpts, 5000)
    explored = TopicPage(
        topics, topic_distances(probs), page_words(concentration, vocabulary), 10**6, documents
    )
    empty = Curves(*(np.zeros(0) for _ in range(5)))
    begun = time.perf_counter()
    path = tmp_path / "large.html"
    path.write_text(render(Report("Large", "", {}, {}, [], [], empty, {}, explored=explored)))
    made = time.perf_counter() - begun
    opened = open_page(path)
    timing = json.loads(
        opened.page.evaluate("JSON.stringify(performance.getEntriesByType('navigation')[0])")
    )
    begun = time.perf_counter()
    opened.slide(0.2)
    slid = time.perf_counter() - begun - 0.1
    begun = time.perf_counter()
    opened.page.locator("#find-word").fill("abc")
    searched = time.perf_counter() - begun
    with capsys.disabled():
        print(
            f"\nK = 200, V = 20,000, 5,000 documents: {path.stat().st_size / 1e6:.2f} MB, made in "
            f"{made:.1f} s, loaded "
            f"in {timing['loadEventEnd'] / 1000:.2f} s, slid in {slid:.2f} s, searched in "
            f"{searched:.2f} s"
        )
    assert opened.page.locator(".map circle").count() == 200
    assert opened.page.locator("tr[data-topic]").count() == 200
    assert "5,000 of 6,000 documents" in opened.page.content()
    picture(opened, "large")
