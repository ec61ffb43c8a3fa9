"""Runs that find the number of components first, by `model.grow`."""

import json

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from tests.app.small_runs import write_inputs
from tests.naming import check_names
from vijax.app.cli import main

CONFIG = """
[model]
name = "dp_mixture"
num_components = 6
grow = true
emission.name = "diagonal_gaussian"

[data]
path = {path}
held_out = 0.0

[fit]
num_epochs = 4
"""


@pytest.fixture
def config(tmp_path):
    write_inputs(tmp_path)
    path = tmp_path / "grown.toml"
    path.write_text(CONFIG.format(path=json.dumps(str(tmp_path / "rows.csv"))))
    return path


def test_components_that_hold_rows_are_found_before_the_first_step(config, capsys):
    assert main(["fit", str(config), "--out", str(config.parent / "run")]) == 0
    shown = capsys.readouterr()
    assert "Moves: birth of 0: accepted" in shown.err
    assert "Moves: 2 components of 6 hold rows" in shown.err
    assert "components in use      2" in shown.out
    # A run of fewer steps that goes on does not grow again, and comes to the same end.
    parts = config.parent / "parts"
    assert main(["fit", str(config), "--out", str(parts), "--set", "num_epochs=2"]) == 0
    settings = parts / "config.toml"
    settings.write_text(settings.read_text().replace("num_epochs = 2", "num_epochs = 4"))
    capsys.readouterr()
    assert main(["resume", str(parts)]) == 0
    assert "Moves:" not in capsys.readouterr().err
    whole, other = (np.load(folder / "posterior.npz") for folder in (config.parent / "run", parts))
    for name in whole.files:
        np.testing.assert_array_equal(other[name], whole[name])


TOPICS = """
[model]
name = "hdp"
num_topics = 4
eta = 0.5
grow = true

[algorithm]
name = "cavi"

[data]
path = {path}
held_out = 0.0

[fit]
num_epochs = 2
"""
STATES = """
[model]
name = "hdp_hmm"
num_states = 4
grow = true
emission.name = "unit_gaussian"

[data]
path = {path}
group = "who"
held_out = 0.0

[fit]
num_epochs = 2
"""


def write_documents(folder):
    words = "red green blue sun", "cat dog cow hen"
    draw = np.random.default_rng(0)
    lines = [
        json.dumps({"text": " ".join(draw.choice(words[i % 2].split(), 12))}) for i in range(24)
    ]
    (folder / "rows.jsonl").write_text("\n".join(lines))
    return folder / "rows.jsonl"


def write_sequences(folder):
    y = np.random.default_rng(0).normal(size=60) + 9 * (np.arange(60) // 10 % 2)
    lines = ["who,y", *(f"{i // 20},{number:.6g}" for i, number in enumerate(y))]
    (folder / "rows.csv").write_text("\n".join(lines))
    return folder / "rows.csv"


@pytest.mark.parametrize(
    ("text", "write", "said"),
    [
        (TOPICS, write_documents, "2 topics of 4 hold words"),
        (STATES, write_sequences, "2 states of 4 hold steps"),
    ],
    ids=["hdp", "hdp_hmm"],
)
def test_so_are_topics_and_states(text, write, said, tmp_path, capsys):
    path = tmp_path / "grown.toml"
    path.write_text(text.format(path=json.dumps(str(write(tmp_path)))))
    assert main(["fit", str(path), "--out", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr()
    assert f"Moves: {said}" in shown.err
    lines = shown.out.splitlines()
    if "states" in said:
        printed = " ".join(shown.out.split())
        assert "2 of 4 states hold no step and are left out." in printed
        assert lines[lines.index("Transitions") + 1].split() == ["0", "1"]
        return
    assert ["%  " in line for line in lines[:3]] == [True, True, False]
    assert lines[2] == "2 more topics hold no words"
    assert main(["topics", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out.splitlines()[2] == "2 more topics hold no words"
    page = (tmp_path / "run" / "report.html").read_text()
    assert "The 2 topics of 4 that hold words" in page
    assert page.count("<tr id=") == 2


def test_seed_words_do_not_go_with_growth(tmp_path, capsys):
    path = tmp_path / "grown.toml"
    path.write_text(TOPICS.format(path=json.dumps(str(write_documents(tmp_path)))))
    assert (
        main(
            [
                "fit",
                str(path),
                "--out",
                str(tmp_path / "run"),
                "--set",
                "model.seed_words=['a: red, sun']",
            ]
        )
        == 2
    )
    check_names(capsys.readouterr().err, "model.seed_words:", "model.grow")


@pytest.mark.parametrize(
    ("setting", "fragments"),
    [
        ("fit.restarts=2", "fit.restarts: expected 1 with model.grow, got 2"),
        ("algorithm.name=svi", "algorithm.name: expected cavi with model.grow, got svi"),
    ],
)
def test_what_does_not_go_with_growth_is_refused(setting, fragments, config, capsys):
    assert main(["fit", str(config), "--out", str(config.parent / "run"), "--set", setting]) == 2
    assert fragments in capsys.readouterr().err
    assert not (config.parent / "run").exists()
