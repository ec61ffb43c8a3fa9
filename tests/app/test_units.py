"""Pages speak in the units of the data, also where a run has standardised its columns."""

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from vijax.app.cli import main
from vijax.app.drawing import blocks
from vijax.app.report.pages import read_run
from vijax.app.settings.units import STANDARDISED, Units, table_units
from vijax.data.tables.table import Table

RNG = np.random.default_rng(0)
UNITS = Units(np.array([1000.0, 1.0]), np.array([100.0, 0.1]), True)


def shown_by(folder, model, columns, *settings):
    """The blocks of the page of a run on standardised columns, by title."""
    path = folder / "rows.csv"
    np.savetxt(
        path,
        np.stack(list(columns.values()), axis=1),
        delimiter=",",
        header=",".join(columns),
        comments="",
    )
    given = ["data.standardise=true", "data.held_out=0", *settings]
    assert (
        main(["fit", model, "--data", str(path), "--out", str(folder / "run"), "--set", *given])
        == 0
    )
    return {block.title: block for block in read_run(folder / "run").shown}


def test_coefficients_of_standardised_rows_are_turned_into_those_of_rows():
    x, b = RNG.normal(size=(5, 2)), np.array([2.0, -3.0, 0.5])
    expected = x @ b[:2] + b[2]
    turned = UNITS.coefficients(True) @ b
    np.testing.assert_allclose(UNITS.points(x) @ turned[:2] + turned[2], expected)
    np.testing.assert_allclose(UNITS.spread(UNITS.coefficients(False) @ b[:2]), b[:2])


def test_a_table_as_it_is_has_its_own_units():
    units = table_units(Table(("a", "b"), np.zeros((3, 2))))
    x = RNG.normal(size=(4, 2))
    assert units.points(x) is x
    assert units.note("So.") == "So."
    np.testing.assert_array_equal(units.coefficients(True), np.eye(3))
    assert UNITS.note("So.") == f"So. {STANDARDISED}"


def test_means_deviations_and_points_of_clusters(tmp_path):
    group = np.arange(4000) % 2
    columns = {
        "kilo": 1000.0 + 500.0 * group + RNG.normal(0, 20, 4000),
        "milli": 0.001 * RNG.normal(5, 1, 4000),
    }
    shown = shown_by(
        tmp_path,
        "gmm_full",
        columns,
        "model.num_components=2",
        "fit.num_epochs=30",
        "fit.restarts=1",
    )
    rows = sorted(shown["Components"].rows, key=lambda row: row[3])
    np.testing.assert_allclose([row[2] for row in rows], 2000, atol=1)
    np.testing.assert_allclose([row[3] for row in rows], [1000, 1500], atol=15)
    np.testing.assert_allclose([row[4] for row in rows], 0.005, atol=0.0005)
    np.testing.assert_allclose([row[5] for row in rows], 20, rtol=0.3)
    picture = shown["Clusters"]
    np.testing.assert_allclose(
        [min(picture.x), max(picture.x)], [columns["kilo"].min(), columns["kilo"].max()], atol=20
    )
    centres = sorted(np.mean(x[:-1]) for _, x, _ in picture.outlines)
    np.testing.assert_allclose(centres, [1000, 1500], atol=20)


@pytest.mark.parametrize(
    ("model", "settings", "title"),
    [
        (
            "glm",
            [
                "model.likelihood.name=gaussian",
                "model.likelihood.variance=0.01",
                "model.prior_scale=100",
            ],
            "Weights",
        ),
        ("ard", [], "Coefficients"),
    ],
)
def test_coefficients_of_regressions(tmp_path, model, settings, title):
    kilo, milli = RNG.normal(1000, 100, 300), RNG.normal(0.005, 0.001, 300)
    columns = {
        "kilo": kilo,
        "milli": milli,
        "y": 0.02 * kilo - 800 * milli + 3 + RNG.normal(0, 0.1, 300),
    }
    weights = shown_by(tmp_path, model, columns, "data.target=y", *settings)[title]
    assert weights.labels == ["kilo", "milli", "intercept"]
    truth, scale = np.array([0.02, -800, 3.0]), np.asarray(weights.deviation)
    assert (np.abs(np.asarray(weights.mean) - truth) < 5 * scale).all()
    design = np.stack([kilo, milli, np.ones(300)], axis=1)
    expected = 0.1 * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    np.testing.assert_allclose(scale, expected, rtol=0.2)


def test_the_population_of_groups(tmp_path):
    group = np.repeat(np.arange(8), 40)
    x, slope = RNG.normal(1000, 100, 320), 0.02 + 0.002 * RNG.normal(size=8)
    columns = {"kilo": x, "group": group, "y": slope[group] * x + 3 + RNG.normal(0, 0.1, 320)}
    settings = ["data.target=y", "data.group=group", "fit.num_epochs=40"]
    shown = shown_by(tmp_path, "hierarchical_linear", columns, *settings)
    np.testing.assert_allclose(shown["kilo, by group"].mean, slope, atol=0.002)
    name, mean, _ = shown["Population"].rows[0]
    assert name == "kilo"
    np.testing.assert_allclose(mean, slope.mean(), atol=0.003)


def test_the_axis_and_the_length_of_a_process(tmp_path):
    t = np.sort(RNG.uniform(1000, 1100, 60))
    columns = {"t": t, "y": RNG.poisson(np.exp(1 + np.sin(t / 10)))}
    shown = shown_by(
        tmp_path, "gp_poisson", columns, "data.target=y", "data.columns=['t']", "fit.num_epochs=10"
    )
    curve = shown["Response"]
    np.testing.assert_allclose([curve.x[0], curve.x[-1]], [t[0], t[-1]], rtol=1e-4)
    np.testing.assert_allclose([min(curve.points_x), max(curve.points_x)], [t[0], t[-1]], rtol=1e-4)
    assert (
        10 < float(dict(shown["Hyperparameters"].rows)["length"]) < 60
    )  # about one deviation of t, 29


def test_states_beside_their_sequence(tmp_path):
    state = np.repeat([0, 1, 0, 1], 30)
    columns = {
        "kilo": 1000.0 + 300 * state + RNG.normal(0, 20, 120),
        "milli": 0.001 * RNG.normal(5, 1, 120),
    }
    columns["part"] = np.zeros(120)
    settings = ["data.group=part", "model.num_states=2", "fit.num_epochs=20", "fit.restarts=1"]
    shown = shown_by(tmp_path, "hmm", columns, *settings)
    course = next(block for block in shown.values() if isinstance(block, blocks.Course))
    np.testing.assert_allclose(course.values[0], columns["kilo"], rtol=1e-4)
    changes = np.flatnonzero(np.diff(course.states)) + 1
    assert changes.tolist() == [30, 60, 90]
    np.testing.assert_allclose(np.sum(course.probabilities, axis=0), 1.0, atol=1e-4)
    assert shown["Transitions"].apart
    np.testing.assert_allclose(
        sorted(row[3] for row in shown["States"].rows), [1000, 1300], atol=15
    )


@pytest.mark.parametrize(
    ("model", "settings"), [("ppca", ["model.num_factors=1"]), ("state_space", ["data.group=part"])]
)
def test_means_and_noise_of_columns(tmp_path, model, settings):
    wave = np.sin(np.arange(200) / 5)
    columns = {
        "kilo": 1000 + 50 * wave + RNG.normal(0, 20, 200),
        "milli": 5 + 0.1 * wave + RNG.normal(0, 0.05, 200),
    }
    columns |= {"part": np.zeros(200)} if "data.group=part" in settings else {}
    shown = shown_by(tmp_path, model, columns, *settings, "fit.num_epochs=20", "fit.restarts=1")
    means = np.array([row[1] for row in shown["Columns"].rows])
    np.testing.assert_allclose(means, [1000, 5], rtol=0.02)
    assert shown["Loadings"].note.endswith(STANDARDISED)
    noise = np.array([row[2] for row in shown["Columns"].rows])
    assert (noise / [20, 0.05] < 3).all()
    assert (noise / [20, 0.05] > 0.3).all()
