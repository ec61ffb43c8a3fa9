"""A run folder has one owner: from before the data are read, whoever else comes, however the owner
ends."""

import os
import subprocess
import sys

import pytest

from vijax.app.folder.claim import claim_folder, hold_lock
from vijax.app.folder.run_end import progress_text
from vijax.app.plan.config import ConfigError

HOLD = """
import sys
from pathlib import Path
from vijax.app.folder.claim import claim_folder
with claim_folder(Path(sys.argv[1]), "x"):
    print("held", flush=True)
    sys.stdin.read()
"""


def begin(folder):
    """What there is when a run has begun."""
    (folder / "checkpoints").mkdir()
    (folder / "data.json").write_text("{}")
    (folder / "config.toml").write_text("")


def test_of_two_processes_in_one_new_folder_the_second_is_refused_at_once_and_a_killed_one_leaves_it_free(
    tmp_path,
):
    out = tmp_path / "run"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", HOLD, str(out)]
    first = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert first.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match="another process is at work"), claim_folder(out, "x"):
            raise AssertionError
    finally:
        first.kill()
        first.communicate()
    assert [path.name for path in out.iterdir()] == [".lock"]
    with claim_folder(out, "x") as folder:
        assert folder == out


def test_two_claims_of_one_folder_in_one_process_exclude_each_other_too(tmp_path):
    with claim_folder(tmp_path / "run", "x"):
        with (
            pytest.raises(ConfigError, match="another process"),
            claim_folder(tmp_path / "run", "x"),
        ):
            raise AssertionError
        assert (tmp_path / "run" / ".lock").exists()


def test_numbered_folders_go_up_and_are_each_somebodys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "a[b]"  # no pattern
    with claim_folder(None, name) as one, claim_folder(None, name) as two:
        assert (one.name, two.name) == (f"{name}-1", f"{name}-2")
        begin(one)
        begin(two)
    (tmp_path / "runs" / f"{name}-10").mkdir()
    with claim_folder(None, name) as next_one:
        assert next_one.name == f"{name}-11"


def fail(folder, error, make=lambda folder: None):
    with claim_folder(folder, "x") as taken:
        make(taken)
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError, RuntimeError])
def test_what_fails_before_the_run_exists_leaves_nothing(tmp_path, error):
    with pytest.raises(error):
        fail(tmp_path / "a" / "b" / "run", error, lambda folder: (folder / "checkpoints").mkdir())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_stays(tmp_path):
    with pytest.raises(ValueError, match="wrong"):
        fail(tmp_path, ValueError("wrong"))
    assert list(tmp_path.iterdir()) == []


def test_wrong_input_found_late_leaves_nothing_and_other_ends_leave_a_run_to_go_on_with(tmp_path):
    def save(folder):
        begin(folder)
        (folder / "checkpoints" / "step_00000001.npz").write_bytes(b"")

    with pytest.raises(ValueError, match="late"):
        fail(tmp_path / "one", ValueError("late"), begin)
    assert not (tmp_path / "one").exists()
    with pytest.raises(KeyboardInterrupt):
        fail(tmp_path / "two", KeyboardInterrupt, begin)
    assert (tmp_path / "two" / "config.toml").exists()
    with pytest.raises(ValueError, match="late"):
        fail(tmp_path / "three", ValueError("late"), save)
    assert (tmp_path / "three" / "config.toml").exists()


@pytest.mark.parametrize(
    "names", [["config.toml"], ["vocabulary.txt"], ["notes.md"], [".lock", "notes.md"]]
)
def test_what_is_not_vijaxs_own_beginning_is_never_written_over(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("mine")
    with (
        pytest.raises(ConfigError, match="exists: name another folder"),
        claim_folder(tmp_path, "x"),
    ):
        raise AssertionError
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


@pytest.mark.parametrize("names", [[".lock"], [".lock", "versions.json", ".data.json.7.tmp"], []])
def test_a_run_that_was_killed_while_it_began_can_be_begun_again(tmp_path, names):
    for name in names:
        (tmp_path / name).write_text("")
    with claim_folder(tmp_path, "x") as folder:
        begin(folder)


def test_a_lock_that_is_a_link_is_not_opened(tmp_path):
    (tmp_path / "precious").write_text("keep me")
    (tmp_path / ".lock").symlink_to("precious")
    with (
        pytest.raises(ConfigError, match="is a link, which vijax never makes; remove it"),
        hold_lock(tmp_path),
    ):
        raise AssertionError
    assert (tmp_path / "precious").read_text() == "keep me"


@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() == 0, reason="who may write everywhere is not refused"
)
def test_a_folder_that_cannot_be_written_to_is_named_with_a_remedy(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with (
            pytest.raises(OSError, match=r"could not be written to .*copy the folder to where"),
            hold_lock(tmp_path),
        ):
            raise AssertionError
    finally:
        tmp_path.chmod(0o700)


def test_the_remedy_is_that_of_the_error(tmp_path):
    from vijax.app.folder.claim import unwritable

    assert "vijax resume" in str(unwritable(tmp_path, OSError(28, "No space left on device")))
    assert "make room" in str(unwritable(tmp_path, OSError(28, "No space left on device")))
    assert "cp -r" in str(unwritable(tmp_path, OSError(30, "Read-only file system")))


def test_what_is_saved_is_said_rightly(tmp_path):
    assert progress_text(tmp_path) == "stopped before anything was saved"
    begin(tmp_path)
    assert (
        progress_text(tmp_path)
        == f"stopped before the first checkpoint. Begin again: vijax resume {tmp_path}"
    )
    (tmp_path / "checkpoints" / "step_00001234.npz").write_bytes(b"")
    assert (
        progress_text(tmp_path)
        == f"stopped; saved up to step 1,234. Go on: vijax resume {tmp_path}"
    )
    (tmp_path / "result.json").write_text("{}")
    assert "the result is saved" in progress_text(tmp_path)
