"""Parts of the suite, for a run that has not the time for all of it.

`--part 0/12`, `--part 1/12`, ...: a twelfth of the tests each, and together all of them. The cases
of one function stay together, and so do the laws of one family or model, which share what they
compile. .ci/run takes them in turn.

`--first-cases`: of every test function the first and the last of its cases, for a run that asks
whether all works and not whether all is right: the oldest or the newest jax lacks a function or it
does not."""

import argparse
from collections.abc import Hashable

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


def part(groups: list[Hashable], which: int, of: int) -> list[int]:
    """The places of the members of every `of`-th group, from group number `which` on.

    >>> part(["a", "b", "a", "c"], 0, 2)
    [0, 2, 3]
    """
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return [place for place, group in enumerate(groups) if numbers[group] % of == which]


def group(item: pytest.Item) -> Hashable:
    """The tests with which a test stays in one part: those of its family or model in its file, or
    the other cases of its function."""
    parameters = getattr(item, "callspec", None)
    name = getattr(parameters and parameters.params.get("case"), "name", None)
    return item.nodeid.partition("[")[0] if name is None else (item.path, name)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After pytest has chosen by marks, so that a function whose first case is slow keeps one that
    is not."""
    if config.option.part is not None:
        _keep(config, items, part([group(item) for item in items], *config.option.part))
    if config.option.first_cases:
        _keep(config, items, ends([item.nodeid for item in items]))


def _keep(config: pytest.Config, items: list[pytest.Item], places: list[int]) -> None:
    kept = [items[place] for place in places]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
