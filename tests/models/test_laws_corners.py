"""Laws of data that say little, on every row of the registry: a fit is finite, or refuses them by
name."""

import re

import jax
import numpy as np
import pytest

import vijax as vi
from tests.models.registry import ROWS, TABLES, Case, on
from tests.models.short_fits import fit_of, taken_rows

ALL = [*ROWS, *TABLES]
NAMES = r"^(data|table|family|y|x|documents|corpus|formula|prevalence|response)\b"
"""How a message that refuses data begins."""


def is_right_or_refused(case, make):
    """A finite fit with finite answers that skipped nothing, or a ValueError that names its
    argument."""
    message, data, one = "", None, None
    try:
        data = make()
        one = fit_of(case, data)
    except ValueError as error:
        message = str(error)
    if message:
        assert re.search(NAMES, message), message
        return
    assert np.all(one.fit.trace["result"] == 0)
    numbers = one.fit.trace["elbo"], one.fit.state.posterior, one.fit.state.hyper, one.asked(data)
    for leaf in jax.tree.leaves(numbers):
        assert np.asarray(leaf).dtype.kind != "f" or np.all(np.isfinite(leaf))


def changed(case, change):
    """The data of a row, each array of numbers changed."""
    if isinstance(case.data, vi.data.Corpus):
        counts = case.data.to_scipy().toarray().astype(int)
        return vi.data.Corpus.from_counts(change(counts), case.data.vocabulary)
    return jax.tree.map(lambda x: change(x) if x.dtype == np.float64 else x, case.data)


def with_constant_column(x):
    """Numbers whose first column is the same in each row."""
    x = x.copy()
    x[..., 0] = np.where(np.isnan(x[..., 0]), np.nan, x.reshape(-1, x.shape[-1])[0, 0])
    return x


@pytest.mark.filterwarnings("ignore::vijax.models.formulas.terms.by_prior.OnlyPriorWarning")
@on(ALL)
def test_one_group_alone(case):
    data = case.table if not isinstance(case, Case) else case.data
    is_right_or_refused(case, lambda: taken_rows(data, np.array([0])))


@on([case for case in ROWS if case.covers != "plsa"])
def test_a_constant_column(case):
    is_right_or_refused(case, lambda: changed(case, with_constant_column))


@on([case for case in ROWS if case.covers != "plsa"])
def test_groups_all_alike(case):
    """So no component, state or slope is told from another."""
    is_right_or_refused(case, lambda: changed(case, lambda x: np.repeat(x[:1], len(x), axis=0)))


@on([case for case in ROWS if case.covers != "plsa"])
def test_nothing_but_zeros(case):
    """Columns without a spread, counts without an event, documents without a word."""
    is_right_or_refused(case, lambda: changed(case, np.zeros_like))


@pytest.mark.filterwarnings("ignore::vijax.models.formulas.terms.by_prior.OnlyPriorWarning")
@on(TABLES)
@pytest.mark.parametrize("column", ["y", "x", "words"])
def test_a_column_of_one_value(case, column):
    if column not in case.table:
        pytest.skip("no such column")
    values = np.repeat(case.table[column][:1], len(case.table[column]), axis=0)
    is_right_or_refused(case, lambda: {**case.table, column: values})


@on([case for case in ROWS if isinstance(case.data, vi.data.Corpus)])
def test_an_empty_document(case):
    """It is taken, and changes nothing but its own answer's place."""
    counts = case.data.to_scipy().toarray().astype(int)
    counts[2] = 0
    is_right_or_refused(case, lambda: vi.data.Corpus.from_counts(counts, case.data.vocabulary))
