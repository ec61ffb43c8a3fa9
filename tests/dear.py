"""Tests that belong to the slow suite by their cost alone, nearly all of it compilation: tests/dear.txt names them, one
node id a line, * for any text. `pytest -m dear` runs them compiled quickly; `pytest -m slow` has them among the other
slow tests, which are long by their nature and marked where they are."""

import re
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("dear.txt")


def mark_dear(items: list[pytest.Item], names: list[str], whole_files: bool) -> None:
    """Marks the tests named as slow and dear; an error where a name is of no test of a file collected whole."""
    patterns = {name: re.compile(re.escape(name).replace(r"\*", ".*")) for name in names}
    any_of_them = re.compile("|".join(pattern.pattern for pattern in patterns.values()) or "(?!)")
    dear = [item for item in items if any_of_them.fullmatch(item.nodeid)]
    for item in dear:
        item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.dear)
    files = {item.nodeid.split("::")[0] for item in items}
    stale = [name for name in names if name.split("::")[0] in files and not _names_one(patterns[name], dear)]
    if stale and whole_files:
        raise pytest.UsageError(f"{LIST.name}: expected names of tests, got {', '.join(stale)}. Remove them.")


def _names_one(pattern: re.Pattern, items: list[pytest.Item]) -> bool:
    return any(pattern.fullmatch(item.nodeid) for item in items)


def read_names() -> list[str]:
    return [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before pytest chooses by marks."""
    mark_dear(items, read_names(), whole_files=not any("::" in argument for argument in config.args))
