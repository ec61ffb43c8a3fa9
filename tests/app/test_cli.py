"""The command line as a user meets it: a whole run, what it leaves, and every wrong input in one
line."""

import json
import os
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

pytest.importorskip("tyro")

import vijax as vi
from tests.naming import check_names
from vijax.app.cli import main
from vijax.app.drawing import blocks
from vijax.app.folder.claim import hold_lock
from vijax.app.report import pages
from vijax.app.report.pages import read_run

NUM_WORDS = 24
CONFIG = """
[model]
num_topics = 3
eta = 0.5

[algorithm]
name = "svi"
estep.name = "mean_field"
estep.max_iters = 10

[fit]
num_epochs = 8
batch_size = 20
seed = 1  # nine seeds of ten find the blocks: not 0
checkpoint_every_s = 0
"""


def corpus(seed=0, num_documents=66):
    """Documents of eight words each from one of three blocks of the vocabulary; of two lengths, so
    of two shapes."""
    rng = np.random.default_rng(seed)
    counts = np.zeros((num_documents, NUM_WORDS), int)
    for d, row in enumerate(counts):
        row[8 * (d % 3) + np.arange(8 - 3 * (d % 2))] = rng.integers(1, 4, 8 - 3 * (d % 2))
    return vi.data.Corpus.from_counts(counts, [f"w{i:02d}" for i in range(NUM_WORDS)])


def write_inputs(folder):
    corpus().save(folder / "corpus")
    (folder / "small.toml").write_text(
        CONFIG + f"\n[data]\npath = {json.dumps(str(folder / 'corpus'))}\n"
    )
    return folder


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def run(inputs, figures):
    out = inputs / "run"
    with figures():
        assert main(["fit", str(inputs / "small.toml"), "--out", str(out)]) == 0
    return out


def test_a_run_leaves_what_is_promised(run):
    left = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    figures = {f"figures/{name}.png" for name in ("topics", "curves", "sizes", "map", "similarity")}
    files = {
        "config.toml",
        "versions.json",
        "data.json",
        "vocabulary.txt",
        "metrics.jsonl",
        "summary.txt",
    }
    assert figures | files | {"posterior.npz", "result.json", "report.html"} <= left
    assert json.loads((run / "versions.json").read_text())["jax"] == jax.__version__
    assert json.loads((run / "result.json").read_text())["status"].startswith("finished")


def test_pages_that_are_written_again_leave_no_table_of_before(run, figures, tmp_path, monkeypatch):
    """Titles hold numbers that change as a run goes on."""
    copy = shutil.copytree(run, tmp_path / "run")
    read = pages.read_run
    for number in (8, 4):
        block = blocks.Intervals(f"{number} topics in use", ["a"], [0.0], [1.0])
        monkeypatch.setattr(
            pages, "read_run", lambda folder, block=block: read(folder)._replace(shown=[block])
        )
        with figures():
            pages.write_pages(copy)
        found = {path.name for place in ("tables", "figures") for path in (copy / place).iterdir()}
        assert {f"{number}_topics_in_use.csv", f"{number}_topics_in_use.png"} <= found
    assert not any(name.startswith("8_topics") or name.startswith("similarity") for name in found)


def test_the_blocks_are_found_and_printed(run, capsys):
    assert main(["topics", str(run), "--num-words", "8"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    blocks = {frozenset(word[1:] for word in line[2:]) for line in lines}
    assert blocks == {
        frozenset(f"{i:02d}" for i in range(first, first + 8)) for first in (0, 8, 16)
    }


def test_typical_documents_are_of_their_topics(run):
    for topic in read_run(run).shown[0].topics:
        assert len(topic.documents) == 3
        for document in topic.documents:
            assert document.share > 0.8
            assert set(document.excerpt.split()) <= set(topic.words)


def test_metrics_have_each_step_once_and_some_scores(run):
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [record["step"] for record in records if record["kind"] == "step"]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) == 8 * 3
    scores = [record for record in records if record["kind"] == "held_out"]
    assert scores[-1]["step"] == len(steps)
    assert (
        scores[-1]["score"] > np.log(1 / NUM_WORDS) + 0.8
    )  # a block of eight is known: log 1/8 at the best


def test_the_posterior_is_in_an_open_format(run):
    with np.load(run / "posterior.npz") as file:
        assert file["topics/concentration"].shape == (3, NUM_WORDS)
        assert file["hyper/eta"] == np.float32(0.5)


def test_other_documents_are_scored_with_a_standard_error(run, inputs, capsys):
    corpus(seed=5).save(inputs / "other")
    assert main(["evaluate", str(run), "--data", str(inputs / "other")]) == 0
    out = capsys.readouterr().out
    assert "±" in out
    assert "66 documents" in out


def test_a_finished_run_resumed_is_left_as_it_is(run, capsys):
    before = (run / "posterior.npz").read_bytes(), (run / "metrics.jsonl").read_bytes()
    assert main(["resume", str(run)]) == 0
    assert ((run / "posterior.npz").read_bytes(), (run / "metrics.jsonl").read_bytes()) == before
    assert "Report:" in capsys.readouterr().out


def test_the_report_can_be_written_anew(run, capsys):
    (run / "report.html").unlink()
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().out.strip() == str(run / "report.html")
    assert "Topics of a word" in (run / "report.html").read_text()


def test_the_settings_page_is_a_configuration(capsys):
    assert main(["settings"]) == 0
    assert "num_topics = 50" in capsys.readouterr().out


def test_settings_of_a_model_or_of_a_section(capsys):
    assert main(["settings", "--model", "lda"]) == 0
    whole = capsys.readouterr().out
    assert main(["settings", "lda"]) == 0
    assert capsys.readouterr().out == whole
    for section, key in (("fit", "combine"), ("algorithm", "warm_starts")):
        assert main(["settings", section, "--model", "lda"]) == 0
        shown = capsys.readouterr().out
        assert shown in whole
        assert f"\n{key} = " in shown
        assert "num_topics" not in shown
    assert main(["settings", "fit"]) == 0
    assert 'combine = "best"' in capsys.readouterr().out
    assert main(["settings", "lda", "--model", "hdp"]) == 2
    assert "expected one model, got 'lda' and --model hdp" in capsys.readouterr().err
    assert main(["settings", "page", "--model", "mixture"]) == 2
    assert "mixture, which has no [page]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "fragments"),
    [
        ("fit {inputs}/absent.toml", ["absent.toml", "no such file"]),
        ("fit {inputs}/small.toml --set num_topic=3", ["did you mean model.num_topics?"]),
        ("fit {inputs}/small.toml --set held_out=0.001", ["held_out"]),
        ("fit {inputs}/small.toml --data {inputs}/absent.csv", ["absent.csv"]),
        ("fit {inputs}/small.toml --out {inputs}", ["exists", "--out", "vijax resume"]),
        ("fit {inputs}/small.toml --out {inputs}/small.toml", ["exists"]),
        ("resume {inputs}", ["not a run folder", "vijax fit"]),
        ("topics {inputs}/absent", ["there is no such folder"]),
        ("evaluate {run} --data {inputs}/absent.csv", ["absent.csv"]),
        (
            "evaluate {run} --data {inputs}/corpus --seed 9223372036854775808",
            ["--seed", "2^63 - 1"],
        ),
    ],
)
def test_wrong_input_gives_one_clear_line_and_code_2(command, fragments, inputs, run, capsys):
    assert main(command.format(inputs=inputs, run=run).split()) == 2
    captured = capsys.readouterr()
    message = captured.err.strip().splitlines()[-1]
    assert message.startswith("vijax: ")
    for fragment in fragments:
        assert fragment in message
    assert "Traceback" not in captured.err + captured.out


def test_a_batch_of_more_than_there_are_is_all_of_them_and_said(inputs, tmp_path, capsys):
    given = ["--set", "batch_size=9999", "num_epochs=1", "held_out=0.2"]
    assert main(["fit", str(inputs / "small.toml"), "--out", str(tmp_path / "run"), *given]) == 0
    check_names(capsys.readouterr().err, "fit.batch_size", "9999", "53")


def test_wrong_input_leaves_no_folder_behind(inputs, capsys):
    given = ["--out", str(inputs / "none"), "--set", "held_out=0.001"]
    assert main(["fit", str(inputs / "small.toml"), *given]) == 2
    assert not (inputs / "none").exists()
    capsys.readouterr()


def test_a_run_of_other_settings_is_not_gone_on_with(run, capsys):
    path = run / "config.toml"
    before = path.read_text()
    path.write_text(before.replace("eta = 0.5", "eta = 0.25"))
    try:
        assert main(["resume", str(run)]) == 2
    finally:
        path.write_text(before)
    error = capsys.readouterr().err
    assert "model.eta was 0.5 and is 0.25" in error
    assert "Put them back" in error


def test_a_run_of_other_data_is_not_gone_on_with(run, inputs, capsys):
    (inputs / "corpus").rename(inputs / "kept")
    corpus(seed=9).save(inputs / "corpus")
    try:
        assert main(["resume", str(run)]) == 2
    finally:
        (inputs / "corpus").rename(inputs / "changed")
        (inputs / "kept").rename(inputs / "corpus")
    assert "the data are not those the run began with" in capsys.readouterr().err


def test_two_processes_do_not_share_a_run(run, capsys):
    with hold_lock(run):
        assert main(["resume", str(run)]) == 2
    assert "another process" in capsys.readouterr().err


def test_debug_shows_the_traceback(inputs):
    with pytest.raises(ValueError, match="no such file"):
        main(["fit", str(inputs / "absent.toml"), "--debug"])


def test_the_program_teaches_and_starts_without_heavy_imports():
    code = (
        "import sys, vijax.app.cli; assert not {'sklearn', 'matplotlib', 'tyro', 'tqdm'} & "
        "set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ)
    found = subprocess.run(
        [sys.executable, "-m", "vijax.app.cli"], capture_output=True, text=True, env=os.environ
    )
    assert found.returncode == 0
    for example in ("vijax fit lda", "vijax resume", "vijax settings"):
        assert example in found.stdout
