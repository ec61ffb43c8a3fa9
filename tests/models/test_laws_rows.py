"""The law of rows, on every row of the registry: what a fit says of a group does not depend on who else is asked."""

import numpy as np

from tests.models.one_step import assert_near
from tests.models.registry import ROWS, TABLES, on
from tests.models.short_fits import assert_same, fitted, taken_rows

ASKED = [case for case in ROWS if case.asks]
ROUNDING = 2e-6
"""Of sums in float32 that another number of rows puts in another order."""


def places(one):
    """The numbers of all groups, and of some of them in another order."""
    size = len(one.data["x"]) if isinstance(one.data, dict) else groups_in(one.data)
    return np.arange(size), np.random.default_rng(1).permutation(size)


def groups_in(data):
    return data.num_documents if hasattr(data, "num_documents") else len(first_of(data))


def first_of(data):
    return data[0] if isinstance(data, tuple) else data


@on(ASKED)
def test_groups_asked_in_another_order(case):
    """Bit for bit."""
    one = fitted(case)
    _, order = places(one)
    assert_same(one.asked(taken_rows(one.data, order)), taken_rows(one.asked(), order))


@on(TABLES)
def test_rows_asked_in_another_order(case):
    """In the last digit a product of matrices depends on the place of a row (in blocks of a kernel of BLAS)."""
    one = fitted(case)
    _, order = places(one)
    assert_near(one.asked(taken_rows(one.data, order)), taken_rows(one.asked(), order), ROUNDING)


@on([*ASKED, *TABLES])
def test_a_group_asked_alone(case):
    """A program for one row adds in another order: up to rounding."""
    one = fitted(case)
    among = one.asked()
    for place in (0, places(one)[0][-1]):
        rows = np.array([place])
        assert_near(one.asked(taken_rows(one.data, rows)), taken_rows(among, rows), ROUNDING)
