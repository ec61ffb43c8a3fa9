"""The distribution is not called vijax on the package index, where that name is another project's:
nothing here may fetch that one."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENDINGS = {".py", ".md", ".toml", ".ipynb", ".css", ".yml", ""}
PLACES = ("vijax", "tests", "configs", "notebooks", "benchmarks", ".ci", ".github", "release")
FETCHES = re.compile(
    r"""\bvijax\[                                     # an extra of it
      | pip["',\s]+install\b[^\n&]*?["'\s=]vijax(?=["'\s`.,;)]|$)  # it, as an argument of pip
    """,
    re.VERBOSE | re.MULTILINE,
)


def texts():
    """Every text file of the repository but this one."""
    within = [path for place in PLACES for path in (ROOT / place).rglob("*")]
    for path in [*ROOT.glob("*.*"), *within]:
        if (
            path.is_file()
            and path.suffix in ENDINGS
            and path != Path(__file__)
            and "__pycache__" not in path.parts
        ):
            yield path


def test_nothing_fetches_the_other_project():
    found = [
        f"{path}: {hit[0]}"
        for path in texts()
        for hit in FETCHES.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not found


@pytest.mark.parametrize(
    ("text", "fetched"),
    [
        ('pip install "vijax[cli]"', True),
        ('"-m", "pip", "install", "-q", "vijax[cli]"', True),
        ("pip install vijax", True),
        ("pip install -q 'vijax'.", True),
        ('"pip", "install", "vijax"]', True),
        ('pip install -e ".[cli]" && .venv/bin/vijax fit', False),
        ("pip install vijax-vi", False),
    ],
)
def test_the_search_finds_what_it_is_for(text, fetched):
    assert bool(FETCHES.search(text)) == fetched


def test_the_distribution_has_a_name_of_its_own():
    assert PROJECT["name"] != "vijax"
    assert any(
        needed.startswith(PROJECT["name"] + "[")
        for needed in PROJECT["optional-dependencies"]["test"]
    )
    assert PROJECT["scripts"] == {"vijax": "vijax.app.cli:main"}


def test_the_version_is_that_of_the_module():
    import vijax

    assert PROJECT["version"] == vijax.__version__


def test_nightlies_have_a_lower_bound():
    extras = [needed for extra in PROJECT["optional-dependencies"].values() for needed in extra]
    nightlies = [needed for needed in extras if needed.startswith("tfp-nightly")]
    assert nightlies
    assert all(
        re.fullmatch(r"tfp-nightly>=\d+\.\d+\.\d+\.dev\d{8}", needed) for needed in nightlies
    )


def test_types_are_shipped():
    assert (ROOT / "vijax/py.typed").is_file()
