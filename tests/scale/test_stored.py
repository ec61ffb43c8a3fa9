"""Tables whose rows are in files: what is read of them, and every way a file can be bad."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from tests.naming import naming
from vijax.fitting import checkpoint
from vijax.scale.row_files import StoredRows

WHOLE = np.arange(2 * 7 * 3, dtype=np.float32).reshape(2, 7, 3)


def in_files(folder, whole=WHOLE, axis=1, starts=(0, 3, 4)):
    """The table, in blocks of 3, 1 and 3 rows."""
    folder.mkdir(exist_ok=True)
    table = StoredRows(folder, 5, whole.shape, whole.dtype, axis, list(starts))
    for start, stop in table.blocks():
        table.write(start, np.take(whole, range(start, stop), axis))
    return table


@pytest.mark.parametrize(
    "at", [1, np.s_[:], np.s_[:, 2:4], np.s_[1:, 4:, 1], np.s_[:, 5], np.s_[:, ::-2], np.s_[0, 6:7]]
)
def test_a_part_is_that_of_the_array(at, tmp_path):
    np.testing.assert_array_equal(in_files(tmp_path / "rows")[at], WHOLE[at], strict=True)


def test_only_the_blocks_of_a_part_are_read(tmp_path):
    table = in_files(tmp_path / "rows")
    (tmp_path / "rows" / "5-000000000003.npz").unlink()
    np.testing.assert_array_equal(table[:, 4:], WHOLE[:, 4:])
    with pytest.raises(
        OSError,
        match=naming("5-000000000003.npz:", "rows.npz"),
    ):
        table[:, 3:]


def test_padding_repeats_the_first_row(tmp_path):
    table = in_files(tmp_path / "rows").pad(2)
    expected = np.concatenate([WHOLE, WHOLE[:, :1], WHOLE[:, :1]], 1)
    assert table.shape == expected.shape
    np.testing.assert_array_equal(np.asarray(table), expected)
    np.testing.assert_array_equal(table[:, 6:9], expected[:, 6:9])
    np.testing.assert_array_equal(table[:, 8:], expected[:, 8:])


@pytest.mark.parametrize("of", [np.float64, np.bool_, np.int32, jnp.bfloat16])
def test_numbers_of_every_type_come_back(of, tmp_path):
    whole = (np.arange(10) % 3).astype(of)
    table = in_files(tmp_path / "rows", whole, 0, (0, 4))
    again = StoredRows.open(tmp_path / "rows", json.loads(json.dumps(table.describe())))
    assert again.dtype == whole.dtype
    np.testing.assert_array_equal(np.asarray(again), whole, strict=True)


def altered(path):
    content = bytearray(path.read_bytes())
    at = content.index(b"rows.npy") + 200  # in the array's bytes, past the headers
    content[at] ^= 1
    path.write_bytes(content)


def consistent(path):
    with np.load(path) as file:
        np.savez(path, rows=file["rows"] + 1, checksum=file["checksum"])


def of_another_shape(path):
    with np.load(path) as file:
        np.savez(path, rows=file["rows"][:1], checksum=file["checksum"])


@pytest.mark.parametrize(
    "damage", [altered, consistent, of_another_shape, lambda path: path.write_bytes(b"nonsense")]
)
def test_a_damaged_block_is_seen_when_it_is_read(damage, tmp_path):
    table = in_files(tmp_path / "rows")
    damage(tmp_path / "rows" / "5-000000000000.npz")
    with pytest.raises(OSError, match=r"5-000000000000\.npz: damaged"):
        np.asarray(table)


# --- in a checkpoint ------------------------------------------------------------------------------
def saved(folder, step, value):
    """A checkpoint as several processes write it."""
    whole = np.full((7, 2), value, np.float32)
    folder.mkdir(exist_ok=True)
    rows = in_files(folder / f"step_{step:08d}.rows", whole, 0)
    return checkpoint.save(folder, step, {"x": np.float32(value), "table": rows}, keep=2)


LIKE = {"x": np.float32(0), "table": np.zeros((7, 2), np.float32)}


def test_a_checkpoint_with_its_rows_comes_back_and_leaves_with_them(tmp_path):
    for step in (1, 2, 3):
        saved(tmp_path, step, step)
    found = checkpoint.latest(tmp_path, LIKE)
    assert (found.step, float(found.tree["x"])) == (3, 3.0)
    np.testing.assert_array_equal(found.tree["table"], np.full((7, 2), 3.0))
    assert sorted(path.name for path in tmp_path.glob("*.rows")) == [
        "step_00000002.rows",
        "step_00000003.rows",
    ]


def test_rows_of_a_checkpoint_that_was_never_whole_are_removed(tmp_path):
    in_files(tmp_path / "step_00000001.rows")
    saved(tmp_path, 2, 2)
    assert [path.name for path in tmp_path.glob("*.rows")] == ["step_00000002.rows"]


@pytest.mark.parametrize(
    "damage", [lambda path: path.unlink(), lambda path: path.write_bytes(path.read_bytes()[:20])]
)
def test_without_one_of_its_blocks_the_checkpoint_before_is_used(damage, tmp_path):
    saved(tmp_path, 1, 1)
    saved(tmp_path, 2, 2)
    damage(tmp_path / "step_00000002.rows" / "5-000000000003.npz")
    said = []
    assert checkpoint.latest(tmp_path, LIKE, said.append).step == 1
    assert "truncated or corrupt" in said[0]
    assert "5-000000000003.npz" in said[0]


def test_rows_of_another_model_are_refused(tmp_path):
    saved(tmp_path, 1, 1)
    with pytest.raises(
        checkpoint.OtherTreeError,
        match=naming("'table'", "float32", "8"),
    ):
        checkpoint.latest(tmp_path, {**LIKE, "table": np.zeros((8, 2), np.float32)})
