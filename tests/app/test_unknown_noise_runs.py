"""Runs of a Gaussian likelihood without a number for its noise: intervals cover whatever the unit
of the target."""

import csv

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from vijax.app.cli import main


@pytest.mark.parametrize(("unit", "place"), [(50.0, 0.0), (1e-3, 0.0), (1e4, 1e6)])
def test_intervals_of_a_linear_model_cover_the_target(unit, place, tmp_path):
    """With a noise of about one in units of y they covered 3 % at a deviation of 50."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2))
    y = place + unit * (x @ [1.0, -0.5] + 0.4 * rng.normal(size=80))
    table = tmp_path / "table.csv"
    lines = [f"{a:.6f},{b:.6f},{float(v)!r}" for (a, b), v in zip(x, y, strict=True)]
    table.write_text("a,b,y\n" + "\n".join(lines) + "\n")
    said = ["data.target=y", "model.likelihood.name=gaussian", "fit.num_epochs=30"]
    assert (
        main(["fit", "glm", "--data", str(table), "--out", str(tmp_path / "run"), "--set", *said])
        == 0
    )
    out = tmp_path / "out.csv"
    assert main(["transform", str(tmp_path / "run"), "--data", str(table), "--out", str(out)]) == 0
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    predicted, low, high = (
        np.array([float(row[name]) for row in rows]) for name in ("prediction", "low", "high")
    )
    assert 0.88 <= np.mean((y >= low) & (y <= high)) <= 1.0
    assert np.std(y - predicted) < 0.5 * unit
    assert np.mean(high - low) == pytest.approx(2 * 1.96 * 0.4 * unit, rel=0.25)
