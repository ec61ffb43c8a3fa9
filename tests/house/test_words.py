"""What a user reads cites papers by author and year, in plain words."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("README.md", "CONTRIBUTING.md", "docs", "benchmarks", "configs", "notebooks", "vijax", "tests")
ODD = re.compile(r"\b([Ss]eeds?\s+(?:#\s*)?00[0-4]\b|[Nn]ought|[Ff]oretell|DESIGN section|EQUATIONS)")

PUZZLES = re.compile(r"(What|Of|Whether|How|Where)\b|Attributes:")
STILL_TO_DO = [
    "adapters",
    "app/catalogue",
    "app/cli.py",
    "app/comparing",
    "app/explorer",
    "app/kinds",
    "app/looks",
    "app/page",
    "app/progress.py",
    "app/rows",
    "app/runs",
    "app/settings",
    "automatic",
    "contract",
    "data",
    "extras.py",
    "fitting/checkpoint.py",
    "fitting/fingerprint.py",
    "fitting/fit.py",
    "fitting/interrupt.py",
    "fitting/judge.py",
    "fitting/loader.py",
    "fitting/restarts.py",
    "fitting/result.py",
    "fitting/resumed.py",
    "fitting/status.py",
    "fitting/told.py",
    "inference/axis.py",
    "inference/bound.py",
    "inference/choices.py",
    "inference/compose.py",
    "inference/estimand.py",
    "inference/lazy.py",
    "inference/learning.py",
    "inference/move.py",
    "inference/parts.py",
    "inference/safeguard.py",
    "inference/spec.py",
    "inference/state.py",
    "inference/stopping.py",
    "inference/visit.py",
    "inference/warm.py",
    "predict",
    "response",
    "result.py",
    "topics",
    "tree.py",
]


def files(place):
    root = ROOT / place
    found = [root] if root.is_file() else root.rglob("*")
    return [path for path in found if path.suffix in {".py", ".md", ".toml", ".ipynb"} and path != Path(__file__)]


@pytest.mark.parametrize("place", PLACES)
def test_papers_are_named_and_words_are_plain(place):
    assert files(place)
    found = [f"{path}: {hit[0]!r}" for path in files(place) for hit in ODD.finditer(path.read_text(encoding="utf-8"))]
    assert not found


def test_the_readme_lists_what_is_cited_most():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    references = readme[readme.index("## References") :]
    for author, number in (
        ("Hoffman", "1404.4114"),
        ("Khan", "1511.00146"),
        ("Kucukelbir", "1601.00670"),
        ("Pei", "2019"),
    ):
        assert author in references
        assert number in references


def puzzling(path):
    """Docstrings of a file that begin with a word that says neither what a thing is nor what it does."""
    nodes = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if hasattr(node, "body"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = (ast.get_docstring(node) or "" for node in nodes if isinstance(node, documented))
    return [f"{path}: {text[:60]!r}" for text in texts if PUZZLES.match(text)]


def test_docstrings_begin_with_what_a_thing_is():
    skipped = [ROOT / "vijax" / place for place in STILL_TO_DO]
    done = [
        path for path in files("vijax") if path.suffix == ".py" and not any(path.is_relative_to(x) for x in skipped)
    ]
    assert done
    assert not [found for path in done for found in puzzling(path)]


@pytest.mark.parametrize("place", STILL_TO_DO)
def test_rooms_still_to_do_have_such_docstrings(place):
    root = ROOT / "vijax" / place
    paths = [root] if root.is_file() else root.rglob("*.py")
    assert [found for path in paths for found in puzzling(path)]
