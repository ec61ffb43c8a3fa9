"""Temporary folders of processes that were killed go; those in use, and those just made, stay."""

import os
import signal
import subprocess
import sys

import pytest

from vijax.data.corpora.corpus import Corpus
from vijax.data.reading import temporary
from vijax.data.reading.cache import cached_corpus
from vijax.data.reading.temporary import make_working_folder, remove_leftovers, working_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="locks of files are POSIX")
HOLD = """
import runpy, sys, time
from pathlib import Path
folder, _ = runpy.run_path(sys.argv[2])["make_working_folder"]("work-", Path(sys.argv[1]))
(folder / "half.npy").write_bytes(b"x" * 100)
print(folder, flush=True)
time.sleep(60)
"""


def aged(folder, seconds=3600.0):
    os.utime(folder, (folder.stat().st_atime - seconds, folder.stat().st_mtime - seconds))
    return folder


@pytest.fixture
def held(tmp_path):
    """A folder that another process uses, and that process."""
    command = [sys.executable, "-c", HOLD, str(tmp_path), temporary.__file__]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        name = process.stdout.readline().strip()
        yield aged(tmp_path / os.path.basename(name)), process
        process.kill()


def test_what_a_killed_process_left_goes_and_what_is_used_stays(held, tmp_path):
    folder, process = held
    (tmp_path / "other").mkdir()
    aged(tmp_path / "other")
    remove_leftovers("work-", tmp_path)
    assert (folder / "half.npy").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    remove_leftovers("work-", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_folder_just_made_stays(tmp_path):
    (tmp_path / "work-young").mkdir()
    aged(tmp_path / "work-young", temporary.GRACE_SECONDS / 2)
    remove_leftovers("work-", tmp_path)
    assert (tmp_path / "work-young").exists()
    aged(tmp_path / "work-young", temporary.GRACE_SECONDS)
    remove_leftovers("work-", tmp_path)
    assert not (tmp_path / "work-young").exists()


def test_links_are_not_followed(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "work-link").symlink_to(tmp_path / "precious")
    (tmp_path / "work-lock").mkdir()
    (tmp_path / "work-lock" / temporary.LOCK).symlink_to(tmp_path / "precious.txt")
    aged(tmp_path / "work-lock")
    os.utime(tmp_path / "work-link", (0, 0), follow_symlinks=False)
    remove_leftovers("work-", tmp_path)
    assert (tmp_path / "precious").exists()
    assert not (tmp_path / "precious.txt").exists()


def test_a_folder_goes_when_it_is_done_with(tmp_path):
    with working_folder("work-", tmp_path) as folder:
        assert folder.is_dir()
        aged(folder)
        remove_leftovers("work-", tmp_path)
        assert folder.is_dir()
    assert not folder.exists()
    folder, remove = make_working_folder("work-", tmp_path)
    remove()
    remove()
    assert not folder.exists()


def test_where_there_are_no_locks_age_alone_tells(tmp_path, monkeypatch):
    monkeypatch.setattr(temporary, "_has_locks", lambda: False)
    for name, age in (("work-new", 3600.0), ("work-old", temporary.GRACE_SECONDS_WITHOUT_LOCKS + 60)):
        (tmp_path / name).mkdir()
        aged(tmp_path / name, age)
    with working_folder("work-", tmp_path):
        assert not (tmp_path / "work-old").exists()
        assert (tmp_path / "work-new").exists()


def test_building_a_corpus_clears_what_was_left_in_the_cache(tmp_path):
    left = tmp_path / "corpora" / "building-left"
    left.mkdir(parents=True)
    (left / "indices.npy").write_bytes(b"half")
    aged(left)
    cached_corpus("x", "key", lambda folder: Corpus.open(Corpus.from_counts([[1, 2]]).save(folder)), tmp_path)
    (built,) = (tmp_path / "corpora").iterdir()
    assert built.name.startswith("x-")
