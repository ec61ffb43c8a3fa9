"""What constructors say of their arguments, and that they hold callers to it."""

import inspect

import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.arguments import (
    POSITIVE,
    Positive,
    Size,
    check_arguments,
    check_values,
    integer,
    interval,
    minimum,
    read_arguments,
    read_meanings,
)

PLACES = (
    vi.models, vi.models.emission, vi.models.observed, vi.estep, vi.estimator, vi.step_size, vi.likelihood, vi.guides,
    vi.init, vi,
)  # fmt: skip
CHECKED = {
    f"{place.__name__}.{name}": make
    for place in PLACES
    for name, make in vars(place).items()
    if hasattr(getattr(make, "__init__", make) if isinstance(make, type) else make, "is_checked")
}


def test_most_constructors_are_checked():
    assert len(CHECKED) > 45


@pytest.mark.parametrize("name", CHECKED)
def test_every_argument_of_a_checked_constructor_is_explained(name):
    assert not [
        argument for argument, said in read_arguments(CHECKED[name]).items() if not said.meaning
    ]


@pytest.mark.parametrize(
    ("limit", "inside_it", "outside"),
    [
        (integer(), [1, np.int32(7)], [0, 1.5, True, "2"]),
        (integer(0), [0], [-1, None]),
        (minimum(1), [1, 2.5], [0.99, np.inf, np.nan]),
        (POSITIVE, [1e-300, 3, [1.0, 2.0]], [0.0, -1.0, np.inf, np.nan, [1.0, -1.0]]),
        (interval("(0, 1]"), [1e-9, 1], [0, 1.0001, np.nan]),
        (interval("[0, 1)"), [0, 0.999], [1, -1e-9]),
        (interval("[0, 1]"), [0, 1], [-0.1, 1.1]),
        (interval("(0, 1)"), [0.5], [0, 1]),
    ],
    ids=[
        "whole",
        "whole from 0",
        "at least",
        "positive",
        "above and most",
        "from and below",
        "from to",
        "above below",
    ],
)
def test_limits(limit, inside_it, outside):
    for value in inside_it:
        limit.check("x", value)
    for value in outside:
        with pytest.raises(ValueError, match=rf"^x: expected {limit.expected}".replace("[", r"\[")):
            limit.check("x", value)


@check_arguments
def grid(size: Size, rate: Positive | None = None, *more: int, **others: float) -> tuple:
    """A grid.

    Args:
      size: points of a side. More are finer.
      rate, unused: how fast it is. Fast, e.g. 2.0, is
        better.
      *more: further sides.

    Returns:
      It.
    """
    return size, rate, more, others


def test_what_is_left_out_none_and_wrong_calls_are_left_to_the_function():
    assert grid(2) == (2, None, (), {})
    assert grid(2, None, 3, a=1.0) == (2, None, (3,), {"a": 1.0})
    assert grid(2, rate=len) == (2, len, (), {})  # a function, where one may stand for a number
    with pytest.raises(TypeError, match=naming("grid()", "missing 1", "'size'")):
        grid()
    with pytest.raises(ValueError, match=naming("rate:", "positive", "got 0")):
        grid(2, 0)


def test_meanings_are_the_first_sentences():
    assert read_meanings(grid) == {
        "size": "points of a side",
        "rate": "how fast it is",
        "unused": "how fast it is",
        "more": "further sides",
    }
    assert list(read_arguments(grid)) == ["size", "rate"]
    assert read_arguments(grid)["size"].default is inspect.Parameter.empty


def test_a_class_is_checked_whichever_way_it_is_made():
    schedule = vi.step_size.robbins_monro(kappa=0.6)
    assert list(inspect.signature(vi.step_size.robbins_monro).parameters) == [
        "scale",
        "offset",
        "kappa",
    ]
    with pytest.raises(ValueError, match=naming("kappa:", "0", "1", "2.0")):
        schedule.__class__(1.0, 1.0, 2.0)


def test_choices_are_checked_where_they_have_a_name_of_their_own():
    given = [[1.0]], [1.0], vi.likelihood.gaussian()
    with pytest.raises(
        ValueError,
        match=naming("form:", '"auto"', '"weights"', '"kernel"'),
    ):
        vi.models.glm(*given, form="weight")
    assert vi.models.glm(*given, form=None).form.num_groups == vi.models.glm(*given).form.num_groups
    with pytest.raises(ValueError, match=r"or a function, got 'rbff'\. Did you mean .rbf"):
        vi.models.gp(*given[:2], "rbff", given[2])


def test_values_can_be_checked_later():
    with pytest.raises(ValueError, match=r"^size: expected an integer >= 1, got 0"):
        check_values(grid, {"size": 0, "unknown": -1})
