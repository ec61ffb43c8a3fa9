"""Checkpoints: exact round trips, atomic writes, rotation, and every way a file can be bad."""

import errno
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.naming import naming
from vijax.fitting import checkpoint
from vijax.fitting.checkpoint import CheckpointError


class State(NamedTuple):
    posterior: dict
    step: jax.Array
    key: jax.Array
    count: int


def state(value=1.5, shape=(3, 4)):
    topics = jnp.linspace(0.0, value, int(np.prod(shape)), dtype=jnp.float32).reshape(shape)
    posterior = {
        "topics": topics,
        "half": topics.astype(jnp.bfloat16),
        "empty": jnp.zeros((0, 2)),
        "mask": topics > 1,
    }
    return State(posterior, jnp.int32(9), jax.random.key(3), 4)


def assert_same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        if hasattr(x, "dtype"):
            assert x.dtype == y.dtype
        if jnp.issubdtype(jnp.asarray(x).dtype, jax.dtypes.prng_key):
            x, y = jax.random.key_data(x), jax.random.key_data(y)
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y), strict=True)


def test_a_tree_comes_back_bit_for_bit(tmp_path):
    path = checkpoint.save(tmp_path, 12, state(), {"model.num_topics": 3})
    found = checkpoint.load(path, jax.eval_shape(lambda: state())._replace(count=0))
    assert (found.step, found.config, found.path) == (12, {"model.num_topics": 3}, path)
    assert_same(found.tree, state())
    assert found.tree.count == 4


def test_the_newest_few_are_kept_and_the_newest_is_read(tmp_path):
    for step in (5, 10, 100, 20, 30):
        checkpoint.save(tmp_path, step, {"x": np.float32(step)}, keep=3)
    assert [path.name for path in checkpoint.checkpoint_files(tmp_path)] == [
        f"step_{step:08d}.npz" for step in (100, 30, 20)
    ]
    assert checkpoint.latest(tmp_path, {"x": np.float32(0)}).tree["x"] == 100


def truncate(data):
    return data[: len(data) // 2]


def flip_a_bit_in_the_middle(data):
    middle = data.index(b"leaf/0") + 200  # inside the array's bytes, past the zip and npy headers
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


@pytest.mark.parametrize(
    "damage", [truncate, flip_a_bit_in_the_middle, lambda data: b"", lambda data: b"nonsense"]
)
def test_a_damaged_checkpoint_is_reported_and_the_one_before_is_used(tmp_path, damage):
    like = {"x": np.zeros(100, np.float32)}
    checkpoint.save(tmp_path, 1, {"x": np.ones(100, np.float32)})
    newest = checkpoint.save(tmp_path, 2, {"x": np.full(100, 2, np.float32)})
    newest.write_bytes(damage(newest.read_bytes()))
    messages = []
    found = checkpoint.latest(tmp_path, like, messages.append)
    assert found.step == 1
    assert len(messages) == 1
    assert str(newest) in messages[0]
    assert "truncated or corrupt" in messages[0]


def test_a_consistent_file_with_altered_numbers_fails_its_checksum(tmp_path):
    path = checkpoint.save(tmp_path, 1, {"x": np.ones(3)})
    with np.load(path) as file:
        arrays = dict(file)
    arrays["leaf/0"] = arrays["leaf/0"] + 1
    np.savez(path, **arrays)
    with pytest.raises(CheckpointError, match=r"checksum of \['x'\] differs"):
        checkpoint.load(path, {"x": np.zeros(3)})


def test_no_usable_checkpoint_is_an_error_with_a_remedy(tmp_path):
    with pytest.raises(CheckpointError, match=r"there is none.*vijax fit"):
        checkpoint.latest(tmp_path, {})
    checkpoint.save(tmp_path, 1, {"x": 1}).write_bytes(b"")
    with pytest.raises(CheckpointError, match="none of the 1 files is readable"):
        checkpoint.latest(tmp_path, {"x": 1})


@pytest.mark.parametrize(
    ("like", "message"),
    [
        (
            {"x": np.zeros((4, 2))},
            r"\['x'\] should be float64 of shape \(4, 2\) and is float64 of shape \(3,\)",
        ),
        ({"x": np.zeros(3, np.float32)}, "should be float32"),
        ({"y": np.zeros(3)}, r"\['y'\] should be float64 .* and is absent"),
        ({}, r"\['x'\] should be absent"),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(tmp_path, like, message):
    path = checkpoint.save(tmp_path, 1, {"x": np.zeros(3)})
    with pytest.raises(CheckpointError, match=message):
        checkpoint.load(path, like)


def test_a_full_disk_leaves_the_earlier_checkpoints_and_no_rubbish(tmp_path, monkeypatch):
    before = checkpoint.save(tmp_path, 1, {"x": np.zeros(3)})

    def full(file, **arrays):
        file.write(b"half a checkpoint")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(
        CheckpointError, match=r"disk is full.*earlier ones are kept: free some space"
    ):
        checkpoint.save(tmp_path, 2, {"x": np.zeros(3)})
    assert list(tmp_path.iterdir()) == [before]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CheckpointError, match="could not be written"):
        checkpoint.save(tmp_path / "file", 1, {"x": 1})


def restarted(count):
    return {"x": np.zeros((count, 3))}


def test_settings_are_compared_before_shapes(tmp_path):
    """The settings say why another tree was expected."""
    checkpoint.save(tmp_path, 1, restarted(1), {"fit.restarts": 1})
    checkpoint.save(tmp_path, 2, restarted(1), {"fit.restarts": 1})

    def check(config):
        raise ValueError(f"restarts was {config['fit.restarts']}")

    with pytest.raises(ValueError, match="restarts was 1"):
        checkpoint.latest(tmp_path, restarted(3), check=check)
    with pytest.raises(
        checkpoint.OtherTreeError, match=naming("step_00000002", "3", "float64", "1")
    ):
        checkpoint.latest(tmp_path, restarted(3))


def test_the_order_is_of_steps_however_many_digits_they_have(tmp_path):
    for step in (99_999_999, 100_000_000):
        checkpoint.save(tmp_path, step, {"x": 1})
    assert checkpoint.latest(tmp_path, {"x": 1}).step == 100_000_000


def central_entry(data):
    return data.rindex(b"PK\x01\x02", 0, data.rindex(b"PK\x05\x06"))


@pytest.mark.parametrize(
    ("offset", "mask"),
    [(10, 64), (8, 1), (6, 255), (24, 255), (42, 255)],
    ids=["method", "encrypted", "version", "size", "place"],
)
def test_a_damaged_zip_header_falls_back_to_the_checkpoint_before(tmp_path, offset, mask):
    """An unknown compression method is a NotImplementedError of zipfile, an encrypted entry a
    RuntimeError."""
    like = {"x": np.zeros(100, np.float32)}
    checkpoint.save(tmp_path, 1, {"x": np.ones(100, np.float32)})
    newest = checkpoint.save(tmp_path, 2, {"x": np.full(100, 2, np.float32)})
    data = bytearray(newest.read_bytes())
    data[central_entry(bytes(data)) + offset] ^= mask
    newest.write_bytes(data)
    found = checkpoint.latest(tmp_path, like)
    assert (
        found.tree["x"][0] == found.step
    )  # either the one before, or no byte that matters was hit
    if offset in (10, 8):
        assert found.step == 1


@pytest.mark.parametrize(
    "error", [NotImplementedError, RuntimeError, TypeError, MemoryError, AttributeError]
)
def test_whatever_reading_raises_the_checkpoint_before_is_tried(tmp_path, monkeypatch, error):
    like = {"x": np.zeros(3)}
    checkpoint.save(tmp_path, 1, like)
    newest = checkpoint.save(tmp_path, 2, like)
    real = np.load

    def load(file, **kwargs):
        if file.name == str(newest):
            raise error
        return real(file, **kwargs)

    monkeypatch.setattr(np, "load", load)
    assert checkpoint.latest(tmp_path, like).step == 1


def test_a_random_bit_never_raises_anything_but_its_own_error(tmp_path):
    like = {"x": np.arange(20, dtype=np.float32)}
    path = checkpoint.save(tmp_path, 3, like)
    data, rng = path.read_bytes(), np.random.default_rng(0)
    refused = 0
    for bit in rng.integers(0, 8 * len(data), 300).tolist():
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            found = checkpoint.load(path, like)
        except CheckpointError:
            refused += 1
        else:
            np.testing.assert_array_equal(found.tree["x"], like["x"])
    assert refused > 200
