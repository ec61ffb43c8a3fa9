"""The law of rows, on every row of the registry: what a fit says of a group does not depend on who
else is asked."""

import jax
import numpy as np

from tests.models.registry import ROWS, TABLES, on, that_hold
from tests.models.short_fits import assert_same, fitted, taken_rows

ASKED = [case for case in that_hold("alone", ROWS) if case.asks]
OF_TABLES = that_hold("alone", TABLES)
ROUNDING = 2e-6
"""Of sums in float32 that another number of rows puts in another order, beside the largest answer
of all groups."""


def assert_near_among(got, among, rows):
    """What is said of these groups, as it was said of them among all."""
    assert jax.tree.structure(got) == jax.tree.structure(among)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(among), strict=True):
        largest = float(np.max(np.abs(b), where=np.isfinite(b), initial=0.0))
        np.testing.assert_allclose(a, b[rows], rtol=ROUNDING, atol=ROUNDING * largest)


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


@on(OF_TABLES)
def test_rows_asked_in_another_order(case):
    """In the last digit a product of matrices depends on the place of a row (in blocks of a kernel
    of BLAS)."""
    one = fitted(case)
    _, order = places(one)
    assert_near_among(one.asked(taken_rows(one.data, order)), one.asked(), order)


@on([*ASKED, *OF_TABLES])
def test_a_group_asked_alone(case):
    """A program for one row adds in another order: up to rounding."""
    one = fitted(case)
    among = one.asked()
    for place in (0, places(one)[0][-1]):
        rows = np.array([place])
        assert_near_among(one.asked(taken_rows(one.data, rows)), among, rows)
