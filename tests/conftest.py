"""Quick compilation for the fast suite."""

import os
from pathlib import Path

import jax
import pytest

from tests.compilation import XLA_FLAGS


def pytest_configure(config: pytest.Config) -> None:
    """Before any backend exists; commands that tests start inherit it. The slow checks run more than they compile, and
    run what users run; `XLA_FLAGS= pytest` has the fast suite do so too."""
    if config.option.markexpr == "not slow":
        os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)


@pytest.fixture(autouse=True, scope="module")
def few_memory_maps():
    """Every compiled program takes some of the 65,530 memory maps that Linux allows a process; without one more XLA
    dies of a segmentation fault. So programs are let go of well before."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_text().count("\n") > 25_000:
        jax.clear_caches()
