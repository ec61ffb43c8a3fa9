"""Tables in Parquet files: the rows that a fit visits, what is held, and what is said of bad
ones."""

import collections
import itertools
import subprocess
import sys

import jax
import numpy as np
import pytest
from scipy import stats

import vijax as vi
from tests.naming import naming
from vijax.data.loader import as_loader
from vijax.data.minibatch import Share
from vijax.data.streams.permutation import Permutation

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

COIN = vi.model(
    prior=vi.Product({"bias": vi.Beta.from_alpha_beta(1.0, 1.0)}),
    local_elbo=lambda s, y, key: (y * s["bias"].log + (1 - y) * s["bias"].log1m, None),
)
MEAN = vi.model(
    prior=vi.Product({"mean": vi.Normal.from_mean_variance(0.0, 1.0)}),
    local_elbo=lambda s, y, key: (y * s["mean"].value - 0.5 * s["mean"].square, None),
)
ROWS = 1000


@pytest.fixture
def folder(tmp_path):
    """1,000 rows in 3 files of row groups of 37; column a is the number of the row."""
    numbers = np.arange(ROWS)
    table = arrow.table(
        {
            "a": numbers.astype(float),
            "b": -numbers,
            "x": numbers[:, None].repeat(3, 1).tolist(),
            "y": numbers % 2,
        }
    )
    for i in range(3):
        parquet.write_table(
            table.slice(400 * i, 400), tmp_path / f"part-{i}.parquet", row_group_size=37
        )
    return tmp_path


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 65, 1000])
def test_an_order_has_every_row_once(size):
    assert np.array_equal(np.sort(Permutation(size, (3, 1))(np.arange(size))), np.arange(size))


@pytest.mark.parametrize("size", [3, 4])
def test_all_orders_are_alike_likely(size):
    """Chi-square over all orders; a right one fails once in 10,000 times, and the seeds are
    fixed."""
    seen = collections.Counter(
        tuple(Permutation(size, (seed,))(np.arange(size)).tolist()) for seed in range(3000)
    )
    counts = [seen[order] for order in itertools.permutations(range(size))]
    assert stats.chisquare(counts).pvalue > 1e-4


def rows_of(batches):
    return [np.asarray(batch.data)[np.asarray(batch.weights) > 0] for batch in batches]


@pytest.mark.parametrize("held", [1 << 28, 4000])
def test_a_pass_visits_each_row_once_and_passes_differ(folder, held):
    loader = as_loader(vi.data.rows(folder, "a", held_bytes=held), MEAN, 64, seed=5)
    passes = [np.concatenate(rows_of(loader.batches(16 * i, 16 * i + 16))) for i in range(2)]
    for visited in passes:
        assert np.array_equal(np.sort(visited), np.arange(ROWS))
    assert not np.array_equal(*passes)
    (batch,) = loader.batches(3, 4)
    real = np.asarray(batch.weights) > 0
    assert np.array_equal(np.asarray(batch.rows)[real], np.asarray(batch.data)[real])
    assert batch.num_groups == ROWS


def test_what_is_held_and_where_a_run_begins_change_no_batch(folder):
    few, all_ = (
        as_loader(vi.data.rows(folder, (["a", "b"], "y"), held_bytes=h), MEAN, 64, 5)
        for h in (3000, 1 << 20)
    )
    expected = list(all_.batches(0, 30))[7:]
    for one, other in zip(few.batches(7, 30), expected, strict=True):
        jax.tree.map(np.testing.assert_array_equal, one, other)


def test_blocks_are_read_once_for_all_steps_whose_rows_are_held(folder, monkeypatch):
    reads = []
    read = vi.data.streams.rows.Rows.read
    monkeypatch.setattr(
        vi.data.streams.rows.Rows,
        "read",
        lambda self, block: reads.append(block) or read(self, block),
    )
    for held, windows in (
        (3600, 10),
        (4000, 1),
    ):  # 36 bytes a row with its places; two batches of 50, or all rows
        reads.clear()
        table = vi.data.rows(folder, "a", held_bytes=held)
        loader = as_loader(table, MEAN, 50, seed=5)
        list(loader.batches(0, 20))
        blocks = len(table.blocks)
        assert blocks == 2 * 11 + 6
        assert 0.9 * windows * blocks <= len(reads) <= windows * blocks + 1
    list(loader.batches(0, 1))  # all rows are held: nothing is read again
    assert len(reads) <= blocks + 1


def test_parts_are_the_same_in_every_pass(folder):
    loader = as_loader(vi.data.rows(folder, "a", held_bytes=2000), MEAN, None, seed=5, num_parts=4)
    first, second = (
        {int(b.part): np.asarray(b.data) for b in loader.batches(i, i + 4)} for i in (0, 4)
    )
    assert sorted(first) == [0, 1, 2, 3]
    jax.tree.map(np.testing.assert_array_equal, first, second)


@pytest.mark.parametrize("held", [1 << 28, 4000])
@pytest.mark.parametrize(("size", "devices"), [(64, 4), (3, 8), (1000, 2)])
def test_processes_read_a_batch_between_them(folder, size, devices, held):
    """Also where a process has no row of a batch."""
    loader = as_loader(vi.data.rows(folder, columns="a", held_bytes=held), COIN, size, 5)
    parts = [loader.with_share(Share(k, 2, devices)).batches(0, 3) for k in range(2)]
    for whole, *own in zip(loader.batches(0, 3), *parts, strict=True):
        found = np.concatenate(rows_of(own))
        np.testing.assert_array_equal(found, rows_of([whole])[0])
        assert len({len(part.weights) for part in own}) == 1
        numbers = np.concatenate(
            [np.asarray(part.rows)[np.asarray(part.weights) > 0] for part in own]
        )
        np.testing.assert_array_equal(numbers, found)


def test_a_fit_is_that_of_all_rows_and_goes_on_bit_for_bit(folder):
    """The posterior of a coin is known; steps of 1 / (t + 1) reach it at the end of a pass."""
    table = vi.data.rows(folder, "y", held_bytes=1000)
    alg = vi.svi(COIN, step_size=vi.step_size.robbins_monro(kappa=1.0))
    run = lambda steps, **more: vi.fit(
        alg, table, key=jax.random.key(0), num_steps=steps, batch_size=100, **more
    )
    whole = run(20)
    in_two = run(20, state=run(7).state)
    jax.tree.map(np.testing.assert_array_equal, whole.state, in_two.state)
    assert abs(float(whole.posterior["bias"].mean()) - 0.5) < 0.01
    assert abs(float(whole.posterior["bias"].alpha + whole.posterior["bias"].beta) - ROWS - 2) < 1


@pytest.mark.parametrize(
    ("columns", "shape"),
    [("a", ()), (["a", "b"], (2,)), ("x", (3,)), ({"y": "y", "z": ["b"]}, {"y": (), "z": (1,)})],
)
def test_columns_are_in_the_structure_that_is_asked(folder, columns, shape):
    table = vi.data.rows(folder, columns)
    read = table.read(table.blocks[1])
    assert jax.tree.map(lambda x: x.shape[1:], read) == shape
    leaf = read["z"] if isinstance(read, dict) else read
    assert np.abs(leaf).min() == 37  # of row 37, the first of the second block


@pytest.mark.parametrize("held", [1 << 28, 2000])
def test_a_split_has_every_row_once_and_a_fit_sees_the_training_part(folder, held):
    train, test = vi.data.rows(folder, "a", held_bytes=held).split(0.2, seed=3)
    train, also_train = train.split(50, seed=3)
    assert (train.num_groups, also_train.num_groups, test.num_groups) == (750, 50, 200)
    parts = [part.take(np.arange(part.num_groups)) for part in (train, also_train, test)]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(ROWS))
    assert abs(parts[2].mean() - ROWS / 2) < 3 * ROWS / np.sqrt(12 * 200)
    visited = np.concatenate(rows_of(as_loader(train, MEAN, 64, seed=5).batches(0, 12)))
    assert np.array_equal(np.sort(visited), np.sort(parts[0]))
    one, other = (np.concatenate(list(part.contents())) for part in (train, test))
    assert not np.array_equal(one, other)
    with pytest.raises(vi.data.DataError, match="seed: expected 3"):
        train.split(0.1, seed=4)
    with pytest.raises(vi.data.DataError, match="held_out: expected a part of 750 rows"):
        train.split(750, seed=3)


def test_bad_rows_are_named(folder):
    table = arrow.table({"a": [1.0, None], "s": ["x", "y"], "l": [[1.0], [1.0, 2.0]]})
    parquet.write_table(table, folder / "part-9.parquet")
    loader = as_loader(vi.data.rows(folder / "part-9.parquet", "a"), MEAN, 1, 0)
    with pytest.raises(vi.data.DataError, match=r"part-9.parquet, rows 0 to 1.*finite.*row 1"):
        list(loader.batches(0, 1))
    for name, said in (
        ("s", "column 's': expected numbers, got string"),
        ("l", "lists of one length"),
    ):
        found = vi.data.rows(folder / "part-9.parquet", name)
        with pytest.raises(vi.data.DataError, match=said):
            found.read(found.blocks[0])
    with pytest.raises(vi.data.DataError, match=naming("part-9.parquet:", "'b'")):
        vi.data.rows(folder, ["a", "b"])
    with pytest.raises(vi.data.DataError, match="did you mean 'a'"):
        vi.data.rows(folder, "aa")
    (folder / "part-9.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(vi.data.DataError, match=naming("part-9.parquet:", "Parquet")):
        vi.data.rows(folder)
    with pytest.raises(vi.data.DataError, match="a folder of them"):
        vi.data.rows(folder / "nothing")


def test_what_no_fit_can_do_is_refused(folder):
    table = vi.data.rows(folder, "a", held_bytes=1000)
    with pytest.raises(ValueError, match="held_bytes=1,000"):
        as_loader(table, MEAN, None, 0)
    with pytest.raises(ValueError, match=naming("batch_size:", "1000")):
        as_loader(table, MEAN, 1001, 0)
    with pytest.raises(ValueError, match="Read the rows into an array"):
        as_loader(table, vi.density({"z": vi.free(())}, lambda v, data: -(v["z"] ** 2)), 10, 0)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path):
    """Two million rows (80 MB as floats), an eighth of them, and the same steps; 8 MB of rows are
    held.

    `ru_maxrss` of a process is that of the one which started it, where that is larger."""
    most = []
    for shards in (1, 8):
        folder = tmp_path / str(shards)
        folder.mkdir()
        for i in range(shards):
            values = np.random.default_rng(i).normal(1.0, 1.0, (250_000, 10))
            table = arrow.table({f"x{j}": values[:, j] for j in range(10)})
            parquet.write_table(table, folder / f"part-{i}.parquet", row_group_size=50_000)
        result = subprocess.run(
            [sys.executable, "-c", FLAT, str(folder)], check=True, capture_output=True, text=True
        )
        kilobytes, mean = map(float, result.stdout.split())
        assert abs(mean - 1) < 0.01
        most.append(kilobytes / 1024)
    assert most[1] - most[0] < 20, most


FLAT = """
import sys
import jax, jax.numpy as jnp
import vijax as vi
mean = vi.model(
    prior=vi.Product({"mean": vi.Normal.from_mean_variance(jnp.zeros(10), 1.0)}),
    local_elbo=lambda s, y, key: ((y * s["mean"].value - 0.5 * s["mean"].square).sum(-1), None),
)
table = vi.data.rows(sys.argv[1], held_bytes=2**23)
fit = vi.fit(vi.svi(mean), table, key=jax.random.key(0), num_steps=1000, batch_size=1000)
most = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(most, float(fit.posterior["mean"].mean()[0]))
"""
