"""What the page of topics embeds: words by relevance, documents, groups, places on the map."""

import json

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")
pytest.importorskip("pyarrow")

from tests.naming import check_names, naming
from vijax.app.answers.shares import page_groups
from vijax.app.cli import main
from vijax.app.drawing.bubbles import move_apart
from vijax.app.drawing.words import GRID, page_words
from vijax.app.plan.config import ConfigError
from vijax.app.report.embedded import TopicPage, page_documents, to_json_text
from vijax.app.sources.doc_topics import read_doc_topics, read_excerpts, write_excerpts
from vijax.topics.summary import summarise, topic_distances

RNG = np.random.default_rng(0)
TOPICS = RNG.gamma(0.1, 20.0, (4, 60)) + 0.01
VOCABULARY = [f"w{i}" for i in range(60)]
COLUMNS = {
    "document": [f"d{i}" for i in range(40)],
    "section": ["news", "sport"] * 20,
    "day": [f"2024-{1 + i // 20:02d}-{1 + i % 20:02d}" for i in range(40)],
    "id": [str(i) for i in range(40)],
    "year": ["1999", "2000"] * 20,
    "words": np.full(40, 50.0),
    **{f"share_{k}": column for k, column in enumerate(RNG.dirichlet(np.full(4, 0.3), 40).T)},
}


@pytest.mark.parametrize("shown", [1, 5, 60])
def test_at_every_stop_of_the_slider_the_leading_words_are_those_of_the_equation(shown):
    """Relevance is computed in another way here: from probabilities, over all words."""
    found = page_words(TOPICS, VOCABULARY, most=3, shown=shown)
    probs, overall = TOPICS / TOPICS.sum(1, keepdims=True), TOPICS.sum(0) / TOPICS.sum()
    for weight in GRID:
        for k, (places, log_probs, _) in enumerate(found.leading):
            score = weight * np.log(probs[k]) + (1 - weight) * np.log(probs[k] / overall)
            expected = [VOCABULARY[i] for i in np.argsort(-score)[:shown]]
            kept = log_probs - (1 - weight) * found.log_overall[places]
            assert [found.names[places[i]] for i in np.argsort(-kept)[:shown]] == expected


def test_the_lexicon_has_the_frequent_words_and_says_how_many_it_lacks():
    found = page_words(TOPICS, VOCABULARY, most=10, shown=2)
    frequent = [VOCABULARY[i] for i in np.argsort(-TOPICS.sum(0))[:10]]
    assert set(frequent) <= set(found.names)
    assert found.left_out == 60 - len(found.names) > 0
    assert sorted(found.log_overall, reverse=True) == found.log_overall.tolist()


def test_uses_of_a_word_are_shares_of_it():
    found = page_words(TOPICS, VOCABULARY)
    for name, uses in zip(found.names, found.uses, strict=True):
        column = TOPICS[:, VOCABULARY.index(name)] / TOPICS[:, VOCABULARY.index(name)].sum()
        assert [k for k, _ in uses] == [k for k in np.argsort(-column) if column[k] >= 0.01]
        np.testing.assert_allclose([share for _, share in uses], np.sort(column)[::-1][: len(uses)])


def test_documents_that_use_a_topic_most_are_always_kept():
    shares = np.stack([COLUMNS[f"share_{k}"] for k in range(4)], axis=1)
    found = page_documents(COLUMNS, [f"text {i}" for i in range(40)], 12)
    assert found.total == 40
    assert len(found.titles) == 12
    for k, typical in enumerate(found.typical):
        best = int(shares[:, k].argmax())
        assert found.titles[typical[0][0]] == f"d{best}"
        assert found.excerpts[typical[0][0]] == f"text {best}"
        assert typical[0][1] == shares[best, k]
    assert page_documents(COLUMNS, [], 0) is None
    assert page_documents(COLUMNS, ["of another number"], 40).excerpts == ()


def test_columns_of_few_values_and_of_dates_make_groups_by_themselves():
    beside = ["section", "day", "id", "year"]
    found = {group.by: group for group in page_groups(COLUMNS, beside)}
    assert list(found) == ["section", "day", "year"]
    assert [found[name].in_time for name in found] == [False, True, True]
    assert (found["day"].every, found["year"].every) == ("day", None)
    assert page_groups(COLUMNS, beside, ["day"], "month")[0].shares.groups == ("2024-01", "2024-02")
    assert page_groups(COLUMNS, beside, []) == []
    with pytest.raises(
        ConfigError,
        match=naming("page.by:", "'sections'", "'section'"),
    ):
        page_groups(COLUMNS, beside, ["sections"])


def test_shares_by_group_are_embedded_with_their_errors():
    found = page_groups(COLUMNS, ["section"])
    topics = summarise(TOPICS, VOCABULARY, coherence=np.array([0.1, -0.2, np.nan, 0.3]))
    probs = TOPICS / TOPICS.sum(1, keepdims=True)
    explored = TopicPage(
        topics, topic_distances(probs), page_words(TOPICS, VOCABULARY), 1000, None, found
    )
    read = json.loads(to_json_text(explored))
    news = np.array([COLUMNS[f"share_{k}"][::2] for k in range(4)])
    np.testing.assert_allclose(
        np.array(read["groups"][0]["share"][0]) / read["whole"], news.mean(axis=1), atol=1e-5
    )
    error = np.sqrt(20 / 19 * ((news - news.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)) / 20
    np.testing.assert_allclose(
        np.array(read["groups"][0]["error"][0]) / read["whole"], error, atol=1e-5
    )
    by_number = {topic["number"]: topic for topic in read["topics"]}
    assert [by_number[k]["coherence"] for k in range(4)] == [0.1, -0.2, None, 0.3]
    nearest = np.argsort(topic_distances(probs)[2])[1]
    assert by_number[2]["alike"][0][0] == nearest


def test_discs_of_many_topics_are_numbered_without_overlap():
    points = 260 + 150 * RNG.uniform(-1, 1, (80, 2))
    points[1] = points[0]  # on one spot
    half = np.tile([9.0, 7.0], (80, 1))
    moved = move_apart(points, half, 0.0, 520.0)
    overlap = (2 * half[0] - np.abs(moved[:, None] - moved[None]) > 0.1).all(axis=-1)
    assert overlap.sum() == 80  # each with itself
    assert (np.abs(moved - 260) <= 260).all()
    crowd = 260 + RNG.normal(0, 15, (200, 2))  # too many for small moves
    moved = move_apart(crowd, np.tile([13.3, 7.0], (200, 1)), 2.0, 518.0)
    apart = np.abs(moved[:, None] - moved[None]) / [26.6, 14.0]
    assert (apart.max(axis=-1) + np.eye(200) > 0.999).all()
    assert np.corrcoef(crowd[:, 0], moved[:, 0])[0, 1] > 0.7  # it still is a map
    alone = np.array([[10.0, 10.0], [400.0, 30.0]])
    np.testing.assert_array_equal(move_apart(alone, half[:2], 0.0, 520.0), alone)


def test_the_file_of_topics_of_documents_keeps_columns_as_they_are_written(tmp_path):
    path = tmp_path / "doc_topics.csv"
    path.write_text('document,zip,words,topic,share_0\n"a\nb",007,3,0,1\nc,,4,0,\n')
    found = read_doc_topics(path)
    assert found["document"] == ["a\nb", "c"]
    assert found["zip"] == ["007", ""]
    np.testing.assert_array_equal(found["words"], [3, 4])
    np.testing.assert_array_equal(found["share_0"], [1, np.nan])


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "document,words,share_0\na,b,c\n", "document,words,share_0\na,1\n"]
)
def test_a_damaged_file_is_named_with_a_remedy(tmp_path, text):
    path = tmp_path / "doc_topics.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"doc_topics.csv: (damaged|expected columns)"):
        read_doc_topics(path)


def test_excerpts_are_read_as_they_were_written(tmp_path):
    path = tmp_path / "excerpts.json"
    assert read_excerpts(path) == []
    write_excerpts(path, ["One\nline", "\ud83d"])
    assert read_excerpts(path) == ["One\nline", "\ud83d"]
    path.write_text("{}")
    with pytest.raises(ConfigError, match=r"excerpts.json: damaged: expected a list"):
        read_excerpts(path)


# --- a run ----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts") / "texts.csv"
    kinds = [("sun rain wind", "weather"), ("goal team match", "sport")] * 30
    lines = [
        f"note {i},{words} secret{i % 7},{section}" for i, (words, section) in enumerate(kinds)
    ]
    path.write_text("\n".join(["title,text,section", *lines]) + "\n")
    return path


def fitted(texts, out, *settings):
    given = [
        "model.num_topics=2",
        "fit.num_epochs=2",
        "fit.batch_size=27",
        "data.min_df=1",
        "data.max_df=1.0",
        *settings,
    ]
    return main(["fit", "lda", "--data", str(texts), "--out", str(out), "--set", *given])


def test_a_run_explores_its_documents_by_their_columns(texts, tmp_path, capsys):
    assert fitted(texts, tmp_path / "run") == 0
    page = (tmp_path / "run" / "report.html").read_text()
    read = json.loads(page.partition('id="explored">')[2].partition("</script>")[0])
    assert read["documents"]["titles"] == [f"note {i}" for i in range(60)]
    assert read["documents"]["excerpts"][0] == "sun rain wind secret0"
    assert [group["by"] for group in read["groups"]] == ["section"]
    assert all(topic["coherence"] is not None for topic in read["topics"])
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("# by = (unset)", 'by = ["sections"]'))
    capsys.readouterr()
    assert main(["report", str(tmp_path / "run")]) == 2
    check_names(capsys.readouterr().err, "page.by:", "'sections'", "'section'")
    (tmp_path / "run" / "posterior.npz").write_bytes(b"x")
    config.write_text(config.read_text().replace("sections", "section"))
    assert main(["report", str(tmp_path / "run")]) == 2
    assert "posterior.npz: missing or damaged" in capsys.readouterr().err


def test_a_run_may_keep_no_text(texts, tmp_path, capsys):
    assert fitted(texts, tmp_path / "other", 'page.by=["sections"]') == 2
    check_names(capsys.readouterr().err, "page.by:", "'sections'", "'section'")
    assert not (tmp_path / "other").exists()
    assert (
        fitted(texts, tmp_path / "run", "page.excerpts=false", "page.by=[]", "page.documents=5")
        == 0
    )
    kept = b"".join(
        path.read_bytes()
        for path in (tmp_path / "run").rglob("*")
        if path.suffix in (".json", ".html", ".csv")
    )
    assert b"secret0" not in kept
    assert b"5 of 60 documents" in kept
