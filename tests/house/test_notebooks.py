"""Notebooks: the paired files agree, and run from top to bottom."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SOURCES = sorted(NOTEBOOKS.glob("*.py"))


def cells(notebook):
    return [(cell.cell_type, cell.source.strip()) for cell in notebook.cells]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_paired_files_agree(source):
    jupytext = pytest.importorskip("jupytext")
    assert cells(jupytext.read(source)) == cells(jupytext.read(source.with_suffix(".ipynb")))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_runs_from_top_to_bottom(source):
    jupytext = pytest.importorskip("jupytext")
    nbclient = pytest.importorskip("nbclient")
    notebook = jupytext.read(source)
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    errors = [o for cell in notebook.cells for o in cell.get("outputs", []) if o.output_type == "error"]
    assert not errors


def first_cell(source):
    jupytext = pytest.importorskip("jupytext")
    return next(cell.source for cell in jupytext.read(source).cells if cell.cell_type == "code")


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
@pytest.mark.parametrize("found", [None, SimpleNamespace(origin=None)], ids=["absent", "a folder of that name"])
def test_the_first_cell_installs_the_clone_where_vijax_is_absent(source, found, monkeypatch, tmp_path):
    commands = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    monkeypatch.setattr(subprocess, "run", lambda command, check: commands.append(command))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImportError, match="clone"):
        exec(first_cell(source), {})
    clone = tmp_path / "vijax"
    (clone / "vijax").mkdir(parents=True)
    (clone / "vijax" / "app").mkdir()
    (clone / "vijax" / "app" / "cli.py").touch()
    exec(first_cell(source), {})
    extras = {"mixtures": "cli,mcmc", "networks": "cli,networks"}.get(source.stem, "cli")
    assert [command[-2:] for command in commands] == [["-e", f"{clone.resolve()}[{extras}]"]]
    assert sys.path[0] == str(clone.resolve())


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_first_cell_does_nothing_where_vijax_is_installed(source, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("something was installed"))
    before = list(sys.path)
    exec(first_cell(source), {})
    assert sys.path == before
