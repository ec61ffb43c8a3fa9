"""Files are written whole or not at all, and a link in a folder from elsewhere leads no write to
another place."""

import os

import numpy as np
import pytest

from vijax import files
from vijax.evaluate import metrics
from vijax.fitting import checkpoint


def test_a_link_is_replaced_and_what_it_points_to_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("keep me")
    (tmp_path / "summary.txt").symlink_to("precious")
    files.write_text(tmp_path / "summary.txt", "new")
    assert (tmp_path / "precious").read_text() == "keep me"
    assert not (tmp_path / "summary.txt").is_symlink()
    assert (tmp_path / "summary.txt").read_text() == "new"


def test_a_link_under_the_temporary_name_is_not_followed_either(tmp_path):
    (tmp_path / "precious").write_text("keep me")
    (tmp_path / f".summary.txt.{os.getpid()}.tmp").symlink_to("precious")
    files.write_text(tmp_path / "summary.txt", "new")
    assert (tmp_path / "precious").read_text() == "keep me"
    assert {path.name for path in tmp_path.iterdir()} == {"precious", "summary.txt"}


def test_a_file_that_grows_is_not_reached_through_a_link(tmp_path):
    (tmp_path / "precious").write_text("keep me")
    (tmp_path / "metrics.jsonl").symlink_to("precious")
    with pytest.raises(OSError, match=r"metrics\.jsonl"):
        metrics.append(tmp_path / "metrics.jsonl", [{"kind": "step", "step": 1}])
    assert (tmp_path / "precious").read_text() == "keep me"


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "checkpoints").symlink_to("elsewhere")
    with pytest.raises(
        checkpoint.CheckpointError,
        match=r"checkpoints is a link to another folder.*remove the link",
    ):
        checkpoint.save(tmp_path / "checkpoints", 1, {"x": 1})
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_failed_write_leaves_what_was_there_and_no_rubbish(tmp_path):
    (tmp_path / "a").write_text("before")

    def fail(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        files.write_atomically(tmp_path / "a", fail)
    assert (tmp_path / "a").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_half_a_surrogate_pair_is_written_as_json_writes_it(tmp_path):
    files.write_text(tmp_path / "a", "caf\u00e9 \ud83d")
    assert (tmp_path / "a").read_bytes() == "caf\u00e9 \\ud83d".encode()


def test_leftovers_of_a_killed_writer_are_removed(tmp_path):
    (tmp_path / ".step_00000002.npz.77.tmp").write_bytes(b"half")
    (tmp_path / "step_00000001.npz").write_bytes(b"whole")
    files.remove_leftovers(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step_00000001.npz"]


def test_arrays_are_written_and_nothing_else(tmp_path):
    """NumPy before 2.2 has no `allow_pickle` in savez, and writes it as one more array."""
    files.write_arrays(tmp_path / "posterior.npz", {"a/b": np.arange(3), "name": np.array("x")})
    with np.load(tmp_path / "posterior.npz", allow_pickle=False) as found:
        assert {name: found[name].tolist() for name in found.files} == {
            "a/b": [0, 1, 2],
            "name": "x",
        }


def test_objects_are_never_pickled(tmp_path):
    with pytest.raises(TypeError, match="odd holds Python objects"):
        files.write_arrays(tmp_path / "posterior.npz", {"odd": np.array([{}, None])})
    assert not list(tmp_path.iterdir())
