"""Tables from files of every kind, from scikit-learn and from generators, and the messages of
damaged ones."""

import gzip

import numpy as np
import pytest

from tests.naming import naming
from vijax.data.reading.checks import DataError
from vijax.data.tables.synthetic_tables import GENERATORS
from vijax.data.tables.table import Choice
from vijax.data.tables.table_files import BUNDLED, read_columns, read_table

CSV = 'a,name,b\n1,"x, y",2.5\n2,z,NA\n\n-3e1,,?\n'


def same(found):
    assert list(found) == ["a", "name", "b"]
    np.testing.assert_array_equal(found["a"], [1, 2, -30])
    np.testing.assert_array_equal(found["b"], [2.5, np.nan, np.nan])
    assert list(found["name"]) == ["x, y", "z", ""]


def test_csv_tsv_and_their_gzipped_forms(tmp_path):
    (tmp_path / "t.csv").write_text(CSV)
    (tmp_path / "t.tsv").write_text("a\tname\tb\n1\tx, y\t2.5\n2\tz\tNA\n-3e1\t\t?\n")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    for name in ("t.csv", "t.tsv", "t.csv.gz"):
        same(read_columns(str(tmp_path / name)))


def test_parquet(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    values = {"a": [1, 2, -30], "name": ["x, y", "z", None], "b": [2.5, None, None]}
    parquet.write_table(arrow.table(values), tmp_path / "t.parquet")
    same(read_columns(str(tmp_path / "t.parquet")))
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=naming("broken.parquet:", "Parquet")):
        read_columns(str(tmp_path / "broken.parquet"))


def test_arrays(tmp_path):
    x = np.arange(6.0).reshape(3, 2)
    np.save(tmp_path / "t.npy", x)
    np.savez(tmp_path / "t.npz", x=x, y=np.array([1, 0, 1]), name=np.array(["u", "v", "w"]))
    assert list(read_columns(str(tmp_path / "t.npy"))) == ["x0", "x1"]
    found = read_table(str(tmp_path / "t.npz"), Choice(target="y", kind="binary"))
    assert found.columns == ("x0", "x1")
    np.testing.assert_array_equal(found.x, x)
    np.testing.assert_array_equal(found.y, [1, -1, 1])


@pytest.mark.parametrize(
    ("name", "content", "fragments"),
    [
        ("t.csv", "a,b\n1,2\n3\n", ["t.csv:3", "2 cells", "got 1"]),
        ("t.csv", "a,a\n1,2\n", ["t.csv:1", "distinct names"]),
        ("t.csv", "", ["t.csv:1", "a header line"]),
        ("t.csv", 'a\n"1\n', ["t.csv:", "CSV"]),
        ("t.csv", "a,b\n", ["at least one row"]),
        ("t.xyz", "", ["the ending '.xyz'", ".parquet", "sklearn:", "synthetic:"]),
        ("t.npy", "no", ["t.npy", "numpy.save"]),
    ],
)
def test_a_damaged_file_is_named_with_its_line(name, content, fragments, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=r"t\.") as caught:
        read_table(str(tmp_path / name))
    for fragment in fragments:
        assert fragment in str(caught.value)


def test_pickles_and_arrays_of_other_lengths_are_refused(tmp_path):
    np.save(tmp_path / "t.npy", np.array([{}], object))
    with pytest.raises(ValueError, match="no pickles"):
        read_columns(str(tmp_path / "t.npy"))
    np.savez(tmp_path / "t.npz", x=np.zeros((3, 2)), y=np.zeros(4))
    with pytest.raises(ValueError, match="one row an observation"):
        read_columns(str(tmp_path / "t.npz"))


@pytest.mark.parametrize(
    ("source", "fragment"),
    [
        ("absent.csv", "expected a file, got none"),
        ("~ x", "~ x: expected a file, got none"),  # no user has this name
        ("synthetic:cluster", "did you mean 'clusters'?"),
        ("sklearn:irises", "did you mean 'iris'?"),
    ],
)
def test_what_is_not_there_is_said(source, fragment):
    with pytest.raises(ValueError, match="expected") as caught:
        read_table(source)
    assert fragment in str(caught.value)


@pytest.mark.parametrize("name", BUNDLED)
def test_what_comes_with_scikit_learn_has_columns_and_a_target(name):
    pytest.importorskip("sklearn")
    found = read_table(
        f"sklearn:{name}", Choice(target="target" if name in ("diabetes", "digits") else None)
    )
    assert found.num_rows > 100
    assert len(set(found.columns)) == found.x.shape[1] >= 4
    assert read_table(f"sklearn:{name}", num_rows=30).num_rows == 30


@pytest.mark.parametrize("name", GENERATORS)
def test_a_generator_is_a_function_of_its_seed(name):
    generator = GENERATORS[name]
    first, again = (read_columns(f"synthetic:{name}", seed=4, num_rows=120) for _ in range(2))
    other = read_columns(f"synthetic:{name}", seed=5, num_rows=120)
    assert all(len(values) == 120 for values in first.values())
    assert all(
        np.array_equal(first[key], again[key], equal_nan=values.dtype != object)
        for key, values in first.items()
    )
    assert any(not np.array_equal(first[key], other[key]) for key in first)
    assert len(read_columns(f"synthetic:{name}")[next(iter(first))]) == generator.num_rows
    assert generator.meaning.endswith(".")


def test_the_generators_are_what_they_say():
    """Moments that their parameters imply, at six standard errors (a false alarm in 1e8)."""
    line = read_columns("synthetic:line", num_rows=40_000)["value"]
    assert abs(line.mean() - (-8 * 0.2 - 2 * 0.3 + 2 * 0.1 + 7 * 0.4)) < 6 * line.std() / 200
    table = read_columns("synthetic:regression", num_rows=20_000)
    x = np.stack([*(table[f"x{i}"] for i in range(1, 11)), np.ones(20_000)], axis=1)
    fitted = np.linalg.lstsq(x, table["y"], rcond=None)[0]
    np.testing.assert_allclose(
        fitted, [2, 0, 0, -1, 0, 0, 0, 0.5, 0, 0, 1], atol=6 * 0.5 / np.sqrt(20_000)
    )
    ratings = np.stack(list(read_columns("synthetic:ratings", num_rows=2000).values()))
    assert abs(np.isnan(ratings).mean() - 0.75) < 6 * np.sqrt(0.25 * 0.75 / ratings.size)
    steps = read_columns("synthetic:sequences", num_rows=5000)["sequence"]
    lengths = np.bincount(steps.astype(int))[:-1]
    assert 30 <= lengths.min() <= lengths.max() <= 90


def test_a_folder_of_parquet_files_and_an_address_are_one_table(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    fsspec = pytest.importorskip("fsspec")
    for i in range(3):
        table = arrow.table({"a": [i, i + 0.5], "kind": ["x", "y"]})
        parquet.write_table(table, tmp_path / f"part-{i}.parquet")
    files = fsspec.filesystem("memory")
    files.put(str(tmp_path), "/tables", recursive=True)
    try:
        for source in (str(tmp_path), "memory://tables"):
            found = read_table(source, Choice(target="kind", kind="binary"))
            assert found.x[:, 0].tolist() == [0, 0.5, 1, 1.5, 2, 2.5]
            assert found.classes == ("x", "y")
        assert len(read_table("memory://tables/part-1.parquet")) == 2
        with pytest.raises(DataError, match="got none"):
            read_table("memory://nothing")
    finally:
        files.rm("/tables", recursive=True)
    parquet.write_table(arrow.table({"b": [1]}), tmp_path / "part-3.parquet")
    with pytest.raises(DataError, match=naming("'a'", "'kind'", "'b'")):
        read_table(str(tmp_path))
