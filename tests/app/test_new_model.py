"""The skeleton of CONTRIBUTING.md puts a model on the command line."""

import dataclasses
from typing import Any, Literal

import numpy as np
import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from tests.recipes import run_skeleton
from vijax.app.catalogue import LISTINGS
from vijax.app.cli import main
from vijax.app.kinds import listing, tables
from vijax.app.page import blocks
from vijax.app.settings import sections, typed_toml
from vijax.data.tables import table as data_table


@pytest.fixture
def coin(monkeypatch):
    names = {
        "vi": vi, "np": np, "dataclasses": dataclasses, "Any": Any, "Literal": Literal, "data_table": data_table,
        **vars(blocks), **vars(listing), **vars(sections), **vars(tables), **vars(typed_toml),
        "Table": blocks.Table,
    }  # fmt: skip
    run_skeleton("How to add a model", names)
    run_skeleton("How to put a model on the command line", names)
    monkeypatch.setitem(LISTINGS, "coin", names["LISTING"])
    return names["LISTING"]


def test_a_new_model_is_fitted_described_and_has_settings(coin, tmp_path, capsys):
    (tmp_path / "tosses.csv").write_text("heads\n" + "1\n1\n0\n" * 30)
    config = '[model]\nname = "coin"\na = 2\n[data]\npath = "{}"\n[fit]\nnum_epochs = 3\n'
    (tmp_path / "coin.toml").write_text(config.format(tmp_path / "tosses.csv"))
    assert main(["fit", str(tmp_path / "coin.toml"), "--out", str(tmp_path / "run"), "--set", "held_out=0"]) == 0
    assert "heads  0.6667" in capsys.readouterr().out  # (60 + 2) / (90 + 3)
    assert main(["summary", str(tmp_path / "run")]) == 0
    assert main(["fit", str(tmp_path / "coin.toml"), "--out", str(tmp_path / "other")]) == 0
    assert "coin has no held-out score" in capsys.readouterr().err
    assert main(["settings", "--model", "coin"]) == 0
    assert "# prior pseudo-count of heads\na = 1.0" in capsys.readouterr().out
    assert main(["fit", str(tmp_path / "coin.toml"), "--set", "model.a=-1"]) == 2
