"""`vijax predict` and `Run.predictive`: draws of tables in the units of the data, forecasts, and
what is refused."""

import csv
import json

import jax
import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from tests.naming import naming
from vijax.app.answers.results import PredictRequest, check_request
from vijax.app.catalogue import LISTINGS
from vijax.app.cli import main
from vijax.app.drawing import exports
from vijax.app.drawing.blocks import Curves
from vijax.app.report.pages import read_run
from vijax.app.settings.typed_toml import ConfigError

RNG = np.random.default_rng(0)
KEY = jax.random.key(0)


def write(path, columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def fitted(folder, model, columns, *settings):
    """A finished run on these columns."""
    path = write(folder / "rows.csv", columns)
    given = ["fit.evaluate_every=0", "fit.restarts=1", *settings]
    assert (
        main(["fit", model, "--data", str(path), "--out", str(folder / "run"), "--set", *given])
        == 0
    )
    return folder / "run"


def rows_of(text):
    return list(csv.DictReader(text.splitlines()))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One cluster of two columns of other scales, standardised."""
    columns = {"kilo": RNG.normal(1000, 100, 4000), "milli": RNG.normal(0.005, 0.001, 4000)}
    settings = (
        "data.standardise=true",
        "data.held_out=0",
        "model.num_components=1",
        "fit.num_epochs=4",
    )
    return fitted(tmp_path_factory.mktemp("rows"), "gmm_full", columns, *settings)


def test_new_rows_are_drawn_in_the_units_of_the_data(run, capsys, tmp_path):
    assert main(["predict", str(run), "--rows", "2", "--draws", "4000", "--level", "0.9"]) == 0
    found = rows_of(capsys.readouterr().out)
    wanted = [
        "row",
        *(f"{name}_{part}" for name in ("kilo", "milli") for part in ("mean", "sd", "low", "high")),
    ]
    assert list(found[0]) == wanted
    for row in found:
        for name, mean, sd in (("kilo", 1000, 100), ("milli", 0.005, 0.001)):
            ends = [mean - 1.645 * sd, mean + 1.645 * sd]
            numbers = [float(row[f"{name}_{part}"]) for part in ("mean", "sd", "low", "high")]
            np.testing.assert_allclose(numbers, [mean, sd, *ends], atol=0.12 * sd)
    out = tmp_path / "each.jsonl"
    assert (
        main(["predict", str(run), "--rows", "2", "--draws", "3", "--each", "--out", str(out)]) == 0
    )
    each = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["draw"], row["row"]) for row in each] == [
        (s, n) for s in range(3) for n in range(2)
    ]
    again = vi.load(run).predictive(KEY, 3, 2)
    np.testing.assert_allclose(
        [row["kilo"] for row in each], again.values[..., 0].ravel(), rtol=1e-5
    )


def test_a_table_in_its_own_units_is_replicated_and_keeps_its_names(run):
    loaded, table = (
        vi.load(run),
        {"who": ["a", "b"], "milli": [0.004, 0.006], "kilo": [900.0, 1200.0]},
    )
    draws = loaded.predictive(KEY, 500, table, groups="same")
    assert draws.values.shape == (500, 2, 2)
    assert list(draws.summary().columns())[:3] == ["row", "who", "kilo_mean"]
    np.testing.assert_allclose(draws.mean()[:, 0], 1000, atol=25)
    assert len(draws) == 500
    assert "500 of 2 rows of kilo, milli" in repr(draws)


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["--rows", "2", "--data", "x.csv"], ["--data and --rows do not go together"]),
        (
            ["--steps", "2"],
            [
                "mixture has no order of time",
                "arhmm, slds, recurrent_slds, state_space and dynamic_svae",
            ],
        ),
        (["--rows", "0"], ["--rows: expected 1 or more, got 0"]),
        (["--draws", "1"], ["--draws: expected 2 or more, got 1"]),
        (
            ["--level", "95"],
            ["--level: expected a probability between 0 and 1, got 95; such as 0.9"],
        ),
        (["--rows", "2", "--out", "x.xlsx"], [".csv, .parquet, .jsonl"]),
        (["--seed", "-1"], ["--seed: expected an integer from 0"]),
    ],
)
def test_what_cannot_be_drawn_is_said(run, capsys, arguments, fragments):
    assert main(["predict", str(run), *arguments]) == 2
    said = capsys.readouterr().err
    for fragment in fragments:
        assert fragment in said


def test_models_of_no_tables_and_of_targets_say_what_to_do():
    with pytest.raises(ConfigError, match=naming("RUN", "--data", "FILE")):
        check_request(LISTINGS["lda"], PredictRequest())
    with pytest.raises(ConfigError, match=naming("--rows:", "--data")):
        check_request(LISTINGS["glm"], PredictRequest(rows=3))
    for listing in LISTINGS.values():
        is_table = listing.source.results == "transformed" and listing.name not in (
            "density",
            "glmm",
        )
        assert (listing.drawing is not None) == is_table, listing.name


def test_sequences_are_forecast_in_the_units_of_the_data(tmp_path, capsys):
    """They alternate between two values; one ends high, the other low."""
    columns = {
        "track": ["a"] * 60 + ["b"] * 61,
        "height": np.concatenate([np.tile([100.0, 300.0], 30), np.tile([100.0, 300.0], 31)[:61]])
        + RNG.normal(0, 5, 121),
    }
    settings = (
        "data.group=track",
        "data.held_out=0",
        "data.standardise=true",
        "model.num_states=2",
        "model.stickiness=0",
    )
    folder = fitted(tmp_path, "hmm", columns, *settings, "fit.num_epochs=30")
    assert "sequence b" in capsys.readouterr().out
    _, drawn = next(exports.tables(b for b in read_run(folder).shown if isinstance(b, Curves)))
    shown = rows_of(drawn)
    assert [float(row["step"]) for row in shown] == [*range(1, 81)]  # 60 of its 61 steps, 20 ahead
    height = np.array([float(row["value"]) for row in shown])
    np.testing.assert_allclose(height[:60], columns["height"][-60:], rtol=1e-4)
    np.testing.assert_allclose(height[60:62], [300, 100], atol=40)
    assert [row["low"] != "" for row in shown] == [False] * 60 + [True] * 20
    assert main(["predict", str(folder), "--steps", "2"]) == 0
    found = rows_of(capsys.readouterr().out)
    assert [(row["track"], row["ahead"]) for row in found] == [
        ("a", "1"),
        ("a", "2"),
        ("b", "1"),
        ("b", "2"),
    ]
    means = [float(row["height_mean"]) for row in found]
    np.testing.assert_allclose(
        means, [100, 300, 300, 100], atol=40
    )  # the 25 are what q leaves to chance
    new = {"track": ["c", "c"], "height": [300.0, 100.0]}
    draws = vi.load(folder).forecast(KEY, 400, 1, new)
    assert list(draws.beside["track"]) == ["c"]
    np.testing.assert_allclose(draws.mean(), [[300.0]], atol=25)
    assert main(["predict", str(folder), "--rows", "3", "--draws", "10"]) == 0
    assert [row["step"] for row in rows_of(capsys.readouterr().out)] == ["0", "1", "2"]
    same = vi.load(folder).predictive(KEY, 50, groups="same")  # in the order of the rows
    np.testing.assert_allclose(same.mean()[:, 0], columns["height"], atol=40)


def test_targets_are_drawn_given_the_columns(tmp_path, capsys):
    x = RNG.normal(50, 10, 400)
    chance = 1 / (1 + np.exp(-(x - 50) / 4))
    columns = {"age": x, "ill": np.where(RNG.random(400) < chance, "yes", "no")}
    settings = (
        "data.target=ill",
        "data.standardise=true",
        "data.held_out=0",
        "model.prior_scale=10",
    )
    folder = fitted(tmp_path, "logistic_regression", columns, *settings)
    new = write(tmp_path / "new.csv", {"age": [30.0, 50.0, 70.0]})
    capsys.readouterr()
    assert main(["predict", str(folder), "--data", str(new), "--draws", "2000"]) == 0
    found = [float(row["probability_yes"]) for row in rows_of(capsys.readouterr().out)]
    told = vi.load(folder).transform(str(new))["probability_yes"]
    np.testing.assert_allclose(found, told, atol=0.05)
    assert main(["predict", str(folder), "--data", str(new), "--draws", "20", "--each"]) == 0
    assert {row["ill"] for row in rows_of(capsys.readouterr().out)} == {"yes", "no"}


def test_a_group_that_training_has_seen_is_drawn_by_its_own_coefficients(tmp_path):
    """Means and widths are those of the intervals of `transform`; rows of an unseen group move
    together."""
    group = np.arange(300) % 6
    columns = {"school": [f"s{g}" for g in group], "x": RNG.normal(size=300)}
    columns["y"] = 3.0 * group + columns["x"] + RNG.normal(0, 0.5, 300)
    settings = (
        "data.group=school",
        "data.target=y",
        "data.held_out=0",
        "data.columns=['x']",
        "fit.num_epochs=100",
    )
    loaded = vi.load(fitted(tmp_path, "hierarchical_linear", columns, *settings))
    new = {"school": ["s5", "s0", "other", "other"], "x": [0.0, 1.0, 0.0, 0.5]}
    draws, told = loaded.predictive(KEY, 4000, new), loaded.transform(new)
    np.testing.assert_allclose(draws.mean()[:2, 0], told["prediction"][:2], atol=0.1)
    np.testing.assert_allclose(draws.interval()[1][:2, 0], told["high"][:2], atol=0.25)
    assert draws.std()[2, 0] > 3 * draws.std()[0, 0]
    assert np.corrcoef(draws.values[:, 2, 0], draws.values[:, 3, 0])[0, 1] > 0.9
    assert abs(np.corrcoef(draws.values[:, 0, 0], draws.values[:, 2, 0])[0, 1]) < 0.1


def test_missing_entries_are_drawn_given_the_rest_of_their_row(tmp_path):
    factor = RNG.normal(size=500)
    columns = {name: 10 * factor + 100 + RNG.normal(0, 1, 500) for name in "abc"}
    loaded = vi.load(
        fitted(
            tmp_path, "ppca", columns, "data.held_out=0", "model.num_factors=1", "fit.num_epochs=60"
        )
    )
    new = {"a": [120.0, 80.0], "b": [120.0, 80.0], "c": [np.nan, np.nan]}
    draws = loaded.predictive(KEY, 2000, new, groups="same")
    np.testing.assert_allclose(draws.mean()[:, 2], [120.0, 80.0], atol=1.5)
    assert (draws.std()[:, 2] < 3).all()
