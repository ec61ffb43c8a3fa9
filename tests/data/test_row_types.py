"""Types of columns of Parquet files: known of all files before the first row, so that no number is
cut to another."""

import decimal
import warnings

import numpy as np
import pytest

import vijax as vi
from tests.naming import naming
from vijax.data.reading import parquet_values
from vijax.data.reading.checks import Notes
from vijax.data.tables.table_files import read_columns

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

MEAN = vi.model(
    prior=vi.Product({"mean": vi.Normal.from_mean_variance(0.0, 1.0)}),
    local_elbo=lambda s, y, key: (y * s["mean"].value - 0.5 * s["mean"].square, None),
)
NAN = np.nan


def written(folder, *parts, **how):
    for i, part in enumerate(parts):
        parquet.write_table(arrow.table({"a": part}), folder / f"{i}.parquet", **how)
    return folder


def typed(values, kind):
    return arrow.array(values, getattr(arrow, kind)())


PARTS = {
    "whole, then fractions": ([[1, 2, 3], [0.5, 1.5, 2.5]], [1, 2, 3, 0.5, 1.5, 2.5], "float64"),
    "whole, then missing": ([[1, 2], [1, None]], [1, 2, 1, NAN], "float64"),
    "bytes, then large": ([typed([1, 2], "uint8"), [300, -1]], [1, 2, 300, -1], "int64"),
    "large, then bytes": ([[300, -1], typed([1, 2], "uint8")], [300, -1, 1, 2], "int64"),
    "signed, then unsigned": ([typed([-1], "int8"), typed([255], "uint8")], [-1, 255], "int16"),
    "beyond int64": (
        [typed([2**63], "uint64"), typed([2**63 + 2**60], "uint64")],
        [2**63, 2**63 + 2**60],
        "uint64",
    ),
    "short floats, then whole": ([typed([0.5, None], "float32"), [3]], [0.5, NAN, 3], "float64"),
    "half floats": (
        [arrow.array(np.array([0.5], np.float16)), typed([None, 2], "float16")],
        [0.5, NAN, 2],
        "float16",
    ),
    "none known, then whole": ([[None, None], [3, 4]], [NAN, NAN, 3, 4], "float64"),
    "truth, then missing": ([[True, False], [None, True]], [1, 0, NAN, 1], "float64"),
    "truth, then whole": ([[True, False], [3, 4]], [1, 0, 3, 4], "int64"),
    "decimals": ([[decimal.Decimal("1.5"), None], [2, 3]], [1.5, NAN, 2, 3], "float64"),
    "codes": ([arrow.array([7, 8, 7]).dictionary_encode(), [0.5]], [7, 8, 7, 0.5], "float64"),
    "no rows, then fractions": ([typed([], "int64"), [0.5, 1.5]], [0.5, 1.5], "float64"),
    "whole": ([[1, 2], [3, 4]], [1, 2, 3, 4], "int64"),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("said", [True, False], ids=["statistics", "no statistics"])
def test_rows_are_the_numbers_of_the_files(name, said, tmp_path):
    """They were cast to the type of the first row group: 0.5 to 0, 300 to 44, a missing one to
    -2^63."""
    parts, expected, dtype = PARTS[name]
    table = vi.data.rows(written(tmp_path, *parts, write_statistics=said), "a")
    with warnings.catch_warnings(action="error"):
        taken = table.take(np.arange(table.num_groups))
        each = [table.read(block) for block in table.blocks]
    np.testing.assert_array_equal(taken, np.array(expected))
    np.testing.assert_array_equal(np.concatenate(each), np.array(expected))
    assert {values.dtype for values in each} == {taken.dtype}
    if said:
        assert taken.dtype == dtype
    np.testing.assert_array_equal(read_columns(str(tmp_path))["a"], np.array(expected, float))
    backwards = table.take(np.arange(table.num_groups)[::-1])
    np.testing.assert_array_equal(backwards, np.array(expected)[::-1])


def test_missing_numbers_in_a_later_row_group_of_one_file(tmp_path):
    values = [1, 2, 3, 1, None, 3]
    written(tmp_path, values, row_group_size=3)
    table = vi.data.rows(tmp_path)
    np.testing.assert_array_equal(table.take(np.arange(6)).ravel(), [1, 2, 3, 1, NAN, 3])
    loader = vi.data.loader.as_loader(vi.data.rows(tmp_path, "a"), MEAN, 2, 0)
    with pytest.raises(
        vi.data.DataError,
        match=r"0.parquet, rows 3 to 5.*expected finite numbers, got nan in row 1",
    ):
        list(loader.batches(0, 3))


@pytest.mark.parametrize("kinds", [("list",), ("fixed",), ("list", "fixed")])
def test_lists_have_one_type_too(kinds, tmp_path):
    parts = [[[1, 2], [3, 4]], [[0.5, None]]]
    made = lambda values, kind: arrow.array(
        values, arrow.list_(arrow.array(values[-1]).type, 2 if kind == "fixed" else -1)
    )
    written(tmp_path, *(made(part, kinds[i % len(kinds)]) for i, part in enumerate(parts)))
    table = vi.data.rows(tmp_path, "a")
    np.testing.assert_array_equal(table.take(np.arange(3)), [[1, 2], [3, 4], [0.5, NAN]])


def test_numbers_that_are_missing_in_lists_that_are_not(tmp_path):
    """The column says that no list is missing, and nothing of the numbers in them."""
    field = arrow.field("a", arrow.list_(arrow.int64()), nullable=False)
    parts = [[[1, 2]], [[3, None]]]
    for i, part in enumerate(parts):
        parquet.write_table(arrow.table([part], arrow.schema([field])), tmp_path / f"{i}.parquet")
    table = vi.data.rows(tmp_path, "a")
    assert table.types["a"] == np.float64
    np.testing.assert_array_equal(table.take(np.arange(2)), [[1, 2], [3, NAN]])


def test_a_file_that_says_that_nothing_is_missing_is_not_believed(tmp_path, monkeypatch):
    """Its statistics may be wrong: what is missing is NaN all the same."""
    monkeypatch.setattr(parquet_values, "_may_lack", lambda metadata, leaf: False)
    table = vi.data.rows(written(tmp_path, [1, 2], [True, None], [3, None]), "a")
    assert table.types["a"] == np.int64
    np.testing.assert_array_equal(table.take(np.arange(6)), [1, 2, 1, NAN, 3, NAN])


def test_lists_of_two_lengths_in_two_files_are_refused(tmp_path):
    table = vi.data.rows(written(tmp_path, [[1, 2]], [[1]]), "a")
    with pytest.raises(
        vi.data.DataError, match=r"1.parquet, rows 1 to 1 of all: expected rows of shape \(2,\)"
    ):
        table.take(np.arange(2))
    with pytest.raises(
        vi.data.DataError,
        match=naming("column 'a':", "2"),
    ):
        vi.data.rows(tmp_path).take(np.arange(1))


LARGE = 2**53 + 1


def test_whole_numbers_that_floats_do_not_hold_are_kept_or_said(tmp_path):
    kept = vi.data.rows(written(tmp_path, [LARGE, 5], [1, 2]), "a")
    assert kept.take(np.arange(4)).tolist() == [LARGE, 5, 1, 2]
    assert read_columns(str(tmp_path))["a"].tolist() == [LARGE, 5, 1, 2]
    written(tmp_path, [LARGE, 5], [1, None])
    table = vi.data.rows(tmp_path, "a")
    with pytest.warns(
        UserWarning, match=f"0.parquet, column 'a': {LARGE} in row 1 .* read as {LARGE - 1}"
    ):
        table.take(np.arange(4))
    notes = Notes()
    read_columns(str(tmp_path), notes=notes)
    assert f"the column 'a' are rounded, such as {LARGE} to {LARGE - 1}" in notes.texts()[0]


def test_a_matrix_says_it_too(tmp_path):
    parquet.write_table(arrow.table({"a": [LARGE], "b": [0.5]}), tmp_path / "0.parquet")
    with pytest.warns(UserWarning, match="column 'a': 9007199254740993"):
        vi.data.rows(tmp_path).take(np.arange(1))
    with warnings.catch_warnings(action="error"):
        matrix, vector = vi.data.rows(tmp_path, (["b"], "a")).take(np.arange(1))
    assert (matrix.tolist(), vector.tolist()) == ([[0.5]], [LARGE])


def test_held_out_rows_and_training_rows_are_the_same_numbers(tmp_path):
    """`split` and `take`, by which the command line scores and scales."""
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 2, 300), rng.normal(0.5, 0.2, 300)]
    train, test = vi.data.rows(written(tmp_path, *parts), "a").split(0.25, seed=1)
    taken = np.concatenate([part.take(np.arange(part.num_groups)) for part in (train, test)])
    np.testing.assert_array_equal(np.sort(taken), np.sort(np.concatenate(parts)))


def test_columns_in_another_order_are_found_by_name(tmp_path):
    parquet.write_table(arrow.table({"a": [1, 2], "b": [3, 4]}), tmp_path / "0.parquet")
    parquet.write_table(arrow.table({"b": [0.5], "a": [0.25]}), tmp_path / "1.parquet")
    expected = [[1, 3], [2, 4], [0.25, 0.5]]
    np.testing.assert_array_equal(vi.data.rows(tmp_path).take(np.arange(3)), expected)
    found = read_columns(str(tmp_path))
    np.testing.assert_array_equal(np.stack([found["a"], found["b"]], 1), expected)


def test_a_name_with_a_point_is_no_part_of_another_column(tmp_path):
    parquet.write_table(arrow.table({"a": [1, 2], "a.b": [3, None]}), tmp_path / "0.parquet")
    table = vi.data.rows(tmp_path, ("a", "a.b"))
    first, second = table.take(np.arange(2))
    assert (first.dtype, second.dtype) == (np.int64, np.float64)


def test_a_column_of_texts_is_refused_before_it_is_read(tmp_path, monkeypatch):
    table = vi.data.rows(written(tmp_path, ["x", "y"]), "a")
    monkeypatch.setattr(
        parquet.ParquetFile, "read_row_group", lambda *_, **__: pytest.fail("it was read")
    )
    with pytest.raises(vi.data.DataError, match=naming("column 'a':", "string")):
        table.take(np.arange(2))
