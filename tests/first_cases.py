"""`pytest --first-cases`: of every test function the first and the last of the cases that the run has of it, for a run
that asks whether all works, not whether all is right: the oldest or the newest jax lacks a function or it does not. So
.ci/run has the dear ones too, whose middle cases differ by the family, the model or the E-step.

`--half 0` or `--half 1`: every second test function, for a run that has not the time for all."""

import pytest


def ends(names: list[str]) -> list[int]:
    """Where the first and the last case of each test function are, in a list of node ids."""
    first, last = {}, {}
    for place, name in enumerate(names):
        function = name.partition("[")[0]
        first.setdefault(function, place)
        last[function] = place
    return sorted({*first.values(), *last.values()})


def half(names: list[str], which: int) -> list[int]:
    """Where the cases of every second test function are, from the first function (0) or from the second (1)."""
    functions = {name: place for place, name in enumerate(dict.fromkeys(name.partition("[")[0] for name in names))}
    return [i for i, name in enumerate(names) if functions[name.partition("[")[0]] % 2 == which]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After pytest has chosen by marks, so that a function whose first case is slow keeps one that is not."""
    if config.option.half is not None:
        _keep(config, items, half([item.nodeid for item in items], config.option.half))
    if config.option.first_cases:
        _keep(config, items, ends([item.nodeid for item in items]))


def _keep(config: pytest.Config, items: list[pytest.Item], places: list[int]) -> None:
    kept = [items[place] for place in places]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
