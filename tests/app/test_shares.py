"""Topics by group and over time."""

import numpy as np
import pytest

from tests.naming import check_names, naming
from vijax.app.answers import results
from vijax.app.answers.shares import group_shares, page_groups, tables
from vijax.app.cli import main
from vijax.app.drawing.blocks import text
from vijax.app.plan.config import ConfigError
from vijax.topics.summary import Topic

DOCUMENTS = {
    "words": [10, 30, 20, 0, 40],
    "share_0": [1.0, 0.5, 0.0, 0.5, 0.25],
    "share_1": [0.0, 0.5, 1.0, 0.5, 0.75],
    "stars": ["10", "9", "9", "9", "10"],
    "day": ["2024-01-30", "2024-01-31T08:00", "2024-02-01", "2024-02-01", ""],
}

TOPICS = [
    Topic(0, 0.4, ("sun",), (1.0,), (0.0, 0.0)),
    Topic(1, 0.6, ("dog",), (1.0,), (0.0, 0.0), name="pets"),
]


def test_shares_are_of_words_with_the_error_of_a_ratio():
    """Of group 10: 10 words all of topic 0, 40 of which 10; by hand, residuals (6, -6) over two
    documents."""
    found = group_shares(DOCUMENTS, "stars")
    assert found.groups == ("9", "10")  # as numbers; the document without words is left out
    assert found.documents.tolist() == [2, 2]
    np.testing.assert_allclose(found.share, [[15 / 50, 35 / 50], [20 / 50, 30 / 50]])
    np.testing.assert_allclose(found.error[1], np.sqrt(2 / 1 * (6.0**2 + 6.0**2)) / 50)


def test_dates_make_groups():
    assert group_shares(DOCUMENTS, "day", "month").groups == ("2024-01", "2024-02", "")
    assert group_shares(DOCUMENTS, "day", "year").groups == ("2024", "")
    assert group_shares(DOCUMENTS, "day", "day").groups == (
        "2024-01-30",
        "2024-01-31",
        "2024-02-01",
        "",
    )


def test_a_group_of_one_document_has_no_interval():
    found = group_shares(DOCUMENTS, "day", "month")
    columns = found.columns({0: "sun", 1: "pets"})
    assert columns["group"] == ["2024-01"] * 2 + ["2024-02"] * 2 + [""] * 2
    assert np.isnan(columns["low"][2:]).all()
    assert 0 <= columns["low"][0] < columns["share"][0] < columns["high"][0] <= 1
    _, table = tables(found, "day", TOPICS, 80)
    assert table.rows[1] == ["2024-02", 1, "0.0", "100.0"]
    assert table.rows[2][0] == "(none)"


def test_a_table_fits_the_screen_and_says_what_it_leaves_out():
    words, table = tables(group_shares(DOCUMENTS, "day", "month"), "day", TOPICS[::-1], 40)
    assert words.rows == [[1, "pets: dog"]]  # the largest
    assert table.header == ["day", "documents", "topic 1"]
    assert [row[2] for row in table.rows][:2] == ["37.5 ± 30.8", "100.0"]
    check_names(table.note, "1", "--out")
    assert max(map(len, text([table]).splitlines()[:-1])) <= 40


@pytest.mark.parametrize(
    ("by", "every", "words"),
    [
        (
            "star",
            None,
            "--by: expected a column of the documents, got 'star'; known: 'words', 'stars', 'day'",
        ),
        ("share_0", None, "--by: expected a column"),
        (
            "stars",
            "month",
            "--every month: expected dates such as 2024-05-31 in column 'stars', got '10'",
        ),
    ],
)
def test_what_is_no_group_is_refused(by, every, words):
    with pytest.raises(ConfigError, match=words):
        group_shares(DOCUMENTS, by, every)


def test_documents_without_words_are_refused():
    with pytest.raises(ConfigError, match="none of the documents has words"):
        group_shares({**DOCUMENTS, "words": [0] * 5}, "stars")


def test_of_a_run(tmp_path, capsys):
    """By a column beside the texts; the file of the run and the texts themselves say the same."""
    texts = tmp_path / "texts.csv"
    rows = [
        f"{text},{kind}"
        for text, kind in (("cats and dogs", "pets"), ("shares and bonds", "money")) * 12
    ]
    texts.write_text("text,kind\n" + "\n".join(rows) + "\n")
    settings = ["model.num_topics=2", "data.max_df=1.0", "num_epochs=10", "fit.batch_size=8"]
    run = str(tmp_path / "run")
    assert main(["fit", "lda_svi", "--data", str(texts), "--out", run, "--set", *settings]) == 0
    capsys.readouterr()
    assert main(["shares", run, "--by", "kind"]) == 0
    said = capsys.readouterr().out
    assert "Topics by kind" in said
    assert "Topics, largest first" in said
    assert main(["shares", run, "--by", "kind", "--data", str(texts)]) == 0
    assert capsys.readouterr().out == said
    assert main(["shares", run, "--by", "kind", "--out", str(tmp_path / "shares.csv")]) == 0
    lines = (tmp_path / "shares.csv").read_text().splitlines()
    assert lines[0] == "group,documents,topic,label,share,low,high"
    assert [line.split(",")[:3] for line in lines[1:]] == [
        ["money", "12", "0"],
        ["money", "12", "1"],
        ["pets", "12", "0"],
        ["pets", "12", "1"],
    ]


def test_the_page_of_a_run_on_very_many_documents_is_made_of_a_sample_and_says_so(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(results, "MOST_ROWS", 20)
    monkeypatch.setattr(results, "SAMPLE", 12)
    texts = tmp_path / "texts.csv"
    rows = [
        f"{text},{kind}"
        for text, kind in (("cats and dogs", "pets"), ("shares and bonds", "money")) * 12
    ]
    texts.write_text("text,kind\n" + "\n".join(rows) + "\n")
    settings = ["model.num_topics=2", "data.max_df=1.0", "num_epochs=10", "fit.batch_size=8"]
    run = tmp_path / "run"
    assert (
        main(["fit", "lda_svi", "--data", str(texts), "--out", str(run), "--set", *settings]) == 0
    )
    assert "24 documents are many" in (said := capsys.readouterr().err)
    assert "The page shows 12 of them, evenly spread" in said
    assert not (run / "doc_topics.csv").exists()
    assert len((run / "doc_topics_sample.csv").read_text().splitlines()) == 13
    page = (run / "report.html").read_text()
    assert "12 of 24 documents are on this page" in page
    check_names(page, "12", "doc_topics_sample.csv")
    assert (
        "Made of 12 documents, evenly spread. The topics of all documents: vijax transform." in page
    )
    assert "cats and dogs" in page  # how documents begin
    assert main(["transform", str(run), "--out", str(run / "doc_topics.csv")]) == 0
    assert main(["report", str(run)]) == 0  # of all of them, once the file is there
    page = (run / "report.html").read_text()
    assert "evenly spread" not in page
    assert "pets" in page


@pytest.mark.parametrize(
    ("days", "months"),
    [
        (["19.02.2013", "3.3.2013", "4.3.2013", ""], ("2013-02", "2013-03", "")),
        (["2/19/2013", "3/3/2013", "3/4/2013", None], ("2013-02", "2013-03", "")),
        (["2013-02", "2013-03", "2013-03", ""], ("2013-02", "2013-03", "")),
        (["19 Feb 2013", "3 March 2013", "4 Mar 2013", ""], ("2013-02", "2013-03", "")),
        (
            ["2013-02-19T23:30-05:00", "2013-03-03", "2013-03-04 10:00", ""],
            ("2013-02", "2013-03", ""),
        ),
    ],
)
def test_dates_in_the_usual_ways_of_writing_make_months(days, months):
    """The chart was left out of the page without a word, and `shares --every` refused them."""
    columns = {
        "words": [10, 20, 20, 5],
        "share_0": [1, 0.5, 0.0, 1],
        "share_1": [0, 0.5, 1.0, 0],
        "day": days,
    }
    assert group_shares(columns, "day", "month").groups == months
    found = page_groups(columns, ["day"])
    assert [(group.in_time, group.every) for group in found] == [(True, "day")]
    assert len(found[0].shares.groups) == len({str(day or "") for day in days})


def test_a_cell_without_a_date_does_not_hide_the_others_and_doubtful_ones_are_refused():
    days = [f"2013-02-{d:02d}" for d in range(1, 20)] + ["n.d."]
    columns = {"words": [10] * 20, "share_0": [1.0] * 20, "day": days}
    assert group_shares(columns, "day", "month").groups == ("2013-02", "")
    assert len(page_groups(columns, ["day"])) == 1
    doubtful = {"words": [10, 10], "share_0": [1.0, 1.0], "day": ["5/6/2013", "7/8/2013"]}
    with pytest.raises(ConfigError, match=naming("2024-05-31", "'day'", "'5/6/2013'")):
        group_shares(doubtful, "day", "month")
