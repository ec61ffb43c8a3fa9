"""Targets far from zero: a run near 2,020,000 is the run near zero, moved."""

import csv
import dataclasses
import json
import tomllib
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from tests.naming import naming
from vijax.app.cli import main
from vijax.app.sources.offsets import add_offset, get_offset, with_offset

FAR = 2_020_000.0
MORE = {
    "ard_regression": [],
    "hierarchical_regression": ["data.group=g", "fit.num_epochs=40"],
    "glm": ["model.likelihood.name=gaussian", "fit.num_epochs=20"],
    "gp": ["model.likelihood.name=gaussian", "fit.num_epochs=10"],
}


@dataclasses.dataclass(frozen=True)
class Settings:
    likelihood: object
    offset: float | None = None
    intercept: bool = True


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def numbers(found, name):
    return np.array([float(row[name]) for row in found])


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(60, 2)), rng.normal(size=60)
    y = np.round(x @ [1.0, -0.5] + np.repeat(rng.normal(size=6), 10) + 0.5 * noise, 6)
    for name, by in (("near", 0.0), ("far", FAR)):
        lines = [
            f"{a:.6f},{b:.6f},g{i // 10},{v + by:.6f}"
            for i, ((a, b), v) in enumerate(zip(x, y, strict=True))
        ]
        (folder / f"{name}.csv").write_text("a,b,g,y\n" + "\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("model", MORE)
def test_a_run_far_from_zero_is_the_one_near_it(model, tables, tmp_path):
    """Every step was skipped, or the fit was of zeros, without a word; float32 has steps of an
    eighth there."""
    for name in ("near", "far"):
        said = ["data.target=y", 'data.columns=["a","b"]', "data.held_out=0.2", *MORE[model]]
        given = ["--data", str(tables / f"{name}.csv"), "--out", str(tmp_path / name)]
        assert main(["fit", model, *given, "--set", *said]) == 0
        new = tmp_path / f"{name}.csv"
        assert (
            main(
                [
                    "predict",
                    str(tmp_path / name),
                    "--data",
                    str(tables / f"{name}.csv"),
                    "--out",
                    str(new),
                ]
            )
            == 0
        )
    near, far = (rows(tmp_path / name / "transformed.csv") for name in ("near", "far"))
    for column in ("prediction", "low", "high"):
        np.testing.assert_allclose(numbers(far, column) - FAR, numbers(near, column), atol=2e-3)
    drawn = [rows(tmp_path / f"{name}.csv") for name in ("near", "far")]
    np.testing.assert_allclose(
        numbers(drawn[1], "y_mean") - FAR, numbers(drawn[0], "y_mean"), atol=2e-3
    )
    ends = [json.loads((tmp_path / name / "result.json").read_text()) for name in ("near", "far")]
    assert ends[1]["score"][0] == pytest.approx(ends[0]["score"][0], rel=1e-3)
    tables_of = [
        {block["title"]: block for block in end["blocks"] if block["kind"] == "Table"}
        for end in ends
    ]
    for title in {"Coefficients, in numbers", "Weights, in numbers", "Population"} & set(
        tables_of[0]
    ):
        own, moved_by = (
            np.array([row[1:3] for row in found[title]["rows"]], float) for found in tables_of
        )
        moved_by[-1, 0] -= FAR
        np.testing.assert_allclose(moved_by, own, atol=2e-3)
    kept = tomllib.loads((tmp_path / "far" / "config.toml").read_text())["model"]["offset"]
    assert abs(kept - FAR) < 5


def test_zero_keeps_its_place_where_it_has_one():
    train = SimpleNamespace(y=np.array([7.0, 9.0]))
    make = lambda name, **more: Settings(likelihood=SimpleNamespace(name=name), **more)
    assert with_offset(make("gaussian"), "real", train).offset == 8.0
    assert with_offset(make("gaussian", intercept=False), "real", train).offset is None
    assert with_offset(make("gamma_log"), "real", train).offset is None
    assert with_offset(make("poisson_log"), "count", train).offset is None
    assert with_offset(make("student_t", offset=3.0), "real", train).offset == 3.0
    with pytest.raises(ValueError, match=naming("model.offset:", "poisson_log", "3.0")):
        with_offset(make("poisson_log", offset=3.0), "count", train)
    assert get_offset(make("gaussian")) == 0.0
    found = {"prediction": np.ones(2, np.float32)}
    assert add_offset(found, make("gaussian")) is found
    assert add_offset(found, make("gaussian", offset=FAR))["prediction"].dtype == np.float64
