"""A run folder from somebody else: nothing in it runs, nothing is written outside it, what is wrong
is named."""

import base64
import copy
import hashlib
import json
from html.parser import HTMLParser

import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from vijax.app.cli import main
from vijax.app.folder.run_folder import DATA_CHECKSUMS
from vijax.app.plan.config import load_config, write_toml
from vijax.app.report.pages import _page, _topic_page, read_run, summary_text, write_pages
from vijax.evaluate import metrics

FIGURES = True
EVIL = (
    "\"'><script>alert(1)</script><img src=x onerror='alert(1)'>&lt;\x1b[31m\x9b\u202e\ud83d`${1}"
)
TAGS = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "main",
        "header",
        "h1",
        "h2",
        "h3",
        "p",
        "dl",
        "div",
        "dt",
    ),
    *(
        "dd",
        "small",
        "section",
        "svg",
        "line",
        "text",
        "path",
        "circle",
        "rect",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
    ),
    *(
        "td",
        "details",
        "summary",
        "pre",
        "footer",
        "a",
        "ol",
        "li",
        "span",
        "i",
        "b",
        "input",
        "article",
        "strong",
    ),
    *("script", "g", "label", "output", "button", "select", "option"),
}
TOPICS = {
    "kind": "Topics",
    "title": EVIL,
    "topics": [
        [0, 0.6, [EVIL, "b"], [0.5, 0.1], [0.1, 0.2], [[EVIL, EVIL, 0.9]], 0.3, EVIL],
        [1, 0.4, ["c", EVIL], [0.3, 0.1], [-0.3, 0.5], [], None, ""],
    ],
    "distances": [[0.0, 0.7], [0.7, 0.0]],
    "note": EVIL,
}
BLOCKS = [
    {
        "kind": "Table",
        "title": EVIL,
        "header": [EVIL, "n"],
        "rows": [[EVIL, 1.5], [None, 2]],
        "note": EVIL,
    },
    {
        **{
            "kind": "Lines",
            "title": EVIL,
            "x_label": EVIL,
            "y_label": EVIL,
            "x": [0.0, 1.0],
            "y": [1.0, 2.0],
        },
        **{
            "low": [0.0, 1.0],
            "high": [2.0, 3.0],
            "points_x": [0.5],
            "points_y": [None],
            "note": EVIL,
        },
    },
    {
        **{
            "kind": "Scatter",
            "title": EVIL,
            "x_label": EVIL,
            "y_label": EVIL,
            "x": [0.0, None],
            "y": [1.0, 2.0],
        },
        **{"classes": [0, 1], "outlines": [[0, [0.0, 1.0], [0.0, 1.0]]], "note": EVIL},
    },
    {
        "kind": "Intervals",
        "title": EVIL,
        "labels": [EVIL],
        "mean": [1.0],
        "deviation": [0.5],
        "note": EVIL,
        "most": 4,
    },
    {
        "kind": "Heat",
        "title": EVIL,
        "rows": [EVIL],
        "columns": [EVIL],
        "values": [[0.5]],
        "note": EVIL,
        "apart": True,
    },
    {
        "kind": "Images",
        "title": EVIL,
        "labels": [EVIL],
        "images": [[[0.5, 1.0]]],
        "height": 1,
        "width": 2,
        "note": EVIL,
    },
    {
        **{
            "kind": "Curves",
            "title": EVIL,
            "x_label": EVIL,
            "names": [EVIL],
            "x": [0.0, 1.0],
            "values": [[1.0, 2.0]],
        },
        **{"lowest": [[None, 1.0]], "highest": [[None, 3.0]], "note": EVIL},
    },
    {"kind": "Tree", "title": EVIL, "names": [EVIL, EVIL], "joins": [[0, 1, 0.5]], "note": EVIL},
    {"kind": "Arcs", "title": EVIL, "names": [EVIL, EVIL], "edges": [[0, 1, 0.5]], "note": EVIL},
    {"kind": "Strips", "title": EVIL, "labels": [EVIL], "states": [[0, 0, 1, -1]], "note": EVIL},
    {
        **{
            "kind": "Course",
            "title": EVIL,
            "columns": [EVIL],
            "values": [[0.5, None]],
            "states": [0, 1],
        },
        **{"probabilities": [[0.5, 0.5], [0.5, None]], "note": EVIL},
    },
]
RESULT = {
    "run": {DATA_CHECKSUMS: {"sha256": EVIL}},
    "status": EVIL,
    "step": 2,
    "skipped": 0,
    "usable": True,
    "seconds": 1.5,
    "score": [-1.0, 0.1],
    "score_text": f"-1.0 nats per {EVIL}",
}
FACTS = {
    "lda": {"documents": 3, "held_out": 1, "tokens": 30, "vocabulary": 4, "sha256": EVIL},
    "mixture": {
        **{
            "rows": 9,
            "columns": [EVIL, "x"],
            "groups": 2,
            "group": EVIL,
            "target": EVIL,
            "classes": [EVIL, "b"],
        },
        **{"missing": 1, "held_out": 1, "sha256": EVIL},
    },
}


def folder_of(path, model, result):
    path.mkdir()
    (path / "plain.toml").write_text(f"[model]\nname = '{model}'\n")
    config = load_config(
        path / "plain.toml", [f"data.path={json.dumps('</pre><script>x</script>')}"]
    )
    (path / "plain.toml").unlink()
    (path / "config.toml").write_text(write_toml(config))
    for name, value in (("data", FACTS[model]), ("versions", {EVIL: EVIL}), ("result", result)):
        (path / f"{name}.json").write_text(json.dumps(value))
    step = {"kind": "step", "elbo_per_word": -2.0, "elbo_per_datum": -2.0, "seconds": 1.0}
    metrics.append(
        path / "metrics.jsonl",
        [{**step, "step": 1, "epoch": 0.5}, {**step, "step": 2, "epoch": 1.0}],
    )
    score = {"kind": "held_out", "step": 2, "epoch": 1.0, "score": -1.0, "standard_error": 0.1}
    metrics.append(path / "metrics.jsonl", [score])
    return path


@pytest.fixture(params=["lda", "mixture"])
def folder(tmp_path, request):
    return folder_of(tmp_path / "run", request.param, result_of(request.param))


def result_of(model):
    return RESULT | {"blocks": [TOPICS] if model == "lda" else BLOCKS}


def leaves_of(model):
    """The path of every leaf of a result, each block in a result of its own: pages are as small as
    what they show."""
    bare = RESULT | {"blocks": []}
    yield from ((bare, path) for path in places(bare))
    for block in result_of(model)["blocks"]:
        yield from ((bare | {"blocks": [block]}, path) for path in places([block], ("blocks",)))


class Safe(HTMLParser):
    """Reads a page as a browser does; keeps its scripts, and refuses what runs or leads
    anywhere."""

    def __init__(self):
        super().__init__()
        self.scripts, self.policy, self.inside, self.text = [], "", None, ""

    def handle_starttag(self, tag, attributes):
        assert tag in TAGS, tag
        values = dict(attributes)
        assert not any(name.startswith("on") for name in values), values
        assert values.get("href", "#").startswith(("#", "data:text/csv"))
        assert "download" in values or not values.get("href", "#").startswith("data:")
        assert "src" not in values
        if values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        self.inside = "data" if values.get("type") == "application/json" else tag
        self.scripts += [""] if self.inside == "script" else []

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        self.text += "" if self.inside == "data" else data
        if self.inside == "data":
            assert "<" not in data
            json.loads(data)
        if self.inside == "script":
            self.scripts[-1] += data


def check(page):
    """No script but the page's own, which its policy knows by its digest; what it reads is JSON,
    and no markup."""
    parser = Safe()
    parser.feed(page)
    digest = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in parser.scripts
    ]
    assert len(digest) <= 1
    assert all(f"script-src 'sha256-{value}'" in parser.policy for value in digest)
    assert "default-src 'none'" in parser.policy
    assert "alert(1)" not in "".join(parser.scripts)
    return parser


def test_a_page_of_hostile_text_in_every_field_has_no_script_but_its_own(folder):
    parser = check(write_pages(folder).read_text())
    assert parser.text.count("<script>alert(1)</script>") >= 8  # shown, as text
    for path in (folder / "summary.txt", folder / "report.html"):
        path.read_bytes().decode()  # UTF-8, half a surrogate pair or not
    assert {path.suffix for path in (folder / "figures").iterdir()} == {".png"}


def places(value, path=()):
    """The path of every leaf."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))
    else:
        yield path


def put(value, path, new):
    changed = copy.deepcopy(value)
    inside = changed
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = new
    return changed


@pytest.mark.parametrize("model", ["lda", "mixture"])
@pytest.mark.parametrize(
    "wrong", [EVIL, [EVIL], {"a": EVIL}, 10**400, float("inf"), 1e308, None, True]
)
def test_anything_anywhere_in_the_result_is_refused_or_shown_as_text(tmp_path, model, wrong):
    """Where a number belongs there may be markup, and nothing but the reader stands in its way."""
    folder = folder_of(tmp_path / "run", model, {})
    refused = 0
    for result, path in leaves_of(model):
        (folder / "result.json").write_text(json.dumps(put(result, path, wrong)))
        try:
            run = read_run(folder)
            page = _page(run, metrics.read_curves(folder / "metrics.jsonl"), _topic_page(run))
            summary_text(run)
        except ValueError as error:
            refused += "result.json" in str(error)
        else:
            check(page)
    assert refused > 0 or wrong in (None, True, 1e308)


@pytest.mark.parametrize("model", ["lda", "mixture"])
@pytest.mark.parametrize("wrong", [EVIL, [EVIL], None])
def test_anything_in_the_facts_of_the_data_is_refused_or_shown_as_text(tmp_path, model, wrong):
    folder = folder_of(tmp_path / "run", model, result_of(model))
    refused = []
    for path in places(FACTS[model]):
        facts = put(FACTS[model], path, wrong)
        noted = {DATA_CHECKSUMS: {"sha256": str(facts["sha256"])}}
        (folder / "data.json").write_text(json.dumps(facts))
        (folder / "result.json").write_text(json.dumps(result_of(model) | {"run": noted}))
        try:
            run = read_run(folder)
            page = _page(run, metrics.read_curves(folder / "metrics.jsonl"), _topic_page(run))
        except ValueError as error:
            refused.append(str(error))
        else:
            check(page)
    assert all("data.json: damaged" in message for message in refused)
    assert refused  # a number there must be


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense", "[" * 5000, '{"status": 1}'])
def test_a_damaged_result_is_named_with_a_remedy(folder, text, capsys):
    (folder / "result.json").write_text(text)
    assert main(["summary", str(folder)]) == 2
    assert "result.json: " in capsys.readouterr().err


def test_what_reaches_the_terminal_obeys_nothing(folder, capsys):
    assert main(["summary", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "\\x1b[31m" in shown
    assert not {"\x1b", "\x9b", "\u202e", "\ud83d"} & set(shown)
    assert main(["summary", f"{folder}/\x1b[31m"]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_links_in_the_folder_lead_no_write_anywhere(folder, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    names = ["summary.txt", "report.html", "figures/curves.png"]
    (folder / "figures").mkdir()
    for name in names:
        (folder / name).symlink_to(precious)
    write_pages(folder)
    assert precious.read_text() == "keep me"
    assert all(
        (folder / name).stat().st_size > 0 and not (folder / name).is_symlink() for name in names
    )


def test_a_folder_of_figures_that_is_a_link_is_refused(folder, tmp_path, capsys):
    (tmp_path / "elsewhere").mkdir()
    (folder / "figures").symlink_to(tmp_path / "elsewhere")
    assert main(["report", str(folder)]) == 2
    assert "figures is a link to another folder" in capsys.readouterr().err
    assert list((tmp_path / "elsewhere").iterdir()) == []
