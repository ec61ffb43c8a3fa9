"""Missing cells: rows that lack one are left out and told, or have empty results; steps that lack
one were not seen."""

import csv
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from tests.naming import check_names, naming
from vijax.app.cli import main
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config

RNG = np.random.default_rng(0)


@pytest.fixture
def penguins(tmp_path, monkeypatch):
    """Measures of 90 birds of three kinds, numbered within these; two birds lack all, one column
    lacks most cells."""
    monkeypatch.chdir(tmp_path)
    with Path("penguins.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["Sample Number", "Species", "Const", "Bill (mm)", "Flipper (mm)", "d15N"])
        for i in range(90):
            kind, lacks = i // 30, i in (3, 50)
            bill, flipper = (
                round(38 + 5 * kind + RNG.normal(), 1),
                int(190 + 12 * kind + 4 * RNG.normal()),
            )
            isotope = "" if i % 3 else round(8 + 0.3 * RNG.normal(), 2)
            row = [
                i % 30 + 1,
                "abc"[kind],
                7,
                "" if lacks else bill,
                "NA" if lacks else flipper,
                isotope,
            ]
            writer.writerow(row)
    return "penguins.csv"


def test_init_proposes_the_measures(penguins):
    assert main(["init", "mixture", "--data", penguins]) == 0
    text = Path("penguins_mixture.toml").read_text()
    config = load_config("penguins_mixture.toml")
    assert config.data.columns == ("Bill (mm)", "Flipper (mm)")
    assert config.model.emission.name == "full_gaussian"
    assert config.data.missing == "drop"
    assert "# 2 of 90 rows lack a cell, and are left out." in text
    for left_out in (
        "Sample Number: identifies the rows",
        "Const: the same in all rows, 7",
        "d15N: numbers from",
    ):
        assert left_out in text.partition("Left out: ")[2].partition("\n")[0]
    data = load_data(config)
    assert data.train.num_rows + data.test.num_rows == 88
    (note,) = [note for note in data.train.notes if "lack a cell" in note]
    check_names(note, "90 rows", "data.missing", "52")
    assert "'Bill (mm)' 2, 'Flipper (mm)' 2" in note


def test_rows_are_refused_or_left_out(penguins):
    given = ['data.columns=["Bill (mm)", "Flipper (mm)"]', "held_out=0"]
    with pytest.raises(
        ValueError,
        match=naming("5", "--set", "data.missing"),
    ):
        load_data(load_config("mixture", given, penguins))
    train = load_data(load_config("mixture", [*given, "data.missing=drop"], penguins)).train
    assert train.num_rows == 88
    assert train.origin.rows.labels[[2, 3]].tolist() == [4, 6]  # lines of the file
    by_target = [
        'data.columns=["Bill (mm)"]',
        "held_out=0",
        "data.missing=drop",
        "data.target=d15N",
    ]
    assert load_data(load_config("ard_regression", by_target, penguins)).train.num_rows == 29
    lost = ["data.columns=['Bill (mm)', 'empty']", "held_out=0", "data.missing=drop"]
    Path("e.csv").write_text("Bill (mm),empty\n1,\n2,\n3,\n")
    with pytest.raises(ValueError, match=naming("e.csv:", "'empty' lacks 3")):
        load_data(load_config("mixture", lost, "e.csv"))


def test_new_rows_that_lack_a_cell_have_empty_results_in_their_place(penguins, capsys):
    main(["init", "mixture", "--data", penguins])
    given = ["num_components=3", "fit.num_epochs=5", "fit.restarts=1"]
    assert main(["fit", "penguins_mixture.toml", "--out", "run", "--set", *given]) == 0
    rows = list(csv.DictReader(Path("run", "transformed.csv").read_text().splitlines()))
    assert [row["row"] for row in rows if row["component"] == ""] == ["3", "50"]
    assert [row["Species"] for row in rows] == [kind for kind in "abc" for _ in range(30)]
    assert "<dt>Rows left out</dt><dd>2" in Path("run", "report.html").read_text()
    run = vi.load("run")
    new = {"Bill (mm)": [38.0, None, 48.0], "Flipper (mm)": [190.0, 200.0, 214.0]}
    found = run.transform(new)
    assert "1 of 3 rows lack a cell that the model needs, the first in row 1" in found.notes[0]
    alone = run.transform({name: [values[0], values[2]] for name, values in new.items()})
    np.testing.assert_array_equal(found["component"][[0, 2]], alone["component"])
    assert np.isnan(found["component"][1])
    assert np.isnan(found["probability"][1]).all()
    with pytest.warns(UserWarning, match="1 of 3 rows lack a cell and are left out"):
        assert run.score(new).number == 2
    capsys.readouterr()


def test_codes_of_missing_values_and_signs_are_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("air.csv").write_text('ozone,share,kind\n41,"22,2 %",.\n.,7 %,a\n12,8 %,b\n-,"9,1 %",c\n')
    train = load_data(
        load_config("factor_analysis", ["held_out=0", "num_factors=1"], "air.csv")
    ).train
    assert train.columns == ("ozone",)
    assert np.isnan(train.x[:, 0]).tolist() == [False, True, False, True]
    notes = " ".join(train.notes)
    check_names(notes, "'ozone'", "'.'", "2 cells")
    check_names(notes, "'22,2 %'", "22.2")


def test_steps_are_never_removed(tmp_path, monkeypatch):
    """A row less would join the steps before and after it."""
    monkeypatch.chdir(tmp_path)
    Path("s.csv").write_text(
        "time,x,y\n" + "".join(f"{i},{'' if i == 4 else i % 5},{i % 3}\n" for i in range(20))
    )
    with pytest.raises(
        ValueError,
        match=r"do not remove rows, which would join .* arhmm, slds and state_space take",
    ):
        load_data(load_config("hmm", ["held_out=0"], "s.csv"))
    train = load_data(load_config("hmm", ["held_out=0", "missing=drop"], "s.csv")).train
    assert train.num_rows == 20
    assert np.isnan(train.x[4]).all()
    assert any("1 of 20 steps lack 1 cells and count as not seen" in note for note in train.notes)
    assert load_data(load_config("state_space", ["held_out=0"], "s.csv")).train.num_rows == 20
    factorial = load_data(
        load_config("factorial_hmm", ["held_out=0", "missing=drop"], "s.csv")
    ).train
    assert np.isnan(factorial.x[4]).all()
