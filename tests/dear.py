"""Tests that belong to the slow suite by their cost alone: tests/dear.txt names them, one node id a line; one without
its [parameters] stands for all of them. Other slow tests, long by their nature, are marked where they are."""

from pathlib import Path

import pytest

LIST = Path(__file__).with_name("dear.txt")


def mark_dear(items: list[pytest.Item], names: frozenset[str], whole_files: bool) -> None:
    """Marks the tests named as slow; an error where a name is of no test (of a file that was collected whole)."""
    found = set()
    for item in items:
        named = {item.nodeid, item.nodeid.split("[")[0]} & names
        if named:
            item.add_marker(pytest.mark.slow)
            found |= named
    files = {item.nodeid.split("::")[0] for item in items}
    stale = sorted(name for name in names - found if name.split("::")[0] in files)
    if stale and whole_files:
        raise pytest.UsageError(f"{LIST.name}: expected names of tests, got {', '.join(stale)}. Remove them.")


def read_names() -> frozenset[str]:
    return frozenset(line for line in LIST.read_text().splitlines() if line and not line.startswith("#"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before pytest chooses by marks."""
    mark_dear(items, read_names(), whole_files=not any("::" in argument for argument in config.args))
