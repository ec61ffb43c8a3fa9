"""Quick compilation for the fast suite."""

import os

import pytest

from tests.compilation import XLA_FLAGS


def pytest_configure(config: pytest.Config) -> None:
    """Before any backend exists; commands that tests start inherit it. The slow checks run more than they compile, and
    run what users run; `XLA_FLAGS= pytest` has the fast suite do so too."""
    if config.option.markexpr == "not slow":
        os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)
