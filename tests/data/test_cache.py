"""Temporary folders of processes that were killed go; those of others, and young ones, stay."""

import os
from pathlib import Path

import pytest

from vijax.data.corpora.corpus import Corpus
from vijax.data.reading.cache import A_WEEK, cache_folder, cached_corpus, working_folder


def test_cache_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("VIJAX_CACHE", "/somewhere")
    assert cache_folder() == Path("/somewhere")
    monkeypatch.delenv("VIJAX_CACHE")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/xdg/vijax")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "vijax"


def test_corpus_is_built_once_per_key(tmp_path):
    built = []

    def build(folder):
        built.append(folder)
        return Corpus.open(Corpus.from_counts([[1, 2]]).save(folder))

    for key in ("a", "a", "b"):
        assert cached_corpus("x", key, build, tmp_path).num_tokens == 3
    assert len(built) == 2


def test_failed_build_leaves_nothing(tmp_path):
    def build(folder):
        Corpus.from_counts([[1, 2]]).save(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cached_corpus("x", "key", build, tmp_path)
    assert list((tmp_path / "corpora").iterdir()) == []


def aged(folder, seconds=A_WEEK + 60):
    os.utime(folder, (folder.stat().st_atime - seconds, folder.stat().st_mtime - seconds))
    return folder


def test_what_was_left_a_week_ago_goes_and_what_is_younger_stays(tmp_path):
    for name, seconds in (
        ("work-old", A_WEEK + 60),
        ("work-young", A_WEEK - 60),
        ("other", A_WEEK + 60),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half.npy").write_bytes(b"x" * 100)
        aged(tmp_path / name, seconds)
    with working_folder("work-", tmp_path) as folder:
        assert Path(folder).is_dir()
        assert Path(folder).parent == tmp_path
        assert sorted(path.name for path in tmp_path.iterdir() if path != Path(folder)) == [
            "other",
            "work-young",
        ]
    assert not Path(folder).exists()


def test_links_are_not_followed(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "work-link").symlink_to(tmp_path / "precious")
    os.utime(tmp_path / "work-link", (0, 0), follow_symlinks=False)
    working_folder("work-", tmp_path).cleanup()
    assert (tmp_path / "precious").exists()


def test_building_a_corpus_clears_what_was_left_in_the_cache(tmp_path):
    left = tmp_path / "corpora" / "building-left"
    left.mkdir(parents=True)
    (left / "indices.npy").write_bytes(b"half")
    aged(left)
    cached_corpus(
        "x", "key", lambda folder: Corpus.open(Corpus.from_counts([[1, 2]]).save(folder)), tmp_path
    )
    (built,) = (tmp_path / "corpora").iterdir()
    assert built.name.startswith("x-")
