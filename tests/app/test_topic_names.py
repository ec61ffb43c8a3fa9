"""Seed words and names of topics, from the configuration to every output."""

from types import SimpleNamespace

import pytest

from vijax.app.cli import main
from vijax.app.drawing import blocks
from vijax.app.plan.config import ConfigError, load_config
from vijax.app.sources.topic_names import build_with_seeds, name_topics
from vijax.topics.summary import Topic

SEEDS = 'model.seed_words=["money: shares", "pets: Cats, dogs"]'


def test_a_run_names_its_topics_everywhere(tmp_path, capsys):
    texts, run = tmp_path / "texts.csv", tmp_path / "run"
    rows = [
        f"{text},{kind}"
        for text, kind in (("cats and dogs", "pets"), ("shares and bonds", "money")) * 12
    ]
    texts.write_text("text,kind\n" + "\n".join(rows) + "\n")
    settings = ["model.num_topics=2", "data.max_df=1.0", "num_epochs=10", "fit.batch_size=8", SEEDS]
    assert (
        main(["fit", "lda_svi", "--data", str(texts), "--out", str(run), "--set", *settings]) == 0
    )
    assert "money: shares bonds" in capsys.readouterr().out
    assert main(["report", str(run), "--name", "1: animals"]) == 0  # kept in config.toml
    capsys.readouterr()
    for command in (
        ["summary", run],
        ["topics", run],
        ["topics", run, "--format", "md"],
        ["shares", run, "--by", "kind"],
    ):
        assert main([*map(str, command)]) == 0
        said = capsys.readouterr().out
        assert "animals: " in said
        assert "money: " in said
    labels = [line.split(",")[-3:] for line in (run / "doc_topics.csv").read_text().splitlines()]
    assert labels[0] == ["topic_label", "share_0", "share_1"]
    assert {label for label, *_ in labels[1:]} == {"animals", "money"}
    page = (run / "report.html").read_text()
    assert '"name":"animals","label":"animals"' in page
    assert "1 animals</a>" in page
    listed = (run / "tables" / "topics_list.csv").read_text()
    assert "\n1,animals," in listed
    assert "\n0,money," in listed
    assert "money,12,0,money," in (run / "tables" / "topics_by_kind.csv").read_text()
    assert {"held_out_score.csv", "elbo_per_word.csv"} <= {
        path.name for path in (run / "tables").iterdir()
    }


def test_tables_call_topics_by_their_names():
    topics = [Topic(k, 0.5, (f"word{k}",), (1.0,), (0.0, 0.0)) for k in range(2)]
    shown = [
        blocks.Topics("", topics, [[0, 1], [1, 0]]),
        blocks.Table("", ["", ""], [["0 word0", "1 word1"]]),
    ]
    assert name_topics(shown, {1: "film"})[1].rows == [["0 word0", "1 film"]]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            'page.names=["7: film"]',
            'page.names: expected lines such as "0: sport", with the number of a topic, 0 to 1',
        ),
        ('model.learn=["eta"]', "model.seed_words: seed words are part of eta"),
    ],
)
def test_what_does_not_go_together_is_refused(setting, words):
    with pytest.raises(ConfigError, match=words):
        load_config("lda", ["model.num_topics=2", SEEDS, setting])


def test_words_without_commas_between_them():
    settings = SimpleNamespace(seed_words=("cats dogs",), num_topics=2, eta=0.1, seed_weight=1.0)
    with pytest.raises(
        ConfigError, match=r"got 1 others.* Commas are between the words of a topic"
    ):
        build_with_seeds(settings, SimpleNamespace(names=("cats", "dogs")))
