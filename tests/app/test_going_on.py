"""What `vijax resume`, `summary` and `report` say of a run that was stopped, changed or gone on
with."""

import shutil

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import check_names

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from tests.app.small_runs import write_inputs
from vijax.app.cli import main
from vijax.app.folder import run_folder
from vijax.app.folder.recorder import Recorder
from vijax.app.folder.run_folder import write_json
from vijax.app.runs import run as runs
from vijax.app.sources.listing import FittedRun
from vijax.fitting.fit import Status
from vijax.fitting.result import Fit


def read_json(path):
    return run_folder.read_json(path, "no remedy")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def finished(inputs):
    out = inputs / "run"
    assert main(["fit", str(inputs / "small.toml"), "--out", str(out)]) == 0
    return out


@pytest.fixture
def folder(finished, tmp_path):
    """A finished run of 4 steps, a copy of its own."""
    return shutil.copytree(finished, tmp_path / "copy")


def change(folder, before, after):
    path = folder / "config.toml"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


class Killed(BaseException):
    """Not an `Exception`: nothing may catch it."""


def kill_at_the_end(patch):
    def die(*arguments):
        raise Killed

    patch.setattr(runs, "write_end", die)


def test_an_earlier_end_is_not_shown_as_that_of_a_run_that_went_on(folder, monkeypatch, capsys):
    before = read_json(folder / "result.json")
    assert before["step"] == 4
    change(folder, "num_epochs = 4", "num_epochs = 6")
    with monkeypatch.context() as patch:
        kill_at_the_end(patch)
        with pytest.raises(Killed):
            main(["resume", str(folder)])
    assert not (folder / "result.json").exists()
    capsys.readouterr()
    assert main(["summary", str(folder)]) == 0
    assert capsys.readouterr().out.startswith(
        f"Unfinished: as of its last checkpoint. Go on: vijax resume {folder}\n"
    )
    assert main(["report", str(folder)]) == 0
    assert "Unfinished: as of its last checkpoint" in (folder / "report.html").read_text()
    assert (folder / "summary.txt").read_text().startswith("Unfinished")
    assert main(["resume", str(folder)]) == 0
    assert read_json(folder / "result.json")["step"] == 6
    assert "Unfinished" not in (folder / "report.html").read_text()


def test_a_run_that_failed_says_so_above_what_it_found(folder, capsys):
    result = read_json(folder / "result.json")
    write_json(
        folder / "result.json", result | {"status": "diverged: \x1b[31mtoo far", "blocks": []}
    )
    assert main(["summary", str(folder)]) == 0
    assert capsys.readouterr().out == "Not complete: diverged: \\x1b[31mtoo far\n"
    assert main(["report", str(folder)]) == 0
    assert (folder / "summary.txt").read_text() == "Not complete: diverged: \\x1b[31mtoo far\n"


def test_an_interrupted_run_says_how_to_go_on_in_words_of_the_command_line(folder, capsys):
    result = read_json(folder / "result.json")
    write_json(folder / "result.json", result | {"status": str(Status.INTERRUPTED)})
    assert main(["summary", str(folder)]) == 0
    assert capsys.readouterr().out.startswith(
        f"Not complete: interrupted. Go on: vijax resume {folder}\n\n"
    )
    assert main(["report", str(folder)]) == 0
    page = (folder / "report.html").read_text()
    assert f"Not complete: interrupted. Go on: vijax resume {folder}." in page
    assert "fit.state" not in page


def test_other_versions_are_named_once_and_kept(folder, capsys):
    versions = read_json(folder / "versions.json")
    write_json(folder / "versions.json", versions | {"vijax": "0.0.1", "jax": "0.1.2"})
    assert main(["resume", str(folder)]) == 0
    said = capsys.readouterr().err
    assert (
        f"vijax 0.0.1 then, {versions['vijax']} now; jax 0.1.2 then, {jax.__version__} now" in said
    )
    kept = read_json(folder / "versions.json")
    assert (kept["vijax"], kept["later"][0]["vijax"], kept["later"][0]["resumed_at_step"]) == (
        "0.0.1",
        versions["vijax"],
        4,
    )
    assert main(["resume", str(folder)]) == 0
    assert "then," not in capsys.readouterr().err
    assert len(read_json(folder / "versions.json")["later"]) == 1


def test_lost_versions_are_said_and_stop_nothing(folder, capsys):
    (folder / "versions.json").write_text("[]")
    assert main(["resume", str(folder)]) == 0
    assert "versions.json was missing or damaged" in capsys.readouterr().err
    assert read_json(folder / "versions.json")["resumed_at_step"] == 4


def test_lost_metrics_are_said(folder, capsys):
    (folder / "metrics.jsonl").unlink()
    assert main(["resume", str(folder)]) == 0
    check_names(capsys.readouterr().err, "metrics.jsonl", "1", "4")


def test_a_damaged_line_of_metrics_is_named(folder, capsys):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    (folder / "metrics.jsonl").write_text("\n".join([lines[0], "\0" * 9, *lines[2:]]) + "\n")
    assert main(["resume", str(folder)]) == 2
    assert "metrics.jsonl, line 2: damaged" in capsys.readouterr().err


def test_another_number_of_restarts_is_named_as_such(folder, capsys):
    change(folder, "restarts = 1", "restarts = 3")
    assert main(["resume", str(folder)]) == 2
    assert "fit.restarts was 1 and is 3" in capsys.readouterr().err


def test_what_was_stopped_at_once_says_what_is_saved(folder, inputs, tmp_path, monkeypatch, capsys):
    def stop(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "fit", stop)
    change(folder, "num_epochs = 4", "num_epochs = 6")
    assert main(["resume", str(folder)]) == 130
    assert (
        f"vijax: stopped; saved up to step 4. Go on: vijax resume {folder}"
        in capsys.readouterr().err
    )
    new = tmp_path / "new"
    assert main(["fit", str(inputs / "small.toml"), "--out", str(new)]) == 130
    assert (
        f"stopped before the first checkpoint. Begin again: vijax resume {new}"
        in capsys.readouterr().err
    )
    monkeypatch.setattr(runs, "load_data", stop)
    assert main(["fit", str(inputs / "small.toml"), "--out", str(tmp_path / "newer")]) == 130
    assert "stopped before anything was saved" in capsys.readouterr().err
    assert not (tmp_path / "newer").exists()


def test_killed_while_it_began_fit_and_resume_agree(inputs, tmp_path, monkeypatch, capsys):
    def die(*arguments):
        raise Killed

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("vijax.app.folder.claim._clear", lambda folder: None)  # a kill clears nothing
        patch.setattr("vijax.app.folder.run_folder.data_facts", die)
        with pytest.raises(Killed):
            main(["fit", str(inputs / "small.toml"), "--out", str(out)])
    assert {path.name for path in out.iterdir()} == {
        ".lock",
        "checkpoints",
        "columns.json",
        "versions.json",
    }
    assert main(["resume", str(out)]) == 2
    assert f"begin it again: vijax fit CONFIG.toml --out {out}" in capsys.readouterr().err
    assert main(["fit", str(inputs / "small.toml"), "--out", str(out)]) == 0


@pytest.mark.parametrize(
    "wrong", [f"seed={2**63}", "num_epochs=1e308", "num_epochs=1e-9", "num_epochs=3e9", "seed=-1"]
)
def test_numbers_beyond_reach_are_refused_before_a_folder_is_made(inputs, tmp_path, wrong, capsys):
    assert (
        main(["fit", str(inputs / "small.toml"), "--out", str(tmp_path / "run"), "--set", wrong])
        == 2
    )
    assert f"fit.{wrong.partition('=')[0]}: expected" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_in_a_linked_folder_are_not_written(folder, tmp_path, capsys):
    shutil.move(folder / "checkpoints", tmp_path / "elsewhere")
    (folder / "checkpoints").symlink_to(tmp_path / "elsewhere")
    before = sorted(path.name for path in (tmp_path / "elsewhere").iterdir())
    change(folder, "num_epochs = 4", "num_epochs = 6")
    assert main(["resume", str(folder)]) == 2
    assert "checkpoints is a link to another folder" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == before


def test_a_full_disk_at_the_end_is_one_line_with_a_remedy_and_nothing_is_lost(
    folder, monkeypatch, capsys
):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "write_end", full)
        assert main(["resume", str(folder)]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"{folder} could not be written to (No space left on device); make room" in said
    assert main(["resume", str(folder)]) == 0


# --- a bad end ------------------------------------------------------------------------------------
class Undescribable:
    def describe(self, seen):
        raise np.linalg.LinAlgError("SVD did not converge")


class State:
    def __init__(self, value):
        self.posterior = vi.Product({"x": vi.Dirichlet(np.array([1.0, value], np.float32))})


@pytest.mark.parametrize(("value", "excused"), [(np.nan, True), (np.inf, True), (0.0, False)])
def test_a_posterior_that_is_not_finite_is_written_as_it_is(value, excused):
    """A fault of the description is raised only once all is written."""
    said = []
    seen = FittedRun(Fit(None, State(value), {}, None), None, None, None, said.append)
    shown, fault = runs._page_blocks(Undescribable(), seen)
    assert shown == []
    assert (fault is None) == excused
    assert any("not finite" in line and "SVD did not converge" in line for line in said) == excused


def test_half_a_surrogate_pair_comes_back_from_json(tmp_path):
    value = {"title": "cut \ud83d", "caf\u00e9": 1}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value
    assert "café" in (tmp_path / "a.json").read_text(encoding="utf-8")


def test_a_score_that_cannot_be_taken_stops_nothing(tmp_path):
    def bad(seen):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    said, state = [], State(np.nan)
    state.step = 7
    assert not Recorder(tmp_path, {}, bad, 1, 0.0, said.append).take_score(
        Fit(None, state, {}, None)
    )
    assert said == ["no held-out score at step 7: Eigenvalues did not converge. The run goes on."]
