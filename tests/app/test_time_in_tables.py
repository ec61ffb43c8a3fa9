"""Runs of sequences: times order the rows, are kept, and are drawn; they are no observations."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from tests.naming import naming
from vijax.app.catalogue import LISTINGS
from vijax.app.cli import main
from vijax.app.drawing import blocks
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import ConfigError, load_config
from vijax.app.report.pages import read_run
from vijax.app.rows.times import sequence_times, times_ahead
from vijax.data.tables.table import Choice, make_table

SEQUENCE_MODELS = [
    "hmm",
    "hdp_hmm",
    "factorial_hmm",
    "state_space",
    "arhmm",
    "slds",
    "recurrent_slds",
    "dynamic_svae",
]


def tracks(seed=0):
    """Rows (animal, time, x, y) of three animals, two states 5 apart."""
    rng, rows = np.random.default_rng(seed), []
    for animal in "abc":
        state = 0
        for time in range(40):
            state = 1 - state if rng.random() < 0.1 else state
            rows.append(
                (animal, 10 + time, round(5 * state + rng.normal(), 4), round(rng.normal(), 4))
            )
    return rows


def write(path, rows, header="animal,time,x,y"):
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])


def shuffled(rows):
    return [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]


def test_every_model_of_sequences_orders_rows():
    assert sorted(SEQUENCE_MODELS) == sorted(
        name for name, listing in LISTINGS.items() if listing.in_time
    )


@pytest.mark.parametrize("model", SEQUENCE_MODELS)
def test_times_are_not_modelled_and_order_the_rows(model, tmp_path):
    write(tmp_path / "t.csv", shuffled(tracks()))
    given = [
        "data.group=animal",
        "data.held_out=0",
        *(["model.image=[]"] if model == "dynamic_svae" else []),
    ]
    data = load_data(load_config(model, given, str(tmp_path / "t.csv")))
    assert data.train.columns == ("x", "y")
    found = dict(zip(data.train.group_names, data.train.sequences(), strict=True))
    scale = data.train.scaling
    x = (np.array([row[2] for row in tracks()]) - scale.mean[0]) / scale.deviation[0]
    np.testing.assert_allclose(np.concatenate([found[name][:, 0] for name in "abc"]), x)
    assert any(
        note.startswith("Rows are in the order of 'time' within their groups")
        for note in data.train.notes
    )
    assert any(
        "'time' says when or which a row is, and is not modelled" in note
        for note in data.train.notes
    )


def test_a_run_of_shuffled_rows_is_that_of_sorted_ones(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = tracks()
    given = [
        "data.group=animal",
        "data.held_out=0",
        "model.num_states=2",
        "fit.num_epochs=20",
        "fit.restarts=1",
    ]
    states = {}
    for name, some in {"sorted": rows, "shuffled": shuffled(rows)}.items():
        write(f"{name}.csv", some)
        assert main(["fit", "hmm", "--data", f"{name}.csv", "--out", name, "--set", *given]) == 0
        found = list(csv.DictReader(Path(name, "transformed.csv").read_text().splitlines()))
        assert [(row["animal"], int(row["time"])) for row in found] == [
            row[:2] for row in some
        ]  # as in the file
        upper = max(read_run(Path(name)).shown[0].rows, key=lambda row: row[3])[0]
        states[name] = {(row["animal"], row["time"]): row["state"] == str(upper) for row in found}
    assert states["sorted"] == states["shuffled"]
    course = next(b for b in read_run(Path("shuffled")).shown if isinstance(b, blocks.Course))
    assert (course.x_label, course.x[0], course.x[-1]) == ("time", 10.0, 49.0)
    forecast = next(b for b in read_run(Path("shuffled")).shown if isinstance(b, blocks.Curves))
    assert (forecast.x_label, forecast.x[-1]) == ("time", 69.0)

    assert "<dt>Order of rows</dt><dd>time" in Path("shuffled", "report.html").read_text()
    kept = json.loads(Path("shuffled", "columns.json").read_text())
    assert kept["order"] == {"columns": ["time"], "formats": ["number"]}
    Path("shuffled.csv").unlink()  # what was decided lies in the folder
    run = vi.load("shuffled")
    some = {"animal": ["a"] * 4, "time": [3, 1, 2, 0], "x": [5.0, 0.1, 5.2, -0.3], "y": [0.0] * 4}
    alone = run.transform(some).columns()
    turned = run.transform(
        {name: list(reversed(values)) for name, values in some.items()}
    ).columns()
    np.testing.assert_array_equal(alone["probability_0"], turned["probability_0"][::-1])
    with pytest.raises(
        ValueError,
        match=naming("'x'", "'y'", "'animal'", "'time'"),
    ):
        run.transform({name: values for name, values in some.items() if name != "time"})
    with pytest.raises(ValueError, match="the same in row 0, counted from 0, and row 1"):
        run.transform({**some, "time": [1, 1, 0, 2]})
    capsys.readouterr()


def test_one_series_needs_no_column_of_groups(tmp_path, monkeypatch, capsys):
    """As `vijax fit hmm --data one.csv`, though the configuration names the groups of its own
    data."""
    monkeypatch.chdir(tmp_path)
    write(
        "one.csv",
        [(i + 1, f"{2000 + i // 4}Q{i % 4 + 1}", np.sin(i)) for i in range(30)],
        "rownames,quarter,value",
    )
    for given in ([], ["data.group=none", "data.held_out=0"], ["data.group=", "data.held_out=0"]):
        config = load_config("state_space", given, "one.csv")
        assert (config.data.group, config.data.held_out) == (None, 0.0)
    data = load_data(config)
    assert data.train.columns == ("value",)
    assert any("All rows are one sequence" in note for note in data.train.notes)
    with pytest.raises(ConfigError, match=r"hold none out: data.held_out=0"):
        load_config("state_space", ["data.held_out=0.2"], "one.csv")
    write("g.csv", [("u", i, 0.1 * i) for i in range(9)], "sequence,step,value")
    assert load_config("state_space", [], "g.csv").data.group == "sequence"
    assert main(["init", "state_space", "--data", "one.csv"]) == 0
    config = load_config("one_state_space.toml")
    assert (config.data.columns, config.data.order, config.data.group) == (
        ("value",),
        "quarter",
        None,
    )
    capsys.readouterr()


def test_settings_of_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("t.csv", tracks())
    at = lambda *given: (
        load_data(
            load_config("hmm", ["data.group=animal", "data.held_out=0", *given], "t.csv")
        ).train
    )
    assert at("data.order=none").columns == ("time", "x", "y")
    assert at("data.order=none").timed is None
    assert at('data.order=["time"]').timed.order.columns == ("time",)
    assert at('data.columns=["time", "x"]').columns == ("time", "x")
    with pytest.raises(ValueError, match=naming("'hour'", "data.order")):
        at("data.order=hour")
    with pytest.raises(ConfigError, match=r"data\.order: rows of mixture have no order in time"):
        load_config("mixture", ["data.order=time"], "t.csv")


def dated(values, group=None):
    table = {"when": np.array(values, object), "x": np.zeros(len(values))}
    table |= {} if group is None else {"g": np.array(group, object)}
    return make_table(table, Choice(in_time=True, group=None if group is None else "g"), "f.csv")


@pytest.mark.parametrize(
    ("values", "ahead"),
    [
        (["2024-01-01", "2024-02-01", "2024-03-01"], ["2024-04-01", "2024-05-01"]),
        (["2023-12-31", "2024-01-31", "2024-02-29"], ["2024-03-31", "2024-04-30"]),
        (["01.03.2024", "03.03.2024", "05.03.2024"], ["2024-03-07", "2024-03-09"]),
        (["2024Q2", "2024Q3", "2024Q4"], ["2025Q1", "2025Q2"]),
        (
            ["2024-01-01 10:00", "2024-01-01 10:30", "2024-01-01 11:00"],
            ["2024-01-01 11:30:00", "2024-01-01 12:00:00"],
        ),
        (["2024-01-01", "2024-01-02", "2024-01-09"], None),  # unequal steps
    ],
)
def test_the_times_of_the_steps_to_come(values, ahead):
    assert times_ahead(dated(values), 2) == ({} if ahead is None else {"when": ahead})


def test_times_of_each_group_are_its_own():
    table = dated(["2024Q1", "2010Q1", "2010Q2", "2024Q2"], ["b", "a", "a", "b"])
    assert sequence_times(table, 0) == ("when, years", pytest.approx([2024.0, 2024.25]))
    assert sequence_times(table, 1).at.tolist() == [2010.0, 2010.25]
    assert times_ahead(table, 1) == {"when": ["2024Q3", "2010Q3"]}
    months = sequence_times(dated([f"2019-{i:02d}-01" for i in range(9, 13)]), 0)
    assert 12 * (months.with_ahead(2)[-2:] - 2020) == pytest.approx([0, 1])  # January, February
    days = dated([f"2024-03-{i:02d}" for i in range(1, 11)])
    assert sequence_times(days, 0).label == "when, days since 2024-03-01"
    assert sequence_times(days, 0).at.tolist() == list(range(10))


def test_a_course_is_drawn_along_its_times():
    from vijax.app.drawing import charts, exports

    course = blocks.Course(
        "c", ["x"], [[0.0, 1.0, 2.0]], [0, 0, 1], [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], "", "year"
    )
    at_years = course._replace(x=np.array([1990.0, 1991.0, 1999.0]))
    (again,) = blocks.from_json(blocks.to_json([at_years]))
    drawn = charts.card(again)
    assert ">year</text>" in drawn
    ((_, header, rows),) = exports.PARTS["Course"](again)
    assert header[:3] == ["step", "year", "x"]
    assert [row[1] for row in rows] == [1990.0, 1991.0, 1999.0]
    with pytest.raises(ValueError, match="not of one length"):
        blocks.from_json(blocks.to_json([at_years._replace(x=[1990.0])]))
