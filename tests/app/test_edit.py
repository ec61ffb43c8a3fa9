"""`vijax edit`: a run whose topics are merged, split and named; and the words of `vijax topics`."""

import csv
import json
import re

import numpy as np
import pytest

import vijax as vi
from tests.naming import check_names
from vijax.app.cli import main
from vijax.app.drawing.words import page_words, word_order
from vijax.app.report.embedded import read_concentration
from vijax.app.runs.topic_edits import read_groups

THEMES = ["cat dog paw fur", "share bond bank fund", "goal ball team match"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("edit")
    rng = np.random.default_rng(0)
    rows = []
    for _ in range(150):
        first, second = rng.choice(3, 2, replace=False)
        words = [*rng.choice(THEMES[first].split(), 8), *rng.choice(THEMES[second].split(), 4)]
        rows.append(" ".join(words))
    (folder / "texts.csv").write_text("text\n" + "\n".join(rows) + "\n")
    settings = ["model.num_topics=4", "data.max_df=1.0", "data.held_out=0.2", "num_epochs=20"]
    settings += ['model.seed_words=["animals: cat, dog"]', "fit.batch_size=40"]
    words = ["fit", "lda_svi", "--data", str(folder / "texts.csv"), "--out", str(folder / "run")]
    assert main([*words, "--set", *settings]) == 0
    return folder / "run"


@pytest.mark.slow
def test_a_run_is_edited_into_another(run, tmp_path, capsys):
    out = tmp_path / "edited"
    words = ["edit", str(run), "--merge", "1 3", "--name", "2: other", "--out", str(out)]
    assert main(words) == 0
    loaded, before = vi.load(out), vi.load(run)
    assert {topic.number: topic.name for topic in loaded.topics()} == {
        0: "animals",
        1: "",
        2: "other",
    }
    shares = [np.asarray(x.transform(None).found["share"]) for x in (loaded, before)]
    together = shares[1][:, 1] + shares[1][:, 3]
    assert np.corrcoef(shares[0][:, 1], together)[0, 1] > 0.9  # they are inferred anew
    with (out / "doc_topics.csv").open() as file:
        header, *rows = csv.reader(file)
    np.testing.assert_allclose(
        np.array([row[header.index("share_1")] for row in rows], float), shares[0][:, 1], atol=1e-5
    )
    noted = json.loads((out / "versions.json").read_text())
    assert noted["edits"] == {"merge": [[1, 3]], "names": ["2: other"]}
    page = (out / "report.html").read_text()
    assert "A tree of the topics" in page
    assert '"frex"' in page
    capsys.readouterr()
    assert main(["evaluate", str(out), "--data", str(run.parent / "texts.csv")]) == 0
    assert main(["compare", str(run), str(out)]) == 0
    said = capsys.readouterr().out
    assert "C_V" in said
    assert "exclusivity" in said
    config = (out / "config.toml").read_text()
    assert "alpha = [0.1, 0.2, 0.1]" in config
    (out / "config.toml").write_text(config.replace("num_epochs = 20", "num_epochs = 22"))
    assert main(["resume", str(out)]) == 0
    split = tmp_path / "split"
    assert main(["edit", str(out), "--split", "1", "--out", str(split)]) == 0
    assert len(vi.load(split).topics()) == 4


AVERAGED = """
[model]
name = "lda"
num_topics = 3
[data]
path = "{path}"
max_df = 1.0
held_out = 0.2
[fit]
num_epochs = 6
restarts = 2
combine = "average"
"""


@pytest.mark.slow
def test_a_run_of_topics_in_time_is_edited(tmp_path, capsys):
    """The page explores all words of both runs, with their counts over all slices."""
    rng = np.random.default_rng(0)
    rows = [
        f"{1990 + i % 3},{' '.join(rng.choice(THEMES[i % 2].split(), 12))} {THEMES[2]}"
        for i in range(90)
    ]
    (tmp_path / "texts.csv").write_text("year,text\n" + "\n".join(rows) + "\n")
    settings = ["model.num_topics=3", "data.max_df=1.0", "num_epochs=15", "data.time=year"]
    settings += ["fit.restarts=1", "model.drift=[0.05, 0.1, 0.2]"]
    words = ["fit", "dtm", "--data", str(tmp_path / "texts.csv"), "--out", str(tmp_path / "run")]
    assert main([*words, "--set", *settings]) == 0
    out = tmp_path / "edited"
    words = ["edit", str(tmp_path / "run"), "--merge", "0 1", "--name", "2: sport"]
    assert main([*words, "--out", str(out)]) == 0
    assert "sport" in capsys.readouterr().out
    before, after = (read_concentration(folder) for folder in (tmp_path / "run", out))
    assert before.shape == (3, 12)
    np.testing.assert_allclose(after, [before[0] + before[1], before[2]], rtol=1e-4, atol=1e-4)
    assert main(["transform", str(out), "--data", str(tmp_path / "texts.csv")]) == 0


@pytest.mark.slow
def test_edits_of_a_run_that_averages_two_fits(run, tmp_path, capsys):
    """New names keep both fits; other edits say that one of them is edited, with its score, also on
    the page, and have no held-out curve of the average."""
    config = tmp_path / "averaged.toml"
    config.write_text(AVERAGED.format(path=run.parent / "texts.csv"))
    folders = {name: str(tmp_path / name) for name in ("run", "named", "ordered")}
    assert main(["fit", str(config), "--out", folders["run"]]) == 0
    assert main(["edit", folders["run"], "--name", "1: one", "--out", folders["named"]]) == 0
    assert "the better one alone" not in capsys.readouterr().err
    assert main(["edit", folders["run"], "--order", "2", "--out", folders["ordered"]]) == 0
    said = capsys.readouterr()
    score = float(re.search(r"document completion\): (-[\d.]+)", said.out)[1])
    average, named = (vi.load(folders[name]) for name in ("run", "named"))
    assert len(named.fit.members) == 2
    shares = lambda loaded: np.asarray(loaded.transform(None).found["share"])
    np.testing.assert_array_equal(shares(named), shares(average))
    single, both = re.search(
        r"averages 2 fits.*: (-[\d.]+) of that fit, (-[\d.]+) of", said.err
    ).groups()
    np.testing.assert_allclose(float(single), score, atol=0.015)  # draws by the order of topics
    assert float(both) > float(single) + 0.02
    page = (tmp_path / "ordered" / "report.html").read_text()
    check_names(page, "Before the edit", "The run averages 2 fits")
    assert not (tmp_path / "ordered" / "tables" / "held_out_score.csv").exists()
    assert (tmp_path / "named" / "tables" / "held_out_score.csv").exists()


@pytest.mark.slow
def test_words_of_topics_by_several_orders(run, capsys):
    for order in ("probability", "relevance", "frex", "lift", "score"):
        assert main(["topics", str(run), "--words", order, "--num-words", "3"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 4
    assert main(["topics", str(run), "--tree"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("100 %\n")
    assert said.count("animals") == 1
    assert main(["topics", str(run), "--tree", "--format", "json"]) == 2
    assert "--tree: the tree has all topics" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--merge", "1 x"], '--merge: expected groups such as "3 7"'),
        (["--merge", "1 9"], "merge: expected numbers of topics, 0 to 3"),
        (["--name", "sport"], '--name: page.names: expected lines such as "0: sport"'),
        ([], "edit: expected --merge, --drop, --split, --order or --name"),
        (["--drop", "0", "1", "2", "3"], "drop: expected at least one topic"),
    ],
)
def test_wrong_edits_leave_no_folder(run, tmp_path, capsys, words, message):
    assert main(["edit", str(run), *words, "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_page_holds_the_first_words_of_each_order():
    rng = np.random.default_rng(1)
    weights = rng.gamma(0.3, 30, (3, 40))
    names = [f"w{i}" for i in range(40)]
    words = page_words(weights, names, shown=5)
    for order in ("frex", "lift", "score"):
        best = np.argsort(-word_order(weights, order), 1, kind="stable")[:, :5]
        for k, leading in enumerate(words.leading):
            told = [words.names[leading.places[i]] for i in leading.orders[order]]
            assert told == [names[v] for v in best[k]]
    assert read_groups(["3,7", "1 4 5"]) == [[3, 7], [1, 4, 5]]
