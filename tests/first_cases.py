"""`pytest --first-cases`: of every test function the first and the last of the cases that the run has of it, for a run
that asks whether all works, not whether all is right: the oldest jax that is allowed lacks a function or it does not,
and every function of the tests and every docstring still runs. So .ci/run has the dear ones too, whose middle cases
differ by the family, the model or the E-step."""

import pytest


def ends(names: list[str]) -> list[int]:
    """Where the first and the last case of each test function are, in a list of node ids."""
    first, last = {}, {}
    for place, name in enumerate(names):
        function = name.partition("[")[0]
        first.setdefault(function, place)
        last[function] = place
    return sorted({*first.values(), *last.values()})


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After pytest has chosen by marks, so that a function whose first case is slow keeps one that is not."""
    if config.option.first_cases:
        kept = [items[place] for place in ends([item.nodeid for item in items])]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept
