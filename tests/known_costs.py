"""Cases that are slow by what they cost alone, nearly all of it compilation: tests/costs.tsv has
them, with the CPU seconds that a run has measured.

    VIJAX_TEST_COSTS=measured.tsv pytest           # measures
    python -m tests.known_costs measured.tsv       # moves cases into the file, and out of it

A line names a case, or a function with all of its cases. A case that is slow by its nature
(statistics, installations) is marked where it stands: `@pytest.mark.slow`, or
`marks=pytest.mark.slow` in its row."""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("costs.tsv")
HEAD = "# CPU seconds of slow cases, as measured; 0.5 and 1.0 are lower bounds.\n"
SLOW = 1.5
"""CPU seconds from which on a fast case becomes slow."""
FAST = 0.3
"""CPU seconds below which a slow case becomes fast."""


def read(text: str) -> dict[str, float]:
    """CPU seconds by node id, of the text of tests/costs.tsv."""
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {node: float(seconds) for seconds, node in rows}


def written(costs: Mapping[str, float]) -> str:
    """The text of the file, sorted by node id."""
    return HEAD + "".join(f"{costs[node]:.1f}\t{node}\n" for node in sorted(costs))


def function_of(node: str) -> str:
    """The node id of a case without its parameters."""
    return node.partition("[")[0]


def seconds_of(node: str, costs: Mapping[str, float]) -> float | None:
    """The cost of a case by its line or that of its function; None if it is not slow."""
    return costs.get(node, costs.get(function_of(node)))


def updated(costs: Mapping[str, float], measured: Mapping[str, float]) -> dict[str, float]:
    """The costs of slow cases after a run; cases that it did not measure stay. The cost of a
    function is that of its dearest case.

    >>> updated({"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 1.5, "b": 0.1, "d": 3.0, "e": 1.0})
    {'a': 1.5, 'c': 1.0, 'd': 3.0}
    """
    after = dict(costs)
    dearest: dict[str, float] = {}
    for node, seconds in measured.items():
        line = function_of(node) if function_of(node) in costs else node
        dearest[line] = max(seconds, dearest.get(line, 0.0))
    for node, seconds in dearest.items():
        if node in costs and seconds < FAST:
            del after[node]
        elif node in costs or seconds >= SLOW:
            after[node] = seconds
    return after


def last_fast_cases(
    before: Mapping[str, float], after: Mapping[str, float], measured: Iterable[str]
) -> list[str]:
    """Functions of which a run measured cases, and none stays fast: somebody looks whether what
    they test has another fast case.

    >>> last_fast_cases({}, {"a[1]": 3.0, "b[1]": 3.0}, ["a[1]", "a[2]", "b[1]"])
    ['b']
    """
    nodes = list(measured)
    fast = lambda costs: {function_of(node) for node in nodes if seconds_of(node, costs) is None}
    return sorted(fast(before) - fast(after))


def stale(costs: Iterable[str], ids: Iterable[str]) -> list[str]:
    """Node ids of files that were collected which no test has."""
    cases = set(ids)
    known = cases | set(map(function_of, cases))
    files = {node.partition("::")[0] for node in cases}
    return [node for node in costs if node not in known and node.partition("::")[0] in files]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before pytest chooses by marks."""
    costs = read(FILE.read_text())
    for item in items:
        if seconds_of(item.nodeid, costs) is not None:
            item.add_marker(pytest.mark.slow)
    whole_files = not any("::" in argument for argument in config.args)
    gone = stale(costs, (item.nodeid for item in items)) if whole_files else []
    if gone:
        raise pytest.UsageError(
            f"{FILE.name}: expected names of tests, got {', '.join(gone[:5])} ({len(gone)} in "
            "all). Rename or remove these lines."
        )


def main() -> None:
    rows = (line.split("\t") for line in Path(sys.argv[1]).read_text().splitlines())
    measured = {node: float(seconds) for seconds, _, node in rows}
    before = read(FILE.read_text())
    after = updated(before, measured)
    FILE.write_text(written(after))
    print(f"slow by cost: {len(before):,} cases before, {len(after):,} now")
    for function in last_fast_cases(before, after, measured):
        print(f"without a fast case: {function}")


if __name__ == "__main__":
    main()
