"""Columns that are moved and scaled give the same fit, moved and scaled, unless the user says
otherwise."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from vijax.app.cli import main
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config
from vijax.app.report.pages import read_run

RNG = np.random.default_rng(0)
STATE = np.repeat([0, 1, 0, 1], 40)
TEMPERATURE = np.where(STATE, 37.9, 36.9) + np.where(STATE, 0.23, 0.2) * RNG.normal(size=160)


def fitted(name, model, *settings):
    assert (
        main(
            [
                "fit",
                model,
                "--data",
                "t.csv",
                "--out",
                name,
                "--set",
                "held_out=0",
                "fit.restarts=1",
                *settings,
            ]
        )
        == 0
    )
    return {block.title: block for block in read_run(Path(name)).shown}


@pytest.mark.parametrize(
    ("model", "title", "more"),
    [
        ("hmm", "States", ["num_states=2"]),
        ("mixture", "Components", ["num_components=2"]),
        ("mixture", "Components", ["num_components=2", "emission.name=spherical_gaussian"]),
    ],
)
def test_temperatures_of_37_degrees_have_their_own_deviations(
    model, title, more, tmp_path, monkeypatch, capsys
):
    """A prior at 0 that is worth .01 rows made .39 and .55 of .20 and .23; or one component of
    two."""
    monkeypatch.chdir(tmp_path)
    np.savetxt("t.csv", TEMPERATURE, header="temp", comments="")
    rows = sorted(
        fitted("run", model, *more, "fit.num_epochs=60")[title].rows, key=lambda row: row[3]
    )
    assert len(rows) == 2
    np.testing.assert_allclose([row[3] for row in rows], [36.9, 37.9], atol=0.06)
    np.testing.assert_allclose([row[4] for row in rows], [0.2, 0.23], atol=0.035)
    assert "Columns are brought to mean 0" in capsys.readouterr().err


def test_a_component_that_the_prior_widens_is_said_with_a_remedy(tmp_path, monkeypatch, capsys):
    """Rows at -1e6 and 1e6 with a deviation of 1 had an sd of 227,199, unsaid: the prior is as wide
    as the column."""
    monkeypatch.chdir(tmp_path)
    x = np.where(STATE, 1e6, -1e6) + RNG.normal(size=160)
    np.savetxt("t.csv", x, header="x", comments="")
    table = fitted("run", "mixture", "num_components=2", "fit.num_epochs=20")["Components"]
    assert min(row[4] for row in table.rows) > 1e5
    said = re.search(
        r"sd x of \d is ([\d.e+]+), and its rows have a deviation of ([\d.]+)\. .*say it: (.*)\.$",
        table.note,
    )
    assert float(said[1]) > 1e5
    assert 0.8 < float(said[2]) < 1.2
    assert said[0] in capsys.readouterr().out.replace("\n", " ")
    again = fitted(
        "again", "mixture", "num_components=2", "fit.num_epochs=20", *said[3].split(", ")
    )["Components"]
    np.testing.assert_allclose(sorted(row[3] for row in again.rows), [-1e6, 1e6], atol=0.5)
    np.testing.assert_allclose([row[4] for row in again.rows], [1, 1], atol=0.2)
    assert "widens" not in again.note


def test_a_forecast_is_in_the_units_of_the_data(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    season = 5000 + 100 * np.sin(np.arange(80) * np.pi / 2) + 5 * RNG.normal(size=80)
    with Path("t.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["time", "value"], *zip(2000 + np.arange(80) / 4, season.round(2), strict=True)]
        )
    shown = fitted("run", "state_space", "num_states=2", "fit.num_epochs=60")
    (row,) = shown["Columns"].rows
    assert row[1] == pytest.approx(5000, abs=30)
    assert 3 < row[2] < 15
    capsys.readouterr()
    assert main(["predict", "run", "--steps", "4", "--draws", "400"]) == 0
    found = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [float(row["time"]) for row in found] == [2020.0, 2020.25, 2020.5, 2020.75]
    np.testing.assert_allclose(
        [float(row["value_mean"]) for row in found], [5000, 5100, 5000, 4900], atol=25
    )


@pytest.mark.parametrize(
    ("model", "given", "manner"),
    [
        ("gmm_full", [], True),
        ("mixture", ["emission.name=diagonal_gaussian"], True),
        ("mixture", ["emission.name=spherical_gaussian"], "together"),
        ("mixture", ["emission.name=unit_gaussian"], "centre"),
        ("mixture", ["emission.name=poisson"], False),
        (
            "mixture",
            ["emission.name=diagonal_gaussian", "emission.rate=0.1"],
            False,
        ),  # a prior in units of the columns
        ("mixture", ["data.standardise=false"], False),
        ("state_space", [], True),
        ("ppca", [], "together"),
        ("factor_analysis", ["model.noise=diagonal"], True),
        ("gp", ["data.target=b", "model.likelihood.name=gaussian"], True),
        ("gp", ["data.target=b", "model.likelihood.name=gaussian", "length=3"], False),
        ("gap_nmf", [], False),
    ],
)
def test_what_becomes_of_the_scales_is_the_model_s(model, given, manner, tmp_path):
    rows = np.stack([10 + 3 * np.arange(12) % 7, 1000 + 50 * (np.arange(12) % 5)], axis=1)
    np.savetxt(tmp_path / "t.csv", rows, delimiter=",", header="a,b", comments="")
    config = load_config(model, ["held_out=0", *given], str(tmp_path / "t.csv"))
    assert config.data.standardise == manner
    train = load_data(config).train
    mean, deviation = train.x.mean(axis=0), train.x.std(axis=0)
    if manner:
        np.testing.assert_allclose(mean, 0, atol=1e-12)
    if manner is True:
        np.testing.assert_allclose(deviation, 1)
    if manner == "together":
        np.testing.assert_allclose(np.mean(deviation**2), 1)
        assert deviation[1] / deviation[0] == pytest.approx(rows[:, 1].std() / rows[:, 0].std())
    if manner == "centre":
        np.testing.assert_allclose(deviation, rows.std(axis=0))
    assert (
        any(("Columns are brought to mean 0" in note) == bool(manner) for note in train.notes)
        or not manner
    )
