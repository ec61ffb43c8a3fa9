"""Runs beside each other: paired differences, coherence, sweeps that go on where they were
stopped."""

import csv
import hashlib
import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from tests.naming import check_names
from vijax.app.answers.comparison import ComparedRun, Comparison, compare
from vijax.app.answers.comparison_files import note
from vijax.app.cli import main
from vijax.app.rows.by_row import RowScore
from vijax.app.runs import sweep as sweeps
from vijax.app.runs.run import Outcome
from vijax.app.settings.typed_toml import ConfigError
from vijax.evaluate import Difference, HeldOut, Score, paired_difference
from vijax.fitting.status import Status

CONFIG = """
[model]
num_topics = 3
eta = 0.5

[algorithm]
name = "svi"
estep.name = "mean_field"
estep.max_iters = 10

[fit]
num_epochs = 2
batch_size = 20
evaluate_every = 0
"""


def corpus(number=66):
    """Documents of one of three blocks of words each."""
    rng = np.random.default_rng(0)
    counts = np.zeros((number, 12), int)
    for d, row in enumerate(counts):
        row[4 * (d % 3) : 4 * (d % 3) + 4] = rng.integers(1, 4, 4)
    return vi.data.Corpus.from_counts(counts, [f"w{i:02d}" for i in range(12)])


def silent(message):
    del message


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    corpus().save(folder / "corpus")
    (folder / "small.toml").write_text(
        CONFIG + f"\n[data]\npath = {json.dumps(str(folder / 'corpus'))}\n"
    )
    return folder


@pytest.fixture(scope="module")
def swept(inputs):
    out = inputs / "sweep"
    reads = []
    with pytest.MonkeyPatch.context() as patch:
        read = sweeps.read
        patch.setattr("vijax.app.runs.sweep.read", lambda *given: reads.append(1) or read(*given))
        patch.setattr("vijax.app.runs.run.read", lambda *given: reads.append(1))
        assert (
            main(
                ["fit", str(inputs / "small.toml"), "--sweep", "num_topics=1,3", "--out", str(out)]
            )
            == 0
        )
    assert reads == [1]  # once, for both
    return out


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# --- paired differences ---------------------------------------------------------------------------
def test_a_paired_difference_is_that_of_the_same_rows():
    rng = np.random.default_rng(1)
    hard = rng.normal(-5, 2, 40)
    one, two = hard, hard - 0.2 + 0.1 * rng.normal(size=40)
    for make in (HeldOut.of, lambda x: RowScore.of(x, "row")):
        found = paired_difference(make(one), make(two))
        np.testing.assert_allclose(
            found, [np.mean(one - two), np.std(one - two, ddof=1) / np.sqrt(40)]
        )
        assert found.standard_error < 0.1 * make(one).standard_error
    words = rng.integers(1, 9, 40)
    documents = paired_difference(Score.of(one, words), Score.of(two, words))
    np.testing.assert_allclose(documents.mean, (one - two).sum() / words.sum())


def test_scores_of_other_rows_have_no_difference():
    with pytest.raises(
        ValueError, match=r"two of the same documents or rows, got 3 of 3 in all and 2 of 2"
    ):
        paired_difference(HeldOut.of(np.zeros(3)), HeldOut.of(np.zeros(2)))


# --- sweeps ---------------------------------------------------------------------------------------
def test_a_sweep_leaves_a_run_for_each_value_and_a_table_of_both(swept, capsys):
    rows = rows_of(swept / "comparison.csv")
    assert [row["run"] for row in rows] == ["num_topics-1", "num_topics-3"]
    assert [row["num_topics"] for row in rows] == ["1", "3"]
    one, three = (float(row["score"]) for row in rows)
    assert three > one
    assert float(rows[0]["behind"]) == pytest.approx(three - one, abs=1e-5)
    assert 0 < float(rows[0]["its error"]) < float(rows[0]["error"]) + float(rows[1]["error"])
    assert rows[1]["behind"] == ""
    assert float(rows[1]["NPMI"]) > float(rows[0]["NPMI"])
    for name in ("num_topics-1", "num_topics-3"):
        assert json.loads((swept / name / "result.json").read_text())["status"].startswith(
            "finished"
        )
    for row in rows:  # one score of a run, at its own end and in the table, whatever its seed
        ended = json.loads((swept / row["run"] / "result.json").read_text())
        assert float(row["score"]) == pytest.approx(ended["score"][0], abs=1e-5)
        assert float(row["error"]) == pytest.approx(ended["score"][1], abs=1e-5)
    assert (swept / "comparison.png").stat().st_size > 1000
    assert "The best is num_topics-3" in (swept / "comparison.txt").read_text()
    assert main(["summary", str(swept)]) == 2
    assert "the folder of a sweep" in capsys.readouterr().err


def test_a_sweep_goes_on_with_what_is_missing(swept, capsys, monkeypatch):
    before = (swept / "comparison.csv").read_text()
    first = (swept / "num_topics-1" / "metrics.jsonl").stat().st_mtime_ns
    for path in sorted((swept / "num_topics-3").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (swept / "num_topics-3").rmdir()
    (swept / "comparison.csv").unlink()
    begin = sweeps.begin
    monkeypatch.setattr(
        sweeps, "begin", lambda config, run, *rest: Outcome(run, Status.INTERRUPTED, None)
    )
    assert main(["resume", str(swept)]) == 130
    error = capsys.readouterr().err
    assert "num_topics-1 (1 of 2): has ended" in error
    assert f"go on with what is missing: vijax resume {swept}" in error
    monkeypatch.setattr(sweeps, "begin", begin)
    assert main(["resume", str(swept)]) == 0
    assert (swept / "comparison.csv").read_text() == before
    assert (swept / "num_topics-1" / "metrics.jsonl").stat().st_mtime_ns == first


def changed_corpus():
    """The documents, one with another word."""
    counts = corpus().to_scipy().toarray()
    counts[3, 0] += 1
    return vi.data.Corpus.from_counts(counts, [f"w{i:02d}" for i in range(12)])


@pytest.fixture
def copied(swept, inputs, tmp_path):
    """A copy of the sweep; the data that it names may be changed."""
    shutil.copytree(swept, tmp_path / "sweep")
    yield tmp_path / "sweep"
    shutil.rmtree(inputs / "corpus", ignore_errors=True)
    corpus().save(inputs / "corpus")


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def change_data(inputs):
    shutil.rmtree(inputs / "corpus", ignore_errors=True)
    changed_corpus().save(inputs / "corpus")


@pytest.mark.parametrize("is_noted", [True, False])
@pytest.mark.parametrize("is_missing", [True, False])
def test_a_sweep_does_not_go_on_with_other_data(copied, inputs, is_missing, is_noted, capsys):
    """Nothing is fitted, scored or written; also where the sweep itself has not noted its data, as
    older ones have not."""
    if is_missing:
        shutil.rmtree(copied / "num_topics-1")
    if not is_noted:
        outline = json.loads((copied / "sweep.json").read_text())
        (copied / "sweep.json").write_text(json.dumps({k: outline[k] for k in ("setting", "runs")}))
    change_data(inputs)
    before = contents(copied)
    assert main(["resume", str(copied)]) == 2
    error = capsys.readouterr().err
    assert "the data are not those the" in error
    assert "the run num_topics-" in error or is_noted
    assert "Scoring" not in error
    assert contents(copied) == before


def test_settings_that_were_edited_after_a_sweep_began_are_told(copied, capsys):
    path = copied / "configs" / "num_topics-1.toml"
    path.write_text(path.read_text().replace("num_epochs = 2", "num_epochs = 5"))
    before = contents(copied)
    assert main(["resume", str(copied)]) == 2
    error = capsys.readouterr().err
    assert "num_topics-1.toml" in error
    assert "fit.num_epochs was 2 and is 5" in error
    path.write_text(path.read_text().replace("num_epochs = 5", "num_epochs = 2"))
    path = copied / "num_topics-3" / "config.toml"  # of a run that has ended
    path.write_text(path.read_text().replace("eta = 0.5", "eta = 0.25"))
    shutil.rmtree(copied / "num_topics-1")
    assert main(["resume", str(copied)]) == 2
    assert "model.eta was 0.5 and is 0.25" in capsys.readouterr().err
    assert not (copied / "num_topics-1").exists()
    assert {path.name for path in before} > {"comparison.csv", "comparison.txt"}


@pytest.mark.slow
def test_the_remedy_of_changed_data_works(copied, inputs, tmp_path, capsys):
    change_data(inputs)
    assert main(["resume", str(copied)]) == 2
    command = capsys.readouterr().err.rpartition("another folder: vijax ")[2]
    again = [word.replace("FOLDER", str(tmp_path / "again")) for word in shlex.split(command)]
    assert main(again) == 0
    assert [row["num_topics"] for row in rows_of(tmp_path / "again" / "comparison.csv")] == [
        "1",
        "3",
    ]
    assert main(["resume", str(copied / "num_topics-1")]) == 2
    command = capsys.readouterr().err.rpartition("another folder: vijax ")[2]
    again = [word.replace("FOLDER", str(tmp_path / "one")) for word in shlex.split(command)]
    assert main(again) == 0


def test_compare_gives_the_same_table_of_the_runs(swept, tmp_path, capsys):
    runs = [str(swept / "num_topics-1"), str(swept / "num_topics-3")]
    assert main(["compare", *runs, "--out", str(tmp_path / "both")]) == 0
    assert capsys.readouterr().out.strip() == (swept / "comparison.txt").read_text().strip()
    assert (tmp_path / "both" / "comparison.csv").read_text() == (
        swept / "comparison.csv"
    ).read_text()


def test_runs_are_compared_by_their_bounds_where_nothing_is_held_out(swept, tmp_path, capsys):
    runs = [str(swept / "num_topics-1"), str(swept / "num_topics-3")]
    assert main(["compare", "--training", *runs, "--out", str(tmp_path / "both")]) == 0
    said = capsys.readouterr().out
    assert "NOT held out" in said
    assert "Nothing was held out: this is the bound on the log evidence" in said
    rows = list(csv.DictReader((tmp_path / "both" / "comparison.csv").read_text().splitlines()))
    assert list(rows[0]) == ["run", "num_topics", "score", "behind"]
    for row, run in zip(rows, runs, strict=True):
        steps = [
            json.loads(line) for line in (Path(run) / "metrics.jsonl").read_text().splitlines()
        ]
        last = [step["elbo_per_word"] for step in steps if step["kind"] == "step"][
            -3:
        ]  # three batches are a pass
        assert float(row["score"]) == pytest.approx(np.mean(last), rel=1e-5)
    assert float(rows[0]["behind"]) == pytest.approx(
        float(rows[1]["score"]) - float(rows[0]["score"]), rel=1e-3
    )
    assert (tmp_path / "both" / "comparison.png").stat().st_size > 1000


def test_a_run_on_standardised_columns_is_compared_with_one_on_raw_ones(
    tmp_path, monkeypatch, capsys
):
    """Both scores are in the units of the data; whether columns were standardised is shown as what
    differs."""
    monkeypatch.setenv("VIJAX_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(9, 1, (30, 2))]) * [1.0, 100.0]
    np.savetxt(tmp_path / "own.csv", rows, delimiter=",", header="size,weight", comments="")
    given = [
        "--data",
        str(tmp_path / "own.csv"),
        "--set",
        "num_components=2",
        "held_out=0.2",
        "fit.num_epochs=4",
    ]
    for name in ("true", "false"):
        assert (
            main(
                [
                    "fit",
                    "gmm_diagonal",
                    "--out",
                    str(tmp_path / name),
                    *given,
                    f"standardise={name}",
                ]
            )
            == 0
        )
    out = tmp_path / "both"
    assert (
        main(["compare", str(tmp_path / "true"), str(tmp_path / "false"), "--out", str(out)]) == 0
    )
    found = rows_of(out / "comparison.csv")
    assert [row["standardise"] for row in found] == ["True", "False"]
    for row, name in zip(found, ("true", "false"), strict=True):
        last = json.loads((tmp_path / name / "metrics.jsonl").read_text().splitlines()[-1])
        assert float(row["score"]) == pytest.approx(last["score"], rel=1e-4)
    assert main(["compare", "--training", str(tmp_path / "true"), str(tmp_path / "false")]) == 2
    assert "are of other data" in capsys.readouterr().err


@pytest.fixture(scope="module")
def of_a_table(tmp_path_factory):
    """Runs of one table that ask for it in different ways, and of others."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.normal(0, 1, (30, 2)), rng.normal(9, 1, (30, 2))]) * [1.0, 100.0]
    table = lambda name, rows: np.savetxt(
        folder / name, rows, delimiter=",", header="size,weight", comments=""
    )
    table("own.csv", rows)
    table("copy.csv", rows)
    table("other.csv", rows + 1e-3 * (np.arange(60) == 7)[:, None])
    columns = 'columns=["size","weight"]'
    asked = {
        "unset": ["own.csv", "standardise=false"],
        "written": ["own.csv", columns, "standardise=false"],
        "written, scaled": ["own.csv", columns, "standardise=true"],
        "copied, all rows, scaled": ["copy.csv", "num_rows=60", "standardise=true"],
        "other, scaled": ["other.csv", "standardise=true"],
        "one column, scaled": ["own.csv", 'columns=["size"]', "standardise=true"],
        "other split, scaled": ["own.csv", "split_seed=1", "standardise=true"],
    }
    for name, (path, *said) in asked.items():
        given = [
            "--set",
            "num_components=2",
            "held_out=0.2",
            "fit.num_epochs=2",
            "fit.restarts=1",
            *said,
        ]
        assert (
            main(
                [
                    "fit",
                    "gmm_diagonal",
                    "--data",
                    str(folder / path),
                    "--out",
                    str(folder / name),
                    *given,
                ]
            )
            == 0
        )
    return folder


@pytest.mark.parametrize("name", ["written", "written, scaled", "copied, all rows, scaled"])
def test_data_are_what_was_read_and_not_how_they_were_asked_for(of_a_table, name, capsys):
    for pair in (["unset", name], [name, "unset"]):
        assert main(["compare", *(str(of_a_table / run) for run in pair)]) == 0
        assert "same held-out data" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["other, scaled", "one column, scaled", "other split, scaled"])
@pytest.mark.parametrize("beside", ["unset", "written, scaled"])
def test_of_other_data_also_where_columns_are_standardised(of_a_table, name, beside, capsys):
    assert main(["compare", str(of_a_table / beside), str(of_a_table / name)]) == 2
    assert "are of other data, on which scores cannot be compared" in capsys.readouterr().err


def test_runs_of_other_data_are_not_compared(swept, tmp_path, capsys):
    other = tmp_path / "other"
    for name in ("config.toml", "data.json"):
        (other / name).parent.mkdir(exist_ok=True)
        (other / name).write_text(
            (swept / "num_topics-1" / name).read_text().replace('"tokens": ', '"tokens": 1')
        )
    assert main(["compare", str(swept / "num_topics-1"), str(other)]) == 2
    error = capsys.readouterr().err
    assert "are of other data, on which scores cannot be compared (tokens: " in error


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["--sweep", "num_topics=3"], ["two values or more", "--sweep model.num_topics=10,20,50"]),
        (["--sweep", "num_topics"], ["--sweep num_topics"]),
        (["--sweep", "num_topics=3,3.5"], ["model.num_topics: expected an integer, got 3.5"]),
        (["--sweep", "num_topics=3,4,3"], ["different values, got 3 more than once"]),
        (["--sweep", "num_topic=3,4"], ["did you mean model.num_topics?"]),
        (["--sweep", "data.held_out=0.1,0.2"], ["have the same data", "--set"]),
        (["--sweep", "num_topics=3,4", "--set", "held_out=0"], ["there are none", "held_out=0.1"]),
    ],
)
def test_wrong_sweeps_are_refused_and_leave_nothing(arguments, fragments, inputs, tmp_path, capsys):
    out = tmp_path / "none"
    assert main(["fit", str(inputs / "small.toml"), "--out", str(out), *arguments]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    for fragment in fragments:
        assert fragment in error
    assert not out.exists()


def test_a_damaged_sweep_leads_nowhere_else(tmp_path, capsys):
    for runs in (["../../etc"], [], "abc", [3]):
        (tmp_path / "sweep.json").write_text(json.dumps({"runs": runs}))
        assert main(["resume", str(tmp_path)]) == 2
        assert "sweep.json: damaged" in capsys.readouterr().err


def test_what_is_not_clearly_worse_is_named():
    score = RowScore.of([-1.0, -2.0], "row")
    runs = tuple(
        ComparedRun(Path(name), (), score, behind, None, "")
        for name, behind in (("a", None), ("b", Difference(0.1, 0.06)), ("c", Difference(0.3, 0.1)))
    )
    found = Comparison((), runs, 0)
    assert found.as_good == [0, 1]
    assert note(found).endswith("Not clearly worse (by no more than two such errors): b.")


OF_TWO = """
import jax.numpy as jnp
import vijax as vi

def model(data):
    prior = lambda v: -0.5 * v["y"] ** 2 - {precision} * v["x"] ** 2
    lik = lambda v, row: -0.5 * (row["y"] - v["y"]) ** 2
    return vi.density({{"x": vi.free(), "y": vi.free()}}, log_prior=prior, log_lik=lik)
"""


def test_runs_whose_verdict_is_not_to_use_them_are_not_the_best(tmp_path, monkeypatch, capsys):
    """However high the bound on the data they were fitted to."""
    monkeypatch.setenv("VIJAX_CACHE", str(tmp_path / "cache"))
    for name, precision in (("flat", 0.0), ("round", 0.5)):
        (tmp_path / f"{name}.py").write_text(OF_TWO.format(precision=precision))
    text = (
        '[data]\npath = "synthetic:regression"\ntarget = "y"\nheld_out = 0.2\n[model]\nname = '
        '"density"\n'
    )
    text += 'file = "flat.py"\n[algorithm]\nname = "ngvi"\n[fit]\nevaluate_every = 0\nnum_epochs = 600\n'
    (tmp_path / "flat.toml").write_text(text)
    out = tmp_path / "sweep"
    files = f"model.file={tmp_path / 'round.py'},{tmp_path / 'flat.py'}"
    given = ["fit", str(tmp_path / "flat.toml"), "--sweep", files, "--out", str(out)]
    assert main(given) == 4
    shown = capsys.readouterr().out
    rows = {Path(row["file"]).stem: row for row in rows_of(out / "comparison.csv")}
    assert f"Do not use: {rows['flat']['run']}." in shown
    assert rows["flat"]["score"] == ""
    assert rows["flat"]["remark"].startswith("do not use")
    assert rows["round"]["behind"] == ""
    assert (
        main(
            ["compare", "--training", *(str(out / rows[name]["run"]) for name in ("round", "flat"))]
        )
        == 0
    )
    assert f"The best is {rows['round']['run']}" in capsys.readouterr().out


def test_fewer_than_two_runs_are_no_comparison(tmp_path):
    with pytest.raises(ConfigError, match="not a run folder"):
        compare([tmp_path], silent)


def test_a_sweep_from_elsewhere_executes_nothing(tmp_path, monkeypatch, capsys):
    """Nor does it where only a later run names code: naming it in a `vijax fit` would be consent,
    resuming is none."""
    monkeypatch.setenv("VIJAX_CACHE", str(tmp_path / "cache"))
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'done')!r}, 'w')\n")
    digest = hashlib.sha256((tmp_path / "evil.py").read_bytes()).hexdigest()
    folder = tmp_path / "sweep"
    (folder / "configs").mkdir(parents=True)
    (folder / "sweep.json").write_text(
        json.dumps({"setting": "fit.seed", "runs": ["seed-1", "seed-2"]})
    )
    data = '[data]\npath = "synthetic:regression"\ntarget = "y"\n'
    harmless = '[model]\nname = "ard_regression"\n[fit]\nnum_epochs = 1\nevaluate_every = 0\n'
    evil = f'[model]\nname = "density"\nfile = "{tmp_path / "evil.py"}"\nsha256 = "{digest}"\n'
    for name, text in (("seed-1", harmless), ("seed-2", evil)):
        (folder / "configs" / f"{name}.toml").write_text(data + text)
    assert main(["resume", str(folder)]) == 2
    error = capsys.readouterr().err
    assert "--- seed-2 (2 of 2)" in error
    check_names(error, "Python", "`vijax fit`")
    assert not (tmp_path / "done").exists()
