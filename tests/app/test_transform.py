"""Runs on tables applied to other rows: what is kept of the data, what is carried through, what
each model says."""

import csv
import json
import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from tests.naming import naming
from vijax.app.catalogue import LISTINGS, ard_regression, factor_analysis, gap_nmf, hmm, predictors
from vijax.app.cli import main
from vijax.app.rows import by_row
from vijax.app.settings.typed_toml import ConfigError
from vijax.app.settings.units import table_units
from vijax.app.sources.listing import Data, FittedRun
from vijax.data.tables.table import Scaling, Table

KEY = jax.random.key(0)
CENTRES = np.array([[-400.0, 0.0], [0.0, 4.0], [400.0, 0.0]])
CONFIG = """
[data]
path = {path}
columns = ["left", "right"]
standardise = true

[model]
name = "mixture"
num_components = 3
emission.name = "diagonal_gaussian"

[fit]
num_epochs = 40
seed = 1
evaluate_every = 0
"""


def rows(number=90):
    rng = np.random.default_rng(0)
    return CENTRES[np.arange(number) % 3] + rng.normal(size=(number, 2))


def write(path, x, names=("left", "right")):
    with path.open("w") as file:
        file.write(f"id,{','.join(names)},species\n")
        file.writelines(
            f"{i:03d},{','.join(f'{v:.6g}' for v in row)},kind {i % 3}\n" for i, row in enumerate(x)
        )
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run on standardised columns, whose data are taken away."""
    folder = tmp_path_factory.mktemp("inputs")
    path = write(folder / "rows.csv", rows())
    (folder / "small.toml").write_text(CONFIG.format(path=json.dumps(str(path))))
    assert main(["fit", str(folder / "small.toml"), "--out", str(folder / "run")]) == 0
    path.rename(folder / "moved.csv")
    return folder / "run"


def component_of(text):
    return {row["species"]: row["component"] for row in csv.DictReader(text.splitlines())}


def test_the_run_folder_has_the_component_of_every_row(run):
    text = (run / "transformed.csv").read_text()
    found = list(csv.DictReader(text.splitlines()))
    assert list(found[0])[:5] == ["row", "id", "species", "component", "probability_0"]
    assert [row["id"] for row in found] == [f"{i:03d}" for i in range(90)]
    of_kind = component_of(text)
    assert sorted(of_kind.values()) == ["0", "1", "2"]
    assert all(row["component"] == of_kind[row["species"]] for row in found)


def test_a_run_whose_data_are_gone_is_applied_to_new_rows_on_its_scale(run):
    loaded = vi.load(run)
    assert loaded.columns == ("left", "right")
    new = CENTRES + 0.5
    of_kind = component_of((run / "transformed.csv").read_text())
    wanted = [int(of_kind[f"kind {i}"]) for i in range(3)]
    assert loaded.predict(new).tolist() == wanted
    found = loaded.transform({"right": new[:, 1], "who": ["a", "b", "c"], "left": new[:, 0]})
    assert found["who"] == ["a", "b", "c"]
    np.testing.assert_allclose(found["probability"].max(axis=1), 1, atol=1e-6)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"left": new[:, 0], "right": new[:, 1], "n": [7, 8, 9]})
    table = pandas.DataFrame(loaded.transform(frame).columns())
    assert table["component"].tolist() == wanted
    assert table["n"].tolist() == [7, 8, 9]


def test_blocks_of_rows_say_what_all_of_them_do(run, monkeypatch):
    loaded, x = vi.load(run), rows(50)
    at_once, told = loaded.transform(x)["probability"], []
    monkeypatch.setattr(by_row.read_in_blocks, "__defaults__", (16,))
    np.testing.assert_allclose(
        loaded.transform(x, tell=told.append)["probability"], at_once, atol=1e-6
    )
    assert told == [16, 32, 48, 50]


@pytest.mark.parametrize(
    ("new", "fragments"),
    [
        (
            {"left": [1.0], "Right": [2.0]},
            ["'left', 'right'", "none called 'right', but 'left', 'Right'"],
        ),
        (np.ones((2, 3)), ["a matrix of 2 columns", "3"]),
        ({"left": [1.0], "right": ["x"]}, ["column 'right'", "numbers", "'x'"]),
        ({"left": [1.0], "right": [np.nan]}, ["finite numbers", "a missing value in row 0"]),
        ({"left": [1.0, 2.0], "right": [1.0]}, ["columns of one length"]),
        (["a text"], ["a matrix (rows, columns)"]),
    ],
)
def test_data_of_another_kind_are_refused(new, fragments, run):
    with pytest.raises(ValueError, match=re.escape(fragments[0])) as error:
        vi.load(run).transform(new)
    for fragment in fragments:
        assert fragment in str(error.value)


def test_what_does_not_fit_a_run_is_an_error_that_says_what_does(run):
    loaded = vi.load(run)
    with pytest.raises(ConfigError, match=naming("words:", "run.columns")):
        _ = loaded.vocabulary
    with pytest.raises(ConfigError, match="a run of mixture, which has no topics"):
        loaded.topics()
    with pytest.raises(ConfigError, match="--column: for models of documents"):
        loaded.transform(rows(3), column="text")


def test_a_damaged_outline_is_named(run):
    path = run / "columns.json"
    before = path.read_text()
    try:
        for text in (
            "{",
            "[]",
            before.replace('"rows": 81', '"rows": -1'),
            before.replace('"left"', '"left", "more"'),
        ):
            path.write_text(text)
            with pytest.raises(ConfigError, match=r"columns\.json: damaged"):
                vi.load(run)
    finally:
        path.write_text(before)


def test_every_model_is_applied_or_says_what_to_use_instead():
    for name, listing in LISTINGS.items():
        assert (listing.transform is None) == bool(listing.no_transform), name
        assert not (listing.predicts and listing.transform is None), name


# --- what models say, against formulas ------------------------------------------------------------
def seen(fit, settings, train=None):
    return FittedRun(fit, Data(train, None), SimpleNamespace(**settings), KEY)


def silent(done):
    del done


def test_classes_get_the_likelier_one_and_an_interval_of_the_probability():
    m, v = np.array([-3.0, 1.0]), np.array([0.25, 4.0])
    found = predictors.predictions(vi.likelihood.bernoulli_logit(), m, v, ("no", "yes"))
    assert found["prediction"].tolist() == ["no", "yes"]
    ends = 1 / (1 + np.exp(-(m[:, None] + np.sqrt(v)[:, None] * stats.norm.ppf([0.05, 0.95]))))
    np.testing.assert_allclose(np.stack([found["low"], found["high"]], 1), ends, rtol=1e-4)
    np.testing.assert_array_less(found["low"], found["probability_yes"])
    counts = predictors.predictions(vi.likelihood.poisson_log(), m, v, None)
    np.testing.assert_array_equal(counts["high"], np.round(counts["high"]))


def test_factors_are_those_of_the_gaussian_conditional():
    rng = np.random.default_rng(1)
    y = (
        rng.normal(size=(40, 2)) @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(40, 5))
    ).astype(np.float32)
    fit = vi.fit(vi.map(vi.models.factor_analysis(5, 2)), y, num_steps=20, key=KEY)
    given = seen(fit, {"num_factors": 2, "intercept": True})
    y[3, 1] = np.nan
    found = LISTINGS["factor_analysis"].transform(given, Table(tuple("abcde"), y), silent)
    loadings, means, variance = map(np.asarray, factor_analysis._parameters(given))
    there = np.isfinite(y[3])
    w = loadings[there]
    cov = np.linalg.inv(np.eye(2) + w.T @ (w / variance[there][:, None]))
    turn = factor_analysis.rotation(given).turn  # the strongest first, with positive loadings
    mean = cov @ w.T @ ((y[3] - means) / variance)[there]
    np.testing.assert_allclose(found["factor"][3], mean @ turn, rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(found["sd"][3], np.sqrt(np.diag(turn.T @ cov @ turn)), rtol=2e-3)


def test_steps_get_the_viterbi_path_of_their_sequence_whatever_the_order_of_rows():
    rng = np.random.default_rng(2)
    sizes, level = (9, 14, 5), np.array([0.0, 9.0])
    states = [np.sort(rng.integers(0, 2, n)) for n in sizes]
    x = np.concatenate([level[z][:, None] + rng.normal(size=(len(z), 1)) for z in states]).astype(
        np.float32
    )
    groups = np.repeat(np.arange(3), sizes)
    in_order = Table(("x",), x, group="g", groups=groups, group_names=("a", "b", "c"))
    model = vi.models.hmm(vi.models.emission.unit_gaussian(2, 1))
    fit = vi.fit(vi.cavi(model), vi.models.pad(in_order.sequences()), num_steps=20, key=KEY)
    found = hmm.transform(seen(fit, {}), in_order, silent)
    truth = np.concatenate(states)
    swap = found["state"][0] != truth[0]
    np.testing.assert_array_equal(found["state"], 1 - truth if swap else truth)
    np.testing.assert_allclose(found["probability"].sum(axis=1), 1, atol=1e-5)
    order = np.argsort(
        np.concatenate([np.linspace(0, 1, n) + 1e-3 * g for g, n in enumerate(sizes)])
    )  # interleaved
    mixed = Table(("x",), x[order], group="g", groups=groups[order], group_names=("a", "b", "c"))
    again = hmm.transform(seen(fit, {}), mixed, silent)
    np.testing.assert_array_equal(again["state"], found["state"][order])
    np.testing.assert_allclose(again["probability"], found["probability"][order], atol=1e-5)


def test_activations_are_those_of_the_fit():
    y = np.random.default_rng(3).poisson(4.0, size=(12, 4))
    fit = vi.fit(vi.cavi(vi.models.gap_nmf(4, 2)), y, num_steps=5, key=KEY)
    found = gap_nmf.transform(seen(fit, {}), Table(tuple("abcd"), y.astype(float)), silent)
    q = fit.locals(jnp.asarray(y, jnp.float32), key=KEY)["activations"]
    np.testing.assert_allclose(found["activation"], q.mean(), rtol=1e-4)
    np.testing.assert_allclose(found["sd"], np.sqrt(q.shape) / q.rate, rtol=1e-4)
    with pytest.raises(ValueError, match="expected counts 0, 1, 2"):
        gap_nmf.transform(seen(fit, {}), Table(tuple("abcd"), y - y.max() - 1.0), silent)


def test_a_regression_covers_what_it_predicts():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 2))
    y = x @ [2.0, -1.0] + 0.5 + rng.normal(size=400)
    train, test = (
        Table(("a", "b"), x[rows], "y", y[rows]) for rows in (slice(200), slice(200, None))
    )
    settings = {"intercept": True}
    data = tuple(np.asarray(part, np.float32) for part in (np.c_[train.x, np.ones(200)], train.y))
    fit = vi.fit(vi.cavi(vi.models.ard_regression(3)), data, num_steps=50, key=KEY)
    found = ard_regression.transform(seen(fit, settings, train), test, silent)
    inside = (found["low"] < test.y) & (test.y < found["high"])
    assert 0.85 < inside.mean() < 0.95
    assert np.sqrt(np.mean((found["prediction"] - test.y) ** 2)) < 1.1
    np.testing.assert_allclose((found["high"] - found["low"]).mean(), 2 * 1.645 * 1.0, rtol=0.1)


def test_expectations_of_columns_are_in_their_units():
    units = table_units(
        Table(("a",), np.zeros((1, 1)), scaling=Scaling(np.array([5.0]), np.array([2.0])))
    )
    assert units.points(np.array([[1.0]])).item() == 7.0
    assert units.spread(np.array([[0.5]])).item() == 1.0
