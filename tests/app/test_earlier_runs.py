"""Runs that earlier versions have left say what they said when they were written."""

import json

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from vijax.app.cli import main

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
ROWS = np.column_stack([X, 100 + X @ [1.0, -1.0] + RNG.normal(size=30)])


def as_it_was_written(run, setting):
    """The folder as a version left it in which the noise was one where no setting named it."""
    config = run / "config.toml"
    lines = [
        line for line in config.read_text().splitlines() if not line.startswith(f"{setting} = ")
    ]
    config.write_text("\n".join(lines) + "\n")
    for path in (run / "checkpoints").glob("*.npz"):
        with np.load(path) as file:
            arrays = dict(file)
        meta = json.loads(arrays["meta"].tobytes())
        assert meta["config"][f"model.likelihood.{setting}"] == 1.0
        meta["config"][f"model.likelihood.{setting}"] = None
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), np.uint8)
        np.savez(path, **arrays)


@pytest.mark.parametrize(
    ("likelihood", "setting"), [("gaussian", "variance"), ("student_t", "scale")]
)
def test_noise_that_no_setting_named_was_one(likelihood, setting, tmp_path, capsys):
    """Such runs of gp and glm could not be read since noise is learnt where no setting names it."""
    data, run = tmp_path / "t.csv", tmp_path / "run"
    np.savetxt(data, ROWS, delimiter=",", header="a,b,y", comments="")
    given = [
        f"model.likelihood.name={likelihood}",
        f"model.likelihood.{setting}=1",
        "data.target=y",
    ]
    short = ["fit.num_epochs=3", "fit.evaluate_every=0"]
    assert (
        main(["fit", "glm", "--data", str(data), "--out", str(run), "--set", *given, *short]) == 0
    )
    before = vi.load(run)
    assert "noise" not in before.fit.posterior
    said, score = (
        before.transform(ROWS[:5, :2])["prediction"],
        str(before.score(data, say=lambda note: None)),
    )
    as_it_was_written(run, setting)
    assert f"\n{setting} = " not in (run / "config.toml").read_text()
    again = vi.load(run)
    np.testing.assert_array_equal(again.transform(ROWS[:5, :2])["prediction"], said)
    assert str(again.score(data, say=lambda note: None)) == score
    (run / "result.json").unlink()
    assert main(["resume", str(run)]) == 0
    assert f"Going on with {run} from step 3" in capsys.readouterr().err
    np.testing.assert_array_equal(vi.load(run).transform(ROWS[:5, :2])["prediction"], said)


def test_noise_that_is_learnt_is_read_as_such(tmp_path):
    data, run = tmp_path / "t.csv", tmp_path / "run"
    np.savetxt(data, ROWS, delimiter=",", header="a,b,y", comments="")
    given = [
        "model.likelihood.name=gaussian",
        "data.target=y",
        "fit.num_epochs=3",
        "fit.evaluate_every=0",
    ]
    assert main(["fit", "glm", "--data", str(data), "--out", str(run), "--set", *given]) == 0
    again = vi.load(run)
    assert "noise" in again.fit.posterior
    assert again.config.model.likelihood.variance is None
