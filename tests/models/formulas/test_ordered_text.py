"""Ordered responses: numbers and ordered columns have their order, text needs one."""

import numpy as np
import pytest

import vijax as vi

RNG = np.random.default_rng(3)
X = RNG.normal(size=60)
RANK = np.searchsorted([-1.0, 0.5], X + RNG.logistic(size=60))
ORDER = ["mid", "zero", "all"]  # by no alphabet
TEXT = np.array(ORDER)[RANK]


def test_text_without_an_order_is_refused():
    said = r"categories of 'r' in an order, got text, \['all', 'mid', 'zero'\].*Give order="
    with pytest.raises(ValueError, match=said):
        vi.glmm("r ~ x", {"r": TEXT, "x": X}, "cumulative")
    two = np.where(RANK > 0, "b", "a")
    with pytest.raises(ValueError, match="in an order"):
        vi.glmm("r ~ x", {"r": two, "x": X}, "cumulative")
    tens = np.array(["9", "10", "10+"])[RANK]
    with pytest.raises(ValueError, match="in an order"):
        vi.glmm("r ~ x", {"r": tens, "x": X}, "cumulative")


@pytest.mark.parametrize("order", [["mid", "zero"], ["mid", "zero", "all", "x"], ["mid"] * 3])
def test_an_order_has_each_category_once(order):
    said = r"order: expected each category of r once: \['all', 'mid', 'zero'\]"
    with pytest.raises(ValueError, match=said):
        vi.glmm("r ~ x", {"r": TEXT, "x": X}, "cumulative", order=order)
    with pytest.raises(ValueError, match="order: expected None, but for family"):
        vi.glmm("r ~ x", {"r": TEXT, "x": X}, "categorical", order=ORDER)


def test_an_order_is_that_of_the_numbers_of_the_categories():
    numbers = vi.glmm("r ~ x", {"r": RANK, "x": X}, "cumulative")
    named = vi.glmm("r ~ x", {"r": TEXT, "x": X}, "cumulative", order=ORDER)
    assert named.design.levels == tuple(ORDER)
    np.testing.assert_array_equal(named.design.y, numbers.design.y)
    later = named.design.response_and_trials({"r": ["all", "mid"]})[0]
    np.testing.assert_array_equal(later, [2, 0])


@pytest.mark.parametrize("cells", [[9, 10, 11], ["9", "10", "11"], [0.5, 1.5, 10.0]])
def test_numbers_have_their_order(cells):
    model = vi.glmm("r ~ x", {"r": np.array(cells)[RANK], "x": X}, "cumulative")
    np.testing.assert_array_equal(model.design.y, RANK)


def test_columns_of_other_libraries_have_their_order():
    pandas = pytest.importorskip("pandas")
    column = pandas.Categorical(TEXT, categories=ORDER, ordered=True)
    model = vi.glmm("r ~ x", pandas.DataFrame({"r": column, "x": X}), "cumulative")
    np.testing.assert_array_equal(model.design.y, RANK)
    unordered = pandas.Categorical(TEXT, categories=ORDER)
    with pytest.raises(ValueError, match="in an order"):
        vi.glmm("r ~ x", pandas.DataFrame({"r": unordered, "x": X}), "cumulative")
