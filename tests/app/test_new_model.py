"""The skeletons of docs/extending.md, two files, put a model on the command line."""

import sys

import pytest

pytest.importorskip("tyro")
pytest.importorskip("matplotlib")

import vijax as vi
from tests.naming import check_names, naming
from tests.recipes import skeleton
from vijax.app import catalogue
from vijax.app.cli import main

MODEL = """
import vijax as vi
from vijax.arguments import Positive, check_arguments

"""
PAGE = """
from typing import Any

import numpy as np

from vijax.app.drawing.blocks import Block, Table
from vijax.app.sources.listing import FittedRun, Listing
from vijax.app.settings.options import model_section
from vijax.app.settings.sections import EnergyAlgorithm
from vijax.app.sources.tables import TABLES, values
from vijax.data.tables import table as data_table
from vijax.models.coin import coin

"""


@pytest.fixture
def coin(monkeypatch, tmp_path):
    """Two new files, in the folders of models and of their pages; no other is changed."""
    written = {
        "models": (vi.models, MODEL, "How to add a model"),
        "catalogue": (catalogue, PAGE, ON_COMMAND_LINE),
    }
    for name, (package, head, heading) in written.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "coin.py").write_text(head + skeleton(heading))
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    for module, listing in catalogue.listings().items():
        monkeypatch.setitem(catalogue.LISTINGS, module, listing)
    yield catalogue.LISTINGS["coin"]
    for package in (vi.models, catalogue):
        del sys.modules[f"{package.__name__}.coin"], package.coin


ON_COMMAND_LINE = "How to put a model on the command line"


def test_a_new_model_is_two_files_is_fitted_described_and_has_settings(coin, tmp_path, capsys):
    (tmp_path / "tosses.csv").write_text("heads\n" + "1\n1\n0\n" * 30)
    config = '[model]\nname = "coin"\na = 2\n[data]\npath = "{}"\n[fit]\nnum_epochs = 3\n'
    (tmp_path / "coin.toml").write_text(config.format(tmp_path / "tosses.csv"))
    assert (
        main(
            [
                "fit",
                str(tmp_path / "coin.toml"),
                "--out",
                str(tmp_path / "run"),
                "--set",
                "held_out=0",
            ]
        )
        == 0
    )
    assert "heads  0.6667" in capsys.readouterr().out  # (60 + 2) / (90 + 3)
    assert main(["summary", str(tmp_path / "run")]) == 0
    assert main(["fit", str(tmp_path / "coin.toml"), "--out", str(tmp_path / "other")]) == 0
    assert "coin has no held-out score" in capsys.readouterr().err
    assert main(["settings", "--model", "coin"]) == 0
    assert "# prior pseudo-count of heads\na = 1.0" in capsys.readouterr().out
    assert main(["fit", str(tmp_path / "coin.toml"), "--set", "model.a=-1"]) == 2
    check_names(capsys.readouterr().err, "model.a:", "-1")


def test_its_limits_hold_in_python(coin):
    with pytest.raises(ValueError, match=naming("a:", "got -1.0")):
        vi.models.coin.coin(a=-1.0)
