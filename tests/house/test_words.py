"""What a user reads cites papers by author and year, in plain words."""

import ast
import inspect
import re
import sys
from pathlib import Path

import pytest

import vijax  # noqa: F401 (all its modules)

ROOT = Path(__file__).parents[2]
PLACES = (
    "README.md",
    "CONTRIBUTING.md",
    "docs",
    "benchmarks",
    "configs",
    "notebooks",
    "vijax",
    "tests",
)
ODD = re.compile(
    r"\b([Ss]eeds?\s+(?:#\s*)?00[0-4]\b|[Nn]ought|[Ff]oretell|DESIGN section|EQUATIONS)"
)

PUZZLES = re.compile(r"(What|Of|Whether|How|Where)\b|Attributes:")


def files(place):
    root = ROOT / place
    found = [root] if root.is_file() else root.rglob("*")
    return [
        path
        for path in found
        if path.suffix in {".py", ".md", ".toml", ".ipynb"} and path != Path(__file__)
    ]


@pytest.mark.parametrize("place", PLACES)
def test_papers_are_named_and_words_are_plain(place):
    assert files(place)
    found = [
        f"{path}: {hit[0]!r}"
        for path in files(place)
        for hit in ODD.finditer(path.read_text(encoding="utf-8"))
    ]
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


def first_lines(pattern):
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for path in sorted((ROOT / "vijax").glob(pattern)):
        nodes = [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, documented)
        ]
        yield from ((path, (ast.get_docstring(node) or "").partition("\n")[0]) for node in nodes)


def test_docstrings_begin_with_what_a_thing_is():
    lines = list(first_lines("**/*.py"))
    assert len(lines) > 1000
    assert not [f"{path}: {line}" for path, line in lines if PUZZLES.match(line)]


def test_every_public_method_has_a_docstring_or_overrides_one_that_has():
    modules = [vars(module) for name, module in sys.modules.items() if name.startswith("vijax.")]
    ours = {c for values in modules for c in list(values.values()) if inspect.isclass(c)}
    classes = [c for c in ours if c.__module__.startswith("vijax.")]
    assert len(classes) > 300
    named = [(c, name) for c in classes for name in vars(c) if not name.startswith("_")]
    kinds = property, classmethod, staticmethod, type(files)
    methods = [
        (c, n)
        for c, n in named
        if isinstance(vars(c)[n], kinds) and n not in vars(c).get("__annotations__", {})
    ]
    assert len(methods) > 1000
    assert not [
        f"{c.__qualname__}.{name}" for c, name in methods if not inspect.getdoc(getattr(c, name))
    ]
