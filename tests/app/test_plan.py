"""The plan of a run: model, algorithm and data as it reads them are made once, however often they
are asked for."""

import dataclasses
import json
from typing import NamedTuple

import numpy as np
import pytest

import vijax as vi
from tests.app.small_runs import write_inputs
from vijax.app.catalogue import LISTINGS
from vijax.app.cli import main
from vijax.app.plan.assemble import load_data
from vijax.app.plan.config import load_config
from vijax.app.plan.plan import Plan, complete_plan

TOPICS = """
[model]
name = "lda"
num_topics = 2

[data]
path = {path}
held_out = 0.2
max_df = 1.0
min_df = 1

[fit]
num_epochs = 2
batch_size = 10
"""
TEXTS = ["sun sea sand wave beach boat", "snow ice ski cold frost sled"]


def write_texts(folder):
    (folder / "texts.txt").write_text("\n".join(TEXTS * 20))
    (folder / "topics.toml").write_text(TOPICS.format(path=json.dumps(str(folder / "texts.txt"))))
    return folder


class Made(NamedTuple):
    """What a listing was asked to make."""

    models: list
    rows: list


def counted(monkeypatch, name):
    """The things that a listing makes from now on."""
    made, own = Made([], []), LISTINGS[name]

    def build(settings, data):
        made.models.append(own.build(settings, data))
        return made.models[-1]

    def arrange(part, settings):
        made.rows.append(own.arrange(part, settings))
        return made.rows[-1]

    more = {} if own.reads_documents else {"arrange": arrange}
    monkeypatch.setitem(LISTINGS, name, dataclasses.replace(own, build=build, **more))
    return made


SMALL = pytest.mark.parametrize(
    ("model", "write", "toml"),
    [("lda", write_texts, "topics.toml"), ("mixture", write_inputs, "small.toml")],
    ids=["lda", "mixture"],
)


@SMALL
def test_a_run_makes_its_model_once_before_it_takes_a_step(
    model, write, toml, tmp_path, monkeypatch
):
    def stop(*arguments, **named):
        raise KeyboardInterrupt

    write(tmp_path)
    monkeypatch.setattr("vijax.app.runs.run.fit", stop)
    made = counted(monkeypatch, model)
    assert main(["fit", str(tmp_path / toml), "--out", str(tmp_path / "run")]) == 130
    assert len(made.models) == 1


@SMALL
def test_a_whole_run_makes_its_model_once(model, write, toml, tmp_path, monkeypatch):
    """From the first line to the page, and when it goes on; and so does who loads it."""
    write(tmp_path)
    run = tmp_path / "run"
    made = counted(monkeypatch, model)
    assert main(["fit", str(tmp_path / toml), "--out", str(run)]) == 0
    assert len(made.models) == 1
    text = (run / "config.toml").read_text()
    epochs = load_config(run / "config.toml").fit.num_epochs
    (run / "config.toml").write_text(
        text.replace(f"num_epochs = {epochs}", f"num_epochs = {epochs + 1}")
    )
    assert main(["resume", str(run)]) == 0
    assert len(made.models) == 2
    loaded = vi.load(run)
    assert len(made.models) == 3
    assert loaded.seen.model is made.models[-1]


def test_each_thing_is_made_once_and_when_it_is_asked_for(tmp_path, monkeypatch):
    config = load_config(
        write_inputs(tmp_path) / "small.toml", ["fit.batch_size=7", "algorithm.name=svi"]
    )
    made = counted(monkeypatch, "mixture")
    plan = complete_plan(config, load_data(config))
    assert made == ([], [])
    assert plan.algorithm.spec.model is plan.model
    assert plan.algorithm is plan.algorithm
    assert plan.training is made.rows[0]
    assert (plan.num_groups, plan.batch_size, plan.steps_per_epoch) == (40, 7, 6)
    assert (plan.num_groups, plan.batch_size, plan.steps_per_epoch) == (40, 7, 6)
    assert plan.training is made.rows[0]
    assert (len(made.models), len(made.rows)) == (1, 2)
    np.testing.assert_array_equal(*made.rows)


def test_a_decision_on_the_algorithm_keeps_the_model(tmp_path, monkeypatch):
    """`algorithm.lazy` is decided by an algorithm, whose model is that of the plan."""
    config = load_config(write_texts(tmp_path) / "topics.toml")
    data = load_data(config)
    made = counted(monkeypatch, "lda")
    plan = complete_plan(config, data)
    assert (config.algorithm.lazy, plan.config.algorithm.lazy) == (None, False)
    assert [plan.model] == made.models
    assert plan.algorithm.spec.model is plan.model
    assert Plan(plan.config, data).model == plan.model
