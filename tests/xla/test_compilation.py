"""The tests' own tools: what is kept of compiled programs, and what tests cost."""

import os
from pathlib import Path

from tests import known_costs
from tests.compilation import forget_oldest


def test_the_oldest_programs_go_first(tmp_path: Path) -> None:
    for age, name in enumerate("dcba"):
        path = tmp_path / name
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - age, 1000 - age))
    forget_oldest(tmp_path, 400)
    assert len(list(tmp_path.iterdir())) == 4
    forget_oldest(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c", "d"]


def test_costs_of_slow_cases_are_those_of_the_last_run(tmp_path: Path) -> None:
    """A line of a function stands for all of its cases, and has the cost of the dearest."""
    costs = known_costs.read("# seconds\n1.0\ta.py::f\n0.5\ta.py::g[1]\n")
    assert known_costs.seconds_of("a.py::f[x]", costs) == 1.0
    assert known_costs.seconds_of("a.py::g[2]", costs) is None
    after = known_costs.updated(
        costs,
        {"a.py::f[x]": 3.0, "a.py::f[y]": 2.0, "a.py::g[1]": 0.1, "a.py::g[2]": 5.0},
    )
    assert after == {"a.py::f": 3.0, "a.py::g[2]": 5.0}
    assert known_costs.read(known_costs.written(after)) == after


def test_costs_of_tests_that_are_gone_are_named() -> None:
    ids = ["a.py::f[1]", "b.py::g"]
    assert known_costs.stale(["a.py::f", "a.py::h", "c.py::k"], ids) == ["a.py::h"]
