"""Runs that find the number of components first, by `model.grow`."""

import json

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from tests.app.small_runs import write_inputs
from vijax.app.cli import main

CONFIG = """
[model]
name = "dp_mixture"
num_components = 6
grow = true
emission.name = "diagonal_gaussian"

[data]
path = {path}
held_out = 0.0

[fit]
num_epochs = 4
"""


@pytest.fixture
def config(tmp_path):
    write_inputs(tmp_path)
    path = tmp_path / "grown.toml"
    path.write_text(CONFIG.format(path=json.dumps(str(tmp_path / "rows.csv"))))
    return path


def test_components_that_hold_rows_are_found_before_the_first_step(config, capsys):
    assert main(["fit", str(config), "--out", str(config.parent / "run")]) == 0
    shown = capsys.readouterr()
    assert "Moves: birth of 0: accepted" in shown.err
    assert "Moves: 2 components of 6 hold rows" in shown.err
    assert "components in use      2" in shown.out
    # A run of fewer steps that goes on does not grow again, and comes to the same end.
    parts = config.parent / "parts"
    assert main(["fit", str(config), "--out", str(parts), "--set", "num_epochs=2"]) == 0
    settings = parts / "config.toml"
    settings.write_text(settings.read_text().replace("num_epochs = 2", "num_epochs = 4"))
    capsys.readouterr()
    assert main(["resume", str(parts)]) == 0
    assert "Moves:" not in capsys.readouterr().err
    whole, other = (np.load(folder / "posterior.npz") for folder in (config.parent / "run", parts))
    for name in whole.files:
        np.testing.assert_array_equal(other[name], whole[name])


@pytest.mark.parametrize(
    ("setting", "fragments"),
    [
        ("fit.restarts=2", "fit.restarts: expected 1 with model.grow, got 2"),
        ("algorithm.name=svi", "algorithm.name: expected cavi with model.grow, got svi"),
    ],
)
def test_what_does_not_go_with_growth_is_refused(setting, fragments, config, capsys):
    assert main(["fit", str(config), "--out", str(config.parent / "run"), "--set", setting]) == 2
    assert fragments in capsys.readouterr().err
    assert not (config.parent / "run").exists()
