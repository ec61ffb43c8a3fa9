"""Columns are taken by name out of any table, by one function, and streams and fits read later
tables by it."""

import collections
import warnings

import jax
import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.data.loader import as_loader
from vijax.data.schema.by_name import columns_by_name, matrix_names, order_columns, table_names
from vijax.data.schema.named_columns import find_names, order_by_names

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
arrow = pytest.importorskip("pyarrow")

MAKERS = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "Arrow table": arrow.table,
    "Arrow batch": arrow.RecordBatch.from_pydict,
    "dict": dict,
    "ordered dict": collections.OrderedDict,
    "structured array": lambda columns: np.array(
        list(zip(*columns.values(), strict=True)), [(name, float) for name in columns]
    ),
}
MATRICES = ["pandas", "polars", "Arrow table", "Arrow batch"]
COLUMNS = {"c": np.array([5.0, 6.0]), "b": np.array([3.0, 4.0]), "a": np.array([1.0, 2.0])}


def column(table, name):
    return np.asarray(table[name]).tolist()


@pytest.mark.parametrize("kind", MAKERS)
def test_columns_are_taken_by_name_out_of_every_table(kind):
    table = MAKERS[kind](COLUMNS)
    assert table_names(table) == ("c", "b", "a")
    some = columns_by_name(table, ["a", "b"])
    assert type(some) is type(table)
    assert table_names(some) == ("a", "b")
    assert (column(some, "a"), column(some, "b")) == ([1.0, 2.0], [3.0, 4.0])
    assert order_columns(("c", "b", "a"), table, "data", "the fit", "") is table
    with pytest.raises(
        ValueError,
        match=naming("data:", "a, d", "none named d", "Mend it"),
    ):
        order_columns(("a", "d"), table, "data", "the fit", "Mend it.")


def test_names_that_are_numbers_or_twice_there():
    years = pandas.DataFrame([[1.0, 2.0]], columns=[2001, 2000])
    assert columns_by_name(years, ["2000", "2001"]).to_numpy().tolist() == [[2.0, 1.0]]
    assert matrix_names(years) == ("2001", "2000")
    assert matrix_names(pandas.DataFrame([[1.0, 2.0]])) == ("0", "1")
    twice = pandas.DataFrame([[1.0, 2.0]], columns=["a", "a"])
    assert matrix_names(twice) is None
    with pytest.raises(ValueError, match="got several named a"):
        order_columns(("a", "b"), twice, "data", "the fit", "")


# --- streams --------------------------------------------------------------------------------------
ROWS = np.random.default_rng(0).normal(size=(40, 2)) + 4.0 * (np.arange(40) % 2)[:, None] * [
    1.0,
    0.0,
]
MODEL = vi.models.mixture(vi.models.emission.diagonal_gaussian(num_components=2, dim=2))


def named(kind, rows, names="ab", **more):
    columns = {"a": rows[:, 0], "b": rows[:, 1]} | more
    return MAKERS[kind]({name: columns[name] for name in names})


def read(*batches, model=MODEL):
    """The arrays of a stream of these batches."""
    loader = as_loader(vi.data.stream(list(batches), 200, shuffled=True), model, None, 0)
    return [batch.data for batch in loader.batches(0, len(batches))]


@pytest.mark.parametrize("kind", MATRICES)
def test_later_batches_are_read_by_the_names_of_the_first(kind):
    """They were taken by place."""
    first, second = ROWS[:20], ROWS[20:]
    for later in (named(kind, second, "ba"), named("pandas", second, "ba"), second):
        found = read(named(kind, first), later)
        np.testing.assert_allclose(found, [first, second], rtol=1e-6)
    with pytest.raises(
        vi.data.DataError,
        match=r"^batch of step 1: expected the columns of the first batch, a, b, got none named "
        r"b\.",
    ):
        read(named(kind, first), named(kind, second, "ac", c=second[:, 1]))
    with pytest.warns(UserWarning, match=r"^batch of step 1: not read: 'c', which") as said:
        found = read(named(kind, first), *[named(kind, second, "cba", c=second[:, 1])] * 3)
    assert len(said) == 1
    np.testing.assert_allclose(found[3], second, rtol=1e-6)


def test_minibatches_pairs_and_mappings_are_read_by_name_too():
    first, second = (named("pandas", rows, "ab") for rows in (ROWS[:20], ROWS[20:]))
    as_minibatch = lambda table: vi.Minibatch(table, None)
    found = read(as_minibatch(first), as_minibatch(second[["b", "a"]]))
    np.testing.assert_array_equal(found[1], ROWS[20:])
    pairs = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
        local_elbo=lambda s, d, key: (d[0][:, 0] * s["bias"].log + d[1] * s["bias"].log1m, None),
    )
    found = read((first, ROWS[:20, 0]), (second[["b", "a"]], ROWS[20:, 0]), model=pairs)
    np.testing.assert_allclose(found[1][0], ROWS[20:], rtol=1e-6)
    by_key = vi.model(
        prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
        local_elbo=lambda s, d, key: (d["a"] * s["bias"].log + d["b"] * s["bias"].log1m, None),
    )
    for kind in ("dict", "ordered dict"):
        with pytest.warns(UserWarning, match="not read: 'c'"):
            found = read(
                named(kind, ROWS[:20]), named(kind, ROWS[20:], "cba", c=ROWS[20:, 0]), model=by_key
            )
        np.testing.assert_allclose(found[1]["a"], ROWS[20:, 0], rtol=1e-6)
        with pytest.raises(vi.data.DataError, match=r"^batch of step 1: .*got none named a\."):
            read(named(kind, ROWS[:20]), named(kind, ROWS[20:], "cb", c=ROWS[20:, 0]), model=by_key)


# --- fits -----------------------------------------------------------------------------------------
KEY = jax.random.key(0)


def sources(folder):
    pytest.importorskip("pyarrow.parquet").write_table(
        named("Arrow table", ROWS), folder / "rows.parquet"
    )
    batches = [named("Arrow table", ROWS[:20]), named("polars", ROWS[20:], "ba")]
    yield vi.data.stream(batches, 40, shuffled=True)
    yield vi.data.own_part(batches, 40, shuffled=True)
    yield vi.data.rows(folder / "rows.parquet")
    yield named("Arrow table", ROWS)


def test_a_fit_knows_the_names_however_it_was_given_the_table(tmp_path):
    """One of a stream or of rows in files took later tables by place; tables of Arrow raised a
    TypeError."""
    alg = vi.svi(MODEL)
    for source in sources(tmp_path):
        size = None if hasattr(source, "batches") else 20
        fit = vi.fit(alg, source, num_steps=4, batch_size=size, key=KEY)
        assert fit.columns == (("a", "b"),)
        expected = fit.locals(ROWS, key=KEY)["z"].probs
        for kind in MATRICES:
            later = named(kind, ROWS, "cba", c=ROWS[:, 0])
            with pytest.warns(UserWarning, match="c: no such column was in the table of the fit"):
                np.testing.assert_array_equal(fit.locals(later, key=KEY)["z"].probs, expected)
        with pytest.raises(ValueError, match=naming("data:", "columns")):
            fit.locals(named("Arrow batch", ROWS, "bc", c=ROWS[:, 0]), key=KEY)


def test_a_stream_of_arrays_has_no_names():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = vi.fit(
            vi.svi(MODEL),
            vi.data.stream([ROWS[:20], ROWS[20:]], 40, shuffled=True),
            num_steps=4,
            key=KEY,
        )
    assert fit.columns is None


@pytest.mark.parametrize("names", [[0, 1], [2001, 2000], [1, 0], [("a", 1), ("a", 2)]])
def test_columns_of_any_names_are_read_by_name(names):
    table = pandas.DataFrame(ROWS)
    table.columns = pandas.Index(names, tupleize_cols=False)
    known = find_names(table)
    assert known == (tuple(map(str, names)),)
    for other in (table, table[names[::-1]], ROWS):
        np.testing.assert_array_equal(order_by_names(known, other), ROWS)
    with pytest.raises(ValueError, match=naming("data:", "none named", "columns of training")):
        order_by_names(known, table.set_axis(["b", "c"], axis=1))


def test_a_fit_reads_numbered_columns_by_name():
    """Of columns 0 and 1, turned round, the score was another one, without a word."""
    table = pandas.DataFrame(ROWS)
    fit = vi.fit(vi.cavi(MODEL), table, num_steps=4, key=KEY)
    expected = fit.score(ROWS, key=KEY).mean
    for other in (table, table[[1, 0]]):
        np.testing.assert_array_equal(fit.score(other, key=KEY).mean, expected)


def test_a_table_that_only_numbers_its_columns_is_an_array():
    assert order_by_names((("a", "b"),), pandas.DataFrame(ROWS)).equals(pandas.DataFrame(ROWS))


def test_an_estimator_compares_columns_whose_names_are_numbers():
    inputs = pytest.importorskip("vijax.sklearn.parts.inputs")
    estimator, table = pytest.importorskip("sklearn.base").BaseEstimator(), pandas.DataFrame(ROWS)
    inputs.check_input(estimator, table)
    said = (
        r"X: expected the columns of fit, in their order: 0, 1, got 1, 0. Pass X\[\[0, 1\]\], or "
        r"X.to_numpy\(\)"
    )
    with pytest.raises(ValueError, match=said):
        inputs.check_input(estimator, table[[1, 0]], reset=False)
    for same in (table, ROWS):
        np.testing.assert_array_equal(inputs.check_input(estimator, same, reset=False), ROWS)
