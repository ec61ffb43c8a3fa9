"""The page of claims is that of its data, and every figure, file, option and test that it names is
there."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE = runpy.run_path(str(ROOT / "docs" / "claims.py"))
DATA = MADE["read"]()
AGAIN = "Run `python docs/claims.py`."
CLAIM = {
    "place": "Figure 2",
    "ours": "{1 | gap} nats with {5 | gap}, at 1,120 steps.",
    "source": "results_small_steps.md#Step sizes",
}


def test_the_page_and_the_index_are_up_to_date():
    assert (ROOT / "docs" / "claims.md").read_text() == "\n".join(MADE["page"]()) + "\n", AGAIN
    assert MADE["index"]() in (ROOT / "README.md").read_text(), AGAIN


def test_every_figure_is_in_its_source():
    assert len(DATA["claim"]) > 100
    for claim in DATA["claim"]:
        assert claim["paper"] in DATA["papers"]
        assert claim["verdict"] in MADE["VERDICTS"]
        assert MADE["ours"](claim)
        assert "source" in claim or claim["verdict"] == "not tried", claim["place"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ours": "{1 | gap} nats at 1,121 steps"}, "Figure 2: 1,121 not in results_small_steps"),
        ({"ours": "{3 | gap}"}, "no cell '3', 'gap'"),
        (
            {"ours": "{Above:} steps of {the different constant}"},
            "no number after 'the different constant'",
        ),
        ({"source": "results_small_steps.md#Sizes"}, "there is no such heading"),
    ],
)
def test_a_figure_that_is_not_there_is_an_error(change, said):
    assert re.fullmatch(r"\S+ nats with \S+, at 1,120 steps\.", MADE["ours"](CLAIM))
    with pytest.raises(ValueError, match=said):
        MADE["ours"](CLAIM | change)


def test_every_command_is_one():
    for claim in DATA["claim"]:
        run = MADE["command"](claim, DATA["commands"])
        if not run:
            assert claim["verdict"] == "not tried", claim["place"]
            continue
        kind, path = re.match(r"(python|pytest -m '') (\S+)", run).groups()
        text = (ROOT / path).read_text()
        if kind == "python":
            words = run.split()[2:]
            assert all(f'"{word}"' in text for word in words if word.startswith("--")), run
        else:
            names = re.findall(r"test_\w+", run.split("-k")[1])
            assert names, run
            assert all(f"def {name}(" in text for name in names), run
