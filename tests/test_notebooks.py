"""Notebooks: the paired files agree, and run from top to bottom."""

from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
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
