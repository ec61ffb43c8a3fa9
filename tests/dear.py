"""Tests that belong to the slow suite by their cost alone, nearly all of it compilation:
tests/dear.txt and tests/costly.txt name them, one node id a line, * for any text. `pytest -m dear`
and `pytest -m costly` run them compiled quickly; every landing runs the costly ones, and an eighth
of the dear ones. `pytest -m slow` has both among the other slow tests, which are long by their
nature and marked where they are."""

import re
from pathlib import Path

import pytest

LISTS = {kind: Path(__file__).with_name(f"{kind}.txt") for kind in ("dear", "costly")}


def mark(kind: str, items: list[pytest.Item], names: list[str], whole_files: bool) -> None:
    """Marks the tests named as slow and of this kind; an error where a name is of no test of a file
    collected whole."""
    ids = {item.nodeid for item in items}
    named = {name: _matches(name, ids) for name in names}
    chosen = set().union(*named.values())
    marks = pytest.mark.slow, getattr(pytest.mark, kind)  # each costs a look at the configuration
    for item in items:
        if item.nodeid in chosen:
            for each in marks:
                item.add_marker(each)
    files = {i.split("::")[0] for i in ids}
    stale = [name for name in names if not named[name] and name.split("::")[0] in files]
    if stale and whole_files:
        raise pytest.UsageError(
            f"{kind}.txt: expected names of tests, got {', '.join(stale)}. Remove them."
        )


def _matches(name: str, ids: set[str]) -> set[str]:
    if "*" not in name:
        return {name} & ids
    pattern = re.compile(re.escape(name).replace(r"\*", ".*"))
    return set(filter(pattern.fullmatch, ids))


def read_names(kind: str) -> list[str]:
    return [
        line for line in LISTS[kind].read_text().splitlines() if line and not line.startswith("#")
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before pytest chooses by marks."""
    for kind in LISTS:
        mark(
            kind,
            items,
            read_names(kind),
            whole_files=not any("::" in argument for argument in config.args),
        )
