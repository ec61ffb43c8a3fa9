"""The law of types, on every row of the registry: whole numbers are the same numbers in every type
that holds them.

Each fit is compared, bit for bit, with that of float64.
"""

import decimal
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vijax as vi
from tests.models.registry import ROWS, TABLES, on
from tests.models.short_fits import assert_same, fit_of
from tests.naming import naming

SIGNED = (
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "longdouble",
    ">f8",
    ">i2",
    "fortran",
    "strided",
)
UNSIGNED = ("uint8", "uint16", "uint32", "uint64", "bool")
"""Types, and ways in which an array may lie in memory; those of UNSIGNED are tried where no number
is negative."""


def whole(x):
    """Numbers as whole numbers of float64; masks, labels, ids, signs, zeros and ones stay."""
    x = np.asarray(x)
    if x.dtype != np.float64 or np.isin(x, (-1.0, 0.0, 1.0)).all():
        return x
    return np.where(np.isnan(x), x, np.round(2 * x))


def in_type(kind, x):
    """Whole numbers in another type, or laid out in another way."""
    x = np.asarray(x)
    if x.dtype.kind not in "fi":
        return x
    if kind == "fortran":
        return np.asfortranarray(x)
    if kind == "strided":
        return np.repeat(x, 2, axis=0)[::2]
    return x.astype(kind)


def kinds_for(x):
    """The types that hold these numbers."""
    if np.isnan(x).any():
        return [
            kind
            for kind in SIGNED
            if np.dtype(kind if kind not in ("fortran", "strided") else "f8").kind == "f"
        ]
    unsigned = [kind for kind in UNSIGNED if np.min(x) >= 0 and (kind != "bool" or np.max(x) <= 1)]
    return [*SIGNED, *unsigned]


def first_numbers(data):
    return next(x for x in jax.tree.leaves(data) if x.dtype == np.float64)


ARRAYS = [
    case for case in ROWS if not isinstance(case.data, vi.data.Corpus) and case.covers != "plsa"
]


@on(ARRAYS)
def test_numbers_of_every_type(case):
    data = jax.tree.map(whole, case.data)
    wanted = fit_of(case, data)
    asked = wanted.asked()
    kinds = kinds_for(first_numbers(data))
    assert len(kinds) >= 5
    for kind in kinds:
        got = fit_of(case, jax.tree.map(functools.partial(in_type, kind), data))
        assert_same(got.fit.state.posterior, wanted.fit.state.posterior, kind)
        assert_same(got.asked(), asked, kind)
        assert got.fit.trace["elbo"][-1] == wanted.fit.trace["elbo"][-1]


@on([case for case in ARRAYS if isinstance(case.data, np.ndarray) and case.data.ndim == 2])
@pytest.mark.parametrize("library", ["pandas", "polars", "jax"])
def test_tables_of_other_libraries(case, library):
    """A table of numbers is its array."""
    data = whole(case.data)
    table = tables()[library](data)
    wanted = fit_of(case, data)
    got = fit_of(case, table)
    assert_same(got.fit.state.posterior, wanted.fit.state.posterior)
    assert_same(got.asked(table), wanted.asked())


def tables():
    import pandas
    import polars

    names = [f"c{i}" for i in range(5)]
    return {
        "pandas": lambda x: pandas.DataFrame(x, columns=names),
        "polars": lambda x: polars.DataFrame(x, schema=names),
        "jax": jnp.asarray,
    }


@on([case for case in ARRAYS if isinstance(case.data, np.ndarray) and case.data.ndim == 2])
def test_decimals_are_refused_with_what_to_do(case):
    data = np.array(
        [[decimal.Decimal(int(v)) for v in row] for row in np.nan_to_num(whole(case.data))]
    )
    with pytest.raises(ValueError, match=naming("data:", "numpy.asarray")):
        fit_of(case, data)


# --- columns of tables ----------------------------------------------------------------------------
def in_whole_numbers(table):
    """Columns of numbers as whole ones; the response and what else must be a fraction stays."""
    return {name: whole(x) if name in ("x", "trials") else x for name, x in table.items()}


@on(TABLES)
def test_columns_of_every_type(case):
    """Of training rows, and of new ones."""
    table = in_whole_numbers(case.table)
    one = fit_of(case, table)
    asked = one.asked()
    for kind in kinds_for(table["x"]):
        typed = {**table, "x": in_type(kind, table["x"])}
        assert_made_alike(case, typed, one)
        assert_same(one.asked(typed), asked, f"new rows of {kind}")


@on([case for case in TABLES if case.covers == "glmm"])
@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_formulas_read_tables_of_other_libraries(case, library):
    make = pytest.importorskip(library)
    table = in_whole_numbers(case.table)
    made = make.table(dict(table)) if library == "pyarrow" else make.DataFrame(dict(table))
    one = fit_of(case, table)
    assert_made_alike(case, made, one)
    assert_same(one.asked(made), one.asked())


def assert_made_alike(case, table, one):
    """The model of this table is that of the fit. Of a density the data and the form are all that a
    fit reads; fits themselves would compile a program for each table."""
    model = case.make(table, None)
    if hasattr(model, "density_form"):
        assert_same(model.data, one.model.data)
        assert model.density_form == one.model.density_form
        assert model.priors == one.model.priors
    else:
        assert_same(fit_of(case, table, model).asked(one.data), one.asked())
