"""Errors on held-out rows: against scikit-learn and by hand, and in the results of runs."""

import csv

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from vijax.app.answers.measures import MEASURES, TargetPredictions, area_under_curve
from vijax.app.cli import main
from vijax.app.drawing.blocks import TITLE_OF_MEASURES
from vijax.app.report.pages import read_run

RNG = np.random.default_rng(3)


def test_the_area_under_the_curve_is_scikit_learns():
    metrics = pytest.importorskip("sklearn.metrics")
    target = RNG.integers(0, 2, 60).astype(float)
    score = RNG.integers(0, 8, 60) / 8.0  # with ties
    weights = RNG.integers(0, 3, 60).astype(float)
    found = area_under_curve(target, score, weights)
    assert found == pytest.approx(metrics.roc_auc_score(target, score, sample_weight=weights))
    assert np.isnan(area_under_curve(np.ones(3), score[:3], np.ones(3)))


def test_measures_by_hand():
    """A row of weight 2 is the row twice; a prediction without columns may differ by row."""
    predicted = TargetPredictions(
        "real",
        np.array([1.0, 3.0, 3.0]),
        np.array([2.0, 3.0, 1.0]),
        np.array([1.5, 1.5, 2.5]),
        np.array([2.0, 1.0, 1.0]),
        "height",
    )
    (typical, explained) = MEASURES["real"](predicted)
    error, plain = (2 * 1 + 0 + 4) / 4, (2 * 0.25 + 1.5**2 + 0.5**2) / 4
    assert typical[1:] == pytest.approx([error**0.5, plain**0.5])
    assert explained[1:] == pytest.approx([1 - error / plain, 0.0])
    classes = predicted._replace(
        kind="classes",
        target=np.array([0.0, 1.0, 2.0]),
        prediction=np.array([0.0, 2.0, 2.0]),
        plain=np.array([2.0, 2.0, 2.0]),
    )
    assert MEASURES["classes"](classes)[0][1:] == pytest.approx([0.75, 0.25])


def held_out_table(folder, model, columns, *settings):
    """The measures of a run on these columns, by name."""
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    given = ["--set", "fit.evaluate_every=0", "data.held_out=0.5", *settings]
    data = ["--data", str(folder / "rows.csv"), "--out", str(folder / "run")]
    assert main(["fit", model, *data, *given]) == 0
    tables = [b for b in read_run(folder / "run").shown if b.title == TITLE_OF_MEASURES]
    return {row[0]: row[1:] for table in tables for row in table.rows}


X = RNG.normal(size=200)


def test_a_regression_tells_errors_in_units_of_its_target(tmp_path):
    y = 1000.0 + 30 * X + 10 * RNG.normal(size=200)
    columns = {"x": X, "height": y}
    found = held_out_table(tmp_path, "glmm", columns, "model.formula=height ~ x")
    typical = found["typical error of height (root mean square)"]
    assert typical[0] == pytest.approx(10, rel=0.2)
    assert typical[1] == pytest.approx(10**0.5 * 10, rel=0.2)
    assert found["share of variance explained"][0] == pytest.approx(0.9, abs=0.05)


def test_classes_tell_how_many_are_right(tmp_path):
    ill = np.where(RNG.random(200) < 1 / (1 + np.exp(-3 * X)), "yes", "no")
    columns = {"x": X, "ill": ill}
    settings = ("data.target=ill", "fit.num_epochs=30")
    found = held_out_table(tmp_path, "logistic_regression", columns, *settings)
    assert 0.7 < found["share of rows classified correctly"][0] < 0.95
    assert found["share of rows classified correctly"][1] < 0.65
    assert found["area under the curve (AUC)"] == [pytest.approx(0.9, abs=0.06), 0.5]


@pytest.mark.slow
def test_without_columns_the_exposure_is_kept(tmp_path):
    """A column of noise explains nothing of counts whose exposure is an offset."""
    rng = np.random.default_rng(11)
    exposure = rng.uniform(0.1, 20.0, 2000)
    columns = {"x": rng.normal(size=2000), "e": exposure, "count": rng.poisson(3.0 * exposure)}
    formula = "model.formula=count ~ x + offset(log(e))"
    found = held_out_table(tmp_path, "glmm", columns, formula, "model.family=poisson")
    # Of 3,000 such tables by maximum likelihood: mean -.0014, sd .0034; of 200 rows sd .035.
    assert found["share of variance explained"][0] == pytest.approx(-0.0014, abs=6 * 0.0034)
    best = np.sqrt(3.0 * np.mean(exposure))  # with the rate known
    typical = found["typical error of count (root mean square)"]
    assert typical == pytest.approx([best, best], rel=6 * 0.026)


def test_responses_that_are_seen_in_part_have_no_error(tmp_path):
    """Predictions are of the response before it is censored."""
    status = np.where(X > 1, "right", "none")
    columns = {"x": X, "height": 3 + np.minimum(X, 1.0), "status": status}
    formula = "model.formula=censored(height, status) ~ x"
    assert held_out_table(tmp_path, "glmm", columns, formula) == {}
