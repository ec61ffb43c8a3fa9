"""What a user reads cites papers by author and year, in plain words."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = ("README.md", "CONTRIBUTING.md", "docs", "benchmarks", "configs", "notebooks", "vijax", "tests")
ODD = re.compile(r"\b([Ss]eeds?\s+(?:#\s*)?00[0-4]\b|[Nn]ought|[Ff]oretell|DESIGN section|EQUATIONS)")


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
