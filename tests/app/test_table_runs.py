"""Runs on tables as a user meets them: resumed with restarts, converged, scored on other rows,
wrong inputs."""

import json
import signal

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from tests.naming import check_names
from vijax.app.cli import main
from vijax.app.folder.recorder import Recorder
from vijax.app.folder.run_folder import read_run_config
from vijax.app.plan.config import load_config
from vijax.app.report.pages import read_run
from vijax.app.sources.tables import load_table

CONFIG = """
[data]
path = {path}

[model]
name = "mixture"
num_components = 3
emission.name = "diagonal_gaussian"
init.name = "random_responsibilities"

[fit]
num_epochs = 60
restarts = 3
checkpoint_every_s = 0
evaluate_every = 20
"""


def rows(seed, number=90):
    rng = np.random.default_rng(seed)
    return np.array([[-4.0, 0.0], [0.0, 4.0], [4.0, 0.0]])[np.arange(number) % 3] + rng.normal(
        size=(number, 2)
    )


def write_csv(path, x, names="left,right"):
    np.savetxt(path, x, delimiter=",", header=names, comments="", fmt="%.6g")
    return path


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    path = write_csv(folder / "rows.csv", rows(0))
    (folder / "small.toml").write_text(CONFIG.format(path=json.dumps(str(path))))
    return folder


@pytest.fixture(scope="module")
def run(inputs, figures):
    out = inputs / "run"
    with figures():
        assert main(["fit", str(inputs / "small.toml"), "--out", str(out)]) == 0
    return out


def left(folder):
    """What a run came to: the posterior's bytes, and every metric but the times."""
    with np.load(folder / "posterior.npz") as file:
        posterior = {name: file[name].tobytes() for name in file.files}
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return posterior, [{k: v for k, v in record.items() if k != "seconds"} for record in records]


def test_the_clusters_are_found_printed_and_drawn(run, capsys):
    assert main(["summary", str(run)]) == 0
    out = capsys.readouterr().out
    assert "Components" in out
    assert "nats per row (9 rows)" in out
    table = read_run(run).shown[0]
    assert table.header == ["", "weight", "rows", "left", "right", "sd left", "sd right"]
    means = sorted(np.round(row[3] / 4) for row in table.rows)
    assert means == [-1, 0, 1]
    assert all(0.2 < row[1] < 0.5 and 0.6 < row[5] < 1.5 for row in table.rows)
    assert (run / "figures" / "clusters.png").is_file()
    assert not (run / "vocabulary.txt").exists()


def test_a_run_with_restarts_stopped_and_resumed_equals_one_that_never_was(run, inputs, capsys):
    out = inputs / "parts"
    short = [
        "--set",
        "num_epochs=50",
    ]  # a chunk's end; the best of the restarts is chosen at the end alone
    assert main(["fit", str(inputs / "small.toml"), "--out", str(out), *short]) == 0
    config = out / "config.toml"
    config.write_text(config.read_text().replace("num_epochs = 50", "num_epochs = 60"))
    assert main(["resume", str(out)]) == 0
    posterior, metrics = left(out)
    expected, others = left(run)
    assert posterior == expected
    assert [r for r in metrics if r["kind"] == "step"] == [r for r in others if r["kind"] == "step"]


def test_a_finished_run_resumed_is_left_as_it_is(run, capsys):
    before = left(run)
    assert main(["resume", str(run)]) == 0
    assert left(run) == before


def test_a_converged_run_stays_and_goes_on_under_a_lower_tol(inputs, capsys):
    out = inputs / "converged"
    given = [
        "--set",
        "num_epochs=2000",
        "convergence=1e-5",
        "restarts=1",
        "init.name=kmeans_plus_plus",
    ]
    assert main(["fit", str(inputs / "small.toml"), "--out", str(out), *given]) == 0
    before = left(out)
    assert json.loads((out / "result.json").read_text())["status"].startswith("converged")
    assert before[1][-1]["step"] < 2000
    assert main(["resume", str(out)]) == 0
    assert left(out) == before
    assert "lower fit.convergence" in capsys.readouterr().err
    assert read_run_config(out).fit.convergence == 1e-5
    (out / "config.toml").write_text(
        (out / "config.toml").read_text().replace("convergence = 1e-05\n", "")
    )
    (out / "config.toml").write_text((out / "config.toml").read_text().replace("= 2000", "= 150"))
    assert main(["resume", str(out)]) == 0
    assert left(out)[1][-1]["step"] == max(150, before[1][-1]["step"])


def test_a_converged_run_killed_before_its_end_was_written_ends_where_it_did(inputs):
    """The state says that it has converged: no chunk before, which a resumed run does not have, is
    asked."""
    out = inputs / "killed"
    given = [
        "--set",
        "num_epochs=2000",
        "convergence=1e-5",
        "restarts=2",
        "init.name=kmeans_plus_plus",
    ]
    assert main(["fit", str(inputs / "small.toml"), "--out", str(out), *given]) == 0
    before = left(out)
    for lost in (0, 1):  # of the checkpoints, the newest first
        for path in sorted((out / "checkpoints").glob("step_*.npz"), reverse=True)[:lost]:
            path.unlink()
        for name in ("result.json", "posterior.npz"):
            (out / name).unlink()
        assert main(["resume", str(out)]) == 0
        assert left(out)[0] == before[0]
        steps = [
            [r for r in records if r["kind"] == "step"] for records in (left(out)[1], before[1])
        ]
        assert steps[0] == steps[1]
        assert json.loads((out / "result.json").read_text())["status"].startswith("converged")


def test_skipped_steps_are_in_the_last_lines(inputs, capsys):
    x = rows(0)
    x[40] = 1e30  # finite, and its square is not
    wild = str(write_csv(inputs / "wild.csv", x))
    data = ["--data", wild, "--set", "restarts=1", "held_out=0", "standardise=false"]
    svi = ["algorithm.name=svi", "batch_size=30", "num_epochs=4"]
    assert (
        main(["fit", str(inputs / "small.toml"), "--out", str(inputs / "wild"), *data, *svi]) == 0
    )
    check_names(capsys.readouterr().out, "Warning:", "4", "12 steps")
    assert json.loads((inputs / "wild" / "result.json").read_text())["skipped"] == 4
    lost = ["num_epochs=3", "init.name=prior"]  # where no data are read
    assert (
        main(["fit", str(inputs / "small.toml"), "--out", str(inputs / "lost"), *data, *lost]) == 3
    )
    out = capsys.readouterr().out
    check_names(out, "Warning:", "3 steps")
    assert "The run failed" in out


def test_minibatches_for_steps_of_size_one_are_refused_in_terms_of_the_command_line(inputs, capsys):
    given = ["--set", "algorithm.name=em", "batch_size=30", "restarts=1"]
    assert main(["fit", str(inputs / "small.toml"), "--out", str(inputs / "refused"), *given]) == 2
    error = capsys.readouterr().err
    check_names(error, "fit.batch_size:", "81", "algorithm.name", "30")
    assert "set algorithm.name=svi, or algorithm.step_size.name=robbins_monro" in error
    assert not (inputs / "refused").exists()


def test_other_rows_are_scored(run, inputs, capsys):
    near, far = (
        write_csv(inputs / "near.csv", rows(7)),
        write_csv(inputs / "far.csv", rows(7) + 3.0),
    )
    scores = []
    for path in (near, far):
        assert main(["evaluate", str(run), "--data", str(path)]) == 0
        out = capsys.readouterr().out
        assert "nats per row (90 rows)" in out
        scores.append(float(out.partition(" ")[0]))
    assert -4.3 < scores[0] < -3.4  # log 3 + log 2 pi e = 3.9 at the truth
    assert scores[1] < scores[0] - 2


def test_an_unfinished_run_can_be_read(inputs, run, capsys):
    (run / "result.json").rename(run / "kept.json")
    try:
        assert main(["summary", str(run)]) == 0
        assert "Components" in capsys.readouterr().out
        assert main(["report", str(run)]) == 0
        assert "Unfinished: as of its last checkpoint" in (run / "report.html").read_text()
    finally:
        (run / "kept.json").rename(run / "result.json")


def test_minibatches_converge_and_a_stopped_run_does_so_where_the_unbroken_one_does(
    inputs, tmp_path, monkeypatch, capsys
):
    given = [
        "algorithm.name=svi",
        "batch_size=9",
        "num_epochs=2000",
        "convergence=0.01",
        "restarts=1",
    ]
    start = lambda out: main(
        ["fit", str(inputs / "small.toml"), "--out", str(tmp_path / out), "--set", *given]
    )
    assert start("whole") == 0
    assert "still to gain" in capsys.readouterr().err
    end = json.loads((tmp_path / "whole" / "result.json").read_text())
    assert end["status"].startswith("converged: ")
    assert 160 <= end["step"] < 2000 * 9
    assert "then it had converged" in (tmp_path / "whole" / "report.html").read_text()
    save, stops = Recorder._save, []

    def stopping(self, seen):
        save(self, seen)
        if seen.step > 60 and not stops:
            stops.append(seen.step)
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Recorder, "_save", stopping)
        assert start("part") == 130
    assert stops[0] < end["step"]
    assert main(["resume", str(tmp_path / "part")]) == 0
    assert json.loads((tmp_path / "part" / "result.json").read_text())["step"] == end["step"]
    assert left(tmp_path / "part") == left(tmp_path / "whole")


@pytest.mark.parametrize(
    ("command", "fragments"),
    [
        ("fit {inputs}/small.toml --data {inputs}/absent.csv", ["absent.csv", "expected a file"]),
        (
            "fit {inputs}/small.toml --set data.columns=['lef']",
            ["rows.csv", "'lef'", "did you mean 'left'?"],
        ),
        ("fit {inputs}/small.toml --set emission.name=poisson", ["counts 0, 1, 2", "row"]),
        (
            "fit {inputs}/small.toml --set emission.name=full_gaussian degrees=1",
            ["model.emission.degrees", "2 columns"],
        ),
        ("fit {inputs}/small.toml --set batch_size=0", ["batch_size", "0"]),
        ("fit {inputs}/small.toml --set held_out=1.5", ["held_out", "1.5"]),
        (
            "fit {inputs}/small.toml --set model.name=mixed",
            ["model.name", 'did you mean "mixture"?'],
        ),
        ("fit {inputs}/small.toml --set num_topics=3", ["num_topics"]),
        ("fit {inputs}/gaps.toml", ["gaps.csv", "a missing value in line 3 of column 'right'"]),
        ("topics {run}", ["no topics", "vijax summary"]),
        ("evaluate {run} --data {inputs}/other.csv", ["other.csv", "'left'"]),
        ("evaluate {run} --data {inputs}/rows.csv --column text", ["--column"]),
        ("settings --model mixtures", ["--model", 'did you mean "mixture"?']),
    ],
)
def test_wrong_input_gives_one_clear_line_and_code_2(command, fragments, inputs, run, capsys):
    write_csv(inputs / "other.csv", rows(1), "up,down")
    (inputs / "gaps.csv").write_text("left,right\n1,2\n3,\n5,6\n")
    (inputs / "gaps.toml").write_text(CONFIG.format(path=json.dumps(str(inputs / "gaps.csv"))))
    before = set(inputs.iterdir())
    assert main([*command.format(inputs=inputs, run=run).split(), *out_of(command, inputs)]) == 2
    message = capsys.readouterr().err.strip().splitlines()[-1]
    assert message.startswith("vijax: ")
    for fragment in fragments:
        assert fragment in message
    assert set(inputs.iterdir()) == before


def out_of(command, inputs):
    return ["--out", str(inputs / "none")] if command.startswith("fit") else []


@pytest.mark.parametrize("sample", [200, 1_000_000], ids=["by parts", "held"])
def test_a_folder_of_parquet_files_of_two_types_is_scaled_and_held_out_as_it_is(sample, tmp_path):
    """Fractions after whole numbers were cut to 0: held-out rows and the scale of all were those of
    other numbers."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    whole, parts = rng.integers(0, 2, 300), rng.normal(0.5, 0.2, 300)
    for i, values in enumerate((whole, parts)):
        more = {"z": np.arange(300.0), "__index_level_0__": np.arange(300)}
        parquet.write_table(
            arrow.table({"a": values, **more}), tmp_path / f"{i}.parquet", row_group_size=70
        )
    said = {
        "path": json.dumps(str(tmp_path)),
        "held_out": 0.25,
        "standardise": "true",
        "sample": sample,
    }
    given = [f"data.{name}={value}" for name, value in said.items()]
    data = load_table(load_config("mixture", [*given, "algorithm.name=svi", "fit.batch_size=50"]))
    assert data.train.columns == ("a", "z")
    assert any("'__index_level_0__' is left out" in note for note in data.train.notes)
    unscaled = [
        part.x * data.train.scaling.deviation + data.train.scaling.mean for part in data.parts
    ]
    taken = np.concatenate([part[:, 0] for part in unscaled])
    known = np.concatenate([whole, parts])
    distance = np.abs(taken[:, None] - known).min(1)
    assert distance.max() < 1e-12
    assert 0.3 < np.mean(np.isin(np.round(taken, 9), (0, 1))) < 0.7
    assert data.train.scaling.mean[0] == pytest.approx(0.5, abs=0.1)
