"""Missing cells of mixtures on the command line."""

import csv

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import jax

import vijax as vi
from vijax.app.cli import main
from vijax.models import emission

HEADER = ("length", "width", "mass")


@pytest.fixture
def table(tmp_path):
    """Two components of 30 rows, some cells missing, the second row without any."""
    rng = np.random.default_rng(5)
    y = rng.normal(size=(60, 3)) + 6.0 * (np.arange(60) % 2)[:, None]
    y[rng.random(y.shape) < 0.1] = np.nan
    y[1] = np.nan
    cells = [["" if np.isnan(x) else f"{x:.4f}" for x in row] for row in y]
    with open(tmp_path / "t.csv", "w") as file:
        csv.writer(file).writerows([HEADER, *cells])
    return y.round(4)


SETTINGS = (
    "model.num_components=2",
    "data.held_out=0",
    "data.standardise=false",
    "fit.restarts=1",
    "fit.num_epochs=30",
)


def given(*settings):
    return [word for setting in settings for word in ("--set", setting)]


@pytest.mark.slow
def test_a_run_reads_rows_by_the_cells_that_they_have(table, tmp_path, capsys):
    data, out = str(tmp_path / "t.csv"), str(tmp_path / "run")
    begun = str(tmp_path / "t.toml")
    assert main(["init", "mixture", "--data", data, "--out", begun]) == 0
    assert 'missing = "model"' in (tmp_path / "t.toml").read_text()
    assert main(["fit", begun, "--out", out, *given(*SETTINGS)]) == 0
    missing = np.isnan(table)
    said = f"Note: {missing.sum()} of 180 cells are missing, in {missing.any(1).sum()} of 60 rows"
    assert said in capsys.readouterr().err
    assert main(["transform", out, "--data", data, "--out", str(tmp_path / "new.csv")]) == 0
    with open(tmp_path / "new.csv") as file:
        rows = list(csv.DictReader(file))
    actual = np.array([[float(row[f"probability_{k}"]) for k in (0, 1)] for row in rows])
    assert actual.shape == (60, 2)
    labels = actual.argmax(1)
    has_cells = ~missing.all(1)
    assert len(set((labels ^ (np.arange(60) % 2))[has_cells].tolist())) == 1
    model = vi.models.mixture(emission.incomplete(emission.full_gaussian(2, 3)), concentration=0.5)
    fit = vi.fit(vi.cavi(model), table.astype("f"), num_epochs=30, key=jax.random.key(1))
    expected = np.asarray(fit.locals(table.astype("f"), key=jax.random.key(0))["z"].probs)
    if (expected.argmax(1) != labels).mean() > 0.5:
        expected = expected[:, ::-1]
    np.testing.assert_allclose(actual, expected, atol=2e-3)
    weights = np.loadtxt(tmp_path / "new.csv", delimiter=",", skiprows=1)[1, -2:]
    np.testing.assert_allclose(weights, actual[has_cells].mean(0), atol=0.02)


def test_models_without_a_law_refuse(table, tmp_path, capsys):
    data = f"data.path={tmp_path / 't.csv'}"
    name = "model.emission.name=categorical"
    for settings, said in (
        (("mixture", name), "categorical has no law for missing cells"),
        (("glmm", "model.formula=mass ~ 1"), 'data.missing: expected "refuse" or "drop"'),
    ):
        model, *more = settings
        words = ["fit", model, "--out", str(tmp_path / "no")]
        assert main([*words, *given(data, "data.missing=model", *more)]) == 2
        assert said in capsys.readouterr().err
