"""The documentation names everything public, and nothing that is not there."""

import importlib
import re
from pathlib import Path

import pytest

API = Path(__file__).parents[2] / "docs" / "api"
LISTED = re.compile(
    r"^\.\. currentmodule:: (\S+)\n\n\.\. autosummary::\n   :toctree: generated\n\n((?:   \S+\n)+)",
    re.MULTILINE,
)
PARTS = """checkpoint constrain data emission estep estimand estimator evaluate expectation families guides init
likelihood messages models objective observed plots reference scale sites sklearn step_size topics trust update"""
"""Names that are modules; most have a section of their own."""


def listed():
    """All names of the pages, with their modules."""
    pages = [page.read_text() for page in API.glob("*.md")]
    return [
        f"{module}.{name}"
        for page in pages
        for module, names in LISTED.findall(page)
        for name in names.split()
    ]


def found(path):
    """What a name stands for."""
    module, rest = path.split(".")[0], path.split(".")[1:]
    thing = importlib.import_module(module)
    for i, part in enumerate(rest):
        if not hasattr(thing, part):
            thing = importlib.import_module(".".join([module, *rest[: i + 1]]))
            continue
        thing = getattr(thing, part)
    return thing


def test_every_listed_name_is_there():
    names = listed()
    assert len(names) > 150
    assert len(set(names)) == len(names)
    for name in names:
        assert found(name).__doc__, name


@pytest.mark.parametrize(
    "module", ["vijax", "vijax.models", "vijax.models.emission", "vijax.sklearn"]
)
def test_every_public_name_is_listed(module):
    known = {name.rsplit(".", 1)[-1] for name in listed()}
    public = set(importlib.import_module(module).__all__) - set(PARTS.split())
    assert not public - known


def test_names_in_the_text_are_there():
    """`vi.` and `vijax.` names of README and pages, in code and in sentences."""
    root = API.parents[1]
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:
        for name in re.findall(r"(?<![\w./])(?:vi|vijax)((?:\.[A-Za-z_]\w*)+)", page.read_text()):
            if not name.endswith((".toml", ".py")):
                found(f"vijax{name}")


def test_no_line_of_a_page_is_a_comment():
    """MyST drops lines that begin with a per cent sign."""
    for page in sorted(API.parents[0].rglob("*.md")):
        lines = page.read_text().splitlines()
        assert not [line for line in lines if line.lstrip().startswith("%")], page
