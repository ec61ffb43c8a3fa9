"""Notebooks: the paired files agree, and run from top to bottom."""

import importlib.util
import os
import subprocess
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.house.notebook_checks import CHECKS
from vijax.xla import device

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SOURCES = sorted(NOTEBOOKS.glob("*.py"))


def cells(notebook):
    return [(cell.cell_type, cell.source.strip()) for cell in notebook.cells]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_paired_files_agree(source):
    jupytext = pytest.importorskip("jupytext")
    if not source.with_suffix(".ipynb").exists():
        pytest.skip("a source distribution is without the notebooks' outputs")
    assert cells(jupytext.read(source)) == cells(jupytext.read(source.with_suffix(".ipynb")))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_installation_is_one_hidden_cell_and_no_story_ends_in_an_assert(source):
    text = source.read_text()
    assert text.count('# %% tags=["hide-cell"] jupyter={"source_hidden": true}') == 1
    assert not any(line.lstrip().startswith("assert ") for line in text.splitlines())


def test_all_notebooks_install_in_the_same_way():
    """Each has a copy, because it installs what it could import a shared one from."""
    copies = set()
    for source in SOURCES:
        _, start = source.read_text().split('\nEXTRAS = "', 1)
        copies.add(start.split("\n", 1)[1].split("\n\n", 1)[0])
    assert len(copies) == 1


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_documentation_shows_what_cells_print(source):
    """The site shows notebooks with the outputs in their files."""
    nbformat = pytest.importorskip("nbformat")
    path = source.with_suffix(".ipynb")
    if not path.exists():
        pytest.skip("a source distribution is without the notebooks' outputs")
    cells = nbformat.read(path, as_version=4).cells
    outputs = [out for cell in cells for out in cell.get("outputs", [])]
    assert len(outputs) > 3
    assert not any(out.output_type == "error" for out in outputs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_runs_from_top_to_bottom(source):
    if "cli,examples" in source.read_text():
        pytest.importorskip("statsmodels")
    jupytext = pytest.importorskip("jupytext")
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = jupytext.read(source)
    checks = CHECKS.get(source.stem, "")
    if checks:
        notebook.cells.append(nbformat.v4.new_code_cell(checks))
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    errors = [
        o for cell in notebook.cells for o in cell.get("outputs", []) if o.output_type == "error"
    ]
    assert not errors


def first_cell(source):
    jupytext = pytest.importorskip("jupytext")
    return next(cell.source for cell in jupytext.read(source).cells if cell.cell_type == "code")


def run_the_first_cell(source, monkeypatch):
    """As a notebook does; what it says to XLA is taken back after the test."""
    monkeypatch.setenv("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
    exec(first_cell(source), {})


def installed_by_the_first_cell(source, monkeypatch):
    """What the first cell asks pip for, in the present folder, where vijax is not installed; and
    what is to stay."""
    commands = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(subprocess, "run", lambda command, check: commands.append(command))
    run_the_first_cell(source, monkeypatch)
    ((*_, constraints, wanted),) = commands
    return wanted, Path(constraints).read_text().split()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_first_cell_installs_a_clone_and_replaces_nothing(source, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    clone = tmp_path / "vijax"
    (clone / "vijax" / "app").mkdir(parents=True)
    (clone / "vijax" / "app" / "cli.py").touch()
    wanted, kept = installed_by_the_first_cell(source, monkeypatch)
    own = {"mixtures": "cli,mcmc", "networks": "cli,networks", "structural_topics": "cli,sklearn"}
    own |= dict.fromkeys(("business_cycle", "investment", "transplants"), "cli,examples")
    extras = own.get(source.stem, "cli")
    assert wanted == f"vijax-vi[{extras}] @ {clone.as_uri()}"
    assert {
        f"{name}=={version(name)}" for name in ("jax", "jaxlib", "numpy", "scikit-learn")
    } <= set(kept)


@pytest.mark.parametrize("name", ["vijax_vi-0.1.0-py3-none-any.whl", "vijax-main.zip"])
def test_the_first_cell_installs_what_was_uploaded(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).touch()
    wanted, _ = installed_by_the_first_cell(SOURCES[0], monkeypatch)
    assert wanted == f"vijax-vi[cli] @ {(tmp_path / name).as_uri()}"


@pytest.mark.parametrize(
    "found", [None, SimpleNamespace(origin=None)], ids=["absent", "a folder of that name"]
)
def test_the_first_cell_says_what_to_upload(found, monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImportError, match="wheel, or a zip or a clone"):
        run_the_first_cell(SOURCES[0], monkeypatch)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_the_first_cell_installs_nothing_where_vijax_is_installed(source, monkeypatch, capsys):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("something was installed"))
    run_the_first_cell(source, monkeypatch)
    assert capsys.readouterr().out.startswith("vijax computes on: ")


@pytest.mark.parametrize(
    ("gpu", "tpu", "remedy"), [(True, False, "jax[cuda12]=="), (False, True, "jax[tpu]==")]
)
def test_a_device_that_is_not_used_is_said_with_the_remedy(gpu, tpu, remedy, monkeypatch):
    monkeypatch.setattr(device, "_has_gpu", lambda: gpu)
    monkeypatch.setattr(device, "_has_tpu", lambda: tpu)
    said = device.device_in_use()
    assert "which jax does not use" in said
    assert remedy in said
    assert "\n" not in said
