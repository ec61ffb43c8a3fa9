"""`vijax init` chooses targets, groups, times and columns as a person would, and says why."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

from vijax.app.catalogue import LISTINGS
from vijax.app.cli import main
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config
from vijax.app.plan.initial import initial_text

RNG = np.random.default_rng(0)
YES = np.array(["Yes", "No"])


def begun(model, columns, *given):
    """The configuration that `init` writes, and its text."""
    names = list(columns)
    rows = zip(*(np.asarray(columns[name]).tolist() for name in names), strict=True)
    Path("t.csv").write_text(
        "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)])
    )
    text = initial_text(model, "t.csv", given)
    Path("t.toml").write_text(text)
    return load_config("t.toml"), text


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def two(values=("No", "Yes"), size=40):
    return np.array(values)[RNG.integers(0, 2, size)]


@pytest.mark.parametrize(
    ("columns", "target", "why"),
    [
        ({"churn": two(), "x": RNG.normal(size=40), "paperless": two()}, "churn", "By its name."),
        (
            {"x": RNG.normal(size=40), "has_default": two((0, 1)), "z2": two((0, 1))},
            "has_default",
            "By its name.",
        ),
        (
            {"outcome": two(("ill", "well")), "x": RNG.normal(size=40), "sex": two(("f", "m"))},
            "outcome",
            "'well' against 'ill'",
        ),
        (
            {
                "sex": two(("f", "m")),
                "x": RNG.normal(size=40),
                "smokes": two(),
                "z": RNG.normal(size=40),
            },
            "sex",
            "first column",
        ),
        (
            {"x": RNG.normal(size=40), "one": two((0, 1)), "two": two((0, 1))},
            "two",
            "The last column of two classes",
        ),
        ({"x": RNG.normal(size=40), "only": two((0, 1))}, "only", "The only column of two classes"),
    ],
)
def test_the_target_is_chosen_as_a_person_would(columns, target, why):
    config, text = begun("logistic_regression", columns)
    assert config.data.target == target
    said = text.partition(f'\ntarget = "{target}"')[0].rpartition("\n")[2]
    assert why in said
    assert "What is modelled is the odds of" in said
    assert load_data(config).train.classes is not None


def test_a_target_of_numbers_is_known_by_its_name():
    columns = {"y": RNG.normal(size=40), "a": RNG.normal(size=40), "b": RNG.normal(size=40)}
    assert begun("ard_regression", columns)[0].data.target == "y"
    del columns["y"]
    assert begun("ard_regression", columns)[0].data.target == "b"


@pytest.mark.parametrize("model", ["hmm", "state_space", "arhmm"])
@pytest.mark.parametrize(
    ("columns", "kept", "order", "group"),
    [
        ({"rownames": range(40), "time": 1999 + np.arange(40) / 4}, ("value",), "time", None),
        ({"animal": np.repeat(["a", "b"], 20), "time": np.tile(np.arange(20), 2)}, ("value",), "time", "animal"),
        ({"time": np.tile(np.arange(20), 2), "id": np.repeat([3, 7], 20)}, ("value",), "time", "id"),
        ({"day": [3] * 20 + [4] * 20, "time": [*range(20, 40), *range(20)]}, ("value",), ("day", "time"), None),
        ({"date": [f"2024-05-{i + 1:02d}" for i in range(31)] + [f"2024-06-0{i + 1}" for i in range(9)],
          "weekday": [f"d{i % 7}" for i in range(40)], "activ": [0] * 20 + [1] * 20}, ("activ", "value"), "date", None),
        ({"year": np.repeat(2000 + np.arange(10), 4), "quarter": np.tile(np.arange(1, 5), 10)},
         ("value",), ("year", "quarter"), None),
    ],
)  # fmt: skip
def test_times_order_and_are_not_columns(model, columns, kept, order, group):
    config, _ = begun(model, {**columns, "value": RNG.normal(size=40).round(3)})
    assert (config.data.columns, config.data.order, config.data.group) == (kept, order, group)
    assert config.listing.name in LISTINGS
    load_data(config)


def test_what_identifies_rows_and_what_is_constant_is_left_out():
    columns = {
        "customer_id": RNG.permutation(5000)[:40],
        "Sample Number": np.tile(np.arange(1, 21), 2),
        "const": [7] * 40,
        "a": RNG.normal(size=40),
        "b": RNG.normal(size=40),
    }
    config, text = begun("mixture", columns)
    assert config.data.columns == ("a", "b")
    assert "const: the same in all rows, 7" in text
    assert begun("mixture", columns, 'data.columns=["a", "const"]')[0].data.columns == (
        "a",
        "const",
    )


def test_columns_that_lack_most_cells_are_left_out_and_rows_that_lack_few():
    few, some, most = (
        np.where(np.arange(40) < n, "", RNG.normal(size=40).round(3)) for n in (2, 12, 30)
    )
    config, text = begun(
        "mixture",
        {"few": few, "some": some, "most": most, "whole": RNG.normal(size=40)},
        'model.emission.name="categorical"',
    )
    assert config.data.columns == ("few", "some", "whole")
    assert config.data.missing == "drop"
    assert "# 12 of 40 rows lack a cell, and are left out." in text
    assert load_data(config).train.num_rows == 25
    config, text = begun("mixture", {"few": few, "most": most, "whole": RNG.normal(size=40)})
    assert (config.data.columns, config.data.missing) == (("few", "whole"), "model")
    assert "# 2 of 40 rows lack a cell, and count by the others." in text
    config, _ = begun("factor_analysis", {"few": few, "most": most, "whole": RNG.normal(size=40)})
    assert (config.data.columns, config.data.missing) == (("few", "most", "whole"), "refuse")


def proposed(tmp_path, text):
    """The settings that `vijax init glmm` writes for a table."""
    (tmp_path / "t.csv").write_text(text)
    out = tmp_path / "t.toml"
    assert main(["init", "glmm", "--data", str(tmp_path / "t.csv"), "--out", str(out)]) == 0
    return tomllib.loads(out.read_text())["model"]


def test_a_response_of_zeros_and_ones_is_modelled_by_its_odds(tmp_path):
    rows = "".join(f"{i // 6},{20 + 7 * i % 50},{i % 2}\n" for i in range(60))
    model = proposed(tmp_path, "patient,age,died\n" + rows)
    assert (model["formula"], model["family"]) == ("died ~ age + (1 | patient)", "bernoulli")


def test_a_column_that_numbers_the_rows_of_groups_is_a_term(tmp_path):
    rows = "".join(f"s{i // 4},{i % 4},{i * i % 7 + 0.5}\n" for i in range(24))
    assert proposed(tmp_path, "subject,visit,y\n" + rows)["formula"] == "y ~ visit + (1 | subject)"
