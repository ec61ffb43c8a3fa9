"""Quick compilation for the fast suite, a cache of programs for the next run, and what both
cost."""

import os
import signal

# Before NumPy is loaded, and for processes to come: there are as many test processes as cores, and
# threads of BLAS in each would wait for one another, which costs CPU time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import jax
import jax.experimental
import pytest

from tests import first_cases, known_costs, seeds, touched
from tests.compilation import ALONE, XLA_FLAGS, keep_programs
from tests.cost import Meter
from tests.memory import Memory

if not hasattr(
    jax, "enable_x64"
):  # before jax 0.8: the tests name it as later versions do, vijax itself does not
    jax.enable_x64 = jax.experimental.enable_x64


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--first-cases",
        action="store_true",
        help="of each test function only the first and last case",
    )
    parser.addoption(
        "--part",
        type=first_cases.fraction,
        metavar="K/N",
        help="one of N parts of the tests, from 0",
    )
    parser.addoption(
        "--until",
        type=float,
        metavar="SECONDS",
        help="seconds since 1970 after which no case begins: it is skipped",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Before any backend exists; commands that tests start inherit it. The slow checks run more
    than they compile, and run what users run, but without threads within a matrix product;
    `XLA_FLAGS= pytest` has all tests do so."""
    quick = config.option.markexpr == "not slow"
    os.environ.setdefault("XLA_FLAGS", XLA_FLAGS if quick else ALONE)
    keep_programs(config)
    config.pluginmanager.register(Meter(config))
    config.pluginmanager.register(Memory())
    config.pluginmanager.register(known_costs)
    config.pluginmanager.register(first_cases)
    config.pluginmanager.register(seeds)
    config.pluginmanager.register(touched)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The laws of one family come together, so that one process makes the draws and programs that
    they share."""
    files: dict[object, int] = {}
    for item in items:
        files.setdefault(item.path, len(files))

    def place(item: pytest.Item) -> tuple[int, str]:
        parameters = getattr(item, "callspec", None)
        return files[item.path], str(
            getattr(parameters and parameters.params.get("case"), "name", "")
        )

    items.sort(key=place)


@pytest.fixture(autouse=True)
def settings_stay():
    """A test that leaves a setting of JAX's or XLA's in the environment fails: processes that later
    tests start would inherit it."""
    before = _settings()
    yield
    assert _settings() == before


def _settings():
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("JAX_", "XLA_", "VIJAX_"))
    }


@pytest.fixture
def interruptible():
    """As in a terminal; a job in the background may be started with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
