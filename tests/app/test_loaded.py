"""A run of documents used: loaded from anywhere, applied to other documents, its topics written
out."""

import csv
import json
import os

import jax
import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from tests.naming import naming
from vijax.app.cli import main
from vijax.app.rows.transformed import Transformed
from vijax.app.settings.typed_toml import ConfigError
from vijax.fitting.status import Status

BLOCKS = [
    ["apple", "pear", "plum", "fig"],
    ["oak", "elm", "ash", "yew"],
    ["red", "blue", "grey", "pink"],
]
CONFIG = """
[data]
min_df = 1
max_df = 1.0

[model]
num_topics = 3
eta = 0.5

[algorithm]
name = "svi"
estep.name = "mean_field"

[fit]
num_epochs = 8
batch_size = 20
seed = 1
evaluate_every = 0
"""


def reviews(number=66):
    """Texts of one of three blocks of words each, with an identifier and stars."""
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(BLOCKS[i % 3], 8)) for i in range(number)]
    return [{"id": f"{i:04d}", "stars": str(i % 5), "text": text} for i, text in enumerate(texts)]


def write(path, rows):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    write(folder / "reviews.csv", reviews())
    (folder / "small.toml").write_text(CONFIG)
    return folder


@pytest.fixture(scope="module")
def run(inputs):
    """A finished run, whose data are taken away."""
    out = inputs / "run"
    arguments = ["--data", str(inputs / "reviews.csv"), "--out", str(out)]
    assert main(["fit", str(inputs / "small.toml"), *arguments]) == 0
    (inputs / "reviews.csv").rename(inputs / "moved.csv")
    return out


@pytest.fixture(scope="module")
def loaded(run, tmp_path_factory):
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("elsewhere"))
    yield vi.load(run)
    os.chdir(before)


@pytest.fixture(scope="module")
def topic_of_block(loaded):
    """Which topic each block became."""
    return [int(topic) for topic in loaded.predict([" ".join(block) for block in BLOCKS])]


def test_the_run_folder_has_the_topics_of_every_document(run, topic_of_block):
    found = rows_of(run / "doc_topics.csv")
    assert [row["id"] for row in found] == [
        f"{i:04d}" for i in range(66)
    ]  # in the order of the file, as written
    assert [row["stars"] for row in found] == [str(i % 5) for i in range(66)]
    assert list(found[0]) == [
        "document",
        "id",
        "stars",
        "words",
        "topic",
        "topic_label",
        "share_0",
        "share_1",
        "share_2",
    ]
    shares = np.array([[float(row[f"share_{k}"]) for k in range(3)] for row in found])
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
    assert [int(row["topic"]) for row in found] == [topic_of_block[i % 3] for i in range(66)]
    assert {row["words"] for row in found} == {"8"}


def test_a_loaded_run_has_what_the_fit_had(loaded, run, topic_of_block):
    assert sorted(loaded.vocabulary) == sorted(word for block in BLOCKS for word in block)
    with np.load(run / "posterior.npz") as file:
        np.testing.assert_array_equal(
            loaded.fit.posterior["topics"].concentration, file["topics/concentration"]
        )
    for topic in loaded.topics(num_words=4):
        assert set(topic.words) == set(BLOCKS[topic_of_block.index(topic.number)])
        assert 0.9 < sum(topic.probabilities) < 1
    draws = loaded.sample(jax.random.key(0), 5)["topics"]
    assert draws.shape == (5, 3, 12)
    assert "latent Dirichlet allocation (lda)" in repr(loaded)
    assert "finished" in repr(loaded)
    assert len(repr(loaded).splitlines()) == 4


def test_new_documents_get_shares_and_unknown_words_are_counted(loaded):
    found = loaded.transform(["apple fig pear", "oak elm zebra", "zebra"])
    assert found["share"].shape == (3, 3)
    assert found["words"].tolist() == [3, 2, 0]
    np.testing.assert_allclose(
        found["share"][2], 1 / 3, atol=1e-6
    )  # nothing known of it: the prior
    assert (
        "2 of 7 tokens are of words that are not in the vocabulary: they are left out."
        in found.notes
    )
    assert list(found.columns()) == [
        "document",
        "words",
        "topic",
        "topic_label",
        "share_0",
        "share_1",
        "share_2",
    ]
    assert len(found) == 3


def test_a_score_of_other_documents_is_that_of_evaluate(loaded, run, inputs, capsys):
    told = []
    score = loaded.score(str(inputs / "moved.csv"), seed=3, say=told.append)
    assert told == ["Not part of the text: the columns 'id', 'stars'."]
    assert main(["evaluate", str(run), "--data", str(inputs / "moved.csv"), "--seed", "3"]) == 0
    assert capsys.readouterr().out.strip() == str(score)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_the_command_writes_what_python_says(ending, run, loaded, inputs, tmp_path, capsys):
    out = tmp_path / f"new.{ending}"
    assert (
        main(["transform", str(run), "--data", str(inputs / "moved.csv"), "--out", str(out)]) == 0
    )
    assert capsys.readouterr().out.strip() == str(out)
    wanted = loaded.transform(inputs / "moved.csv").columns()
    if ending == "csv":
        rows = rows_of(out)
    elif ending == "jsonl":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    else:
        rows = pytest.importorskip("pyarrow.parquet").read_table(out).to_pylist()
    assert list(rows[0]) == list(wanted)
    assert [row["id"] for row in rows] == list(wanted["id"])
    np.testing.assert_allclose(
        [float(row["share_1"]) for row in rows], wanted["share_1"], rtol=1e-5
    )


def test_all_of_the_own_data_are_read_again_from_where_they_are_now(run, inputs, capsys):
    assert main(["transform", str(run)]) == 2
    error = capsys.readouterr().err
    assert "reviews.csv" in error
    assert "--training PATH" in error
    assert main(["transform", str(run), "--training", str(inputs / "moved.csv")]) == 0
    printed = capsys.readouterr().out
    own = (run / "doc_topics.csv").read_text()
    assert printed.replace("moved.csv", "reviews.csv") == own
    write(inputs / "other.csv", reviews(65))
    assert main(["transform", str(run), "--training", str(inputs / "other.csv")]) == 2
    assert "not those the run began with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "fragments"),
    [
        ("transform {inputs} --data x.csv", ["not a run folder"]),
        ("transform {run} --data {inputs}/absent.csv", ["absent.csv"]),
        (
            "transform {run} --data {inputs}/moved.csv --out x.txt",
            ["x.txt", ".csv, .parquet, .jsonl", "'.txt'"],
        ),
        (
            "transform {run} --data {inputs}/moved.csv --out {inputs}/small.csv",
            ["small.csv exists"],
        ),
        (
            "transform {run} --data {inputs}/moved.csv --column body",
            ["--column COLUMN", "'body'", "'text'"],
        ),
        ("topics {inputs}", ["not a run folder"]),
    ],
)
def test_wrong_input_gives_one_clear_line(command, fragments, inputs, run, capsys):
    (inputs / "small.csv").touch()
    assert main(command.format(inputs=inputs, run=run).split()) == 2
    message = capsys.readouterr().err.strip().splitlines()[-1]
    for fragment in fragments:
        assert fragment in message


def test_topics_are_written_in_every_format_with_probabilities(run, loaded, capsys):
    first = loaded.topics(2)[0]
    command = ["topics", str(run), "--num-words", "2", "--num-topics", "1", "--format"]
    assert main([*command, "csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["word"] for row in rows] == list(first.words)
    np.testing.assert_allclose(
        [float(row["probability"]) for row in rows], first.probabilities, rtol=1e-5
    )
    assert main([*command, "json"]) == 0
    [record] = json.loads(capsys.readouterr().out)
    assert [word for word, _ in record["words"]] == list(first.words)
    assert main([*command, "md"]) == 0
    assert f"{first.words[0]} {first.probabilities[0]:.3f}, " in capsys.readouterr().out
    assert main([*command, "text"]) == 0
    assert capsys.readouterr().out.split()[2:] == list(first.words)


def test_the_tables_of_the_page_are_files(run):
    words = rows_of(run / "tables" / "topics.csv")
    assert {row["topic"] for row in words} == {"0", "1", "2"}
    with (run / "tables" / "topics_distances.csv").open() as file:
        distances = np.array([[float(x) for x in row[1:]] for row in list(csv.reader(file))[1:]])
    assert distances.shape == (3, 3)
    np.testing.assert_array_equal(np.diag(distances), 0)


def test_an_unfinished_run_is_used_and_says_so(run, capsys, tmp_path):
    result = (run / "result.json").read_bytes()
    (run / "result.json").unlink()
    try:
        assert "unfinished" in repr(vi.load(run))
        (tmp_path / "one.txt").write_text("apple pear fig\n")
        assert main(["transform", str(run), "--data", str(tmp_path / "one.txt")]) == 0
        assert "is unfinished; this is as of its last checkpoint" in capsys.readouterr().err
    finally:
        (run / "result.json").write_bytes(result)


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        (
            "result.json",
            Status.FINISHED.value,
            Status.INTERRUPTED.value,
            "{run} stopped early. Go on: vijax resume {run}",
        ),
        (
            "result.json",
            Status.FINISHED.value,
            Status.DIVERGED.value,
            "{run} ended so: diverged: too many steps",
        ),
        (
            "result.json",
            '"usable": true',
            '"usable": false',
            "the verdict on {run} is not to use this fit",
        ),
        (
            "versions.json",
            f'"{vi.__version__}"',
            '"9.9.9"',
            "{run} was made by vijax 9.9.9, and this is",
        ),
    ],
)
def test_what_is_to_be_known_of_a_run_is_said_by_every_command_that_uses_it(
    file, before, after, said, run, inputs, capsys
):
    good = (run / file).read_text()
    assert before in good
    data = ["--data", str(inputs / "moved.csv")]
    try:
        (run / file).write_text(good.replace(before, after))
        for command in (
            ["topics"],
            ["transform", *data],
            ["evaluate", *data],
            ["shares", "--by", "stars"],
        ):
            assert main([command[0], str(run), *command[1:]]) == 0
            assert f"Note: {said.format(run=run)}" in capsys.readouterr().err
    finally:
        (run / file).write_text(good)
    assert main(["topics", str(run)]) == 0
    assert capsys.readouterr().err == ""


def test_a_run_of_another_version_that_cannot_be_read_says_which(run, capsys):
    config, versions = run / "config.toml", run / "versions.json"
    before = config.read_text(), versions.read_text()
    try:
        config.write_text(before[0].replace("[model]", "[model]\nnumber_of_topics = 3"))
        versions.write_text(json.dumps({"vijax": "9.9.9"}))
        with pytest.raises(ConfigError, match=naming("'model.number_of_topics'", "9.9.9")):
            vi.load(run)
    finally:
        config.write_text(before[0])
        versions.write_text(before[1])


def test_columns_that_share_a_name_with_the_model_s_are_kept_apart():
    rows = Transformed(
        {"topic": np.array([1, 0])}, {"topic": ["a", "b"], "topic_": ["c", "d"], "x": [1.5, 2.0]}
    )
    assert {name: list(values) for name, values in rows.columns().items()} == {
        "topic_": ["a", "b"], "topic__": ["c", "d"], "x": [1.5, 2.0], "topic": [1, 0]
    }  # fmt: skip


def test_what_is_carried_through_is_written_as_it_was(tmp_path):
    rows = Transformed(
        {"sd": np.array([1 / 3, np.nan], np.float32)},
        {"id": ["007", "a, b"], "x": [0.1234567890123, 3.0], "empty": [None, ""]},
    )
    text = rows.write(tmp_path / "rows.csv").read_text()
    assert text.splitlines() == ["id,x,empty,sd", "007,0.1234567890123,,0.333333", '"a, b",3,,']
    records = [
        json.loads(line) for line in rows.write(tmp_path / "rows.jsonl").read_text().splitlines()
    ]
    assert records[1] == {"id": "a, b", "x": 3, "empty": "", "sd": None}
