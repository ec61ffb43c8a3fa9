"""What the tests cost: CPU seconds of this process and those it starts, which other load on the
machine changes little, and the most memory a test process has held."""

import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import pytest

# a file to which every test's cost is written (an option would have to reach the workers)
TABLE = "VIJAX_TEST_COSTS"
# a run fails in which a test process comes to hold more; without it, it is only printed
BOUND = "VIJAX_TEST_GB"
BYTES = 1 if sys.platform == "darwin" else 1024  # the unit of ru_maxrss


class Cost(NamedTuple):
    """Of one test: CPU seconds of set-up, call and tear-down; bytes at the peak of its process so
    far."""

    test: str
    seconds: float
    peak: int


def cpu_seconds() -> float:
    return sum(os.times()[:4])


def peak_bytes() -> int:
    if sys.platform == "win32":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * BYTES


class Meter:
    """Measures where the tests run (each worker), adds up where the summary is printed (the
    controller)."""

    def __init__(self, config: pytest.Config):
        self.config, self.tests, self.processes = config, [], []
        self.most = float(os.environ.get(BOUND, "inf")) * 1e9
        path = os.environ.get(TABLE)
        self.table = Path(path) if path and not hasattr(config, "workerinput") else None
        if self.table:
            self.table.write_text("")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        item.stash[START] = cpu_seconds()
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        try:
            return (yield)
        finally:
            item.user_properties.append(
                ("cost", [item.nodeid, cpu_seconds() - item.stash[START], peak_bytes()])
            )

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown" and not hasattr(self.config, "workerinput"):
            for cost in (Cost(*value) for name, value in report.user_properties if name == "cost"):
                self.tests.append(cost)
                if self.table:  # as they come, so that a run that is cut short leaves what it has
                    with self.table.open("a") as rows:
                        rows.write(f"{cost.seconds:.2f}\t{cost.peak // 10**6}\t{cost.test}\n")

    def too_large(self) -> bool:
        return any(peak > self.most for _, peak in self.processes)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session):
        whole = [cpu_seconds(), peak_bytes()]
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["cost"] = whole
        elif not self.config.getoption("numprocesses", None):
            self.processes.append(whole)
        if self.too_large():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node):
        if "cost" in getattr(node, "workeroutput", {}):
            self.processes.append(node.workeroutput["cost"])

    def pytest_terminal_summary(self, terminalreporter):
        if not self.processes:
            return
        seconds, peak = sum(s for s, _ in self.processes), max(p for _, p in self.processes)
        processes = f"{len(self.processes)} test process{'es' if len(self.processes) > 1 else ''}"
        terminalreporter.write_line(
            f"{seconds:.0f} CPU s in {processes}, at most {peak / 1e9:.2f} GB each"
        )
        if self.too_large():
            terminalreporter.write_line(
                f"too large: {BOUND} allows {self.most / 1e9:g} GB", red=True
            )
        if self.table:
            files = defaultdict(float)
            for c in self.tests:
                files[c.test.split("::")[0]] += c.seconds
            for name, of in sorted(files.items(), key=lambda row: -row[1])[:30]:
                terminalreporter.write_line(f"{of:8.1f} CPU s  {name}")


START = pytest.StashKey[float]()
