"""`pytest --first-cases`: of every test function the first and the last of the cases that the run
has of it, for a run that asks whether all works, not whether all is right: the oldest or the newest
jax lacks a function or it does not. So .ci/run has the dear ones too, whose middle cases differ by
the family, the model or the E-step.

`--part 0/4`, `--part 1/4`, ...: every fourth test function, from the first, the second, ..., for a
run that has not the time for all; other parts at other commits (.ci/run) have them all in turn."""

import argparse

import pytest


def ends(names: list[str]) -> list[int]:
    """Where the first and the last case of each test function are, in a list of node ids."""
    first, last = {}, {}
    for place, name in enumerate(names):
        function = name.partition("[")[0]
        first.setdefault(function, place)
        last[function] = place
    return sorted({*first.values(), *last.values()})


def fraction(text: str) -> tuple[int, int]:
    """`1/4` as (1, 4); an error for argparse where it is no such thing."""
    which, _, of = text.partition("/")
    if not (which.isdigit() and of.isdigit() and int(which) < int(of)):
        raise argparse.ArgumentTypeError(f"expected a part like 0/4 or 3/4, got {text!r}")
    return int(which), int(of)


def part(names: list[str], which: int, of: int) -> list[int]:
    """Where the cases of every `of`-th test function are, from function number `which` on."""
    functions = {
        name: place
        for place, name in enumerate(dict.fromkeys(name.partition("[")[0] for name in names))
    }
    return [i for i, name in enumerate(names) if functions[name.partition("[")[0]] % of == which]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After pytest has chosen by marks, so that a function whose first case is slow keeps one that
    is not."""
    if config.option.part is not None:
        _keep(config, items, part([item.nodeid for item in items], *config.option.part))
    if config.option.first_cases:
        _keep(config, items, ends([item.nodeid for item in items]))


def _keep(config: pytest.Config, items: list[pytest.Item], places: list[int]) -> None:
    kept = [items[place] for place in places]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
