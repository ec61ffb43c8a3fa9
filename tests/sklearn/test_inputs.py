"""Arrays that scikit-learn would read as something else are refused by every estimator, before any
fit."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

import vijax.sklearn as vs
from tests.naming import naming
from tests.sklearn.estimators import ESTIMATORS
from vijax.sklearn.parts.inputs import require_plain

RNG = np.random.default_rng(0)
X = RNG.poisson(3.0, (20, 3)).astype(float)
Y = np.arange(20) % 2
MASK = np.zeros((20, 3), bool)
MASK[4, 1] = True
NAMES = [type(estimator).__name__ for estimator, _ in ESTIMATORS]


@pytest.mark.parametrize("estimator", [estimator for estimator, _ in ESTIMATORS], ids=NAMES)
def test_masked_cells_and_dates_are_no_numbers(estimator):
    """The hidden number of a masked cell was data, and a date the integer behind it, in days or
    nanoseconds."""
    arguments = inspect.signature(estimator.fit).parameters
    given = {"y": Y} if arguments["y"].default is inspect.Parameter.empty else {}
    with pytest.raises(ValueError, match=naming("X:", "1 masked", "leave these rows out")):
        estimator.fit(np.ma.array(X, mask=MASK), **given)
    with pytest.raises(ValueError, match="X: expected numbers, got dates"):
        estimator.fit(X.astype("M8[D]"), **given)
    if "y" in given:
        with pytest.raises(ValueError, match=naming("y:", "1 masked", "leave these rows out")):
            estimator.fit(X, np.ma.array(Y, mask=MASK[:, 1]))
    if "sample_weight" in arguments:
        with pytest.raises(
            ValueError, match=naming("sample_weight:", "1 masked", "leave these rows out")
        ):
            estimator.fit(X, **given, sample_weight=np.ma.array(np.ones(20), mask=MASK[:, 1]))


@pytest.mark.parametrize("estimator", [vs.MixedModelRegressor(), vs.BayesianGLM()])
def test_dates_are_no_response(estimator):
    with pytest.raises(ValueError, match="y: expected numbers, got dates"):
        estimator.fit(X, np.arange(20).astype("M8[D]"))


def test_dates_in_tables_are_no_numbers():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": X[:, 0], "day": pandas.date_range("2024-01-01", periods=20)})
    with pytest.raises(ValueError, match="X: expected numbers, got dates"):
        vs.GaussianMixture().fit(table)
    require_plain("X", np.ma.array(X))  # nothing is masked
    require_plain("y", np.arange(3).astype("M8[D]"), may_be_dates=True)


def test_all_inputs_come_through_one_door():
    """`validate_data` and `check_array` are called in `parts/inputs.py`; for names alone in
    `parts/tables.py`."""
    folder = Path(vs.__file__).parent
    callers = set()
    for path in folder.rglob("*.py"):
        calls = [
            node.func
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call)
        ]
        names = {call.id for call in calls if isinstance(call, ast.Name)}
        if names & {"validate_data", "check_array", "check_X_y"}:
            callers.add(path.name)
    assert callers == {"inputs.py", "tables.py"}


BY_ROW = [
    (estimator, name)
    for estimator, _ in ESTIMATORS
    for name in ("y", "sample_weight", "covariates")
    if (given := inspect.signature(estimator.fit).parameters.get(name)) is not None
    and (name != "y" or given.default is inspect.Parameter.empty)
]


@pytest.mark.parametrize(
    ("estimator", "name"), BY_ROW, ids=[f"{type(one).__name__}-{name}" for one, name in BY_ROW]
)
def test_rows_of_another_index_are_refused(estimator, name):
    """They were taken by place in silence, y of other rows for those of X."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, [f"r{i}" for i in range(20)], columns=["a", "b", "c"])
    given = (
        {"y": Y}
        if inspect.signature(estimator.fit).parameters["y"].default is inspect.Parameter.empty
        else {}
    )
    values = pandas.Series(Y + 1.0, table.index)
    turned = (
        rf"{name}: expected the index of X, in its order, got 'r19' where X has 'r0', in row 0. "
        rf"Align it: {name}.loc"
    )
    with pytest.raises(ValueError, match=turned):
        estimator.fit(table, **{**given, name: values[::-1]})
    other = (
        rf"{name}: expected .* got 0 where X has 'r0', in row 0. Give it the index of X, or pass "
        rf"{name}.to_numpy"
    )
    with pytest.raises(ValueError, match=other):
        estimator.fit(table, **{**given, name: values.reset_index(drop=True)})


def test_scores_and_densities_look_at_the_index_too():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["a", "b", "c"])
    y = pandas.Series(X @ [1.0, 2.0, 3.0] + RNG.normal(size=20))
    model = vs.BayesianGLM().fit(table, y)
    for question in (model.score, model.log_predictive):
        with pytest.raises(ValueError, match=naming("y:", "y.loc", "X.index")):
            question(table, y[::-1])
    assert model.score(table[::-1], y[::-1]) == pytest.approx(model.score(table, y))
